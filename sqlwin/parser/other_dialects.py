"""Window syntax of other systems: accepted if equivalent, otherwise rejected with a hint."""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.nodes import BEHIND, Leniency
from sqlwin.parser.base import TokenParser, UnknownToSparkError

# ksqlDB's windows by the word after WINDOW, and sqlwin's equivalents
_KSQL_WINDOWS_HERE = {
    "TUMBLING": "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)",
    "HOPPING": "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '1' HOUR)",
    "SESSION": "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' MINUTE)",
}
_KSQL_WINDOWS = [[word, "("] for word in _KSQL_WINDOWS_HERE]

# EMIT clauses of RisingWave and Timeplus that request the default behaviour
_EMITS_WHEN_CLOSED = ("ON WINDOW CLOSE", "AFTER WATERMARK", "AFTER WINDOW CLOSE")


def is_emit(parser: TokenParser) -> bool:
    """Return whether an EMIT clause starts at the current token, rather than an alias EMIT."""
    following = parser._next.text.upper() if parser._next else ""
    return (
        parser._curr.token_type == TokenType.VAR
        and parser._curr.text.upper() == "EMIT"
        and following in ("ON", "AFTER", "CHANGES", "FINAL", "PERIODIC")
    )


def read_emit(parser: TokenParser, query: exp.Expr) -> None:
    """Read `EMIT ON WINDOW CLOSE` after a query. This is the default behaviour."""
    first = parser._curr
    if not is_emit(parser):
        return
    parser._advance()
    for words in _EMITS_WHEN_CLOSED:
        if parser._match_text_seq(*words.split()):
            last = parser._prev
            query.meta[BEHIND] = Leniency(
                "EMIT is not supported", first.start, last.end, "remove it"
            )
            return
    _refuse(
        parser,
        "EMIT supports only ON WINDOW CLOSE, which is the default",
        first,
        first,
        "for earlier results, SET 'table.exec.emit.early-fire.enabled' = 'true' and "
        "'table.exec.emit.early-fire.delay' = '5 s'",
    )


_SIDES = ("LEFT", "RIGHT", "FULL", "INNER", "OUTER")


def refuse_other_dialects(parser: TokenParser, tokens: list[Token]) -> None:
    """Reject syntax of other systems that sqlwin spells differently.

    Raises:
        SqlSyntaxError: There is such syntax. The hint shows sqlwin's spelling.
    """
    words = [token.text.upper() for token in tokens]
    for i, token in enumerate(tokens):
        if token.token_type == TokenType.WINDOW and words[i + 1 : i + 3] in _KSQL_WINDOWS:
            _refuse(
                parser,
                f"WINDOW {words[i + 1]} is ksqlDB syntax: sqlwin has window functions in FROM",
                token,
                tokens[i + 1],
                f"use FROM {_KSQL_WINDOWS_HERE[words[i + 1]]} and GROUP BY window_start, "
                "window_end",
            )
        if words[i : i + 2] == ["TIMESTAMP", "BY"] and i and tokens[i - 1].text != ",":
            _refuse(
                parser,
                "TIMESTAMP BY is Azure Stream Analytics syntax: the window function names "
                "the time column",
                token,
                tokens[i + 1],
                "use FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE); declare how late "
                "rows may arrive with WATERMARK FOR ts in CREATE TABLE",
            )
        if words[i : i + 2] == ["MATCH_RECOGNIZE", "("]:
            _refuse(
                parser,
                "MATCH_RECOGNIZE is not supported",
                token,
                token,
                "use LAG and LEAD to compare neighbouring rows, or Session.windows in Python, "
                "which passes all rows of a window to your function",
            )
        is_alias = _is_quoted(token) or words[i - 1 : i] == ["AS"]
        before = words[i - 1] if i else ""
        if words[i : i + 2] == ["ASOF", "JOIN"] and before in _SIDES and not is_alias:
            _refuse(
                parser,
                f"{before} ASOF JOIN is not supported",
                tokens[i - 1],
                tokens[i + 1],
                f"use ASOF {before} JOIN"
                if before in ("LEFT", "INNER")
                else "use ASOF LEFT JOIN, with the rows to keep on the left side",
            )
        following = words[i + 1 : i + 3]
        if token.token_type == TokenType.SELECT and following[:1] == ["STREAM"]:
            after = words[i + 3 : i + 4]
            if after == ["("] or [following[-1], *after] == ["*", "FROM"]:
                _refuse(
                    parser,
                    "SELECT STREAM is Calcite syntax: in sqlwin, a setting selects streaming mode",
                    tokens[i + 1],
                    tokens[i + 1],
                    "remove STREAM; SET 'execution.runtime-mode' = 'streaming'",
                )
        if words[i : i + 3] == ["SESSION", "WITH", "GAP"]:
            _refuse(
                parser,
                "SESSION WITH GAP is RisingWave syntax: in sqlwin, sessions are windows, "
                "not frames of OVER",
                token,
                tokens[i + 2],
                "use FROM SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' MINUTE) "
                "and aggregate by window_start, window_end",
            )


def _is_quoted(token: Token) -> bool:
    return token.token_type in (TokenType.IDENTIFIER, TokenType.STRING)


def _refuse(parser: TokenParser, message: str, first: Token, last: Token, hint: str) -> NoReturn:
    parser.fail(message, first, last, hint, UnknownToSparkError)
