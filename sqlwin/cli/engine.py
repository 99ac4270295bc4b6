"""`sqlwin engine`: the background engine that runs `sqlwin run` and `sqlwin explain`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from sqlwin.console.failures import SAID_ARGUMENTS
from sqlwin.console.scripts import Script
from sqlwin.engine import client
from sqlwin.engine.place import idle_seconds


def run_in_engine(
    options: dict[str, Any], scripts: Sequence[Script], *, starts: bool = True
) -> None:
    """Run the current command in the engine and exit. Return if it has to run here.

    Args:
        options: Options of the command.
        scripts: SQL to run.
        starts: Whether to start an engine if none is running.
    """
    if client.unfit(options, [script.text for script in scripts]) is not None:
        return
    arguments = click.get_current_context().find_root().meta[SAID_ARGUMENTS]
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
    """Show that Spark is starting."""
    from rich.console import Console

    from sqlwin.display.progress import ProgressBar

    progress = ProgressBar(Console(stderr=True), enabled=not no_progress)
    with progress, progress.waiting("Starting Spark"):
        yield


def _say_left() -> None:
    """Print that a process stays behind, which users do not expect of a command."""
    click.echo(
        f"note: Spark stays in the background for the next commands, until {_time(idle_seconds())} "
        "without one (`sqlwin engine stop` ends it, SQLWIN_ENGINE=off prevents it)",
        err=True,
    )


@click.group(short_help="Show, start or stop the background engine.")
def engine() -> None:
    """The background engine: a Spark that is there for the next command.

    The first `sqlwin run` starts it, and those after it take a second or two instead of ten. Each
    command has its own directory, environment, tables and settings in it. While it runs one
    command, others start a Spark of their own, as do those with --no-engine, --master, --remote, or
    with a --conf that Spark takes at its start only, and services of systemd. It ends after 15
    minutes without work (SQLWIN_ENGINE_IDLE), when sqlwin is replaced by another version, and by
    `sqlwin engine stop`. SQLWIN_ENGINE=off, and CI in the environment, switch it off. Only on
    Linux.

    \b
    Examples:
      sqlwin engine start
      sqlwin engine status
      sqlwin engine stop
    """  # noqa: D301


@engine.command(short_help="Show what runs.")
def status() -> None:
    """Show the engines of this user's, one a line."""
    engines = client.status()
    for info in engines:
        ours = "" if info["ours"] else ", of another version or environment"
        idle = info["idle_seconds"]
        left = "" if idle is None else f", ends in {_time(info['idle_limit'] - idle)} without work"
        click.echo(
            f"engine {info['pid']} (sqlwin {info['version']}{ours}): {info['state']}; "
            f"{info['runs']} runs since {_time(info['seconds'])} ago{left}\n  log: {info['log']}"
        )
    if not engines:
        click.echo("no engine runs")


@engine.command(short_help="Start it, if it does not run.")
def start() -> None:
    """Start the engine for the commands of this environment, and wait until it is ready."""
    if sys.platform != "linux":
        raise click.ClickException("the engine is for Linux")
    reason = client.start()
    if reason is not None:
        raise click.ClickException(f"the engine does not start: {reason}")
    click.echo("the engine is ready")


@engine.command(short_help="Let it end.")
def stop() -> None:
    """Let the engines of this user's end: at once, or when the command that runs is done."""
    engines = client.stop()
    for answer in engines:
        when = "ends with the command that it runs" if answer["idle_seconds"] is None else "ends"
        click.echo(f"engine {answer['pid']} {when}")
    if not engines:
        click.echo("no engine runs")


def _time(seconds: float) -> str:
    return f"{max(0, round(seconds))} s" if seconds < 90 else f"{round(seconds / 60)} min"
