"""Answers to statements about the catalogs and the connection."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pg_mimic
import sqlglot
from pg_mimic import PgError, ResultColumn
from pg_mimic.middleware import MiddlewareContext
from pg_mimic.session import StaticPortal, StaticStatement
from sqlglot import exp

from sqlwin.server.catalog.database import CatalogDatabase, type_oid
from sqlwin.server.catalog.errors import CatalogQueryError
from sqlwin.server.catalog.parts import CatalogPart
from sqlwin.server.catalog.relations import types
from sqlwin.server.catalog.rewrite import is_catalog_query, rewrite_query
from sqlwin.server.parameters import parameter_values
from sqlwin.server.translation import TEXT

# What clients ask for that pg-mimic does not know, as PostgreSQL 15 answers
SETTINGS = {
    "application_name": "",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "datestyle": "ISO, MDY",
    "default_table_access_method": "heap",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "extra_float_digits": "1",
    "integer_datetimes": "on",
    "intervalstyle": "postgres",
    "is_superuser": "off",
    "jit": "off",
    "lc_collate": "C.UTF-8",
    "lc_ctype": "C.UTF-8",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "search_path": '"$user", public',
    "server_encoding": "UTF8",
    "server_version_num": "150000",
    # strings have escapes with a backslash, as in Spark
    "standard_conforming_strings": "off",
    "statement_timeout": "0",
    "timezone": "UTC",
    "transaction_isolation": "read committed",
    "transaction_read_only": "off",
}
_SHOW = {
    "transaction isolation level": "transaction_isolation",
    "session authorization": "session_authorization",
    "time zone": "timezone",
}
_SHOW_WORDS = re.compile(
    rf"\s*SHOW\s+({'|'.join(_SHOW).replace(' ', chr(92) + 's+')}|\w+)\s*;?\s*$", re.IGNORECASE
)
_SET_LOCAL = re.compile(
    r"\s*SET\s+LOCAL\s+(\w+)\s*(?:=|\bTO\b)\s*(.+?)\s*;?\s*", re.IGNORECASE | re.DOTALL
)
_RESET = re.compile(r"\s*(?:RESET\s+(\w+)|DISCARD\s+ALL)\s*;?\s*", re.IGNORECASE)
# Statements about transactions and the connection, which have no effect here
_ACCEPTED = re.compile(
    r"\s*(SET\s+SESSION\s+CHARACTERISTICS|SET\s+TRANSACTION|SET\s+(SESSION\s+|LOCAL\s+)?TIME\s+ZONE"
    r"|SET\s+NAMES|RESET|DISCARD|DEALLOCATE|SAVEPOINT|RELEASE|ROLLBACK\s+TO)\b",
    re.IGNORECASE,
)


async def answer_settings(context: MiddlewareContext) -> Any:
    """Answer SHOW of a setting, SET LOCAL and RESET, and accept SAVEPOINT and the like.

    None for others.
    """
    shown = _SHOW_WORDS.match(context.sql)
    if shown:
        words = " ".join(shown[1].lower().split())
        return _Show(context, _SHOW.get(words, words))
    if (changed := _changes_settings(context)) is not None:
        return StaticStatement(context.sql, None, [], changed)
    accepted = _ACCEPTED.match(context.sql)
    if accepted:

        def go_on() -> None:
            if accepted[1].upper().startswith("ROLLBACK"):
                context.connection.tx_status = b"T"  # after an error, too

        return StaticStatement(context.sql, None, [], go_on)
    return None


class _Show(StaticStatement):  # type: ignore[misc]
    """SHOW of a setting, which a client may run again after it has changed the setting."""

    def __init__(self, context: MiddlewareContext, name: str) -> None:
        super().__init__(context.sql, [ResultColumn(name, TEXT)], [])
        self._settings = context.connection.session_vars
        self._name = name

    def bind(self, params: Sequence[object]) -> StaticPortal:
        """Return the portal with the value."""
        return StaticPortal([(self._settings.get(self._name, ""),)], None)


def _changes_settings(context: MiddlewareContext) -> Callable[[], None] | None:
    """Return what SET LOCAL and RESET do. None for other statements."""
    connection = context.connection
    if (local := _SET_LOCAL.fullmatch(context.sql)) is not None:
        name, value = local[1].lower(), local[2].strip("'\"")

        def set_local() -> None:
            if connection.tx_status == b"T":  # otherwise it has no effect, as in PostgreSQL
                connection.session_vars.set_in_transaction(name, value)

        return set_local
    if (reset := _RESET.fullmatch(context.sql)) is not None:
        key = (reset[1] or "all").lower()
        settings = connection.session_vars
        return settings.reset if key == "all" else lambda: settings.pop(key) and None
    return None


async def answer_catalogs(context: MiddlewareContext) -> Any:
    """Answer a query of PostgreSQL's catalogs and of the connection's state. None for others.

    Raises:
        PgError: The query is invalid, or has a part that SQLite lacks.
    """
    # parsing costs more than running most queries of tables
    if not _may_be_catalog_query(context.sql):
        return None
    statement = context.expression or _with_quoted_aliases(context.sql)
    if statement is None or not is_catalog_query(statement):
        return None
    try:
        query = rewrite_query(statement)
    except CatalogQueryError as error:
        raise PgError(error.sqlstate, error.message) from error
    return CatalogStatement(context, query)


_CATALOG_WORDS = re.compile(
    r"pg_|information_schema|current_|session_|version\s*\(|set_config|quote_ident|format_type"
    r"|_description|reg(class|type|proc|namespace)|generate_series|inet_|has_\w+_privilege|to_reg|txid_|\buser\b",
    re.IGNORECASE,
)


def _may_be_catalog_query(sql: str) -> bool:
    return _CATALOG_WORDS.search(sql) is not None


_ALIASES = re.compile(r"\bas\s+(select|insert|update|delete)\b", re.IGNORECASE)


def _with_quoted_aliases(sql: str) -> exp.Expr | None:
    """Parse a query with names that sqlglot refuses, as in Metabase's `AS select`.

    None if it is invalid.
    """
    try:
        return sqlglot.parse_one(_ALIASES.sub(r'AS "\1"', sql), dialect="postgres")
    except sqlglot.errors.SqlglotError:
        return None


class CatalogStatement(pg_mimic.Statement):  # type: ignore[misc]
    """A prepared query of the catalogs.

    Attributes:
        sql: Text as the client sent it.
        param_oids: Types of the parameters.
    """

    def __init__(self, context: MiddlewareContext, query: Any) -> None:
        self.sql = context.sql
        self._client = context.connection.session
        self._query = query
        declared = context.param_oids
        self.param_oids = [
            (declared[place] if place < len(declared) else None) or types()[name].oid
            for place, name in enumerate(query.parameter_types)
        ]

    async def describe(self) -> list[ResultColumn]:
        """Return the columns."""
        return [ResultColumn(column.name, type_oid(column)) for column in self._query.columns]

    def bind(self, params: Sequence[object]) -> CatalogPortal:
        """Return the query with values for its parameters.

        Raises:
            PgError: A value is invalid for its type, or values are missing.
        """
        values = parameter_values(params, self.param_oids)
        query = self._query
        return CatalogPortal(self._client, query.parts, lambda asked: asked.run(query, values))


class CatalogPortal(pg_mimic.Portal):  # type: ignore[misc]
    """A query of the catalogs whose rows are fetched."""

    def __init__(
        self,
        client: Any,
        parts: frozenset[CatalogPart],
        run: Callable[[CatalogDatabase], list[Any]],
    ) -> None:
        self._client = client
        self._parts = parts
        self._run = run
        self._rows: list[Any] | None = None

    async def execute(self, max_rows: int) -> tuple[list[Any], bool]:
        """Return the next rows, and whether more follow."""
        if self._rows is None:
            self._rows = await self._client.run(
                lambda: self._client.ask_catalogs(self._parts, self._run)
            )
        n_rows = max_rows if max_rows > 0 else len(self._rows)
        rows, self._rows = self._rows[:n_rows], self._rows[n_rows:]
        return rows, bool(self._rows)
