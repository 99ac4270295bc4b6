"""Parse CREATE TABLE ... WITH and CREATE VIEW."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.double_quotes import double_quotes_error, is_in_double_quotes
from planner.sql.flink_functions import rewrite_functions
from planner.sql.flink_queries import rewrite_clauses
from planner.sql.wall_clocks import keep_wall_clocks
from runtime.spec.table import TableColumn, Watermark
from sqlwin.parser.base import PLACE, read_options, read_string
from sqlwin.parser.parser import SqlWinParser, to_spark
from sqlwin.parser.types import column_type
from sqlwin.statements.column_checks import (
    fault_in_names,
    has_no_physical_columns,
    inferred_type,
)
from sqlwin.statements.queries import read_ast, read_identifier, read_name, read_query_and_text

_LIKE_FEATURES = frozenset(
    "CONSTRAINTS DISTRIBUTION GENERATED METADATA OPTIONS PARTITIONS WATERMARKS".split()
)
LIKE_VERBS = ("INCLUDING", "EXCLUDING", "OVERWRITING")
_OVERWRITABLE = frozenset({"GENERATED", "OPTIONS", "WATERMARKS"})

# Flink types without an equivalent in Spark, and the alternative
_NO_SUCH_TYPES = {
    "MULTISET": "use ARRAY for the values, or MAP<t, INT> for their counts",
    "RAW": "use BYTES",
    "SYMBOL": "use STRING",
}


def read_create_table(parser: SqlWinParser) -> dict[str, Any]:
    """Read CREATE TABLE as a dict of `CreateTable`'s fields.

    Raises:
        SqlSyntaxError: It cannot be parsed, or a clause names an unknown column. Has a position.
    """
    fields: dict[str, Any] = {}
    _read_head(parser, "TABLE", fields)
    elements = _Elements()
    if parser._curr.token_type == TokenType.L_PAREN:
        parser._parse_wrapped_csv(lambda: _read_element(parser, elements))
    readers = {
        "LIKE": lambda: _read_like(parser),
        "AS": lambda: {"as_query": read_ast(parser)},
    }
    fields |= read_clauses(
        parser, readers, "remove it: each query distributes the rows that it reads"
    )
    elements = _keep_wall_clocks(elements)
    fields["columns"], fields["watermark"] = tuple(elements.columns), elements.watermark
    fields["expressions"] = elements.expressions
    fields["primary_key"] = tuple(token.text for token in elements.primary_key)
    partitioned_by = fields.get("partitioned_by", ())
    if "like" not in fields:
        _check_names(parser, elements, partitioned_by, has_query="as_query" in fields)
    return {**fields, "partitioned_by": tuple(token.text for token in partitioned_by)}


def read_create_view(parser: SqlWinParser) -> dict[str, Any]:
    """Read CREATE VIEW as a dict of `CreateView`'s fields.

    Raises:
        SqlSyntaxError: It cannot be parsed. Has a position.
    """
    fields: dict[str, Any] = {}
    _read_head(parser, "VIEW", fields)
    has_columns = parser.is_at(TokenType.L_PAREN)
    columns = parser._parse_wrapped_csv(lambda: _read_view_column(parser)) if has_columns else []
    fields["columns"] = tuple(columns)
    fields["comment"] = _optional_comment(parser)
    if not parser._match(TokenType.ALIAS):
        parser.raise_error("Expecting AS")
    return fields | read_query_and_text(parser)


def _read_view_column(parser: SqlWinParser) -> str:
    name = read_identifier(parser, "a column")
    _optional_comment(parser)
    return name


def _read_head(parser: SqlWinParser, kind: str, fields: dict[str, Any]) -> None:
    parser._match_text_seq("CREATE")
    fields["or_replace"] = parser._match_text_seq("OR", "REPLACE")
    fields["temporary"] = parser._match_text_seq("TEMPORARY") or parser._match_text_seq("TEMP")
    if not parser._match_text_seq(kind):
        parser.raise_error(f"Expecting {kind}")
    fields["if_not_exists"] = parser._match_text_seq("IF", "NOT", "EXISTS")
    fields["name"] = read_name(parser, f"the {kind.lower()}")


# -- the list in parentheses ---------------------------------------------------------------


@dataclass
class _Elements:
    columns: list[TableColumn] = field(default_factory=list)
    primary_key: list[Token] = field(default_factory=list)
    watermark: Watermark | None = None
    watermark_token: Token | None = None
    double_quoted: list[exp.Expr] = field(default_factory=list)
    # trees of the computed columns and of the watermark, by their text in Spark SQL
    expressions: dict[str, exp.Expr] = field(default_factory=dict)

    def set_primary_key(self, parser: SqlWinParser, first: Token, columns: list[Token]) -> None:
        """Set the columns of a PRIMARY KEY that starts at a token, and read NOT ENFORCED."""
        if parser.is_at_words("ENFORCED"):
            parser.fail(
                "a PRIMARY KEY cannot be enforced",
                parser._curr,
                hint="use PRIMARY KEY (...) NOT ENFORCED",
            )
        parser._match_text_seq("NOT", "ENFORCED")
        if self.primary_key:
            parser.fail("a table can have only one PRIMARY KEY", first)
        self.primary_key = columns


def _read_element(parser: SqlWinParser, elements: _Elements) -> None:
    first = parser._curr
    if parser._match_text_seq("CONSTRAINT"):
        read_identifier(parser, "the constraint")
        if parser._curr.token_type != TokenType.PRIMARY_KEY:
            parser.raise_error("Expecting PRIMARY KEY")
    if parser._curr.token_type == TokenType.PRIMARY_KEY:
        parser._advance()
        columns = read_columns(parser, "PRIMARY KEY")
        elements.set_primary_key(parser, first, columns)
    elif first.text.upper() == "WATERMARK" and parser._next.text.upper() == "FOR":
        _read_watermark(parser, elements)
    elif first.text.upper() == "WATERMARK" and _is_named_watermark(parser):
        parser.fail(
            "a watermark cannot have a name",
            parser._next,
            hint="use WATERMARK FOR ts AS ts - INTERVAL '1' SECOND instead of Blink's WATERMARK "
            "name FOR ts AS withOffset(ts, 1000)",
        )
    else:
        column = _read_column(parser, elements)
        names = {c.name.lower() for c in elements.columns}
        if column.name.lower() in names:
            parser.fail(f"column `{column.name}` is declared twice", first)
        elements.columns.append(column)


def _is_named_watermark(parser: SqlWinParser) -> bool:
    """Return whether Blink's `WATERMARK name FOR` starts at the current token."""
    words = [token.text.upper() for token in parser._tokens[parser._index : parser._index + 3]]
    return words[2:] == ["FOR"]


def _read_watermark(parser: SqlWinParser, elements: _Elements) -> None:
    first = parser._curr
    parser._advance(2)
    column = parser._curr
    name = read_identifier(parser, "the time column")
    if parser._curr.token_type == TokenType.DOT:
        parser.fail(
            "WATERMARK FOR requires a column of the table, not a nested field",
            column,
            hint="declare a column for the field: ts AS a.b",
        )
    if not parser._match(TokenType.ALIAS):
        parser.raise_error("Expecting AS")
    start = parser._curr
    expression, text = _read_expression(parser, elements)
    if start.text.upper() == "WITHOFFSET":
        parser.fail(
            "withOffset is not supported",
            start,
            hint=f"for an offset of 1000, use WATERMARK FOR {name} AS {name} - INTERVAL '1' SECOND",
        )
    if elements.watermark is not None:
        parser.fail("a table can have only one WATERMARK", first, parser._prev)
    elements.watermark = Watermark(name, expression, text)
    elements.watermark_token = column


def _read_column(parser: SqlWinParser, elements: _Elements) -> TableColumn:
    name = read_identifier(parser, "a column")
    if parser._match(TokenType.ALIAS):
        expression, text = _read_expression(parser, elements)
        comment = _optional_comment(parser)
        return TableColumn(name, None, comment=comment, computed=expression, written=text)
    type_, written = _read_type(parser, name)
    column: dict[str, Any] = {"written": written}
    while parser._curr and parser._curr.token_type not in (TokenType.COMMA, TokenType.R_PAREN):
        clause = parser._curr
        if parser._match_text_seq("METADATA"):
            column["metadata"] = name
            if parser._match(TokenType.FROM):
                column["metadata"] = read_string(parser, "METADATA FROM requires a string")
            column["is_virtual"] = bool(parser._match_text_seq("VIRTUAL"))
        elif parser._match_text_seq("NOT", "NULL"):
            column["nullable"] = False
        elif parser._match_text_seq("NULL"):
            column["nullable"] = True
        elif parser._match(TokenType.COMMENT):
            column["comment"] = read_string(parser, "COMMENT requires a string")
        elif parser._match(TokenType.PRIMARY_KEY):
            elements.set_primary_key(parser, clause, [Token.identifier(name)])
        else:
            parser.raise_error("Expecting , or )")
    return TableColumn(name, type_, **column)


def _read_type(parser: SqlWinParser, column: str) -> tuple[str, str]:
    """Read a type and return it as Spark's DDL, and as declared."""
    first = parser._curr
    if not first or first.token_type in (TokenType.COMMA, TokenType.R_PAREN):
        parser.fail(
            f"column `{column}` has no type",
            first,
            hint=f"for example {column} STRING, or {column} AS expression",
        )
    kind = parser._parse_types(schema=True)
    if not isinstance(kind, exp.DataType):
        parser.fail(
            f"unknown type {first.text.upper()}",
            first,
            hint=_NO_SUCH_TYPES.get(
                first.text.upper(),
                "available types: STRING, BOOLEAN, INT, BIGINT, DOUBLE, DECIMAL(p, s), DATE, "
                "TIMESTAMP(3), TIMESTAMP_LTZ(3), BYTES, ARRAY<t>, MAP<k, v>, ROW<a t>",
            ),
        )
    return column_type(parser, kind, first)


def _read_expression(parser: SqlWinParser, elements: _Elements) -> tuple[str, str]:
    """Read an expression and return its text in Spark's SQL, and as written."""
    first = parser._curr
    node = parser._parse_disjunction()
    if node is None:
        parser.fail("expected an expression", first)
    written = parser.sql[first.start : parser._prev.end + 1]
    elements.double_quoted += filter(is_in_double_quotes, node.find_all(exp.Literal))
    root = exp.Paren(this=node)
    rewrite_clauses(root, parser.sql)
    # Keep PROCTIME() because it defines a processing time column.
    rewrite_functions(root, keep=frozenset({"PROCTIME"}))
    tree: exp.Expr = root.this.pop()
    text = to_spark(tree)
    elements.expressions[text] = tree
    return text, written


def _keep_wall_clocks(elements: _Elements) -> _Elements:
    """Return the elements with expressions rewritten so that times keep having no zone."""
    columns = {column.name.lower(): column for column in elements.columns}
    expressions: dict[str, exp.Expr] = {}

    def type_of(part: exp.Expr) -> str | None:
        type_ = inferred_type(part, columns, elements.expressions.__getitem__)
        return None if type_ is None else type_.lower()

    def rewrite(text: str) -> str:
        query = exp.Select(expressions=[elements.expressions[text].copy()])
        keep_wall_clocks(query, type_of)
        tree = query.expressions[0].unalias().pop()
        for part in tree.walk():
            for place in PLACE:
                part.meta.pop(place, None)  # a query over the table has another text
        new_text = to_spark(tree)
        expressions[new_text] = tree
        return new_text

    new_columns = [
        column if column.computed is None else replace(column, computed=rewrite(column.computed))
        for column in elements.columns
    ]
    watermark = elements.watermark
    if watermark is not None:
        watermark = replace(watermark, expression=rewrite(watermark.expression))
    return replace(elements, columns=new_columns, watermark=watermark, expressions=expressions)


def _optional_comment(parser: SqlWinParser) -> str | None:
    if not parser._match(TokenType.COMMENT):
        return None
    return read_string(parser, "COMMENT requires a string")


def _check_names(
    parser: SqlWinParser, elements: _Elements, partitioned_by: Sequence[Token], *, has_query: bool
) -> None:
    """Check that clauses name columns of the table.

    This is possible only if all columns are listed: LIKE, AS and files add columns.
    """
    columns = {column.name.lower(): column.name for column in elements.columns}
    for text in elements.double_quoted:
        if text.name.lower() in columns:
            raise double_quotes_error(text, columns[text.name.lower()], parser.sql)
    if has_no_physical_columns(elements.columns) and not (has_query and elements.columns):
        return
    uses = [("PRIMARY KEY", token) for token in elements.primary_key]
    uses += [("PARTITIONED BY", token) for token in partitioned_by]
    if elements.watermark_token is not None:
        uses.append(("WATERMARK FOR", elements.watermark_token))
    named = [(clause, token.text) for clause, token in uses]
    tree_of = elements.expressions.__getitem__
    fault = fault_in_names(elements.columns, named, elements.watermark, tree_of)
    if fault is not None:
        parser.fail(fault.message, uses[fault.use][1], hint=fault.hint)


# -- clauses ----------------------------------------------------------------------------------


def read_clauses(
    parser: SqlWinParser, more: Mapping[str, Callable[[], dict[str, Any]]], no_buckets: str
) -> dict[str, Any]:
    """Read the clauses of CREATE TABLE as a dict of fields. Column names are tokens.

    Args:
        parser: Parser positioned before the first clause.
        more: Readers of clauses besides COMMENT, PARTITIONED BY and WITH, by keyword.
        no_buckets: Hint of the error for DISTRIBUTED.

    Raises:
        SqlSyntaxError: A clause is unknown or repeated.
    """
    readers: dict[str, Callable[[], dict[str, Any]]] = {
        "COMMENT": lambda: {"comment": read_string(parser, "COMMENT requires a string")},
        "PARTITIONED BY": lambda: {"partitioned_by": read_columns(parser, "PARTITIONED BY")},
        "WITH": lambda: {"options": read_options(parser)},
        **more,
    }
    fields: dict[str, Any] = {}
    seen: set[str] = set()
    while parser._curr:
        clause, keyword = parser._curr, parser._curr.text.upper()
        word = "PARTITIONED BY" if parser.is_at(TokenType.PARTITION_BY) else keyword
        if word == "DISTRIBUTED":
            parser.fail("DISTRIBUTED is not supported", clause, hint=no_buckets)
        if word not in readers or not parser.is_at_words(keyword):
            parser.raise_error("Invalid expression / Unexpected token")
        if word in seen:
            parser.fail(f"{word} is given twice", clause)
        seen.add(word)
        parser._advance()
        fields |= readers[word]()
    return fields


def read_columns(parser: SqlWinParser, clause: str) -> list[Token]:
    """Read a parenthesised list of distinct column names."""
    columns: dict[str, Token] = {}

    def read_column() -> None:
        token = parser._curr
        read_identifier(parser, "a column")
        if token.text.lower() in columns:
            parser.fail(f"{clause} lists `{token.text}` twice", token)
        columns[token.text.lower()] = token

    parser._parse_wrapped_csv(read_column)
    return list(columns.values())


def _read_like(parser: SqlWinParser) -> dict[str, Any]:
    name = read_name(parser, "the table after LIKE")
    if not parser._match(TokenType.L_PAREN):
        return {"like": name}
    excluded: set[str] = set()
    overwriting: set[str] = {"OPTIONS"}
    while parser._curr and parser._curr.token_type != TokenType.R_PAREN:
        verb = parser._curr.text.upper()
        if verb not in LIKE_VERBS:
            parser.raise_error("Expecting INCLUDING, EXCLUDING, OVERWRITING or )")
        parser._advance()
        token = parser._curr
        feature = token.text.upper()
        allowed = _OVERWRITABLE if verb == "OVERWRITING" else _LIKE_FEATURES | {"ALL"}
        if feature not in allowed:
            parser.fail(
                f"unknown feature {feature or 'end'} after {verb}",
                token,
                hint=f"{verb} takes one of {', '.join(sorted(allowed))}",
            )
        parser._advance()
        features = _LIKE_FEATURES if feature == "ALL" else {feature}
        if verb == "OVERWRITING":
            overwriting |= features
        elif verb == "EXCLUDING":
            excluded |= features
            overwriting -= features
        else:
            excluded -= features
            overwriting -= features  # INCLUDING fails if both tables define the feature
    parser._match_r_paren()
    return {
        "like": name,
        "like_excluding": frozenset(excluded),
        "like_overwriting": frozenset(overwriting),
    }
