"""Simulate a query on a sample of its own sources: `sqlwin test --simulate`."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from runtime.errors import AnalysisError, SqlwinError
from runtime.names import quote_name
from runtime.plan.simulated import SimulatedTable
from runtime.refusal import Refusal
from runtime.simulator.check import SimulatedStream, first_disagreement
from runtime.simulator.compare import Difference, Row, difference
from runtime.simulator.tables import Moment, moments_of
from runtime.spark.on_demand import NotStartedError
from runtime.spec.figures import count_text
from runtime.spec.table import IDLE_ADVANCE
from sqlwin.control import SessionControl
from sqlwin.execution.simulated import Simulated
from sqlwin.session import Session
from sqlwin.testing.defining import compare_with_definition, fewest_rows, row_texts
from sqlwin.testing.differences import differences_text
from sqlwin.testing.preparing import OF_TEST
from sqlwin.testing.running import OTHER_WINDOWS, disagreement_text, resumed_text
from sqlwin.testing.simulated import resume, stream_over

# Ties that are printed
_MAX_TIES = 3
# Orders of the rows that are tried to see whether the result depends on them
_N_ORDERS = 5


@dataclass(frozen=True)
class SimulationReport:
    """Report of a simulation.

    Attributes:
        lines: Text to print.
        agrees: Whether all histories give the rows of batch, apart from differences that are
            defined.
    """

    lines: tuple[str, ...]
    agrees: bool


def simulate_file(
    connect: Callable[[], Session],
    path: Path,
    n_histories: int,
    seed: int,
    n_rows: int,
    *,
    then: Path | None = None,
    starts_spark: bool = True,
) -> SimulationReport:
    """Simulate the last query of a SQL file.

    Args:
        connect: Opens a new session.
        path: SQL file.
        n_histories: Number of random histories.
        seed: Seed of the first history.
        n_rows: Rows to take from each source.
        then: SQL file with whose last query the stream also resumes in each history. None: it does
            not change.
        starts_spark: Whether Spark may start to read the sources.

    Raises:
        SqlwinError: The SQL is invalid, or only Spark can compute the query.
    """
    with connect() as session:
        simulated = _simulated(session, path, starts_spark=starts_spark)
        with _naming(path), _spark(session, may_start=starts_spark):
            rows = {
                table.name.lower(): _sample(session, table, n_rows)
                for table in simulated.query.tables
            }
    report = _report(simulated, rows, n_histories, seed)
    if then is None or not report.agrees:
        return report
    with connect() as session:
        after = _simulated(session, then, starts_spark=starts_spark)
    more = _resume(simulated, after, rows, then, range(seed, seed + n_histories))
    return SimulationReport((*report.lines, *more.lines), more.agrees)


def _simulated(session: Session, path: Path, *, starts_spark: bool) -> Simulated:
    """Run a SQL file up to its last query, and return this query for the simulator."""
    control = SessionControl(session)
    text = path.read_text(encoding="utf-8-sig")
    with _naming(path), _spark(session, may_start=starts_spark):
        last = control.last_query(text, str(path), None, ignored=OF_TEST)
        if last is None:
            raise AnalysisError(f"{path} has no query")
        place, query = last
        try:
            simulated = control.simulated(query)
        except NotStartedError:
            raise
        except SqlwinError as error:
            raise place.with_position(error) from error
    if isinstance(simulated, Refusal):
        raise AnalysisError(f"the query of {path} cannot be simulated: {simulated}")
    return simulated


def _spark(session: Session, *, may_start: bool) -> AbstractContextManager[None]:
    """Return a context in which Spark may or must not start."""
    return nullcontext() if may_start else SessionControl(session).without_start_of_spark()


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file in the error of a block that needs Spark."""
    try:
        yield
    except NotStartedError as error:
        raise AnalysisError(
            f"the query of {path} cannot be simulated: only Spark can read its sources or "
            "compute its expressions",
            hint="write a case with rows of its tables; see docs/testing.md",
        ) from error


def _resume(
    before: Simulated, after: Simulated, rows: dict[str, pa.Table], path: Path, seeds: range
) -> SimulationReport:
    """Resume the stream of a query with another query in random histories.

    Args:
        before: First query.
        after: Query with which the stream resumes.
        rows: Rows of each table by lower-case name.
        path: File of the second query.
        seeds: Seeds of the histories.
    """
    given = stream_over(before, rows)
    stream = replace(given, shape=replace(given.shape, late=frozenset()))
    changed = resume(before, after, stream, rows)
    if isinstance(changed, Refusal):
        return SimulationReport((f"the stream cannot resume with {path}: {changed}",), agrees=False)
    mismatch = changed.first_disagreement(seeds)
    if mismatch is not None:
        title, details = resumed_text(changed, mismatch)
        return SimulationReport((title, *details.splitlines()), agrees=False)
    n_histories = count_text(len(seeds), "histories")
    lines = [f"{n_histories} resume with {path} and have the rows of both queries"]
    if changed.has_other_windows:
        lines = [
            f"{n_histories} resume with {path}",
            "finding: its windows differ, so the first ones may be incomplete; their rows are not "
            "compared",
        ]
    return SimulationReport(tuple(lines), agrees=True)


def _sample(session: Session, table: SimulatedTable, n_rows: int) -> pa.Table:
    """Return the first rows of a table, without processing time."""
    session.execute("SET 'execution.runtime-mode' = 'batch'")
    name = ".".join(quote_name(part) for part in table.name.split("."))
    columns = ", ".join(quote_name(column.name) for column in table.own_columns)
    (result,) = session.execute(f"SELECT {columns} FROM {name} LIMIT {n_rows}")
    return result.to_arrow()


def _report(
    simulated: Simulated, rows: dict[str, pa.Table], n_histories: int, seed: int
) -> SimulationReport:
    given = stream_over(simulated, rows)
    lines = [f"{count_text(len(table), 'rows')} of {name}" for name, table in rows.items()]
    lines += _findings(given)
    # rows that are late in the order of the sample arrive on time
    stream = replace(given, shape=replace(given.shape, late=frozenset()))
    expected = stream.batch_rows(stream.order)
    verdict = compare_with_definition(stream, stream.order, expected)
    lines += [f"finding: {tie}" for tie in verdict.ties[:_MAX_TIES]]
    if order := _unlike_orders(stream):
        lines += order
        return SimulationReport(tuple(lines), agrees=True)
    if verdict.mismatch is not None:
        lines += _unlike_definition(stream)
        return SimulationReport(tuple(lines), agrees=False)
    is_filled = _fills_other_windows(stream, expected)
    if is_filled:
        lines.append(f"finding: the stream fills other windows than batch: {OTHER_WINDOWS}")
    depends = stream.query.depends_on_batches
    if depends:
        lines += _unlike_batches(stream, expected, seed)
    mismatch = first_disagreement(stream, expected, n_histories, seed)
    if mismatch is None:
        definition = "" if verdict.beyond else " and with the definition"
        own = " at their own times" if depends else " up to these windows" if is_filled else ""
        n_result = "" if depends or is_filled else f": {count_text(len(expected), 'rows')}"
        agree = f"{count_text(n_histories, 'histories')} agree with batch"
        lines.append(f"{agree}{own}{definition}{n_result}")
        if verdict.beyond and not verdict.ties:
            lines.append(f"not compared with the definition: {verdict.beyond}")
        return SimulationReport(tuple(lines), agrees=True)
    title, details = disagreement_text(stream, mismatch)
    if verdict.ties:
        title = f"finding: because of equal rows, {title}"
    return SimulationReport((*lines, title, *details.splitlines()), agrees=bool(verdict.ties))


def _fills_other_windows(stream: SimulatedStream, expected: Sequence[Row]) -> bool:
    """Return whether FILL adds other windows on the stream than in batch."""
    if not stream.query.fills_gaps:
        return False
    outcome = stream.run(stream.every_row)
    return difference(expected, stream.expected_rows(expected, outcome)) is not None


def _unlike_definition(stream: SimulatedStream) -> list[str]:
    """Return the fewest rows for which batch differs from the definition, and how."""

    def mismatch(rows: Sequence[int]) -> Difference | None:
        try:
            return compare_with_definition(stream, rows, stream.batch_rows(rows)).mismatch
        except SqlwinError:
            return None

    rows = fewest_rows(stream.order, lambda some: mismatch(some) is not None)
    fewest = mismatch(rows)
    assert fewest is not None, "the rows differ"
    texts = (f"  {text}" for text in row_texts(stream, rows))
    return ["batch differs from the definition:", *texts, differences_text(fewest)]


def _findings(stream: SimulatedStream) -> list[str]:
    """Return the differences between batch and stream that are defined."""
    lines = []
    if late := len(stream.shape.late):
        verb = "row arrives" if late == 1 else "rows arrive"
        lines.append(
            f"finding: {late} {verb} after the watermark in the order of the sample, so a stream "
            "may drop what batch counts; the histories below have all rows on time"
        )
    for setting, is_on in (
        ("table.exec.source.idle-timeout", stream.options.idle_timeout_us is not None),
        (IDLE_ADVANCE, stream.shape.advances_with_clock),
    ):
        if is_on:
            lines.append(
                f"finding: with '{setting}' a row may be late because its source was idle; the "
                "histories below have no idle sources"
            )
    for table in stream.tables.values():
        n_null = sum(time is None for time in table.times_us)
        if n_null and table.table.time is not None:
            lines.append(
                f"finding: {count_text(n_null, 'rows')} of {table.table.name} have no time and "
                "are in no window"
            )
    return lines


def _unlike_batches(stream: SimulatedStream, expected: Sequence[Row], seed: int) -> list[str]:
    """Return why the result depends on the micro-batches; empty if it does not.

    Args:
        stream: Stream.
        expected: Rows if all arrive one by one at the same time.
        seed: Seed of the first history.
    """
    clocks = [
        f"`{name}` of {table.name}" if name[:1] != "$" else "PROCTIME()"
        for table in stream.query.tables
        for name in sorted(table.clock_columns)
    ]
    watermarks = [table.name for table in stream.query.tables if table.watermark_column]
    causes: dict[str, None] = {}
    for history in (stream.history(seed + number) for number in range(_N_ORDERS)):
        moments = moments_of(stream.tables, stream.run(history).planned)
        if _is_other(stream, expected, {row: moments[row].clock_us for row in moments}, {}):
            verb = "is" if len(clocks) == 1 else "are"
            names = " and ".join(dict.fromkeys(clocks))
            causes[f"{names} {verb} the processing time of a micro-batch"] = None
        if _is_other(stream, expected, {}, {row: moments[row].watermark_us for row in moments}):
            causes[
                f"CURRENT_WATERMARK is the watermark of {watermarks[0]} before a micro-batch"
            ] = None
    lines = [f"finding: the result depends on when rows arrive: {cause}" for cause in causes]
    if stream.query.result_clock:
        lines.append(
            "finding: PROCTIME() in results of windows is the processing time of the micro-batch "
            "that emits them"
        )
    return lines


def _is_other(
    stream: SimulatedStream,
    expected: Sequence[Row],
    clocks_us: Mapping[int, int],
    watermarks_us: Mapping[int, int | None],
) -> bool:
    """Return whether batch has other rows at other processing times and watermarks.

    Args:
        stream: Stream.
        expected: Rows of batch at `stream.moments`.
        clocks_us: Other processing times of rows, by number.
        watermarks_us: Other watermarks before the micro-batches of rows, by number.
    """
    moments = {
        row: Moment(
            clocks_us.get(row, moment.clock_us), watermarks_us.get(row, moment.watermark_us)
        )
        for row, moment in stream.moments.items()
    }
    return difference(expected, stream.batch_rows(stream.order, moments)) is not None


def _unlike_orders(stream: SimulatedStream) -> list[str]:
    """Return why the batch result depends on the order of rows; empty if it does not."""
    expected = stream.batch_rows(stream.order)
    for seed in range(_N_ORDERS):
        order = list(stream.order)
        random.Random(seed).shuffle(order)
        mismatch = difference(expected, stream.batch_rows(order, stream.moments))
        if mismatch is not None:
            rows = fewest_rows(order, lambda some: _differs(stream, some))
            return [
                "finding: the result depends on the order of rows, also in batch:",
                *(f"  {text}" for text in row_texts(stream, rows)),
                differences_text(mismatch),
                "  order the rows completely, for example with one more column in ORDER BY",
            ]
    return []


def _differs(stream: SimulatedStream, rows: Sequence[int]) -> bool:
    one, other = stream.batch_rows(sorted(rows)), stream.batch_rows(rows)
    return difference(one, other) is not None
