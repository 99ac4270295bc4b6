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
from runtime.simulator.compare import Difference, difference
from runtime.spark.on_demand import NotStartedError
from runtime.spec.figures import count_text
from runtime.spec.table import IDLE_ADVANCE
from sqlwin.control import SessionControl
from sqlwin.execution.simulated import Simulated
from sqlwin.session import Session
from sqlwin.statements.nodes import Insert, Query, Set
from sqlwin.testing.defining import compare_with_definition, fewest_rows, row_texts
from sqlwin.testing.differences import differences_text
from sqlwin.testing.preparing import OF_TEST
from sqlwin.testing.running import disagreement_text

# Ties that are printed
_MOST_TIES = 3
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
    verdict = compare_with_definition(stream, stream.order, expected)
    lines += [f"finding: {tie}" for tie in verdict.ties[:_MOST_TIES]]
    if order := _unlike_orders(stream):
        lines += order
        return SimulationReport(tuple(lines), agrees=True)
    if verdict.mismatch is not None:
        lines += _unlike_definition(stream)
        return SimulationReport(tuple(lines), agrees=False)
    mismatch = first_disagreement(stream, expected, n_histories, seed)
    if mismatch is None:
        definition = "" if verdict.beyond else " and with the definition"
        lines.append(
            f"{count_text(n_histories, 'histories')} agree with batch{definition}: "
            f"{count_text(len(expected), 'rows')}"
        )
        if verdict.beyond and not verdict.ties:
            lines.append(f"not compared with the definition: {verdict.beyond}")
        return SimulationReport(tuple(lines), agrees=True)
    title, details = disagreement_text(stream, mismatch)
    if verdict.ties:
        title = f"finding: because of equal rows, {title}"
    return SimulationReport((*lines, title, *details.splitlines()), agrees=bool(verdict.ties))


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


def _unlike_orders(stream: SimulatedStream) -> list[str]:
    """Return why the batch result depends on the order of rows; empty if it does not."""
    expected = stream.batch_rows(stream.order)
    for seed in range(_N_ORDERS):
        order = list(stream.order)
        random.Random(seed).shuffle(order)
        mismatch = difference(expected, _in_order(stream, order).batch_rows(order))
        if mismatch is not None:
            rows = fewest_rows(order, lambda some: _differs(stream, some))
            return [
                "finding: the result depends on the order of rows, also in batch:",
                *(f"  {text}" for text in row_texts(stream, rows)),
                differences_text(mismatch),
                "  order the rows completely, for example with one more column in ORDER BY",
            ]
    return []


def _in_order(stream: SimulatedStream, order: Sequence[int]) -> SimulatedStream:
    return replace(stream, order=tuple(order))


def _differs(stream: SimulatedStream, rows: Sequence[int]) -> bool:
    one, other = stream.batch_rows(sorted(rows)), stream.batch_rows(rows)
    return difference(one, other) is not None
