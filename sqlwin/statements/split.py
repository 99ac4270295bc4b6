"""Split the text of a script into statements."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from runtime.errors import SqlSyntaxError
from sqlwin.parser.base import STRINGS, is_word
from sqlwin.parser.hints import after_hints
from sqlwin.parser.parser import tokenize

# `END IF`, `END WHILE` and the like do not close a BEGIN
_ENDS_OF_OTHERS = ("IF", "WHILE", "REPEAT", "LOOP", "FOR")


@dataclass(frozen=True)
class StatementText:
    """One statement of a script, without semicolon and surrounding comments, but with hints.

    Attributes:
        text: Text of the statement.
        offset: Start offset in the script.
        line: Line on which it starts, from 1.
    """

    text: str
    offset: int
    line: int


def split_script(script: str) -> list[StatementText]:
    r"""Split a script into its statements, which end with semicolons.

    Semicolons in strings, quoted names, comments, statement sets and Spark's BEGIN ... END blocks
    do not count. Empty statements are dropped. QUIT or EXIT ends the script, as in Flink's client
    and others.

    Raises:
        SqlSyntaxError: A string, a quoted name or a comment is not closed.

    Example:
        >>> [part.text for part in split_script("SELECT 1; -- one;\nSELECT ';'")]
        ['SELECT 1', "SELECT ';'"]
    """
    tokens = tokenize(script)
    parts = []
    first = 0
    while first < len(tokens):
        end = _end_of_statement(tokens, first)
        if end == first + 1 and (is_word(tokens, first, "QUIT") or is_word(tokens, first, "EXIT")):
            break
        if end > first:
            start, stop = tokens[first].start, after_hints(script, tokens[end - 1].end + 1)
            line = script.count("\n", 0, start) + 1
            parts.append(StatementText(script[start:stop], start, line))
        first = end + 1
    return parts


def words(text: str) -> set[str]:
    """Return the lower-case names and keywords of a statement; empty if it cannot be tokenized.

    Example:
        >>> sorted(words("SELECT `A b`, c FROM t -- d"))
        [',', 'a b', 'c', 'from', 'select', 't']
    """
    try:
        tokens = tokenize(text)
    except SqlSyntaxError:
        return set()
    return {token.text.lower() for token in tokens if token.token_type not in STRINGS}


def statement_set_body(tokens: list[Token], first: int) -> int | None:
    """Return the token number of a statement set's first statement, or None."""
    if is_word(tokens, first, "BEGIN", "STATEMENT", "SET"):
        body = first + 3
        is_separated = body < len(tokens) and tokens[body].token_type == TokenType.SEMICOLON
        return body + 1 if is_separated else body
    if is_word(tokens, first, "EXECUTE"):
        first += 1
    return first + 3 if is_word(tokens, first, "STATEMENT", "SET", "BEGIN") else None


def _end_of_statement(tokens: list[Token], first: int) -> int:
    """Return the token number of the semicolon that ends the statement at `first`, or the end."""
    end = first
    if is_word(tokens, first, "EXPLAIN"):
        # EXPLAIN [details] STATEMENT SET BEGIN ... END
        while end < len(tokens) and tokens[end].token_type != TokenType.SEMICOLON:
            if statement_set_body(tokens, end) is not None:
                break
            end += 1
        else:
            return end
    body = statement_set_body(tokens, end)
    if body is not None:
        return _semicolon(tokens, _end_of_set(tokens, body))
    if is_word(tokens, first, "BEGIN"):
        return _semicolon(tokens, _end_of_block(tokens, first))
    return _semicolon(tokens, first)


def _semicolon(tokens: list[Token], i: int) -> int:
    while i < len(tokens) and tokens[i].token_type != TokenType.SEMICOLON:
        i += 1
    return i


def _end_of_set(tokens: list[Token], body: int) -> int:
    """Return the token number of a statement set's END, the one that starts a statement."""
    i = body
    while i < len(tokens) and not is_word(tokens, i, "END"):
        i = _semicolon(tokens, i) + 1
    return min(i, len(tokens))


def _end_of_block(tokens: list[Token], first: int) -> int:
    depth = 0
    for i in range(first, len(tokens)):
        if is_word(tokens, i, "END"):
            if not any(is_word(tokens, i + 1, other) for other in _ENDS_OF_OTHERS):
                depth -= 1
                if depth == 0:
                    return i
        elif is_word(tokens, i, "BEGIN") or (
            is_word(tokens, i, "CASE") and not is_word(tokens, i - 1, "END")
        ):
            depth += 1
    return len(tokens)
