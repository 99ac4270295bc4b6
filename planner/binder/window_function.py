"""Read the call of a window table function: its window, data columns and window columns."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from planner.binder.row_length import row_length
from planner.catalog import Schema, column_named
from planner.nodes.logical import (
    NamedExpr,
    Node,
    Project,
    WindowColumns,
    WindowTableFunction,
    columns_of,
    in_windows,
    plain_items,
)
from planner.sql.build import alias, cast_as, column, is_timestamp, item_name, to_sql
from planner.sql.intervals import fold_interval, is_in_weeks
from planner.sql.nodes import WINDOW_COLUMNS, WindowFunctionCall, error_at, position_of, span_of
from planner.sql.parts import own_clauses
from planner.sql.render import SparkSql
from runtime.errors import AnalysisError, ErrorKind, nearest
from runtime.shown_types import shown_type
from runtime.spec.table import Column
from runtime.windows import FUNCTIONS, Window
from runtime.windows.arguments import RowLength
from runtime.windows.intervals import IntervalValue
from runtime.windows.times import DAY_US
from runtime.windows.tumble import tumble_of

# 1 January 1970 was a Thursday.
_MONDAY_US = -3 * DAY_US


def window_of(function: WindowFunctionCall, sql: str) -> Window:
    """Return the window that a function's arguments describe.

    Raises:
        AnalysisError: An argument is not a constant interval, or the sizes are inconsistent.
    """
    arguments = _Arguments(function, sql)
    if function.kind == "GAP_FILL":
        return tumble_of(arguments, "step")
    return FUNCTIONS[function.kind].window(arguments)


class _Arguments:
    """Arguments of one call; see `runtime.windows.arguments`."""

    def __init__(self, function: WindowFunctionCall, sql: str) -> None:
        self.function = function
        self.kind = function.kind
        self.sql = sql

    def _interval(self, parameter: str) -> IntervalValue:
        expr = self.function.args[parameter]
        try:
            return fold_interval(expr)
        except AnalysisError as error:
            error.position = error.position or position_of(expr, self.sql)
            error.sql = self.sql
            raise

    def positive(self, parameter: str) -> IntervalValue:
        value = self._interval(parameter)
        if value.months and value.us:
            raise self.error(
                parameter,
                f"the {parameter} of {self.kind} must be in months or a fixed length, "
                f"but {value.text} mixes both",
                "use months, quarters or years, or weeks, days or smaller units",
            )
        if value.months < 0 or value.us < 0 or not (value.months or value.us):
            raise self.error(
                parameter,
                f"the {parameter} of {self.kind} must be positive, not {value.text}",
                f"for example INTERVAL '10' MINUTE as the {parameter}",
            )
        return value

    def of_rows(self, parameter: str) -> RowLength | None:
        expr = self.function.args[parameter]
        return row_length(expr, f"the {parameter} of {self.kind}", self.sql)

    def offset(self, stride: IntervalValue, parameter: str) -> IntervalValue:
        """Return the offset. Weeks start on Monday and therefore have a default offset.

        Args:
            stride: Distance between windows. An offset in months requires a distance in months.
            parameter: Name of the parameter that sets the stride.
        """
        offset = IntervalValue(0, 0)
        if self.function.args.get("offset"):
            offset = self._interval("offset")
        if offset.months and not stride.months:
            raise self.error(
                "offset",
                f"the offset of {self.kind} cannot be in months if the {parameter} is "
                f"{stride.text}",
                "use weeks, days, hours, minutes or seconds for the offset",
            )
        if is_in_weeks(self.function.args[parameter]):
            return IntervalValue(0, offset.us + _MONDAY_US)
        return offset

    def flag(self, parameter: str) -> bool:
        flag = self.function.args.get(parameter)
        if flag is None:
            return False
        if not isinstance(flag, exp.Boolean):
            raise self.error(
                parameter,
                f"{parameter.upper()} must be TRUE or FALSE",
                f"use {parameter.upper()} => true",
            )
        return bool(flag.this)

    def columns(self, parameter: str) -> tuple[str, ...]:
        return tuple(name.name for name in self.function.args[parameter].expressions)

    def error(self, parameter: str, message: str, hint: str) -> AnalysisError:
        return error_at(self.sql, message, self.function.args[parameter], hint=hint)


# -- columns ---------------------------------------------------------------------------------------


def window_node(
    function: WindowFunctionCall,
    window: Window,
    source: Node,
    sql: str,
    *,
    takes_date: bool,
    hidden: tuple[str, ...] = (),
) -> tuple[WindowTableFunction, str | None]:
    """Return the node of a window function, and the name of its time column if that is a DATE.

    In the node, that column holds the midnights of the dates.

    Args:
        function: The call.
        window: Window of the call's arguments, see `window_of`.
        source: Data of the call.
        sql: Text of the statement, for error positions.
        takes_date: Whether the time column may be a DATE.
        hidden: Names of the last columns, which users do not see.

    Raises:
        AnalysisError: A column does not exist, has the wrong type, or has a window column's name.
    """
    time = time_column(function, source.schema, sql, takes_date=takes_date)
    is_date = time.type == "date"
    if is_date:
        source, time = date_as_midnight(source, time)
    partition = partition_by_columns(function, source.schema, sql)
    names = function.args.get("names")
    if names:
        columns = WindowColumns(*(name.name for name in names))
    else:
        refuse_window_columns(function, source.schema, sql)
        columns = WindowColumns(*WINDOW_COLUMNS)
    if function.alias_column_names:
        old = [c.name for c in source.schema]
        source, columns, time = apply_column_names(function, source, time, hidden, sql)
        partition = tuple(source.schema[old.index(name)].name for name in partition)
    window = window.with_partition(partition)
    places = (span_of(function.this), span_of(function.args["timecol"]))
    return in_windows(source, window, time, columns, *places), time.name if is_date else None


def time_column(
    function: WindowFunctionCall, schema: Schema, sql: str, *, takes_date: bool = False
) -> Column:
    """Return the TIMESTAMP column that a window function's DESCRIPTOR names.

    Args:
        function: The call.
        schema: Schema of its data.
        sql: Text of the statement.
        takes_date: Whether the column may be a DATE too.

    Raises:
        AnalysisError: The column does not exist or has another type.
    """
    descriptor = function.args["timecol"]
    column = column_named(schema, descriptor.name)
    times = [f"`{c.name}`" for c in schema if is_timestamp(c.type)]
    hint = "time columns: " + ", ".join(times) if times else None
    if column is None:
        close = nearest(descriptor.name, [c.name for c in schema])
        raise error_at(
            sql,
            f"column `{descriptor.name}` does not exist in the data of {function.kind}",
            descriptor,
            hint=f"did you mean `{close}`?" if close else hint,
            kind=ErrorKind.UNKNOWN_INPUT_COLUMN,
            subjects=(descriptor.name,),
        )
    if takes_date and column.type == "date":
        return column
    if not is_timestamp(column.type):
        # A group window over an expression has no column with a user's name.
        is_named = not column.name.startswith("$")
        shown = f"`{column.name}`" if is_named else "the expression"
        raise error_at(
            sql,
            f"the time column of {function.kind} must be TIMESTAMP or TIMESTAMP_LTZ, but "
            f"{shown} is {shown_type(column.type)}",
            descriptor,
            hint=hint or (_time_of(column, schema) if is_named else None),
            subjects=(column.name,) if is_named else (),
        )
    return column


def _time_of(time: Column, schema: Schema) -> str:
    """Return a hint how to turn a column of another type into a time."""
    name = column(time.name).sql(SparkSql)
    date = next((c for c in schema if c.type == "date"), None)
    if time.type == "string" and date is not None:
        day = column(date.name).sql(SparkSql)
        return f"if it is a time of day, add the date: {day} + {name}"
    if time.type in ("int", "bigint"):
        return (
            f"convert it in a subquery: TIMESTAMP_MILLIS({name}), TIMESTAMP_SECONDS or "
            "TIMESTAMP_MICROS"
        )
    return f"convert it in a subquery: CAST({name} AS TIMESTAMP)"


def date_as_midnight(source: Node, date: Column) -> tuple[Node, Column]:
    """Return the data with a DATE column as the TIMESTAMP of its midnight, and that column."""
    return _cast_column(source, date.name, "timestamp_ntz"), replace(date, type="timestamp_ntz")


def with_date(node: Node, date: str | None) -> Node:
    """Return the rows of a window function with the time column as a DATE, as in the data.

    Args:
        node: The window function, whose column `date` is the TIMESTAMP of midnight.
        date: Name of the column. None if it is a TIMESTAMP in the data.
    """
    return node if date is None else _cast_column(node, date, "date")


def _cast_column(node: Node, name: str, type_: str) -> Project:
    """Return the columns of a node with another type for one."""
    schema = tuple(replace(c, type=type_) if c.name == name else c for c in node.schema)
    items = (
        NamedExpr(c.name, cast_as(column(name), type_)) if c.name == name else item
        for c, item in zip(schema, plain_items(schema), strict=True)
    )
    return Project(schema, node, tuple(items))


def reading_date(select: exp.Select, date: str) -> exp.Select:
    """Return a SELECT over a window function that reads the column `date` as a DATE.

    The input column is the TIMESTAMP of midnight. Output names in ORDER BY are unchanged, because
    they refer to dates already.
    """
    select = select.copy()
    outputs = {item_name(item).lower() for item in select.selects}
    for part in list(own_clauses(select)):
        reads = [
            read
            for read in part.find_all(exp.Column)
            if read.name.lower() == date.lower()
            and (part.arg_key != "order" or read.table or date.lower() not in outputs)
        ]
        if not reads:
            continue
        name = part.name if isinstance(part, exp.Column) else to_sql(part)
        new = part
        for read in reads:
            if read is part:
                new = cast_as(read.copy(), "date")
            else:
                read.replace(cast_as(read.copy(), "date"))
        if part.arg_key == "expressions" and not isinstance(part, exp.Alias):
            new = alias(new, name)  # keep the output name
        if new is not part:
            part.replace(new)
    return select


def partition_by_columns(function: WindowFunctionCall, schema: Schema, sql: str) -> tuple[str, ...]:
    """Return the columns of PARTITION BY under their names in the data."""
    names = []
    for key in function.args.get("partition") or []:
        column = column_named(schema, key.name)
        if column is None:
            close = nearest(key.name, [c.name for c in schema])
            hint = f"did you mean `{close}`?" if close else None
            message = (
                f"column `{key.name}` in PARTITION BY does not exist in the data of {function.kind}"
            )
            kind = ErrorKind.UNKNOWN_INPUT_COLUMN
            raise error_at(sql, message, key, hint=hint, kind=kind, subjects=(key.name,))
        names.append(column.name)
    return tuple(dict.fromkeys(names))


def refuse_window_columns(
    function: WindowFunctionCall, schema: Schema, sql: str, parameter: str = "data"
) -> None:
    """Raise an AnalysisError if a table of the call already has one of the window columns."""
    reserved = [name for name in WINDOW_COLUMNS if column_named(schema, name)]
    if reserved:
        has = "have" if parameter == "bounds" else "has"
        message = f"the {parameter} of {function.kind} already {has} a column `{reserved[0]}`"
        hint = f"rename it in a subquery: SELECT {reserved[0]} AS inner_{reserved[0]}, ..."
        places = (function.args[parameter], function.this)
        raise error_at(sql, message, *places, hint=hint, subjects=(reserved[0],))


def apply_column_names(
    function: WindowFunctionCall, source: Node, time: Column, hidden: tuple[str, ...], sql: str
) -> tuple[Node, WindowColumns, Column]:
    """Apply the column names of `AS t(a, b, ..., ws, we, wt)` to the data and window columns.

    Hidden columns, the last ones of the data, keep their names.
    """
    alias = function.args["alias"]
    names = [c.name for c in alias.columns]
    n_columns = sum(c.name not in hidden for c in source.schema) + 3
    if len(names) != n_columns:
        message = f"{function.kind} produces {n_columns} columns, but the alias names {len(names)}"
        hint = "the columns of the data come first, then window_start, window_end, window_time"
        raise error_at(sql, message, alias, hint=hint)
    of_data = [*names[:-3], *hidden]
    renamed = tuple(replace(c, name=name) for c, name in zip(source.schema, of_data, strict=True))
    old_names = [c.name for c in source.schema]
    time = renamed[old_names.index(time.name)]
    return columns_of(source, renamed, old_names), WindowColumns(*names[-3:]), time
