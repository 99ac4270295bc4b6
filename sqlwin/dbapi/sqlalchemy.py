"""SQLAlchemy's dialect `sqlwin`, for URLs such as `sqlwin:///tables.sql`.

An entry point of the package registers it, so only SQLAlchemy imports this module.
"""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

from sqlalchemy import exc, pool, types
from sqlalchemy.engine import URL, Connection
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.engine.interfaces import (
    ConnectArgsType,
    DBAPIConnection,
    IsolationLevel,
    ReflectedColumn,
    ReflectedForeignKeyConstraint,
    ReflectedIndex,
    ReflectedPrimaryKeyConstraint,
)
from sqlalchemy.schema import CreateTable, DropTable
from sqlalchemy.sql import Select
from sqlalchemy.sql.compiler import (
    DDLCompiler,
    GenericTypeCompiler,
    IdentifierPreparer,
    SQLCompiler,
)
from sqlalchemy.sql.type_api import TypeEngine

from runtime.errors import ErrorKind
from runtime.names import quote_name

# Query parameters of the URL that are arguments of `sqlwin.connect`; the others are settings
_ARGUMENTS = ("master", "remote")
_TYPES: dict[str, type[TypeEngine[Any]]] = {
    "BIGINT": types.BigInteger,
    "BINARY": types.LargeBinary,
    "BYTES": types.LargeBinary,
    "BOOLEAN": types.Boolean,
    "CHAR": types.String,
    "DATE": types.Date,
    "DOUBLE": types.Double,
    "FLOAT": types.Float,
    "INT": types.Integer,
    "SMALLINT": types.SmallInteger,
    "STRING": types.String,
    "TIME": types.Time,
    "TIMESTAMP": types.DateTime,
    "TINYINT": types.SmallInteger,
    "VARCHAR": types.String,
}
# Names of Spark's tables, which differ from the ones of sqlwin
_SPARKS_TIMES = ("timestamp", "timestamp_ntz")
_NO_TABLE = (ErrorKind.UNKNOWN_TABLE, ErrorKind.CATALOG, ErrorKind.UNKNOWN_DATABASE)


class SqlwinIdentifiers(IdentifierPreparer):
    """Writer of names, in backticks."""

    def __init__(self, dialect: DefaultDialect) -> None:
        super().__init__(dialect, initial_quote="`", escape_quote="`")


class SqlwinCompiler(SQLCompiler):
    """Writer of queries, with OFFSET without LIMIT as sqlwin spells it."""

    def limit_clause(self, select: Select[Any], **kw: Any) -> str:
        """Return the LIMIT and OFFSET of a query."""
        if select._limit_clause is not None or select._offset_clause is None:
            return str(super().limit_clause(select, **kw))  # type: ignore[no-untyped-call]
        return f"\n OFFSET {self.process(select._offset_clause, **kw)}"


class SqlwinDefinitions(DDLCompiler):
    """Refuses definitions of tables: SQLAlchemy knows no connector and no path.

    Spark would make a table of its own without them, which only this process knows.
    """

    def visit_create_table(self, create: CreateTable, **kw: Any) -> str:
        """Refuse CREATE TABLE.

        Raises:
            CompileError: Always.
        """
        name = self.preparer.format_table(create.element)
        raise exc.CompileError(
            f"cannot create {name}: SQLAlchemy and pandas know no connector for the rows. "
            f"Run CREATE TABLE {name} (...) WITH ('connector' = 'filesystem', 'path' = ...) first, "
            "and write with if_exists='append'"
        )

    def visit_drop_table(self, drop: DropTable, **kw: Any) -> str:
        """Refuse DROP TABLE, with which pandas begins if_exists='replace'.

        Raises:
            CompileError: Always.
        """
        name = self.preparer.format_table(drop.element)
        raise exc.CompileError(
            f"cannot replace {name}: a new table would lose its connector, and its files would "
            "stay. Write with if_exists='append', or replace the rows with INSERT OVERWRITE"
        )


class SqlwinTypes(GenericTypeCompiler):
    """Writer of types in CAST, under sqlwin's names."""

    def visit_string(self, type_: Any, **kw: Any) -> str:
        """Write STRING for types of text."""
        return "STRING"

    visit_text = visit_unicode = visit_unicode_text = visit_VARCHAR = visit_NVARCHAR = visit_string
    visit_TEXT = visit_CHAR = visit_CLOB = visit_uuid = visit_UUID = visit_string

    def visit_datetime(self, type_: types.DateTime, **kw: Any) -> str:
        """Write the type for times with or without a zone."""
        return "TIMESTAMP_LTZ(6)" if type_.timezone else "TIMESTAMP(6)"

    visit_DATETIME = visit_TIMESTAMP = visit_datetime

    def visit_float(self, type_: Any, **kw: Any) -> str:
        """Write DOUBLE, the type of Python's float."""
        return "DOUBLE"

    def visit_large_binary(self, type_: Any, **kw: Any) -> str:
        """Write BINARY."""
        return "BINARY"


class SqlwinDialect(DefaultDialect):
    """Dialect of sqlwin. An engine has one session, which its threads share."""

    name = "sqlwin"
    driver = "dbapi"
    default_paramstyle = "qmark"
    preparer: type[IdentifierPreparer] = SqlwinIdentifiers
    statement_compiler = SqlwinCompiler
    ddl_compiler = SqlwinDefinitions
    type_compiler_cls = SqlwinTypes
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_multivalues_insert = True
    supports_sane_rowcount = False
    supports_sane_multi_rowcount = False
    postfetch_lastrowid = False
    returns_native_bytes = True

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """Return the module of PEP 249."""
        import sqlwin.dbapi

        return sqlwin.dbapi

    @classmethod
    def get_pool_class(cls, url: URL) -> type[pool.Pool]:
        """Return a pool of one connection, because another session would have other tables."""
        return pool.StaticPool

    def create_connect_args(self, url: URL) -> ConnectArgsType:
        """Return the arguments of `connect`: the file of the URL, and settings of its query.

        Raises:
            ArgumentError: The URL has a host, user or password.
        """
        if url.host or url.username or url.password:
            raise exc.ArgumentError(
                "a sqlwin URL has no host: use sqlwin:// or sqlwin:///tables.sql, or "
                "sqlwin://?remote=sc://host:port for Spark Connect"
            )
        options = {key: str(value) for key, value in url.query.items()}
        arguments: dict[str, Any] = {key: options.pop(key) for key in _ARGUMENTS if key in options}
        if url.database:
            arguments["script"] = url.database
        return [], {**arguments, "settings": options}

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Do nothing: statements have taken effect, and SQLAlchemy ends each use this way."""

    def get_isolation_level_values(self, dbapi_conn: DBAPIConnection) -> list[IsolationLevel]:
        """Return the only level: each statement takes effect at once."""
        return ["AUTOCOMMIT"]

    def get_isolation_level(self, dbapi_connection: DBAPIConnection) -> IsolationLevel:
        """Return the only level."""
        return "AUTOCOMMIT"

    def set_isolation_level(self, dbapi_connection: DBAPIConnection, level: IsolationLevel) -> None:
        """Do nothing, because the level never changes."""

    # -- reflection --------------------------------------------------------------------------------

    def get_schema_names(self, connection: Connection, **kw: Any) -> list[str]:
        """Return no names: tables of a session are in no schema."""
        return []

    def get_table_names(
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> list[str]:
        """Return the names of the session's tables."""
        views = self.get_view_names(connection)
        return [name for name in _names(connection, "SHOW TABLES") if name not in views]

    def get_view_names(
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> list[str]:
        """Return the names of the session's views."""
        return _names(connection, "SHOW VIEWS")

    def has_table(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        """Return whether the session has such a table or view.

        Does not start Spark: pandas asks whether the text of a query is the name of a table.
        """
        if schema is None:
            names = _names(connection, "SHOW TABLES")
            return table_name.lower() in (name.lower() for name in names)
        try:
            _describe(connection, table_name, schema)
        except exc.NoSuchTableError:
            return False
        return True

    def get_columns(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedColumn]:
        """Return the columns of a table or view.

        Raises:
            NoSuchTableError: The table does not exist.
        """
        if schema is None and not self.has_table(connection, table_name):
            raise exc.NoSuchTableError(table_name)
        return [
            {
                "name": name,
                "type": _type_of(type_),
                "nullable": null == "TRUE",
                "default": None,
            }
            for name, type_, null, *_ in _describe(connection, table_name, schema)
        ]

    def get_pk_constraint(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> ReflectedPrimaryKeyConstraint:
        """Return no key. Queries do not need one."""
        return {"constrained_columns": [], "name": None}

    def get_foreign_keys(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedForeignKeyConstraint]:
        """Return no foreign keys, because sqlwin has none."""
        return []

    def get_indexes(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedIndex]:
        """Return no indexes, because sqlwin has none."""
        return []


def _names(connection: Connection, statement: str) -> list[str]:
    return [row[0] for row in connection.exec_driver_sql(statement)]


def _describe(connection: Connection, table: str, schema: str | None) -> list[Any]:
    """Return the rows of DESCRIBE: name, type, nullable and more.

    Raises:
        NoSuchTableError: The table does not exist.
    """
    name = quote_name(table) if schema is None else f"{quote_name(schema)}.{quote_name(table)}"
    try:
        return list(connection.exec_driver_sql(f"DESCRIBE {name}"))
    except exc.DBAPIError as error:
        cause = None if error.orig is None else error.orig.__cause__
        if getattr(cause, "kind", None) in _NO_TABLE:
            raise exc.NoSuchTableError(table) from error
        raise


def _type_of(text: str) -> TypeEngine[Any]:
    """Return the type of a column. Types that SQLAlchemy lacks have no operators.

    Example:
        >>> _type_of("DECIMAL(10, 2)"), _type_of("STRING NOT NULL"), _type_of("ARRAY<INT>")
        (Numeric(precision=10, scale=2), String(), NullType())
        >>> _type_of("bigint"), _type_of("timestamp"), _type_of("timestamp_ntz")  # of Spark
        (BigInteger(), DateTime(timezone=True), DateTime())
    """
    if text in _SPARKS_TIMES:
        return types.DateTime(timezone=text == "timestamp")
    text = text.upper()
    if digits := re.match(r"DECIMAL\((\d+), ?(\d+)\)", text):
        return types.Numeric(int(digits[1]), int(digits[2]))
    if text.startswith("TIMESTAMP_LTZ"):
        return types.DateTime(timezone=True)
    return _TYPES.get(re.split(r"[( <]", text, maxsplit=1)[0], types.NullType)()
