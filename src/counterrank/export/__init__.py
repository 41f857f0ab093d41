"""Rankers for other systems: ONNX, Elasticsearch and OpenSearch, Solr, LightGBM, JSON.

A file says what `predict` says, or is not written: what a target cannot hold faithfully is refused with a line that
tells what to train instead.
"""

from counterrank.export.names import Names, feature_names
from counterrank.export.writing import TARGETS, TREE_FORMATS, Exported, write

__all__ = ["TARGETS", "TREE_FORMATS", "Exported", "Names", "feature_names", "write"]
