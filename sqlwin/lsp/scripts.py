"""A script in an editor: parsed and planned without running anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from runtime.errors import ErrorKind, Position, SqlSyntaxError, SqlwinError
from runtime.spark.on_demand import NotStartedError
from sqlwin.control import SessionControl
from sqlwin.lsp.groups import ungrouped_columns
from sqlwin.parser.parser import parser_of, read_query
from sqlwin.repl.completion.names import QUOTE, describe
from sqlwin.session import Session
from sqlwin.statements import nodes
from sqlwin.statements.misspelt import SPARKS_WORDS
from sqlwin.statements.parameters import bind_parameters
from sqlwin.statements.parse import read_statement
from sqlwin.statements.split import StatementText, read_script, script_of

Columns = tuple[tuple[str, str], ...]

# Statements that planning a script runs, because they change only the session
_PREPARING = (nodes.CreateView, nodes.Set, nodes.Reset)
_PLANNED = (nodes.Query, nodes.Insert, nodes.StatementSet)
# Errors that may be due to an earlier statement that was not run
_UNCERTAIN = (
    ErrorKind.UNKNOWN_TABLE,
    ErrorKind.UNKNOWN_DATABASE,
    ErrorKind.UNKNOWN_CATALOG,
    ErrorKind.UNKNOWN_FUNCTION,
)
_QUERY_WORDS = ("(", "FROM", "SELECT", "WITH")


@dataclass(frozen=True)
class Problem:
    """An error in a script.

    Attributes:
        start: Offset in the script.
        end: Exclusive end.
        message: Message, and the hint in a second line.
        is_certain: Whether Spark would reject the statement too.
    """

    start: int
    end: int
    message: str
    is_certain: bool = True


@dataclass(frozen=True)
class CheckedStatement:
    """A statement of a script. `parsed` is None if it has a syntax error."""

    part: StatementText
    parsed: nodes.Statement | None

    @property
    def can_explain(self) -> bool:
        """Whether EXPLAIN shows the plan of the statement."""
        return isinstance(self.parsed, _PLANNED) and not self.part.parameters


@dataclass(frozen=True)
class CheckedScript:
    """A script with its statements and problems.

    Attributes:
        text: Text of the script.
        statements: Its statements. Empty if the text has no tokens, as with an open quote.
        problems: Errors, at most one per statement.
        session: Session with the script's tables, views and settings.
    """

    text: str
    statements: tuple[CheckedStatement, ...]
    problems: tuple[Problem, ...]
    session: Session = field(repr=False)

    def explain(self, number: int) -> str:
        """Return the plan of statement `number`, or the reason why it has no plan."""
        try:
            with SessionControl(self.session).without_start_of_spark():
                return str(self.session.explain(self.statements[number].part.text))
        except NotStartedError:
            return "Planning this statement needs Spark: use sqlwin explain FILE"
        except SqlwinError as error:
            return f"error: {error}"


def check_script(text: str, connect: Callable[[], Session]) -> CheckedScript:
    """Parse and plan the statements of a script without Spark, running only definitions.

    A statement that only Spark can plan, or that has parameters, is only parsed.

    Args:
        text: The script.
        connect: Opens a session.
    """
    session = connect()
    try:
        parts = read_script(text).statements
    except SqlwinError as error:
        return CheckedScript(text, (), (_problem(error, 0, len(text)),), session)
    statements, problems = [], []
    is_certain = True
    for part in parts:
        end = part.offset + len(part.text)
        try:
            parsed = read_statement(bind_parameters(part, None))
        except SqlwinError as error:
            problems.append(_problem(error, part.offset, end))
            statements.append(CheckedStatement(part, None))
            continue
        statements.append(CheckedStatement(part, parsed))
        mistake = _syntax_error(parsed) if isinstance(parsed, nodes.SparkStatement) else None
        if mistake is not None:
            problems.append(replace(_problem(mistake, part.offset, end), is_certain=False))
            continue
        try:
            is_planned = _plan(session, part, parsed)
            is_certain &= is_planned or not _may_define(parsed)
            problems += _ungrouped(session, part, parsed)[:1]
        except SqlwinError as error:
            if is_certain or error.kind not in _UNCERTAIN:
                problems.append(_problem(error, part.offset, end))
            is_certain &= not _may_define(parsed)
    return CheckedScript(text, tuple(statements), tuple(problems), session)


def _plan(session: Session, part: StatementText, statement: nodes.Statement) -> bool:
    """Plan a statement, or run it if it is a definition. Return whether that was possible.

    Raises:
        SqlwinError: The statement is invalid.
    """
    match statement:
        case _ if part.parameters:
            return False
        case nodes.Explain():
            is_planned = isinstance(statement.statement, _PLANNED)
            is_planned &= "ANALYZE" not in statement.details
        case nodes.Drop():
            is_planned = statement.kind != "MATERIALIZED TABLE"
        case nodes.CreateTable() | nodes.AlterTable():
            is_planned = True
        case _:
            is_planned = isinstance(statement, (*_PLANNED, *_PREPARING))
    if not is_planned:
        return False
    control = SessionControl(session)
    try:
        with control.without_start_of_spark():
            control.query_documents(script_of(part))
    except NotStartedError:
        return False
    # the plan of CREATE TABLE AS does not create the table
    return not (isinstance(statement, nodes.CreateTable) and statement.as_query is not None)


def _syntax_error(statement: nodes.SparkStatement) -> SqlSyntaxError | None:
    """Return sqlwin's syntax error for a statement that Spark would parse, or None.

    Spark supports a few clauses that sqlwin cannot parse, such as TRANSFORM.
    """
    first = statement.tokens[0]
    word = first.text.upper()
    if word in _QUERY_WORDS:
        try:
            parser_of().run(read_query, list(statement.tokens), statement.text)
        except SqlSyntaxError as error:
            return error
    elif word not in SPARKS_WORDS:
        return SqlSyntaxError(
            f"syntax error at or near '{first.text}'",
            position=Position.at(statement.text, 0, len(first.text)),
        )
    return None


def _ungrouped(session: Session, part: StatementText, statement: nodes.Statement) -> list[Problem]:
    """Return the columns of a query that are neither grouped nor aggregated."""
    if part.parameters or not isinstance(statement, nodes.Query | nodes.Insert | nodes.CreateView):
        return []

    def columns_of(table: str) -> frozenset[str]:
        return frozenset(name.lower() for name, _ in ScriptNames(session).columns(table))

    return [
        Problem(
            part.offset + column.meta["start"],
            part.offset + column.meta["end"] + 1,
            f"column `{column.name}` is neither in GROUP BY nor in an aggregate\n"
            f"add it to GROUP BY, or use an aggregate such as MAX({column.name})",
        )
        for column in ungrouped_columns(statement.ast, columns_of)
        if "start" in column.meta
    ]


def _may_define(statement: nodes.Statement) -> bool:
    """Return whether later statements may depend on a statement."""
    return isinstance(
        statement,
        nodes.Create
        | nodes.AlterTable
        | nodes.Drop
        | nodes.Set
        | nodes.Reset
        | nodes.Use
        | nodes.SparkStatement,
    )


def _problem(error: SqlwinError, start: int, end: int) -> Problem:
    """Return a problem at the error's place in a statement, or at the whole statement."""
    message = error.message if error.hint is None else f"{error.message}\n{error.hint}"
    place = error.position
    if place is None or error.file is not None:
        return Problem(start, end, message)
    # An error at the end of a statement is marked at its last character.
    first = max(start, min(start + place.offset, end - 1))
    return Problem(first, min(first + place.length, end), message)


# -- names -----------------------------------------------------------------------------------------


class ScriptNames:
    """Tables, columns and functions of a checked script, for completion. See `SessionNames`."""

    def __init__(self, session: Session) -> None:
        from sqlwin.help.functions import FUNCTIONS

        self._session = session
        self._columns: dict[str, Columns] = {}
        self.tables = tuple(str(row[0]) for row in self._rows("SHOW TABLES"))
        self.functions = tuple(name.lower() for name in FUNCTIONS)

    def columns(self, table: str) -> Columns:
        """Return names and types of a table's columns, empty if they are unknown."""
        key = table.lower()
        if key not in self._columns:
            names = {name.lower() for name in self.tables}
            is_known = key in names or table.startswith(QUOTE)
            rows = self._rows(describe(table)) if is_known else ()
            self._columns[key] = tuple((str(row[0]), str(row[1])) for row in rows)
        return self._columns[key]

    def _rows(self, statement: str) -> Iterator[tuple[object, ...]]:
        """Yield the rows of SHOW or DESCRIBE, or none if it needs Spark or fails."""
        try:
            with SessionControl(self._session).without_start_of_spark():
                (result,) = self._session.execute(statement)
                table = result.to_arrow()
        except SqlwinError:
            return
        yield from zip(*(column.to_pylist() for column in table.columns), strict=True)
