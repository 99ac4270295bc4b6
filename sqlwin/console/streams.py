"""Streams that `sqlwin run` started: waiting for them, and stopping them on Ctrl-C."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click
from rich.console import Console

from runtime.spark.session import forget_connection
from sqlwin.display.status_line import StatusLine
from sqlwin.execution.streams.handle import Stream, StreamState, apart
from sqlwin.execution.streams.status import how_to_resume, status_line

if TYPE_CHECKING:
    from sqlwin.session import Session

_POLL_SECONDS = 0.2


def wait_for_streams(session: Session) -> None:
    """Wait for the streams that INSERTs left running, with a status line on the terminal."""
    while running := session.streams.running():
        names = ", ".join(f"{s.number} (`{s.setup.name}`)" for s in running)
        click.echo(f"running until Ctrl-C: stream {names}", err=True)

        def text(streams: list[Stream] = running) -> str | None:
            return "  |  ".join(status_line(stream) for stream in streams)

        with StatusLine(Console(stderr=True), text) as status, status.waiting():
            while not any(stream.wait(0) for stream in running):
                time.sleep(_POLL_SECONDS)


def stop_streams(session: Session) -> None:
    """Stop all streams after their current micro-batches, and print how to resume."""
    forget_connection(session.spark)
    apart(lambda: _stop_streams(session))


def _stop_streams(session: Session) -> None:
    if running := session.streams.running():
        click.echo("stopping after this micro-batch; press Ctrl-C again to stop at once", err=True)
    for stream in session.streams.all():
        if stream in running:
            stream.stop()
            if failure := stream.failure():
                click.echo(
                    f"stream {stream.number} (`{stream.setup.name}`) failed: {failure}", err=True
                )
        if stream.state is StreamState.STOPPED:
            click.echo(f"stream {stream.number} (`{stream.setup.name}`) stopped", err=True)
            click.echo(f"  {how_to_resume(stream)}", err=True)
