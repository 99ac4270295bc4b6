"""Tokenizer for SQL that is being typed. Accepts any text."""

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
    """A token. `kind` is string, open (an unclosed quote), name, number or symbol."""

    kind: str
    text: str
    end: int

    @property
    def word(self) -> str:
        """Bare name in upper case, or symbol. Empty for other tokens."""
        if self.kind == "name" and not self.text.startswith("`"):
            return self.text.upper()
        return self.text if self.kind == "symbol" else ""

    @property
    def value(self) -> str:
        """Name or string without its quotes."""
        if self.kind == "open":
            return self.text[1:]
        if self.kind == "string" or self.text.startswith("`"):
            return self.text[1:-1]
        return self.text


def typed_tokens(text: str) -> list[Typed]:
    """Return the tokens, without blanks and comments."""
    return [
        Typed(str(match.lastgroup), match.group(), match.end())
        for match in _TOKEN.finditer(text)
        if match.lastgroup != "space"
    ]


def with_backticks(text: str) -> str:
    r"""Return the text with double-quoted names in backticks, including an unclosed one.

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
    """Return the start of an unclosed comment, `--` or `/*`, or an empty string."""
    last = ""
    for match in _TOKEN.finditer(text):
        last = match.group() if match.lastgroup == "space" else ""
    is_closed = last.endswith("*/") and len(last) >= len("/**/")
    return last[:2] if last.startswith("--") or (last.startswith("/*") and not is_closed) else ""


def after_last(tokens: list[Typed], *symbols: str) -> list[Typed]:
    """Return the tokens after the last of the given symbols, or all tokens."""
    places = (i + 1 for i in reversed(range(len(tokens))) if tokens[i].word in symbols)
    return tokens[next(places, 0) :]


def open_brackets(tokens: list[Typed]) -> list[int]:
    """Return the positions of unclosed brackets, the innermost last."""
    stack: list[int] = []
    for i, token in enumerate(tokens):
        if token.word == "(":
            stack.append(i)
        elif token.word == ")" and stack:
            stack.pop()
    return stack


def level_from(tokens: list[Typed], first: int) -> list[Typed]:
    """Return the tokens from `first` on, without nested brackets."""
    depth, level = 0, []
    for token in tokens[first:]:
        if token.word == ")":
            depth -= 1
        if depth == 0:
            level.append(token)
        if token.word == "(":
            depth += 1
    return level
