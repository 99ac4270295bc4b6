"""`sqlwin test`: runs test files, and simulates a query against its batch result."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sqlwin.console.options import no_progress_option, with_spark_options

if TYPE_CHECKING:
    from sqlwin.session import Session
    from sqlwin.testing.cases import Case
    from sqlwin.testing.running import CaseResult, TestOptions

FAILED, USAGE, NOTHING_SELECTED = 1, 2, 5


@click.command(short_help="Test queries in batch, as streams and in random histories.")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "-k",
    "selected",
    metavar="EXPR",
    help="Run cases whose names match, such as 'hop and not late'.",
)
@click.option("-x", "--exitfirst", is_flag=True, help="Stop at the first failure.")
@click.option(
    "--histories",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="Number of random histories of each case.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="S",
    help="Seed of the first history.",
)
@click.option(
    "--simulate",
    type=click.IntRange(min=1),
    metavar="N",
    help="Run the query of a SQL file in batch and in N histories on a sample of its own sources.",
)
@click.option(
    "--then",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="With --simulate: SQL file with which the stream also resumes once in each history, as a "
    "deployment does.",
)
@click.option(
    "--rows",
    "n_rows",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    metavar="N",
    help="With --simulate: rows to take from each source.",
)
@click.option(
    "--spark",
    "on_spark",
    is_flag=True,
    help="Run each case on Spark too, in batch and as a stream.",
)
@click.option(
    "--no-spark",
    is_flag=True,
    help="Fail cases that only Spark can compute instead of starting it.",
)
@click.option(
    "--update", is_flag=True, help="Rewrite expectations that fail with the actual values."
)
@click.option(
    "--junit-xml",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the results as JUnit XML.",
)
@click.option("--schema", is_flag=True, help="Print the JSON schema of test files and exit.")
@no_progress_option
@with_spark_options
def test(
    paths: Sequence[str],
    selected: str | None,
    exitfirst: bool,
    histories: int,
    seed: int,
    simulate: int | None,
    then: str | None,
    n_rows: int,
    on_spark: bool,
    no_spark: bool,
    update: bool,
    junit_xml: str | None,
    schema: bool,
    no_progress: bool,
    **spark: Any,
) -> None:
    """Run the test files of each PATH: files, and *.sqlwin.yaml below directories.

    A case gives rows, a query and the expected result. It runs in batch, as a stream that gets one
    row per micro-batch, and in random histories: other micro-batches, other orders of arrival
    within the watermark delay, other numbers of tasks, crashes and restarts at any moment. All must
    agree. Most cases need neither Spark nor Java. Needs the extra `testing`.

    With --simulate, PATH is a SQL file. Its last query runs in batch and in N histories on a sample
    of its own sources. A history that disagrees is shrunk to the fewest rows and steps. With
    --then, the stream of PATH also stops in each history and resumes with the query of FILE.

    \b
    Exit codes:
      0  all cases passed
      1  a case failed, a history disagrees, or the stream cannot resume
      2  error in the command line, in a test file or in its SQL
      5  no case was selected

    \b
    Examples, from the project's root:
      sqlwin test queries/testing
      sqlwin test queries/testing -k "late" --histories 200
      sqlwin test --simulate 50 queries/testing/departures.sql
      sqlwin test --simulate 5 queries/testing/departures.sql \
        --then queries/testing/cancellations.sql
      sqlwin test --schema
    """  # noqa: D301
    if schema:
        from sqlwin.testing.cases import SCHEMA

        click.echo(json.dumps(SCHEMA, indent=2))
        return
    if on_spark and no_spark:
        raise click.UsageError("use either --spark or --no-spark")
    if simulate is not None:
        _simulate(paths, then, simulate, seed, n_rows, spark, starts_spark=not no_spark)
        return
    if then is not None:
        raise click.UsageError("--then needs --simulate")
    from sqlwin.testing.running import TestOptions

    cases = _cases(paths or ["."], selected)
    if not cases:
        click.echo("no case was selected" if selected else "no test files", err=True)
        sys.exit(NOTHING_SELECTED)
    options = TestOptions(histories, seed, on_spark, not no_spark)
    results = _run(cases, options, spark, exitfirst=exitfirst, no_progress=no_progress)
    if update:
        _update(results)
    if junit_xml is not None:
        from sqlwin.testing.junit import junit_xml as xml

        Path(junit_xml).parent.mkdir(parents=True, exist_ok=True)
        Path(junit_xml).write_text(xml(results), encoding="utf-8")
    if any(result.error is not None for result in results):
        sys.exit(USAGE)
    if any(result.failures for result in results):
        sys.exit(FAILED)


def _cases(paths: Sequence[str], selected: str | None) -> list[Case]:
    """Return the selected cases; a bad file or expression ends the command."""
    from runtime.errors import SqlwinError
    from sqlwin.testing.cases import files_of, read_cases
    from sqlwin.testing.selecting import selection

    problems: list[str] = []
    cases: list[Case] = []
    try:
        selects = selection(selected) if selected else lambda name: True
        files = list(files_of(paths))
    except SqlwinError as error:
        problems.append(_one_line(error))
        files = []
    for path in files:
        try:
            cases += [case for case in read_cases(path) if selects(case.id)]
        except SqlwinError as error:
            problems.append(_one_line(error))
    if problems:
        for problem in problems:
            click.echo(f"error: {problem}", err=True)
        sys.exit(USAGE)
    return cases


def _one_line(error: Any) -> str:
    return error.message if error.hint is None else f"{error.message} ({error.hint})"


def _run(
    cases: Sequence[Case],
    options: TestOptions,
    spark: Mapping[str, Any],
    *,
    exitfirst: bool,
    no_progress: bool,
) -> list[CaseResult]:
    """Run cases, print their results, and return them."""
    from runtime.spec.figures import count_text
    from sqlwin.testing.parallel import n_processes, run_cases

    begun = time.monotonic()
    results: list[CaseResult] = []
    # -x stops at the first failure, which is known only after the cases before it
    processes = 1 if exitfirst else n_processes(len(cases), options)
    with _progress(len(cases), no_progress=no_progress) as advance:
        for result in run_cases(cases, _connect(spark), options, processes):
            results.append(result)
            advance(lambda result=result: _show(result))  # type: ignore[misc]
            if exitfirst and not result.has_passed:
                break
    n_passed = sum(result.has_passed for result in results)
    n_histories = sum(result.n_histories for result in results)
    seconds = time.monotonic() - begun
    parts = [f"{n_passed} passed"]
    if n_passed < len(results):
        parts.append(f"{len(results) - n_passed} failed")
    if len(results) < len(cases):
        parts.append(f"{len(cases) - len(results)} not run")
    click.echo(f"{', '.join(parts)}, {count_text(n_histories, 'histories')}, {seconds:.1f} s")
    return results


def _connect(spark: Mapping[str, Any]) -> Callable[[], Session]:
    from sqlwin.console.options import connect

    return partial(connect, spark)


def _show(result: CaseResult) -> None:
    """Print a failed case, or the notes of a passed one."""
    for note in result.notes:
        click.echo(f"note: {result.case.id}: {note}", err=True)
    if result.has_passed:
        return
    click.echo(f"FAILED {result.case.id} (line {result.case.line})")
    for failure in [*result.failures, *([] if result.error is None else [result.error])]:
        for line in failure.splitlines():
            click.echo(f"  {line}".rstrip())
    click.echo()


@contextmanager
def _progress(n_cases: int, *, no_progress: bool) -> Iterator[Callable[[Callable[[], None]], None]]:
    """Yield a function that advances the progress bar and prints above it."""
    if no_progress or not sys.stderr.isatty():
        yield lambda show: show()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("Testing"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=n_cases)

        def advance(show: Callable[[], None]) -> None:
            bar.stop()
            show()
            bar.start()
            bar.advance(task)

        yield advance


def _update(results: Sequence[CaseResult]) -> None:
    """Rewrite the files of failed cases, and drop the failures that this fixes."""
    from sqlwin.testing.updating import update_file

    for path in dict.fromkeys(result.case.path for result in results):
        of_file = [result for result in results if result.case.path == path]
        if update_file(path, of_file):
            click.echo(f"updated {path}", err=True)


def _simulate(
    paths: Sequence[str],
    then: str | None,
    n_histories: int,
    seed: int,
    n_rows: int,
    spark: Mapping[str, Any],
    *,
    starts_spark: bool,
) -> None:
    """Simulate the query of a SQL file on a sample of its sources."""
    if len(paths) != 1:
        raise click.UsageError("--simulate takes one SQL file")
    from runtime.errors import SqlwinError
    from sqlwin.console.failures import say_failure
    from sqlwin.testing.sampling import simulate_file

    files = [Path(name) for name in (paths[0], then) if name is not None]
    for path in files:
        if not path.is_file():
            raise click.UsageError(f"cannot read {path}: no such file")
    try:
        report = simulate_file(
            _connect(spark),
            files[0],
            n_histories,
            seed,
            n_rows,
            then=files[1] if then is not None else None,
            starts_spark=starts_spark,
        )
    except SqlwinError as error:
        # 1 means that a history disagrees
        say_failure(error)
        sys.exit(USAGE)
    for line in report.lines:
        click.echo(line)
    if not report.agrees:
        sys.exit(FAILED)
