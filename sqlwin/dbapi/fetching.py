"""Rows of a result, a part at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import pyarrow as pa

from runtime.spec.table import Column
from sqlwin.result import ExplainResult, Result, RowsResult, StreamedRows, TableResult

# Rows that are Python values at a time while a caller fetches few rows
_ROWS_AT_ONCE = 1024


class FetchedRows:
    """Rows of Arrow batches as tuples or as an Arrow table.

    Holds one batch, and `_ROWS_AT_ONCE` of its rows as Python values.

    Args:
        batches: Batches of `schema`. `close` closes the iterator, which cancels the query.
        schema: Arrow schema of the rows.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
        self._batches = batches
        self._schema = schema
        self._batch: pa.RecordBatch | None = None
        # rows of the batch that have been returned, and those that are in `_tuples`
        self._n_returned = self._n_converted = 0
        self._tuples: list[tuple[object, ...]] = []
        self.n_returned = 0

    def load(self) -> None:
        """Compute the first batch, so that most errors of the query are raised now."""
        self._next_batch()

    def take(self, n_rows: int) -> list[tuple[object, ...]]:
        """Return the next rows, at most `n_rows`."""
        taken: list[tuple[object, ...]] = []
        while len(taken) < n_rows and self._convert(n_rows - len(taken)):
            first = len(self._tuples) - (self._n_converted - self._n_returned)
            part = self._tuples[first : first + n_rows - len(taken)]
            self._n_returned += len(part)
            taken += part
        self.n_returned += len(taken)
        return taken

    def take_table(self) -> pa.Table:
        """Return all remaining rows."""
        rest = [] if self._batch is None else [self._batch.slice(self._n_returned)]
        self._batch, self._n_returned, self._n_converted = None, 0, 0
        table = pa.Table.from_batches(chain(rest, self._batches), self._schema)
        self.n_returned += table.num_rows
        return table

    def close(self) -> None:
        """Cancel the rest of the query."""
        self._batch, self._tuples = None, []
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()

    def _convert(self, n_wanted: int) -> bool:
        """Have rows in `_tuples` that have not been returned. Return whether there are any."""
        # imports PySpark
        from sqlwin.display.python_values import python_values

        while self._n_returned == self._n_converted:
            if self._batch is None or self._n_converted == self._batch.num_rows:
                if not self._next_batch():
                    return False
                continue
            part = self._batch.slice(self._n_converted, max(n_wanted, _ROWS_AT_ONCE))
            columns = [python_values(column) for column in part.columns]
            self._tuples = list(zip(*columns, strict=True))
            self._n_converted += part.num_rows
        return True

    def _next_batch(self) -> bool:
        self._batch, self._tuples = next(self._batches, None), []
        self._n_returned = self._n_converted = 0
        return self._batch is not None


_PLAN = Column("plan", "string", nullable=False)


def columns_of(result: Result) -> Sequence[Column] | None:
    """Return the columns of a result's rows, None for a statement without rows.

    EXPLAIN has a row per line of the plan.
    """
    match result:
        case RowsResult():
            return result.data.columns
        case TableResult():
            return [Column(name, "string") for name in result.columns]
        case ExplainResult():
            return [_PLAN]
        case _:
            return None


def rows_of(result: Result) -> FetchedRows | None:
    """Return the rows of a result, not computed yet, None for a statement without rows."""
    match result:
        case RowsResult() | TableResult():
            return FetchedRows(result.batches(), result.schema)
        case ExplainResult():
            lines = pa.record_batch({_PLAN.name: result.text.splitlines()})
            return FetchedRows(iter([lines]), lines.schema)
        case _:
            return None


def is_unbounded(result: Result) -> bool:
    """Return whether the rows of a result never end."""
    data = result.data if isinstance(result, RowsResult) else None
    return isinstance(data, StreamedRows) and not data.opened.is_bounded


def count_of(result: Result) -> int | None:
    """Return the number of rows that a statement wrote, None if it is unknown or wrote none."""
    return result.row_count if result.kind == "insert" else None
