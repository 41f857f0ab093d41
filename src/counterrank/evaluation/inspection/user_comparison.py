"""Which user model a log supports: models fitted on one part of the pages, compared by their predictions on the other.

A prediction is P(click | what was clicked above on the page). All models have the same treatment of relevance (see
`user_fits`), so that they differ by what they say of users alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from counterrank.clicks.page_sample import PageSample
from counterrank.common.checks import FloatArray, IntArray, check_confidence
from counterrank.common.notebook import Table
from counterrank.common.numerics import student_quantile
from counterrank.evaluation.inspection.click_tables import wilson
from counterrank.evaluation.inspection.result import about, percent, some
from counterrank.evaluation.inspection.user_fits import (
    Lines,
    Places,
    cells_of,
    document_cells,
    fit_chains,
    fit_lines,
    groups_of,
    kinds_of_last_click,
)
from counterrank.evaluation.inspection.user_identification import Identification, identify

USER_MODELS = ("position-based", "dependent", "affine", "browsing")
"""Simplest first: by the number of values that describe users."""
BASELINES = ("click rate by rank", "click rate by document")
MANY_QUERIES = 20.0  # effective queries from which intervals are over queries
FEWEST_CLICKS = 50  # in each part
_DEEPEST = 20  # ranks compared
_REJECTED = 0.01  # p-value of the test against affine clicks; at 5 % it was below in 9 of 72 position-based logs
_POSSIBLE = 0.05  # above it that test does not let predictions decide for affine clicks
_LARGEST = 1.0 - 1e-9
_MANY = 1000  # clusters from which Student's quantile is the normal one


class Interval(NamedTuple):
    """A value with its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ModelRow(Table):
    """One model on the held-out pages.

    Attributes:
        name: one of `USER_MODELS` or `BASELINES`.
        values: how many numbers describe users.
        identified: whether the log identifies the model; predictions do not need that.
        reason: why it does not.
        log_likelihood: of a held-out impression, the mean of log P(click) or log(1 - P(click)).
        low, high: its confidence interval.
        perplexity: exp(-log_likelihood): 2 for tossing a coin, 1 for knowing.
        difference: of the log-likelihood to that of the position-based model.
        difference_low, difference_high: its confidence interval, paired.
        perplexity_by_rank: of impressions at ranks 1, 2, ...
    """

    name: str
    values: int
    identified: bool
    reason: str | None
    log_likelihood: float
    low: float
    high: float
    perplexity: float
    difference: float
    difference_low: float
    difference_high: float
    perplexity_by_rank: list[float]


@dataclass(frozen=True)
class LastClickRow(Table):
    """Held-out impressions at one rank whose last click above was at one rank, 0 without a click above."""

    rank: int
    last_click: int
    impressions: int
    click_rate: float
    low: float
    high: float
    predicted: dict[str, float]

    json_keys: ClassVar[dict[str, str]] = {"click_rate": "click rate", "last_click": "last click"}


@dataclass(frozen=True)
class UserComparison(Table):
    """User models compared on held-out pages; the result of `compare_users`.

    Attributes:
        recommended: the simplest model whose log-likelihood is not significantly below that of the best one; None where
            the log does not identify it, or where no model is better than click rates by rank.
        sentences: what was found and what to do, in words.
        models: one row each, baselines first; empty where there are too few clicks.
        last_clicks: click rates given the last click above, observed and predicted.
        fitted_pages: the number of pages models were fitted to.
        held_out_pages: the number of pages predictions were compared on.
        impressions: held-out impressions.
        queries: of the sample.
        log_pages: the pages of the log.
        log_queries: its queries.
        interval_over: "queries" or "sessions": what intervals are over.
        confidence: the confidence level of each interval.
        trust_p_value: of a test of the position-based model against affine clicks, on all pages of the sample; None
            where affine clicks are not identified.
        unseen: share of the held-out impressions of documents without any in the fitting part.
    """

    recommended: str | None
    sentences: tuple[str, ...]
    models: list[ModelRow] = field(default_factory=list)
    last_clicks: list[LastClickRow] = field(default_factory=list)
    fitted_pages: int = 0
    held_out_pages: int = 0
    impressions: int = 0
    queries: int = 0
    log_pages: int = 0
    log_queries: int = 0
    interval_over: str = "queries"
    confidence: float = 0.95
    trust_p_value: float | None = None
    unseen: float = 0.0

    @property
    def about(self) -> str:
        """What was compared on what, in a sentence."""
        return sample_words(self)

    def to_json(self) -> dict[str, Any]:
        """Lists, dicts, numbers and words; with `about`."""
        return super().to_json() | {"about": self.about}

    def row(self, name: str) -> ModelRow:
        """The row of one model."""
        return next(row for row in self.models if row.name == name)


def compare_users(pages: PageSample, *, confidence: float = 0.95) -> UserComparison:
    """Fit all user models to one part of the pages, and compare their predictions on the other.

    A model is recommended if it is the simplest of those that predict not significantly worse than the best one (paired
    differences of the log-likelihood), and if the log identifies it.

    Arguments:
        pages: of a log, see `read_pages`.
        confidence: the confidence level of each interval.

    >>> pages = PageSample.of([1, 2], [0, 0], [0, 1, 2], [0, 0], [1, 0])
    >>> compare_users(pages).sentences
    ('Too few clicks to compare user models: 1 on 2 pages; expected at least 50 in each half of the pages.',)
    """
    level = check_confidence(confidence)
    parts = pages.part(False), pages.part(True)
    sizes: dict[str, Any] = {
        "fitted_pages": parts[0].n_pages, "held_out_pages": parts[1].n_pages, "queries": pages.n_queries,
        "log_pages": pages.log_pages, "log_queries": pages.log_queries, "confidence": level,
    }  # fmt: skip
    if any(part.clicked.sum() < FEWEST_CLICKS or part.n_pages < 2 for part in parts):
        text = (
            f"Too few clicks to compare user models: {int(pages.clicked.sum()):,} on {some(pages.n_pages, 'page')}; "
            f"expected at least {FEWEST_CLICKS} in each half of the pages."
        )
        return UserComparison(None, (text,), **sizes)
    depth = int(np.diff(pages.offsets).max())
    if depth < 2:
        return UserComparison(None, ("Each page holds one document: user models do not differ.",), **sizes)
    n_ranks = min(depth, _DEEPEST)
    fitting, held = (Places.of(part, n_ranks) for part in parts)
    predictions = _predictions(fitting, held, groups_of(Places.of(pages, n_ranks)))
    return _compared(fitting, held, predictions, identify(Places.of(pages, n_ranks)), level, sizes)


def _predictions(fitting: Places, held: Places, groups: IntArray) -> dict[str, FloatArray]:
    """P(click) of the held-out impressions by each model fitted to the other part."""
    n, own = fitting.n_ranks, held.kept
    docs, ranks = held.pages.docs[own], np.arange(n)
    by_last, _ = kinds_of_last_click(n)
    by_document = fit_lines(document_cells(fitting.pages, groups), np.zeros(1, np.int64), fixed=True)

    def lines(kinds: Callable[[Places], IntArray], of: IntArray, **options: Any) -> FloatArray:
        cells = cells_of(fitting, kinds(fitting), len(of), groups)
        found: Lines = fit_lines(cells, of, **options)
        return found.predict(kinds(held)[own], docs)

    return {
        BASELINES[0]: _rates_by_rank(fitting)[held.ranks[own]],
        BASELINES[1]: by_document.predict(np.zeros(len(docs), np.int64), docs),
        "position-based": lines(Places.by_rank, ranks),
        "dependent": fit_chains(fitting, groups).predict(held.pages)[own],
        "affine": lines(Places.by_rank, ranks, affine=True),
        "browsing": lines(Places.by_last_click, by_last),
    }


def _rates_by_rank(places: Places) -> FloatArray:
    own = places.kept
    shown = np.bincount(places.ranks[own], minlength=places.n_ranks)
    clicked = np.bincount(places.ranks[own], places.pages.clicked[own], places.n_ranks)
    found: FloatArray = (clicked + 0.5) / (shown + 1.0)
    return found


def _numbers(name: str, n_ranks: int) -> int:
    """How many numbers describe users, in a gauge that fixes what clicks do not identify."""
    kinds = n_ranks * (n_ranks + 1) // 2
    known = {"position-based": n_ranks - 1, "dependent": n_ranks - 1, "affine": 2 * n_ranks - 2, "browsing": kinds - 1}
    return known.get(name, n_ranks if name == BASELINES[0] else 0)


class Clusters(NamedTuple):
    """Impressions by what varies independently: queries, or sessions.

    Attributes:
        of: the cluster of each impression.
        n: how many there are.
        over: "queries" or "sessions".
        confidence: the level of intervals.
    """

    of: IntArray
    n: int
    over: str
    confidence: float

    def mean(self, values: FloatArray) -> Interval:
        """The mean of values, with an interval over clusters.

        V = Q / (Q - 1) sum over clusters of (sum of values - mean n)^2 / (sum of n)^2
        """
        shown = np.bincount(self.of, minlength=self.n).astype(np.float64)
        own = shown > 0.0
        sums, shown = np.bincount(self.of, values, self.n)[own], shown[own]
        mean, count = float(sums.sum() / shown.sum()), len(shown)
        if count < 2:
            return Interval(mean, -math.inf, math.inf)
        variance = count / (count - 1) * float(np.square(sums - mean * shown).sum()) / float(shown.sum()) ** 2
        half = self.quantile(count) * math.sqrt(variance)
        return Interval(mean, mean - half, mean + half)

    def quantile(self, count: int) -> float:
        """Student's, for so many clusters."""
        return student_quantile(self.confidence, min(count, _MANY) - 1)


def _clusters(held: Places, confidence: float) -> Clusters:
    """Queries where there are many, else sessions."""
    page = held.pages.pages()[held.kept]
    query = held.pages.queries[page]
    shown = np.bincount(query).astype(np.float64)
    effective = float(shown.sum()) ** 2 / float(np.square(shown).sum())
    if effective >= MANY_QUERIES:
        return Clusters(query, len(shown), "queries", confidence)
    return Clusters(page, held.pages.n_pages, "sessions", confidence)


def _compared(
    fitting: Places,
    held: Places,
    predictions: dict[str, FloatArray],
    known: Identification,
    confidence: float,
    sizes: dict[str, Any],
) -> UserComparison:
    clicked = held.pages.clicked[held.kept]
    ranks = held.ranks[held.kept]
    clusters = _clusters(held, confidence)
    gains = {name: _log_likelihoods(p, clicked) for name, p in predictions.items()}
    at = np.maximum(np.bincount(ranks, minlength=held.n_ranks), 1)
    rows = []
    for name, values in gains.items():
        own, other = clusters.mean(values), clusters.mean(values - gains["position-based"])
        rows.append(
            ModelRow(
                name=name,
                values=_numbers(name, held.n_ranks),
                identified=name not in known.refused,
                reason=known.refused.get(name),
                log_likelihood=own.value,
                low=own.low,
                high=own.high,
                perplexity=math.exp(-own.value),
                difference=other.value,
                difference_low=other.low,
                difference_high=other.high,
                perplexity_by_rank=np.exp(-np.bincount(ranks, values, held.n_ranks) / at).tolist(),
            )
        )
    seen = np.bincount(fitting.pages.docs, minlength=int(held.pages.docs.max()) + 1) > 0
    chosen, sentences = recommend(rows, gains, clusters, known.trust_p_value)
    return UserComparison(
        chosen,
        sentences,
        rows,
        _given_last_click(held, predictions, clicked, clusters),
        **sizes,
        impressions=len(clicked),
        interval_over=clusters.over,
        trust_p_value=known.trust_p_value,
        unseen=float(1.0 - seen[held.pages.docs[held.kept]].mean()),
    )


def _log_likelihoods(p: FloatArray, clicked: Any) -> FloatArray:
    inside = np.clip(p, 1.0 - _LARGEST, _LARGEST)
    found: FloatArray = np.where(clicked, np.log(inside), np.log1p(-inside))
    return found


def _given_last_click(
    held: Places, predictions: dict[str, FloatArray], clicked: Any, clusters: Clusters
) -> list[LastClickRow]:
    """Observed and predicted click rates by rank and last click above."""
    kinds = held.by_last_click()[held.kept]
    ranks, last = kinds_of_last_click(held.n_ranks)
    shown = np.bincount(kinds, minlength=len(ranks))
    means = {
        name: np.bincount(kinds, p, len(ranks)) / np.maximum(shown, 1)
        for name, p in predictions.items()
        if name not in BASELINES
    }
    order = np.argsort(kinds, kind="stable")
    ends = np.cumsum(shown)
    rows = []
    for j in np.flatnonzero(shown):
        own = order[ends[j] - shown[j] : ends[j]]
        hits, n = float(clicked[own].sum()), int(shown[j])
        spread = clusters._replace(of=clusters.of[own]).mean(clicked[own].astype(np.float64))
        rate, half = hits / n, (spread.high - spread.low) / 2.0
        z = clusters.quantile(_MANY)
        # as `clustered`: Wilson's interval at the effective number of impressions
        effective = min(n, rate * (1.0 - rate) * (z / half) ** 2) if 0.0 < half < math.inf else n
        low, high = wilson(rate * effective, effective, z)
        rows.append(
            LastClickRow(
                int(ranks[j]) + 1, int(last[j]), n, rate, float(low), float(high),
                {name: float(values[j]) for name, values in means.items()},
            )
        )  # fmt: skip
    return rows


def recommend(
    rows: Sequence[ModelRow], gains: dict[str, FloatArray], clusters: Clusters, trust_p_value: float | None
) -> tuple[str | None, tuple[str, ...]]:
    """The recommended model, and what was found in words.

    Arguments:
        rows: of the models and baselines.
        gains: the log-likelihood of each held-out impression by model.
        clusters: what intervals are over.
        trust_p_value: of the test of the position-based model against affine clicks. Where it is below 1 % it decides
            for the affine model if that predicts no worse, as it needs fewer pages than a comparison of predictions.
            Where it is above 5 % the affine model is set aside: it may predict better only because it makes up for
            what the priors of relevance miss.
    """
    known = {row.name: row for row in rows}
    rejected = trust_p_value is not None and trust_p_value < _REJECTED
    possible = trust_p_value is None or trust_p_value < _POSSIBLE
    models = [name for name in USER_MODELS if name != "affine" or possible]
    best = max(models, key=lambda name: known[name].log_likelihood)
    behind = {name: clusters.mean(gains[best] - gains[name]) for name in models if name != best}
    chosen = next(name for name in models if name == best or behind[name].low <= 0.0)
    tested = chosen == "position-based" and rejected and known["affine"].difference > 0.0
    chosen = "affine" if tested else chosen
    plain = {name: clusters.mean(gains[chosen] - gains[name]).low <= 0.0 for name in BASELINES}
    if plain[BASELINES[0]]:  # nothing about relevance, so nothing about users
        return None, (_NOTHING, *_refused(known))
    if tested:
        behind.pop("affine", None)
    found = (
        _found(known, best, chosen, behind, trust_p_value if tested else None),
        _set_aside(known, best, trust_p_value) if "affine" not in models else "",
        _FLAT if plain[BASELINES[1]] else "",
    )
    if not known[chosen].identified:
        return None, tuple(filter(None, (*found, _UNKNOWN, *_refused(known))))
    return chosen, tuple(filter(None, (*found, _ADVICE[chosen], *_refused(known))))


def _refused(known: dict[str, ModelRow]) -> list[str]:
    """A sentence for each reason why models are not identified."""
    reasons: dict[str, list[str]] = {}
    for name in USER_MODELS:
        if not known[name].identified:
            reasons.setdefault(known[name].reason or "not computed", []).append(name)
    return [
        f"Not identified by this log: {', '.join(names)}, because: {reason.removeprefix('clicks: ').rstrip('.')}."
        for reason, names in reasons.items()
    ]


_WORDS = {
    "position-based": "position-based model",
    "dependent": "dependent click model",
    "affine": "affine model (trust bias)",
    "browsing": "user browsing model",
}
_MEANS = {
    "position-based": "clicks depend on rank and relevance, and not on other clicks",
    "dependent": "users read downwards and may stop after a click",
    "affine": "documents at some ranks are clicked more than relevance and examination explain (trust bias)",
    "browsing": "how likely a rank is examined depends on where the last click above was",
}
_ADVICE = {
    "position-based": (
        "What to do: an examination curve is enough. Estimate it from the log (inspect --examination-out FILE) and "
        "train with --examination FILE."
    ),
    "affine": (
        "What to do: train with --users auto, or save the fitted model (inspect --users-out FILE) and use --users "
        "FILE. An examination curve alone leaves trust bias in the weights."
    ),
    "browsing": (
        "What to do: save the fitted model (inspect --users-out FILE) and use --users FILE. An examination curve alone "
        "is the average over what was clicked above."
    ),
    "dependent": (
        "What to do: save the fitted model (inspect --users-out FILE) and use --users FILE. An examination curve alone "
        "takes clicks on a page for independent."
    ),
}


_NOTHING = (
    "Click rates by rank predict held-out clicks as well as any user model: there are too few clicks in this log, or "
    "too small differences between documents, to compare user models."
)
_FLAT = "But click rates by document predict held-out clicks as well: ranks hardly matter in this log."
_UNKNOWN = (
    "What to do: predictions at the same ranks need no examination curve, but weights do, and this log does not "
    "identify it. Take a curve from elsewhere (--examination), or let documents move between ranks in some of the "
    "sessions."
)


def _found(
    known: dict[str, ModelRow], best: str, chosen: str, behind: dict[str, Interval], p_value: float | None
) -> str:
    """What was found, in the order of importance."""
    sentences = [f"This log supports the {_WORDS[chosen]}: {_MEANS[chosen]}."]
    if not known[chosen].identified:
        sentences = [f"The {_WORDS[chosen]} fits how users click in this log: {_MEANS[chosen]}."]
    if p_value is not None:
        sentences.append(
            f"A test on all pages rejects the position-based model (p = {p_value:.2g}), and the affine model predicts "
            "held-out clicks better, though not significantly."
        )
    elif chosen == best:
        sentences.append(f"It predicts held-out clicks best of the {len(behind) + 1} models that were compared.")
    else:
        sentences.append(
            f"The {_WORDS[best]} predicts held-out clicks best, but not significantly better "
            f"({_difference(behind[chosen])} per impression), with {known[best].values} values for users in place of "
            f"{known[chosen].values}."
        )
    if chosen != "position-based" and p_value is None:
        row = known[chosen]
        over = known["position-based"].log_likelihood - known[BASELINES[0]].log_likelihood
        share = f", {percent(row.difference / over)} of what relevance adds to click rates by rank" if over > 0 else ""
        found = Interval(row.difference, row.difference_low, row.difference_high)
        sentences.append(f"It is better than the position-based model by {_difference(found)} per impression{share}.")
    worse = [
        f"{_WORDS[name]} ({_difference(Interval(-each.value, -each.high, -each.low))})"
        for name, each in behind.items()
        if each.low > 0.0 and name != chosen
    ]
    if worse:
        sentences.append(f"Significantly worse than the best: {', '.join(worse)}.")
    return " ".join(sentences)


def _set_aside(known: dict[str, ModelRow], best: str, p_value: float | None) -> str:
    """Why the affine model is not among the models that were compared, where it predicts best."""
    ahead = known["affine"].log_likelihood - known[best].log_likelihood
    if ahead <= 0.0:
        return ""
    return (
        f"The affine model (trust bias) predicts them better by {ahead:.2g} per impression and is set aside: a test on "
        f"all pages does not reject the position-based model (p = {p_value:.2g})."
    )


def _difference(found: Interval) -> str:
    """A difference of log-likelihoods with its interval.

    >>> _difference(Interval(0.00123, 0.0009, 0.0015))
    '0.00123 (0.0009 to 0.0015)'
    """
    return f"{found.value:.3g} ({found.low:.2g} to {found.high:.2g})"


def sample_words(found: UserComparison) -> str:
    """What was compared on what, in a sentence.

    >>> sample_words(UserComparison(None, (), fitted_pages=10, held_out_pages=11, queries=2, log_pages=21))
    'Fitted to 10 pages of 2 queries, compared on 11 others. Intervals at 95 % are over queries.'
    """
    pages = found.fitted_pages + found.held_out_pages
    text = (
        f"Fitted to {found.fitted_pages:,} pages of {some(found.queries, 'query', 'queries')}, compared on "
        f"{found.held_out_pages:,} others"
    )
    if pages < found.log_pages:
        text += f" (a sample of the {about(found.log_pages)} pages of {some(found.log_queries, 'query', 'queries')})"
    over = "queries" if found.interval_over == "queries" else "sessions, as there are few queries"
    return f"{text}. Intervals at {found.confidence:.0%} are over {over}.".replace("%", " %")
