"""Rankers for other systems: ONNX, Elasticsearch and OpenSearch, Solr, LightGBM, JSON.

An exported file gives the same scores as `predict`. A ranker that a target cannot represent is refused, with advice on
what to train instead. `register_target` adds a target without changing the library.
"""

from counterrank.export.onnx_graph import ONNX
from counterrank.export.plain_formats import JSON, LIGHTGBM
from counterrank.export.search_engines import ES_LTR, SOLR
from counterrank.export.targets import (
    TARGETS,
    TREE_FORMATS,
    Exported,
    ExportJob,
    Names,
    Target,
    feature_names,
    register_target,
    target_table,
    unregister_target,
    write,
)

for _target in (ONNX, ES_LTR, SOLR, LIGHTGBM, JSON):
    register_target(_target)

__all__ = [
    "TARGETS",
    "TREE_FORMATS",
    "ExportJob",
    "Exported",
    "Names",
    "Target",
    "feature_names",
    "register_target",
    "target_table",
    "unregister_target",
    "write",
]


def __dir__() -> list[str]:
    return sorted(__all__)
