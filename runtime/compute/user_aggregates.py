"""Call user-defined aggregate functions and check their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.compute.arrow.types import arrow_type
from runtime.compute.kernels.conversions import Int64Array, one_chunk
from runtime.errors import ExecutionError
from runtime.shown_types import shown_type
from runtime.spec.user_aggregates import States, UserDefinedAggregateFunction


def accumulate_rows(
    aggregate: UserDefinedAggregateFunction,
    groups: Int64Array,
    n_groups: int,
    args: Sequence[pa.Array],
) -> list[pa.Array]:
    """Return the state fields of each group of rows, with the types in `state`.

    Raises:
        ExecutionError: `accumulate` fails or returns an invalid result.
    """
    try:
        states = aggregate.accumulate(groups, n_groups, *args)
    except Exception as error:
        raise _call_error(aggregate, "accumulate", error) from error
    return _fields(aggregate, "accumulate", states, n_groups)


def merge_states(
    aggregate: UserDefinedAggregateFunction,
    groups: Int64Array,
    n_groups: int,
    columns: Sequence[pa.Array],
) -> list[pa.Array]:
    """Merge each group of states to one, as a list of fields.

    Raises:
        ExecutionError: `merge` fails or returns an invalid result.
    """
    fields = dict(zip(aggregate.state, columns, strict=True))
    try:
        states = aggregate.merge(groups, n_groups, fields)
    except Exception as error:
        raise _call_error(aggregate, "merge", error) from error
    return _fields(aggregate, "merge", states, n_groups)


def finish_states(aggregate: UserDefinedAggregateFunction, columns: Sequence[pa.Array]) -> pa.Array:
    """Return the result of each state, with the type in `returns`.

    Raises:
        ExecutionError: `finish` fails or returns an invalid result.
    """
    fields = dict(zip(aggregate.state, columns, strict=True))
    try:
        result = aggregate.finish(fields)
    except Exception as error:
        raise _call_error(aggregate, "finish", error) from error
    return _array(aggregate, "finish", "the result", result, aggregate.returns, len(columns[0]))


def _fields(
    aggregate: UserDefinedAggregateFunction, method: str, states: States, n_groups: int
) -> list[pa.Array]:
    if not isinstance(states, Mapping):
        raise ExecutionError(
            f"{_name(aggregate)}.{method} must return a dict, not {type(states).__name__}",
            hint=f"return a dict with the keys {', '.join(aggregate.state)}",
        )
    missing = [name for name in aggregate.state if name not in states]
    if missing:
        raise ExecutionError(
            f"the result of {_name(aggregate)}.{method} has no key `{missing[0]}`",
            hint=f"return a dict with the keys {', '.join(aggregate.state)}",
        )
    return [
        _array(aggregate, method, f"`{name}`", states[name], type_, n_groups)
        for name, type_ in aggregate.state.items()
    ]


def _array(
    aggregate: UserDefinedAggregateFunction,
    method: str,
    what: str,
    values: Any,
    type_: str,
    n_rows: int,
) -> pa.Array:
    try:
        if isinstance(values, pa.Array | pa.ChunkedArray):
            array = one_chunk(values)
        else:
            array = pa.array(values)
        if array.type != (expected := arrow_type(type_)):
            array = array.cast(expected)
    except (pa.ArrowException, TypeError, ValueError) as error:
        first_line = str(error).partition("\n")[0]
        raise ExecutionError(
            f"{_name(aggregate)}.{method}: {what} cannot be converted to "
            f"{shown_type(type_)}: {first_line}"
        ) from error
    if len(array) != n_rows:
        raise ExecutionError(
            f"{_name(aggregate)}.{method}: {what} has {len(array)} values for {n_rows} groups",
            hint="return one value per group, also for groups without rows",
        )
    return array


def _call_error(
    aggregate: UserDefinedAggregateFunction, method: str, error: Exception
) -> ExecutionError:
    if isinstance(error, ExecutionError):
        return error
    text = str(error).partition("\n")[0]
    return ExecutionError(
        f"{_name(aggregate)}.{method} failed: {type(error).__name__}{': ' if text else ''}{text}"
    )


def _name(aggregate: UserDefinedAggregateFunction) -> str:
    return type(aggregate).__name__


def no_groups() -> Int64Array:
    """Return the groups of no rows."""
    return np.zeros(0, np.int64)
