"""Type objects and constructors of PEP 249, and the description of columns."""

from __future__ import annotations

import re
import time
from datetime import date, datetime
from datetime import time as time_of_day
from typing import NamedTuple

from runtime.spec.table import Column

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


class TypeGroup:
    """A type object: equal to the SQL types of a group, as in `description[0][1] == NUMBER`."""

    def __init__(self, name: str, *types: str) -> None:
        self._name = name
        self._types = frozenset(types)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return re.split(r"[(< ]", other, maxsplit=1)[0] in self._types
        return self is other

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return self._name


STRING = TypeGroup("STRING", "string", "char", "varchar")
BINARY = TypeGroup("BINARY", "binary")
NUMBER = TypeGroup(
    "NUMBER", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "boolean"
)
DATETIME = TypeGroup("DATETIME", "date", "time", "timestamp", "timestamp_ntz", "interval")
# sqlwin's tables have no row IDs
ROWID = TypeGroup("ROWID")

Date = date
Time = time_of_day
Timestamp = datetime
Binary = bytes


def DateFromTicks(ticks: float) -> date:
    """Return the local date of a time in seconds since 1970."""
    return date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> time_of_day:
    """Return the local time of day of a time in seconds since 1970."""
    return time_of_day(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime:
    """Return the local date and time of a time in seconds since 1970."""
    return datetime(*time.localtime(ticks)[:6])  # noqa: DTZ001


class ColumnDescription(NamedTuple):
    """A column of a result, as PEP 249 describes it.

    Attributes:
        name: Name of the column.
        type_code: SQL type, such as `decimal(10,2)`. Compare it with the type objects.
        display_size: Unknown.
        internal_size: Unknown.
        precision: Digits of a decimal, else None.
        scale: Digits after the point of a decimal, else None.
        null_ok: Whether values may be NULL.
    """

    name: str
    type_code: str
    display_size: None
    internal_size: None
    precision: int | None
    scale: int | None
    null_ok: bool


def describe(column: Column) -> ColumnDescription:
    """Return the description of a column.

    Example:
        >>> describe(Column("price", "decimal(10,2)"))[1:]
        ('decimal(10,2)', None, None, 10, 2, True)
    """
    digits = _DECIMAL.fullmatch(column.type)
    precision, scale = (int(digits[1]), int(digits[2])) if digits else (None, None)
    return ColumnDescription(
        column.name, column.type, None, None, precision, scale, column.nullable
    )
