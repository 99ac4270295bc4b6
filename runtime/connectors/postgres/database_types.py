"""Columns of a table in the database, and the types of sqlwin that fit them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.connectors.postgres.database import TableName, quote
from runtime.errors import CatalogError, ExecutionError, nearest
from runtime.shown_types import shown_type
from runtime.spec.table import Column, TableSpec

if TYPE_CHECKING:
    from psycopg import Connection

_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_NUMERIC = re.compile(r"numeric\((\d+),\s*(-?\d+)\)")
# Type of a new column, by Spark's type
_NEW = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp_ntz": "timestamp without time zone",
    "timestamp": "timestamp with time zone",
}
_INTEGERS = ("smallint", "integer", "bigint", "numeric")
_FLOATS = ("real", "double precision")
# Kinds of relations into which rows are copied: tables, partitioned and foreign ones
_TABLES = ("r", "p", "f")
# Names of the others
_KINDS = {"v": "a view", "m": "a materialized view", "S": "a sequence", "c": "a type"}
# Database types that hold every value of a Spark type
_WIDER: dict[str, Sequence[str]] = {
    "boolean": ("boolean",),
    "tinyint": (*_INTEGERS, *_FLOATS),
    "smallint": (*_INTEGERS, *_FLOATS),
    "int": (*_INTEGERS[1:], "double precision"),
    "bigint": _INTEGERS[2:],
    "float": _FLOATS,
    "double": _FLOATS[1:],
    "binary": ("bytea",),
    "date": ("date",),
    "timestamp_ntz": ("timestamp without time zone",),
    "timestamp": ("timestamp with time zone",),
}
# Database types that cannot be read from arbitrary text
_NOT_TEXT = frozenset(
    (*(type_ for types in _WIDER.values() for type_ in types), "bit", "interval", "money", "oid")
)


@dataclass(frozen=True)
class DatabaseColumn:
    """Column of a table in the database.

    Attributes:
        name: Name.
        type: Type as PostgreSQL spells it, such as `numeric(10,2)`.
        is_required: Whether rows need a value: NOT NULL without a default.
        is_generated: Whether the database computes the value, so that none may be given.
    """

    name: str
    type: str
    is_required: bool
    is_generated: bool


def base_type(type_: str) -> str:
    """Return a type of the database without its length or precision."""
    return re.sub(r"\(.*?\)", "", type_)


def new_type(type_: str) -> str | None:
    """Return the type of a new column for a Spark type, or None if it has no equivalent."""
    if _DECIMAL.fullmatch(type_):
        return type_.replace("decimal", "numeric")
    return _NEW.get(type_)


def columns_of(connection: Connection, table: TableName) -> list[DatabaseColumn] | None:
    """Return the columns of a table or view in the database, or None if it does not exist."""
    rows = connection.execute(
        # a domain is read and written as its base type
        "SELECT a.attname, CASE t.typtype WHEN 'd' THEN format_type(t.typbasetype, t.typtypmod) "
        "ELSE format_type(a.atttypid, a.atttypmod) END, "
        "(a.attnotnull OR t.typnotnull) AND NOT a.atthasdef AND t.typdefault IS NULL "
        "AND a.attidentity = '', a.attgenerated <> '' OR a.attidentity = 'a' "
        "FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
        "WHERE a.attrelid = to_regclass(%s) "
        "AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        (table.sql(),),
    ).fetchall()
    return [DatabaseColumn(*row) for row in rows] or None


def check_kind(connection: Connection, spec: TableSpec, table: TableName) -> None:
    """Check that rows can be copied into a relation.

    Raises:
        CatalogError: It is a view without a trigger for INSERT, or no table at all.
    """
    # bits 2 and 6 of a trigger's type: INSERT and INSTEAD OF
    row = connection.execute(
        "SELECT c.relkind, EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid "
        "AND t.tgtype & 68 = 68) FROM pg_class c WHERE c.oid = to_regclass(%s)",
        (table.sql(),),
    ).fetchone()
    kind, takes_inserts = row or ("r", False)
    if kind in _TABLES or takes_inserts:
        return
    name = _KINDS.get(kind, "no table")
    raise CatalogError(
        f"table `{spec.name}`: {table.sql()} is {name} in the database and cannot be written",
        subjects=(spec.name,),
        hint="name a table in 'table-name'",
    )


def check_privileges(
    connection: Connection, spec: TableSpec, table: TableName, privileges: Sequence[str]
) -> None:
    """Check that the user has privileges on a table, or on some of its columns.

    Raises:
        ExecutionError: One is missing.
    """
    lacking = []
    for privilege in privileges:
        # DELETE is a privilege of whole tables only
        function = "has_table" if privilege == "DELETE" else "has_any_column"
        row = connection.execute(
            f"SELECT {function}_privilege(to_regclass(%s), %s)".encode(), (table.sql(), privilege)
        ).fetchone()
        if row is None or not row[0]:
            lacking.append(privilege)
    if lacking:
        user = quote(connection.info.user)
        listed = ", ".join(lacking)
        raise ExecutionError(
            f"table `{spec.name}`: user {user} lacks {listed} on {table.sql()} in the database",
            subjects=(spec.name,),
            hint=f"GRANT {listed} ON {table.sql()} TO {user} in the database, or use another "
            "'username'",
        )


def unique_keys(connection: Connection, table: TableName) -> list[frozenset[str]]:
    """Return the columns of each unique index by which the database can find a row."""
    rows = connection.execute(
        "SELECT array_agg(a.attname) FROM pg_index i JOIN pg_attribute a "
        "ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) "
        "WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indisvalid "
        "AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL GROUP BY i.indexrelid",
        (table.sql(),),
    ).fetchall()
    return [frozenset(map(str, names)) for (names,) in rows]


def new_table(spec: TableSpec, table: TableName, columns: Sequence[Column]) -> str:
    """Return the statement that creates a table for rows of these columns.

    Raises:
        CatalogError: A type has no equivalent in PostgreSQL.
    """
    key = {name.lower() for name in spec.primary_key}
    definitions = []
    for column in columns:
        type_ = new_type(column.type)
        if type_ is None:
            raise unsupported_type(spec, column)
        required = " NOT NULL" if column.name.lower() in key else ""
        definitions.append(f"{quote(column.name)} {type_}{required}")
    if key:
        names = [quote(column.name) for column in columns if column.name.lower() in key]
        definitions.append(f"PRIMARY KEY ({', '.join(names)})")
    return f"CREATE TABLE IF NOT EXISTS {table.sql()} ({', '.join(definitions)})"


def unsupported_type(spec: TableSpec, column: Column) -> CatalogError:
    """Return the error for a column whose type PostgreSQL cannot store."""
    return CatalogError(
        f"column `{column.name}` of table `{spec.name}` has the type "
        f"{shown_type(column.type)}, which "
        f"connector '{spec.connector}' does not support",
        subjects=(column.name, spec.name),
        hint="use TO_JSON(...) and a column STRING",
    )


def targets(
    spec: TableSpec, table: TableName, columns: Sequence[Column], actual: Sequence[DatabaseColumn]
) -> list[DatabaseColumn]:
    """Return the column of the database for each column of the rows.

    Raises:
        CatalogError: A column does not exist or does not fit, or one that needs a value is missing.
    """
    names = [column.name for column in actual]
    by_name = {name.lower(): column for name, column in zip(names, actual, strict=True)}
    result: list[DatabaseColumn] = []
    for column in columns:
        exact = next((c for c in actual if c.name == column.name), None)
        target = exact or by_name.get(column.name.lower())
        if target is None:
            close = nearest(column.name, names)
            raise CatalogError(
                f"column `{column.name}` of table `{spec.name}` does not exist in {table.sql()}",
                subjects=(column.name, spec.name),
                hint=f"did you mean `{close}`?" if close else f"columns: {', '.join(names)}",
            )
        _check_fit(spec, column, target)
        result.append(target)
    missing = [c.name for c in actual if c.is_required and c not in result]
    if missing:
        raise CatalogError(
            f"table `{spec.name}` lacks column `{missing[0]}`, which is NOT NULL and has no "
            f"default in {table.sql()}",
            subjects=(spec.name, missing[0]),
            hint="declare the column, or give it a default in the database",
        )
    return result


def _check_fit(spec: TableSpec, column: Column, target: DatabaseColumn) -> None:
    if target.is_generated:
        raise CatalogError(
            f"column `{column.name}` of table `{spec.name}` is generated by the database",
            subjects=(column.name, spec.name),
            hint="remove it from the table's columns",
        )
    if new_type(column.type) is None:
        raise unsupported_type(spec, column)
    if not fits(column.type, target.type):
        others = {"timestamp_ntz": "timestamp", "timestamp": "timestamp_ntz"}
        is_time = target.type.startswith("timestamp") and column.type in others
        hint = f"declare it {shown_type(others[column.type])}" if is_time else None
        raise CatalogError(
            f"column `{column.name}` of table `{spec.name}` is {shown_type(column.type)}, "
            "which does "
            f"not fit {target.type} in the database",
            subjects=(column.name, spec.name),
            hint=hint or "declare another type, or change the column in the database",
        )


def fits(type_: str, target: str) -> bool:
    """Return whether a column of the database takes the values of one of Spark's types.

    Texts also fit types that the database reads from a text, such as uuid, jsonb or an enum.

    Example:
        >>> fits("int", "bigint"), fits("bigint", "integer"), fits("decimal(10,2)", "numeric")
        (True, False, True)
    """
    base = base_type(target)
    if type_ == "string":
        return base not in _NOT_TEXT
    decimal, numeric = _DECIMAL.fullmatch(type_), _NUMERIC.fullmatch(target)
    if decimal is not None:
        precision, scale = int(decimal[1]), int(decimal[2])
        if numeric is None:
            return base == "numeric"
        return int(numeric[2]) >= scale and int(numeric[1]) - int(numeric[2]) >= precision - scale
    if numeric is not None:
        digits = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}.get(type_)
        return digits is not None and int(numeric[1]) - int(numeric[2]) >= digits
    return base in _WIDER.get(type_, ())
