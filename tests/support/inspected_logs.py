"""Logs for tests of what inspection says of them."""

import numpy as np

import counterrank as cr
from counterrank import examination, simulation
from counterrank.clicks.counts import ClickCounts

EXAM = examination.inverse_rank(k=3)


def make_data(n_queries=40, n_docs=12):
    labels = np.random.default_rng(0).integers(0, 5, n_queries * n_docs)
    return cr.RankingData(np.zeros((len(labels), 1)), np.arange(0, len(labels) + 1, n_docs), labels=labels)


DATA = make_data()
SCORES = np.random.default_rng(1).normal(size=DATA.n_docs)


def make_log(policy, sessions=20_000, seed=0, exam=EXAM, scores=SCORES, data=DATA, **options):
    return simulation.simulate(data, scores, policy, exam, sessions=sessions, seed=seed, **options)


def stripped(log, **changes):
    """The same counts without what only a simulation knows."""
    kept = {name: getattr(log, name) for name in ("identity", "offsets", "sessions", "docs", "ranks", "impressions")}
    return ClickCounts(**(kept | {"clicks": log.clicks} | changes))


def text_of(found, about):
    return next(item.text for item in found.verdict if item.about == about)
