"""`sqlwin explain`: plans of a script's queries, with measurements for --analyze."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from planner.explain.document import Document, QueryDocument
from runtime.errors import SqlwinError
from sqlwin.console.scripts import Script
from sqlwin.control import SessionControl
from sqlwin.display.progress import ProgressBar
from sqlwin.execution.explain_formats import render
from sqlwin.parser.base import is_word
from sqlwin.parser.parser import tokenize
from sqlwin.result import ExplainResult
from sqlwin.statements.nodes import Explain, SparkStatement
from sqlwin.statements.parameters import bind_parameters, check_parameters, used_in
from sqlwin.statements.parse import parse_statement
from sqlwin.statements.split import StatementText, split_script

if TYPE_CHECKING:
    from sqlwin.session import Session

# First words of Spark statements that later statements may depend on and that touch no rows
_PREPARING = tuple(
    "ADD ALTER COMMENT CREATE DECLARE DESC DESCRIBE DROP REFRESH RESET SET SHOW USE".split()
)
_QUERY_STARTS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")


def explain_scripts(
    session: Session,
    scripts: Sequence[Script],
    bar: ProgressBar,
    *,
    mode: str,
    analyze: bool,
) -> Iterator[str]:
    """Yield the explanations of all statements that read or write rows, in order.

    CREATE, DROP, SET and the like are executed, so that tables exist. CREATE TABLE AS creates no
    table. Statements that only Spark knows (VALUES, DELETE, ...) are explained by Spark. Queries
    and INSERTs run only to be analyzed.

    Args:
        session: Session to plan in.
        scripts: SQL to explain.
        bar: Progress bar to show meanwhile.
        mode: One of `sqlwin.execution.explain_formats.MODES`.
        analyze: Whether to run the statements and show measurements.

    Yields:
        In text mode, each explanation once it is ready. If there are several statements, a comment
            names the line of each. In other modes, one document of all statements at the end.

    Raises:
        SqlwinError: The SQL is invalid, or a run fails.
    """
    documents: list[QueryDocument] = []
    for script in scripts:
        with _errors_in_script(script, script.text, 0):
            pieces = split_script(script.text)
        for piece in pieces:
            with bar.waiting("Running" if analyze else "Planning"):
                queries = _queries(session, script, piece, analyze)
            documents += queries
            text = Document(queries).text.strip("\n")
            if text and mode == "text":
                title = f"-- line {piece.line}\n" if len(pieces) > 1 or len(scripts) > 1 else ""
                yield f"{title}{text}\n"
            if any(_was_interrupted(query) for query in queries):
                break  # Ctrl-C skips the following statements
        else:
            continue
        break
    if documents and mode != "text":
        yield render(Document(tuple(documents)), mode)


def _queries(
    session: Session, script: Script, piece: StatementText, analyze: bool
) -> tuple[QueryDocument, ...]:
    """Return the documents of a statement, empty if it was executed instead."""
    documents_of = SessionControl(session).query_documents
    params = None if script.params is None else used_in(piece.text, script.params)
    with _errors_in_script(script, piece.text, piece.offset):
        check_parameters(piece.text, params)
        try:
            statement = parse_statement(bind_parameters(piece.text, params).text)
        except SqlwinError:  # raised again, with its position in the script
            return documents_of(piece.text, params=params)
        inner = statement.statement if isinstance(statement, Explain) else statement
        if not isinstance(inner, SparkStatement) or _prepares(inner.text):
            return documents_of(piece.text, analyze=analyze, params=params)
    prefix = "" if inner is not statement else "EXPLAIN "
    text = prefix + piece.text
    with _errors_in_script(script, text, piece.offset - len(prefix)):
        (result,) = session.execute(text, params=params)
        is_plan = isinstance(result, ExplainResult)
        explained = result.text if is_plan else "\n".join(str(row[0]) for row in result.rows)
        return (QueryDocument(piece.text, explained),)


def _was_interrupted(query: QueryDocument) -> bool:
    stream = query.analysis.stream if query.analysis else None
    return stream is not None and stream.ended == "interrupt"


def _prepares(text: str) -> bool:
    """Return whether to execute a Spark statement because later ones may depend on it."""
    tokens = tokenize(text)
    if not any(is_word(tokens, 0, word) for word in _PREPARING):
        return False
    if not is_word(tokens, 0, "CREATE") or any(is_word(tokens, i, "VIEW") for i in (1, 2, 3, 4, 5)):
        return True
    depth = 0
    for i in range(len(tokens)):
        depth += is_word(tokens, i, "(") - is_word(tokens, i, ")")
        if depth == 0 and any(is_word(tokens, i, "AS", start) for start in _QUERY_STARTS):
            return False  # CREATE TABLE AS, which has rows
    return True


@contextmanager
def _errors_in_script(script: Script, text: str, offset: int) -> Iterator[None]:
    """Give errors in `text`, which starts at `offset`, their position in the script."""
    try:
        yield
    except SqlwinError as error:
        if error.sql is None or error.sql == text:
            error.with_source(script.text, script.file, offset)
        error.file = error.file or script.file
        raise
