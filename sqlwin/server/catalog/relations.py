"""Columns and types of PostgreSQL's catalogs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

PG_CATALOG, INFORMATION_SCHEMA, PUBLIC = "pg_catalog", "information_schema", "public"
NAMESPACES = {PG_CATALOG: 11, PUBLIC: 2200, INFORMATION_SCHEMA: 13000}
# OID of the only user
OWNER = 10

# Domains of information_schema, and types that are texts for clients
_DOMAINS = {
    "sql_identifier": "name",
    "character_data": "varchar",
    "cardinal_number": "int4",
    "yes_or_no": "varchar",
    "time_stamp": "timestamptz",
}
INTEGERS = frozenset(("int2", "int4", "int8", "oid", "xid", "cid", "regclass", "regtype"))
FLOATS = frozenset(("float4", "float8", "numeric"))
VECTORS = frozenset(("int2vector", "oidvector"))


@dataclass(frozen=True)
class CatalogRelation:
    """A table or view of PostgreSQL's catalogs.

    Attributes:
        schema: `pg_catalog` or `information_schema`.
        name: Its name.
        oid: Its OID.
        kind: `r` for a table, `v` for a view.
        columns: Names and PostgreSQL's type names.
    """

    schema: str
    name: str
    oid: int
    kind: str
    columns: dict[str, str]


@dataclass(frozen=True)
class PostgresType:
    """A type of PostgreSQL, with the columns of `pg_type` without their prefix `typ`."""

    oid: int
    name: str
    len: int
    byval: bool
    type: str
    category: str
    ispreferred: bool
    delim: str
    elem: int
    array: int

    @property
    def is_array(self) -> bool:
        """Whether values are arrays, which SQLite has as JSON."""
        return self.name.startswith("_") or self.name in VECTORS


@cache
def catalog_relations() -> dict[tuple[str, str], CatalogRelation]:
    """Return PostgreSQL's catalogs by schema and name."""
    relations = {}
    for line in _lines("relations.txt"):
        name, oid, kind, *columns = line.split(" ")
        schema, _, name = name.partition(".")
        typed = dict(column.rsplit(":", 1) for column in columns)
        typed = {column: _DOMAINS.get(type_, type_) for column, type_ in typed.items()}
        relations[schema, name] = CatalogRelation(schema, name, int(oid), kind, typed)
    return relations


@cache
def types() -> dict[str, PostgresType]:
    """Return PostgreSQL's types by their internal names, such as `int4` and `_int4`."""
    rows = {}
    for line in _lines("types.txt"):
        oid, name, length, byval, kind, category, preferred, delim, elem, array = line.split(" ")
        rows[name] = PostgresType(
            int(oid), name, int(length), byval == "1", kind, category, preferred == "1", delim,
            int(elem), int(array),
        )  # fmt: skip
    return rows


@cache
def types_by_oid() -> dict[int, PostgresType]:
    """Return PostgreSQL's types by OID."""
    return {type_.oid: type_ for type_ in types().values()}


def _lines(file: str) -> list[str]:
    text = (Path(__file__).parent / file).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]
