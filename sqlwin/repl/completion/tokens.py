"""Tokens of SQL that is still being typed: nothing in it is an error."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<open>'(?:[^'\\]|\\.|'')*\\?\Z|"(?:[^"\\]|\\.|"")*\\?\Z|`[^`]*\Z)
    |(?P<name>`[^`]*`|[^\W\d]\w*)
    |(?P<number>\d[\w.]*)
    |(?P<symbol>=>|.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Typed:
    """A token: `kind` is string, open (a quote that is not closed), name, number or symbol."""

    kind: str
    text: str
    end: int

    @property
    def word(self) -> str:
        """A bare name in upper case, a symbol as it is, else nothing."""
        if self.kind == "name" and not self.text.startswith("`"):
            return self.text.upper()
        return self.text if self.kind == "symbol" else ""

    @property
    def value(self) -> str:
        """A name or string without its quotes."""
        if self.kind == "open":
            return self.text[1:]
        if self.kind == "string" or self.text.startswith("`"):
            return self.text[1:-1]
        return self.text


def typed_tokens(text: str) -> list[Typed]:
    """The tokens, without blanks and comments."""
    return [
        Typed(str(match.lastgroup), match.group(), match.end())
        for match in _TOKEN.finditer(text)
        if match.lastgroup != "space"
    ]


def with_backticks(text: str) -> str:
    r"""The text with names in double quotes in backticks, the open one too.

    Example:
        >>> with_backticks('SELECT "a b", \'"\' FROM "t')
        'SELECT `a b`, \'"\' FROM `t'
    """
    pieces = []
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token.startswith('"') and match.lastgroup in ("open", "string"):
            token = "`" + (token[1:] if match.lastgroup == "open" else token[1:-1] + "`")
        pieces.append(token)
    return "".join(pieces)


def open_comment(text: str) -> str:
    """What begins the comment that is open at the end of the text: `--`, `/*`, or nothing."""
    last = ""
    for match in _TOKEN.finditer(text):
        last = match.group() if match.lastgroup == "space" else ""
    is_closed = last.endswith("*/") and len(last) >= len("/**/")
    return last[:2] if last.startswith("--") or (last.startswith("/*") and not is_closed) else ""


def after_last(tokens: list[Typed], *symbols: str) -> list[Typed]:
    """The tokens since the last of some symbols; all if there is none."""
    places = (i + 1 for i in reversed(range(len(tokens))) if tokens[i].word in symbols)
    return tokens[next(places, 0) :]


def open_brackets(tokens: list[Typed]) -> list[int]:
    """Where the brackets stand that are not closed, the innermost last."""
    stack: list[int] = []
    for i, token in enumerate(tokens):
        if token.word == "(":
            stack.append(i)
        elif token.word == ")" and stack:
            stack.pop()
    return stack


def level_from(tokens: list[Typed], first: int) -> list[Typed]:
    """The tokens from `first` on that stand in no further bracket."""
    depth, found = 0, []
    for token in tokens[first:]:
        if token.word == ")":
            depth -= 1
        if depth == 0:
            found.append(token)
        if token.word == "(":
            depth += 1
    return found
