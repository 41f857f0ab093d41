"""Propensities of a log of several policies: against a slow naive, on bad input, and that they make weights unbiased.

Monte Carlo tests compare clicks with their exact mean in units of the exact standard error, given the sessions of each
policy. All must be below 6 (false alarm 2e-9 for each document, below 1e-6 for a test; seeds are fixed). Where weights
are biased, the same comparison must fail by more than 20.
"""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank import estimators
from counterrank.clicks.counts import SHOWN_ONLY, ClickCounts
from counterrank.clicks.policies import (
    Deterministic,
    Explicit,
    Mixture,
    PlackettLuce,
    ReplaceLast,
    UniformInsert,
    several_policies,
)
from counterrank.clicks.simulation import ClickModel, simulate
from counterrank.common.errors import CounterrankError, CoverageWarning
from tests.reference import affine as naive

CLOSE, FAR = 6.0, 20.0
OFFSETS = np.array([0, 4, 9, 15])
LABELS = [4, 0, 0, 4, 0, 4, 0, 0, 4, 4, 0, 4, 0, 4, 0]
DATA = cr.RankingData(np.zeros((15, 1)), OFFSETS, labels=LABELS)
THETA = [1.0, 0.6, 0.3]
E0, E1 = 0.1, 0.9
CLICKED = np.where(np.array(LABELS) >= 3, E1, E0)
DOWN = [float(-place) for place in range(15)]  # ranks by place
UP = [float(place) for place in range(15)]  # the other way round
# neither shows more than three documents of a query; both together show all
POLICIES = {"old": (Deterministic(3), DOWN), "new": (Mixture([Deterministic(3), Deterministic(2)], [0.5, 0.5]), UP)}
FREQUENCIES = {"old": [5.0, 1.0, 2.0], "new": [1.0, 1.0, 3.0]}
SESSIONS = {"old": 3_000_000, "new": 500_000}


def log_of(names=("old", "new"), propensities=True):
    parts = [
        simulate(DATA, POLICIES[name][1], POLICIES[name][0], THETA, sessions=SESSIONS[name], seed=i + 5,
                 click_model=ClickModel(E1, E0), query_frequencies=FREQUENCIES[name], policy_name=name,
                 propensities=propensities)
        for i, name in enumerate(names)
    ]  # fmt: skip
    return ClickCounts.concat(parts)


LOG = log_of()
OWN = {name: np.array(naive.expected_at_rank(*POLICIES[name], OFFSETS, THETA)) for name in POLICIES}


def spread(per_query):
    return np.repeat(per_query, np.diff(OFFSETS)).astype(float)


def z_values(weights, inverse, truth):
    """How far weights are from sessions * truth, in standard errors of weights clicks * inverse."""
    variance = np.zeros(15)
    for number, name in enumerate(LOG.policy_names):
        chance = OWN[name] * CLICKED
        variance += spread(LOG.policy_sessions[number]) * chance * (1.0 - chance) * inverse**2
    off = np.abs(weights - spread(LOG.sessions) * truth)
    return np.where(off <= 1e-9 * spread(LOG.sessions), 0.0, off / np.maximum(np.sqrt(variance), 1e-300))


def test_weights_of_both_policies_together_are_unbiased():
    rho = several_policies(LOG, POLICIES, THETA)
    assert all((own == 0.0).any() for own in OWN.values())  # neither policy alone covers all
    assert (rho > 0.0).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # neither of coverage nor of other propensities than those logged
        weights = estimators.policy_aware(LOG, rho)
    assert (z_values(weights, 1.0 / rho, CLICKED) < CLOSE).all()


@pytest.mark.parametrize("name", ["old", "new"])
def test_propensities_of_one_policy_are_biased_on_the_mixed_log(name):
    rho = OWN[name]
    with pytest.raises(CounterrankError, match=r"rho: 0 for .* clicks on"):
        estimators.policy_aware(LOG, rho)
    # even for the documents it covers, in every query in which the other policy shows other pages
    covered = rho > 0.0
    inverse = np.divide(1.0, rho, out=np.zeros(15), where=covered)
    weights = LOG.by_document(LOG.clicks) * inverse
    assert (z_values(weights, inverse, CLICKED)[covered] > FAR).sum() >= 6


def test_each_click_by_the_propensity_of_its_own_policy_would_be_biased():
    """Logged propensities: each policy's clicks estimate r by themselves, so the sum has sessions_p of those that show.

    Where only one of the policies shows a document its weight is too small by the other's share of sessions.
    """
    weights = LOG.by_document(LOG.clicks / LOG.propensities)
    shares = sum(
        spread(LOG.policy_sessions[number]) * (OWN[name] > 0.0) for number, name in enumerate(LOG.policy_names)
    )
    assert weights == pytest.approx(shares * CLICKED, rel=0.05)
    assert (shares < spread(LOG.sessions)).any()


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_against_the_reference(data):
    lengths = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    k, n = st.none() | st.integers(1, 5), int(offsets[-1])
    policy = st.one_of(
        st.builds(Deterministic, k), st.builds(ReplaceLast, k), st.builds(UniformInsert, k), st.builds(PlackettLuce, k),
        st.just({q: Explicit([[0]], [1.0]) for q in range(len(lengths))}),
    )  # fmt: skip
    scores = st.lists(st.sampled_from([0.0, 1.0, 1.5, -2.0]), min_size=n, max_size=n)
    pairs = data.draw(st.lists(st.tuples(policy, scores), min_size=1, max_size=3))
    own = data.draw(
        st.lists(st.lists(st.integers(0, 5), min_size=len(lengths), max_size=len(lengths)), min_size=len(pairs),
                 max_size=len(pairs))
    )  # fmt: skip
    curve = data.draw(st.lists(st.floats(0.05, 1.0), min_size=1, max_size=5))
    names = tuple(f"policy {i}" for i in range(len(pairs)))
    nothing = np.empty(0, np.int64)
    log = ClickCounts(
        "a world", offsets, np.sum(own, axis=0), *[nothing] * 4, policies=nothing, policy_names=names,
        policy_sessions=np.array(own),
    )  # fmt: skip
    rho = several_policies(log, dict(zip(names, pairs, strict=True)), curve)
    assert rho == pytest.approx(naive.mean_over_policies(pairs, own, offsets.tolist(), curve), rel=1e-6, abs=1e-12)


def test_one_policy_gives_its_own_propensities():
    log = log_of(["old"])
    assert several_policies(log, {"old": POLICIES["old"]}, THETA) == pytest.approx(OWN["old"])


def test_queries_without_sessions_have_propensity_0():
    log = ClickCounts(
        "", OFFSETS, np.array([2, 0, 1]), *[np.empty(0, np.int64)] * 4, policies=np.empty(0, np.int64),
        policy_names=("old",), policy_sessions=np.array([[2, 0, 1]]),
    )  # fmt: skip
    rho = several_policies(log, {"old": (ReplaceLast(3), DOWN)}, THETA)
    assert (rho[4:9] == 0.0).all()
    assert (rho[:4] > 0.0).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error", CoverageWarning)
        assert (estimators.policy_aware(log, rho) == 0.0).all()


NAMELESS = simulate(DATA, DOWN, ReplaceLast(3), THETA, sessions=100)
SEEN = ClickCounts(SHOWN_ONLY + "x", OFFSETS, *[np.empty(0, np.int64)] * 5)


@pytest.mark.parametrize(
    ("log", "policies", "message"),
    [
        (LOG, {"old": POLICIES["old"]}, "policies: nothing for 'new'; expected each policy of the log, 'old', 'new'"),
        (LOG, {**POLICIES, "newer": POLICIES["old"]}, "policies: 'newer' is not in the log; expected the names 'old'"),
        (LOG, {**POLICIES, 3: POLICIES["old"]}, "policies: 3 is not in the log"),
        (LOG, [POLICIES["old"]], r"policies: list; expected \{name: \(policy, scores\)\}"),
        (LOG, {**POLICIES, "new": Deterministic(3)}, r"policies\['new'\]: Deterministic; expected a pair"),
        (LOG, {**POLICIES, "new": (3, UP)}, "policy: int; expected a policy"),
        (LOG, {**POLICIES, "new": (Deterministic(3), UP[1:])}, "scores of policy 'new': 14 entries; expected 15"),
        (LOG, {**POLICIES, "new": (Deterministic(3), [np.nan] * 15)}, "scores of policy 'new': entry 0 is nan"),
        (NAMELESS, POLICIES, "clicks: name no policies; expected a log with the column policy"),
        (SEEN, POLICIES, "clicks: counted without ranking data"),
        ("log", POLICIES, "clicks: str; expected ClickCounts"),
    ],
)
def test_bad_input(log, policies, message):
    with pytest.raises(CounterrankError, match=message):
        several_policies(log, policies, THETA)


def test_the_examination_is_checked_too():
    with pytest.raises(CounterrankError, match="exam: str; expected an examination curve"):
        several_policies(LOG, POLICIES, "steep")
