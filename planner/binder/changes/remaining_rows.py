"""Window functions over changes: the rows that remain in each window when it closes."""

from __future__ import annotations

from planner.aggregates.intervals import is_day_interval
from planner.binder.changes.net_rows import net_rows
from planner.binder.window_function import window_node
from planner.catalog import Schema
from planner.nodes.logical import CHANGE, NetRows, Node, ResultChanges
from planner.sql.build import is_flat_type
from planner.sql.nodes import CHANGELOG, TextSpan, WindowFunctionCall, span_of
from planner.streams.refusals import BATCH, StreamRefusal
from runtime.shown_types import shown_type
from runtime.windows import Window


def in_windows_of_changes(
    function: WindowFunctionCall, window: Window, signed: Node, sql: str, *, strict: bool
) -> tuple[NetRows, str | None]:
    """Return the rows that remain in each window, and the time column's name if it is a DATE.

    Args:
        function: The call.
        window: Window of the call's arguments.
        signed: Data of the call, as changes. The window's `row_length` follows their mark.
        sql: Text of the statement, for error positions.
        strict: Whether to reject SQL that Flink rejects.

    Raises:
        AnalysisError: A column does not exist or has the wrong type.
        StreamRefusal: These windows cannot be computed from changes.
    """
    table = _table_of(signed)
    if window.emit_only_on_update:
        raise StreamRefusal(
            f"{function.kind} over {table} is not supported on streams: EMITONLYONUPDATE emits "
            "windows by rows that may be deleted",
            f"leave EMITONLYONUPDATE out; {BATCH}",
            span_of(function.this),
        ).place_in(sql)
    names = (CHANGE, window.row_length)
    hidden = tuple(name for name in names if name is not None)
    windowed, date = window_node(
        function, window, signed, sql, takes_date=not strict, hidden=hidden
    )
    check_kept_columns(signed, windowed.schema, "windows", span_of(function.args["data"]), sql)
    return net_rows(windowed, span_of(function.this)), date


def check_kept_columns(
    signed: Node, schema: Schema, operation: str, place: TextSpan | None, sql: str
) -> None:
    """Refuse columns of rows that remain after changes which state cannot keep.

    Args:
        signed: The changes.
        schema: Columns of the rows.
        operation: What reads the rows, for the message.
        place: Source position of the rows or of what reads them.
        sql: Text of the statement, for error positions.

    Raises:
        StreamRefusal: There is such a column.
    """
    for col in schema:
        if not (is_flat_type(col.type) or is_day_interval(col.type)):
            raise StreamRefusal(
                f"column `{col.name}` of type {shown_type(col.type)} is not supported in "
                f"{operation} over {_table_of(signed)} on streams",
                f"leave it out: (SELECT * EXCEPT ({col.name}) FROM ...); {BATCH}",
                place,
                subjects=(col.name,),
            ).place_in(sql)


def _table_of(signed: Node) -> str:
    return "results that change" if any(signed.find_all(ResultChanges)) else CHANGELOG
