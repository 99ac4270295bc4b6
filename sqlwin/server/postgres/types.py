"""PostgreSQL's type names, and sqlwin's types for them."""

from __future__ import annotations

import re
from dataclasses import dataclass

# sqlwin's type for each of PostgreSQL's names. TIMESTAMP has no zone, as in PostgreSQL.
NAMES: dict[tuple[str, ...], str] = {
    tuple(name.split()): kind
    for kind, names in {
        "BOOLEAN": "bool | boolean",
        "SMALLINT": "int2 | smallint",
        "INT": "int4 | int | integer",
        "BIGINT": "int8 | bigint | oid",
        "FLOAT": "float4 | real",
        "DOUBLE": "float8 | double precision",
        "DECIMAL": "numeric | decimal",
        "STRING": "text | varchar | character varying | name | citext | json | jsonb | uuid",
        "BINARY": "bytea",
        "DATE": "date",
        "TIME": "time | time without time zone",
        "TIMESTAMP_NTZ": "timestamp | timestamp without time zone",
        "TIMESTAMP_LTZ": "timestamptz | timestamp with time zone",
        "INTERVAL": "interval",
    }.items()
    for name in names.split(" | ")
}
# Types of PostgreSQL that sqlwin cannot represent
MISSING = frozenset(
    "bit bpchar box char character cidr circle hstore inet int4range int8range jsonpath line lseg "
    "macaddr money numrange path point polygon regclass regconfig regnamespace regoper regproc "
    "regprocedure regrole regtype timetz tsquery tsrange tstzrange tsvector varbit xml xid".split()
)
_LONGEST = max(map(len, NAMES))
# Type names that sqlwin reads as PostgreSQL means them
SAME = frozenset("bigint boolean date int smallint text".split())

INTEGERS = ("tinyint", "smallint", "int", "bigint")
FLOATS = ("float", "double")
NUMBERS = (*INTEGERS, *FLOATS, "decimal")
TIMES = ("date", "timestamp", "timestamp_ntz")
# A string literal or a parameter without a type, which takes its type from the place
UNKNOWN = "unknown"

_REGTYPES = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "decimal": "numeric",
    "string": "text",
    "unknown": "unknown",
    "binary": "bytea",
    "date": "date",
    "time": "time without time zone",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
    "interval": "interval",
}


@dataclass(frozen=True)
class TypeName:
    """A type as a client wrote it.

    Attributes:
        name: PostgreSQL's name, in lower case, without arguments.
        arguments: Precision and scale, or a length.
        n_dimensions: Dimensions of an array, 0 for other types.
    """

    name: str
    arguments: tuple[str, ...] = ()
    n_dimensions: int = 0

    @property
    def sqlwin(self) -> str:
        """The type in sqlwin's words."""
        kind = NAMES[tuple(self.name.split())]
        if kind == "DECIMAL":
            kind = f"DECIMAL({', '.join(self.arguments)})" if self.arguments else "DECIMAL(38, 18)"
        return "ARRAY<" * self.n_dimensions + kind + ">" * self.n_dimensions


def longest_name(words: list[str]) -> tuple[str, ...] | None:
    """Return the longest name of a type at the start of a list of words, or None.

    Example:
        >>> longest_name(["timestamp", "with", "time", "zone", "from"])
        ('timestamp', 'with', 'time', 'zone')
    """
    for length in range(_LONGEST, 0, -1):
        name = tuple(words[:length])
        if name in NAMES and len(name) == length:
            return name
    return None


def base_type(kind: str) -> str:
    """Return a type of Spark without its arguments, with one name for each type.

    Example:
        >>> [base_type(kind) for kind in ("decimal(10,2)", "ARRAY<INT>", "interval day to second")]
        ['decimal', 'array<int>', 'interval']
    """
    lower = kind.lower().strip()
    if lower.startswith(("array<", "map<", "struct<")):
        return lower
    name = re.split(r"[ (]", lower, maxsplit=1)[0]
    return {"timestamp_ltz": "timestamp", "varchar": "string", "char": "string"}.get(name, name)


def regtype(kind: str) -> str | None:
    """Return PostgreSQL's name of a type of Spark, as pg_typeof shows it.

    Example:
        >>> regtype("decimal(10,2)"), regtype("array<int>"), regtype("map<int,int>")
        ('numeric', 'integer[]', None)
    """
    base = base_type(kind)
    if base.startswith("array<"):
        element = regtype(base[len("array<") : -1])
        return None if element is None else f"{element}[]"
    return _REGTYPES.get(base)
