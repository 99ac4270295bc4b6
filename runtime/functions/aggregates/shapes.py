"""Skewness and kurtosis of distributions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from runtime.functions.aggregates.function import (
    FromValues,
    MergedFunction,
    Values,
    WindowValues,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Floats = npt.NDArray[np.float64]


def moments(values: WindowValues, power: int) -> tuple[Floats, Floats]:
    """Return the sums of the squared distances from the mean, and of the distances to a power."""
    import numpy as np

    window, number, count = values.runs()
    starts = np.searchsorted(window, np.arange(len(values.counts)))
    numbers = values.distinct.to_numpy()[number]
    with np.errstate(all="ignore"):
        # relative to the first value, so that distances of equal values are exactly zero
        distance = numbers - numbers[starts][window]
        mean = np.add.reduceat(distance * count, starts) / values.counts
        distance -= mean[window]
        squares, powers = (
            np.add.reduceat(distance**exponent * count, starts) for exponent in (2, power)
        )
    return squares, powers


def _skewness(values: WindowValues) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    squares, cubes = moments(values, 3)
    with np.errstate(all="ignore"):
        result = np.sqrt(values.counts) * cubes / np.sqrt(squares * squares * squares)
    return pa.array(result, mask=squares == 0)


def _kurtosis(values: WindowValues) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    squares, fourth = moments(values, 4)
    with np.errstate(all="ignore"):
        result = values.counts * fourth / (squares * squares) - 3
    return pa.array(result, mask=squares == 0)


def _mean_power(values: Values, power: int) -> float:
    """Return the mean of the distances from the mean to a power."""
    exact = [Fraction(value) for value in values]
    mean = sum(exact, Fraction(0)) / len(exact)
    return float(sum(((value - mean) ** power for value in exact), Fraction(0)) / len(exact))


def _ratio(values: Values, power: int) -> float | None:
    """Return the standardized moment of a power."""
    if not all(math.isfinite(value) for value in values):
        return math.nan
    variance = _mean_power(values, 2)
    return _mean_power(values, power) / variance ** (power / 2) if variance else None


def _skewness_of(values: Values) -> float | None:
    return _ratio(values, 3)


def _kurtosis_of(values: Values) -> float | None:
    ratio = _ratio(values, 4)
    return None if ratio is None else ratio - 3


_TEXT = "NULL if all values are equal. The exchange carries all values once."

FUNCTIONS = (
    MergedFunction(
        "SKEWNESS", FromValues(_skewness), "skewness", text=_TEXT, definition=_skewness_of
    ),
    MergedFunction(
        "KURTOSIS", FromValues(_kurtosis), "excess kurtosis", text=_TEXT, definition=_kurtosis_of
    ),
)
