"""Names of types in SQL and in PostgreSQL's catalogs."""

from __future__ import annotations

import re

from sqlwin.server.catalog.relations import types, types_by_oid

_SQL_NAMES = {
    "bool": "boolean", "char": '"char"', "int2": "smallint", "int4": "integer", "int8": "bigint",
    "float4": "real", "float8": "double precision", "bpchar": "character",
    "varchar": "character varying", "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone", "time": "time without time zone",
    "timetz": "time with time zone", "varbit": "bit varying", "any": '"any"',
}  # fmt: skip
_INTERNAL_NAMES = {sql: name for name, sql in _SQL_NAMES.items()} | {
    "int": "int4", "float": "float8", "decimal": "numeric", "timestamp": "timestamp",
    "time": "time", "string": "text",
}  # fmt: skip


def format_type(oid: int | None, modifier: int | None) -> str | None:
    """Return the SQL name of a type.

    Example:
        >>> [format_type(*type_) for type_ in ((23, -1), (1700, 655366), (1009, None), (7, None))]
        ['integer', 'numeric(10,2)', 'text[]', '???']
    """
    if oid is None:
        return None
    if int(oid) == 0:
        return "-"
    type_ = types_by_oid().get(int(oid))
    if type_ is None:
        return "???"
    if type_.name.startswith("_") and type_.elem:
        return f"{format_type(type_.elem, modifier)}[]"
    name = _SQL_NAMES.get(type_.name, type_.name)
    if modifier is not None and modifier >= 0:
        if type_.name == "numeric":
            return f"{name}({(modifier - 4) >> 16},{(modifier - 4) & 0xFFFF})"
        if type_.name in ("varchar", "bpchar"):
            return f"{name}({modifier - 4})"
    return name


def type_named(name: str) -> str | None:
    """Return the internal name of a type with an SQL name, None if it is unknown.

    Example:
        >>> [type_named(name) for name in ("integer[]", 'pg_catalog."char"', "varchar(10)", "x")]
        ['_int4', 'char', 'varchar', None]
    """
    base = re.sub(r"\(.*?\)", "", name.lower().replace("pg_catalog.", "")).strip()
    is_array = base.endswith("[]")
    base = base.removesuffix("[]").strip()
    internal = _INTERNAL_NAMES.get(base, base.strip('"'))
    internal = f"_{internal}" if is_array else internal
    return internal if internal in types() else None
