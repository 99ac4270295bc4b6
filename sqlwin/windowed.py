"""Rows of a DataFrame in windows, for `sqlwin.windows.tumble(df, ...)` and its siblings.

The methods write the SQL of the window function and run it in a session on the DataFrame's Spark
session, so plans and results are the same as for the SQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING

from runtime.errors import AnalysisError
from runtime.names import quote_name
from runtime.spark.session import refuse_pipeline_definition
from sqlwin.control import SessionControl
from sqlwin.session import Session
from sqlwin.statements.literals import literal_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Length = str | timedelta

_numbers = count(1)


@dataclass(frozen=True)
class WindowedDataFrame:
    """Rows of a DataFrame in windows.

    Attributes:
        session: Session in which the DataFrame is a table.
        table: Name of the table.
        kind: `TUMBLE`, `HOP`, `CUMULATE` or `SESSION`.
        time: Time column.
        lengths: Lengths of the windows, by the names of the SQL function's parameters.
        keys: Columns to group by.
    """

    session: Session
    table: str
    kind: str
    time: str
    lengths: Mapping[str, Length]
    keys: tuple[str, ...] = ()

    def group_by(self, *columns: str) -> WindowedDataFrame:
        """Return the rows grouped by more columns. SESSION windows belong to groups."""
        return replace(self, keys=self.keys + columns)

    def agg(self, *aggregates: str, **named: str) -> DataFrame:
        """Return the keys, window_start, window_end and the aggregates of each window.

        Args:
            aggregates: SQL such as `COUNT(*) AS n`.
            named: SQL by the name of its column: `n="COUNT(*)"`.

        Raises:
            SqlwinError: The SQL is invalid, or a column does not exist.
        """
        return self.session.sql(self._aggregation(aggregates, named))

    def explain(self, *aggregates: str, **named: str) -> str:
        """Return the plan of `agg`, like EXPLAIN.

        Raises:
            SqlwinError: The SQL is invalid, or a column does not exist.
        """
        return self.session.explain(self._aggregation(aggregates, named))

    def dataframe(self) -> DataFrame:
        """Return every row once per window, with window_start, window_end and window_time."""
        return self.session.sql(f"SELECT * FROM {self._call()}")

    def _aggregation(self, aggregates: tuple[str, ...], named: Mapping[str, str]) -> str:
        """Return the SQL of `agg`.

        Raises:
            AnalysisError: Aggregates are missing, or one is not SQL.
        """
        for aggregate in (*aggregates, *named.values()):
            if not isinstance(aggregate, str):
                raise AnalysisError(
                    f"agg() takes SQL such as 'COUNT(*) AS n', not a {type(aggregate).__name__}"
                )
        columns = [*aggregates, *(f"{sql} AS {quote_name(name)}" for name, sql in named.items())]
        if not columns:
            raise AnalysisError("agg() needs an aggregate", hint="for example agg(n='COUNT(*)')")
        keys = [quote_name(key) for key in self.keys]
        groups = ", ".join([*keys, "window_start", "window_end"])
        return f"SELECT {groups}, {', '.join(columns)} FROM {self._call()} GROUP BY {groups}"

    def _call(self) -> str:
        """Return the call of the window function."""
        partition = ""
        if self.kind == "SESSION" and self.keys:
            partition = f" PARTITION BY ({', '.join(quote_name(key) for key in self.keys)})"
        lengths = [_interval(name, length) for name, length in self.lengths.items()]
        arguments = [
            f"TABLE {quote_name(self.table)}{partition}",
            f"DESCRIPTOR({quote_name(self.time)})",
            *lengths,
        ]
        return f"TABLE({self.kind}({', '.join(arguments)}))"


def _interval(name: str, length: Length) -> str:
    return (
        literal_text(length, f"the {name}")
        if isinstance(length, timedelta)
        else f"INTERVAL {literal_text(length, name)}"
    )


def tumble_rows(
    data: DataFrame,
    time: str,
    size: Length,
    offset: Length | None = None,
    *,
    watermark: str | None = None,
) -> WindowedDataFrame:
    """Return the rows of a DataFrame in TUMBLE windows.

    Args:
        data: Batch or streaming DataFrame.
        time: Its time column.
        size: Size of the windows.
        offset: Shift of their starts.
        watermark: Watermark delay of a streaming DataFrame, such as `5 seconds`.

    Raises:
        SqlwinError: The time column does not exist, or a streaming DataFrame has no watermark.
    """
    return _windowed(data, "TUMBLE", time, {"size": size, "offset": offset}, watermark)


def hop_rows(
    data: DataFrame,
    time: str,
    slide: Length,
    size: Length,
    offset: Length | None = None,
    *,
    watermark: str | None = None,
) -> WindowedDataFrame:
    """Return the rows of a DataFrame in HOP windows; see `tumble_rows`."""
    lengths = {"slide": slide, "size": size, "offset": offset}
    return _windowed(data, "HOP", time, lengths, watermark)


def cumulate_rows(
    data: DataFrame,
    time: str,
    step: Length,
    size: Length,
    offset: Length | None = None,
    *,
    watermark: str | None = None,
) -> WindowedDataFrame:
    """Return the rows of a DataFrame in CUMULATE windows; see `tumble_rows`."""
    lengths = {"step": step, "size": size, "offset": offset}
    return _windowed(data, "CUMULATE", time, lengths, watermark)


def session_rows(
    data: DataFrame, time: str, gap: Length, *, watermark: str | None = None
) -> WindowedDataFrame:
    """Return the rows of a DataFrame in SESSION windows; see `tumble_rows`."""
    return _windowed(data, "SESSION", time, {"gap": gap}, watermark)


def _windowed(
    data: DataFrame,
    kind: str,
    time: str,
    lengths: Mapping[str, Length | None],
    watermark: str | None,
) -> WindowedDataFrame:
    refuse_pipeline_definition()
    if data.isStreaming and watermark is None:
        raise AnalysisError(
            f"{kind.lower()}() needs a watermark for a streaming DataFrame, because windows would "
            "never close without one",
            hint="for example watermark='5 seconds'",
        )
    session = Session(data.sparkSession, settings={})
    table = f"windowed_rows_{next(_numbers)}"
    session.register(
        table, data, time_column=time, watermark=watermark if data.isStreaming else None
    )
    SessionControl(session).leave_spark()
    given = {name: length for name, length in lengths.items() if length is not None}
    return WindowedDataFrame(session, table, kind, time, given)
