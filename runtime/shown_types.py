"""Types as people read them: in Flink's words, as CREATE TABLE and CAST take them."""

from __future__ import annotations

import re
from functools import cache

# Spark's words for types that Flink spells differently. Spark's TIMESTAMP is an instant.
_WORDS = {
    "timestamp": "TIMESTAMP_LTZ(6)",
    "timestamp_ltz": "TIMESTAMP_LTZ(6)",
    "timestamp_ntz": "TIMESTAMP(6)",
    "binary": "BYTES",
}
_NAME = re.compile(r"\s*(?P<name>`(?:[^`]|``)+`|[^:<>,]+?)\s*:\s*")
_FLAT = re.compile(r"(?:[^<>,()]|\([^)]*\))*")


@cache
def shown_type(type_: str) -> str:
    """Return a type of Spark's DDL in the words of CREATE TABLE.

    Example:
        >>> shown_type("struct<at: timestamp, `a b`: array<timestamp_ntz>>")
        'ROW<`at` TIMESTAMP_LTZ(6), `a b` ARRAY<TIMESTAMP(6)>>'
    """
    shown, end = _read(type_, 0)
    return shown if end == len(type_) else type_.upper()


def _read(text: str, start: int) -> tuple[str, int]:
    """Return the type at an offset, in the words of CREATE TABLE, and the offset behind it."""
    match = _FLAT.match(text, start)
    assert match is not None  # it matches the empty text
    word, end = match.group().strip(), match.end()
    if text[end : end + 1] != "<":
        return _WORDS.get(word.lower()) or _spaced(word.upper()), end
    is_struct = word.lower() in ("struct", "row")
    parts: list[str] = []
    while text[end : end + 1] in ("<", ","):
        name = _NAME.match(text, end + 1) if is_struct else None
        part, end = _read(text, end + 1 if name is None else name.end())
        parts.append(part if name is None else f"{_quoted(name['name'])} {part}")
    return f"{'ROW' if is_struct else word.upper()}<{', '.join(parts)}>", end + 1


def _quoted(name: str) -> str:
    return name if name.startswith("`") else f"`{name}`"


def _spaced(word: str) -> str:
    """Return a flat type with a space behind each comma: `DECIMAL(10, 2)`."""
    return re.sub(r",\s*", ", ", word)
