"""`sqlwin repl`: the interactive prompt."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from sqlwin.console.formats import FORMATS
from sqlwin.console.options import (
    connect,
    no_progress_option,
    parameter_option,
    with_spark_options,
)
from sqlwin.console.scripts import read_scripts


@click.command()
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Run this file first; the prompt appears at once. Repeatable.",
)
@click.option(
    "-e", "expressions", multiple=True, metavar="SQL", help="Run this SQL first. Repeatable."
)
@parameter_option
@with_spark_options
@click.option(
    "--format", type=click.Choice(FORMATS), default="table", help="Output format of rows."
)
@click.option(
    "--max-rows",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    metavar="N",
    help="Maximum rows to show in a table; 0: all.",
)
@click.option(
    "--keys",
    type=click.Choice(["emacs", "vi"]),
    default="emacs",
    envvar="SQLWIN_KEYS",
    help="Key bindings of the prompt. Also set by SQLWIN_KEYS.",
)
@no_progress_option
def repl(
    files: Sequence[str],
    expressions: Sequence[str],
    params: Sequence[tuple[str, str]],
    format: str,
    max_rows: int,
    keys: str,
    no_progress: bool,
    **spark: Any,
) -> None:
    """Run SQL interactively.

    End a statement with ; to run it. Spark starts with the first statement that needs it. Ctrl-C
    cancels the running statement, Ctrl-D quits.

    At the prompt, \\? lists the commands (\\d describes tables, \\i runs a file, \\x shows one line
    per value ...), and Tab completes tables, columns, functions, settings and files. The history
    is in ~/.local/state/sqlwin/history, or in the file SQLWIN_HISTORY.

    \b
    Examples, from the project's root:
      sqlwin repl
      sqlwin repl --file queries/quickstart.sql
      sqlwin repl -e "CREATE TABLE flights WITH ('connector' = 'filesystem',
                      'path' = 'queries/data/flights.parquet', 'format' = 'parquet')"
      sqlwin repl --master "local[8]" --conf spark.driver.memory=8g --keys vi
    """  # noqa: D301
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError(
            "sqlwin repl requires a terminal; to run SQL from a pipe, use sqlwin run"
        )
    scripts = read_scripts(files, ()) if files else []

    from sqlwin.repl.app import Repl
    from sqlwin.repl.commands import ReplOptions

    options = ReplOptions(format=format, max_rows=max_rows or None, keys=keys, params=dict(params))
    Repl(partial(connect, spark), options, progress=not no_progress).run(scripts, expressions)
