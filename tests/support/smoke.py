"""Uses an installed counterrank for a minute: `python -I smoke.py --version 0.2.0 --fixtures DIR [--extra torch]`.

It stands alone, so that only what is installed is used. Each extra has one feature here: it works where the extra is
installed; where its package is missing, the error says what to install.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

DATA = "synthetic:mslr:queries=40,seed=1"
OLD_RANKERS = {"lambdamart": "lightgbm", "mlp": "torch"}  # the others require no extra


def command(*words: object) -> str:
    program = Path(sysconfig.get_path("scripts"), "counterrank")
    done = subprocess.run([str(program), *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"counterrank {' '.join(map(str, words))}\n{done.stderr}"
    return done.stdout


def check_installation(version: str) -> None:
    import counterrank as cr

    package = Path(cr.__file__).parent
    assert package.is_relative_to(sys.prefix), f"{package}: not what was installed"
    assert cr.__version__ == version, f"version {cr.__version__}; expected {version}"
    assert (package / "py.typed").is_file()
    assert command("--version") == f"counterrank {version}\n"
    for name in ("train", "simulate", "inspect", "estimate"):
        assert name in command("--help")
        assert "Example" in command(name, "--help")


def check_commands() -> None:
    """From clicks to a ranker, an estimate and a page."""
    given = ("--policy", "uniform-insert:k=5", "--logger", "production")
    command("train", DATA, "--share", 0.2, "--max-epochs", 2, "--validation", "none", "--out", "production")
    command("simulate", DATA, *given, "--n-sessions", 20_000, "--held-out", 0.5, "--out", "clicks")
    command("train", DATA, "--clicks", "clicks", "--k", 5, "--max-epochs", 3, "--out", "ranker")
    found = json.loads(command("estimate", "ranker", DATA, "--clicks", "clicks", "--metrics", "dcg@5", "--json"))
    assert "dcg@5" in json.dumps(found)
    command("inspect", "clicks", "--out", "inspection.html")
    page = Path("inspection.html").read_text(encoding="utf-8")
    assert "</style>" in page
    assert "<svg" in page or "<canvas" in page


def check_old_files(fixtures: Path) -> None:
    """Rankers, counts and run folders of version 0.1 mean what they meant."""
    import numpy as np

    import counterrank as cr

    expected = json.loads((fixtures / "expected.json").read_text(encoding="utf-8"))
    data = cr.RankingData.load(fixtures / "data.parquet")
    for name, wanted in expected["rankers"].items():
        extra = OLD_RANKERS.get(name)
        if extra and not find_spec(extra):
            says_what_to_install(extra, lambda name=name: cr.Ranker.load(fixtures / "rankers" / name).predict(data))
            continue
        found = cr.Ranker.load(fixtures / "rankers" / name).predict(data)
        np.testing.assert_allclose(found, wanted["scores"], rtol=0.0, atol=1e-6 * np.abs(wanted["scores"]).max())
    for name, wanted in expected["counts"].items():
        clicks = cr.ClickCounts.load(fixtures / "counts" / name)
        clicks.check_data(data)
        assert clicks.clicks.tolist() == wanted["clicks"]
        assert clicks.impressions.tolist() == wanted["impressions"]
    run = fixtures / "run"
    before = (run / "claims.json").read_text(encoding="utf-8")
    (run / "claims.json").unlink()
    command("report", run)
    verdicts = [
        {each["id"]: each["verdict"] for each in json.loads(text)["claims"]}
        for text in (before, (run / "claims.json").read_text(encoding="utf-8"))
    ]
    assert verdicts[0].items() <= verdicts[1].items()


# Extras --------------------------------------------------------------------------------------------------------------


def _task(fixtures: Path):
    import counterrank as cr

    data = cr.RankingData.load(fixtures / "data.parquet")
    return data, cr.estimators.full_information(data, relevance_threshold=1)


def use_lightgbm(fixtures: Path) -> None:
    import counterrank as cr

    data, weights = _task(fixtures)
    ranker = cr.Ranker(model="lambdamart", k=3, max_epochs=3, params={"min_data_in_leaf": 5}).fit(data, weights)
    assert len(set(ranker.predict(data))) > 1


def use_torch(fixtures: Path) -> None:
    import counterrank as cr

    data, weights = _task(fixtures)
    ranker = cr.Ranker(model="mlp", k=3, max_epochs=2, params={"hidden": [4]}).fit(data, weights)
    assert len(set(ranker.predict(data))) > 1


def use_onnx(fixtures: Path) -> None:
    import counterrank as cr

    cr.export.write(cr.Ranker.load(fixtures / "rankers" / "linear"), "ranker.onnx", to="onnx")
    import onnx

    onnx.checker.check_model("ranker.onnx")


def use_spark(fixtures: Path) -> None:
    import counterrank as cr

    if find_spec("pyspark") and not shutil.which("java"):
        print("        there is no Java: Spark is installed, and not run")
        return
    data, log = _task(fixtures)[0], fixtures / "logs" / "log.parquet"
    found = cr.read_log(log, data, engine="spark", master="local[1]")
    assert found.clicks.tolist() == cr.read_log(log, data).clicks.tolist()


def use_cuda(fixtures: Path) -> None:
    import counterrank as cr
    from counterrank.training.gpu import is_available

    data, weights = _task(fixtures)
    if find_spec("cupy") and not is_available():
        print("        there is no GPU: cupy is installed, and not used")
        return
    cr.fit_many(data, [cr.Member(cr.Ranker(max_epochs=2), weights)], device="cuda")


# by extra: its package, and what it is for
FEATURES = {
    "cuda": ("cupy", use_cuda),
    "lightgbm": ("lightgbm", use_lightgbm),
    "torch": ("torch", use_torch),
    "onnx": ("onnx", use_onnx),
    "spark": ("pyspark", use_spark),
}


def says_what_to_install(extra: str, use) -> None:
    from counterrank import CounterrankError

    said = None
    try:
        use()
    except CounterrankError as error:
        said = str(error)
    assert said is not None, f"extra {extra} is not installed; expected an error that says so"
    assert f"pip install 'counterrank[{extra}]'" in said, said


def check_extras(installed: str | None, fixtures: Path) -> None:
    for extra, (package, use) in FEATURES.items():
        if extra == installed:
            use(fixtures)
        elif not find_spec(package):
            says_what_to_install(extra, lambda use=use: use(fixtures))
        else:
            assert installed, f"{package} is installed without the extra {extra}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", required=True)
    parser.add_argument("--fixtures", required=True, type=Path)
    parser.add_argument("--extra", choices=FEATURES)
    options = parser.parse_args()
    check_installation(options.version)
    if options.extra is None:
        check_commands()
    check_old_files(options.fixtures)
    check_extras(options.extra, options.fixtures)


if __name__ == "__main__":
    main()
