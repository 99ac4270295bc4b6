"""HyperLogLog++: approximate distinct counts, in registers that merge by their maximum.

A value's hash selects one of 2**precision registers, and the register stores the maximum number of
leading zeros in the remaining bits (Flajolet et al. 2007; Heule, Nunkesser, Hall 2013). Here a
register and its rank are one number, `register << 6 | rank`, and a slice holds a list of its
registers. Hash, rank and tables are Spark's, so that APPROX_COUNT_DISTINCT has the same estimates.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.compute.kernels.conversions import Float64Array, Int64Array, from_buffer, validity
from runtime.compute.values.xxhash64 import xxhash64

RANK_BITS = 6
# Ranks up to this are added in units of 2**-_COARSE_BITS, higher ones in units of 2**-_FINE_BITS;
# both are exact as int64 for billions of registers.
_COARSE_BITS = 30
_FINE_BITS = 61

_NEIGHBOURS = 6


def register_codes(column: pa.Array, precision: int) -> pa.Array:
    """Return the register of each value with its rank, INT; NULL for NULL.

    Args:
        column: Column of a type that `xxhash64` supports.
        precision: 4 to 18, for 2**precision registers.
    """
    hashes = xxhash64(column)
    register = (hashes >> np.uint64(64 - precision)).astype(np.int32)
    rest = (hashes << np.uint64(precision)) | np.uint64(1 << (precision - 1))
    codes = (register << RANK_BITS) | (_leading_zeros(rest) + 1)
    return from_buffer(codes, validity(column), pa.int32(), len(codes))


def register_sums(rank: Int64Array, at: Int64Array, n: int) -> tuple[Int64Array, Int64Array]:
    """Sum the amounts that ranks reached subtract from the sum of 2**-rank over all registers.

    A register of rank r has reached the ranks 1 .. r, and 2**-r is 1 - 2**-1 - ... - 2**-r. So the
    sum follows from the (register, rank) pairs present, each counted separately.

    Args:
        rank: Rank of each (register, rank) reached.
        at: Index to which it is added, 0 .. n - 1.
        n: Number of sums.

    Returns:
        (coarse, fine) int64[n] each, in units of 2**-30 and of 2**-61.
    """
    coarse, fine = np.zeros(n, np.int64), np.zeros(n, np.int64)
    is_coarse = rank <= _COARSE_BITS
    weight = np.left_shift(1, np.where(is_coarse, _COARSE_BITS, _FINE_BITS) - rank)
    np.add.at(coarse, at[is_coarse], weight[is_coarse])
    if not is_coarse.all():
        np.add.at(fine, at[~is_coarse], weight[~is_coarse])
    return coarse, fine


def inverse_sum(precision: int, coarse: Int64Array, fine: Int64Array) -> Float64Array:
    """Return the sum of 2**-rank over all registers from the sums of `register_sums`."""
    left = (1 << (precision + _COARSE_BITS)) - coarse
    return np.ldexp(left.astype(np.float64), -_COARSE_BITS) - np.ldexp(
        fine.astype(np.float64), -_FINE_BITS
    )


def estimates(precision: int, inverse: Float64Array, n_empty: Int64Array) -> Int64Array:
    """Estimate the numbers of distinct values as Spark does.

    Linear counting is used for few values, else the raw estimate minus its bias.

    Args:
        precision: Binary logarithm of the number of registers, 4 to 18.
        inverse: Sum of 2**-rank over all registers.
        n_empty: Number of empty registers.
    """
    threshold, raw, bias = _tables(precision)
    m = 1 << precision
    alpha = {4: 0.673, 5: 0.697, 6: 0.709}.get(precision, 0.7213 / (1.0 + 1.079 / m))
    estimate = alpha * m * m / inverse
    corrected = np.where(estimate < 5.0 * m, estimate - _bias(estimate, raw, bias), estimate)
    linear = m * np.log(m / np.maximum(n_empty, 1))
    is_linear = (n_empty > 0) & ((linear <= threshold) | (estimate <= 2.5 * m))
    return np.floor(np.where(is_linear, linear, corrected) + 0.5).astype(np.int64)


@cache
def _tables(precision: int) -> tuple[float, Float64Array, Float64Array]:
    """Return the threshold of linear counting, raw estimates, and their biases.

    They are the tables in the appendix of the HyperLogLog++ paper, which Spark uses too.
    """
    text = files("runtime.compute.values").joinpath("hyperloglog.json").read_text("utf-8")
    table = json.loads(text)[str(precision)]
    return table["threshold"], np.array(table["raw"], float), np.array(table["bias"], float)


def _bias(estimate: Float64Array, raw: Float64Array, bias: Float64Array) -> Float64Array:
    """Return the mean bias of the nearest raw estimates."""
    low = np.maximum(np.searchsorted(raw, estimate) - _NEIGHBOURS + 1, 0)
    low = np.minimum(low, len(raw) - 1)
    high = np.minimum(low + _NEIGHBOURS, len(raw))
    while True:
        next_ = np.minimum(high, len(raw) - 1)
        nearer = (high < len(raw)) & ((estimate - raw[next_]) ** 2 < (estimate - raw[low]) ** 2)
        if not nearer.any():
            break
        low, high = low + nearer, high + nearer
    total = np.zeros(len(estimate))
    for step in range(_NEIGHBOURS):
        at = low + step
        total += np.where(at < high, bias[np.minimum(at, len(bias) - 1)], 0.0)
    mean: Float64Array = total / (high - low)
    return mean


def _leading_zeros(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
    """Return the number of leading zero bits; no value is 0."""
    zeros = np.zeros(len(values), np.int32)
    values = values.copy()
    for bits in (32, 16, 8, 4, 2, 1):
        is_small = values < np.uint64(1 << (64 - bits))
        zeros[is_small] += bits
        values[is_small] <<= np.uint64(bits)
    return zeros
