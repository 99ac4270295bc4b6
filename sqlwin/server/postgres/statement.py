"""A client's statement, translated: the parts that PostgreSQL spells or means differently.

The rest of the text stays as it is, so that sqlwin's own SQL keeps its meaning and errors their
places. A statement that PostgreSQL's grammar cannot read has only sqlwin's meaning.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.depth import TooDeepError, deep_trees
from runtime.errors import SqlSyntaxError
from sqlwin.parser.base import depths
from sqlwin.server.postgres.errors import UntranslatableError
from sqlwin.server.postgres.inference import ColumnsOf, Types
from sqlwin.server.postgres.names import ColumnNames, add_aliases, column_names
from sqlwin.server.postgres.parameters import NUMBER, infer_types
from sqlwin.server.postgres.reader import SPAN, reader, tokens_of
from sqlwin.server.postgres.rules import RULES
from sqlwin.server.postgres.types import UNKNOWN, base_type
from sqlwin.server.postgres.writer import ClientWriter, writer_of
from sqlwin.server.translation import ClientText, read_text, type_of_oid
from sqlwin.statements.parameters import BoundStatement, bind_parameters
from sqlwin.statements.queries import SparkSyntaxOnly, read_ast, read_insert
from sqlwin.statements.quotes import DoubleQuotes
from sqlwin.statements.split import read_script

_QUERY_STARTS = ("SELECT", "WITH", "FROM", "VALUES", "(")
_CHANGES = ("DELETE", "UPDATE", "MERGE")


@dataclass(frozen=True)
class _Splice:
    """A range of the bound text and what replaces it."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class _Parsed:
    """A query or a change.

    Attributes:
        tree: Its tree.
        table: Table into which an INSERT writes, () for others.
        columns: Columns that the INSERT names.
    """

    tree: exp.Expr
    table: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Translated:
    """A statement in sqlwin's SQL.

    Attributes:
        text: The statement, with the numbers of its parameters.
        oids: Types of the parameters, by number, as far as they are known.
        names: PostgreSQL's names of the columns of a query.
        splices: Replacements of parts of the text.
        bound: The text before.
        offset: Start of that text in the client's text.
    """

    text: ClientText
    oids: Mapping[int, int]
    names: ColumnNames
    splices: tuple[_Splice, ...] = ()
    bound: BoundStatement | None = None
    offset: int = 0

    def place(self, offset: int) -> int:
        """Return the place in the client's text of a place in the translated one."""
        if self.bound is None:
            return offset
        shift = 0
        for splice in self.splices:
            start = splice.start + shift
            if offset < start:
                break
            if offset < start + len(splice.text):
                return self._original(splice.start)
            shift += len(splice.text) - (splice.end - splice.start)
        return self._original(offset - shift)

    def _original(self, offset: int) -> int:
        assert self.bound is not None
        return self.offset + self.bound.original(offset, 1)[0]


def translate(
    sql: str, columns_of: ColumnsOf, quotes: DoubleQuotes, declared: Sequence[int | None]
) -> Translated:
    """Translate a client's statement.

    Args:
        sql: The statement.
        columns_of: Function that returns the columns of a table.
        quotes: Meaning of double quotes.
        declared: OIDs of the parameters that the client declared.

    Raises:
        SqlwinError: The text cannot be split into tokens.
        TooDeepError: The statement is nested too deeply.
        UntranslatableError: A part has no counterpart.
    """
    client = read_text(sql)
    oids = {number: oid for number, oid in enumerate(declared, 1) if oid}
    untouched = Translated(client, oids, ColumnNames())
    script = read_script(client.text)
    if len(script.statements) != 1:
        return untouched
    (part,) = script.statements
    bound = bind_parameters(part, None, quotes=quotes)
    places = (t.start for t in bound.tokens if t.token_type == TokenType.PLACEHOLDER)
    numbers = dict(zip(places, client.numbers, strict=True))
    try:
        with deep_trees(sql):
            parsed = _parse(bound.text)
            if parsed is None:
                return untouched
            names, splices = _changes(parsed, bound, numbers, columns_of, oids)
    except TooDeepError:
        raise
    except (SqlSyntaxError, SparkSyntaxOnly):
        return untouched
    except UntranslatableError as error:
        if error.position is not None:
            start = error.position.offset
            error.fields["P"] = str(part.offset + bound.original(start, 1)[0] + 1)
        raise
    pieces, at = [], 0
    for splice in splices:
        pieces += [bound.text[at : splice.start], splice.text]
        at = splice.end
    text = read_text("".join([*pieces, bound.text[at:]]), is_translated=True)
    return Translated(text, oids, names, tuple(splices), bound, part.offset)


def _changes(
    parsed: _Parsed,
    bound: BoundStatement,
    numbers: Mapping[int, int],
    columns_of: ColumnsOf,
    oids: dict[int, int],
) -> tuple[ColumnNames, list[_Splice]]:
    """Return the names of a query's columns and the changes of its text. Adds to `oids`.

    Args:
        parsed: The statement.
        bound: Its text.
        numbers: Number of the parameter at each place of a `?`.
        columns_of: Function that returns the columns of a table.
        oids: Types of the parameters, as far as they are known.
    """
    tree = parsed.tree
    for node in tree.find_all(exp.Placeholder):
        node.meta[NUMBER] = numbers.get(node.meta["start"])

    def declared_type(node: exp.Expr) -> str:
        return type_of_oid(oids.get(node.meta.get(NUMBER) or 0)) or UNKNOWN

    columns = columns_of(parsed.table) if parsed.table else ()
    if parsed.columns:
        by_name = {column.name.lower(): column for column in columns}
        columns = [by_name[name.lower()] for name in parsed.columns if name.lower() in by_name]
    kinds = [base_type(column.type) for column in columns]
    oids |= infer_types(tree, Types(columns_of, declared_type), oids, kinds)
    is_query = bound.tokens[0].text.upper() in _QUERY_STARTS and not parsed.table
    names = column_names(tree) if is_query else ColumnNames()
    add_aliases(tree)
    writer = writer_of(Types(columns_of, declared_type), bound.text, RULES)
    written = sorted(_splices(tree, writer), key=lambda splice: splice.start)
    starts = [splice.start for splice in written]
    splices = list(written)
    for start, number in numbers.items():
        before = bisect_right(starts, start)
        if before == 0 or written[before - 1].end <= start:
            splices.append(_Splice(start, start + 1, f"${number}"))
    return names, sorted(splices, key=lambda splice: splice.start)


def _splices(tree: exp.Expr, writer: ClientWriter) -> Iterator[_Splice]:
    """Yield the replacements of the outermost nodes that rules write."""
    pending, done = [tree], set[int]()
    found: list[exp.Expr] = []
    while pending:
        node = pending.pop()
        if isinstance(node, exp.Placeholder) or writer.changed(node) is None:
            pending += node.iter_expressions()
            continue
        while SPAN not in node.meta and node.parent is not None:
            node = node.parent
        if id(node) not in done:
            done.add(id(node))
            found.append(node)
    for node in found:
        ancestor = node.parent
        while ancestor is not None and id(ancestor) not in done:
            ancestor = ancestor.parent
        if ancestor is None:
            start, end = node.meta[SPAN]
            yield _Splice(start, end, writer.sql(node))


def _parse(text: str) -> _Parsed | None:
    """Return the query or change in a statement, None for a statement without one.

    Raises:
        SqlSyntaxError: PostgreSQL's grammar cannot read it.
    """
    tokens = tokens_of(text)
    first = _first(tokens)
    if first is None:
        return None
    word = tokens[first].text.upper()
    if word in _CHANGES:
        tree = reader().run(lambda parser: parser._parse_statement(), tokens[first:], text)
        return _Parsed(tree) if isinstance(tree, exp.Expr) else None
    has_insert = word == "WITH" and any(
        depth == 0 and tokens[i].token_type == TokenType.INSERT
        for i, depth in depths(tokens, first)
    )
    if word == "INSERT" or has_insert:
        fields: dict[str, Any] = reader().run(_insert, tokens[first:], text)
        return _Parsed(fields["ast"], fields["name"], fields["columns"])
    return _Parsed(reader().run(_query, tokens[first:], text))


def _query(parser: Any) -> exp.Expr:
    return read_ast(parser)


def _insert(parser: Any) -> dict[str, Any]:
    return read_insert(parser)


def _first(tokens: Sequence[Token]) -> int | None:
    """Return the index of the first token of the query or change, None without one."""
    word = tokens[0].text.upper() if tokens else ""
    if word in (*_QUERY_STARTS, *_CHANGES, "INSERT"):
        return 0
    if word in ("ADVISE", "DESC", "DESCRIBE", "EXPLAIN", "SUMMARIZE"):
        starts = (*_QUERY_STARTS, *_CHANGES, "INSERT")
        return next((i for i, t in enumerate(tokens) if t.text.upper() in starts), None)
    if word == "CREATE":
        for i, depth in depths(tokens):
            following = tokens[i + 1].text.upper() if i + 1 < len(tokens) else ""
            if (
                depth == 0
                and tokens[i].token_type == TokenType.ALIAS
                and following in _QUERY_STARTS
            ):
                return i + 1
    return None
