"""The rows that a stream emitted last, for the page of what runs."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.frames.arrow_tables import arrow_table
from runtime.names import quoted

# So many rows are kept, those of the latest windows
MOST_ROWS = 200
# Somebody who looks asks at least this often
_WATCHED_SECONDS = 10.0
# Rows that do not come through this process are fetched at most this often
_FETCH_SECONDS = 2.0
_WINDOW_COLUMNS = ("window_end", "window_time", "window_start")


class LatestRows:
    """The rows of a stream that were emitted last, by the table that they went to.

    Rows that come through this process are always taken. Those that tasks write are fetched by a
    job of their own, and only as long as somebody looks: nothing else pays for it.
    """

    def __init__(self) -> None:
        self.problem = ""
        self._lock = threading.Lock()
        self._tables: dict[str, pa.Table] = {}
        self._watched_until = 0.0
        self._fetched: dict[str, float] = {}

    def watch(self) -> None:
        """Somebody looks."""
        self._watched_until = time.monotonic() + _WATCHED_SECONDS

    def is_due(self, into: str) -> bool:
        """Whether rows that go to a table are to be fetched: somebody looks, and it was a while."""
        now = time.monotonic()
        return now < self._watched_until and now >= self._fetched.get(into, 0.0) + _FETCH_SECONDS

    def fetch(self, into: str, rows: DataFrame) -> None:
        """Take rows of a micro-batch, which tasks have written; they are to be persisted."""
        self._fetched[into] = time.monotonic()
        column = _time_column(rows)
        ordered = rows if column is None else rows.orderBy(F.col(quoted(column)).desc())
        try:
            found = arrow_table(ordered.limit(MOST_ROWS))
        except (PySparkException, pa.ArrowException) as error:
            # the rows are written; what is missing is the view of them, which says so
            self.problem = f"the rows cannot be shown: {(str(error).splitlines() or [''])[0]}"
            return
        self.take(into, found)

    def take(self, into: str, rows: pa.Table) -> None:
        """Take rows of a micro-batch, in any order."""
        if not rows.num_rows:
            return
        columns = [
            name
            for name in _WINDOW_COLUMNS
            if rows.column_names.count(name) == 1 and pa.types.is_timestamp(rows[name].type)
        ]
        by = [(name, "descending") for name in columns]
        if by and rows.num_rows > MOST_ROWS:
            rows = rows.take(pc.select_k_unstable(rows.select(columns), MOST_ROWS, by))
        rows = rows.slice(0, MOST_ROWS)
        with self._lock:
            before = self._tables.get(into)
            whole = rows
            if before is not None and before.schema == rows.schema:
                whole = pa.concat_tables([rows, before])
            if by:
                # what came last stands first where windows are the same
                places = pa.array(range(whole.num_rows))
                keys = whole.select(columns).append_column("$place", places)
                whole = whole.take(pc.sort_indices(keys, sort_keys=[*by, ("$place", "ascending")]))
            self._tables[into] = whole.slice(0, MOST_ROWS)

    def tables(self) -> dict[str, pa.Table]:
        """The rows by the table that they went to, those of the latest windows first."""
        with self._lock:
            return dict(self._tables)


def _time_column(rows: DataFrame) -> str | None:
    """The column that says which rows are the latest ones: the window's, or the first time."""
    fields = rows.schema.fields
    names = [field.name for field in fields]
    for name in _WINDOW_COLUMNS:
        if names.count(name) == 1:
            return name
    times = [f.name for f in fields if f.dataType.typeName().startswith("timestamp")]
    return next((name for name in times if names.count(name) == 1), None)
