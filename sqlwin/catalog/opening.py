"""Registration of existing materialized tables in a session's catalog."""

from __future__ import annotations

import os

from sqlglot import exp

from planner.sql.nodes import path_of_files
from runtime.records import from_text
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.entries import Definition, MaterializedTable, Name, View, entry_name
from sqlwin.catalog.materialized import directories_in, masked_option, rows_of
from sqlwin.catalog.spark.tables import SPARK_TABLE
from sqlwin.parser.parser import parse_query


def open_materialized(catalog: SessionCatalog, name: Name, path: str) -> MaterializedTable:
    """Add the materialized table at an absolute path, and the tables and views that it names.

    Raises:
        CatalogError: No table exists there, the name is taken, or a table that it names differs
            from the session's.
        ExecutionError: It cannot be read.
    """
    stored = catalog.slices.stored(path, ".".join(name))
    try:
        definition = from_text(Definition, stored.definition)
    except ValueError as error:
        from runtime.materialized.faults import table_error

        raise table_error(".".join(name), stored.place, error) from error
    for table in definition.tables:
        called = entry_name(table)
        is_elsewhere = path_of_files(table.name) is not None or masked_option(table) is not None
        if table.connector == SPARK_TABLE:
            catalog.spark_tables.follow(table)
        elif not is_elsewhere and catalog.entry(called) is None:
            catalog.add(called, table, replace=False, if_not_exists=True)
    for view, query, columns in definition.views:
        if catalog.entry(view) is None:
            view_entry = View(view, _query(query), query, columns)
            catalog.add(view, view_entry, replace=False, if_not_exists=True)
    entry = MaterializedTable(
        name,
        _query(definition.query),
        definition.query,
        comment=definition.comment,
        path=path,
        definition=definition,
    )
    catalog.slices.check_tables(entry)
    catalog.add(name, entry, replace=False, if_not_exists=False)
    if definition.is_inserted:
        rows = rows_of(entry)
        catalog.add((rows.name,), rows, replace=True, if_not_exists=False)
    return entry


def open_directory(catalog: SessionCatalog, root: str) -> None:
    """Open the materialized tables in a directory, unless it is "".

    Raises:
        SqlwinError: A table cannot be opened.
    """
    if not root:
        return
    opened = {entry.path for entry in catalog.entries.materialized()}
    for path in directories_in(catalog.slices.place(root)):
        name = (os.path.basename(path),)
        if path not in opened and catalog.entry(name) is None:
            open_materialized(catalog, name, path)


def _query(text: str) -> exp.Query:
    query = parse_query(text)
    assert isinstance(query, exp.Query)
    return query
