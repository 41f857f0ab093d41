"""`counterrank export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from counterrank.cli.options import FeatureNames, Force, Json, SavedRanker, option
from counterrank.cli.output import print_json, say
from counterrank.cli.writing import check_out


def export(
    ranker: SavedRanker,
    to: Annotated[str, option(help="The target: {targets}.", metavar="NAME")],
    out: Annotated[Path, option(help="The file to write.", metavar="PATH")],
    features: FeatureNames = None,
    name: Annotated[str, option(help="Name of the model in the target system.", metavar="NAME")] = "counterrank",
    tree_format: Annotated[
        str, option(help="Trees in es-ltr: xgboost (features by name) or ranklib (by number).", metavar="NAME")
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
