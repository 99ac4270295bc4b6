"""Functions over changes: their results from the values that remain, with their counts.

A deleted row cannot be taken back from a minimum, nor exactly from a sum of doubles. The counts of
values can take it back, and each form of a function follows from them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

from runtime.functions.aggregates.function import (
    Form,
    FromValues,
    Merged,
    Picked,
    Spread,
    Takes,
    WindowValues,
)
from runtime.functions.aggregates.shapes import moments
from runtime.spec.aggregates import MergeOp

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


@cache
def from_counts(form: Form) -> FromValues | None:
    """Return how a form follows from the counts of values; None if it does not.

    A mean is the SUM divided by the COUNT.
    """
    match form:
        case FromValues():
            return form
        case Merged(op, takes):
            return FromValues(_MERGED[op], takes=takes, values="", returns="")
        case Spread():
            return FromValues(partial(_spread, form))
        case Picked():
            return FromValues(partial(_picked, form), takes=Takes.FLAT, values="", returns="")
    return None


def _smallest(values: WindowValues) -> pa.Array:
    return values.distinct.take(values.at(values.counts * 0))


def _largest(values: WindowValues) -> pa.Array:
    return values.distinct.take(values.at(values.counts - 1))


def _count(values: WindowValues) -> pa.Array:
    import pyarrow as pa

    return pa.array(values.counts)


def _total(values: WindowValues) -> pa.Array:
    """Return the sums: of FLOAT and DOUBLE as DOUBLE, exact ones as decimals."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    window, number, count = values.runs()
    if pa.types.is_floating(values.distinct.type):
        numbers = values.distinct.to_numpy().astype(np.float64)[number]
        with np.errstate(all="ignore"):
            return pa.array(np.add.reduceat(numbers * count, _starts(values, window)))
    scale = values.distinct.type.scale if pa.types.is_decimal(values.distinct.type) else 0
    exact = values.distinct.cast(pa.decimal256(38, scale)).take(pa.array(number))
    weighted = pc.multiply(exact, pa.array(count).cast(pa.decimal256(19, 0)))
    rows = pa.table({"window": window, "sum": weighted})
    sums = rows.group_by("window", use_threads=False).aggregate([("sum", "sum")])
    return sums.column("sum_sum").combine_chunks()


def _bits(name: str) -> Callable[[WindowValues], pa.Array]:
    def result(values: WindowValues) -> pa.Array:
        import numpy as np
        import pyarrow as pa

        window, number, count = values.runs()
        numbers = values.distinct.to_numpy()[number]
        if name == "bitwise_xor":
            numbers = np.where(count % 2 == 1, numbers, numbers.dtype.type(0))
        return pa.array(getattr(np, name).reduceat(numbers, _starts(values, window)))

    return result


def _spread(form: Spread, values: WindowValues) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    squares, _ = moments(values, 2)
    with np.errstate(all="ignore"):
        variance = squares / (values.counts - form.less)
        result = np.sqrt(variance) if form.is_root else variance
    return pa.array(result, mask=values.counts <= form.less)


def _picked(form: Picked, values: WindowValues) -> pa.Array:
    """Return the second fields of the first or last structs of order and value."""
    return (_largest if form.is_last else _smallest)(values).field(1)


def _starts(values: WindowValues, window: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    import numpy as np

    starts: npt.NDArray[np.int64] = np.searchsorted(window, np.arange(len(values.counts)))
    return starts


_MERGED = {
    MergeOp.SUM: _total,
    MergeOp.COUNT: _count,
    MergeOp.MIN: _smallest,
    MergeOp.MAX: _largest,
    MergeOp.BIT_AND: _bits("bitwise_and"),
    MergeOp.BIT_OR: _bits("bitwise_or"),
    MergeOp.BIT_XOR: _bits("bitwise_xor"),
}
