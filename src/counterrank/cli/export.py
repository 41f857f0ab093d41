"""`counterrank export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from counterrank.cli.options import FeatureNames, Json, Model
from counterrank.cli.output import print_json, say
from counterrank.cli.writing import Force, check_out


def export(
    model: Model,
    to: Annotated[str, typer.Option(help="onnx, es-ltr, solr, lightgbm (trees) or json (linear).")],
    out: Annotated[Path, typer.Option(help="The file to write.")],
    features: FeatureNames = None,
    name: Annotated[str, typer.Option(help="What the model is called there.")] = "counterrank",
    tree_format: Annotated[
        str, typer.Option(help="Trees in es-ltr: xgboost (features by name) or ranklib (by their place).")
    ] = "xgboost",
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a saved ranker for ONNX, Elasticsearch or OpenSearch, Solr, LightGBM, or as JSON.

    Example: counterrank export ranker --to es-ltr --features names.json --name title_ranker --out model.json
    """
    from counterrank import Ranker
    from counterrank.export import write

    check_out(out, force, (model, features))
    written = write(Ranker.load(model), out, to, features, name, tree_format)
    for note in written.notes:
        say(f"Note: {note}.")
    if json:
        numbered = {str(number): label for number, label in written.features.items()}
        print_json({"out": str(out), "to": to, "name": name, "features": numbered, "notes": list(written.notes)})
    else:
        print(f"{out}: {out.stat().st_size:,} bytes for {to}")
