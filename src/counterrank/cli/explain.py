"""`counterrank explain`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterrank.cli.options import FeatureNames, Json, Model
from counterrank.cli.output import constant_features, constant_in_words, print_json, print_table, say
from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from counterrank import Ranker

_BAR = 24


def explain(
    model: Model,
    top: Annotated[int, typer.Option(help="How many features to show.")] = 20,
    features: FeatureNames = None,
    json: Json = False,
) -> None:
    """Show which features a saved ranker goes by, the most important first.

    Example: counterrank explain ranker --top 10 --features names.json

    Importance is a share of the whole. Linear: the coefficient's size times how much the scaled feature varies within
    a query of the training data. Trees: what the splits on the feature gained.
    """
    from counterrank import Ranker

    if top < 1:
        raise CounterrankError(f"top={top}: expected a whole number of at least 1")
    ranker = Ranker.load(model)
    rows = _rows(ranker, features)
    constant = constant_features(ranker)
    used = sum(row["importance"] > 0.0 for row in rows)
    if json:
        print_json(
            {
                "model": str(model),
                "kind": ranker.kind_,
                "features_used": used,
                "constant_features": constant,
                "features": rows[:top],
            }
        )
        return
    largest = max(rows[0]["importance"], 1e-300)
    own = [name for name in rows[0] if name not in ("number", "name", "importance")]
    shown = [row for row in rows[:top] if row["importance"] > 0.0]
    print_table(
        f"{model}: {ranker.kind_}, {ranker.loss_}; {used:,} of {len(rows):,} features in use",
        ("feature", "name", "importance", *own, " "),
        [
            (
                str(row["number"]),
                row["name"],
                f"{row['importance']:.1%}",
                *(row[name] for name in own),
                "█" * max(1, round(_BAR * row["importance"] / largest)),
            )
            for row in shown
        ],
        left=("name", " "),
    )
    if len(shown) < used:
        say(f"{used - len(shown):,} more are in use; --top {used} shows them all.")
    if constant and constant["count"]:
        print(f"Features that never vary within a query of the training data: {constant_in_words(constant)}")


def _rows(ranker: Ranker, features: Path | None) -> list[dict[str, Any]]:
    """One row for each feature, the most important first: number, name, importance, and what the model says of it."""
    from counterrank.export.names import feature_names
    from counterrank.models import LinearModel, TreesModel

    learned = ranker.model_
    details: dict[str, Any] = {}
    if isinstance(learned, LinearModel):
        details["coefficient"] = learned.coefficients.tolist()
    elif isinstance(learned, TreesModel):
        details["splits"] = learned.booster.feature_importance("split").tolist()
    else:
        raise CounterrankError(
            f"model: {ranker.kind_}; a network does not tell which features it goes by, linear models and trees do"
        )
    names = feature_names(features, ranker.n_features_).by_feature
    shares = ranker.feature_importances_
    rows = [
        {
            "number": i + 1,
            "name": names.get(i, f"feature_{i + 1}"),
            "importance": float(shares[i]),
            **{name: values[i] for name, values in details.items()},
        }
        for i in range(len(shares))
    ]
    return sorted(rows, key=lambda row: -row["importance"])
