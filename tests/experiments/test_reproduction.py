"""What a reproduction of the paper does: its settings, the presets, and the grid of cells that they make."""

import dataclasses
import math
from types import MappingProxyType

import pytest

from counterrank.common.errors import CounterrankError
from counterrank.estimators import clip_schedule
from counterrank.experiments.cells import Cell, all_cells, grid
from counterrank.experiments.settings import (
    FIGURES,
    LOSSES,
    QUICK,
    Settings,
    choose_settings,
    clips_by_rule,
    known_settings,
    preset_names,
    read_preset,
)

BAD_SETTINGS = [
    ({"figures": ()}, r"^figures=: expected some of 1, 2, 3, 4, in that order"),
    ({"figures": (0, 1)}, r"^figures=0,1: expected some of"),
    ({"figures": (7,)}, r"^figures=7: "),
    ({"figures": (4, 5)}, r"^figures=4,5: expected some of 1, 2, 3, 4, in that order; or 5 alone"),
    ({"figures": (2, 1)}, r"^figures=2,1: "),
    ({"figures": (1, 1)}, r"^figures=1,1: "),
    ({"figures": "12"}, r"^figures='12': "),
    ({"figures": 1}, r"^figures=1: "),
    ({"runs": 0}, r"^runs=0: expected a whole number of at least 1"),
    ({"runs": 2.0}, r"^runs=2\.0: "),
    ({"runs": True}, r"^runs=True: "),
    ({"runs": "5"}, r"^runs='5': "),
    ({"seed": -1}, r"^seed=-1: expected a whole number of at least 0"),
    ({"ks": (0, 1)}, r"^ks=0,1: expected page sizes from 1, each larger"),
    ({"ks": (5, 5)}, r"^ks=5,5: "),
    ({"ks": (1, 2.5)}, r"^ks=1,2\.5: "),
    ({"ks": [[1]]}, r"^ks=\[\[1\]\]: "),
    ({"clicks_by_k": 0}, r"^clicks-by-k=0: expected a number of clicks"),
    ({"clicks_by_k": 1e8}, r"^clicks-by-k=100000000\.0: "),
    ({"clicks": ()}, r"^clicks=: expected numbers of clicks"),
    ({"clicks": (1000, 100)}, r"^clicks=1000,100: "),
    ({"clicks": (10**13,)}, r"^clicks=10000000000000: "),
    ({"sessions": ()}, r"^sessions=: expected numbers of sessions from 2"),
    ({"sessions": (1, 10)}, r"^sessions=1,10: "),
    ({"sessions": (10, 10)}, r"^sessions=10,10: "),
    ({"estimators": ()}, r"^estimators=: expected different estimators, at least one"),
    ({"estimators": "auto"}, r"^estimators='auto': "),
    ({"estimators": ("shrinkage:strength=2", "shrinkage:strength=2.0")}, r"^estimators=shrinkage:strength=2,shr"),
    ({"estimators": ("affine",)}, r"^estimators: 'affine'; expected some of policy-aware:clip=\.\.\.,folds="),
    ({"targets": 0.5}, r"^targets=0\.5: expected a share of the gap"),
    ({"targets": {"some": 0.5}}, r"^targets=\{'some': 0\.5\}: "),
    ({"targets": {500: 62}}, r"^targets=\{500: 62\}: "),
    ({"page": 0}, r"^page=0: "),
    ({"cutoff": 0}, r"^cutoff=0: "),
    ({"losses": ()}, r"^losses=: expected different losses, at least one"),
    ({"losses": ("dcg-hinge", "dcg-hinge")}, r"^losses=dcg-hinge,dcg-hinge: "),
    ({"losses": ("hinge",)}, r"^loss='hinge': expected one of arp-hinge"),
    ({"losses": "dcg-hinge"}, r"^losses='dcg-hinge': "),
    ({"losses": 3}, r"^losses=3: "),
    ({"losses": (["dcg-hinge"],)}, r"^losses=\['dcg-hinge'\]: "),
    ({"policies": ("top:k=5",)}, r"^policy 'top:k=5': unknown; expected one of"),
    ({"policies": ("deterministic:k=5",) * 2}, r"^policies=deterministic:k=5,deterministic:k=5: expected different"),
    ({"policies": "deterministic:k=5"}, r"^policies='deterministic:k=5': "),
    ({"policies": 3}, r"^policies=3: "),
    ({"relevance_threshold": math.nan}, r"^relevance-threshold=nan: expected a number"),
    ({"relevance_threshold": "3"}, r"^relevance-threshold='3': "),
    ({"relevance_threshold": math.inf}, r"^relevance-threshold=inf: "),
    ({"production_share": 0}, r"^production-share=0: expected a number above 0 and up to 1"),
    ({"production_share": 1.01}, r"^production-share=1\.01: "),
    ({"production_norm": 0.0}, r"^production-norm=0\.0: expected a number above 0"),
    ({"production_seed": -1}, r"^production-seed=-1: "),
    ({"eta": -0.5}, r"^eta=-0\.5: expected a number of at least 0"),
    ({"eta": 10**400}, r"^eta=1000"),
    ({"noise": (0.5, 0.5)}, r"^noise=0\.5,0\.5: expected 2 probabilities, rising"),
    ({"noise": (0.1,)}, r"^noise=0\.1: "),
    ({"noise": (0.1, 1.5)}, r"^noise=0\.1,1\.5: "),
    ({"noise": 0.1}, r"^noise=0\.1: "),
    ({"noise": "01"}, r"^noise='01': "),
    ({"validation_share": 0.0}, r"^validation-share=0\.0: expected a number above 0"),
    ({"max_epochs": 0}, r"^max-epochs=0: "),
    ({"patience": 0}, r"^patience=0: "),
    ({"tolerance": -1e-9}, r"^tolerance=-1e-09: "),
    ({"learning_rate": 0}, r"^learning-rate=0: expected 'auto' or a number above 0"),
    ({"learning_rate": "fast"}, r"^learning-rate='fast': "),
    ({"learning_rate": math.nan}, r"^learning-rate=nan: "),
    ({"learning_rates": {"dcg-hinge": -1}}, r"^learning-rates=\{'dcg-hinge': -1\}: expected a number for each loss"),
    ({"learning_rates": 3}, r"^learning-rates=3: "),
    ({"learning_rates": {"hinge": 1.0}}, r"^loss='hinge': expected one of"),
    ({"learning_rates": {"figure3/hinge": 1.0}}, r"^loss='hinge': expected one of"),
    (
        {"learning_rates": {"figure5/dcg-hinge": 1.0}},
        r"^learning-rates: 'figure5/dcg-hinge'; expected a loss, or figure3/",
    ),
    ({"clip": "most"}, r"^clip='most': expected grid, none, a number above 0, or schedule:a=-3,b=32"),
    ({"clip": "0"}, r"^clip='0': "),
    ({"clip": "inf"}, r"^clip='inf': "),
    ({"clip": "nan"}, r"^clip='nan': "),
    ({"clip": 5}, r"^clip=5: expected a text"),
    ({"clip": "schedule:"}, r"^clip='schedule:': "),
    ({"clip": "schedule:a=1"}, r"^clip='schedule:a=1': "),
    ({"clip": "schedule:a=1,b=2,c=3"}, r"^clip='schedule:a=1,b=2,c=3': "),
    ({"clip": "schedule:a=nan,b=2"}, r"^(clip|a)="),
    ({"clips": 0}, r"^clips=0: "),
    ({"queries": 9}, r"^queries=9: expected a whole number of at least 10"),
]


@pytest.mark.parametrize(("settings", "message"), BAD_SETTINGS)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(CounterrankError, match=message):
        Settings(**settings)


def test_the_defaults_are_the_papers():
    settings = Settings()
    assert (settings.figures, settings.losses) == (FIGURES, LOSSES)
    assert settings.clicks == tuple(10**c for c in range(2, 9))
    assert (settings.ks[0], settings.ks[-1], settings.clicks_by_k, settings.page) == (1, 100, 10**8, 5)
    assert (settings.relevance_threshold, settings.production_share, settings.production_norm) == (3.0, 0.01, 5.0)
    assert (settings.noise, settings.eta, settings.validation_share) == ((0.1, 1.0), 1.0, 0.15)
    assert (settings.max_epochs, settings.learning_rate, settings.clip) == (1000, "auto", "grid")


def test_equal_settings_are_written_alike():
    """Names of cells are made of settings: 3 and 3.0 must not give two names to one cell."""
    steps = {"arp-hinge": 1, "dcg-hinge": "auto"}
    whole = Settings(
        relevance_threshold=3, production_norm=5, eta=1, noise=[0, 1], learning_rate=2, learning_rates=steps
    )
    exact = Settings(noise=(0.0, 1.0), learning_rate=2.0, learning_rates=MappingProxyType({**steps, "arp-hinge": 1.0}))
    assert whole == exact
    assert repr(whole) == repr(exact)
    assert Settings(ks=[1, 2]).ks == (1, 2)
    keys = [{cell.key("") for cell in all_cells(grid(settings))} for settings in (whole, exact)]
    assert keys[0] == keys[1]


def test_settings_survive_json():
    settings = Settings(
        learning_rates={"dcg-hinge": 2}, policies=("deterministic:k=3",), production_seed=4, tolerance=0
    )
    assert Settings(**known_settings(settings.plain(), "here")) == settings


@pytest.mark.parametrize(
    ("loss", "clicks", "patience", "tolerance"),
    [
        ("arp-hinge", 100, 20 + 10 * 2, 1e-4),
        ("arp-logistic", 10**8, 20 + 10 * 8, 1e-4),
        ("lambdaloss-truncated", 1, 30, 1e-6),
        ("lambdaloss-truncated", 10**5, 30 + 10 * 5, 1e-6),
        ("dcg-hinge", 10**8, 30 + 10 * 8, 1e-6),
        ("dcg-hinge", 0, 30 + 10 * 8, 1e-6),  # labels
        ("dcg-hinge", 20_000, 73, 1e-6),  # 30 + 10 * 4.301
    ],
)
def test_patience_and_tolerance(loss, clicks, patience, tolerance):
    assert Settings().patience_for(loss, clicks) == patience
    assert Settings().tolerance_for(loss) == tolerance
    assert Settings(patience=7).patience_for(loss, clicks) == 7
    assert Settings(tolerance=0).tolerance_for(loss) == 0.0


def test_learning_rates_go_from_the_special_to_the_general():
    settings = Settings(
        learning_rate=1, learning_rates={"dcg-hinge": 2, "figure3/dcg-hinge": 3, "figure4/arp-hinge": 4}
    )
    assert [settings.learning_rate_for(figure, "dcg-hinge") for figure in FIGURES] == [2.0, 2.0, 3.0, 2.0]
    assert [settings.learning_rate_for(figure, "arp-hinge") for figure in FIGURES] == [1.0, 1.0, 1.0, 4.0]
    assert Settings().learning_rate_for(1, "arp-hinge") == "auto"


def test_the_old_names_of_learning_rates_still_work(tmp_path):
    with pytest.warns(DeprecationWarning, match="Settings: step_sizes? is deprecated; use learning_rates?"):
        old = Settings(step_size=2.0, step_sizes={"dcg-hinge": 3})
    assert old == Settings(learning_rate=2.0, learning_rates={"dcg-hinge": 3})
    with pytest.warns(DeprecationWarning, match="use learning_rates"):
        assert old.step_sizes == {"dcg-hinge": 3.0}
    (tmp_path / "old.toml").write_text("step_size = 2\n[step_sizes]\ndcg-hinge = 3\n")
    assert choose_settings(preset=str(tmp_path / "old.toml")) == old
    assert choose_settings(given={"step_size": 2, "step_sizes": {"dcg-hinge": 3}}) == old
    assert old.plain()["step_size"] == 2.0  # run folders keep the name, and so do keys of cells
    assert all_cells(grid(old))[0].plain()["step_size"] == 2.0


def test_quick_is_a_small_part_of_the_experiments():
    settings = Settings(**QUICK)
    assert {name: getattr(settings, name) for name in QUICK} == QUICK
    one, whole = (len(all_cells(grid(dataclasses.replace(each, runs=1)))) for each in (settings, Settings()))
    assert one < whole / 3


# Presets -------------------------------------------------------------------------------------------------------------

# of the authors: ARP hinge and truncated LambdaLoss of figures 1 and 2, then the losses of figure 3, in their order
AUTHORS = {
    "paper-yahoo": (1, 5, (100, 100, 50, 50, 10), -3, 32),
    "paper-mslr": (0.5, 50, (500, 50, 50, 50, 50), -57, 86),
}


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_a_setting(name):
    settings = Settings(**read_preset(name))
    assert settings.page == settings.cutoff == 5
    assert grid(settings)


def test_the_presets():
    few = ["few-clicks", "few-clicks-mq2008", "few-clicks-mslr-sample", "few-clicks-ohsumed"]
    safe = ["safety", "safety-mq2008", "safety-ohsumed"]
    assert preset_names() == [*few, "mq2008", "mslr-sample", "ohsumed", "paper-mslr", "paper-yahoo", *safe]


@pytest.mark.parametrize("name", AUTHORS)
def test_the_authors_learning_rates_and_clips(name):
    arp, dcg, by_loss, a, b = AUTHORS[name]
    settings = Settings(**read_preset(name))
    assert [settings.learning_rate_for(figure, "arp-hinge") for figure in (1, 2)] == [arp, arp]
    assert [settings.learning_rate_for(figure, "lambdaloss-truncated") for figure in (1, 2, 4)] == [dcg, dcg, dcg]
    assert tuple(settings.learning_rate_for(3, loss) for loss in LOSSES) == by_loss
    assert (settings.relevance_threshold, settings.production_share) == (3.0, 0.01)
    for n in (100, 10**4, 10**6, 10**8):
        clips = clips_by_rule(settings.clip, settings.clips, "policy-aware", None, n)
        assert clips == [clip_schedule(n, a, b)]
    # no learning rate is searched
    assert all(isinstance(cell.learning_rate, float) for cell in all_cells(grid(settings)))


@pytest.mark.parametrize("name", ["ohsumed", "mq2008", "mslr-sample"])
def test_presets_of_small_data(name):
    settings = Settings(**read_preset(name))
    assert settings.relevance_threshold in (1.0, 2.0)
    assert (settings.clip, settings.learning_rate) == ("grid", "auto")


def test_a_preset_of_ones_own(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('ks = [1, 4]\nnoise = [0, 0.5]\nclip = "7"\n[learning_rates]\n"figure3/dcg-hinge" = 2\n')
    settings = Settings(**read_preset(str(file)))
    assert (settings.ks, settings.noise, settings.clip) == ((1, 4), (0.0, 0.5), "7")
    assert settings.learning_rates == {"figure3/dcg-hinge": 2.0}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"ks = [1,", r"mine\.toml: not TOML \("),
        (b"\xff\xfe", r"mine\.toml: not TOML \("),
        (b"k = 3", r"mine\.toml: no setting 'k'; expected some of figures, runs, "),
        (b"[settings]\nruns = 3", r"mine\.toml: no setting 'settings'"),
        (b"runs = 1979-05-27", r"^runs=datetime\.date"),
        (b"clip = 3", r"^clip=3: expected a text"),
        (b"losses = 1", r"^losses=1: "),
        (b"noise = 0.5", r"^noise=0\.5: "),
        (b"queries = [10]", r"^queries=10: "),
    ],
)
def test_bad_presets_are_refused(tmp_path, content, message):
    (tmp_path / "mine.toml").write_bytes(content)
    with pytest.raises(CounterrankError, match=message):
        Settings(**read_preset(str(tmp_path / "mine.toml")))


@pytest.mark.parametrize("name", ["paper-istella", "", ".", "../presets/ohsumed", "ohsumed.toml"])
def test_unknown_presets_are_refused(name):
    with pytest.raises(
        CounterrankError, match=r"^preset '.*': no such file; expected one of few-clicks, .*mq2008, .*TOML"
    ):
        read_preset(name)


# The grid ------------------------------------------------------------------------------------------------------------

CURVES = ["policy-aware", "policy-oblivious+random", "policy-oblivious", "rerank+random", "rerank"]
LEVELS = ["production", "full-information"]


def points_of(settings, **where):
    return [p for p in grid(settings) if all(getattr(p, name) == value for name, value in where.items())]


def test_points_of_figure_1():
    settings = Settings(figures=(1,), ks=(1, 5, 20), clicks_by_k=1000, runs=2)
    assert {point.panel for point in grid(settings)} == {"arp", "dcg@5"}
    for panel, loss in (("arp", "arp-hinge"), ("dcg@5", "lambdaloss-truncated")):
        assert [point.series for point in points_of(settings, panel=panel, x=5)] == CURVES
        assert [point.series for point in points_of(settings, panel=panel, x=1)] == CURVES[:3]  # no order in one result
        assert [point.series for point in points_of(settings, panel=panel, x=None)] == LEVELS
        for point in points_of(settings, panel=panel):
            if point.x is not None:
                shown = "replace-last" if "+" in point.series or point.series == "policy-aware" else "deterministic"
                expected = (f"{shown}:k={point.x}", point.x, 1000, loss, point.series.removesuffix("+random"))
                for cell in point.cells:
                    assert (cell.policy, cell.page, cell.clicks, cell.loss, cell.estimator) == expected
    assert all([cell.run for cell in point.cells] == [0, 1] for point in grid(settings))


def test_points_of_figure_2():
    settings = Settings(figures=(2,), clicks=(10, 1000), page=3, cutoff=7, runs=1)
    for panel in ("arp", "dcg@7"):
        assert [point.series for point in points_of(settings, panel=panel, x=10)] == [*CURVES, "no-cutoff"]
        assert [point.x for point in points_of(settings, panel=panel, series="no-cutoff")] == [10, 1000]
    cells = [point.cells[0] for point in grid(settings)]
    assert {(cell.policy, cell.page) for cell in cells} == {
        ("replace-last:k=3", 3),
        ("deterministic:k=3", 3),
        ("deterministic", None),  # no cutoff
        ("", None),  # levels
    }


def test_no_rerank_on_pages_of_one_in_figure_2():
    series = {point.series for point in grid(Settings(figures=(2,), page=1))}
    assert series == {*CURVES[:3], "no-cutoff", *LEVELS}


def test_points_of_figure_3():
    settings = Settings(figures=(3,), clicks=(10, 1000), losses=("dcg-hinge", "arp-hinge", "lambdaloss-dcg-at-k"))
    curves = [point for point in grid(settings) if point.x is not None]
    assert [(point.series, point.x) for point in curves] == [(loss, n) for loss in settings.losses for n in (10, 1000)]
    for point in curves:
        for cell in point.cells:
            assert (cell.loss, cell.estimator, cell.policy) == (point.series, "policy-aware", "replace-last:k=5")
            assert cell.metric == "dcg@5"  # of all losses, or they could not be compared


def test_points_of_figure_4():
    settings = Settings(figures=(4,), clicks=(10,), page=3)
    assert len(settings.logging_policies()) == 6
    assert [point.series for point in grid(settings)] == [*settings.logging_policies(), *LEVELS]
    assert all("k=3" in policy for policy in settings.logging_policies())
    chosen = Settings(figures=(4,), clicks=(10,), policies=("replace-last:k=2", "uniform-insert:k=4"))
    assert [point.cells[0].policy for point in grid(chosen)[:2]] == ["replace-last:k=2", "uniform-insert:k=4"]


def test_cells_that_figures_share_are_run_once():
    settings = Settings(clicks=(100, 10**6), ks=(5,), clicks_by_k=10**6, runs=1)
    cells = {figures: set(all_cells(grid(dataclasses.replace(settings, figures=figures)))) for figures in
             ((1,), (2,), (3,), (4,), (1, 2, 3, 4))}  # fmt: skip
    assert cells[1,] < cells[2,]  # k = 5 after 10^6 clicks
    truncated = {cell for cell in cells[3,] if cell.loss == "lambdaloss-truncated"}
    assert truncated <= cells[2,]
    assert cells[4,] & cells[2,]
    assert cells[1, 2, 3, 4] == cells[1,] | cells[2,] | cells[3,] | cells[4,]
    keys = [cell.key("data") for cell in cells[1, 2, 3, 4]]
    assert len(set(keys)) == len(keys)


def test_learning_rates_of_a_figure_make_cells_of_their_own():
    settings = Settings(clicks=(100,), figures=(2, 3), runs=1, learning_rates={"figure3/lambdaloss-truncated": 10})
    (two,) = points_of(settings, figure=2, panel="dcg@5", series="policy-aware")
    (three,) = points_of(settings, figure=3, series="lambdaloss-truncated")
    assert (two.cells[0].learning_rate, three.cells[0].learning_rate) == ("auto", 10.0)


def test_every_cell_of_every_point_is_among_all_cells_under_its_key():
    settings = Settings(runs=2, learning_rates={"lambdaloss-truncated": 50, "figure3/lambdaloss-truncated": 50.0})
    points = grid(settings, folds=2)
    keys = {cell.key("") for cell in all_cells(points)}
    assert all(cell.key("") in keys for point in points for cell in point.cells)


def test_the_order_of_all_cells():
    cells = all_cells(grid(Settings(clicks=(100, 10**4), ks=(5,), runs=3), folds=2))
    assert len(set(cells)) == len(cells)
    assert [(cell.run, cell.fold) for cell in cells] == sorted((cell.run, cell.fold) for cell in cells)
    first = [cell for cell in cells if (cell.run, cell.fold) == (0, 0)]
    reranks = [cell.estimator == "rerank" for cell in first]
    assert reranks == sorted(reranks, reverse=True)
    for kind in (True, False):
        clicks = [cell.clicks for cell in first if (cell.estimator == "rerank") is kind]
        assert clicks == sorted(clicks, reverse=True)


def other_value(name, value):
    if isinstance(value, str):
        return {"auto": 3.0}.get(value, value + "x")
    if value is None:
        return 1
    return (0.2, 1.0) if isinstance(value, tuple) else value + 1


@pytest.mark.parametrize("name", [known.name for known in dataclasses.fields(Cell)])
def test_keys_differ_with_any_setting(name):
    (cell,) = points_of(Settings(runs=1, clicks=(100,), figures=(3,)), series="dcg-hinge")[0].cells
    other = dataclasses.replace(cell, **{name: other_value(name, getattr(cell, name))})
    assert other.key("data") != cell.key("data")
    assert cell.key("data") != cell.key("other data")
    assert Cell.from_plain(cell.plain()) == cell
    assert Cell.from_plain(cell.plain()).key("data") == cell.key("data")


def test_the_words_for_a_cell():
    settings = Settings(runs=1, clicks=(10**6,), figures=(2,))
    aware, *_, production, _ = (point.cells[0].describe() for point in grid(settings))
    assert aware == "policy-aware, arp-hinge, replace-last:k=5, 1,000,000 clicks, fold 1, run 1"
    assert production == "production, arp-hinge, fold 1, run 1"
