"""Text functions with Spark's results.

Texts are sequences of code points. Bytes that are not UTF-8 become replacement characters, as in
Spark, where a function decodes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.arrow.types import Datum
from runtime.errors import ExecutionError

# Spark trims spaces only
_SPACE = " "
# Letters with a case since Unicode 16 and 17, which Spark knows and older versions of Python do not
_NEW_UPPER = str.maketrans(
    {
        0x19B: 0xA7DC,
        0x264: 0xA7CB,
        0x1C8A: 0x1C89,
        0xA7CD: 0xA7CC,
        0xA7DB: 0xA7DA,
        0xA7CF: 0xA7CE,
        0xA7D3: 0xA7D2,
        0xA7D5: 0xA7D4,
        **{0x10D70 + place: 0x10D50 + place for place in range(22)},
        **{0x16EBB + place: 0x16EA0 + place for place in range(25)},
    }
)
_NEW_LOWER = {upper: lower for lower, upper in _NEW_UPPER.items()}


def upper(values: Datum) -> Datum:
    """Return texts in upper case, by Unicode's full mappings: `ß` becomes `SS`."""
    return _by_case(values, pc.ascii_upper, lambda text: text.upper().translate(_NEW_UPPER))


def lower(values: Datum) -> Datum:
    """Return texts in lower case, by Unicode's full mappings, with final sigmas."""
    return _by_case(values, pc.ascii_lower, lambda text: text.lower().translate(_NEW_LOWER))


def _by_case(
    values: Datum, of_ascii: Callable[[Datum], Datum], of_text: Callable[[str], str]
) -> Datum:
    """Change the case of texts. Each distinct text beyond ASCII is changed once."""
    if isinstance(values, pa.Scalar):
        return _by_case(pa.array([values], values.type), of_ascii, of_text)[0]
    changed = of_ascii(values)
    is_beyond = pc.fill_null(pc.invert(pc.string_is_ascii(values)), False)
    if not pc.any(is_beyond).as_py():
        return changed
    beyond = values.filter(is_beyond).dictionary_encode()
    stored: list[bytes] = beyond.dictionary.cast(pa.binary()).to_pylist()
    texts = (value.decode("utf-8", "replace") for value in stored)
    others = pa.array([of_text(text) for text in texts], pa.string())
    return pc.replace_with_mask(changed, is_beyond, others.take(beyond.indices))


def length(values: Datum) -> Datum:
    """Return the number of code points of texts, or of bytes of binaries."""
    if pa.types.is_string(values.type):
        return pc.utf8_length(values)
    return pc.binary_length(values)


def trim(values: Datum, side: str) -> Datum:
    """Return texts without spaces at the start, the end or both: `ltrim`, `rtrim`, `trim`."""
    match side:
        case "ltrim":
            return pc.utf8_ltrim(values, _SPACE)
        case "rtrim":
            return pc.utf8_rtrim(values, _SPACE)
    return pc.utf8_trim(values, _SPACE)


def substring(values: Datum, position: int, n_chars: int | None) -> Datum:
    """Return a part of texts.

    Args:
        values: Texts.
        position: First code point, from 1; 0 is 1. Negative positions count from the end.
        n_chars: Maximum number of code points, from `position` even if that is before the text.
            None: up to the end.
    """
    start = position - 1 if position > 0 else position
    end = None if n_chars is None else start + max(n_chars, 0)
    if end is not None and start < 0 <= end:
        end = None  # counted from the end of the text
    if n_chars is not None and n_chars <= 0:
        end = start
    return pc.utf8_slice_codeunits(values, start, end)


def concatenate(values: Sequence[Datum]) -> Datum:
    """Return texts one after the other; NULL if one is."""
    try:
        return pc.binary_join_element_wise(*values, pa.scalar("", pa.string()))
    except pa.ArrowInvalid as error:
        raise ExecutionError(
            "the texts of a batch have more than 2 GB after CONCAT",
            hint="set 'sqlwin.in-process.max-bytes' = '0' to let Spark run the query",
        ) from error


def concatenate_with(separator: Datum, values: Sequence[Datum]) -> Datum:
    """Return texts with a separator between them, without the NULLs. NULL without a separator."""
    result, *others = values
    for value in others:
        both = concatenate([result, separator, value])
        result = pc.coalesce(both, result, value)
    # not NULL if all texts are
    result = pc.coalesce(result, pa.scalar("", pa.string()))
    return pc.if_else(pc.is_valid(separator), result, pa.scalar(None, pa.string()))


def replace(values: Datum, search: str, replacement: str) -> Datum:
    """Return texts with every occurrence of a text replaced, from the left."""
    return pc.replace_substring(values, search, replacement)


def reverse(values: Datum) -> Datum:
    """Return texts with their code points in reverse order."""
    return pc.utf8_reverse(values)


def matches(values: Datum, regex: str) -> Datum:
    """Return whether texts match a regular expression of RE2."""
    return pc.match_substring_regex(values, regex)
