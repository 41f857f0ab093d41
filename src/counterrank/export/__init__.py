"""Rankers for other systems: ONNX, Elasticsearch and OpenSearch, Solr, LightGBM, JSON.

A file says what `predict` says, or is not written: what a target cannot hold faithfully is refused with a line that
tells what to train instead.
"""

from counterrank.export.exporting import TARGETS, TREE_FORMATS, Exported, write
from counterrank.export.feature_names import Names, feature_names

__all__ = ["TARGETS", "TREE_FORMATS", "Exported", "Names", "feature_names", "write"]
