"""Misspelt keywords, found without Spark.

A statement that sqlwin cannot read goes to Spark, which supports clauses of its own. Starting Spark
takes seconds, and its message names the word where its grammar failed, often one after the
mistake: in `SELECT k FORM t WHERE v > 1` the word `t`. So a word that resembles a keyword, or two,
are replaced. They are misspelt if sqlwin can read the statement after the replacement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from itertools import chain, combinations, islice

from sqlglot.tokenizer_core import Token, TokenType

from runtime.errors import Position, SqlSyntaxError, nearest
from sqlwin.parser.base import STRINGS
from sqlwin.parser.parser import SqlWinQueries
from sqlwin.statements.spark_keywords import SPARK_KEYWORDS

# First words of statements that only Spark, Delta or Iceberg parses
SPARKS_WORDS = frozenset(
    """
    ADD ALTER ANALYZE BEGIN CACHE CALL CLEAR CLONE COMMENT CONVERT COPY CREATE DECLARE DELETE DESC
    DESCRIBE DFS DROP EXECUTE EXPLAIN FSCK GENERATE GRANT IMPORT INSERT LIST LOAD LOCK MAP MERGE
    MSCK OPTIMIZE REDUCE REFRESH REORG REPAIR REPLACE RESET RESTORE REVOKE SELECT SET SHOW START
    TABLE TRUNCATE UNCACHE UNDROP UNLOCK UPDATE USE VACUUM VALUES WITH
    """.split()
)
# First words of sqlwin's own statements
_OWN_WORDS = frozenset({"ADVISE", "FROM", "STOP", "SUMMARIZE"})
# Keywords within a statement. Words typed without the blank between them are corrected, too.
_KEYWORDS = {
    keyword.replace(" ", ""): keyword
    for keyword in (
        *("ALL", "AND", "AS", "BETWEEN", "CASE", "CROSS JOIN", "CUBE", "DAY", "DESC", "DESCRIPTOR"),
        *("DISTINCT", "ELSE", "END", "EXCEPT", "EXISTS", "FILL", "FILTER", "FROM", "FULL", "GROUP"),
        *("GROUP BY", "GROUPING SETS", "HAVING", "HOUR", "INNER", "INTERSECT", "INTERVAL", "INTO"),
        *("JOIN", "LATERAL", "LEFT", "LEFT JOIN", "LIKE", "LIMIT", "MATERIALIZED", "MINUTE"),
        *("MONTH", "NOT", "NULL", "NULLS FIRST", "NULLS LAST", "OFFSET", "ON", "ORDER", "ORDER BY"),
        *("OVER", "PARTITION", "PARTITION BY", "PRIMARY KEY", "QUALIFY", "RIGHT", "ROLLUP"),
        *("SECOND", "SELECT", "TABLE", "TABLES", "TEMPORARY", "THEN", "UNION", "UNION ALL"),
        *("USING", "VALUES", "VIEW", "VIEWS", "WATERMARK", "WHEN", "WHERE", "WINDOW", "WITH"),
    )
}
# Limit of the tokens in all attempts, which take about 0.1 s
_MAX_TOKENS = 10_000
_FEWEST_LETTERS = 3
# Words that are keywords already
_RESERVED = frozenset(
    word
    for keyword in (*SqlWinQueries.Tokenizer.KEYWORDS, *_KEYWORDS.values(), *SPARK_KEYWORDS)
    for word in keyword.upper().split()
)


def refuse_misspelt_statement(text: str, tokens: Sequence[Token]) -> None:
    """Reject a first word with which no statement begins, but one with a similar word does.

    Raises:
        SqlSyntaxError: With the similar word as a hint.
    """
    word = tokens[0].text.upper()
    if not word.isalpha() or word in SPARKS_WORDS | _OWN_WORDS or _is_quoted(tokens[0]):
        return
    close = nearest(word, SPARKS_WORDS)
    if close is not None:
        raise _error(text, tokens[0], close)


def misspelt_keyword(
    text: str, tokens: Sequence[Token], can_read: Callable[[str], bool]
) -> SqlSyntaxError | None:
    """Return the error for the first misspelt keyword of a statement, or None.

    Args:
        text: Statement that sqlwin cannot read.
        tokens: Its tokens.
        can_read: Whether sqlwin can read a text.
    """
    replaced = [
        (token, _KEYWORDS[close])
        for token in tokens[1:]
        if _may_be_misspelt(token)
        for close in get_close_matches(token.text.upper(), _KEYWORDS, n=3, cutoff=0.6)
    ]
    attempts = chain(combinations(replaced, 1), combinations(replaced, 2))
    for chosen in islice(attempts, _MAX_TOKENS // len(tokens)):
        if can_read(_replace(text, chosen)):
            return _error(text, *chosen[0])
    return None


def _replace(text: str, chosen: Sequence[tuple[Token, str]]) -> str:
    """Replace tokens, which are in the order of the text, by keywords."""
    for token, keyword in reversed(chosen):
        text = f"{text[: token.start]}{keyword}{text[token.end + 1 :]}"
    return text


def _may_be_misspelt(token: Token) -> bool:
    word = token.text.upper()
    is_name = len(word) < _FEWEST_LETTERS or word in _RESERVED or _is_quoted(token)
    return word.isalpha() and not is_name


def _is_quoted(token: Token) -> bool:
    return token.token_type in (*STRINGS, TokenType.IDENTIFIER)


def _error(text: str, token: Token, keyword: str) -> SqlSyntaxError:
    length = token.end - token.start + 1
    return SqlSyntaxError(
        f"unexpected `{token.text}`",
        position=Position.at(text, token.start, length),
        sql=text,
        hint=f"did you mean {keyword}?",
    )
