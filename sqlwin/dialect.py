"""sqlglot dialect for sqlwin's SQL, `read="sqlwin"`: parsing, formatting, transpiling.

sqlglot loads it through its entry point. Queries, INSERT, CREATE TABLE and CREATE VIEW become
trees. Other statements (SET, SHOW, EXPLAIN, statement sets ...) become commands with their original
text. SQL that sqlwin rejects raises a `ParseError` with its position. When writing Spark's SQL,
TUMBLE, HOP and CUMULATE become Spark's `window`. A construct that the target system lacks raises an
`UnsupportedError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError, UnsupportedError
from sqlglot.generator import Generator
from sqlglot.generators.spark import SparkGenerator
from sqlglot.tokenizer_core import Token, TokenType

from planner.binder.window_function import window_of
from planner.sql.nodes import (
    BEHIND,
    CHANGELOGS,
    TABLE_OPTIONS,
    WINDOW_COLUMNS,
    KeywordCall,
    MultiUnitInterval,
    WindowFunctionCall,
    path_of_files,
)
from planner.sql.render import SparkSqlGenerator, quote_string
from runtime.errors import AnalysisError, SqlSyntaxError, SqlwinError
from sqlwin.parser.other_dialects import read_emit
from sqlwin.parser.parser import SqlWinParser, SqlWinQueries, merge_keywords
from sqlwin.parser.signatures import SIGNATURES
from sqlwin.statements.nodes import (
    Advise,
    CreateTable,
    CreateView,
    Explain,
    Insert,
    Query,
    Reset,
    Set,
    ShowStreams,
    SparkStatement,
    Statement,
    StatementSet,
    StopStream,
    Summarize,
)
from sqlwin.statements.parameters import bind_parameters
from sqlwin.statements.parse import parse_statement, read_statement
from sqlwin.statements.split import StatementText, split_tokens

# Functions of GROUP BY TUMBLE(ts, ...), which stand for a window and are not computed as functions
_GROUP_WINDOWS = frozenset(
    f"{name}{ending}" for name in SIGNATURES for ending in ("", "_START", "_END", "_ROWTIME")
)
_OWN = (Advise, CreateTable, Explain, Set, Reset, ShowStreams, StatementSet, StopStream, Summarize)
_UNITS = (
    *(("day", 86_400_000_000), ("hour", 3_600_000_000), ("minute", 60_000_000)),
    *(("second", 1_000_000), ("microsecond", 1)),
)
# Column of Spark's window before its bounds become columns
_WINDOW = "sqlwin_window"


class ConnectorTable(exp.Create):
    """CREATE TABLE ... WITH ('connector' = ...): a table that only sqlwin or Flink can open."""


class FilesTable(exp.Table):
    """Files in FROM: `FROM 'logs/*.parquet'`."""


class OwnCommand(exp.Command):
    """A statement that only sqlwin runs, kept as text."""


class GroupWindowCall(exp.Anonymous):
    """`TUMBLE(ts, INTERVAL '1' HOUR)` in GROUP BY, or `TUMBLE_START(...)` in SELECT."""


class _Parser(SqlWinParser):
    CONSTRAINT_PARSERS: ClassVar[dict[str, Any]] = {
        **SqlWinParser.CONSTRAINT_PARSERS,
        "WATERMARK": lambda self: self.expression(
            exp.WatermarkColumnConstraint(
                this=self._match(TokenType.FOR) and self._parse_column(),
                expression=self._match(TokenType.ALIAS) and self._parse_disjunction(),
            )
        ),
    }
    SCHEMA_UNNAMED_CONSTRAINTS: ClassVar[Any] = {
        *SqlWinParser.SCHEMA_UNNAMED_CONSTRAINTS,
        "WATERMARK",
    }

    def parse(self, raw_tokens: list[Token], sql: str) -> list[exp.Expr | None]:
        """Return a tree for each statement. Semicolons inside a statement do not end it.

        Raises:
            ParseError: A statement is invalid.
        """
        try:
            parts = split_tokens(sql, merge_keywords(raw_tokens))
            return [_tree(part, raw_tokens, sql) for part in parts]
        except SqlwinError as error:
            raise _parse_error(error, sql) from error

    def _parse_interval(
        self, require_interval: bool = True, parse_function_unit: bool = True
    ) -> Any:
        first = self._curr
        is_interval = first.token_type == TokenType.INTERVAL
        if is_interval and self._next.token_type in (TokenType.COLON, TokenType.PLACEHOLDER):
            self._advance()
            value = self._parse_placeholder() or self._parse_primary()
            unit = exp.Var(this=self._curr.text.upper())
            self._advance()
            return self.span(exp.Interval(this=value, unit=unit), first)
        return super()._parse_interval(require_interval, parse_function_unit)

    def string_literal(self, first: Token) -> exp.Expr:
        """Parse a string and keep its comments."""
        literal = super().string_literal(first)
        literal.add_comments(first.comments)
        return literal

    def number_literal(self, token: Token) -> exp.Expr:
        """Parse a number and keep its comments."""
        literal = super().number_literal(token)
        literal.add_comments(token.comments)
        return literal

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        call = super()._parse_function_call(*args, **kwargs)
        if isinstance(call, KeywordCall):
            return _standard(call)
        if isinstance(call, exp.Anonymous) and call.name.upper() in _GROUP_WINDOWS:
            return GroupWindowCall(**call.args)
        return call


class _Generator(SparkSqlGenerator):
    TRANSFORMS: ClassVar[dict[Any, Any]] = {
        **SparkSqlGenerator.TRANSFORMS,
        ConnectorTable: lambda self, node: self.create_sql(node),
        FilesTable: lambda self, node: self.table_sql(node),
        GroupWindowCall: lambda self, node: self.anonymous_sql(node),
        OwnCommand: lambda self, node: self.command_sql(node),
    }

    def generate(self, expression: exp.Expr, copy: bool = True) -> str:
        """Return the text of a tree, with `EMIT ON WINDOW CLOSE` if the query had it."""
        text: str = super().generate(expression, copy)
        behind = expression.meta.get(BEHIND)
        return text if behind is None else f"{text}{self.sep()}EMIT ON WINDOW CLOSE"

    def table_parts(self, expression: exp.Table) -> str:
        """Return a table's name with its OPTIONS hint."""
        path = path_of_files(expression.name)
        name: str = super().table_parts(expression) if path is None else quote_string(path)
        options = expression.meta.get(TABLE_OPTIONS)
        if options is None:
            return name
        pairs = ", ".join(f"{quote_string(k)} = {quote_string(v)}" for k, v in options.pairs)
        return f"{name} /*+ OPTIONS({pairs}) */"

    def computedcolumnconstraint_sql(self, expression: exp.ComputedColumnConstraint) -> str:
        """Return a computed column, such as `AS TO_TIMESTAMP_LTZ(ms, 3)`."""
        return f"AS {self.sql(expression, 'this')}"

    def with_properties(self, properties: exp.Properties) -> str:
        """Return the table options, `WITH ('connector' = ...)`."""
        text: str = self.properties(properties, prefix=self.seg("WITH"))
        return text


class SqlWin(SqlWinQueries):
    """Dialect class, for `sqlglot.parse_one(text, read="sqlwin")` and `tree.sql("sqlwin")`."""

    Parser = _Parser
    Generator = _Generator


# -- reading -----------------------------------------------------------------------------------


def _tree(part: StatementText, tokens: list[Token], sql: str) -> exp.Expr:
    """Return the tree of a statement, or a command if no tree represents it completely.

    Raises:
        SqlwinError: The statement is invalid. The error has its position in the script or
            statement.
    """
    try:
        statement = read_statement(bind_parameters(part, None))
    except SqlwinError as error:
        raise error.with_source(sql, offset=part.offset) from error
    first, *rest = part.text.split(maxsplit=1)
    kind = OwnCommand if isinstance(statement, _OWN) else exp.Command
    command = kind(this=first.upper(), expression=" ".join(rest))
    if not _is_tree(statement):
        return command
    end = part.offset + len(part.text)
    part_tokens = [token for token in tokens if part.offset <= token.start < end]
    parser: Any = SqlWin().parser()
    try:
        tree: exp.Expr = parser.run(_read, part_tokens, sql)
    except SqlSyntaxError:
        if isinstance(statement, Query | SparkStatement):
            raise
        return command
    if isinstance(statement, CreateTable):
        tree = ConnectorTable(**tree.args)
        return tree if _says(tree, statement) else command
    return tree


def _says(tree: exp.Expr, statement: CreateTable) -> bool:
    """Return whether the tree, written as SQL, gives the same statement.

    sqlglot's grammar lacks parts of Flink's.
    """
    try:
        again = parse_statement(tree.sql(SqlWin, comments=False))
    except SqlwinError:
        return False
    return replace(again, text=statement.text, offset=statement.offset) == statement


def _is_tree(statement: Statement) -> bool:
    words = ("SELECT", "WITH", "FROM", "VALUES", "(", "DROP", "DELETE", "UPDATE", "MERGE")
    if isinstance(statement, SparkStatement):
        return statement.text.lstrip().upper().startswith(words)
    return isinstance(statement, Query | Insert | CreateTable | CreateView)


def _read(parser: SqlWinParser) -> exp.Expr:
    tree = parser._parse_statement()
    if tree is None:
        parser.fail("expected a statement", parser._curr)
    read_emit(parser, tree)
    for table in list(tree.find_all(exp.Table)):
        if path_of_files(table.name) is not None:
            files = FilesTable(**table.args)
            files.meta.update(table.meta)
            table.replace(files)
    return tree


def _parse_error(error: SqlwinError, sql: str) -> ParseError:
    place, text = error.position, error.sql or sql
    shown: dict[str, Any] = {}
    if place is not None:
        end = place.offset + place.length
        shown = {
            "line": place.line,
            "col": place.column + place.length - 1,
            "start_context": text[max(0, place.offset - 100) : place.offset],
            "highlight": text[place.offset : end],
            "end_context": text[end : end + 100],
        }
    return ParseError.new(str(error), description=error.message, **shown)


def _standard(call: KeywordCall) -> exp.Expr:
    """Return a call such as `EXTRACT(DAY FROM ts)` as sqlglot's standard node, if it has one."""
    try:
        tree = sqlglot.parse_one(call.sql(SqlWinQueries), read="spark")
    except SqlglotError:
        return call
    return call if isinstance(tree, exp.Anonymous) else tree


# -- as the SQL of other systems ---------------------------------------------------------------


# Nodes without a counterpart in other systems, and their names in error messages
_OWN_NODES: dict[type[exp.Expr], Callable[[Any], str]] = {
    ConnectorTable: lambda node: "CREATE TABLE ... WITH ('connector' = ...)",
    FilesTable: lambda node: "files by their name in FROM",
    GroupWindowCall: lambda node: f"{node.name.upper()}, a window in GROUP BY",
    KeywordCall: lambda node: str(node.sql(SqlWin)),
    OwnCommand: lambda node: f"sqlwin's statement {node.name}",
    WindowFunctionCall: lambda node: f"the window function {node.kind}",
}


def _unsupported(generator: Any, node: exp.Expr, what: str | None = None) -> str:
    """Raise UnsupportedError. If the generator ignores errors, return sqlwin's SQL instead."""
    if generator.unsupported_level == ErrorLevel.IGNORE:
        return node.sql(SqlWin)
    what = what or _OWN_NODES[type(node)](node)
    raise UnsupportedError(f"{type(generator.dialect).__name__} has no equivalent of {what}")


def _other_interval(generator: Any, node: MultiUnitInterval) -> str:
    return f"({' + '.join(generator.sql(part) for part in node.expressions)})"


def _write_group(generator: Any, node: exp.Group) -> str:
    """Write GROUP BY, unless it has FILL."""
    if node.args.get("fill") is not None:
        return _unsupported(generator, node, "FILL")
    return str(generator.group_sql(node))


def _spark_window(generator: Any, node: WindowFunctionCall) -> str:
    """Write TUMBLE, HOP and CUMULATE with Spark's `window`.

    Spark aligns windows over instants to UTC, sqlwin to the wall clock: hence the cast.
    """
    if node.kind in ("GAP_FILL", "RANGES", *CHANGELOGS):
        return _unsupported(generator, node)
    try:
        window = window_of(node, "")
    except AnalysisError as error:
        raise UnsupportedError(error.message) from error
    data = node.args["data"]
    source = generator.sql(data) if isinstance(data, exp.Table) else f"{generator.sql(data)} AS t"
    time = generator.sql(node, "timecol")
    ts = f"CAST({time} AS TIMESTAMP_NTZ)"
    end = f"{_WINDOW}.end"
    if not window.has_slices or window.is_calendar or window.has_gaps or window.emit_only_on_update:
        return _unsupported(generator, node, f"this {node.kind}")
    # windows that grow begin where the largest ones do
    slide = window.longest_us if window.grows else window.stride.us
    lengths = [window.longest_us, slide, window.offset_us % slide]
    if window.grows:
        length = f"INTERVAL '{_length(window.stride.us)}'"
        first = f"{length} * (1 + ({ts} - {_WINDOW}.start) DIV {length})"
        end = f"EXPLODE(SEQUENCE({_WINDOW}.start + {first}, {_WINDOW}.end, {length}))"
    if not lengths[2]:
        lengths.pop()
        if lengths[0] == lengths[1]:
            lengths.pop()
    texts = [f"'{_length(length)}'" for length in lengths]
    column = f"WINDOW({', '.join([ts, *texts])})"
    column_names = node.args.get("names") or map(exp.to_identifier, WINDOW_COLUMNS)
    names = [generator.sql(column_name) for column_name in column_names]
    alias = generator.sql(node, "alias")
    others = [
        generator.expressions(node, key=key, sep="", flat=True)
        for key in ("pivots", "joins", "laterals")
    ]
    return (
        # COALESCE gives it the type of the time column
        f"(SELECT *, COALESCE({names[1]} - INTERVAL '0.001' SECOND, {time}) AS {names[2]} "
        f"FROM (SELECT * EXCEPT ({_WINDOW}), {_WINDOW}.start AS {names[0]}, {end} AS {names[1]} "
        f"FROM (SELECT *, {column} AS {_WINDOW} FROM {source})))"
        f"{generator.sql(node, 'sample')}{f' AS {alias}' if alias else ''}{''.join(others)}"
    )


def _length(us: int) -> str:
    """Return a duration such as `10 minutes`, as Spark's `window` and INTERVAL read it."""
    name, size = next(unit for unit in _UNITS if us % unit[1] == 0)
    return f"{us // size} {name}{'' if us == size else 's'}"


_OTHERS: dict[type[exp.Expr], Callable[..., str]] = {
    **dict.fromkeys(_OWN_NODES, _unsupported),
    MultiUnitInterval: _other_interval,
    exp.Group: _write_group,
}
_SPARK = {**_OTHERS, WindowFunctionCall: _spark_window}


def _generators(above: type[Generator]) -> Iterator[type[Generator]]:
    yield above
    for subclass in above.__subclasses__():
        yield from _generators(subclass)


def _teach_other_dialects() -> None:
    """Register our nodes with sqlglot's own generators, which do not know them.

    Generators that are loaded later inherit from these.
    """
    for generator in _generators(Generator):
        if issubclass(generator, SparkSqlGenerator):
            continue
        for node, write in (_SPARK if issubclass(generator, SparkGenerator) else _OTHERS).items():
            generator.TRANSFORMS.setdefault(node, write)


_teach_other_dialects()
