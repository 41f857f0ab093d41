"""Simulated users: click models, and sessions in which they issue queries, see pages and click."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks import simulation_kernels as kernels
from counterrank.clicks import simulation_of_browsing as browsing_kernels
from counterrank.clicks.browsing import SequentialUsers
from counterrank.clicks.counts import ClickCounts, merge_counts
from counterrank.clicks.displays import DEEPEST_PATTERN, Displays, join_pages, merge_pages, offsets_of, with_patterns
from counterrank.clicks.examination import Examination, FittedCurve, UserModel, check_examination
from counterrank.clicks.last_clicks import LastClicks, added_up, last_clicks_above
from counterrank.clicks.policies.page_kernels import PLACKETT_LUCE
from counterrank.clicks.policies.pages import PageSource, knows_propensity
from counterrank.clicks.policies.propensity import plackett_luce_of, propensity_of
from counterrank.clicks.policies.standard import as_policy
from counterrank.common.checks import (
    FloatArray,
    IntArray,
    as_array,
    check_choice,
    check_cutoff,
    check_number,
    check_type,
    check_vector,
    read_only,
)
from counterrank.common.errors import CounterrankError, brief
from counterrank.common.parallel import for_queries, for_range
from counterrank.common.random import derive_key
from counterrank.common.ranking import longest_query
from counterrank.data import RankingData
from counterrank.data.ids import identity, place_in_query, query_of_rows
from counterrank.data.labels import check_labels, exponential_gains, relevant_documents
from counterrank.data.scores import logging_scores

Report = Callable[[int, int], None]
"""Called with how many sessions and clicks there are since the last call."""


@dataclass(frozen=True)
class ClickModel:
    """P(click | examined, document, rank) = other + (relevant - other) * attractiveness of the document.

        attractiveness = 1 if label >= relevance_threshold else 0       gain="binary"
        attractiveness = (2**label - 1) / (2**(largest label) - 1)      gain="graded"

    A number holds at every rank. A list gives one number for each rank, the last of them for all ranks below: then
    users trust high ranks, and policy-aware weights are biased by that; `estimators.affine` is not.

    Attributes:
        relevant: the probability for the most attractive documents; the paper's 1.0.
        other: the probability for the least attractive ones; the paper's 0.1.
        gain: "binary" or "graded".

    >>> ClickModel(relevant=[1.0, 0.8], other=0.1).by_rank(3)[1].tolist()
    [1.0, 0.8, 0.8]
    """

    relevant: float | Sequence[float] = 1.0
    other: float | Sequence[float] = 0.1
    gain: str = "binary"

    def __post_init__(self) -> None:
        check_choice(self.gain, ("binary", "graded"), "gain")
        for name in ("relevant", "other"):
            _check(getattr(self, name), name)

    def by_rank(self, n: int) -> tuple[FloatArray, FloatArray]:
        """`other` and `relevant` for the ranks 1 to n."""
        return _extended(self.other, n), _extended(self.relevant, n)

    def affine(self, exam: Any, k: int) -> tuple[list[float], list[float]]:
        """alpha and beta of P(click | attractiveness r, rank j) = alpha_j r + beta_j, for the ranks 1 to k.

            alpha_j = theta_j (relevant_j - other_j),      beta_j = theta_j other_j

        They are what `estimators.affine` takes.

        >>> alpha, beta = ClickModel(relevant=1.0, other=[0.5, 0.25]).affine([1.0, 0.5], k=2)
        >>> alpha, beta
        ([0.5, 0.375], [0.5, 0.125])
        """
        depth = check_cutoff(k)
        if depth is None:
            raise CounterrankError("k=None: expected the number of ranks")
        theta, (other, relevant) = check_examination(exam).curve(depth), self.by_rank(depth)
        return (theta * (relevant - other)).tolist(), (theta * other).tolist()

    def attractiveness(self, data: RankingData, relevance_threshold: float) -> FloatArray:
        """A number from 0 to 1 for each document."""
        if self.gain == "binary":
            return relevant_documents(data, relevance_threshold).astype(np.float64)
        gains = exponential_gains(data)
        scaled: FloatArray = gains / gains.max()
        return scaled


_DIGITS = 9  # that remain of a user model, whose canonical gauge has 12


def simulated(users: UserModel) -> tuple[Examination, ClickModel]:
    """The examination curve and the click model of a user model with levels of relevance, as `simulation.users` gives.

        relevant = max_i P_i(relevant),   theta_j = P_j(relevant) / relevant,   other_j = P_j(other) / theta_j

    with P_j(r) = alpha_j r + beta_j. The two are not told apart by clicks: this is the curve with which relevant
    documents are clicked alike at every rank once examined.

    >>> from counterrank.clicks.user_models import Affine
    >>> curve, model = simulated(Affine([0.28, 0.1617], [0.41, 0.1764], relevance=(0.0, 1.0)))
    >>> curve.curve(2).round(6).tolist(), round(model.relevant, 6), [round(p, 6) for p in model.other]
    ([1.0, 0.49], 0.69, [0.41, 0.36])
    """
    levels = getattr(users, "relevance", None)
    if levels is None:
        raise CounterrankError(
            f"exam: {type(users).__name__} without the relevance of irrelevant and relevant documents; expected users "
            "as simulation.users gives them, or a curve and click_model"
        )
    alpha, base = users.examination, users.base
    k = alpha.k or 1
    slopes, lifts = alpha.curve(k), np.zeros(k) if base is None else base.curve(k)
    other, relevant = (slopes * level + lifts for level in levels)
    top = round(float(relevant.max()), _DIGITS)
    theta = np.minimum(np.round(relevant / top, _DIGITS), 1.0)
    seen = theta > 0.0
    # a rank where nothing is clicked takes the number of rank 1, which it never uses
    ratio = np.minimum(np.round(np.divide(other, theta, out=np.full(k, other[0]), where=seen), _DIGITS), top)
    flat = float(np.ptp(ratio[seen])) <= 2.0 * 10.0**-_DIGITS
    return Examination(theta), ClickModel(top, float(ratio[0]) if flat else ratio.tolist())


def trust_bias(k: int = 10, strength: float = 1.0, relevant: float = 1.0, other: float = 0.1) -> ClickModel:
    """A click model with trust bias: irrelevant documents at high ranks are clicked more often.

        P(click | examined, irrelevant, rank) = other + strength * (relevant - other) * 0.65 / (rank + 1) ** 0.5

    capped at `relevant`. It bends what clicks say by rank, which inverse propensities of examination do not mend.

    >>> trust_bias(k=3, strength=0.5).by_rank(3)[0].round(3).tolist()
    [0.307, 0.269, 0.246]
    """
    for name, value in (("relevant", relevant), ("other", other)):
        _check(value, name)
    check_number(strength, "strength", at_least=0)
    ranks = np.arange(1.0, (check_cutoff(k) or 1) + 1.0)
    raised = np.minimum(other + strength * (relevant - other) * 0.65 / np.sqrt(ranks + 1.0), relevant)
    return ClickModel(relevant=relevant, other=raised.tolist())


def _check(value: Any, name: str) -> None:
    given = as_array(value, name)
    if given.ndim > 1 or not given.size or given.dtype.kind not in "fiu":
        raise CounterrankError(f"{name}={brief(value)}: expected a probability, or one for each rank")
    if not ((given >= 0.0) & (given <= 1.0)).all():
        raise CounterrankError(f"{name}={brief(value)}: expected probabilities from 0 to 1")


def _extended(value: Any, n: int) -> FloatArray:
    given = np.atleast_1d(np.asarray(value, dtype=np.float64))[:n]
    return np.concatenate((given, np.full(n - len(given), given[-1])))


_CHUNK = 1 << 18  # sessions drawn one by one at a time
_PATIENCE = 10**8  # sessions without a click before giving up
_SOME_DRAWS = 20_000_000  # displayed documents drawn in one go, below a second: to show progress and react to signals
_WORTH_INTEGRALS = 16  # clicks for each document from which the mean of Plackett-Luce pages is computed, not tried
MOST = 10**14  # sessions or clicks; beyond, binomial draws would lose precision


@dataclass(frozen=True, eq=False)
class Sessions:
    """Sessions one by one.

    Attributes:
        queries: the query of each.
        offsets: where the page of each begins.
        docs: the documents by rank, as rows of the data.
        clicked: whether each was clicked.
    """

    queries: IntArray
    offsets: IntArray
    docs: IntArray
    clicked: Any

    def clicks(self) -> IntArray:
        """The number of clicks of each session."""
        counts = np.concatenate(([0], np.cumsum(self.clicked)))
        return counts[self.offsets[1:]] - counts[self.offsets[:-1]]

    def first(self, n: int) -> Sessions:
        """The first `n` of them."""
        end = self.offsets[n]
        return Sessions(self.queries[:n], self.offsets[: n + 1], self.docs[:end], self.clicked[:end])

    def ranks(self) -> IntArray:
        """The rank of each document, from 1."""
        return place_in_query(self.offsets) + 1


@dataclass(frozen=True, eq=False)
class SessionSimulator:
    """A policy, the users it serves and the queries they issue, ready for kernels.

    Attributes:
        data: what is searched.
        identity: its name in click counts.
        source: the pages of the policy.
        policy: the policy itself.
        exam: how likely each rank is examined; None for users whose clicks depend on each other.
        user_model: the same and the click model, for kernels.
        frequencies: the probability of each query in a session, summing to 1.
        largest_mean: no page has more clicks than this on average.
    """

    data: RankingData
    identity: str
    source: PageSource
    policy: Any
    exam: Examination | None
    user_model: kernels.UserModel
    frequencies: FloatArray
    largest_mean: float
    threads: int | None
    last_clicks: bool = False  # whether to count by last click too

    @classmethod
    def make(
        cls,
        data: RankingData,
        scores: ArrayLike,
        policy: Any,
        exam: Any,
        relevance_threshold: float,
        click_model: ClickModel | None,
        query_frequencies: ArrayLike | None,
        threads: int | None,
        last_clicks: bool = False,
    ) -> SessionSimulator:
        """Check the arguments of `simulate`."""
        check_labels(data)
        given = logging_scores(scores, data)
        chosen = as_policy(policy)
        source = PageSource.make(chosen, given, data.offsets, threads)
        n = longest_query(data.offsets)
        width = min(source.width, n) if source.is_built_in else n
        sequential = bool(last_clicks) or isinstance(exam, SequentialUsers)
        if sequential and width > DEEPEST_PATTERN:
            raise CounterrankError(
                f"policy: pages of up to {width} documents; expected at most {DEEPEST_PATTERN} where clicks depend on "
                "each other, or are counted by last click, such as by k=10"
            )
        curve, user_model = _behaviour(data, exam, relevance_threshold, click_model, n, width if sequential else 0)
        most = user_model.theta * np.maximum(user_model.other, user_model.relevant)
        if not most.any():
            raise CounterrankError("exam, click_model: no rank is ever clicked; expected a probability above 0")
        frequencies = check_frequencies(query_frequencies, data.n_queries)
        # of clicks that depend on each other no more is known than that each document has one at most
        largest = float(np.count_nonzero(most) if len(user_model.gamma) else most.sum())
        return cls(
            data, identity(data), source, chosen, curve, user_model, frequencies, largest, threads, bool(last_clicks)
        )

    @property
    def is_sequential(self) -> bool:
        """Whether sessions are clicked from the top to the bottom of the page."""
        return len(self.user_model.gamma) > 0

    @property
    def source_width(self) -> int:
        """No page is longer."""
        return self.source.width if self.source.is_built_in else longest_query(self.data.offsets)

    def clicks_of_a_session(self, clicks: int) -> tuple[float, float] | None:
        """Their mean and an upper bound of their mean square; None where pages can only be sampled.

        Of Plackett-Luce also None if so few clicks are wanted that the integrals would take longer than to draw them.
        """
        if self.is_sequential:
            return None
        if not self.source.is_built_in or (self.source.draws and clicks < _WORTH_INTEGRALS * self.data.n_docs):
            return None
        means, squares = np.zeros((2, self.data.n_queries))
        args = (self.source.arrays, self.user_model, self.source.width, means, squares)
        for_queries(kernels.expected_clicks, self.data.offsets, *args, threads=self.threads)
        for c in np.flatnonzero(self.source.arrays.kinds == PLACKETT_LUCE):
            own = self._clicks_of_plackett_luce(int(c))
            means += own
            squares += self.largest_mean * own
        mean = float((means * self.frequencies).sum())
        return mean, mean + float((squares * self.frequencies).sum())

    def _clicks_of_plackett_luce(self, c: int) -> FloatArray:
        """The expected clicks of a session of each query on pages of component `c`, times its share.

        Of ranks 1 to the length of the page theta_r other_r, and of documents r_d rho_d, with r_d the attractiveness
        and rho_d the propensity for the curve theta_r (relevant_r - other_r), whose negative part is subtracted.
        """
        user, offsets = self.user_model, self.data.offsets
        lengths = np.minimum(np.diff(offsets), self.source.arrays.ks[c])
        means: FloatArray = np.cumsum(user.theta * user.other)[lengths - 1]
        gains = user.theta * (user.relevant - user.other)
        for sign in (1.0, -1.0):
            rho = plackett_luce_of(self.source, c, np.maximum(sign * gains, 0.0))
            means += sign * np.add.reduceat(rho * user.attractiveness, offsets[:-1])
        means *= self.source.arrays.shares[c]
        return means

    def all_at_once(self, sessions: int, key: np.uint64, displays: bool, report: Report) -> ClickCounts:
        """The counts of so many sessions; drawn together where pages can be counted.

        From time to time `report` is called with the number of sessions and clicks since then, from any thread.
        """
        rng = np.random.default_rng(int(derive_key(key, -1)))
        n_sessions: IntArray = rng.multinomial(sessions, self.frequencies)
        if not self.source.is_built_in:
            return self._in_chunks(n_sessions, key, displays, report)
        if self.is_sequential:
            return self._browsed(n_sessions, key, displays, report)
        source, offsets = self.source, read_only(self.data.offsets)
        args = (offsets, source.arrays, self.user_model, kernels.Task(n_sessions, source.width, key, bool(displays)))

        def simulated(first: int, last: int, work: IntArray) -> Any:
            found = kernels.simulate_queries(first, last, *args)
            report(int(n_sessions[first:last].sum()), int(found[0][3].sum()))
            return found

        # how long a query takes: by its documents, and where pages are drawn by what these show
        work = np.diff(offsets)
        if source.draws:
            work = work + n_sessions * np.minimum(work, source.width)
        found = for_queries(simulated, offsets_of(work), threads=self.threads, most=_SOME_DRAWS)
        cells = _joined([part[0] for part in found])
        kept = None
        if displays:
            lengths, shown = _joined([part[1] for part in found])
            docs, clicks = _joined([part[2] for part in found])
            kept = Displays(offsets_of(lengths), docs, shown, clicks)
        return self._counts(n_sessions, cells, kept)

    def _browsed(self, n_sessions: IntArray, key: np.uint64, displays: bool, report: Report) -> ClickCounts:
        """The counts of so many sessions of each query, of users whose clicks depend on each other."""
        source, offsets = self.source, read_only(self.data.offsets)
        patterns = bool(displays) and self.last_clicks
        task = browsing_kernels.BrowsingTask(n_sessions, source.width, key, bool(displays), patterns)
        args = (offsets, source.arrays, self.user_model, task)

        def simulated(first: int, last: int, work: IntArray) -> Any:
            rows, pages, places = browsing_kernels.simulate_browsing(first, last, *args)
            report(int(n_sessions[first:last].sum()), int(rows[4].sum()))
            kept = Displays(offsets_of(pages[0]), places[0], pages[1], places[1], None, pages[2] if patterns else None)
            return rows, merge_pages(offsets, kept) if displays else None

        work = n_sessions * np.minimum(np.diff(offsets), source.width) + np.diff(offsets)
        found = for_queries(simulated, offsets_of(work), threads=self.threads, most=_SOME_DRAWS)
        rows = LastClicks(*_joined([part[0] for part in found]))
        pages = join_pages([part[1] for part in found]) if displays else None
        return self._counts_of_rows(n_sessions, rows, pages)

    def _counts_of_rows(self, n_sessions: IntArray, rows: LastClicks, displays: Displays | None) -> ClickCounts:
        """The counts of sessions that were counted by last click."""
        first = np.flatnonzero((np.diff(rows.docs, prepend=-1) != 0) | (np.diff(rows.ranks, prepend=-1) != 0))
        sums = [np.add.reduceat(values, first) for values in (rows.impressions, rows.clicks)] if len(rows) else []
        cells = [rows.docs[first], rows.ranks[first], *sums] if len(rows) else [np.zeros(0, np.int64)] * 4
        counts = self._counts(n_sessions, cells, displays)
        return replace(counts, last_clicks=rows) if self.last_clicks else counts

    def one_by_one(self, clicks: int, key: np.uint64, displays: bool, advance: Callable[[float], None]) -> ClickCounts:
        """The counts of the sessions up to the one with the wanted click."""
        parts: list[ClickCounts] = []
        n_clicks = begin = 0
        size = 1024
        while True:
            drawn = self.draw(size, key, begin)
            total = np.cumsum(drawn.clicks())
            enough = int(np.searchsorted(total, clicks - n_clicks)) + 1
            parts.append(self.count(drawn.first(min(enough, size)), displays))
            if enough <= size:
                return merge_counts(parts)
            n_clicks, begin = n_clicks + int(total[-1]), begin + size
            if n_clicks == 0 and begin > _PATIENCE:
                raise CounterrankError(f"clicks: none in {begin:,} sessions; expected pages that can be clicked")
            advance(int(total[-1]))
            size = min(2 * size, _CHUNK)

    def draw(self, n: int, key: np.uint64, begin: int) -> Sessions:
        """Sessions number `begin` to `begin + n` of this key."""
        rng = np.random.default_rng([int(derive_key(key, -1)), begin])
        bounds = np.cumsum(self.frequencies)
        queries = np.searchsorted(bounds / bounds[-1], rng.random(n), side="right")
        return self.answer(queries, key, begin)

    def answer(self, queries: IntArray, key: np.uint64, begin: int) -> Sessions:
        """Sessions with given queries."""
        offsets, docs = self.source.draw(queries, key, begin)
        clicked = np.empty(len(docs), np.bool_)
        args = (offsets, docs, self.user_model, derive_key(key, -2), begin, clicked)
        for_range(kernels.click_pages, len(queries), *args, threads=self.threads)
        return Sessions(queries, offsets, docs, clicked)

    def _in_chunks(self, n_sessions: IntArray, key: np.uint64, displays: bool, report: Report) -> ClickCounts:
        """The counts of so many sessions of each query, drawn one by one.

        The first session of every query comes first, then the second of each: one call of a policy serves all queries.
        """
        queries = query_of_rows(offsets_of(n_sessions))
        queries = queries[np.argsort(place_in_query(offsets_of(n_sessions)), kind="stable")]
        parts = []
        for begin in range(0, len(queries), _CHUNK):
            parts.append(self.count(self.answer(queries[begin : begin + _CHUNK], key, begin), displays))
            report(parts[-1].n_sessions, parts[-1].n_clicks)
        return merge_counts(parts)

    def count(self, sessions: Sessions, displays: bool) -> ClickCounts:
        """Add up sessions."""
        n_sessions = np.bincount(sessions.queries, minlength=self.data.n_queries)
        kept = None
        if displays:
            once, shown = np.ones(len(sessions.queries), np.int64), sessions.clicked.astype(np.int64)
            kept = Displays(sessions.offsets, sessions.docs, once, shown)
            kept = merge_pages(self.data.offsets, with_patterns(kept) if self.last_clicks else kept)
        if self.last_clicks:
            above = last_clicks_above(sessions.offsets, sessions.clicked)
            ones, clicked = np.ones(len(above), np.int64), sessions.clicked.astype(np.int64)
            rows = added_up(LastClicks(sessions.docs, sessions.ranks(), above, ones, clicked))
            return self._counts_of_rows(n_sessions, rows, kept)
        n = longest_query(self.data.offsets) + 1
        keys, places = np.unique(sessions.docs * n + sessions.ranks(), return_inverse=True)
        impressions = np.bincount(places, minlength=len(keys))
        clicks = np.bincount(places[sessions.clicked], minlength=len(keys))
        cells = [keys // n, keys % n, impressions, clicks]
        return self._counts(n_sessions, cells, kept)

    def _counts(self, n_sessions: IntArray, cells: list[IntArray], displays: Displays | None) -> ClickCounts:
        return ClickCounts(
            identity=self.identity,
            offsets=self.data.offsets,
            sessions=n_sessions,
            docs=cells[0],
            ranks=cells[1],
            impressions=cells[2],
            clicks=cells[3],
            displays=displays,
            examination=self.exam,
            query_ids=self.data.query_ids,
            doc_ids=self.data.doc_ids,
        )

    def finished(
        self, counts: ClickCounts, propensities: bool, policy_name: str | None, context: str | None = None
    ) -> ClickCounts:
        """The counts with what else is logged: propensities, the name of the policy and the context."""
        if propensities and self.exam is not None and knows_propensity(self.policy):
            rho = self.propensity()
            counts = replace(counts, propensities=rho[counts.docs], unexaminable=np.flatnonzero(rho == 0.0))
        if policy_name is not None or context is not None:
            pages = counts.displays
            if pages is not None:
                pages = replace(pages, policies=np.zeros(pages.n_pages, np.int64))
            counts = replace(
                counts,
                displays=pages,
                policies=np.zeros(len(counts.docs), np.int64),
                policy_names=(policy_name or "",),
                contexts=() if context is None else (context,),
                policy_sessions=counts.sessions[None],
            )
        return counts

    def propensity(self) -> FloatArray:
        """P(examined | query, policy) of each document."""
        assert self.exam is not None
        return propensity_of(self.policy, self.source.scores, self.data.offsets, self.exam)


def _behaviour(
    data: RankingData, exam: Any, threshold: float, click_model: ClickModel | None, n: int, width: int
) -> tuple[Examination | None, kernels.UserModel]:
    """The examination curve, if there is one, and what kernels take, of a user model or a curve and a click model.

    `n` is the number of ranks; `width` that of a page whose clicks depend on each other or are counted by last click.
    """
    levels = getattr(exam, "relevance", None)
    curve: Examination | None = None
    if click_model is None and isinstance(exam, UserModel) and (levels is not None or exam.base is not None):
        curve, model = simulated(exam)
    else:
        model = check_type(ClickModel() if click_model is None else click_model, ClickModel, "click_model")
    attractiveness = model.attractiveness(data, threshold)
    other, relevant = model.by_rank(n)
    gamma, onward = np.zeros((0, 0)), np.ones(n)
    if isinstance(exam, SequentialUsers):
        gamma, onward = exam.chances(width), exam.onward(n)
        theta = np.append(gamma.max(axis=1), np.zeros(n - width))
        return None, kernels.UserModel(theta, attractiveness, other, relevant, gamma, onward)
    curve = check_examination(exam) if curve is None else curve
    if isinstance(curve, FittedCurve):
        curve = curve.plain  # these users are as the curve says, and so are the propensities
    theta = curve.curve(n)
    if width:
        gamma = np.tril(np.repeat(theta[:width, None], width, axis=1))
    return curve, kernels.UserModel(theta, attractiveness, other, relevant, gamma, onward)


def check_amount(value: Any, name: str) -> int:
    """A number of sessions or clicks.

    >>> check_amount(1e6, "clicks")
    1000000
    """
    whole = isinstance(value, int | np.integer) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole or not 1 <= value <= MOST:
        raise CounterrankError(f"{name}={brief(value)}: expected a whole number from 1 to 10**14")
    return int(value)


def _joined(parts: list[IntArray]) -> list[IntArray]:
    """Rows of several matrices behind each other, each an array of its own."""
    return [np.concatenate([part[i] for part in parts]) for i in range(len(parts[0]))]


def check_frequencies(query_frequencies: ArrayLike | None, n_queries: int) -> FloatArray:
    """The probability of each query in a session, summing to 1; uniform if None.

    >>> check_frequencies([1.0, 3.0], 2)
    array([0.25, 0.75])
    """
    if query_frequencies is None:
        return np.full(n_queries, 1.0 / n_queries)
    given = check_vector(query_frequencies, n_queries, "query_frequencies", "queries")
    if (given < 0.0).any():
        place = int(np.argmax(given < 0.0))
        raise CounterrankError(f"query_frequencies: {given[place]:g} for query {place}; expected 0 or more")
    if not given.any():
        raise CounterrankError("query_frequencies: all are 0; expected at least one above 0")
    scaled: FloatArray = given / given.max()  # so that the sum cannot overflow
    scaled /= scaled.sum()
    return scaled
