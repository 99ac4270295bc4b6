"""Select cases by an expression of `-k`: parts of names with and, or, not and parentheses."""

from __future__ import annotations

import re
from collections.abc import Callable

from runtime.errors import SqlwinError

_TOKEN = re.compile(r"\(|\)|[^\s()]+")
# Returns whether a name is selected
Selects = Callable[[str], bool]


class SelectionError(SqlwinError):
    """An expression of `-k` is invalid."""


def selection(text: str) -> Selects:
    """Return the function of an expression that tells whether a name is selected.

    Raises:
        SelectionError: The expression is invalid.

    Example:
        >>> select = selection("hop and not (late or slow)")
        >>> select("hop counts"), select("a late HOP")
        (True, False)
    """
    tokens = _TOKEN.findall(text)
    parsed, rest = _either(tokens, text)
    if rest:
        raise _invalid(text)
    return parsed


def _either(tokens: list[str], text: str) -> tuple[Selects, list[str]]:
    one, rest = _both(tokens, text)
    while rest[:1] == ["or"]:
        one, rest = _combine(any, one, _both(rest[1:], text))
    return one, rest


def _both(tokens: list[str], text: str) -> tuple[Selects, list[str]]:
    one, rest = _single(tokens, text)
    while rest[:1] == ["and"]:
        one, rest = _combine(all, one, _single(rest[1:], text))
    return one, rest


def _combine(
    how: Callable[[list[bool]], bool], one: Selects, other: tuple[Selects, list[str]]
) -> tuple[Selects, list[str]]:
    second, rest = other
    return (lambda name: how([one(name), second(name)])), rest


def _single(tokens: list[str], text: str) -> tuple[Selects, list[str]]:
    if not tokens or tokens[0] in ("and", "or", ")"):
        raise _invalid(text)
    first, *rest = tokens
    if first == "not":
        inner, rest = _single(rest, text)
        return (lambda name: not inner(name)), rest
    if first == "(":
        inner, rest = _either(rest, text)
        if rest[:1] != [")"]:
            raise _invalid(text)
        return inner, rest[1:]
    return (lambda name: first.lower() in name.lower()), rest


def _invalid(text: str) -> SelectionError:
    return SelectionError(f"invalid expression '{text}'", hint="for example -k 'hop and not late'")
