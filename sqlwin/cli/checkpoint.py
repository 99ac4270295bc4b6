"""`sqlwin checkpoint`: looks into the checkpoints of streams."""

from __future__ import annotations

from typing import Any

import click

from sqlwin.cli.options import spark_options
from sqlwin.console.formats import FORMATS


@click.group(short_help="Look into the checkpoint of a stream.")
def checkpoint() -> None:
    """The checkpoints of streams, which `execution.checkpointing.dir` has a directory of each.

    \b
    Examples:
      sqlwin checkpoint show /data/checkpoints/totals
      sqlwin checkpoint show /data/checkpoints/totals --rows
    """  # noqa: D301


@checkpoint.command(short_help="Show what a stream keeps.")
@click.argument("directory")
@click.option("--rows", is_flag=True, help="Show the rows: keys, slices and aggregates.")
@click.option(
    "--operator",
    type=click.IntRange(min=0),
    metavar="N",
    help="With --rows, of a stream with several operators: which one.",
)
@click.option(
    "--version",
    type=click.IntRange(min=0),
    metavar="N",
    help="With --rows: after the micro-batch of this number, and not the last one.",
)
@spark_options
@click.option("--format", type=click.Choice(FORMATS), help="How rows are written, as in run.")
@click.option("--no-progress", is_flag=True, help="Show no progress bar.")
@click.option(
    "--no-engine", is_flag=True, help="Start a Spark, and leave the background engine alone."
)
@click.pass_context
def show(
    ctx: click.Context,
    /,
    directory: str,
    rows: bool,
    operator: int | None,
    version: int | None,
    **options: Any,
) -> None:
    """Show what the stream with the checkpoint in DIRECTORY keeps, whether it runs or not.

    Its operators, and of each what it keeps and how much: what SHOW STATE OF shows in SQL. With
    --rows the state itself, as TABLE(STATE('DIRECTORY')) has it in SQL.

    \b
    Examples:
      sqlwin checkpoint show /data/checkpoints/totals
      sqlwin checkpoint show /data/checkpoints/totals --rows --format csv
      sqlwin checkpoint show s3a://bucket/checkpoints/totals --rows --version 120
    """  # noqa: D301
    from planner.sql.render import quote_string

    numbers = {"operator": operator, "version": version}
    said = {name: number for name, number in numbers.items() if number is not None}
    if said and not rows:
        raise click.UsageError(f"--{next(iter(said))} is for --rows")
    text = quote_string(directory)
    sql = f"SHOW STATE OF {text}"
    if rows:
        arguments = ", ".join([text, *(f"{name} => {number}" for name, number in said.items())])
        sql = f"SELECT * FROM TABLE(STATE({arguments}))"
    root = ctx.find_root()
    assert isinstance(root.command, click.Group)
    run = root.command.commands["run"]
    ctx.invoke(
        run,
        files=(),
        expressions=(sql,),
        params=(),
        max_rows=None,
        latest=False,
        output=None,
        ui_port=None,
        **options,
    )
