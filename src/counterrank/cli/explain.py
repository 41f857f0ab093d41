"""`counterrank explain`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from counterrank.cli.options import FeatureNames, Json, SavedRanker, option
from counterrank.cli.output import constant_features, constant_in_words, print_json, print_table, say
from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from counterrank import Ranker

_BAR = 24


def explain(
    ranker: SavedRanker,
    top: Annotated[int, option(help="Number of features to show.", metavar="N")] = 20,
    features: FeatureNames = None,
    json: Json = False,
) -> None:
    """Show what a saved ranker was trained on, and the importances of its features.

    Example: counterrank explain ranker --top 10 --features names.json

    Importance is a share of the whole. Linear: the coefficient's size times how much the scaled feature varies within
    a query of the training data. Trees: what the splits on the feature gained. Neural networks have none.
    """
    from counterrank import Ranker

    if top < 1:
        raise CounterrankError(f"--top {top}: expected a whole number of at least 1")
    loaded = Ranker.load(ranker)
    rows = _rows(loaded, features)
    constant = constant_features(loaded)
    used = None if rows is None else sum(row["importance"] > 0.0 for row in rows)
    if json:
        shown = None if rows is None else rows[:top]
        about = {"model": str(ranker), "kind": loaded.kind_, "features_used": used, "constant_features": constant}
        print_json({**about, "features": shown, "provenance": loaded.provenance_})
        return
    if loaded.provenance_:
        print_table(f"{ranker}: trained on", ("", "value"), _provenance(loaded.provenance_))
    else:
        say(f"{ranker}: saved by a version that recorded no provenance.")
    if rows is None or used is None:
        say(f"{loaded.kind_}: a neural network has no feature importances; linear models and trees do.")
        return
    largest = max(rows[0]["importance"], 1e-300)
    own = [name for name in rows[0] if name not in ("number", "name", "importance")]
    most = [row for row in rows[:top] if row["importance"] > 0.0]
    print_table(
        f"{ranker}: {loaded.kind_}, {loaded.loss_}; {used:,} of {len(rows):,} features in use",
        ("feature", "name", "importance", *own, " "),
        [
            (
                str(row["number"]),
                row["name"],
                f"{row['importance']:.1%}",
                *(row[name] for name in own),
                "█" * max(1, round(_BAR * row["importance"] / largest)),
            )
            for row in most
        ],
        left=("name", " "),
    )
    if len(most) < used:
        say(f"{used - len(most):,} more are in use; --top {used} shows them all.")
    if constant and constant["count"]:
        print(f"Features that never vary within a query of the training data: {constant_in_words(constant)}")


def _provenance(found: dict[str, Any]) -> list[tuple[str, str]]:
    """What a ranker was learned from, as rows of a table."""
    estimator = found["estimator"] or {}
    settings = [f"{key} {value}" for key, value in estimator.items() if key not in ("name", "why", "tried")]
    rows = [
        ("date", found["date"]),
        ("version", f"counterrank {found['version']}"),
        ("command", found["command"] or "none (library)"),
        ("data", _data(found["data"])),
        ("validation", "none" if found["validation"] is None else _data(found["validation"])),
        ("features", f"{len(found['features']):,}"),
        ("clicks", _clicks(found["clicks"])),
        ("estimator", ", ".join([str(estimator.get("name", "not recorded")), *settings])),
        ("loss", f"{found['loss']}, k={found['k']}, early stopping by {found['metric']}"),
        ("model", f"{found['model']}, learning rate {found['learning_rate']:.4g}, epoch {found['best_epoch']}"),
        ("seed", "none (a generator)" if found["seed"] is None else str(found["seed"])),
    ]
    if "why" in estimator:
        rows.append(("why", estimator["why"]))
    return rows


def _data(found: dict[str, Any]) -> str:
    path = found["path"] or "not from a file"
    return f"{path}: {found['queries']:,} queries, {found['documents']:,} documents, identity {found['identity']}"


def _clicks(found: dict[str, Any] | str | None) -> str:
    if found is None:
        return "none: labels"
    if isinstance(found, str):
        return found
    where = ", ".join(found["paths"]) or "not from a file"
    parts = [f"{where}: {found['clicks']:,} clicks in {found['sessions']:,} sessions"]
    if found["policies"]:
        parts.append(f"policies {', '.join(found['policies'])}")
    if found["first"] is not None:
        parts.append(f"{found['first']} to {found['last']}")
    contents = [f"{source['policy']} {source['content']}".strip() for source in found["sources"]]
    parts.append(f"content {', '.join(contents)}")
    return "; ".join(parts)


def _rows(ranker: Ranker, features: Path | None) -> list[dict[str, Any]] | None:
    """One row for each feature, the most important first: number, name, importance, and what the model says of it.

    None for networks.
    """
    from counterrank.export.targets import feature_names
    from counterrank.models import LinearModel, TreesModel

    learned = ranker.model_
    details: dict[str, Any] = {}
    if isinstance(learned, LinearModel):
        details["coefficient"] = learned.coefficients.tolist()
    elif isinstance(learned, TreesModel):
        details["splits"] = learned.booster.feature_importance("split").tolist()
    else:
        return None
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
