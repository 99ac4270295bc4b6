"""Checks of double quotes in statements that Spark runs unchanged: UPDATE, DELETE, MERGE, CTAS.

Queries are checked by the binder, see `planner.sql.double_quotes`. These statements are only
tokens, so the check uses the columns of all their tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.build import relation, select_all_from
from planner.sql.double_quotes import double_quotes_error
from runtime.errors import AnalysisError, Position
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.parser.base import STRINGS, is_word
from sqlwin.statements.nodes import Statement

_CHECKED = ("DELETE", "FROM", "INSERT", "MERGE", "SELECT", "UPDATE", "WITH")
_BEFORE_TABLES = ("FROM", "INTO", "JOIN", "TABLE", "UPDATE", "USING")


def check_double_quotes(statement: Statement, catalog: SessionCatalog) -> None:
    """Refuse text in double quotes that equals a column of a table in the statement.

    Args:
        statement: Statement for Spark.
        catalog: Session catalog. Spark must see the session tables that the statement names.

    Raises:
        AnalysisError: A text equals a column. The error has its position and both ways to write it.
    """
    text, tokens = statement.text, statement.tokens
    if '"' not in text:
        return
    texts = [
        token
        for token in tokens[_first_checked(tokens) :]
        if token.token_type in STRINGS and text[token.start] == '"'
    ]
    if not texts:
        return
    columns: dict[str, str] = {}
    for name in dict.fromkeys(_tables(tokens)):
        with suppress(AnalysisError):  # no such table: Spark reports it
            query = select_all_from(relation(*name))
            columns |= {c.name.lower(): c.name for c in catalog.analyze(query, {})}
    for token in texts:
        column = columns.get(token.text.lower())
        if column is not None:
            error = double_quotes_error(exp.Literal.string(token.text), column, "")
            error.position = Position.at(text, token.start, token.end - token.start + 1)
            error.sql = text
            raise error


def _first_checked(tokens: Sequence[Token]) -> int:
    """Return the index of the first token at which double quotes may be meant as column names.

    Table options, which precede the query of CREATE TABLE, are strings.
    """
    if any(is_word(tokens, 0, word) for word in _CHECKED):
        return 0
    starts = (i for i in range(len(tokens)) if is_word(tokens, i, "AS"))
    queries = (i for i in starts if any(is_word(tokens, i + 1, w) for w in ("SELECT", "WITH")))
    return next(queries, len(tokens)) if is_word(tokens, 0, "CREATE") else len(tokens)


def _tables(tokens: Sequence[Token]) -> Iterator[tuple[str, ...]]:
    """Yield the names in table positions. Some of them may be other names."""
    for i, token in enumerate(tokens[:-1]):
        if token.text.upper() not in _BEFORE_TABLES or token.token_type in STRINGS:
            continue
        name = [tokens[i + 1].text]
        i += 2
        while i + 1 < len(tokens) and tokens[i].token_type == TokenType.DOT:
            name.append(tokens[i + 1].text)
            i += 2
        if len(name) <= 3:
            yield tuple(name)
