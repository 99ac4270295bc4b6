"""`sqlwin explain`: plans of a script's queries, with measurements for --analyze."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from planner.explain.document import Document, QueryDocument
from runtime.errors import SqlwinError
from sqlwin.console.explained_rows import explain_row_text
from sqlwin.console.scripts import Script
from sqlwin.control import SessionControl
from sqlwin.display.progress import ProgressBar
from sqlwin.execution.explain_formats import render
from sqlwin.result import ExplainResult
from sqlwin.statements.split import SqlScript, StatementText, split_script

if TYPE_CHECKING:
    from sqlwin.session import Session


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
        pieces = _statements(script)
        for piece in pieces:
            with bar.waiting("Running" if analyze else "Planning"):
                queries = SessionControl(session).query_documents(
                    SqlScript(script.text, (piece,)),
                    script.file,
                    analyze=analyze,
                    values=script.params,
                )
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


def explain_row(
    session: Session,
    scripts: Sequence[Script],
    bar: ProgressBar,
    condition: str,
    *,
    lists_rows: bool,
) -> Iterator[str]:
    """Yield from which rows a row of the last query or INSERT is computed, if there is one.

    Args:
        session: Session to run the other statements in.
        scripts: SQL.
        bar: Progress bar to show meanwhile.
        condition: Condition over the query's columns that selects the row.
        lists_rows: Whether to list the rows.

    Raises:
        SqlwinError: The SQL or the condition is invalid, or the row cannot be traced.
    """
    control, last = SessionControl(session), None
    with bar.waiting("Running"):
        for script in scripts:
            last = control.last_query(script.source, script.file, script.params) or last
        if last is not None:
            text = explain_row_text(last[1], condition, lists_rows=lists_rows)
            (result,) = session.execute(text)
            assert isinstance(result, ExplainResult)
            yield f"{result.text}\n"


def _statements(script: Script) -> Sequence[StatementText]:
    if script.tokenized is not None:
        return script.tokenized.statements
    try:
        return split_script(script.text)
    except SqlwinError as error:
        raise error.with_source(script.text, script.file) from error


def _was_interrupted(query: QueryDocument) -> bool:
    stream = query.analysis.stream if query.analysis else None
    return stream is not None and stream.ended == "interrupt"
