"""The kinds of models a ranker can be, what each takes where the user leaves a setting open, and who learns it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from counterrank.common.checks import check_choice
from counterrank.common.errors import CounterrankError
from counterrank.training.gradient_descent import fit_linear
from counterrank.training.problem import FittedModel, Task


@dataclass(frozen=True)
class Kind:
    """A kind of model, by the name it is saved under.

    Attributes:
        name: "linear", "mlp", "lambdamart", or "module" for a torch module of the user's own.
        batch_queries: queries a step; None where all queries take part in every step.
        normalize: how features are scaled.
        max_epochs, patience: how long to learn, and how long to wait for something better. A round of trees is a small
            step, and the metric of few validation queries moves by luck: those who gave up after 20 rounds lost 1 to
            5 % (docs/lambdamart.md).
        loss: what is learned with. Trees take pairs of documents by what swapping them changes: LambdaLoss thinks most
            of close neighbours, and trees, unlike coefficients, do not carry over to the others what they learn there.
    """

    name: str
    batch_queries: int | None
    normalize: str
    loss: str
    max_epochs: int = 100
    patience: int = 20


KINDS = {
    kind.name: kind
    for kind in (
        Kind("linear", 1, "query", "lambdaloss-truncated"),
        Kind("mlp", 16, "query", "lambdaloss-truncated"),
        Kind("lambdamart", None, "none", "lambdarank", max_epochs=300, patience=100),
        Kind("module", 16, "query", "lambdaloss-truncated"),
    )
}
MODELS = ("linear", "mlp", "lambdamart")


def kind_of(model: Any) -> Kind:
    """The kind of what was given as `Ranker(model=...)`.

    >>> kind_of("lambdamart").normalize
    'none'
    """
    if isinstance(model, str):
        return KINDS[check_choice(model, MODELS, "model")]
    torch = sys.modules.get("torch")  # who has made a module has loaded it
    if torch is not None and isinstance(model, torch.nn.Module):
        return KINDS["module"]
    raise CounterrankError(f"model: {type(model).__name__}; expected {', '.join(MODELS)} or a torch.nn.Module")


def learn(task: Task, model: Any) -> FittedModel:
    """Learn a model of the kind that was asked for."""
    kind = kind_of(model)
    if kind.name == "linear":
        return fit_linear(task)
    if kind.name == "lambdamart":
        from counterrank.training.boosting import fit_trees

        return fit_trees(task)
    from counterrank.training.network_training import fit_network

    return fit_network(task, None if kind.name == "mlp" else model)
