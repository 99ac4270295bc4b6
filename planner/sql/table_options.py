"""Table hints with options, which create a variant of the table for one statement."""

from __future__ import annotations

from sqlglot import exp

from planner.catalog import Catalog
from planner.sql.nodes import TABLE_OPTIONS, TableOptions, error_at, position_of
from runtime.errors import CatalogError, Position, SqlwinError


def name_with_options(
    table: exp.Table, name: tuple[str, ...], catalog: Catalog, sql: str
) -> tuple[str, ...]:
    """Return a table's name, or the name of a variant with the options of its hint.

    Args:
        table: The table reference.
        name: Name of the table.
        catalog: Catalog with the table.
        sql: Text of the statement, for errors.

    Raises:
        SqlwinError: The table has no options, or an option is invalid.
    """
    options = table.meta.get(TABLE_OPTIONS)
    if options is None:
        return name
    try:
        return catalog.with_options(name, options.pairs)
    except SqlwinError as error:
        # A table reference in a view has no position in the statement.
        if error.position is None and "start" in table.this.meta:
            is_unknown = isinstance(error, CatalogError) and catalog.connector(name) is None
            place = _position_of_name(table, sql) if is_unknown else None
            error.position, error.sql = place or position_of_option(error, options, sql), sql
        raise


def _position_of_name(table: exp.Table, sql: str) -> Position | None:
    """Return the position of the parts of a table's name."""
    first, last = (position_of(part, sql) for part in (table.parts[0], table.parts[-1]))
    if first is None or last is None:
        return None
    return Position.at(sql, first.offset, last.offset + last.length - first.offset)


def refuse_options(table: exp.Table, what: str, sql: str) -> None:
    """Reject options after a name that refers to `what` instead of a table.

    Raises:
        AnalysisError: There are options.
    """
    if TABLE_OPTIONS in table.meta:
        message = f"OPTIONS must follow a table name, but `{table.name}` is {what}"
        hint = "write them in CREATE TABLE, or after the name of the table that it reads"
        raise error_at(sql, message, table.this, hint=hint, subjects=(table.name,))


def position_of_option(error: SqlwinError, options: TableOptions, sql: str) -> Position:
    """Return the position of the hint's option that an error is about, else of the whole hint."""
    for subject in error.subjects:
        start = sql.find(subject, options.start, options.end) if subject[0] == "'" else -1
        if start >= 0:
            return Position.at(sql, start, len(subject))
    return Position.at(sql, options.start, options.end - options.start + 1)
