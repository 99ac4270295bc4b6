"""Rows as lines of CSV or JSON, with the bytes of Spark's writers.

Doubles have the shortest digits in Java's notation. Java before 19 writes more digits for a few of
them, which are read as the same number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.kernels.conversions import Int64Array, int64_values
from runtime.compute.wall_clock import wall_clock_us
from runtime.shown_types import shown_type
from runtime.spec.figures import date_text, java_number

# Characters that the writer of CSV trims
_BLANKS = "".join(map(chr, range(33)))
# The writer of CSV takes this for the start of a comment, in the first column only
_COMMENT = "#"
# Decimals of a larger scale have an exponent if they are small
MAX_DECIMALS = 6
_SECOND_US = 1_000_000
_ESCAPES = {
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\b": "\\b",
    "\f": "\\f",
    '"': '\\"',
    "\\": "\\\\",
}
_JSON_SPECIAL = re.compile(r'["\\\x00-\x1f]')


@dataclass(frozen=True)
class CsvForm:
    """Format of CSV lines.

    Attributes:
        zone: Session time zone, for TIMESTAMP_LTZ.
        delimiter: Separator of fields.
        null: Text for NULL.
        has_header: Whether the first line names the columns.
    """

    zone: str
    delimiter: str = ","
    null: str = ""
    has_header: bool = False

    def head(self, schema: pa.Schema) -> bytes:
        """Return the text before the rows."""
        if not self.has_header:
            return b""
        names = [self._quoted(name, place == 0) for place, name in enumerate(schema.names)]
        return f"{self.delimiter.join(names)}\n".encode()

    def lines(self, table: pa.Table) -> bytes:
        """Return rows as lines."""
        columns = []
        for place, column in enumerate(table.columns):
            array = column.combine_chunks()
            if pa.types.is_string(array.type):
                texts = self._texts(array, is_first=place == 0)
            else:
                texts = _plain_texts(array, self.zone)
            columns.append(pc.fill_null(texts, self.null))
        return _joined(pc.binary_join_element_wise(*columns, self.delimiter))

    def _texts(self, texts: pa.Array, *, is_first: bool) -> pa.Array:
        delimiter = re.escape(self.delimiter)
        comment = rf"|\A{_COMMENT}" if is_first else ""
        special = rf'["\n\r]|{delimiter}|\A[\x00-\x20]|[\x00-\x20]\z|\A\z{comment}'
        return _changed(texts, special, lambda text: self._quoted(text, is_first))

    def _quoted(self, text: str, is_first: bool) -> str:
        """Return a text trimmed and, where necessary, quoted."""
        from_start = text.lstrip(_BLANKS)
        is_quoted = any(sign in from_start for sign in ('"', self.delimiter, "\n", "\r"))
        trimmed = from_start.rstrip(_BLANKS)
        if is_quoted or (is_first and text.startswith(_COMMENT)):
            return '"' + trimmed.replace('"', '""') + '"'
        return trimmed or '""'


@dataclass(frozen=True)
class JsonForm:
    """Format of JSON lines.

    Attributes:
        zone: Session time zone, for TIMESTAMP_LTZ.
        between: Text between a date and a time of day.
        has_nulls: Whether fields that are NULL are written.
    """

    zone: str
    between: str = " "
    has_nulls: bool = False

    def head(self, schema: pa.Schema) -> bytes:
        """Return the text before the rows."""
        return b""

    def lines(self, table: pa.Table) -> bytes:
        """Return rows as lines."""
        fields = []
        for name, column in zip(table.column_names, table.columns, strict=True):
            key = f"{_json_text(name)}:"
            values = self._values(column.combine_chunks())
            if self.has_nulls:
                values = pc.fill_null(values, "null")
            field = pc.binary_join_element_wise(key, values, ",", "")
            fields.append(pc.fill_null(field, ""))
        inside = pc.ascii_rtrim(pc.binary_join_element_wise(*fields, ""), ",")
        return _joined(pc.binary_join_element_wise("{", inside, "}", ""))

    def _values(self, array: pa.Array) -> pa.Array:
        type_ = array.type
        if pa.types.is_string(type_):
            escaped = _changed(array, r'["\\\x00-\x1f]', _escaped)
            return pc.binary_join_element_wise('"', escaped, '"', "")
        texts = _plain_texts(array, self.zone, self.between)
        if pa.types.is_temporal(type_):
            return pc.binary_join_element_wise('"', texts, '"', "")
        if pa.types.is_floating(type_):
            is_number = pc.is_finite(array)
            quoted = pc.binary_join_element_wise('"', texts, '"', "")
            return pc.if_else(is_number, texts, quoted)
        return texts


TextForm = CsvForm | JsonForm


def _joined(lines: pa.Array) -> bytes:
    if not len(lines):
        return b""
    ended = pc.binary_join_element_wise(pc.cast(lines, pa.binary()), b"\n", b"")
    size = int64_values(pc.cast(pc.binary_length(ended), pa.int64())).sum()
    _, offsets, data = ended.buffers()
    start = np.frombuffer(offsets, np.int32)[ended.offset]
    return bytes(memoryview(data)[start : start + size])


def _changed(texts: pa.Array, special: str, change: Callable[[str], str]) -> pa.Array:
    """Change the texts that contain a pattern, once per distinct text."""
    is_special = pc.fill_null(pc.match_substring_regex(texts, special), False)
    if not is_special.true_count:
        return texts
    values = texts.filter(is_special).dictionary_encode()
    changed = pa.array([change(text) for text in values.dictionary.to_pylist()], pa.string())
    return pc.replace_with_mask(texts, is_special, changed.take(values.indices))


def _json_text(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return _JSON_SPECIAL.sub(lambda m: _ESCAPES.get(m[0], f"\\u{ord(m[0]):04X}"), text)


def _plain_texts(array: pa.Array, zone: str, between: str = " ") -> pa.Array:
    """Return the texts of values that are not strings."""
    type_ = array.type
    if pa.types.is_floating(type_):
        values = array.dictionary_encode()
        digits = _digits_of_single if type_ == pa.float32() else repr
        texts = [
            None if value is None else java_number(digits(value))
            for value in values.dictionary.to_pylist()
        ]
        return pa.array(texts, pa.string()).take(values.indices)
    if type_ == pa.date32():
        days = int64_values(pc.cast(pc.fill_null(array, 0), pa.int32()))
        return _where(array, _date_texts(days))
    if pa.types.is_timestamp(type_):
        micros = int64_values(pc.fill_null(pc.cast(array, pa.int64()), 0))
        local = micros if type_.tz is None else wall_clock_us(micros, zone)
        days = local // (86_400 * _SECOND_US)
        of_day = pa.array(local - days * 86_400 * _SECOND_US, pa.time64("us"))
        parts = [_date_texts(days), pc.cast(of_day, pa.string())]
        texts = pc.binary_join_element_wise(*parts, between)
        if type_.tz is not None:
            texts = pc.binary_join_element_wise(texts, _offset_texts(local - micros), "")
        return _where(array, texts)
    return pc.cast(array, pa.string())


def _digits_of_single(value: float) -> str:
    """Return the shortest digits that stand for a number of single precision."""
    return np.format_float_scientific(np.float32(value), unique=True, trim="-")


def _where(array: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_valid(array), texts, pa.scalar(None, pa.string()))


def _date_texts(days: Int64Array) -> pa.Array:
    """Return dates as `yyyy-MM-dd`, with a sign before years of more than four digits."""
    distinct, places = np.unique(days, return_inverse=True)
    texts = [date_text(int(day)) for day in distinct]
    return pa.array(texts, pa.string()).take(pa.array(places))


def _offset_texts(offsets_us: Int64Array) -> pa.Array:
    distinct, places = np.unique(offsets_us // _SECOND_US, return_inverse=True)
    texts = []
    for seconds in distinct.tolist():
        minutes = abs(seconds) // 60
        sign = "-" if seconds < 0 else "+"
        texts.append(f"{sign}{minutes // 60:02}:{minutes % 60:02}" if seconds else "Z")
    return pa.array(texts, pa.string()).take(pa.array(places))


def why_not_text(types: Sequence[tuple[str, str]]) -> str | None:
    """Return which column's values have no certain form as text, or None.

    Args:
        types: Names and Spark types of the columns.
    """
    for name, type_ in types:
        digits = re.fullmatch(r"decimal\(\d+,\s*(\d+)\)", type_)
        is_decimal = digits is not None and int(digits[1]) <= MAX_DECIMALS
        if not is_decimal and type_ not in _TYPES:
            return f"Spark writes {name} {shown_type(type_)} as text"
    return None


_TYPES = frozenset(
    "string tinyint smallint int bigint float double boolean date timestamp timestamp_ntz".split()
)
