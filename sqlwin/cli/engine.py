"""`sqlwin engine`: the background engine that runs `sqlwin run` and `sqlwin explain`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from sqlwin.console.failures import ARGUMENTS
from sqlwin.console.scripts import Script
from sqlwin.engine import client
from sqlwin.engine.place import idle_seconds


def run_in_engine(
    options: dict[str, Any], scripts: Sequence[Script], *, starts: bool = True
) -> None:
    """Run the current command in the engine and exit. Return if it has to run in this process.

    Args:
        options: Options of the command.
        scripts: SQL to run.
        starts: Whether to start an engine if none is running.
    """
    if client.unfit(options, [script.text for script in scripts]) is not None:
        return
    arguments = click.get_current_context().find_root().meta[ARGUMENTS]
    code = client.run(
        arguments,
        [(script.text, script.file) for script in scripts],
        [key for key, _ in options["conf"]],
        partial(_starting_bar, options["no_progress"]) if starts else None,
        _say_left,
    )
    if code is not None:
        sys.exit(code)


@contextmanager
def _starting_bar(no_progress: bool) -> Iterator[None]:
    """Show a progress bar while Spark starts."""
    from rich.console import Console

    from sqlwin.display.progress import ProgressBar

    progress = ProgressBar(Console(stderr=True), enabled=not no_progress)
    with progress, progress.waiting("Starting Spark"):
        yield


def _say_left() -> None:
    """Print a note that Spark keeps running, which users do not expect after a command."""
    click.echo(
        "note: Spark keeps running in the background for later commands, until it is idle for "
        f"{_time(idle_seconds())} (stop it with `sqlwin engine stop`, disable it with "
        "SQLWIN_ENGINE=off)",
        err=True,
    )


@click.group(short_help="Show, start or stop the background engine.")
def engine() -> None:
    """Manage the background engine, a running Spark that waits for the next command.

    The first `sqlwin run` starts the engine, and later commands take one or two seconds instead of
    ten. Each command has its own directory, environment, tables and settings.

    The engine runs one command at a time. Other commands meanwhile start their own Spark. So do
    systemd services, and commands with --no-engine, --master, --remote, or a --conf that Spark
    reads only at its start.

    The engine exits on `sqlwin engine stop`, after 15 minutes without work (SQLWIN_ENGINE_IDLE),
    and when another version replaces sqlwin. To disable it, set SQLWIN_ENGINE=off or CI in the
    environment. The engine needs Linux.

    \b
    Examples:
      sqlwin engine start
      sqlwin engine status
      sqlwin engine stop
    """  # noqa: D301


@engine.command(short_help="Show running engines.")
def status() -> None:
    """Show the running engines of this user."""
    engines = client.status()
    for info in engines:
        ours = "" if info["ours"] else ", of another version or environment"
        idle = info["idle_seconds"]
        left = "" if idle is None else f", exits in {_time(info['idle_limit'] - idle)} if idle"
        click.echo(
            f"engine {info['pid']} (sqlwin {info['version']}{ours}): {info['state']}; "
            f"{info['runs']} runs in {_time(info['seconds'])}{left}\n  log: {info['log']}"
        )
    if not engines:
        click.echo("no engine is running")


@engine.command(short_help="Start the engine unless it is running.")
def start() -> None:
    """Start the engine of this environment, and wait until it is ready."""
    if sys.platform != "linux":
        raise click.ClickException("the engine requires Linux")
    reason = client.start()
    if reason is not None:
        raise click.ClickException(f"the engine did not start: {reason}")
    click.echo("the engine is ready")


@engine.command(short_help="Stop the engine.")
def stop() -> None:
    """Stop the engines of this user: immediately, or after the command that is running."""
    engines = client.stop()
    for answer in engines:
        when = "will stop after its command" if answer["idle_seconds"] is None else "is stopping"
        click.echo(f"engine {answer['pid']} {when}")
    if not engines:
        click.echo("no engine is running")


def _time(seconds: float) -> str:
    return f"{max(0, round(seconds))} s" if seconds < 90 else f"{round(seconds / 60)} min"
