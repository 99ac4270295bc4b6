"""`sqlwin refresh`: updates materialized tables, for schedulers."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.sql.render import quote_string
from runtime.names import quote_name
from sqlwin.console.formats import elapsed_text
from sqlwin.console.scripts import read_scripts
from sqlwin.control import SessionControl
from sqlwin.display.progress import ProgressBar
from sqlwin.statements.nodes import Advise, Explain, Insert, Query, StatementSet, Summarize
from sqlwin.statements.parameters import bind_parameters
from sqlwin.statements.parse import read_statement
from sqlwin.statements.split import SqlScript, split_script

if TYPE_CHECKING:
    from sqlwin.session import Session

# Statements that a script may contain besides definitions, and that a refresh skips
_NOT_RUN = (Advise, Explain, Insert, Query, StatementSet, Summarize)
# Messages for tables that are not refreshed, by status
_LEFT_OUT = {
    "suspended": "suspended, skipped",
    "continuous": "continuous, skipped: INSERT adds its rows",
}
# A directory in an object store
_STORED = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def refresh_all(session: Session, targets: Sequence[str], bar: ProgressBar) -> None:
    """Refresh materialized tables one after the other, and print what each refresh did.

    Args:
        session: Session to refresh in.
        targets: Names and directories of materialized tables, and scripts that define some.
        bar: Progress bar to show meanwhile.

    Raises:
        SqlwinError: A table does not exist, or a refresh fails.
    """
    for target in targets:
        for name in _names(session, target):
            left_out = _LEFT_OUT.get(_statuses(session).get(name.lower(), ""))
            if left_out is not None:
                click.echo(f"`{name}` is {left_out}", err=True)
                continue
            started = time.monotonic()
            table = quote_name(*name.split("."))
            with bar.waiting(f"Refreshing {name}"):
                (result,) = session.execute(f"ALTER MATERIALIZED TABLE {table} REFRESH")
            click.echo(f"{result.message} ({elapsed_text(started)})", err=True)
            for note in result.notes:
                click.echo(f"note: {note}", err=True)


def _names(session: Session, target: str) -> list[str]:
    """Open the materialized tables of a target and return their names."""
    is_stored = _STORED.match(target) is not None
    if is_stored or os.path.isdir(target):
        path = target.rstrip("/") if is_stored else os.path.abspath(target)
        name = os.path.basename(path)
        if name.lower() not in _statuses(session):
            options = f"WITH ('path' = {quote_string(path)})"
            session.execute(f"CREATE MATERIALIZED TABLE {quote_name(name)} {options}")
        return [name]
    if not Path(target).is_file():
        return [target]
    before = _statuses(session)
    (script,) = read_scripts([target], (), ())
    for part in split_script(script.text):
        if not isinstance(read_statement(bind_parameters(part, None), part.offset), _NOT_RUN):
            one = SqlScript(script.text, (part,))
            for _ in SessionControl(session).run_script(one, script.file, None):
                pass
    names = [name for name in _statuses(session) if name not in before]
    if not names:
        click.echo(f"{target} defines no materialized table", err=True)
    return names


def _statuses(session: Session) -> dict[str, str]:
    """Return the status of each materialized table, by lower-case name."""
    (shown,) = session.execute("SHOW MATERIALIZED TABLES")
    assert shown.table is not None
    rows = shown.table.to_pylist()
    return {row["materialized table"].lower(): row["status"] for row in rows}
