"""What a logging policy is made of: a mixture of components whose pages kernels know, or of a user's own policies."""

from __future__ import annotations

from typing import Any, NamedTuple

from counterrank.clicks.policies.page_kernels import NO_CUTOFF

ListedPages = dict[int | None, tuple[list[list[int]], list[float]]]
"""Pages and their probabilities by query index; None as index serves data of a single query."""


class Component(NamedTuple):
    """One part of a mixture: a kind that kernels know (see `page_kernels`), or a custom policy."""

    share: float
    kind: int = -1
    k: int = NO_CUTOFF
    value: float = 0.0
    listed: ListedPages | None = None
    custom: Any = None


def components_of(policy: Any) -> list[Component]:
    """The components of a policy; a custom one, which draws its pages by a `sample` of its own, is its only component.

    >>> from counterrank.clicks.policies import Deterministic
    >>> len(components_of(Deterministic(k=3)))
    1
    """
    if getattr(type(policy), "samples_components", False):
        components: list[Component] = policy.components()
        return components
    return [Component(1.0, custom=policy)]


def is_custom(policy: Any) -> bool:
    """Whether kernels do not know the pages of a policy.

    >>> from counterrank.clicks.policies import Deterministic
    >>> is_custom(Deterministic(k=3))
    False
    """
    return any(part.custom is policy for part in components_of(policy))


def knows_propensity(policy: Any) -> bool:
    """Whether a policy can compute its propensities, rather than have them estimated from samples.

    >>> from counterrank.clicks.policies import Deterministic
    >>> knows_propensity(Deterministic(k=3))
    True
    """
    if not is_custom(policy):
        return all(part.custom is None or knows_propensity(part.custom) for part in policy.components())
    inherited = getattr(type(policy), "estimates_propensity", False)
    own = "propensity" in getattr(policy, "__dict__", {})
    return callable(getattr(policy, "propensity", None)) and (own or not inherited)
