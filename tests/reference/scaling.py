"""Scaling of features in plain numpy, with missing values left out of every statistic."""

from __future__ import annotations

from itertools import pairwise

import numpy as np


def scaled_in_queries(features, offsets):
    """(x - min) / (max - min) over the values of each query that are not missing; 0 where these are equal."""
    out = np.array(features, np.float64)
    for start, end in pairwise(offsets):
        for column in range(out.shape[1]):
            values = out[start:end, column]
            present = values[~np.isnan(values)]
            if not len(present):
                continue
            low, high = present.min(), present.max()
            values[~np.isnan(values)] = (present - low) * (1.0 / (high - low)) if high > low else 0.0
    return out.astype(np.float32)


def mean_and_deviation(features):
    """Of the values of each column that are not missing; 0 where all are."""
    means, deviations = [], []
    for column in np.asarray(features, np.float64).T:
        present = column[~np.isnan(column)]
        means.append(present.mean() if len(present) else 0.0)
        deviations.append(np.sqrt(np.mean((present - means[-1]) ** 2)) if len(present) else 0.0)
    return np.array(means), np.array(deviations)


def constant_columns(features, offsets):
    """The columns that within each query are missing for all documents, or have one value for all."""
    found = []
    for column in range(np.shape(features)[1]):
        parts = [features[start:end, column] for start, end in pairwise(offsets)]
        if all(np.isnan(part).all() or (part == part[0]).all() for part in parts):
            found.append(column)
    return found
