"""Catalog queries that pg-mimic cannot answer: the list of databases, and Grafana's queries.

Private API, as of pg-mimic 0.1.3: `catalog._as_statement`, which runs a query on rows in memory.
"""

from __future__ import annotations

from typing import Any

from pg_mimic.catalog import _as_statement
from pg_mimic.catalog_rewrite import rewrite_for_executor
from pg_mimic.middleware import MiddlewareContext
from sqlglot import exp

_COLUMNS = {
    "oid": "INT",
    "datname": "TEXT",
    "datdba": "INT",
    "encoding": "INT",
    "datlocprovider": "TEXT",
    "datistemplate": "BOOLEAN",
    "datallowconn": "BOOLEAN",
    "datconnlimit": "INT",
    "dattablespace": "INT",
    "datcollate": "TEXT",
    "datctype": "TEXT",
    "daticulocale": "TEXT",
    "daticurules": "TEXT",
    "datlocale": "TEXT",
    "datcollversion": "TEXT",
    "datacl": "TEXT",
}


async def list_databases(context: MiddlewareContext) -> Any:
    """Answer a query of `pg_database` alone: the database that the client has connected to.

    Returns None for other statements.
    """
    query = context.expression
    if not isinstance(query, exp.Query):
        return None
    if {table.name.lower() for table in query.find_all(exp.Table)} != {"pg_database"}:
        return None
    row = dict.fromkeys(_COLUMNS) | {
        "oid": 1,
        "datname": context.connection.database,
        "datdba": 10,
        "encoding": 6,
        "datlocprovider": "c",
        "datistemplate": False,
        "datallowconn": True,
        "datconnlimit": -1,
        "datcollate": "C.UTF-8",
        "datctype": "C.UTF-8",
    }
    catalog = {"pg_catalog": {"pg_database": _COLUMNS}}
    return _as_statement(
        _without_privileges(rewrite_for_executor(context.connection, query)),
        catalog,
        {"pg_catalog": {"pg_database": [row]}},
    )


async def unquote_names(context: MiddlewareContext) -> None:
    """Replace `quote_ident(name)` by `name`. Changes the query that later links answer.

    Grafana lists tables and columns with this function, and pg-mimic cannot compute it.
    """
    query = context.expression
    if not isinstance(query, exp.Query):
        return
    if any(table.db.lower() == "information_schema" for table in query.find_all(exp.Table)):
        for call in list(query.find_all(exp.Anonymous)):
            if call.name.lower() == "quote_ident" and len(call.expressions) == 1:
                call.replace(call.expressions[0])


def _without_privileges(query: exp.Expression) -> exp.Expression:
    """Return the query with empty lists of privileges, and with a schema for each table."""
    for case in list(query.find_all(exp.Case)):
        if any(column.name == "datacl" for column in case.find_all(exp.Column)):
            case.replace(exp.Literal.string(""))
    for table in query.find_all(exp.Table):
        table.set("db", exp.to_identifier("pg_catalog"))
    return query
