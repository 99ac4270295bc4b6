"""Protocol of a query's rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from runtime.spec.table import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class QueryRows(Protocol):
    """Rows of a query. Each call of `batches` computes them again."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Names and Spark types of the columns. Two columns may have the same name."""

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of all batches, with instants in the session's time zone."""

    def batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows, at most `limit`, in batches of `schema`, in bounded memory.

        Raises:
            Exception: The rows cannot be computed. Spark's errors are not translated.
        """

    def dataframe(self) -> DataFrame:
        """Return the rows as a Spark DataFrame that has not been computed."""


class RunRecord(Protocol):
    """Execution record of a statement, which computing its rows updates."""

    def compute_rows(self, action: Callable[[], Any], *, has_jobs: bool = True) -> Any:
        """Run an action that computes rows, and record the outcome.

        Args:
            action: Action to run.
            has_jobs: Whether the action may start Spark jobs, which are then tagged.
        """

    def count_rows(self, n_rows: int) -> None:
        """Record the number of rows returned."""

    def finish(self) -> None:
        """Record that the reader needs no more rows."""

    def record_failure(self, error: BaseException) -> None:
        """Record that computing the rows failed."""


def compute(run: RunRecord | None, action: Callable[[], Any], *, has_jobs: bool = True) -> Any:
    """Run an action that computes rows, and record the outcome if there is a record."""
    return action() if run is None else run.compute_rows(action, has_jobs=has_jobs)
