"""What kind of statement tokens make, by a few words in them."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot.tokenizer_core import Token, TokenType

from sqlwin.parser.base import STRINGS

_QUOTED = (*STRINGS, TokenType.IDENTIFIER)


def is_word(tokens: list[Token], i: int, *texts: str) -> bool:
    """Whether the tokens from `i` are these words, unquoted, in any case."""
    return i + len(texts) <= len(tokens) and all(
        token.token_type not in _QUOTED and token.text.upper() == text
        for token, text in zip(tokens[i:], texts, strict=False)
    )


def statement_set_body(tokens: list[Token], first: int) -> int | None:
    """Where the first statement of a statement set stands; None if it is none."""
    if is_word(tokens, first, "BEGIN", "STATEMENT", "SET"):
        body = first + 3
        is_separated = body < len(tokens) and tokens[body].token_type == TokenType.SEMICOLON
        return body + 1 if is_separated else body
    if is_word(tokens, first, "EXECUTE"):
        first += 1
    return first + 3 if is_word(tokens, first, "STATEMENT", "SET", "BEGIN") else None


def is_flink_table(tokens: list[Token], first: int) -> bool:
    """Whether CREATE TABLE has what only Flink's has: WITH (...), WATERMARK, LIKE with options."""
    for i, depth in _before_query(tokens, first):
        if depth == 0 and is_word(tokens, i, "USING"):
            return False
        if depth == 0 and is_word(tokens, i, "WITH"):
            return True
        if depth == 1 and (
            is_word(tokens, i, "WATERMARK", "FOR")
            or is_word(tokens, i, "EXCLUDING")
            or is_word(tokens, i, "INCLUDING")
            or is_word(tokens, i, "OVERWRITING")
        ):
            return True
    return False


def has_clause(tokens: list[Token], *clauses: str) -> bool:
    """Whether one of these words stands before the query, outside parentheses."""
    return any(
        depth == 0 and any(is_word(tokens, i, clause) for clause in clauses)
        for i, depth in _before_query(tokens, 0)
    )


def _before_query(tokens: list[Token], first: int) -> Iterator[tuple[int, int]]:
    """The tokens from `first` to AS, each with how many parentheses are open."""
    depth = 0
    for i in range(first, len(tokens)):
        depth += tokens[i].token_type == TokenType.L_PAREN
        depth -= tokens[i].token_type == TokenType.R_PAREN
        if depth == 0 and is_word(tokens, i, "AS"):
            return
        yield i, depth
