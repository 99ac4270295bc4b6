"""Texts, values, types and errors between PostgreSQL's clients and sqlwin."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlglot import exp

from runtime.errors import AnalysisError, ErrorKind
from sqlwin.server.intervals import read_interval
from sqlwin.statements.literals import SqlLiteral

# OIDs of PostgreSQL's types, from its pg_type
BOOL, BYTEA, CHAR, INT8, INT2, INT4, TEXT, OID = 16, 17, 18, 20, 21, 23, 25, 26
JSON, FLOAT4, FLOAT8, VARCHAR, DATE, TIME = 114, 700, 701, 1043, 1082, 1083
TIMESTAMP, TIMESTAMPTZ, INTERVAL, NUMERIC = 1114, 1184, 1186, 1700

# sqlwin's types: OID, the OID of its arrays, and PostgreSQL's name
_TYPES: dict[str, tuple[int, int, str]] = {
    "tinyint": (INT2, 1005, "smallint"),
    "smallint": (INT2, 1005, "smallint"),
    "int": (INT4, 1007, "integer"),
    "bigint": (INT8, 1016, "bigint"),
    "float": (FLOAT4, 1021, "real"),
    "double": (FLOAT8, 1022, "double precision"),
    "decimal": (NUMERIC, 1231, "numeric"),
    "boolean": (BOOL, 1000, "boolean"),
    "string": (TEXT, 1009, "text"),
    "char": (TEXT, 1009, "text"),
    "varchar": (TEXT, 1009, "text"),
    "binary": (BYTEA, 1001, "bytea"),
    "date": (DATE, 1182, "date"),
    "time": (TIME, 1183, "time"),
    "timestamp": (TIMESTAMPTZ, 1185, "timestamptz"),
    "timestamp_ltz": (TIMESTAMPTZ, 1185, "timestamptz"),
    "timestamp_ntz": (TIMESTAMP, 1115, "timestamp"),
}
_ELEMENTS = {array: element for element, array, _ in _TYPES.values()}
_ELEMENTS[1187] = INTERVAL
_NESTED = ("array", "map", "struct", "row")

# -- texts -----------------------------------------------------------------------------------------

# Strings, quoted names and comments, which stay as they are, and the parts that sqlwin spells
# differently
_PARTS = re.compile(
    r"""(?P<escaped>\bE(?='))?(?P<string>'(?:[^'\\]|\\.|'')*')
      | (?P<public>\bpublic\s*\.\s*|"public"\s*\.\s*)(?=["`\w])
      | "(?:[^"]|"")*" | `[^`]*` | --[^\n]* | /\*.*?\*/
      | (?P<parameter>\$(?P<number>\d+))""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


@dataclass(frozen=True)
class ClientText:
    """A statement of a client in sqlwin's spelling, of the same length.

    Attributes:
        text: The statement, with `?` for `$1`.
        numbers: For each `?`, the number of the client's parameter, from 1. Negative: whether the
            parameter, a list, has items.
    """

    text: str
    numbers: tuple[int, ...]

    def values(self, parameters: Sequence[object]) -> list[object]:
        """Return the values of the `?`, in order.

        Raises:
            AnalysisError: A parameter has no value.
        """
        missing = [number for number in self.numbers if number > len(parameters)]
        if missing:
            raise AnalysisError(f"the parameter ${missing[0]} has no value")
        return [self._value(number, parameters) for number in self.numbers]

    def _value(self, number: int, parameters: Sequence[object]) -> object:
        value = parameters[abs(number) - 1]
        if number < 0:
            return None if value is None else value != []
        # IN needs an item
        return [None] if value == [] and -number in self.numbers else value


def read_text(sql: str, *, is_translated: bool = False) -> ClientText:
    r"""Return a client's statement in sqlwin's spelling.

    `$1` becomes `?`, E'text' a string, and the schema `public`, which has all tables, is dropped.
    In a translated text, `$1?` is whether the list `$1` has items.

    Example:
        >>> read_text("SELECT $2, $1 FROM public.t WHERE k = '$1' -- $3")
        ClientText(text="SELECT ? , ?  FROM        t WHERE k = '$1' -- $3", numbers=(2, 1))
    """
    numbers: list[int] = []

    def spell(match: re.Match[str]) -> str:
        if match["parameter"]:
            number = int(match["number"])
            is_flag = is_translated and sql[match.end() : match.end() + 1] == "?"
            numbers.append(-number if is_flag else number)
            return "?".ljust(len(match[0]))[is_flag:]
        if match["public"]:
            return " " * len(match[0])
        if match["string"]:
            return (" " if match["escaped"] else "") + match["string"]
        return match[0]

    return ClientText(_PARTS.sub(spell, sql), tuple(numbers))


# -- values of parameters --------------------------------------------------------------------------


def _timestamp_of_zone(text: str) -> datetime:
    value = datetime.fromisoformat(text)
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def _timestamp(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=None)


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError
    return bytes.fromhex(text[2:])


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError
    return word in _TRUE


def _integer(n_bytes: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = int(text)
        if not -(1 << (8 * n_bytes - 1)) <= value < 1 << (8 * n_bytes - 1):
            raise ValueError
        return value

    return read


def _interval(text: str) -> object:
    months, micros = read_interval(text)
    if months and micros:
        raise ValueError
    if not months:
        return timedelta(microseconds=micros)
    unit = exp.Var(this="MONTH")
    node = exp.Interval(this=exp.Literal.string(str(months)), unit=unit)
    return SqlLiteral(f"INTERVAL '{months}' MONTH", node)


_TRUE, _FALSE = ("t", "true", "1", "on", "yes", "y"), ("f", "false", "0", "off", "no", "n")
_READERS: dict[int, Callable[[str], object]] = {
    BOOL: _boolean,
    BYTEA: _bytes,
    DATE: date.fromisoformat,
    FLOAT4: float,
    FLOAT8: float,
    INTERVAL: _interval,
    INT2: _integer(2),
    INT4: _integer(4),
    INT8: _integer(8),
    OID: int,
    NUMERIC: Decimal,
    TIME: time.fromisoformat,
    TIMESTAMP: _timestamp,
    TIMESTAMPTZ: _timestamp_of_zone,
}
# Values with which a statement is planned while its parameters are unknown
_SAMPLES: dict[int, object] = {
    BOOL: True,
    BYTEA: b"",
    DATE: date(1970, 1, 1),
    FLOAT4: 0.0,
    FLOAT8: 0.0,
    INTERVAL: timedelta(days=1),
    INT2: 0,
    INT4: 0,
    INT8: 0,
    NUMERIC: Decimal(0),
    TIME: time(),
    TIMESTAMP: datetime.fromisoformat("1970-01-01"),
    TIMESTAMPTZ: datetime.fromtimestamp(0, UTC),
}


def parameter_value(value: Any, oid: int | None) -> object:
    """Return the value of a client's parameter, which arrives as text.

    Args:
        value: Text, a list of texts for an array, or None for NULL.
        oid: Type that the client declared. Without one, or with one that sqlwin lacks, the value is
            a string.

    Raises:
        AnalysisError: The text is not valid for its type.
    """
    if value is None:
        return None
    if isinstance(value, list):
        return [parameter_value(item, _ELEMENTS.get(oid or 0)) for item in value]
    read = _READERS.get(oid or 0)
    if read is None:
        return value
    try:
        return read(value)
    except (ValueError, InvalidOperation) as error:
        raise AnalysisError(
            f"the value {value!r} of a parameter is invalid for its declared type"
        ) from error


def sample_value(oid: int | None) -> object:
    """Return any value of a declared type, to plan a statement without values."""
    if oid in _ELEMENTS:
        return [sample_value(_ELEMENTS[oid])]
    return _SAMPLES.get(oid or 0, "")


# -- types of results ------------------------------------------------------------------------------


def oid_of(sql_type: str) -> int:
    """Return the OID of a SQL type. Nested types without one are JSON, others text.

    Example:
        >>> [oid_of(t) for t in ("decimal(10,2)", "array<int>", "map<string,int>", "void")]
        [1700, 1007, 114, 25]
    """
    name = re.split(r"[(< ]", sql_type.lower(), maxsplit=1)[0]
    if name in _TYPES:
        return _TYPES[name][0]
    if name == "array":
        element = re.split(r"[(< ]", sql_type.lower()[len("array<") :].rstrip(">"), maxsplit=1)[0]
        return _TYPES[element][1] if element in _TYPES else JSON
    if name == "interval":
        return TEXT if re.search("year|month", sql_type.lower()) else INTERVAL
    return JSON if name in _NESTED else TEXT


_NAMES = {oid: name for name, (oid, _, _) in reversed(_TYPES.items())} | {INTERVAL: "interval"}


def type_of_oid(oid: int | None) -> str | None:
    """Return the type of an OID, None for texts and types that sqlwin lacks.

    Example:
        >>> type_of_oid(1184), type_of_oid(1007), type_of_oid(25)
        ('timestamp', 'array<int>', None)
    """
    if oid in _ELEMENTS:
        return f"array<{_NAMES[_ELEMENTS[oid]]}>"
    return None if oid in (TEXT, VARCHAR) else _NAMES.get(oid or 0)


def result_value(value: Any, oid: int) -> Any:
    """Return a value as pg-mimic encodes it: nested values as JSON, others unchanged."""
    if oid == JSON and value is not None:
        return json.dumps(_plain(value), default=str)
    return value


def _plain(value: Any) -> Any:
    """Return rows of PySpark, within lists and dictionaries, as dictionaries."""
    if hasattr(value, "asDict"):
        return {key: _plain(item) for key, item in value.asDict().items()}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


# -- errors ----------------------------------------------------------------------------------------

# https://www.postgresql.org/docs/current/errcodes-appendix.html
SQLSTATES = {
    ErrorKind.SYNTAX: "42601",
    ErrorKind.ANALYSIS: "42000",
    ErrorKind.CATALOG: "42000",
    ErrorKind.UNKNOWN_COLUMN: "42703",
    ErrorKind.UNKNOWN_INPUT_COLUMN: "42703",
    ErrorKind.UNKNOWN_TABLE: "42P01",
    ErrorKind.UNKNOWN_DATABASE: "3F000",
    ErrorKind.UNKNOWN_CATALOG: "3D000",
    ErrorKind.UNKNOWN_FUNCTION: "42883",
    ErrorKind.SUBQUERY: "42601",
    ErrorKind.SETTING: "22023",
    ErrorKind.OPTION: "22023",
    ErrorKind.STREAM: "0A000",
    ErrorKind.DATA: "22000",
    ErrorKind.OUTPUT: "58030",
    ErrorKind.CANCELLED: "57014",
    ErrorKind.RAISED: "P0001",
    ErrorKind.READ_ONLY: "25006",
}
# Other failures while a statement runs
SYSTEM_ERROR = "58000"
UNSUPPORTED = "0A000"
