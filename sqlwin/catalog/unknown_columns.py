"""Hints for unknown columns: the columns of the files or of the table."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from planner.sql.nodes import TABLE_OPTIONS, path_of_files
from runtime.errors import ErrorKind, SqlwinError, nearest
from runtime.names import quote_name
from runtime.shown_types import shown_type
from runtime.spark.messages import AVAILABLE
from runtime.spec.table import TableColumn, TableSpec
from sqlwin.catalog.catalog import SessionCatalog

_UNKNOWN = (ErrorKind.UNKNOWN_COLUMN, ErrorKind.UNKNOWN_INPUT_COLUMN)
_MAX_FILES, _MAX_COLUMNS = 3, 40
_TIMES = ("TIMESTAMP", "DATE")


def name_columns_of_files(error: SqlwinError, query: exp.Query, catalog: SessionCatalog) -> None:
    """Add the columns of a query's files or table to an error about an unknown column.

    Args:
        error: The error. Its hint changes if it is about a column of files, or if it lists some
            columns of a table.
        query: The parsed query.
        catalog: Catalog with the files.
    """
    if error.kind not in _UNKNOWN or error.subject is None:
        return
    unknown = error.subject.rpartition(".")[2].strip("`")
    tables = dict(_files_in(query, unknown, catalog))
    if not tables:
        if (error.hint or "").startswith(AVAILABLE):
            error.hint = _columns_of_table(query, unknown, catalog) or error.hint
        return
    close = nearest(unknown, [c.name for columns in tables.values() for c in columns])
    meant = f"did you mean `{close}`? " if close else ""
    error.hint = meant + "; ".join(
        f"{name} has {_list(columns)}" for name, columns in list(tables.items())[:_MAX_FILES]
    )


def _files_in(
    query: exp.Query, unknown: str, catalog: SessionCatalog
) -> Iterator[tuple[str, tuple[TableColumn, ...]]]:
    """Yield path and columns of the files that the column name may refer to."""
    columns = [c for c in query.find_all(exp.Column) if c.name.lower() == unknown.lower()]
    selects = [c.find_ancestor(exp.Select) for c in columns]
    for table in query.find_all(exp.Table):
        if path_of_files(table.name) is None:
            continue
        if selects and not any(table.find_ancestor(exp.Select) is select for select in selects):
            continue  # the column comes from another query
        name: tuple[str, ...] = (table.name,)
        if (options := table.meta.get(TABLE_OPTIONS)) is not None:
            name = catalog.with_options(name, options.pairs)
        entry = catalog.entry(name)
        if isinstance(entry, TableSpec):
            yield table.name, entry.columns or catalog.columns_in(entry)


def _columns_of_table(query: exp.Query, unknown: str, catalog: SessionCatalog) -> str | None:
    """Return a hint with all columns of the only table that a column's query reads, or None."""
    column = next(
        (c for c in query.find_all(exp.Column) if c.name.lower() == unknown.lower()), None
    )
    select = column.find_ancestor(exp.Select) if column is not None else None
    source = select.args.get("from_") if select is not None else None
    table = source.this if source is not None else None
    if not isinstance(table, exp.Table) or select is None or select.args.get("joins"):
        return None
    entry = catalog.entry(tuple(part.name for part in table.parts))
    if not isinstance(entry, TableSpec):
        return None
    names = [quote_name(c.name) for c in entry.columns or catalog.columns_in(entry)]
    more = f" and {len(names) - _MAX_COLUMNS} more" if len(names) > _MAX_COLUMNS else ""
    return f"{AVAILABLE}: {', '.join(names[:_MAX_COLUMNS])}{more}"


def _list(columns: tuple[TableColumn, ...]) -> str:
    """List columns with types. A long list has all times and the first other columns."""
    n_others = _MAX_COLUMNS - sum(map(_is_time, columns))
    shown = []
    for column in columns:
        if not _is_time(column):
            n_others -= 1
            if n_others < 0:
                continue
        mark = " (time column)" if _is_time(column) else ""
        shown.append(f"{quote_name(column.name)} {shown_type(column.type or '')}{mark}")
    more = len(columns) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _is_time(column: TableColumn) -> bool:
    return (column.type or "").upper().startswith(_TIMES)
