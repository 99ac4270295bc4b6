"""Flink's hints: options of a table for one query, and query hints that Spark lacks.

The tokenizer only recognises hints after SELECT. After a table name a hint is a comment to the
tokenizer, so it is read from the text between two tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from sqlglot import exp
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.nodes import LEFT_OUT_HINTS, TableOptions
from runtime.errors import AnalysisError, Position, SqlSyntaxError
from sqlwin.parser.base import STRINGS, TokenParser, read_options
from sqlwin.parser.state_ttl import read_state_ttl

# Hints of Spark's analyser. They include Flink's SHUFFLE_MERGE, SHUFFLE_HASH and BROADCAST.
SPARK_HINTS = frozenset(
    "BROADCAST BROADCASTJOIN MAPJOIN MERGE SHUFFLE_MERGE MERGEJOIN SHUFFLE_HASH "
    "SHUFFLE_REPLICATE_NL COALESCE REPARTITION REPARTITION_BY_RANGE REBALANCE".split()
)
# Hints about Flink's execution, without an equivalent in Spark
FLINK_HINTS = frozenset("LOOKUP MULTI_JOIN NEST_LOOP STATE_TTL".split())

_EXAMPLE = "write /*+ OPTIONS('key' = 'value', ...) */ after the table name"


def after_hints(sql: str, end: int) -> int:
    """Return the end of the hints that follow a token before `end`, or `end` without hints."""
    hints = [stop for start, stop in _comments(sql, end, len(sql)) if _is_hint(sql, start)]
    return hints[-1] if hints else end


def table_options(parser: TokenParser) -> TableOptions | None:
    """Read the `/*+ OPTIONS('key' = 'value') */` directly after the last token, if any.

    Raises:
        AnalysisError: There is another kind of hint.
    """
    options: TableOptions | None = None
    for start, stop in _gap(parser.sql, parser._prev, parser._curr):
        if not _is_hint(parser.sql, start):
            continue
        if options is not None:
            _fail(
                parser.sql,
                start,
                stop,
                "a table can have only one hint",
                "put all options into one hint",
            )
        options = TableOptions(_pairs(parser, start, stop), start, stop - 1)
        parser.hints_read.add(start)
    return options


def read_hints(tree: exp.Expr, parser: TokenParser, tokens: Sequence[Token]) -> None:
    """Remove hints that Spark cannot read, and record their names in `meta` of their SELECT.

    Modifies the query in place. The parser must have read it from all of these tokens.

    Raises:
        AnalysisError: A hint is in an unsupported position.
    """
    for select in tree.find_all(exp.Select):
        hint = select.args.get("hint")
        if hint is None:
            continue
        read_state_ttl(select, hint, parser)
        left_out = [item for item in hint.expressions if item.name.upper() not in SPARK_HINTS]
        if left_out:
            spark_hints = [item for item in hint.expressions if item not in left_out]
            select.meta[LEFT_OUT_HINTS] = tuple(item.name.upper() for item in left_out)
            select.set("hint", exp.Hint(expressions=spark_hints) if spark_hints else None)
    for before, after in zip(tokens, [*tokens[1:], None], strict=True):
        if before.token_type == TokenType.HINT:
            _refuse_options(parser, before)
        for start, stop in _gap(parser.sql, before, after):
            if _is_hint(parser.sql, start) and start not in parser.hints_read:
                _fail(
                    parser.sql,
                    start,
                    stop,
                    "a hint must follow SELECT or a table name",
                    f"{_EXAMPLE}, before its alias",
                )


def _refuse_options(parser: TokenParser, hint: Token) -> None:
    """Reject OPTIONS in a hint after SELECT, where it has no table to apply to."""
    for token in _tokens(parser, hint.start + len("/*+"), hint.end + 1 - len("*/")):
        if _is_options(token):
            _fail(
                parser.sql, token.start, token.end + 1, "OPTIONS must follow a table name", _EXAMPLE
            )


def _is_options(token: Token) -> bool:
    return token.token_type not in STRINGS and token.text.upper() == "OPTIONS"


def _pairs(parser: TokenParser, start: int, stop: int) -> tuple[tuple[str, str], ...]:
    """Read the options of a hint between `start` and `stop`."""
    sql = parser.sql
    tokens = _tokens(parser, start + len("/*+"), stop - len("*/"))
    if not tokens or not _is_options(tokens[0]):
        name = tokens[0].text.upper() if tokens else "an empty hint"
        place = (tokens[0].start, tokens[0].end + 1) if tokens else (start, stop)
        _fail(sql, *place, f"{name} is not a table hint: only OPTIONS is supported", _EXAMPLE)
    try:
        pairs: tuple[tuple[str, str], ...] = parser.dialect.parser().run(
            read_options, tokens[1:], sql[: stop - len("*/")]
        )
    except SqlSyntaxError as error:
        raise AnalysisError(
            error.message, position=error.position, sql=sql, hint=error.hint or _EXAMPLE
        ) from error
    return pairs


def _tokens(parser: TokenParser, start: int, stop: int) -> list[Token]:
    """Tokenize a part of the text, with positions in the whole text."""
    sql = parser.sql
    # Leading blanks preserve the positions.
    blanks = "".join(c if c == "\n" else " " for c in sql[:start])
    try:
        tokens: list[Token] = parser.dialect.tokenize(blanks + sql[start:stop])
    except TokenError:
        _fail(sql, start, stop, "unterminated string in this hint", _EXAMPLE)
    return tokens


def _gap(sql: str, before: Token, after: Token | None) -> Iterator[tuple[int, int]]:
    """Yield the comments between two tokens. Without a second token, search up to the end."""
    stop = after.start if after else len(sql)
    # Most gaps contain just a blank.
    if stop - before.end <= len("/**/"):
        return iter(())
    return _comments(sql, before.end + 1, stop)


def _comments(sql: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of consecutive comments from `start` on.

    Raises:
        SqlSyntaxError: A comment is not closed.
    """
    while start < stop:
        if sql[start].isspace():
            start += 1
            continue
        if sql.startswith("--", start):
            newline = sql.find("\n", start)
            end = stop if newline < 0 else newline
        elif sql.startswith("/*", start):
            end = _comment_end(sql, start)
        else:
            return
        yield start, end
        start = end


def skip_comments(sql: str, start: int) -> int:
    """Return the offset after the blanks and comments from `start` on.

    Raises:
        SqlSyntaxError: A comment is not closed.
    """
    for _, end in _comments(sql, start, len(sql)):
        start = end
    return len(sql) - len(sql[start:].lstrip())


def _comment_end(sql: str, start: int) -> int:
    """Return the end of the comment whose `/*` is at `start`. Comments nest.

    Raises:
        SqlSyntaxError: The comment is not closed.
    """
    depth, i = 1, start + 2
    while depth:
        if i >= len(sql):
            raise SqlSyntaxError(
                "unterminated comment",
                position=Position.at(sql, start, 2),
                sql=sql,
                hint="comments nest: each /* needs a */",
            )
        if sql.startswith(("/*", "*/"), i):
            depth += 1 if sql[i] == "/" else -1
            i += 2
        else:
            i += 1
    return i


def _is_hint(sql: str, start: int) -> bool:
    return sql.startswith("/*+", start)


def _fail(sql: str, start: int, stop: int, message: str, hint: str) -> NoReturn:
    place = Position.at(sql, start, stop - start)
    raise AnalysisError(message, position=place, sql=sql, hint=hint)
