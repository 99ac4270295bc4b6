"""Parts of a session's objects that a catalog query asks for.

Most queries of drivers ask for the connection or for PostgreSQL's own types, and need none of the
session's objects. Columns are the expensive part: they are detected in files and views.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto

from sqlglot import exp

from sqlwin.server.catalog.relations import INFORMATION_SCHEMA


class CatalogPart(Enum):
    """A part of the objects that catalogs show."""

    CLIENT = auto()
    TABLES = auto()
    COLUMNS = auto()
    FUNCTIONS = auto()


# Catalogs and functions that show objects of the session; the others are the same in all sessions
_RELATIONS = {
    **dict.fromkeys(("pg_cursors", "pg_settings"), CatalogPart.CLIENT),
    **dict.fromkeys(("pg_class", "pg_rewrite", "pg_tables", "pg_views"), CatalogPart.TABLES),
    **dict.fromkeys(
        (
            f"{INFORMATION_SCHEMA}.{name}"
            for name in (
                "constraint_column_usage",
                "key_column_usage",
                "table_constraints",
                "tables",
                "views",
            )
        ),
        CatalogPart.TABLES,
    ),
    **dict.fromkeys(
        (
            "pg_attribute",
            "pg_constraint",
            "pg_description",
            "pg_index",
            f"{INFORMATION_SCHEMA}.columns",
        ),
        CatalogPart.COLUMNS,
    ),
    "pg_proc": CatalogPart.FUNCTIONS,
}
_FUNCTIONS = {
    **dict.fromkeys(
        ("pg_get_viewdef", "pg_table_is_visible", "regclass_in", "regclass_text", "to_regclass"),
        CatalogPart.TABLES,
    ),
    **dict.fromkeys(
        ("col_description", "obj_description", "pg_get_constraintdef", "pg_get_indexdef"),
        CatalogPart.COLUMNS,
    ),
    **dict.fromkeys(("pg_get_functiondef", "to_regproc"), CatalogPart.FUNCTIONS),
}


def parts_of(query: exp.Expr, types: Iterable[str]) -> frozenset[CatalogPart]:
    """Return the parts that a query of SQLite needs.

    Args:
        query: The query with SQLite's names of catalogs and functions.
        types: PostgreSQL's types of its columns.
    """
    names = {table.name.lower() for table in query.find_all(exp.Table)}
    parts = {_RELATIONS[name] for name in names if name in _RELATIONS}
    calls = {call.name.lower() for call in query.find_all(exp.Anonymous)}
    parts |= {_FUNCTIONS[name] for name in calls if name in _FUNCTIONS}
    if "regclass" in types:
        parts.add(CatalogPart.TABLES)
    # the number of a table's columns
    if "pg_class" in names and (
        any(query.find_all(exp.Star))
        or any(column.name == "relnatts" for column in query.find_all(exp.Column))
    ):
        parts.add(CatalogPart.COLUMNS)
    if CatalogPart.COLUMNS in parts:
        parts.add(CatalogPart.TABLES)
    return frozenset(parts)
