"""Commands of `sqlwin`. They import PySpark and PyArrow only when needed."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from sqlwin.cli.checkpoint import checkpoint
from sqlwin.cli.engine import engine, run_in_engine
from sqlwin.cli.java import may_need_no_spark
from sqlwin.cli.repl import repl
from sqlwin.console.failures import ReportingGroup
from sqlwin.console.formats import EXPLAIN_FORMAT_OF_SUFFIX, FORMAT_OF_SUFFIX, FORMATS
from sqlwin.console.options import (
    PageCommand,
    begin_java,
    no_progress_option,
    page_option,
    serve_page,
    sql_options,
    with_spark_options,
)
from sqlwin.console.scripts import read_scripts
from sqlwin.parts import COMMANDS, load_part

if TYPE_CHECKING:
    from sqlwin.display.output import AtomicFile

# New objects before the first garbage collection. Modules and a small query make 150,000.
_OBJECTS_BEFORE_COLLECTIONS = 500_000
# New objects before each later collection; Python's default is 700
_OBJECTS_OF_A_COLLECTION = 50_000


def _postpone_collections() -> None:
    """Let short commands exit before the first garbage collection.

    Modules and plans live as long as the process. Visiting them takes a tenth of a short command's
    time, and up to a second at its end.
    """

    def collect_more_often(phase: str, info: dict[str, int]) -> None:
        gc.set_threshold(_OBJECTS_OF_A_COLLECTION)
        gc.callbacks.remove(collect_more_often)

    gc.set_threshold(_OBJECTS_BEFORE_COLLECTIONS)
    gc.callbacks.append(collect_more_often)
    atexit.register(gc.freeze)


def _version(ctx: click.Context, param: click.Parameter, is_requested: bool) -> None:
    if not is_requested or ctx.resilient_parsing:
        return
    from sqlwin import __version__

    click.echo(f"sqlwin {__version__}")
    ctx.exit()


class CommandGroup(ReportingGroup):
    """Command group whose commands of parts are imported when they are named, or for `--help`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted({*super().list_commands(ctx), *COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or None for an unknown name."""
        if cmd_name in COMMANDS:
            return cast(click.Command, load_part(cmd_name))
        return super().get_command(ctx, cmd_name)


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Window table functions (TUMBLE, HOP, CUMULATE, SESSION) in SQL, on Apache Spark.

    \b
    Examples, from the project's root:
      sqlwin run queries/quickstart.sql
      sqlwin run -e "CREATE TABLE flights WITH ('connector' = 'filesystem',
                       'path' = 'queries/data/flights.parquet')" \\
                 -e "SELECT window_end, COUNT(*) AS n
                     FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '91' DAYS))
                     GROUP BY window_end ORDER BY window_end"
      sqlwin explain queries/quickstart.sql
      sqlwin repl --file queries/quickstart.sql
      sqlwin functions HOP

    \b
    Exit codes:
      0    success
      1    error in the SQL
      2    error in the command line
      3    failure while running
      130  interrupted (Ctrl-C); 143 by SIGTERM
    """  # noqa: D301 (click's mark is the character \b itself)
    _postpone_collections()


@main.command(cls=PageCommand, short_help="Run SQL from files, -e or standard input.")
@sql_options
@page_option
@click.option(
    "--format",
    type=click.Choice(FORMATS),
    help="Output format of rows. Default: from the suffix of --output (.csv, .json, .jsonl, .md, "
    ".txt), otherwise a table on a terminal and CSV elsewhere.",
)
@click.option(
    "--max-rows",
    type=click.IntRange(min=0),
    metavar="N",
    help="Maximum rows to show in a table; 0: all. Default: 40 on a terminal, all elsewhere. "
    "If given, it also stops a stream after N rows. Tables are held in memory, other formats are "
    "not.",
)
@click.option(
    "--latest",
    is_flag=True,
    help="On a terminal, show only the latest window of each key of a stream, and update it in "
    "place.",
)
def run(
    files: Sequence[str],
    expressions: Sequence[str],
    params: Sequence[tuple[str, str]],
    format: str | None,
    max_rows: int | None,
    latest: bool,
    output: str | None,
    no_progress: bool,
    ui_port: int | None,
    **spark: Any,
) -> None:
    """Run the SQL of each FILE or -e, in order, in one session.

    Use - as FILE for standard input, which is also the default without FILE and -e. Rows go to
    standard output or --output, messages and progress to standard error.

    A blank line separates results, except in jsonl. A JSON file (--format json with --output) can
    contain only one result.

    A query over an unbounded source prints rows as windows close. An INSERT from an unbounded
    source runs in the background while the remaining statements run, and then until Ctrl-C. Ctrl-C
    waits for the current micro-batch and prints how to resume. On a terminal, a status line shows
    the progress of streams.

    \b
    Representation of values:
      NULL       empty in CSV (the empty string is ""), null in JSON, NULL in a table
      timestamp  2013-01-01T05:15:00, with the offset from UTC for TIMESTAMP_LTZ
      decimal    all digits, also in JSON (as a number)
      NaN        NaN, Infinity, -Infinity; strings in JSON
      binary     hexadecimal digits; base64 in JSON
      nested     JSON, also in CSV

    \b
    Examples, from the project's root:
      sqlwin run queries/quickstart.sql
      sqlwin run -e "SET 'table.local-time-zone' = 'Europe/Berlin'" -e "SELECT now() AS here"
      sqlwin run queries/quickstart.sql --format jsonl | head -n 1
      sqlwin run queries/windows/tumble.sql --output tumble.csv
      sqlwin run queries/streaming/cumulative_daily_totals.sql --ui
      sqlwin run queries/quickstart.sql --master "local[8]" --conf spark.driver.memory=8g
      sqlwin run -e "SELECT :n * 7 AS answer, :who AS said" --param n=6 --param who="Deep Thought"
      echo "SELECT 6 * 7 AS answer" | sqlwin run
    """  # noqa: D301
    scripts = read_scripts(files, expressions, params)
    is_terminal = output is None and sys.stdout.isatty()
    if format is None:
        suffix = Path(output or "").suffix.lower()
        format = FORMAT_OF_SUFFIX.get(suffix, "table" if is_terminal else "csv")
    if max_rows is not None and format != "table":
        raise click.UsageError(f"--max-rows requires --format table, not {format}")
    if latest and not (is_terminal and format == "table"):
        raise click.UsageError("--latest requires a table on a terminal")
    may_wait = may_need_no_spark(scripts, spark)
    options = {**spark, "output": output, "no_progress": no_progress}
    run_in_engine(options, scripts, starts=not may_wait)
    if not may_wait:
        begin_java(spark)

    from sqlwin.cli.run import ScriptPresenter, open_session, run_scripts
    from sqlwin.display.table import DEFAULT_MAX_ROWS

    stream_rows = max_rows or None
    if max_rows is None and is_terminal:
        max_rows = DEFAULT_MAX_ROWS
    with ExitStack() as stack:
        file = _output_file(stack, output)
        session, bar = stack.enter_context(open_session(spark, no_progress=no_progress))
        serve_page(session, ui_port)
        presenter = ScriptPresenter(
            format, max_rows or None, file, bar, stream_rows, shows_latest=latest
        )
        run_scripts(session, scripts, presenter)


@main.command(short_help="Show plans, and measure them with --analyze.")
@sql_options
@click.option(
    "--format",
    type=click.Choice(["text", "json", "mermaid", "dot", "html"]),
    help="Output format of the plan: text, one JSON document, a diagram for Mermaid or Graphviz, "
    "or a self-contained web page. Default: from the suffix of --output (.json, .mmd, .dot, "
    ".html), otherwise text.",
)
@click.option(
    "--analyze",
    is_flag=True,
    help="Run the queries and INSERTs, and show rows, bytes, time and memory of each operator.",
)
@click.option(
    "--for",
    "duration",
    metavar="TIME",
    help="With --analyze: how long to run a stream with unbounded input, such as 1min or '90 s'. "
    "Default: 30 s; 0: until Ctrl-C. Sets sqlwin.analyze.duration.",
)
@click.option(
    "--row",
    "condition",
    metavar="CONDITION",
    help="Instead of plans, show from which rows the row of the last query is computed that the "
    "condition selects, such as \"k = 'a' AND window_end = TIMESTAMP '...'\".",
)
@click.option("--rows", "lists_rows", is_flag=True, help="With --row: list the rows, too.")
def explain(
    files: Sequence[str],
    expressions: Sequence[str],
    params: Sequence[tuple[str, str]],
    format: str | None,
    analyze: bool,
    duration: str | None,
    condition: str | None,
    lists_rows: bool,
    output: str | None,
    no_progress: bool,
    **spark: Any,
) -> None:
    """Show the plan of every query and INSERT of each FILE or -e, without running it.

    With --analyze, the statements run: rows of queries are discarded, but INSERTs write theirs. A
    stream runs to the end of its input, for the time of --for, or until Ctrl-C. The measurements
    cover the time until then.

    CREATE, DROP, USE, SET and similar statements are executed, so that tables exist. CREATE TABLE
    ... AS is explained without creating the table, so statements that read the table cannot be
    explained in the same run.

    `sqlwin compile` prints queries as SQL of another engine.

    \b
    Examples, from the project's root:
      sqlwin explain queries/quickstart.sql
      sqlwin explain queries/quickstart.sql --analyze
      sqlwin explain queries/quickstart.sql --analyze --output plan.html
      sqlwin explain queries/streaming/live_dashboard.sql --analyze --for 10s
      sqlwin explain -e "SELECT * FROM range(10)"
      sqlwin explain queries/windows/hop.sql --set table.optimizer.agg-phase-strategy=ONE_PHASE
    """  # noqa: D301
    if duration is not None:
        if not analyze:
            raise click.UsageError("--for requires --analyze")
        spark["settings"] = [*spark["settings"], ("sqlwin.analyze.duration", duration)]
    if condition is not None and (analyze or format not in (None, "text")):
        raise click.UsageError("--row shows text, without --analyze")
    if lists_rows and condition is None:
        raise click.UsageError("--rows requires --row")
    scripts = read_scripts(files, expressions, params)
    options = {**spark, "output": output, "no_progress": no_progress}
    run_in_engine(options, scripts, starts=analyze)
    if analyze:
        begin_java(spark)

    from sqlwin.cli.explain import explain_row, explain_scripts
    from sqlwin.cli.run import open_session

    if format is None:
        format = EXPLAIN_FORMAT_OF_SUFFIX.get(Path(output or "").suffix.lower(), "text")
    with ExitStack() as stack:
        # before anything runs, in case the file cannot be created
        file = _output_file(stack, output)
        session, bar = stack.enter_context(open_session(spark, no_progress=no_progress))
        n_explained = 0
        texts = explain_scripts(session, scripts, bar, mode=format, analyze=analyze)
        if condition is not None:
            texts = explain_row(session, scripts, bar, condition, lists_rows=lists_rows)
        for text in texts:
            separated = "\n" * (n_explained > 0) + text
            n_explained += 1
            if file is None:
                click.echo(separated, nl=False)
            else:
                file.write(separated)
        if not n_explained:
            click.echo("no query or INSERT to explain", err=True)
        elif file is not None:
            file.commit()


@main.command(short_help="Refresh materialized tables.")
@click.argument("targets", nargs=-1, required=True, metavar="NAME|FILE...")
@no_progress_option
@with_spark_options
def refresh(targets: Sequence[str], no_progress: bool, **spark: Any) -> None:
    """Bring materialized tables up to date. A scheduler can run this every few minutes.

    NAME is the directory of a materialized table, or its name in the directory
    sqlwin.materialized.dir. FILE is a script: its CREATE and SET statements are executed and its
    materialized tables refreshed; its queries and INSERTs are skipped.

    A refresh reads new and changed files, and other files only if their rows are in slices that it
    has to recompute. Suspended tables are skipped. Refreshes can safely run concurrently, and a
    killed refresh does no harm.

    \b
    Examples:
      sqlwin refresh lake/fares_by_minute
      sqlwin refresh fares_by_minute --set sqlwin.materialized.dir=lake
      sqlwin refresh dashboards.sql
    """  # noqa: D301
    begin_java(spark)
    from sqlwin.cli.refresh import refresh_all
    from sqlwin.cli.run import open_session

    with open_session(spark, no_progress=no_progress) as (session, bar):
        refresh_all(session, targets, bar)


main.add_command(checkpoint)
main.add_command(engine)
main.add_command(repl)


@main.command(short_help="Print the completion script for a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that makes SHELL complete sqlwin's commands, options, files and functions.

    \b
    To install it, run once:
      bash  echo 'eval "$(sqlwin completion bash)"' >> ~/.bashrc
      zsh   echo 'eval "$(sqlwin completion zsh)"' >> ~/.zshrc
      fish  sqlwin completion fish > ~/.config/fish/completions/sqlwin.fish

    \b
    Examples:
      sqlwin completion bash
      sqlwin completion fish
    """  # noqa: D301
    from click.shell_completion import get_completion_class

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    shell_completion = completion_class(main, {}, "sqlwin", "_SQLWIN_COMPLETE")
    # not source(), which runs bash to ask for its version
    click.echo(shell_completion.source_template % shell_completion.source_vars())


def _function_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from sqlwin.help.functions import FUNCTIONS

    return [name for name in FUNCTIONS if name.upper().startswith(incomplete.upper())]


@main.command(short_help="Explain functions, with diagrams.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=_function_names)
def functions(names: tuple[str, ...]) -> None:
    """Explain functions: signature, meaning, a diagram of the windows, an example.

    Without NAME, list all functions.

    \b
    Examples:
      sqlwin functions
      sqlwin functions CUMULATE
      sqlwin functions hop first_value
    """  # noqa: D301
    from sqlwin.help.functions import describe_function, list_functions

    texts = [describe_function(name) for name in names] or [list_functions()]
    click.echo("\n\n".join(texts))


def _output_file(stack: ExitStack, output: str | None) -> AtomicFile | None:
    from sqlwin.display.output import AtomicFile

    return None if output is None else stack.enter_context(AtomicFile(Path(output)))


if __name__ == "__main__":
    main()
