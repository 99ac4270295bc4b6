"""sqlwin's SQL as a dialect of sqlglot, `read="sqlwin"`: parsed, formatted, transpiled.

sqlglot finds it by its entry point. Queries, INSERT, CREATE TABLE and CREATE VIEW are trees, other
statements (SET, SHOW, EXPLAIN, statement sets ...) commands that stay as they are. What sqlwin
refuses is a `ParseError` with its place. In Spark's SQL, TUMBLE, HOP and CUMULATE are written with
Spark's `window`; what a system has nothing for is an `UnsupportedError`, never other SQL.
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
    TABLE_OPTIONS,
    WINDOW_COLUMNS,
    KeywordCall,
    MultiUnitInterval,
    WindowFunctionCall,
    path_of_files,
)
from planner.sql.render import SparkSqlGenerator, quote_string
from runtime.errors import AnalysisError, SqlSyntaxError, SqlwinError
from runtime.spec.windows import Cumulate, Hop, Tumble
from sqlwin.parser.other_dialects import read_emit
from sqlwin.parser.parser import SqlWinParser, SqlWinQueries
from sqlwin.parser.signatures import SIGNATURES
from sqlwin.statements.nodes import (
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
from sqlwin.statements.parse import parse_statement
from sqlwin.statements.split import StatementText, split_script

# The functions of GROUP BY TUMBLE(ts, ...), which is a window of the query's, and no function
_GROUP_WINDOWS = frozenset(
    f"{name}{ending}" for name in SIGNATURES for ending in ("", "_START", "_END", "_ROWTIME")
)
_OWN = (CreateTable, Explain, Set, Reset, ShowStreams, StatementSet, StopStream, Summarize)
_UNITS = (
    *(("day", 86_400_000_000), ("hour", 3_600_000_000), ("minute", 60_000_000)),
    *(("second", 1_000_000), ("microsecond", 1)),
)
# The column that Spark's window is in, before its bounds are columns
_WINDOW = "sqlwin_window"


class ConnectorTable(exp.Create):
    """CREATE TABLE ... WITH ('connector' = ...): a table that only sqlwin, or Flink, opens."""


class FilesTable(exp.Table):
    """`FROM 'logs/*.parquet'`: files by their name."""


class OwnCommand(exp.Command):
    """A statement that only sqlwin carries out, as it was written."""


class GroupWindowCall(exp.Anonymous):
    """`TUMBLE(ts, INTERVAL '1' HOUR)` in GROUP BY, `TUMBLE_START(...)` beside it."""


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
        """A tree for each statement of a script; a semicolon inside of one does not end it.

        Raises:
            ParseError: one does not read.
        """
        try:
            return [_tree(part, raw_tokens, sql) for part in split_script(sql)]
        except SqlwinError as error:
            raise _parse_error(error, sql) from error

    def _parse_interval(
        self, require_interval: bool = True, parse_function_unit: bool = True
    ) -> Any:
        first = self._curr
        is_interval = first.token_type == TokenType.INTERVAL
        if is_interval and self._next.token_type in (TokenType.COLON, TokenType.PLACEHOLDER):
            self._advance()
            value = self._parse_placeholder()
            unit = exp.Var(this=self._curr.text.upper())
            self._advance()
            return self.span(exp.Interval(this=value, unit=unit), first)
        return super()._parse_interval(require_interval, parse_function_unit)

    def string_literal(self, first: Token) -> exp.Expr:
        """A string, with its comments."""
        literal = super().string_literal(first)
        literal.add_comments(first.comments)
        return literal

    def number_literal(self, token: Token) -> exp.Expr:
        """A number, with its comments."""
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
        """The text of a tree, with what stands behind a query and says nothing."""
        text: str = super().generate(expression, copy)
        behind = expression.meta.get(BEHIND)
        return text if behind is None else f"{text}{self.sep()}EMIT ON WINDOW CLOSE"

    def table_parts(self, expression: exp.Table) -> str:
        """A table's name, with the options that it has in this place."""
        path = path_of_files(expression.name)
        name: str = super().table_parts(expression) if path is None else quote_string(path)
        options = expression.meta.get(TABLE_OPTIONS)
        if options is None:
            return name
        pairs = ", ".join(f"{quote_string(k)} = {quote_string(v)}" for k, v in options.pairs)
        return f"{name} /*+ OPTIONS({pairs}) */"

    def computedcolumnconstraint_sql(self, expression: exp.ComputedColumnConstraint) -> str:
        """`ts AS TO_TIMESTAMP_LTZ(ms, 3)`."""
        return f"AS {self.sql(expression, 'this')}"

    def with_properties(self, properties: exp.Properties) -> str:
        """`WITH ('connector' = ...)`."""
        text: str = self.properties(properties, prefix=self.seg("WITH"))
        return text


class SqlWin(SqlWinQueries):
    """The dialect: `sqlglot.parse_one(text, read="sqlwin")`, `tree.sql("sqlwin")`."""

    Parser = _Parser
    Generator = _Generator


# -- reading -----------------------------------------------------------------------------------


def _tree(part: StatementText, tokens: list[Token], sql: str) -> exp.Expr:
    """The tree of a statement of a script; a command where it has none that says it all.

    Raises:
        SqlwinError: it does not read; with its place in the script, or in the statement.
    """
    try:
        statement = parse_statement(part.text)
    except SqlwinError as error:
        raise error.with_source(sql, offset=part.offset) from error
    first, *rest = part.text.split(maxsplit=1)
    kind = OwnCommand if isinstance(statement, _OWN) else exp.Command
    command = kind(this=first.upper(), expression=" ".join(rest))
    if not _is_tree(statement):
        return command
    end = part.offset + len(part.text)
    own = [token for token in tokens if part.offset <= token.start < end]
    parser: Any = SqlWin().parser()
    try:
        tree: exp.Expr = parser.run(_read, own, sql)
    except SqlSyntaxError:
        if isinstance(statement, Query | SparkStatement):
            raise
        return command
    if isinstance(statement, CreateTable):
        tree = ConnectorTable(**tree.args)
        return tree if _says(tree, statement) else command
    return tree


def _says(tree: exp.Expr, statement: CreateTable) -> bool:
    """Whether a tree, written again, is the statement: sqlglot's grammar lacks some of Flink's."""
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
    """`EXTRACT(DAY FROM ts)` as the node that all dialects have; else as it is."""
    try:
        tree = sqlglot.parse_one(call.sql(SqlWinQueries), read="spark")
    except SqlglotError:
        return call
    return call if isinstance(tree, exp.Anonymous) else tree


# -- as the SQL of other systems ---------------------------------------------------------------


# Nodes that other systems have nothing for, and what an error calls them
_OWN_NODES: dict[type[exp.Expr], Callable[[Any], str]] = {
    ConnectorTable: lambda node: "CREATE TABLE ... WITH ('connector' = ...)",
    FilesTable: lambda node: "files by their name in FROM",
    GroupWindowCall: lambda node: f"{node.name.upper()}, a window in GROUP BY",
    KeywordCall: lambda node: str(node.sql(SqlWin)),
    OwnCommand: lambda node: f"the statement {node.name} as sqlwin has it",
    WindowFunctionCall: lambda node: f"the window function {node.kind}",
}


def _unsupported(generator: Any, node: exp.Expr, what: str | None = None) -> str:
    """Refuse to write a node, or, where everything unsupported is ignored, write it as it is."""
    if generator.unsupported_level == ErrorLevel.IGNORE:
        return node.sql(SqlWin)
    what = what or _OWN_NODES[type(node)](node)
    raise UnsupportedError(f"{type(generator.dialect).__name__} has nothing for {what}")


def _other_interval(generator: Any, node: MultiUnitInterval) -> str:
    return f"({' + '.join(generator.sql(part) for part in node.expressions)})"


def _spark_window(generator: Any, node: WindowFunctionCall) -> str:
    """TUMBLE, HOP and CUMULATE with Spark's `window`.

    Spark puts windows of an instant on UTC, sqlwin on the wall clock: hence the cast.
    """
    try:
        window = window_of(node, "")
    except AnalysisError as error:
        raise UnsupportedError(error.message) from error
    data = node.args["data"]
    source = generator.sql(data) if isinstance(data, exp.Table) else f"{generator.sql(data)} AS t"
    time = generator.sql(node, "timecol")
    ts = f"CAST({time} AS TIMESTAMP_NTZ)"
    end = f"{_WINDOW}.end"
    match window:
        case Tumble(size, offset):
            lengths = [size, size, offset % size]
        case Hop(slide, size, offset) if slide <= size:
            lengths = [size, slide, offset % slide]
        case Cumulate(step, size, offset, is_only_on_update) if not is_only_on_update:
            lengths = [size, size, offset % size]
            length = f"INTERVAL '{_length(step)}'"
            first = f"{length} * (1 + ({ts} - {_WINDOW}.start) DIV {length})"
            end = f"EXPLODE(SEQUENCE({_WINDOW}.start + {first}, {_WINDOW}.end, {length}))"
        case _:
            return _unsupported(generator, node, f"this {node.kind}")
    if not lengths[2]:
        lengths.pop()
        if lengths[0] == lengths[1]:
            lengths.pop()
    texts = [f"'{_length(each)}'" for each in lengths]
    column = f"WINDOW({', '.join([ts, *texts])})"
    given = node.args.get("names") or map(exp.to_identifier, WINDOW_COLUMNS)
    names = [generator.sql(each) for each in given]
    alias = generator.sql(node, "alias")
    others = [
        generator.expressions(node, key=key, sep="", flat=True)
        for key in ("pivots", "joins", "laterals")
    ]
    return (
        # of the type of the time column, as the coalesced columns are
        f"(SELECT *, COALESCE({names[1]} - INTERVAL '0.001' SECOND, {time}) AS {names[2]} "
        f"FROM (SELECT * EXCEPT ({_WINDOW}), {_WINDOW}.start AS {names[0]}, {end} AS {names[1]} "
        f"FROM (SELECT *, {column} AS {_WINDOW} FROM {source})))"
        f"{generator.sql(node, 'sample')}{f' AS {alias}' if alias else ''}{''.join(others)}"
    )


def _length(us: int) -> str:
    """`10 minutes`, as Spark's `window` and INTERVAL read it."""
    name, size = next(each for each in _UNITS if us % each[1] == 0)
    return f"{us // size} {name}{'' if us == size else 's'}"


_OTHERS: dict[type[exp.Expr], Callable[..., str]] = {
    **dict.fromkeys(_OWN_NODES, _unsupported),
    MultiUnitInterval: _other_interval,
}
_SPARK = {**_OTHERS, WindowFunctionCall: _spark_window}


def _generators(above: type[Generator]) -> Iterator[type[Generator]]:
    yield above
    for each in above.__subclasses__():
        yield from _generators(each)


def _teach_other_dialects() -> None:
    """Say to sqlglot's own generators what to do with our nodes, of which they know nothing.

    Those that are loaded later start from what those above them have.
    """
    for generator in _generators(Generator):
        if issubclass(generator, SparkSqlGenerator):
            continue
        for node, write in (_SPARK if issubclass(generator, SparkGenerator) else _OTHERS).items():
            generator.TRANSFORMS.setdefault(node, write)


_teach_other_dialects()
