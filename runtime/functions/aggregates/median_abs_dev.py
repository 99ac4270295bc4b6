"""MEDIAN_ABS_DEV, a spread that few extreme values hardly change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.functions.aggregates.function import (
    FromValues,
    MergedFunction,
    Values,
    WindowValues,
)
from runtime.functions.aggregates.percentiles import interpolation, median

if TYPE_CHECKING:
    import pyarrow as pa


def _median_abs_dev(values: WindowValues) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    window, number, _ = values.runs()
    with np.errstate(invalid="ignore"):
        distance = values.distinct.to_numpy()[number] - median(values).to_numpy()[window]
    return median(values.mapped(pa.array(np.abs(distance))))


def _definition(values: Values) -> float:
    center = interpolation(values, 0.5)
    return interpolation([abs(float(value) - center) for value in values], 0.5)


_MEDIAN = "({0}[(SIZE({0}) - 1) DIV 2] + {0}[SIZE({0}) DIV 2]) / 2"
_DISTANCES = f"TRANSFORM(v, x -> ABS(x - {_MEDIAN.format('v')}))"

FUNCTIONS = (
    MergedFunction(
        "MEDIAN_ABS_DEV",
        FromValues(
            _median_abs_dev,
            spark=f"TRANSFORM(ARRAY(SORT_ARRAY({_DISTANCES})), d -> {_MEDIAN.format('d')})[0]",
        ),
        "median of the distances from the median",
        text="Few extreme values hardly change it. Spark has no such function.",
        definition=_definition,
    ),
)
