"""Extension of source spans to adjacent words, by token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.nodes import TextSpan
from planner.sql.render import SparkSql


@dataclass(frozen=True)
class Lead:
    """Words that precede a span and belong to it.

    Attributes:
        words: The words in upper case, in any order and number.
        passed: Words allowed in between, besides opening parentheses.
        is_alone: Whether the span is the words alone, without the text that follows them.
    """

    words: frozenset[str]
    passed: frozenset[str] = frozenset()
    is_alone: bool = False


def lead(words: str, passed: str = "", *, is_alone: bool = False) -> Lead:
    """Build a `Lead` from blank-separated words."""
    return Lead(frozenset(words.split()), frozenset(passed.split()), is_alone)


class _Text(SparkSql):
    class Tokenizer(SparkSql.Tokenizer):
        """Tokenizer that never reads a whole statement as one token."""

        COMMANDS: ClassVar[set[TokenType]] = set()


def with_lead(sql: str, span: TextSpan, before: Lead | None) -> TextSpan:
    """Extend a span to the preceding words of `before`, and to the parentheses that close it.

    Args:
        sql: The text.
        span: A range of the text.
        before: The words. If they do not precede the span, its start is unchanged.
    """
    try:
        tokens: list[Token] = _Text().tokenizer().tokenize(sql)
    except TokenError:
        return span
    start = None if before is None else _words_before(tokens, span.start, before)
    if before is not None and start is not None:
        span = start if before.is_alone else TextSpan(start.start, span.end)
    return TextSpan(span.start, _end_with_parentheses(tokens, span))


def _words_before(tokens: list[Token], start: int, before: Lead) -> TextSpan | None:
    word_tokens: list[Token] = []
    for token in reversed([token for token in tokens if token.end < start]):
        words = frozenset(token.text.upper().split())
        is_passed = token.token_type == TokenType.L_PAREN or words <= before.passed
        if words and words <= before.words:
            word_tokens.append(token)
        elif word_tokens or not is_passed:
            break
    return TextSpan(word_tokens[-1].start, word_tokens[0].end) if word_tokens else None


def _end_with_parentheses(tokens: list[Token], span: TextSpan) -> int:
    """Return the end of a span, including the closing parentheses of those opened in it."""
    end, n_open = span.end, 0
    for token in tokens:
        if token.start < span.start:
            continue
        is_inside = token.end <= span.end
        if token.token_type == TokenType.L_PAREN and is_inside:
            n_open += 1
        elif token.token_type == TokenType.R_PAREN and (is_inside or n_open > 0):
            n_open -= 1
            end = max(end, token.end)
        elif not is_inside:
            break
    return end
