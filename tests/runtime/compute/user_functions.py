"""User-defined aggregates for tests, written as users would write them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.compute.user_aggregates import UserDefinedAggregateFunction


class WeightedMean(UserDefinedAggregateFunction):
    """`weighted_mean(value, weight)`: rows with a NULL do not count."""

    state = {"total": "double", "weight": "bigint"}
    returns = "double"

    def accumulate(self, groups, n_groups, values, weights):
        valid = np.asarray(values.is_valid()) & np.asarray(weights.is_valid())
        groups = groups[valid]
        value = values.cast(pa.float64()).to_numpy(zero_copy_only=False)[valid]
        weight = weights.cast(pa.float64()).to_numpy(zero_copy_only=False)[valid]
        return {
            "total": np.bincount(groups, value * weight, n_groups),
            "weight": np.bincount(groups, weight, n_groups).astype(np.int64),
        }

    def merge(self, groups, n_groups, states):
        return {
            "total": np.bincount(groups, states["total"], n_groups),
            "weight": np.bincount(groups, states["weight"], n_groups).astype(np.int64),
        }

    def finish(self, states):
        weight = states["weight"].to_numpy()
        with np.errstate(all="ignore"):
            mean = states["total"].to_numpy() / weight
        return pa.array(mean, mask=weight == 0)


class Longest(UserDefinedAggregateFunction):
    """`longest(text)`: the longest string, or the greatest of equally long ones."""

    state = {"text": "string"}
    returns = "string"

    def accumulate(self, groups, n_groups, texts):
        best = [None] * n_groups
        for group, text in zip(groups.tolist(), texts.to_pylist(), strict=True):
            if text is not None and (best[group] is None or _size(text) > _size(best[group])):
                best[group] = text
        return {"text": pa.array(best, pa.string())}

    def merge(self, groups, n_groups, states):
        return self.accumulate(groups, n_groups, states["text"])

    def finish(self, states):
        return states["text"]


def _size(text):
    return len(text), text
