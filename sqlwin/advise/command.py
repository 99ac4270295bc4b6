"""`sqlwin advise`: which delay the watermark of a query should have."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from sqlwin.console.options import parameter_option, with_spark_options
from sqlwin.console.scripts import read_scripts

FAILED = 1


@click.command(short_help="Say which delay the watermark of a query should have.")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(allow_dash=True))
@click.option("-e", "expressions", multiple=True, metavar="SQL", help="SQL, after the files.")
@click.option(
    "--arrival",
    metavar="COLUMN",
    help="Column with the time at which a row arrived. By default the time of a Kafka message, "
    "or at which a file was modified.",
)
@click.option(
    "--partition",
    metavar="COLUMN",
    help="Column with the partition of a row, which has a watermark of its own. By default the "
    "partition of a Kafka message.",
)
@click.option(
    "--every",
    default="1 s",
    show_default=True,
    metavar="DURATION",
    help="Time between micro-batches. With 0 s, each time of arrival has its own.",
)
@click.option(
    "--delay",
    "delays",
    multiple=True,
    metavar="DURATION",
    help="Try this delay, too, such as '90 s'. Repeatable.",
)
@click.option(
    "--replay",
    "replays",
    is_flag=True,
    help="Run the operators of the stream with the shortest delays, and compare which rows they "
    "drop.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json", "chart", "html"]),
    default="table",
    show_default=True,
    help="Format of the output; html is a page with charts for the browser.",
)
@parameter_option
@with_spark_options
def advise(
    files: Sequence[str],
    expressions: Sequence[str],
    arrival: str | None,
    partition: str | None,
    every: str,
    delays: Sequence[str],
    replays: bool,
    output_format: str,
    params: Sequence[tuple[str, str]],
    **spark: Any,
) -> None:
    """Read the history of a query's table in its order of arrival and say what delays would drop.

    FILE has the tables and, as its last query, windows over one of them. For delays
    of 0 s to a day the table shows the rows that a stream would drop, the windows that would miss
    rows, how long results would wait, and the most partials in state. The statement ADVISE returns
    the same as rows.

    \b
    Examples, from the project's root:
      sqlwin advise --arrival left_at --every '1 min' queries/testing/delayed_departures.sql
      sqlwin advise --arrival left_at --format json queries/testing/delayed_departures.sql
      sqlwin advise --arrival left_at --format html queries/testing/delayed_departures.sql

    Exits with 1 if a replay drops other rows than predicted.
    """  # noqa: D301 (click's mark is the character \b itself)
    from rich.console import Console

    from runtime.errors import AnalysisError, SqlwinError
    from sqlwin.advise.advice import replay
    from sqlwin.advise.page import advice_page
    from sqlwin.advise.report import advice_as_json, advice_result, print_advice
    from sqlwin.console.options import connect
    from sqlwin.control import SessionControl
    from sqlwin.display.charts.text import write_chart

    given = {"arrival": arrival, "partition": partition, "every": every, "delay": ",".join(delays)}
    options = {name: value for name, value in given.items() if value}
    scripts = read_scripts(files, expressions, params)
    with connect(spark) as session:
        control = SessionControl(session)
        last = None
        for script in scripts:
            last = control.last_query(
                script.source,
                script.file,
                script.params,
                ignored=("execution.runtime-mode",),
            )
        if last is None:
            raise AnalysisError("the script has no query", hint="its last query is advised")
        place, query = last
        try:
            advice = control.advice(query, options)
        except SqlwinError as error:
            raise place.with_position(error) from error
    tried = (*advice.shortest_us, *advice.extra_us, advice.current_us) if replays else ()
    outcomes = [replay(advice, delay_us) for delay_us in dict.fromkeys(tried)]
    if output_format == "json":
        click.echo(json.dumps(advice_as_json(advice, outcomes), indent=2))
    elif output_format == "chart":
        table, _ = advice_result(advice)
        write_chart(table.column_names, table.to_batches(), partial(click.echo, nl=False))
    elif output_format == "html":
        click.echo(advice_page(advice, outcomes))
    else:
        print_advice(advice, outcomes, Console(highlight=False))
    if not all(outcome.agrees for outcome in outcomes):
        sys.exit(FAILED)
