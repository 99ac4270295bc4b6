"""Parameters in a script, `:name` and `?`, and the tokens that represent them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlglot.tokenizer_core import Token, TokenType

_NAME = re.compile(r"[^\W\d]\w*")
_ENDS_OF_OPERANDS = frozenset("_`'\"])")
_TYPE_WORDS = frozenset("DATE TIME TIMESTAMP TIMESTAMP_NTZ TIMESTAMP_LTZ INTERVAL".split())


class Parameter(NamedTuple):
    """A parameter in a text.

    Attributes:
        name: Name, or None for `?`.
        start: Offset of its first character.
        end: Exclusive end.
        is_in_list: Whether it is an item of `IN (...)`, where a list is several items.
        type_word: Type before it, as in `DATE :day`, or "".
        word_start: Offset of `type_word`.
    """

    name: str | None
    start: int
    end: int
    is_in_list: bool = False
    type_word: str = ""
    word_start: int = 0

    @property
    def text(self) -> str:
        """Text of the parameter in the statement."""
        return "?" if self.name is None else f":{self.name}"


def parameters_in(sql: str, tokens: Sequence[Token]) -> Iterator[Parameter]:
    """Yield the parameters of a text, in order. `tokens` are its tokens."""
    lists: list[bool] = []  # for each open parenthesis, whether it belongs to IN
    n_types = 0  # open `<` of types, where a colon follows the name of a field
    for i, token in enumerate(tokens):
        kind = token.token_type
        before = tokens[i - 1] if i else None
        if kind == TokenType.L_PAREN:
            lists.append(before is not None and before.token_type == TokenType.IN)
        elif kind == TokenType.R_PAREN and lists:
            lists.pop()
        elif kind == TokenType.LT and before is not None:
            n_types += n_types > 0 or before.text.upper() in ("STRUCT", "ROW")
        elif n_types and set(token.text) == {">"}:
            n_types = max(0, n_types - len(token.text))
        if kind != TokenType.PLACEHOLDER and (kind != TokenType.COLON or n_types):
            continue
        is_in_list = bool(lists) and lists[-1]
        word = before.text.upper() if before is not None else ""
        type_word = word if word in _TYPE_WORDS else ""
        context = (is_in_list, type_word, before.start if before is not None else 0)
        if kind == TokenType.PLACEHOLDER:
            yield Parameter(None, token.start, token.end + 1, *context)
            continue
        name = _NAME.match(sql, token.start + 1)
        touches = before is not None and before.end + 1 == token.start
        # `v:field` and `a[1]:b` extract a part of a value.
        last = sql[token.start - 1] if touches else ""
        if name is not None and not last.isalnum() and last not in _ENDS_OF_OPERANDS:
            yield Parameter(name.group(), token.start, name.end(), *context)


def copy_token(token: Token, shift: int) -> Token:
    """Return a copy of a token, moved by `shift` characters."""
    place = (token.line, token.col, token.start + shift, token.end + shift)
    return Token(token.token_type, token.text, *place, list(token.comments))
