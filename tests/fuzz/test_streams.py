"""A stream that is cut, stopped, killed, rescaled and changed at random gives the batch result.

The simulator runs a random query. Its rows arrive in any order in which none is late, and some
copies of them arrive when all their windows are closed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from runtime.errors import SqlwinError
from runtime.refusal import Refusal
from runtime.simulator.check import SimulatedStream
from runtime.simulator.compare import Row, difference, final_rows
from runtime.simulator.histories import Arrival, Batch, Crash, Write
from runtime.simulator.run import ChangedQuery, run_again, run_batch, start_query
from runtime.simulator.storage import CrashError, Storage
from sqlwin.control import SessionControl
from sqlwin.execution.simulated import Simulated
from sqlwin.session import Session
from sqlwin.statements.parse import parse_statement
from sqlwin.testing.simulated import resume, stream_over
from sqlwin.testing.tables import GivenTable, create_tables
from tests.fuzz.choices import Choices
from tests.fuzz.differences import rows_of, set_up
from tests.fuzz.queries import Input, RandomQuery, draw_input, draw_query
from tests.fuzz.values import COLUMNS, MS_US, SECOND_US, table_of
from tests.fuzz.windows import RowGap
from tests.reference import windows_of
from tests.unstarted import NeedsSparkError, unstarted_spark

# Copies of rows that arrive late have ids from here
LATE = 1_000


@cache
def session() -> tuple[Session, Path]:
    """Return a session that must not start Spark, and a directory for its files."""
    return Session(unstarted_spark(), settings={}), Path(mkdtemp(prefix="sqlwin-streams-"))


@dataclass(frozen=True)
class DrawnStream:
    """A random query as a stream.

    Attributes:
        given: Tables without the late rows.
        query: Query.
        simulated: The query for the simulator.
        tables: Rows of the tables, with late copies.
        stream: The stream over these tables.
        delay_us: Watermark delay.
    """

    given: Input
    query: RandomQuery
    simulated: Simulated
    tables: Mapping[str, pa.Table]
    stream: SimulatedStream
    delay_us: int

    def renamed(self) -> ChangedQuery | None:
        """Return the query with other names inside and the same rows.

        Returns:
            None if it has no rows, or if the stream cannot resume with it.
        """
        if not self.query.expected:
            return None
        items = [f"z.{_other_names(name)} AS {name}" for name in self.query.expected[0]]
        sql = f"SELECT {', '.join(items)} FROM ({_other_names(self.query.sql)}) AS z"
        after = SessionControl(session()[0]).simulated(parse_statement(sql))
        assert not isinstance(after, Refusal), after
        changed = resume(self.simulated, after, self.stream, self.tables)
        return None if isinstance(changed, Refusal) else changed.change


def _other_names(sql: str) -> str:
    return re.sub(r"\ba(\d)\b", r"other\1", sql)


def drawn_stream(seed: int) -> DrawnStream | None:
    """Return a random query as a stream, or None if it cannot be one."""
    draw = Choices(seed)
    given = draw_input(draw)
    query = draw_query(draw, given)
    times = [row["ts"] for rows in given.tables.values() for row in rows if row["ts"] is not None]
    if given.is_extreme or not query.is_stream or len(times) < 8:
        return None
    part = draw.one_of([1_000_000, 1_000_000, 10, 3, 1])
    delay_us = ((max(times) - min(times)) // part // SECOND_US + 1) * SECOND_US
    mark = (query.time, f"`{query.time}` - INTERVAL '{delay_us // SECOND_US}' SECOND")
    own, directory = session()
    set_up(own, given)
    tables = {}
    for name, rows in given.tables.items():
        late = [{**row, "id": row["id"] + LATE} for row in rows]
        tables[name] = table_of([*rows, *late])
    create_tables(
        own, [GivenTable(n, rows, COLUMNS, mark) for n, rows in tables.items()], directory
    )
    try:
        simulated = SessionControl(own).simulated(parse_statement(query.sql))
    except (NeedsSparkError, SqlwinError):
        return None
    if isinstance(simulated, Refusal):
        return None
    return DrawnStream(given, query, simulated, tables, stream_over(simulated, tables), delay_us)


class StreamMachine(RuleBasedStateMachine):
    """One stream. The model is the definition of its query, and its watermark."""

    @initialize(
        seed=st.integers(0, 1 << 20), key_groups=st.integers(1, 3), partitions=st.integers(1, 3)
    )
    def start(self, seed: int, key_groups: int, partitions: int) -> None:
        """Draw a query and start its stream."""
        drawn = next(d for d in map(drawn_stream, range(seed, seed + 1_000)) if d is not None)
        self.drawn, self.given, self.query = drawn, drawn.given, drawn.query
        self.stream, self.delay_us = drawn.stream, drawn.delay_us
        self.is_changed = False
        self.storage = Storage(partitions * key_groups, partitions)
        self.clock_us = 0
        self.open: dict[str, list[int]] = {}
        self.times: dict[int, int | None] = {}
        self.table_of: dict[int, str] = {}
        for name, table in self.stream.tables.items():
            n_rows = len(self.given.tables[name])
            self.open[name] = list(table.numbers[:n_rows])
            for number, time in zip(table.numbers, table.times_us, strict=True):
                self.times[number], self.table_of[number] = time, name
        self.late = [
            number for t in self.stream.tables.values()
            for number in t.numbers[len(t.numbers) // 2 :]
        ]  # fmt: skip
        self.highest: dict[str, int] = {}
        self.pending: list[Arrival] = []
        self.resume()

    def resume(self) -> None:
        """Start the stream again from its storage."""
        stream = self.stream
        self.running = start_query(stream.query, stream.tables, stream.options, self.storage)

    # -- steps ---------------------------------------------------------------------------------

    @precondition(lambda self: any(self.open.values()))
    @rule(
        place=st.integers(0, 200),
        count=st.sampled_from([2, 1, 4]),
        task=st.integers(0, 2),
        then=st.sampled_from(["late", "cut", "wait"]),
    )
    def rows_arrive(self, place: int, count: int, task: int, then: str) -> None:
        """Rows arrive that make no others late, then a micro-batch runs, then late rows."""
        for number in range(count):
            numbers = list(self._may_arrive())
            if not numbers:
                break
            row = numbers[(place + number) % len(numbers)]
            self.open[self.table_of[row]].remove(row)
            self.pending.append(Arrival(row, task))
        if then != "wait":
            self._run(1, None)
        if then == "late":
            self._send_late_row(place)

    @rule(clock=st.integers(0, 100))
    def cut(self, clock: int) -> None:
        """A micro-batch runs."""
        self._run(clock, None)

    @rule(write=st.sampled_from(Write), number=st.integers(0, 8), is_after=st.booleans())
    def kill(self, write: Write, number: int, is_after: bool) -> None:
        """The stream is killed at a write of a micro-batch, and resumes."""
        self._run(1, Crash(write, number, is_after))

    @rule()
    def stop(self) -> None:
        """The stream stops between micro-batches, and resumes."""
        self.resume()

    @precondition(lambda self: self.storage.n_committed)
    @rule(partitions=st.integers(1, 4))
    def rescale(self, partitions: int) -> None:
        """The stream resumes with another number of tasks."""
        self.storage.rescale(partitions)
        self.resume()

    @precondition(lambda self: self.storage.n_committed and not self.is_changed)
    @rule()
    def change_sql(self) -> None:
        """The stream resumes with SQL that has other names and gives the same rows."""
        change = self.drawn.renamed()
        if change is not None:
            self.stream = replace(
                self.stream, query=change.query, tables=change.tables, options=change.options
            )
            self.is_changed = True
            self.resume()

    # -- checks --------------------------------------------------------------------------------

    @invariant()
    def emits_only_windows_that_the_watermark_has_passed(self) -> None:
        for number, output in self.storage.outputs.items():
            if self.query.has_operator and "window_end" in output.rows.column_names:
                (table,) = [output.rows.select(["window_end"])]
                ends = [row["window_end"] for row in rows_of([table])]
                zone_us = 15 * 3_600 * SECOND_US if self.query.time == "tz" else 0
                mark = output.watermark_us
                assert all(mark is not None and end - MS_US <= mark + zone_us for end in ends), (
                    f"micro-batch {number} emits windows early"
                )

    @invariant()
    def emitted_rows_are_rows_of_batch(self) -> None:
        found = self._difference()
        assert found is None or not found.unexpected, found

    def teardown(self) -> None:
        """End the input. Then the stream has emitted the rows of batch."""
        if not hasattr(self, "running"):
            return
        for name in self.open:
            self.open[name].sort(key=lambda row: self.times[row] or 0)
            self.pending += [Arrival(row) for row in self.open[name]]
        self._run(0, None, has_ended=True)
        assert self._difference() is None, f"{self.query.sql}\n{self._difference()}"
        assert self.storage.outputs[max(self.storage.outputs)].needless is None

    # -- helpers -------------------------------------------------------------------------------

    def _run(self, clock: int, crash: Crash | None, *, has_ended: bool = False) -> None:
        self.clock_us += clock * SECOND_US
        batch = Batch(tuple(self.pending), self.clock_us, has_ended)
        self.storage.begin(crash)
        try:
            run_batch(self.running, self.storage, batch)
        except CrashError:
            self.resume()
            self.storage.begin(None)
            if len(self.storage.planned) > self.storage.n_committed:
                run_again(self.running, self.storage)
            if self.storage.planned[-1:] != [batch]:
                return  # the rows arrive with the next micro-batch
        self.pending = []

    def _may_arrive(self) -> Iterator[int]:
        """Yield rows whose watermark reaches no other row that has not arrived."""
        for numbers in self.open.values():
            times = [self.times[n] for n in numbers if self.times[n] is not None]
            first = min(times, default=0)  # type: ignore[type-var]
            for number in numbers:
                time = self.times[number]
                if time is None or time - self.delay_us < first - MS_US:
                    yield number

    def _send_late_row(self, place: int) -> None:
        """Send a row whose windows are all closed: it is dropped."""
        rows = self._closed()
        if rows:
            row = rows[place % len(rows)]
            self.late.remove(row)
            self.pending.append(Arrival(row))
            self._run(0, None)

    def _closed(self) -> list[int]:
        """Return the late rows whose windows have all been emitted."""
        window, query = self.given.window.window, self.query
        outputs = self.storage.outputs
        if (
            isinstance(window, int | RowGap)
            or query.time == "tz"
            or not query.has_operator
            or not outputs
        ):
            return []
        mark = outputs[max(outputs)].watermark_us
        if mark is None or "window_time" in query.sql:
            return []
        rows = []
        for number in self.late:
            time = self.times[number]
            if time is not None:
                ends = [end for _, end in windows_of(window, time)]
                # a row between windows is in none, and its time may advance the watermark
                if ends and all(end - MS_US <= mark for end in ends):
                    rows.append(number)
        return rows

    def _difference(self) -> Any:
        outputs = self.storage.outputs
        rows: list[Row] = final_rows(rows_of(outputs[n].rows for n in sorted(outputs)))
        return difference(self.query.expected, rows)


def run_machine(n_examples: int, n_steps: int, *, derandomize: bool = True) -> None:
    """Run streams with at most `n_steps` steps each. Raises the error of the shortest failure."""
    run_state_machine_as_test(
        StreamMachine,
        settings=settings(
            max_examples=n_examples,
            stateful_step_count=n_steps,
            deadline=None,
            derandomize=derandomize,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.long
def test_most_streams_can_resume_with_other_names() -> None:
    # all use the same session, so one after the other
    can_resume = [
        drawn.renamed() is not None
        for drawn in map(drawn_stream, range(40))
        if drawn is not None and drawn.query.expected
    ]
    assert sum(can_resume) > len(can_resume) // 2 > 5


@pytest.mark.parametrize(
    ("n_examples", "n_steps"),
    [
        (8, 30),
        pytest.param(25, 50, marks=pytest.mark.long),
        pytest.param(6_000, 60, marks=pytest.mark.slow),
    ],
)
def test_a_stream_gives_the_rows_of_batch_after_any_steps(n_examples: int, n_steps: int) -> None:
    run_machine(n_examples, n_steps)
