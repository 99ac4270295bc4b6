"""Convert keys, windows and results of the general window operator to Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from runtime.errors import ExecutionError
from runtime.streaming.general.operator import Emission
from runtime.streaming.general.windows import GLOBAL_WINDOW


def function_key(values: tuple[Any, ...]) -> Any:
    """Return the key as functions receive it: one value, or a tuple for several key columns."""
    return values[0] if len(values) == 1 else values


def results_batch(emissions: Sequence[Emission], n_keys: int, schema: pa.Schema) -> pa.RecordBatch:
    """Return results as rows of `schema`: keys, `window_start`, `window_end`, result columns.

    Raises:
        ExecutionError: A result does not fit the columns.
    """
    names = schema.names[n_keys + 2 :]
    rows = []
    for emission in emissions:
        key = (emission.key,) if n_keys == 1 else emission.key
        rows.append((*key, *_bounds(emission), *result_row(emission.result, names)))
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = []
    for column, field in zip(columns, schema, strict=True):
        try:
            arrays.append(pa.array(column, field.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise ExecutionError(
                f"values of a window function for `{field.name}` are not {field.type}: {error}",
                hint="return the types declared in `output`, or change `output`",
            ) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _bounds(emission: Emission) -> tuple[int | None, int | None]:
    if emission.window == GLOBAL_WINDOW:
        return None, None
    return emission.window.start_us, emission.window.end_us


def result_row(result: Any, names: Sequence[str]) -> tuple[Any, ...]:
    """Return a result as a row: a mapping by name, a tuple or list by position, else one value.

    Raises:
        ExecutionError: The result does not fit the columns.
    """
    if isinstance(result, dict):
        if set(result) != set(names):
            raise ExecutionError(
                f"a window function returned the fields {', '.join(map(str, result))}",
                hint=f"`output` declares {', '.join(names)}",
            )
        return tuple(result[name] for name in names)
    row = tuple(result) if isinstance(result, tuple | list) else (result,)
    if len(row) != len(names):
        raise ExecutionError(
            f"a window function returned {len(row)} values",
            hint=f"`output` declares {', '.join(names)}",
        )
    return row
