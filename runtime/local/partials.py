"""What the local stages have in common: their accumulators and the columns of their partials."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from runtime.compute.arrow.types import arrow_type
from runtime.compute.kernels.partial_types import partial_types
from runtime.spec.aggregates import Accumulator, Merge, MergeOp
from runtime.spec.local import LocalStep
from runtime.spec.windows import FIRST_TIME, LAST_TIME, SessionWindow

_SESSION_TIMES = (Merge((FIRST_TIME,), MergeOp.MIN), Merge((LAST_TIME,), MergeOp.MAX))


def session_times(step: LocalStep[Any, Any]) -> tuple[Accumulator, ...]:
    """The accumulators of the times that sessions are cut by, each of the rows' time; else none."""
    return _SESSION_TIMES if isinstance(step.window, SessionWindow) else ()


def partial_schema(
    step: LocalStep[Any, Any], key_types: Iterable[str], arg_types: Iterable[Sequence[str]]
) -> pa.Schema:
    """The columns of partials: keys, slice end, accumulators, and for sessions their times.

    Args:
        step: the step.
        key_types: Spark's type of each key, in DDL spelling.
        arg_types: for each accumulator Spark's types of its arguments.

    Raises:
        AnalysisError: an argument is of a type that its function does not take.
    """
    keys = zip(step.keys, key_types, strict=True)
    fields = [pa.field(name, arrow_type(type_)) for name, type_ in keys]
    fields.append(pa.field(step.slice_end, pa.int64(), nullable=False))
    for into, types in zip(step.accumulators, arg_types, strict=True):
        fields += map(pa.field, into.columns, partial_types(into, types))
    for times in session_times(step):
        fields += [pa.field(name, pa.int64(), nullable=False) for name in times.columns]
    return pa.schema(fields)
