"""A policy of one's own through the registry: named on the command line like those of the library."""

from dataclasses import dataclass

import numpy as np
import pytest

from counterrank import policies
from counterrank.clicks.policies import page_kernels as kernels
from counterrank.clicks.policies.pages import Component
from counterrank.clicks.policies.parsing import parse_policies
from counterrank.common.errors import CounterrankError


@dataclass(frozen=True)
class SwapLast(policies.Policy):
    """The top k, and with probability `swap` another document in the last place."""

    k: int | None = None
    swap: float = 0.5

    def components(self):
        return [Component(1.0, kernels.LAST, self.k, self.swap)]


@pytest.fixture
def swap_last():
    entry = policies.PolicyEntry(
        "swap-last", SwapLast, ("k", "swap"), "the top k, its last place at random", grid={"swap": (0.1, 0.2)}
    )
    policies.register_policy(entry)
    yield entry
    del policies.POLICIES[entry.name]


def test_a_registered_policy_is_parsed(swap_last):
    assert policies.parse_policy("swap-last:k=2,swap=0.25") == SwapLast(2, 0.25)
    mixture = policies.parse_policy("0.5*swap-last:k=2 + 0.5*deterministic:k=2")
    assert mixture.policies[0] == SwapLast(2)


def test_a_registered_policy_has_propensities(swap_last):
    scores, offsets, theta = [3.0, 2.0, 1.0], [0, 3], [1.0, 0.5]
    found = policies.parse_policy("swap-last:k=2,swap=1").propensity(scores, offsets, theta)
    assert np.array_equal(found, policies.ReplaceLast(2).propensity(scores, offsets, theta))


def test_a_registered_policy_brings_its_grid(swap_last):
    assert list(parse_policies(["swap-last"], page=3)) == ["swap-last:k=3,swap=0.1", "swap-last:k=3,swap=0.2"]


def test_an_unknown_policy_names_those_that_are_registered(swap_last):
    with pytest.raises(CounterrankError, match=r"expected one of deterministic, .*, swap-last, such as"):
        policies.parse_policy("swap-first:k=2")


@pytest.mark.parametrize("name", ["deterministic", "Two Words", ""])
def test_names_that_cannot_be_registered(name):
    with pytest.raises(CounterrankError, match=f"name='{name}': expected small letters, digits and dashes"):
        policies.register_policy(policies.PolicyEntry(name, SwapLast, ("k",), "a page"))


def test_every_entry_can_be_made_and_says_what_it_shows():
    for entry in policies.POLICIES.values():
        assert policies.parse_policy(f"{entry.name}:k=3").k == 3
        assert entry.page
        assert set(entry.grid) <= set(entry.parameters)
