"""Simulate a query on a sample of its own sources: `sqlwin test --simulate`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from runtime.errors import AnalysisError, SqlwinError
from runtime.names import quote_name
from runtime.simulator.check import SimulatedStream, first_disagreement
from runtime.simulator.compare import difference
from runtime.simulator.tables import TableRows
from runtime.simulator.timeline import row_text
from runtime.spark.on_demand import NotStartedError
from runtime.spec.figures import count_text
from runtime.spec.stream import LATE_ROW
from runtime.spec.table import IDLE_ADVANCE
from sqlwin.control import SessionControl
from sqlwin.execution.simulated import Simulated
from sqlwin.session import Session
from sqlwin.statements.nodes import Insert, Query, Set
from sqlwin.testing.differences import differences_text
from sqlwin.testing.preparing import OF_TEST
from sqlwin.testing.running import disagreement_text

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
    session: Session,
    path: Path,
    n_histories: int,
    seed: int,
    n_rows: int,
    *,
    starts_spark: bool = True,
) -> SimulationReport:
    """Simulate the last query of a SQL file.

    Args:
        session: New session.
        path: SQL file.
        n_histories: Number of random histories.
        seed: Seed of the first history.
        n_rows: Rows to take from each source.
        starts_spark: Whether Spark may start to read the sources.

    Raises:
        SqlwinError: The SQL is invalid, or only Spark can compute the query.
    """
    control = SessionControl(session)
    text = path.read_text(encoding="utf-8-sig")
    tested = None
    try:
        with nullcontext() if starts_spark else control.without_start_of_spark():
            for place, statement in control.statements(text, str(path), None):
                try:
                    if isinstance(statement, Query | Insert):
                        tested = statement, place
                    elif not (isinstance(statement, Set) and statement.key in OF_TEST):
                        control.run(statement)
                except NotStartedError:
                    raise
                except SqlwinError as error:
                    raise place.with_position(error) from error
            if tested is None:
                raise AnalysisError(f"{path} has no query")
            query, place = tested
            try:
                simulated = control.simulated(query)
            except NotStartedError:
                raise
            except SqlwinError as error:
                raise place.with_position(error) from error
            if isinstance(simulated, str):
                raise AnalysisError(f"the query of {path} cannot be simulated: {simulated}")
            rows = {
                table.name.lower(): _sample(session, table.name, n_rows)
                for table in simulated.query.tables
            }
    except NotStartedError as error:
        raise AnalysisError(
            f"the query of {path} cannot be simulated: only Spark can read its sources or "
            "compute its expressions",
            hint="write a case with rows of its tables; see docs/testing.md",
        ) from error
    return _report(simulated, rows, n_histories, seed)


def _sample(session: Session, table: str, n_rows: int) -> pa.Table:
    """Return the first rows of a table."""
    session.execute("SET 'execution.runtime-mode' = 'batch'")
    name = ".".join(quote_name(part) for part in table.split("."))
    (result,) = session.execute(f"SELECT * FROM {name} LIMIT {n_rows}")
    return result.to_arrow()


def _report(
    simulated: Simulated, rows: dict[str, pa.Table], n_histories: int, seed: int
) -> SimulationReport:
    given = simulated.stream(rows)
    lines = [f"{count_text(len(table), 'rows')} of {name}" for name, table in rows.items()]
    lines += _findings(given)
    # rows that are late in the order of the sample arrive on time
    stream = replace(given, shape=replace(given.shape, late=frozenset()))
    expected = stream.batch_rows(stream.order)
    if order := _unlike_orders(stream):
        lines += order
        return SimulationReport(tuple(lines), agrees=True)
    mismatch = first_disagreement(stream, expected, n_histories, seed)
    if mismatch is None:
        lines.append(
            f"{count_text(n_histories, 'histories')} agree with batch: "
            f"{count_text(len(expected), 'rows')}"
        )
        return SimulationReport(tuple(lines), agrees=True)
    title, details = disagreement_text(stream, mismatch)
    return SimulationReport((*lines, title, *details.splitlines()), agrees=False)


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


def _unlike_orders(stream: SimulatedStream) -> list[str]:
    """Return why the batch result depends on the order of rows; empty if it does not."""
    expected = stream.batch_rows(stream.order)
    for seed in range(_N_ORDERS):
        order = list(stream.order)
        random.Random(seed).shuffle(order)
        mismatch = difference(expected, _in_order(stream, order).batch_rows(order))
        if mismatch is not None:
            rows = _fewest(stream, order)
            return [
                "finding: the result depends on the order of rows, also in batch:",
                *(f"  {text}" for text in _row_texts(stream, rows)),
                differences_text(mismatch),
                "  order the rows completely, for example with one more column in ORDER BY",
            ]
    return []


def _in_order(stream: SimulatedStream, order: Sequence[int]) -> SimulatedStream:
    return replace(stream, order=tuple(order))


def _fewest(stream: SimulatedStream, order: Sequence[int]) -> list[int]:
    """Return the fewest rows whose order changes the batch result."""
    rows = list(order)
    size = max(len(rows) // 2, 1)
    while size:
        start = 0
        while start < len(rows):
            fewer = rows[:start] + rows[start + size :]
            if _differs(stream, fewer):
                rows = fewer
            else:
                start += size
        size //= 2
    return rows


def _differs(stream: SimulatedStream, rows: Sequence[int]) -> bool:
    one, other = stream.batch_rows(sorted(rows)), stream.batch_rows(rows)
    return difference(one, other) is not None


def _row_texts(stream: SimulatedStream, rows: Sequence[int]) -> list[str]:
    texts = []
    for number in sorted(rows):
        table: TableRows
        for table in stream.tables.values():
            if number in table.numbers:
                (row,) = table.of([number]).to_pylist()
                row.pop(LATE_ROW)
                place = number - table.numbers.start + 1
                texts.append(f"row {place} of {table.table.name}: {row_text(row)}")
    return texts
