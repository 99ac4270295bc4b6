"""Rows of a DataFrame in windows, for `sqlwin.windows.tumble(df, ...)` and its siblings.

The methods write the SQL of the window function and run it in a session on the DataFrame's Spark
session, so plans and results are the same as for the SQL. Columns of PySpark become SQL, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from inspect import Signature
from itertools import count
from typing import TYPE_CHECKING, TypeGuard

from runtime.errors import AnalysisError
from runtime.names import quote_name
from runtime.spark.jvm.column_sql import column_sql
from runtime.spark.session import refuse_pipeline_definition
from sqlwin.control import SessionControl
from sqlwin.session import Session
from sqlwin.statements.literals import literal_text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


Length = str | timedelta

_numbers = count(1)


@dataclass(frozen=True)
class Key:
    """An expression to group by.

    Attributes:
        sql: The expression.
        name: Name of its column in the result. None: the name that SQL gives it.
        column: Column of the DataFrame, None for other expressions.
    """

    sql: str
    name: str | None
    column: str | None


@dataclass(frozen=True)
class WindowedDataFrame:
    """Rows of a DataFrame in windows.

    Attributes:
        session: Session in which the DataFrame is a table.
        table: Name of the table.
        kind: `TUMBLE`, `HOP`, `CUMULATE` or `SESSION`.
        time: Time column.
        lengths: Lengths of the windows, by the names of the SQL function's parameters.
        keys: Columns and expressions to group by.
    """

    session: Session
    table: str
    kind: str
    time: str
    lengths: Mapping[str, Length]
    keys: tuple[Key, ...] = ()

    def group_by(self, *columns: str | Column | Sequence[str | Column]) -> WindowedDataFrame:
        """Return the rows grouped by more columns. SESSION windows belong to groups.

        Args:
            columns: Names of columns, or Columns such as `F.lower("k").alias("key")`.

        Raises:
            AnalysisError: A Column has no SQL, or SESSION windows belong to an expression.
        """
        listed: list[object] = []
        for part in columns:
            listed += part if isinstance(part, list | tuple) else [part]
        return replace(self, keys=(*self.keys, *map(self._key, listed)))

    groupBy = group_by

    def agg(
        self, *aggregates: str | Column | Mapping[str, str], **named: str | Column
    ) -> DataFrame:
        """Return the keys, window_start, window_end and the aggregates of each window.

        Args:
            aggregates: Columns such as `F.sum("price").alias("total")`, SQL such as
                `COUNT(*) AS n`, or one dict of functions by column as in PySpark.
            named: Columns or SQL by the name of the result's column: `n="COUNT(*)"`.

        Raises:
            SqlwinError: The SQL is invalid, a Column has no SQL, or a column does not exist.
        """
        return self.session.sql(self._aggregation(aggregates, named))

    def explain(self, *aggregates: str | Column | Mapping[str, str], **named: str | Column) -> str:
        """Return the plan of `agg`, like EXPLAIN.

        Raises:
            SqlwinError: The SQL is invalid, or a column does not exist.
        """
        return self.session.explain(self._aggregation(aggregates, named))

    def dataframe(self) -> DataFrame:
        """Return every row once per window, with window_start, window_end and window_time."""
        return self.session.sql(f"SELECT * FROM {self._call()}")

    def _key(self, item: object) -> Key:
        """Return a key of `group_by`.

        Raises:
            AnalysisError: See `group_by`.
        """
        if isinstance(item, str):
            return Key(quote_name(item), None, item)
        if not _is_column(item):
            raise AnalysisError(
                f"group_by() takes names and Columns, not a value of type {type(item).__name__}"
            )
        written = column_sql(item)
        if self.kind == "SESSION" and written.column is None:
            raise AnalysisError(
                f"SESSION windows belong to columns, not to {written.sql}",
                hint="add it to the DataFrame with withColumn() first",
            )
        name = None if written.name == written.column else written.name
        return Key(written.sql, name, written.column)

    def _aggregation(
        self, aggregates: tuple[str | Column | Mapping[str, str], ...], named: Mapping[str, object]
    ) -> str:
        """Return the SQL of `agg`.

        Raises:
            AnalysisError: Aggregates are missing, or one is neither SQL nor a Column with SQL.
        """
        columns = [sql for item in aggregates for sql in _aggregates(item)]
        columns += [f"{_expression(item)[0]} AS {quote_name(name)}" for name, item in named.items()]
        if not columns:
            raise AnalysisError(
                "agg() needs an aggregate", hint="for example agg(F.count('*').alias('n'))"
            )
        groups = ", ".join([*(key.sql for key in self.keys), "window_start", "window_end"])
        keys = [_aliased(key.sql, key.name) for key in self.keys]
        selected = ", ".join([*keys, "window_start", "window_end", *columns])
        return f"SELECT {selected} FROM {self._call()} GROUP BY {groups}"

    def _call(self) -> str:
        """Return the call of the window function."""
        partition = ""
        if self.kind == "SESSION" and self.keys:
            partition = f" PARTITION BY ({', '.join(key.sql for key in self.keys)})"
        lengths = [_interval(name, length) for name, length in self.lengths.items()]
        arguments = [
            f"TABLE {quote_name(self.table)}{partition}",
            f"DESCRIPTOR({quote_name(self.time)})",
            *lengths,
        ]
        return f"TABLE({self.kind}({', '.join(arguments)}))"


def _is_column(item: object) -> TypeGuard[Column]:
    """Return whether an argument is a Column of PySpark."""
    from pyspark.sql import Column

    return isinstance(item, Column)


def _aggregates(item: object) -> list[str]:
    """Return the SQL of an argument of `agg`, with aliases.

    Raises:
        AnalysisError: The argument is not an aggregate.
    """
    if isinstance(item, Mapping):
        for function in item.values():
            if not (isinstance(function, str) and function.isidentifier()):
                raise AnalysisError(
                    f"the dict of agg() has {function!r}, which is not the name of a function",
                    hint="for example {'price': 'sum'}",
                )
        return [
            f"{function}({'*' if name == '*' else quote_name(name)})"
            for name, function in item.items()
        ]
    return [_aliased(*_expression(item))]


def _expression(item: object) -> tuple[str, str | None]:
    """Return the SQL of an aggregate and its alias, None without one.

    Raises:
        AnalysisError: The argument is not an aggregate.
    """
    if isinstance(item, str):
        return item, None
    if not _is_column(item):
        raise AnalysisError(
            "agg() takes Columns, SQL such as 'COUNT(*) AS n' or a dict of functions by column, "
            f"not a value of type {type(item).__name__}"
        )
    written = column_sql(item)
    return written.sql, written.name


def _aliased(sql: str, name: str | None) -> str:
    return sql if name is None else f"{sql} AS {quote_name(name)}"


def _interval(name: str, length: Length) -> str:
    return (
        literal_text(length, f"the {name}")
        if isinstance(length, timedelta)
        else f"INTERVAL {literal_text(length, name)}"
    )


def windowed_rows(
    kind: str,
    parameters: Signature,
    data: DataFrame,
    time: str,
    *lengths: Length | None,
    watermark: str | None = None,
    **named: Length | None,
) -> WindowedDataFrame:
    """Return the rows of a DataFrame in windows.

    Args:
        kind: `TUMBLE`, `HOP`, `CUMULATE` or `SESSION`.
        parameters: Lengths of its windows.
        data: Batch or streaming DataFrame.
        time: Its time column.
        lengths: Values of `parameters` in their order.
        watermark: Watermark delay of a streaming DataFrame, such as `5 seconds`.
        named: Values of `parameters` by name.

    Raises:
        TypeError: A length is missing or unknown.
        SqlwinError: The time column does not exist, or a streaming DataFrame has no watermark.
    """
    bound = parameters.bind(*lengths, **named).arguments
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
    given = {name: length for name, length in bound.items() if length is not None}
    return WindowedDataFrame(session, table, kind, time, given)
