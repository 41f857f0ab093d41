"""Users to simulate: the paper's, two presets from published measurements, and user models fitted to a log.

The presets hold what was measured on real result pages, at ranks 1 to 10. Below rank 10 examination falls on by the
last measured ratio, theta_10 / theta_9, and click probabilities stay as at rank 10. docs/concepts/users.md says what
is measured and what is assumed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from counterrank.clicks.examination import Examination, UserModel, inverse_rank
from counterrank.clicks.user_estimation import load
from counterrank.clicks.user_models import Affine
from counterrank.clicks.users import ClickModel, simulated
from counterrank.common.checks import check_cutoff
from counterrank.common.errors import CounterrankError, brief
from counterrank.common.files import PathLike

PAPER = "paper"
_PAPER_LEVELS = (0.1, 1.0)


class _Measured(NamedTuple):
    """P(examined | rank) from rank 1, and P(click | examined) of relevant and of other documents."""

    examination: Sequence[float]
    relevant: float
    other: float | Sequence[float]


_MEASURED = {
    # position-based: the all-pairs curve of Baidu-ULTR; click probabilities without trust bias
    "baidu": _Measured((1.0, 0.674, 0.414, 0.293, 0.208, 0.171, 0.136, 0.117, 0.084, 0.058), 0.69, 0.25),
    # trust bias: from clicks on Yandex pages with editorial grades
    "yandex": _Measured(
        (1.0, 0.49, 0.30, 0.22, 0.17, 0.14, 0.12, 0.10, 0.09, 0.08),
        0.69,
        (0.41, 0.36, 0.36, 0.33, 0.30, 0.28, 0.27, 0.26, 0.25, 0.25),
    ),
}
PRESETS = (PAPER, *_MEASURED)


def preset(name: str, k: int) -> tuple[Examination, ClickModel]:
    """The examination curve of a preset up to rank k, and its click model.

    >>> curve, model = preset("baidu", k=12)
    >>> curve.curve(12)[8:].round(4).tolist()  # 0.058 / 0.084 from rank to rank below rank 10
    [0.084, 0.058, 0.04, 0.0277]
    >>> model
    ClickModel(relevant=0.69, other=0.25, gain='binary')
    """
    depth = check_cutoff(k)
    if depth is None:
        raise CounterrankError("k=None: expected the number of ranks")
    if name == PAPER:
        return inverse_rank(depth), ClickModel()
    if name not in _MEASURED:
        raise CounterrankError(f"users {brief(name)}: expected one of {', '.join(PRESETS)}, or a file")
    measured = _MEASURED[name]
    theta = np.array(measured.examination[:depth])
    below = np.arange(1, depth - len(theta) + 1)
    theta = np.concatenate([theta, theta[-1] * (measured.examination[-1] / measured.examination[-2]) ** below])
    other = measured.other if isinstance(measured.other, float) else tuple(measured.other[:depth])
    return Examination(theta), ClickModel(relevant=measured.relevant, other=other)


def users(name: PathLike, k: int | None = None, *, relevance: tuple[float, float] | None = None) -> Any:
    """Users by the name of a preset, or from the file of a user model; `simulate` takes them in place of `exam`.

        P(click | d, rank j) = alpha_j r_d + beta_j

    with r_d = relevance[1] for relevant documents and relevance[0] for others.

    Presets: "paper", theta_j = 1 / j, relevant documents clicked with 1.0 and others with 0.1 once examined; "baidu",
    a steeper curve and more clicks on irrelevant documents; "yandex", trust bias too: irrelevant documents are clicked
    more often at high ranks. With "yandex" and trust bias in general, inverse propensities of examination are biased.

    Arguments:
        name: "paper", "baidu", "yandex", or a file written by `save` of a user model, such as one fitted to a log.
        k: how many ranks a preset has, 10 if None; further down nothing is examined. A file has as many as it has.
        relevance: r of irrelevant and of relevant documents, for a file of an affine or position-based model; None for
            those in the file. Of a position-based model r is P(click | examined), by default the paper's 0.1 and 1.0.

    >>> yandex = users("yandex", k=5)
    >>> low, high = yandex.relevance
    >>> (yandex.alpha * high + yandex.beta).round(3).tolist(), (yandex.alpha * low + yandex.beta).round(3).tolist()
    ([0.69, 0.338, 0.207, 0.152, 0.117], [0.41, 0.176, 0.108, 0.073, 0.051])
    >>> users("paper", k=3).is_position_based
    True
    """
    if str(name) in PRESETS:
        if relevance is not None:
            raise CounterrankError(f"relevance: given for the preset {name}, which has its own; expected None")
        curve, model = preset(str(name), 10 if k is None else k)
        return Affine(*model.affine(curve, curve.k or 1), relevance=(0.0, 1.0))
    if not Path(name).exists():
        raise CounterrankError(
            f"users {brief(str(name))}: expected one of {', '.join(PRESETS)}, or a file of a user model that is there"
        )
    if k is not None:
        raise CounterrankError(f"k={k}: given for {name}, which has its own number of ranks; expected None")
    return with_relevance(load(name), relevance, str(name))


def with_relevance(model: Any, relevance: tuple[float, float] | None, name: str) -> Any:
    """A loaded model with the relevance of irrelevant and relevant documents, without which it cannot be simulated."""
    if isinstance(model, Examination) and model.k is not None:
        return Affine(model.curve(model.k), np.zeros(model.k), relevance or _PAPER_LEVELS)
    if isinstance(model, Affine):
        levels = relevance or model.relevance or (_PAPER_LEVELS if model.is_position_based else None)
        if levels is None:
            raise CounterrankError(
                f"{name}: an affine model without the relevance of irrelevant and of relevant documents; expected "
                "relevance, two numbers from 0 to 1 (--other and --relevant)"
            )
        return Affine(model.alpha, model.beta, levels)
    if relevance is not None:
        raise CounterrankError(f"relevance: given for {name}, which has no use for it; expected None")
    return model


def users_text(name: str) -> str:
    """Users as settings of an experiment hold them: the name of a preset, or the content of a file as JSON.

    >>> users_text("yandex")
    'yandex'
    """
    if name in PRESETS or name.lstrip().startswith("{"):
        return name
    model = users(name)
    if not isinstance(model, Affine):
        raise CounterrankError(f"users {name!r}: expected a preset, or a position-based or affine user model")
    return json.dumps(model.describe(), sort_keys=True)


def from_text(text: str, k: int) -> tuple[Examination, ClickModel]:
    """The curve and the click model of `users_text`.

    >>> from_text(users_text("paper"), k=2)[0]
    inverse_rank(k=2, eta=1)
    """
    if text in PRESETS:
        return preset(text, k)
    content = json.loads(text)
    return simulated(Affine(content["alpha"], content["beta"], content["relevance"]))


def has_trust_bias(exam: Any) -> bool:
    """Whether no examination curve says how these users click.

    >>> has_trust_bias(users("baidu")), has_trust_bias(users("yandex")), has_trust_bias([1.0, 0.5])
    (False, True, False)
    """
    return isinstance(exam, UserModel) and exam.base is not None
