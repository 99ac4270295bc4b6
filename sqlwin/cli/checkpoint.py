"""`sqlwin checkpoint`: shows and rescales checkpoints of streams."""

from __future__ import annotations

from typing import Any

import click

from sqlwin.cli.options import no_engine_option, no_progress_option, with_spark_options
from sqlwin.console.formats import FORMATS


@click.group(short_help="Look into the checkpoint of a stream, or rescale it.")
def checkpoint() -> None:
    """The checkpoints of streams, which `execution.checkpointing.dir` has a directory of each.

    \b
    Examples:
      sqlwin checkpoint show /data/checkpoints/totals
      sqlwin checkpoint show /data/checkpoints/totals --rows
      sqlwin checkpoint rescale /data/checkpoints/totals --partitions 8
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
@with_spark_options
@click.option("--format", type=click.Choice(FORMATS), help="How rows are written, as in run.")
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
    selected = {name: number for name, number in numbers.items() if number is not None}
    if selected and not rows:
        raise click.UsageError(f"--{next(iter(selected))} is for --rows")
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


@checkpoint.command(short_help="Spread a stream's state over another number of tasks.")
@click.argument("directory", metavar="DIR", type=click.Path())
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    required=True,
    metavar="N",
    help="How many tasks the stream is to have from now on.",
)
@no_progress_option
@with_spark_options
def rescale(directory: str, partitions: int, no_progress: bool, **spark: Any) -> None:
    """Spread the state of the stream with the checkpoint DIR over N tasks.

    The number of tasks is fixed when a stream starts with a new checkpoint. Stop the stream,
    rescale its checkpoint, and start it: it goes on where it stopped, and its rows are the same.
    Each task gets two key groups or more, for which those that are there are cut in halves.

    The state is written anew beside the old one, which counts until all is there, also if the
    command is killed. There has to be room for both.

    \b
    Examples:
      sqlwin checkpoint rescale /data/checkpoints/totals --partitions 8
      sqlwin checkpoint rescale hdfs:///checkpoints/totals --partitions 64 --master yarn
    """  # noqa: D301
    from sqlwin.cli.run import opened_session
    from sqlwin.execution.streams.checkpoint import rescale_checkpoint

    with opened_session(spark, no_progress=no_progress) as (session, bar):
        with bar.waiting("Rescaling"):
            done = rescale_checkpoint(session.spark, directory, partitions)
    before, after = done.before, done.after
    click.echo(
        f"{after.directory}: {before.partitions} tasks with {before.key_groups} key groups "
        f"have become {after.partitions} with {after.key_groups}",
        err=True,
    )
