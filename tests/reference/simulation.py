"""Simulated clicks session by session, what they should be on average, and tests of counts against probabilities."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from scipy import stats

from tests.reference.policies import draw_page, pages_of


@dataclass
class Counts:
    """Counters; documents are rows of the data, ranks start at 1, pages are tuples of rows."""

    sessions: Counter = field(default_factory=Counter)  # by query
    impressions: Counter = field(default_factory=Counter)  # by (document, rank)
    clicks: Counter = field(default_factory=Counter)  # by (document, rank)
    pages: Counter = field(default_factory=Counter)  # by page
    page_clicks: Counter = field(default_factory=Counter)  # by (page, rank)
    outcomes: Counter = field(default_factory=Counter)  # by (page, clicked or not at each rank)


def counted(log):
    """The same counters of ClickCounts; outcomes are not in them."""
    found = Counts()
    found.sessions.update({q: int(s) for q, s in enumerate(log.sessions) if s})
    for doc, rank, shown, clicked in zip(log.docs, log.ranks, log.impressions, log.clicks, strict=True):
        assert shown > 0
        assert (int(doc), int(rank)) not in found.impressions
        found.impressions[int(doc), int(rank)] = int(shown)
        found.clicks[int(doc), int(rank)] = int(clicked)
    if log.displays is not None:
        offsets, clicks = log.displays.offsets, log.displays.clicks
        for i, sessions in enumerate(log.displays.sessions):
            page = tuple(log.displays.docs[offsets[i] : offsets[i + 1]].tolist())
            assert page not in found.pages
            found.pages[page] = int(sessions)
            for rank, clicked in enumerate(clicks[offsets[i] : offsets[i + 1]], 1):
                found.page_clicks[page, rank] = int(clicked)
    return found


@dataclass
class World:
    """One data set, one policy, one kind of user: everything a session depends on."""

    lengths: list
    scores: list  # of all documents
    policy: object
    theta: list  # P(examined | rank), 0 past its end
    attraction: list  # of each document: P(click | examined), or a list of it by rank, its last value for all below
    frequencies: list | None = None

    def __post_init__(self):
        self.offsets = np.concatenate(([0], np.cumsum(self.lengths))).astype(int).tolist()
        if self.frequencies is None:
            self.frequencies = [1.0] * len(self.lengths)
        self.shares = [each / sum(self.frequencies) for each in self.frequencies]

    def own_scores(self, query):
        return self.scores[self.offsets[query] : self.offsets[query + 1]]

    def click_probability(self, doc, rank):
        examined = self.theta[rank - 1] if rank <= len(self.theta) else 0.0
        given = self.attraction[doc]
        return examined * (given[min(rank, len(given)) - 1] if isinstance(given, list) else given)

    def pages(self, query):
        """{page of rows: probability} of one query."""
        begin = self.offsets[query]
        listed = pages_of(self.policy, self.own_scores(query), query)
        return {tuple(begin + place for place in page): probability for page, probability in listed.items()}

    def outcomes(self, query):
        """{(page, clicks by rank): probability} of one session of a query."""
        found = {}
        for page, probability in self.pages(query).items():
            chances = [self.click_probability(doc, rank) for rank, doc in enumerate(page, 1)]
            for clicked in itertools.product((0, 1), repeat=len(page)):
                each = [p if c else 1.0 - p for p, c in zip(chances, clicked, strict=True)]
                joint = probability * float(np.prod(each))
                if joint > 0.0:
                    found[page, clicked] = joint
        return found

    def clicks_of_a_session(self):
        """P(a session has 0, 1, 2, ... clicks)."""
        found = Counter()
        for query, share in enumerate(self.shares):
            if share > 0.0:
                for (_, clicked), probability in self.outcomes(query).items():
                    found[sum(clicked)] += share * probability
        return np.array([found[i] for i in range(max(found) + 1)])

    def simulate(self, sessions, seed):
        """Session by session: a query, a page in the words of the table, a coin for each look and for each click."""
        rng, found = np.random.default_rng(seed), Counts()
        for _ in range(sessions):
            query = int(rng.choice(len(self.lengths), p=self.shares))
            begin = self.offsets[query]
            places = draw_page(self.policy, self.own_scores(query), rng, query)
            page = tuple(begin + int(place) for place in places)
            clicked = tuple(int(rng.random() < self.click_probability(d, rank)) for rank, d in enumerate(page, 1))
            found.sessions[query] += 1
            found.pages[page] += 1
            found.outcomes[page, clicked] += 1
            for rank, (doc, click) in enumerate(zip(page, clicked, strict=True), 1):
                found.impressions[doc, rank] += 1
                found.clicks[doc, rank] += click
                found.page_clicks[page, rank] += click
        return found


def _pooled(expected, least=5.0):
    """Groups of entries whose expected numbers reach `least`; the last group takes what is left over."""
    order = np.argsort(expected, kind="stable")
    groups, total, now = [], 0.0, []
    for i in order:
        now.append(int(i))
        total += expected[i]
        if total >= least:
            groups.append(now)
            now, total = [], 0.0
    if now:
        if groups:
            groups[-1] += now
        else:
            groups = [now]
    return groups


def fits(observed, probabilities):
    """The p-value of Pearson's test that counts {outcome: count} have these probabilities; rare ones are pooled.

    An outcome without a probability makes it 0.
    """
    if {k for k, v in observed.items() if v} - {k for k, v in probabilities.items() if v > 0.0}:
        return 0.0
    keys, total = list(probabilities), sum(observed.values())
    expected = total * np.array([probabilities[key] for key in keys])
    seen = np.array([observed.get(key, 0) for key in keys], dtype=float)
    groups = _pooled(expected)
    if len(groups) < 2:
        return 1.0
    e, o = (np.array([values[group].sum() for group in groups]) for values in (expected, seen))
    return float(stats.chi2.sf(((o - e) ** 2 / e).sum(), len(groups) - 1))


def binomials_fit(successes, trials, probabilities, least=5.0):
    """The p-value of the test that independent counts are binomial; those too small for a chi-square are left out.

    Successes that cannot be, or that must be and are not, make it 0.
    """
    x, n, p = (np.asarray(values, dtype=float) for values in (successes, trials, probabilities))
    if (x[p <= 0.0] != 0).any() or (x[p >= 1.0] != n[p >= 1.0]).any():
        return 0.0
    used = (n * p >= least) & (n * (1.0 - p) >= least)
    if not used.any():
        return 1.0
    x, n, p = x[used], n[used], p[used]
    return float(stats.chi2.sf(((x - n * p) ** 2 / (n * p * (1.0 - p))).sum(), len(x)))


def alike(first, second):
    """The p-value of the test that two counters were drawn from one distribution; rare outcomes are pooled."""
    keys = sorted(set(first) | set(second))
    table = np.array([[counter.get(key, 0) for key in keys] for counter in (first, second)], dtype=float)
    if len(keys) < 2 or not table.sum(axis=1).all():
        return 1.0
    share = table.sum(axis=1) / table.sum()
    groups = _pooled(table.sum(axis=0) * share.min())
    if len(groups) < 2:
        return 1.0
    table = np.stack([table[:, group].sum(axis=1) for group in groups], axis=1)
    expected = table.sum(axis=0) * share[:, None]
    return float(stats.chi2.sf(((table - expected) ** 2 / expected).sum(), len(groups) - 1))


def needed_sessions(clicks_of_a_session, wanted):
    """{(sessions, clicks): probability} at the end of the first session that holds the wanted click.

    What is left beyond a chance of 1e-12 is dropped.
    """
    found, sessions = {}, 0
    state = np.zeros(wanted)
    state[0] = 1.0
    while state.sum() > 1e-12:
        sessions += 1
        after = np.convolve(state, clicks_of_a_session)
        state = after[:wanted]
        for total, probability in enumerate(after[wanted:], wanted):
            if probability > 0.0:
                found[sessions, total] = float(probability)
    return found
