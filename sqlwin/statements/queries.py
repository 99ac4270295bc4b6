"""Parse names, queries and INSERT."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from planner.sql.nodes import path_of_files
from sqlwin.parser.base import STRINGS, UnknownToSparkError, read_options
from sqlwin.parser.hints import after_hints, table_options
from sqlwin.parser.parser import SqlWinParser, read_query, to_spark

_LITERALS = (*STRINGS, TokenType.NUMBER)
_QUERY_STARTS = (TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.L_PAREN)


class SparkSyntaxOnly(Exception):
    """Statement in a form that only Spark supports."""


def read_name(parser: SqlWinParser, what: str) -> tuple[str, ...]:
    """Read a name in parts. `what` describes it in errors."""
    parts = [read_identifier(parser, what)]
    while parser._match(TokenType.DOT):
        parts.append(read_identifier(parser, what))
    return tuple(parts)


def read_ast(parser: SqlWinParser) -> exp.Query:
    """Read a query, including VALUES."""
    first = parser._curr
    tree = read_query(parser)
    if isinstance(tree, exp.Values):
        return exp.Select(expressions=[exp.Star()], from_=exp.From(this=tree))
    while isinstance(tree, exp.Subquery) and tree.is_wrapper:
        tree = tree.this
    if not isinstance(tree, exp.Query):
        parser.fail("expected a query", first, parser._prev)
    return tree


def read_query_and_text(parser: SqlWinParser) -> dict[str, Any]:
    """Read a query and its text, including trailing hints, as a dict of a statement's fields."""
    start = parser._curr.start
    tree = read_ast(parser)
    text = parser.sql[start : after_hints(parser.sql, parser._prev.end + 1)]
    return {"ast": tree, "query_text": text}


def read_advised(parser: SqlWinParser) -> dict[str, Any]:
    """Read ADVISE as a dict of its fields."""
    parser._advance()
    options: tuple[tuple[str, str], ...] = ()
    if parser.is_at(TokenType.WITH) and parser._next.token_type == TokenType.L_PAREN:
        parser._advance()
        options = read_options(parser)
    if not parser.is_at(*_QUERY_STARTS):
        parser.fail(
            "ADVISE requires a query",
            parser._curr,
            hint="for example ADVISE WITH ('arrival' = 'column') SELECT ...",
        )
    return {"ast": read_ast(parser), "options": options}


def read_rows(parser: SqlWinParser) -> exp.Query:
    """Read the rows to SUMMARIZE: a query, a table, or files by path."""
    parser._advance()
    parser._match(TokenType.TABLE)
    if parser.is_at(*_QUERY_STARTS):
        return read_ast(parser)
    table = parser._parse_table_parts() if parser._curr else None
    if not isinstance(table, exp.Table):
        parser.fail(
            "SUMMARIZE requires a table, a file path or a query",
            parser._curr,
            hint="for example SUMMARIZE t, SUMMARIZE 'data/*.csv' or SUMMARIZE SELECT ...",
        )
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=table))


def read_files(parser: SqlWinParser) -> exp.Table | None:
    """Read files by path or call, with options, or return None for anything else."""
    table = parser._parse_table_parts()
    is_files = isinstance(table, exp.Table) and path_of_files(table.name) is not None
    return table if is_files and not parser._curr else None


def read_identifier(parser: SqlWinParser, what: str) -> str:
    """Read a one-part name. `what` describes it in errors."""
    token = parser._curr
    is_literal = token.token_type in _LITERALS
    identifier = None if not token or is_literal else parser._parse_id_var()
    if not isinstance(identifier, exp.Identifier):
        parser.fail(f"expected the name of {what}", token)
    return str(identifier.name)


def read_insert(parser: SqlWinParser) -> dict[str, Any]:
    """Read INSERT as a dict of `Insert`'s fields."""
    start = parser._curr.start
    cte = parser._parse_with()
    ctes = parser.sql[start : parser._curr.start]
    fields: dict[str, Any] = {"columns": (), "partition": ""}
    parser._match(TokenType.INSERT)
    if parser._match(TokenType.OVERWRITE):
        fields["overwrite"] = True
    elif parser._match(TokenType.INTO):
        fields["overwrite"] = False
    else:
        parser.raise_error("Expecting INTO or OVERWRITE")
    if parser._curr.text.upper() in ("DIRECTORY", "LOCAL") and parser._next.token_type in (
        TokenType.STRING,
        TokenType.VAR,
    ):
        raise SparkSyntaxOnly
    if parser._curr.token_type == TokenType.TABLE:
        parser._advance()
    if parser.is_at(*STRINGS):
        parser.fail(
            "cannot insert into files by path",
            parser._curr,
            hint="create a table with CREATE TABLE ... WITH ('connector' = 'filesystem', 'path' = "
            "...)",
            error=UnknownToSparkError,
        )
    fields["name"] = read_name(parser, "the table")
    fields["options"] = table_options(parser)
    if parser._curr.token_type == TokenType.PARTITION:
        partition = parser._parse_partition()
        fields["partition"] = "" if partition is None else to_spark(partition)
        fields["static"] = tuple(
            (pair.this.name, to_spark(pair.expression))
            for pair in (partition.expressions if partition is not None else ())
            if isinstance(pair, exp.EQ)
        )
    if parser._curr.text.upper() in ("IF", "BY", "REPLACE"):
        raise SparkSyntaxOnly  # IF NOT EXISTS, BY NAME, REPLACE WHERE
    starts_query = parser._next.token_type in (*_QUERY_STARTS, TokenType.VALUES, TokenType.TABLE)
    if parser.is_at(TokenType.L_PAREN) and not starts_query:
        parser._advance()
        columns = parser._parse_csv(parser._parse_id_var)
        parser._match_r_paren()
        fields["columns"] = tuple(column.name for column in columns)
        if parser._curr.text.upper() == "BY":
            raise SparkSyntaxOnly
    query = read_query_and_text(parser)
    ast, text = query["ast"], query["query_text"]
    if cte is not None:
        text = f"{ctes}SELECT * FROM (\n{text}\n)"
        inner = ast.args.get("with_")
        if isinstance(inner, exp.With):
            cte.set("expressions", cte.expressions + inner.expressions)
        ast.set("with_", cte)
    fields["ast"], fields["query_text"] = ast, text
    return fields
