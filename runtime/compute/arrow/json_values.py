"""Values in JSON texts, with the results of Spark's VARIANT.

A text with a syntax error, or with two members of one name in an object, has no values. Text after
the first JSON value is ignored.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from functools import partial

import pyarrow as pa

from runtime.compute.arrow.types import INTEGER_TYPES, Datum, arrow_type
from runtime.spec.figures import java_number

_NUMBER = re.compile(r"[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?")
_WORDS = {
    **dict.fromkeys(("true", "t", "yes", "1"), True),
    **dict.fromkeys(("false", "f", "no", "0"), False),
}
_MISSING = object()
_MAX_DIGITS = 38
# Digits after the point of a number before it is truncated to an integer
_WIDE_SCALE = 18
_EXACT = Context(prec=2 * _MAX_DIGITS)


class _NumberText(str):
    """Text of a number, as Spark writes it."""


def values_at(texts: Datum, steps: Sequence[str | int], type_: str) -> Datum:
    """Return the scalar at a path of each text, NULL where none has the type.

    Args:
        texts: JSON texts.
        steps: Members and elements on the way.
        type_: Spark type: STRING, BOOLEAN, DOUBLE, an integer or a decimal.
    """
    return _map(texts, partial(_value, steps=steps, convert=_conversion(type_)), type_)


def exist_at(texts: Datum, steps: Sequence[str | int]) -> Datum:
    """Return whether each text has a value other than null at a path."""

    def exists(text: str) -> bool:
        found = _find(text, steps)
        return found is not None and found is not _MISSING

    return _map(texts, exists, "boolean")


def part_at(texts: Datum, separator: str, index: int) -> Datum:
    """Return one of the parts between separators, from 0. NULL if a text has fewer."""

    def part(text: str) -> str | None:
        parts = text.split(separator) if text else []
        return parts[index] if 0 <= index < len(parts) else None

    return _map(texts, part, "string")


def _map(texts: Datum, function: Callable[[str], object], type_: str) -> Datum:
    """Apply a function to the texts that are not NULL. Each distinct text is read once."""
    if isinstance(texts, pa.Scalar):
        return _map(pa.array([texts], texts.type), function, type_)[0]
    encoded = texts.dictionary_encode()
    stored: list[bytes] = encoded.dictionary.cast(pa.binary()).to_pylist()
    results = [function(text.decode("utf-8", "replace")) for text in stored]
    return pa.array(results, arrow_type(type_)).take(encoded.indices)


def _value(text: str, steps: Sequence[str | int], convert: Callable[[object], object]) -> object:
    found = _find(text, steps)
    return None if found is _MISSING or isinstance(found, dict | list) else convert(found)


def _find(text: str, steps: Sequence[str | int]) -> object:
    try:
        found, _ = _DECODER.raw_decode(text.lstrip(" \t\n\r"))
    except (ValueError, RecursionError):
        return _MISSING
    for step in steps:
        if isinstance(step, str) and isinstance(found, dict) and step in found:
            found = found[step]
        elif isinstance(step, int) and isinstance(found, list) and step < len(found):
            found = found[step]
        else:
            return _MISSING
    return found


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("two members have the same name")
    return members


def _no_constant(text: str) -> object:
    raise ValueError(f"{text} is not JSON")


def _integer(text: str) -> _NumberText:
    n_digits = len(text.lstrip("-"))
    return _NumberText(int(text)) if n_digits <= _MAX_DIGITS else _double(text)


def _double(text: str) -> _NumberText:
    """Return a double as Java writes it."""
    return _NumberText(java_number(repr(float(text))))


def _fraction(text: str) -> _NumberText:
    """Return a decimal without zeros at its end, or a double if it has an exponent."""
    digits = text.lstrip("-").replace(".", "").lstrip("0")
    if (
        "e" in text.lower()
        or len(digits) > _MAX_DIGITS
        or len(text.partition(".")[2]) > _MAX_DIGITS
    ):
        return _double(text)
    plain = format(_EXACT.create_decimal(text), "f").rstrip("0").rstrip(".")
    return _NumberText("0" if plain in ("-0", "") else plain)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_members,
    parse_constant=_no_constant,
    parse_float=_fraction,
    parse_int=_integer,
)


# -- conversions ---------------------------------------------------------------------------------


def _conversion(type_: str) -> Callable[[object], object]:
    """Return the function that converts a scalar to a type, to NULL where it does not fit."""
    if type_ == "string":
        return _text
    if type_ == "boolean":
        return _boolean
    if type_ == "double":
        return _as_double
    if type_ in INTEGER_TYPES:
        return partial(_as_integer, n_bits=INTEGER_TYPES[type_].bit_width)
    decimal = arrow_type(type_)
    return partial(_as_decimal, precision=decimal.precision, scale=decimal.scale)


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    # Java writes half a surrogate pair as a question mark.
    return None if value is None else str(value).encode("utf-8", "replace").decode()


def _boolean(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    is_word = isinstance(value, str) and not isinstance(value, _NumberText)
    return _WORDS.get(str(value).strip(" ").lower()) if is_word else None


def _number(value: object) -> str | None:
    is_number = isinstance(value, str) and _NUMBER.fullmatch(value) is not None
    return str(value) if is_number else None


def _as_double(value: object) -> float | None:
    text = _number(value)
    number = math.inf if text is None else float(text)
    return None if math.isinf(number) else number


def _as_decimal(value: object, precision: int, scale: int) -> Decimal | None:
    text = _number(value)
    if text is None:
        return None
    number = Decimal(text)
    if number and number.adjusted() >= precision - scale:
        return None
    rounded = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    return None if rounded and rounded.adjusted() >= precision - scale else rounded


def _as_integer(value: object, n_bits: int) -> int | None:
    number = _as_decimal(value, _MAX_DIGITS, _WIDE_SCALE)
    if number is None:
        return None
    whole = int(number.to_integral_value(ROUND_DOWN))
    return whole if -(1 << (n_bits - 1)) <= whole < 1 << (n_bits - 1) else None
