"""Commands over a saved ranker: `evaluate`, `rank`, `explain` and `export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from counterrank.cli.evidence import load_model_and_data
from counterrank.cli.options import (
    Data,
    FeatureNames,
    Force,
    Json,
    Part,
    SavedRanker,
    Threads,
    Threshold,
    option,
    reads_data,
)
from counterrank.cli.output import (
    check_out,
    constant_features,
    constant_in_words,
    print_json,
    print_table,
    say,
    show_warnings,
)
from counterrank.common.checks import check_whole
from counterrank.common.errors import CounterrankError, printable

if TYPE_CHECKING:
    from counterrank import Ranker
    from counterrank.data.sources import DataOptions

_BAR = 24  # characters of the longest bar


@reads_data
def evaluate(
    ranker: SavedRanker,
    data: Data,
    part: Part = "test",
    relevance_threshold: Threshold = 3,
    metrics: Annotated[
        str | None,
        option(
            "Comma-separated: arp, dcg, dcg@k, ndcg, ndcg@k, precision@k, recall@k, mrr, map, ndcg_graded@k; all if "
            "not given.",
            "LIST",
        ),
    ] = None,
    ks: Annotated[str, option("Cutoffs k, where --metrics names none.", "LIST")] = "1,3,5,10",
    ties: Annotated[
        str, option("Equal scores: average (over their orders) or order (of the documents).", "NAME")
    ] = "average",
    threads: Threads = None,
    json: Json = False,
    *,
    opening: DataOptions,
) -> None:
    """Evaluate a saved ranker on the labels of ranking data; a note says if it was trained on these queries.

    Example: counterrank evaluate ranker synthetic:mslr --metrics dcg@5,ndcg@10,arp
    """
    from counterrank import evaluation

    loaded, chosen = load_model_and_data(ranker, data, part, threads, opening)
    with show_warnings():
        scores = loaded.predict(chosen)
    values = evaluation.evaluate(
        scores,
        chosen,
        relevance_threshold,
        metrics=None if metrics is None else [name.strip() for name in metrics.split(",")],
        ks=_cutoffs(ks),
        ties=ties,
        threads=threads,
    )
    seen = loaded.share_seen(chosen)
    if json:
        about = {"model": str(ranker), "data": data, "queries": chosen.n_queries}
        print_json({**about, "in_sample": None if seen is None else seen > 0.0, "share_seen": seen, "metrics": values})
    else:
        title = f"{ranker} on {data} ({chosen.n_queries:,} queries{', IN-SAMPLE' if seen else ''})"
        print_table(title, ("metric", "value"), list(values.items()))
    _say_seen(ranker, seen)


def _say_seen(ranker: Path, share: float | None) -> None:
    """A note where metrics are in-sample, or may be."""
    if share is None:
        say(f"Note: {ranker} does not record what it was trained on; make sure that these queries are held out.")
    elif share:
        shown = "these queries" if share == 1.0 else f"{100.0 * share:.2g} % of these queries"
        say(
            f"Note: in-sample: {ranker} was trained on or stopped by {shown}, so these metrics are too good; expected "
            "held-out data, such as the test part of its fold or of the --split it was trained with."
        )


def _cutoffs(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and int(word) >= 1 for word in words):
        raise CounterrankError(f"--ks {text}: expected whole numbers of at least 1, such as 1,3,5,10")
    return [int(word) for word in words]


@reads_data
def rank(
    ranker: SavedRanker,
    data: Data,
    out: Annotated[Path, option("The file to write: .parquet, .csv, or a TREC run by any other name.", "PATH")],
    part: Part = "test",
    depth: Annotated[int | None, option("The most documents to write for a query.", "N")] = None,
    tag: Annotated[str, option("Name of the run in a TREC run.", "NAME")] = "counterrank",
    force: Force = False,
    threads: Threads = None,
    json: Json = False,
    *,
    opening: DataOptions,
) -> None:
    """Rank the documents of each query with a saved ranker; the file can be used as --logger and --against.

    Example: counterrank rank ranker synthetic:mslr --out run.trec
    """
    from counterrank.evaluation import ranked_rows, write_run

    check_out(out, force, (ranker, data))
    loaded, chosen = load_model_and_data(ranker, data, part, threads, opening)
    with show_warnings():
        scores = loaded.predict(chosen)
    rows = ranked_rows(scores, chosen, depth)
    write_run(rows, out, tag)
    if json:
        print_json({"out": str(out), "queries": chosen.n_queries, "rows": rows.num_rows})
    else:
        print(f"{out}: {rows.num_rows:,} rows for {chosen.n_queries:,} queries")


def explain(
    ranker: SavedRanker,
    top: Annotated[int, option("Number of features to show.", "N")] = 20,
    features: FeatureNames = None,
    json: Json = False,
) -> None:
    """Show what a saved ranker was trained on, and the importances of its features.

    Example: counterrank explain ranker --top 10 --features names.json

    Importance is a share of the whole. Linear: the coefficient's size times how much the scaled feature varies within
    a query of the training data. Trees: what the splits on the feature gained. Neural networks have none.
    """
    from counterrank import Ranker

    check_whole(top, "top")
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
        whose = {"blend": "its two rankers may have some", "specialised": "its general ranker may have some"}
        also = whose.get(loaded.kind_, "linear models and trees do")
        what = loaded.kind_ if loaded.kind_ in whose else f"{loaded.kind_}: a neural network"
        say(f"{what} has no feature importances; {also}.")
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
    settings = [
        f"{key} {value}"
        for key, value in estimator.items()
        if key not in ("name", "why", "tried") and value is not None
    ]
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
    if features is None:
        names = {i: printable(name) for i, name in enumerate(ranker.feature_names_in_)}
    else:
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


def export(
    ranker: SavedRanker,
    to: Annotated[str, option("The target: {targets}.", "NAME")],
    out: Annotated[Path, option("The file to write.", "PATH")],
    features: FeatureNames = None,
    name: Annotated[str, option("Name of the model in the target system.", "NAME")] = "counterrank",
    tree_format: Annotated[
        str, option("Trees in es-ltr: xgboost (features by name) or ranklib (by number).", "NAME")
    ] = "xgboost",
    force: Force = False,
    json: Json = False,
) -> None:
    """Export a saved ranker to ONNX, Elasticsearch or OpenSearch, Solr, LightGBM, or JSON.

    Example: counterrank export ranker --to es-ltr --features names.json --name title_ranker --out model.json
    """
    from counterrank import Ranker
    from counterrank.export import write

    check_out(out, force, (ranker, features))
    written = write(Ranker.load(ranker), out, to, features, name, tree_format)
    for note in written.notes:
        say(f"Note: {note}.")
    if json:
        numbered = {str(number): label for number, label in written.features.items()}
        print_json({"out": str(out), "to": to, "name": name, "features": numbered, "notes": list(written.notes)})
    else:
        print(f"{out}: {out.stat().st_size:,} bytes for {to}")
