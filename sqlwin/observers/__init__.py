"""Programs that follow a session's statements: tracing with OpenTelemetry, OpenLineage.

Each is configured by its own variables and imported only then. `add_listeners` decides; the other
modules import the libraries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlwin.control import SessionControl
from sqlwin.observers.variables import has_lineage, is_metered, is_traced

if TYPE_CHECKING:
    from sqlwin.session import Session


def add_listeners(session: Session) -> None:
    """Add the configured programs as followers of the session's statements.

    OpenTelemetry is configured by its variables, or by a program that has set a provider.

    Raises:
        MissingPackageError: A variable asks for a program that is not installed.
    """
    control = SessionControl(session)
    if is_traced():
        from sqlwin.observers.tracing import trace_statements

        trace_statements(control)
    if is_metered():
        from sqlwin.observers.meters import export_meters

        export_meters(session)
    if has_lineage():
        from sqlwin.observers.lineage import LineageEvents

        control.activity.listeners += (LineageEvents(control),)
