"""`sqlwin checkpoint`: shows and rescales checkpoints of streams."""

from __future__ import annotations

from typing import Any

import click

from sqlwin.console.formats import FORMATS
from sqlwin.console.options import no_engine_option, no_progress_option, with_spark_options


@click.group(short_help="Inspect or rescale the checkpoint of a stream.")
def checkpoint() -> None:
    """Inspect or rescale the checkpoints of streams, in `execution.checkpointing.dir`.

    \b
    Examples:
      sqlwin checkpoint show /data/checkpoints/totals
      sqlwin checkpoint show /data/checkpoints/totals --rows
      sqlwin checkpoint rescale /data/checkpoints/totals --partitions 8
    """  # noqa: D301


@checkpoint.command(short_help="Show the state of a stream.")
@click.argument("directory")
@click.option(
    "--rows", is_flag=True, help="Show the rows of the state: keys, slices and aggregates."
)
@click.option(
    "--operator",
    type=click.IntRange(min=0),
    metavar="N",
    help="With --rows: number of the operator, if the stream has several.",
)
@click.option(
    "--version",
    type=click.IntRange(min=0),
    metavar="N",
    help="With --rows: show the state after micro-batch N. Default: the last one.",
)
@with_spark_options
@click.option("--format", type=click.Choice(FORMATS), help="Output format of rows, as in run.")
@no_progress_option
@no_engine_option
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
    """Show the state of the stream with the checkpoint DIRECTORY, whether it is running or not.

    Lists the operators of the stream, with the content and size of their state, like SHOW STATE OF
    in SQL. With --rows, shows the rows of the state, like TABLE(STATE('DIRECTORY')) in SQL.

    \b
    Examples:
      sqlwin checkpoint show /data/checkpoints/totals
      sqlwin checkpoint show /data/checkpoints/totals --rows --format csv
      sqlwin checkpoint show s3a://bucket/checkpoints/totals --rows --version 120
    """  # noqa: D301
    from planner.sql.render import quote_string

    numbers = {"operator": operator, "version": version}
    selected = {name: number for name, number in numbers.items() if number is not None}
    if selected and not rows:
        raise click.UsageError(f"--{next(iter(selected))} requires --rows")
    text = quote_string(directory)
    sql = f"SHOW STATE OF {text}"
    if rows:
        arguments = ", ".join([text, *(f"{name} => {number}" for name, number in selected.items())])
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


@checkpoint.command(short_help="Change the number of tasks of a stream.")
@click.argument("directory", metavar="DIR", type=click.Path())
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    required=True,
    metavar="N",
    help="New number of tasks of the stream.",
)
@no_progress_option
@with_spark_options
def rescale(directory: str, partitions: int, no_progress: bool, **spark: Any) -> None:
    """Distribute the state of the stream with the checkpoint DIR over N tasks.

    The number of tasks is fixed when a stream starts with a new checkpoint. To change it, stop the
    stream, rescale its checkpoint, and start the stream again. It resumes where it stopped and
    emits the same rows. Each task gets at least two key groups; existing key groups are split in
    half as needed.

    The command writes a new copy of the state, which replaces the old one when it is complete. If
    the command is killed, the old state remains valid. There must be space for both copies.

    \b
    Examples:
      sqlwin checkpoint rescale /data/checkpoints/totals --partitions 8
      sqlwin checkpoint rescale hdfs:///checkpoints/totals --partitions 64 --master yarn
    """  # noqa: D301
    from sqlwin.cli.run import open_session
    from sqlwin.execution.streams.checkpoint import rescale_checkpoint

    with open_session(spark, no_progress=no_progress) as (session, bar):
        with bar.waiting("Rescaling"):
            result = rescale_checkpoint(session.spark, directory, partitions)
    before, after = result.before, result.after
    click.echo(
        f"{after.directory}: rescaled from {before.partitions} tasks with {before.key_groups} key "
        f"groups to {after.partitions} with {after.key_groups}",
        err=True,
    )
