"""Claims on losses and their selection, on pages of five: Figure 3 and Section 6.2 of the paper."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from counterrank.experiments.claims.checks import Check, Rule, at_least, at_most, beyond, within
from counterrank.experiments.claims.click_numbers import many_clicks, too_few
from counterrank.experiments.claims.conclusion import Claim, Setting, clicks_text, conclude, plain_percent
from counterrank.experiments.claims.query_length import are_long, are_short, why_neither, why_not_long
from counterrank.experiments.claims.readings import FULL, Figure, Panel, against

HINGE, LOGISTIC, TRUNCATED = "dcg-hinge", "dcg-logistic", "lambdaloss-truncated"
FULL_DCG, AT_K = "lambdaloss-dcg", "lambdaloss-dcg-at-k"
LOSSES = (HINGE, LOGISTIC, FULL_DCG, AT_K, TRUNCATED)
SELECTION = "selection"

FEW_CLICKS = 10**5
"""Below this clicks are few: so the paper says of the logistic bound."""

ENOUGH_CLICKS = 10**6
"""From here on a selection has enough of them. The paper gives no number; its mistakes are on the left of the plot."""


def loss_claims(figure: Figure, setting: Setting) -> list[dict[str, Any]]:
    """All claims on Figure 3, in the paper's order."""
    return [
        _differences(figure, setting),
        _no_advantage(figure, setting),
        _hinge_good(figure, setting),
        _logistic_poor(figure, setting),
        _truncated_best(figure, setting),
        _logistic_first(figure, setting),
        _selects_well(figure, setting),
        _selects_badly(figure, setting),
        _like_supervised(figure, setting),
    ]


def _dcg(figure: Figure) -> Panel:
    return figure.panel("DCG@")


def _at_the_end(figure: Figure, one: str, other: str, rule: Rule) -> list[Check]:
    """One loss against another with the most clicks."""
    panel = _dcg(figure)
    return [
        Check(
            f"{panel.metric} of {one} against {other} at {clicks_text(most)} clicks",
            against(panel.at(one, most), panel.at(other, most)),
            rule,
        )
        for most in many_clicks(panel)
    ]


def _others(loss: str) -> list[str]:
    return [other for other in LOSSES if other != loss]


def _differences(figure: Figure, setting: Setting) -> dict[str, Any]:
    margin, lack = setting.margin, why_neither(setting)
    claim = Claim(
        "losses-differ-where-queries-are-long",
        f"With the most clicks the losses differ by no more than {plain_percent(margin)} from each other where queries"
        f" are short, and some of them by more than {plain_percent(margin)} where they are long.",
        "Section 6.2, Figure 3 (short: Yahoo, long: MSLR)",
        somewhere=are_long(setting),
    )
    rule = within(margin) if are_short(setting) else beyond(margin)
    pairs = [] if lack else combinations(LOSSES, 2)
    checks = [check for one, other in pairs for check in _at_the_end(figure, one, other, rule)]
    return conclude(claim, figure, checks, setting, lack=lack or too_few(_dcg(figure)))


def _no_advantage(figure: Figure, setting: Setting) -> dict[str, Any]:
    claim = Claim(
        "no-advantage-of-lambdaloss-at-k",
        "With the most clicks LambdaLoss for the cut DCG is not ahead of LambdaLoss for the full DCG by more than"
        f" {plain_percent(setting.margin)}.",
        "Section 6.2, Figure 3",
    )
    checks = _at_the_end(figure, AT_K, FULL_DCG, at_most(setting.margin))
    return conclude(claim, figure, checks, setting, lack=too_few(_dcg(figure)))


def _hinge_good(figure: Figure, setting: Setting) -> dict[str, Any]:
    claim = Claim(
        "hinge-monotonic-good-with-many-clicks",
        "With the most clicks the monotonic loss with the linear bound is behind no other loss by more than"
        f" {plain_percent(setting.margin)}.",
        "Section 6.2, Figure 3",
    )
    rule = at_least(-setting.margin)
    checks = [check for other in _others(HINGE) for check in _at_the_end(figure, HINGE, other, rule)]
    return conclude(claim, figure, checks, setting, lack=too_few(_dcg(figure)))


def _logistic_poor(figure: Figure, setting: Setting) -> dict[str, Any]:
    claim = Claim(
        "logistic-monotonic-poor-with-many-clicks",
        "With the most clicks the monotonic loss with the logistic bound is more than"
        f" {plain_percent(setting.margin)} behind the linear bound, and behind truncated LambdaLoss.",
        "Section 6.2, Figure 3 (MSLR only)",
    )
    rule, lack = at_most(-setting.margin), why_not_long(setting)
    others = () if lack else (HINGE, TRUNCATED)
    checks = [check for other in others for check in _at_the_end(figure, LOGISTIC, other, rule)]
    return conclude(claim, figure, checks, setting, lack=lack or too_few(_dcg(figure)))


def _truncated_best(figure: Figure, setting: Setting) -> dict[str, Any]:
    """A tie is best too: another loss has to be ahead by more than what is noticeable."""
    claim = Claim(
        "truncated-lambdaloss-best",
        "With the most clicks no other loss is ahead of truncated LambdaLoss by more than"
        f" {plain_percent(setting.noticeable)}.",
        "Section 6.2, Figure 3",
    )
    rule = at_least(-setting.noticeable)
    checks = [check for other in _others(TRUNCATED) for check in _at_the_end(figure, TRUNCATED, other, rule)]
    return conclude(claim, figure, checks, setting, lack=too_few(_dcg(figure)))


def _few(panel: Panel) -> list[float]:
    return [clicks for clicks in panel.xs() if clicks < FEW_CLICKS]


def _no_few() -> str:
    return f"the grid has nothing below {clicks_text(FEW_CLICKS)} clicks"


def _logistic_first(figure: Figure, setting: Setting) -> dict[str, Any]:
    """The mean over the grid, since at a hundred clicks no loss learns and all are alike."""
    claim = Claim(
        "logistic-monotonic-best-with-few-clicks",
        f"Averaged over fewer than {clicks_text(FEW_CLICKS)} clicks, the monotonic loss with the logistic bound is"
        " ahead of every other loss.",
        "Section 6.2, Figure 3 (MSLR only)",
    )
    panel = _dcg(figure)
    few, rule = _few(panel), at_least(0.0, setting.noticeable)
    lack = why_not_long(setting) or ("" if few else _no_few())
    where = f"mean over fewer than {clicks_text(FEW_CLICKS)} clicks"
    checks = [
        Check(
            f"{panel.metric} of {LOGISTIC} against {other}, {where}",
            against(panel.mean_over(LOGISTIC, few), panel.mean_over(other, few)),
            rule,
        )
        for other in _others(LOGISTIC)
        if not lack
    ]
    return conclude(claim, figure, checks, setting, lack=lack)


def _candidates(panel: Panel) -> list[str]:
    """The losses that were run, among which selection had to choose."""
    return [loss for loss in LOSSES if panel.points.get(loss)]


def _selects_well(figure: Figure, setting: Setting) -> dict[str, Any]:
    """Against every loss by itself, not against the best: that one had luck in the very runs it is compared on.

    Nor against the best of each run: no selection could know the luck of the test queries.
    """
    claim = Claim(
        "selection-best-with-enough-clicks",
        f"From {clicks_text(ENOUGH_CLICKS)} clicks on, the loss selected from clicks is behind none of the losses by"
        f" more than {plain_percent(setting.margin)} on average.",
        "Section 6.2, Figure 3",
    )
    panel = _dcg(figure)
    enough = [clicks for clicks in panel.xs() if clicks >= ENOUGH_CLICKS]
    checks = [
        Check(
            f"{panel.metric} of the selected loss against {loss} at {clicks_text(clicks)} clicks",
            against(panel.at(SELECTION, clicks), panel.at(loss, clicks)),
            at_least(-setting.margin),
        )
        for clicks in enough
        for loss in _candidates(panel)
    ]
    return conclude(claim, figure, checks, setting, note=_picked(panel, enough), lack=too_few(panel))


def _selects_badly(figure: Figure, setting: Setting) -> dict[str, Any]:
    claim = Claim(
        "selection-errs-with-few-clicks",
        f"Averaged over fewer than {clicks_text(FEW_CLICKS)} clicks, there is a loss that is ahead of the selected one"
        f" by more than {plain_percent(setting.noticeable)}.",
        "Section 6.2, Figure 3",
        somewhere=True,
    )
    panel = _dcg(figure)
    few = _few(panel)
    where = f"mean over fewer than {clicks_text(FEW_CLICKS)} clicks"
    checks = [
        Check(
            f"{panel.metric} of {loss} against the selected loss, {where}",
            against(panel.mean_over(loss, few), panel.mean_over(SELECTION, few)),
            at_least(setting.noticeable),
        )
        for loss in _candidates(panel)
        if few
    ]
    return conclude(claim, figure, checks, setting, note=_picked(panel, few), lack=_no_few())


def _best(panel: Panel, clicks: float) -> str | None:
    """The loss with the best mean over the runs that have all; None where there is no such run."""
    losses = _candidates(panel)
    values = np.array([panel.at(loss, clicks) for loss in losses]).reshape(len(losses), -1)
    whole = values[:, np.isfinite(values).all(axis=0)]
    return losses[int(np.argmax(whole.mean(axis=1)))] if whole.size else None


def _picked(panel: Panel, grid: list[float]) -> str:
    """How often that loss was chosen, for a reader."""
    chosen = [(_best(panel, clicks), loss) for clicks in grid for loss in panel.chosen.get(clicks, ())]
    made = [best == loss for best, loss in chosen if loss is not None]
    return f"the loss best on average was chosen {sum(made)} of {len(made)} times" if made else ""


def _like_supervised(figure: Figure, setting: Setting) -> dict[str, Any]:
    claim = Claim(
        "truncated-lambdaloss-like-supervised",
        f"With the most clicks truncated LambdaLoss is within {plain_percent(setting.margin)} of learning from labels,"
        " or better.",
        "Section 6.2, Figure 3",
    )
    panel = _dcg(figure)
    checks = [
        Check(
            f"{panel.metric} of {TRUNCATED} against {FULL} at {clicks_text(most)} clicks",
            against(panel.at(TRUNCATED, most), panel.level(FULL)),
            at_least(-setting.margin),
        )
        for most in many_clicks(panel)
    ]
    return conclude(claim, figure, checks, setting, lack=too_few(panel))
