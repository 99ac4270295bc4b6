"""Spark SQL expressions that compute a value from a row number `id`, for each type."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TypeVar

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from runtime.errors import CatalogError
from runtime.options.checks import bad_option, duration_us, missing_option, wrong_value
from runtime.shown_types import shown_type
from runtime.spec.table import TableSpec

_INTEGERS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_LARGEST: dict[type[DataType], float] = {
    FloatType: 3.4028234663852886e38,
    DoubleType: 1.7976931348623157e308,
}
# Largest absolute value of doubles without `min` and `max`
_USUAL = 1e6
_STRING_LENGTH = 8
_ARRAY_LENGTH = 3
# Longer strings are built by a function over an array, shorter ones by concat.
_CHUNK = 16
_MAX_CHUNKS = 64
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  # wall-clock arithmetic
_DAY_US = 86_400_000_000

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class GeneratedRows:
    """Parameters shared by all fields of a table.

    Attributes:
        n_rows: Number of rows. None if unbounded.
        seed: Seed of random values.
        now: SQL for the microseconds since 1970 (UTC) from which `max-past` counts back.
    """

    n_rows: int | None
    seed: int
    now: str


@dataclass(frozen=True)
class Field:
    """Field to generate: its path in the table, its type, and the options of the table.

    `salt` is SQL text that differs between the elements of an array.
    """

    spec: TableSpec
    path: tuple[str, ...]
    type: DataType
    options: dict[str, str]
    salt: str = ""

    @property
    def prefix(self) -> str:
        """Prefix of the field's options."""
        return ".".join(("fields", *self.path)).lower()

    @property
    def is_sequence(self) -> bool:
        """Whether the field is a sequence instead of random."""
        return (self.get("kind") or "random").lower() == "sequence"

    def get(self, name: str) -> str | None:
        """Return the value of one of the field's options."""
        return self.options.get(f"{self.prefix}.{name}")

    def child(self, name: str, data_type: DataType) -> Field:
        """Return a field of this row, or the element of this array."""
        return replace(self, path=(*self.path, name), type=data_type)

    def wrong(self, name: str, expected: str) -> CatalogError:
        """Return the error for an option whose value does not fit the field's type."""
        hint = f"for {shown_type(self.type.simpleString())} it must be {expected}"
        return wrong_value(self.spec, f"{self.prefix}.{name}", self.get(name), hint)

    def missing(self, name: str) -> CatalogError:
        """Return the error for a missing option of the field."""
        return missing_option(self.spec, f"{self.prefix}.{name}")

    def random(self, rows: GeneratedRows, purpose: str = "") -> str:
        """Return SQL for a random BIGINT that depends only on seed, field, row and purpose."""
        name = "\\0".join((*self.path, purpose)).replace("\\", "\\\\").replace("'", "\\'")
        more = f", {self.salt}" if self.salt else ""
        # Hash twice: a single round leaves patterns between neighbouring rows.
        return f"xxhash64(xxhash64('{name}', {rows.seed}L, id{more}), id)"


def expression(field: Field, rows: GeneratedRows) -> str:
    """Return SQL over the row number `id` for the values of `field`.

    Raises:
        CatalogError: Its options do not fit its type, or the type is not supported.
    """
    value = _sequence(field, rows) if field.is_sequence else _random(field, rows)
    rate = float(field.get("null-rate") or 0)
    if rate > 0:
        value = f"IF({_unit(field.random(rows, 'null'))} < {rate!r}D, NULL, {value})"
    return f"CAST({value} AS {field.type.simpleString()})"


def sequence_length(field: Field) -> int | None:
    """Return the length of a sequence. None for random fields and unbounded sequences.

    Raises:
        CatalogError: Start and end are missing, not numbers, or in the wrong order.
    """
    if not field.is_sequence:
        return None
    if isinstance(field.type, (TimestampType, TimestampNTZType)):
        return None
    start, end = _sequence_bounds(field)
    return end - start + 1


def _sequence_bounds(field: Field) -> tuple[int, int]:
    bounds: list[int] = []
    for name in ("start", "end"):
        text = field.get(name)
        if text is None:
            raise field.missing(name)
        try:
            bounds.append(int(text))
        except ValueError:
            raise field.wrong(name, "a whole number") from None
    if bounds[0] > bounds[1]:
        raise field.wrong("end", f"at least the start, {bounds[0]}")
    return bounds[0], bounds[1]


def _sequence(field: Field, rows: GeneratedRows) -> str:
    if isinstance(field.type, (TimestampType, TimestampNTZType)):
        start, end = _timestamp(field, "start"), _timestamp(field, "end")
        if start is None or end is None:
            raise field.missing("start" if start is None else "end")
        if start > end:
            raise field.wrong("end", "at least the start")
        if rows.n_rows is None:
            raise bad_option(
                field.spec,
                f"option '{field.prefix}.kind' = 'sequence' requires a number of rows for times",
                "add 'number-of-rows', or compute the time from a sequence of numbers",
            )
        # evenly from the first row to the last; in DECIMAL because the product may overflow a
        # BIGINT
        steps = max(1, rows.n_rows - 1)
        offset = f"CAST(CAST(id AS DECIMAL(19,0)) * {end - start} DIV {steps} AS BIGINT)"
        return timestamp_of(f"{start}L + {offset}", field.type)
    numeric = {*_INTEGERS, FloatType, DoubleType, DecimalType, StringType}
    if type(field.type) not in numeric:
        raise bad_option(
            field.spec,
            f"option '{field.prefix}.kind' cannot be 'sequence'",
            f"{shown_type(field.type.simpleString())} values can only be random",
        )
    start, end = _sequence_bounds(field)
    bits = _INTEGERS.get(type(field.type), 64)
    for name, value in (("start", start), ("end", end)):
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise field.wrong(name, f"a number that fits {shown_type(field.type.simpleString())}")
    return f"({start}L + id)"


def _random(field: Field, rows: GeneratedRows) -> str:
    match field.type:
        case BooleanType():
            return f"({field.random(rows)} & 1L) = 1L"
        case ByteType() | ShortType() | IntegerType() | LongType():
            return _random_integer(field, rows)
        case FloatType() | DoubleType():
            return _random_double(field, rows)
        case DecimalType():
            return _random_decimal(field, rows)
        case StringType():
            return _hexadecimal(field, rows)
        case BinaryType():
            return f"unhex({_hexadecimal(field, rows, digits=2)})"
        case DateType() | TimestampType() | TimestampNTZType():
            return _random_time(field, rows)
        case ArrayType():
            return _random_array(field, rows)
        case StructType():
            parts = [
                f"'{f.name}', {expression(field.child(f.name, f.dataType), rows)}"
                for f in field.type.fields
            ]
            return f"named_struct({', '.join(parts)})"
    raise CatalogError(
        f"connector 'datagen' cannot generate {shown_type(field.type.simpleString())} "
        f"(column `{'.'.join(field.path)}` of table `{field.spec.name}`)",
        subjects=("'datagen'", ".".join(field.path), field.spec.name),
        hint="generate the parts, and combine them in a computed column",
    )


def _unit(bits: str) -> str:
    """Return SQL that turns the upper 53 bits of a random BIGINT into a double in [0, 1)."""
    return f"(shiftrightunsigned({bits}, 11) * {2.0**-53!r}D)"


def _random_between(
    field: Field, rows: GeneratedRows, least: int, most: int, purpose: str = ""
) -> str:
    """Return SQL for a random integer from `least` to `most`, a BIGINT."""
    n_values = most - least + 1
    bits = field.random(rows, purpose)
    # as an expression, because the literal of the smallest BIGINT does not parse
    lowest = f"{least}L" if least > -(2**63) else "(-9223372036854775807L - 1L)"
    if n_values == 2**64:
        return bits
    if n_values < 2**63:
        return f"({lowest} + pmod({bits}, {n_values}L))"
    wide = f"pmod(CAST({bits} AS DECIMAL(38,0)), CAST('{n_values}' AS DECIMAL(38,0)))"
    return f"CAST(CAST('{least}' AS DECIMAL(38,0)) + {wide} AS BIGINT)"


def _bounds(
    field: Field,
    parse: Callable[[str], Number],
    least: Number,
    most: Number,
    kind: str,
    range_: str,
) -> tuple[Number, Number]:
    """Return the values of the options `min` and `max`.

    Args:
        field: Field with the options.
        parse: Parses a value.
        least: Minimum value of the type.
        most: Maximum value of the type.
        kind: Description of a valid value, for errors.
        range_: Description of the range, for errors.

    Raises:
        CatalogError: A value is invalid, or the minimum exceeds the maximum.
    """
    bounds: list[Number] = []
    for name, default in (("min", least), ("max", most)):
        text = field.get(name)
        try:
            value = default if text is None else parse(text)
        except (ValueError, ArithmeticError):
            raise field.wrong(name, kind) from None
        if not least <= value <= most:
            raise field.wrong(name, range_)
        bounds.append(value)
    _check_order(field, *bounds)
    return bounds[0], bounds[1]


def _random_integer(field: Field, rows: GeneratedRows) -> str:
    bits = _INTEGERS[type(field.type)]
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    bounds = _bounds(field, int, least, most, "a whole number", f"from {least} to {most}")
    return _random_between(field, rows, *bounds)


def _random_double(field: Field, rows: GeneratedRows) -> str:
    most = _LARGEST[type(field.type)]
    low, high = _bounds(field, float, -most, most, "a number", "a finite number")
    # so that sums and squares are finite too
    if field.get("max") is None:
        high = max(_USUAL, low + _USUAL) if field.get("min") is not None else _USUAL
    if field.get("min") is None:
        low = min(-_USUAL, high - _USUAL)
    unit = _unit(field.random(rows))
    # not min + unit * (max - min), because the difference may be infinite
    return f"({low!r}D * (1D - {unit}) + {high!r}D * {unit})"


def _random_decimal(field: Field, rows: GeneratedRows) -> str:
    assert isinstance(field.type, DecimalType)
    scale, most = field.type.scale, 10**field.type.precision - 1
    type_ = field.type.simpleString()

    def unscaled(text: str) -> int:
        return int(Decimal(text).scaleb(scale).to_integral_value())

    fits = f"a number that fits {shown_type(type_)}"
    bounds = _bounds(field, unscaled, -most, most, "a number", fits)
    # through text, because a product with 10^-scale would be rounded to 38 digits
    value = _wide_random_between(field, rows, *bounds)
    return f"CAST(concat(CAST({value} AS STRING), 'E-{scale}') AS {type_})"


def _wide_random_between(field: Field, rows: GeneratedRows, least: int, most: int) -> str:
    """Return SQL for a random integer of up to 38 digits."""
    if -(2**63) <= least and most < 2**63:
        return _random_between(field, rows, least, most)
    if most - least >= 10**38:
        # the range does not fit a DECIMAL: handle negative and other values separately
        negative = f"{_unit(field.random(rows, 'sign'))} < {-least / (most - least)!r}D"
        sides = (
            _wide_random_between(field, rows, least, -1),
            _wide_random_between(field, rows, 0, most),
        )
        return f"IF({negative}, {sides[0]}, {sides[1]})"
    # Two digits to the base 10^18. The lower one has a smaller range if the upper one is the
    # highest.
    base = 10**18
    high, low = divmod(most - least, base)
    upper = (
        f"pmod(CAST({field.random(rows)} AS DECIMAL(38,0)), CAST('{high + 1}' AS DECIMAL(38,0)))"
    )
    bits = field.random(rows, "low")
    at_highest = f"{upper} = CAST('{high}' AS DECIMAL(38,0))"
    lower = f"IF({at_highest}, pmod({bits}, {low + 1}L), pmod({bits}, {base}L))"
    wide = f"CAST({upper} AS DECIMAL(20,0)) * CAST('{base}' AS DECIMAL(19,0))"
    total = f"CAST({wide} AS DECIMAL(38,0)) + CAST({lower} AS DECIMAL(19,0))"
    return (
        f"CAST(CAST('{least}' AS DECIMAL(38,0)) + CAST({total} AS DECIMAL(38,0)) AS DECIMAL(38,0))"
    )


def _hexadecimal(field: Field, rows: GeneratedRows, digits: int = 1) -> str:
    """Return SQL for random hexadecimal digits as in Flink, `digits` per character or byte."""
    most = int(field.get("length") or _STRING_LENGTH)
    length = f"{digits} * ({_length(field, rows, most)})"
    n_chunks = -(-digits * most // _CHUNK)
    if n_chunks <= _MAX_CHUNKS:
        chunks = [_chunk(field.random(rows, f"chunk{number}")) for number in range(n_chunks)]
        return f"substr(concat({', '.join(chunks)}), 1, {length})"
    one_chunk = _chunk(f"xxhash64({field.random(rows)}, chunk)")
    all_chunks = f"transform(sequence(1, {n_chunks}), chunk -> {one_chunk})"
    return f"substr(concat_ws('', {all_chunks}), 1, {length})"


def _chunk(bits: str) -> str:
    return f"lower(lpad(hex({bits}), {_CHUNK}, '0'))"


def _length(field: Field, rows: GeneratedRows, most: int) -> str:
    if (field.get("var-len") or "false").lower() == "true":
        return f"CAST({_random_between(field, rows, 1, most, 'length')} AS INT)"
    return str(most)


def _random_array(field: Field, rows: GeneratedRows) -> str:
    assert isinstance(field.type, ArrayType)
    most = int(field.get("length") or _ARRAY_LENGTH)
    # one variable per level, so that a nested array does not hide the outer position
    index = f"i{len(field.path)}"
    salt = f"{field.salt}, {index}" if field.salt else index
    element = replace(field.child("element", field.type.elementType), salt=salt)
    length = _length(field, rows, most)
    return f"transform(sequence(1, {length}), {index} -> {expression(element, rows)})"


def _random_time(field: Field, rows: GeneratedRows) -> str:
    least, most = _timestamp(field, "min"), _timestamp(field, "max")
    past = duration_us(field.get("max-past") or "0")
    assert past is not None, "validate() has seen to it"
    if field.get("max-past") is not None and (least is not None or most is not None):
        raise field.wrong("max-past", "omitted if min and max are set")
    if least is None and most is None:
        # now is an instant; a TIMESTAMP without zone shows it on the session's wall clock
        now = f"timestamp_micros({rows.now} - {_random_between(field, rows, 0, past)})"
        return now if isinstance(field.type, TimestampType) else f"CAST({now} AS TIMESTAMP_NTZ)"
    if least is None or most is None:
        raise field.missing("min" if least is None else "max")
    _check_order(field, least, most)
    if isinstance(field.type, DateType):
        days = _random_between(field, rows, least // _DAY_US, most // _DAY_US)
        return f"date_from_unix_date(CAST({days} AS INT))"
    return timestamp_of(_random_between(field, rows, least, most), field.type)


def timestamp_of(micros: str, type_: DataType) -> str:
    """Return SQL for the timestamp of microseconds on its type's own clock, in any session zone."""
    if isinstance(type_, TimestampType):
        return f"timestamp_micros({micros})"
    return f"(TIMESTAMP_NTZ'1970-01-01 00:00:00' + ({micros}) * INTERVAL '0.000001' SECOND)"


def _timestamp(field: Field, name: str) -> int | None:
    """Return an option as microseconds since 1970: wall clock, or UTC for a TIMESTAMP_LTZ."""
    text = field.get(name)
    if text is None:
        return None
    try:
        time = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        raise field.wrong(name, "a timestamp such as '2024-01-01 00:00:00'") from None
    if time.tzinfo is not None:
        if not isinstance(field.type, TimestampType):
            raise field.wrong(name, "a timestamp without time zone")
        time = time.astimezone(dt.UTC).replace(tzinfo=None)
    return (time - _EPOCH) // dt.timedelta(microseconds=1)


def _check_order(field: Field, least: float, most: float) -> None:
    if least > most:
        raise field.wrong("max", f"at least the min, {field.get('min')}")
