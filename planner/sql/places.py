"""Words of a statement's text around a place that is known: by its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.nodes import TextSpan
from planner.sql.render import SparkSql


@dataclass(frozen=True)
class Lead:
    """Words that stand before others and belong to them.

    Attributes:
        words: the words, in upper case, in any order and number.
        passed: words, and always parentheses that open, that may stand in between.
        is_alone: whether only the words are meant, without what they stand before.
    """

    words: frozenset[str]
    passed: frozenset[str] = frozenset()
    is_alone: bool = False


def lead(words: str, passed: str = "", *, is_alone: bool = False) -> Lead:
    """A `Lead` of words with blanks between them."""
    return Lead(frozenset(words.split()), frozenset(passed.split()), is_alone)


class _Text(SparkSql):
    class Tokenizer(SparkSql.Tokenizer):
        """No statement is one token."""

        COMMANDS: ClassVar[set[TokenType]] = set()


def with_lead(sql: str, span: TextSpan, before: Lead | None) -> TextSpan:
    """A span with the words of `before` at its left, and the parentheses that close what it opens.

    Args:
        sql: the text.
        span: a place in it.
        before: the words; without them at the left the span keeps its begin.
    """
    try:
        tokens: list[Token] = _Text().tokenizer().tokenize(sql)
    except TokenError:
        return span
    found = None if before is None else _words_before(tokens, span.start, before)
    if before is not None and found is not None:
        span = found if before.is_alone else TextSpan(found.start, span.end)
    return TextSpan(span.start, _closed(tokens, span))


def _words_before(tokens: list[Token], start: int, before: Lead) -> TextSpan | None:
    taken: list[Token] = []
    for token in reversed([token for token in tokens if token.end < start]):
        words = frozenset(token.text.upper().split())
        is_passed = token.token_type == TokenType.L_PAREN or words <= before.passed
        if words and words <= before.words:
            taken.append(token)
        elif taken or not is_passed:
            break
    return TextSpan(taken[-1].start, taken[0].end) if taken else None


def _closed(tokens: list[Token], span: TextSpan) -> int:
    """The end of a span, with the parentheses that are opened in it and closed behind it."""
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
