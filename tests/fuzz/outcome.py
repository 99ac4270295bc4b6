"""Runs a script in a session that must not start Spark, and judges its result or error."""

from __future__ import annotations

import faulthandler
import re
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlwin
from runtime.errors import ErrorKind
from sqlwin.control import SessionControl
from sqlwin.session import Session
from sqlwin.statements import nodes
from tests.unstarted import NeedsSparkError, unstarted_spark

# A run that takes longer hangs: statements have some hundred rows
LIMIT_S = 60
MAX_ROWS = 1_000
# Statements that change nothing outside the session
RUN = (
    nodes.Query,
    nodes.CreateView,
    nodes.Set,
    nodes.Reset,
    nodes.ShowNames,
    nodes.ShowStreams,
    nodes.ShowCreateTable,
    nodes.Describe,
    nodes.Summarize,
    nodes.Advise,
    nodes.SparkStatement,
)
EXPLAINED = (nodes.Insert, nodes.StatementSet)
# Words of the implementation that no message may have
INTERNAL = re.compile(
    r"Traceback|\w+Exception\b|\b[A-Z]\w+Error\b|org\.apache|java\.|scala\.|py4j|pyarrow|sqlglot"
    r"|NoneType|INTERNAL|[Uu]nresolved|toAttribute|<class|object at 0x|\$\w+|list index|dictionary|ndarray|numpy|internal error"
    r"|exp\.\w+|\bself\b|unhashable|not iterable|not subscriptable|no attribute",
)

PLACE_IN_FILE = re.compile(r"\S+, (line \d+, )?column `")


class HangError(BaseException):
    """A statement has run longer than the limit."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a script.

    Attributes:
        kind: `rows`, `error`, `spark` (left to Spark), or `fault`.
        text: Rows or message.
        cause: Exception behind a fault, or None.
    """

    kind: str
    text: str
    cause: BaseException | None = None


@contextmanager
def limited(seconds: float = LIMIT_S) -> Iterator[None]:
    """Raise `HangError` if the block takes too long; print the stacks if C code hangs."""

    def stop(_: int, __: Any) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(3 * seconds, exit=True)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


def new_session(before: tuple[str, ...] = ()) -> Session:
    """Return a session in which statements have run; those that fail are left out."""
    session = Session(unstarted_spark(), settings={})
    for text in before:
        try:
            statements = [s for _, s in SessionControl(session).statements(text, None, None)]
            if all(isinstance(s, nodes.CreateTable) and not s.as_query for s in statements):
                session.execute(text)
            elif all(isinstance(s, RUN) and not isinstance(s, nodes.Query) for s in statements):
                session.execute(text)
        except sqlwin.SqlwinError:
            continue
    return session


def judge(session: Session, text: str) -> Outcome:
    """Run a text and say whether a user sees rows, a good error, or a fault."""
    try:
        with limited():
            return Outcome("rows", _run(session, text))
    except NeedsSparkError:
        return Outcome("spark", "")
    except sqlwin.SqlwinError as error:
        fault = fault_of(error, text)
        if fault is not None:
            return Outcome("fault", f"{fault}: {str(error)[:600]}", error)
        return Outcome("error", str(error))
    except HangError:
        return Outcome("fault", "hangs")
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return Outcome("fault", f"{type(error).__name__}: {str(error)[:300]}", error)


def fault_of(error: sqlwin.SqlwinError, text: str) -> str | None:
    """Return the fault of an error, or None."""
    words = Counter(re.findall(r"[\w$.]+", text))
    report = str(error)
    # message, place, line, carets, hint
    if report.count("\n") > 4 or any(c < " " and c not in "\n\t" for c in report):
        return "report with control characters"
    for shown in (error.message, error.hint or ""):
        if len(shown) > 2_100:
            return "message without an end"
        for match in INTERNAL.finditer(shown):
            if match[0] not in words and match[0] not in text:
                return f"internal word {match[0]!r}"
    if error.position is None:
        if error.kind is ErrorKind.SYNTAX:
            return "syntax error without a place"
        names = re.findall(r"`((?:[^`]|``)+)`", error.message)
        # an error about a value of a file has its place there
        if not PLACE_IN_FILE.search(error.message) and any(
            re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) for name in names
        ):
            return "no place although the text has the name"
    else:
        lines = text.splitlines() or [""]
        # the place of an end of text is behind its last line
        if not 1 <= error.position.line <= text.count("\n") + len(lines) + 1:
            return "place outside of the text"
        if error.position.offset > len(text):
            return "place outside of the text"
    return None


def _run(session: Session, text: str) -> str:
    """Run what changes nothing outside the session, explain INSERTs, and parse the rest."""
    control = SessionControl(session)
    places, statements = [], []
    for place, statement in control.statements(text, None, None):
        places.append(place)
        statements.append(statement)
    kinds = [_run_kind(statement) for statement in statements]
    if "parse" in kinds:
        return ""
    if "explain" in kinds:
        return session.explain(text)
    if all(isinstance(s, nodes.Query) for s in statements):
        session.explain(text)
    for place, statement in zip(places, statements, strict=True):
        if isinstance(statement, nodes.Query):
            try:
                control.simulated(statement)
            except NeedsSparkError:
                pass  # the types of its expressions
            except sqlwin.SqlwinError as error:
                error = place.with_position(error)
                fault = fault_of(error, text)
                assert fault is None, f"as a stream: {fault}: {error}"
    shown = []
    for result in session.execute_iter(text):
        shown.append(str(result.to_arrow(MAX_ROWS)))
    return "\n".join(shown)


def _run_kind(statement: nodes.Statement) -> str:
    if isinstance(statement, nodes.Explain):
        inner = _run_kind(statement.statement)
        return inner if "ANALYZE" not in statement.details else "parse"
    if isinstance(statement, nodes.CreateTable):
        return "run" if statement.as_query is None else "parse"
    if isinstance(statement, EXPLAINED):
        return "explain"
    return "run" if isinstance(statement, RUN) else "parse"
