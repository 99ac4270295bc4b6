"""The most frequent value."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from runtime.functions.aggregates.function import (
    FromValues,
    MergedFunction,
    Takes,
    Values,
    WindowValues,
    WithinGroup,
)

if TYPE_CHECKING:
    import pyarrow as pa


def _mode(values: WindowValues) -> pa.Array:
    import numpy as np

    window, number, count = values.runs()
    order = np.lexsort((number, -count, window))
    first = np.searchsorted(window, np.arange(len(values.counts)))
    return values.distinct.take(number[order[first]])


def _definition(values: Values) -> object:
    count = Counter(values)
    return min(value for value in count if count[value] == max(count.values()))


FUNCTIONS = (
    MergedFunction(
        "MODE",
        FromValues(
            _mode, takes=Takes.FLAT, values="", returns="", within_group=WithinGroup.OPTIONAL
        ),
        "most frequent value",
        text="The smallest of equally frequent values; with WITHIN GROUP (ORDER BY x DESC) the\n"
        "largest one. Where Spark runs MODE(x), it returns any of them.",
        definition=_definition,
    ),
)
