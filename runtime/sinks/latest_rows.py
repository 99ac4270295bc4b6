"""Latest rows of a stream, for the status page."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.frames.arrow_tables import arrow_table
from runtime.names import quote_name

# Maximum number of rows, from the latest windows
MAX_ROWS = 200
# Maximum interval between requests of an open page
_WATCHED_SECONDS = 10.0
# Minimum interval between fetches of rows that do not pass through this process
_FETCH_SECONDS = 2.0
_WINDOW_COLUMNS = ("window_end", "window_time", "window_start")


class LatestRows:
    """The latest rows of a stream, by the table that they went to.

    Rows that pass through this process are always recorded. Rows that tasks write are fetched by a
    separate job, but only while a page shows them, so that other streams have no extra cost.
    """

    def __init__(self) -> None:
        self.problem = ""
        self._lock = threading.Lock()
        self._tables: dict[str, pa.Table] = {}
        self._watched_until = 0.0
        self._fetched: dict[str, float] = {}

    def watch(self) -> None:
        """Record that a page shows the rows."""
        self._watched_until = time.monotonic() + _WATCHED_SECONDS

    def is_due(self, into: str) -> bool:
        """Return whether rows that go to a table should be fetched now."""
        now = time.monotonic()
        return now < self._watched_until and now >= self._fetched.get(into, 0.0) + _FETCH_SECONDS

    def fetch(self, into: str, rows: DataFrame) -> None:
        """Record rows of a micro-batch that tasks have written. They should be persisted."""
        self._fetched[into] = time.monotonic()
        column = _time_column(rows)
        ordered = rows if column is None else rows.orderBy(F.col(quote_name(column)).desc())
        try:
            latest = arrow_table(ordered.limit(MAX_ROWS))
        except (PySparkException, pa.ArrowException) as error:
            # The rows are written, so only their display is missing.
            self.problem = f"rows cannot be shown: {(str(error).splitlines() or [''])[0]}"
            return
        self.take(into, latest)

    def take(self, into: str, rows: pa.Table) -> None:
        """Record rows of a micro-batch, in any order."""
        if not rows.num_rows:
            return
        columns = [
            name
            for name in _WINDOW_COLUMNS
            if rows.column_names.count(name) == 1 and pa.types.is_timestamp(rows[name].type)
        ]
        by = [(name, "descending") for name in columns]
        if by and rows.num_rows > MAX_ROWS:
            rows = rows.take(pc.select_k_unstable(rows.select(columns), MAX_ROWS, by))
        rows = rows.slice(0, MAX_ROWS)
        with self._lock:
            before = self._tables.get(into)
            merged = rows
            if before is not None and before.schema == rows.schema:
                merged = pa.concat_tables([rows, before])
            if by:
                # newest first within a window
                positions = pa.array(range(merged.num_rows))
                keys = merged.select(columns).append_column("$place", positions)
                merged = merged.take(
                    pc.sort_indices(keys, sort_keys=[*by, ("$place", "ascending")])
                )
            self._tables[into] = merged.slice(0, MAX_ROWS)

    def tables(self) -> dict[str, pa.Table]:
        """Return the rows by the table that they went to, latest windows first."""
        with self._lock:
            return dict(self._tables)


def _time_column(rows: DataFrame) -> str | None:
    """Return the column that orders rows by time: a window column, or the first timestamp."""
    fields = rows.schema.fields
    names = [field.name for field in fields]
    for name in _WINDOW_COLUMNS:
        if names.count(name) == 1:
            return name
    times = [f.name for f in fields if f.dataType.typeName().startswith("timestamp")]
    return next((name for name in times if names.count(name) == 1), None)
