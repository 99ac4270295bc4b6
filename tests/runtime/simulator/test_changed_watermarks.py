"""A restart changes the delay of a watermark: emitted windows stay, and no row counts twice."""

from __future__ import annotations

from contextlib import suppress

import pytest

from runtime.simulator.compare import difference, final_rows, rows_of
from runtime.simulator.histories import Arrival, Batch, Crash, Write
from runtime.simulator.run import run_again, run_batch, start_query
from runtime.simulator.storage import CrashError, Storage
from sqlwin.testing.simulated import stream_over
from tests.runtime.simulator.queries import of_window, rows_table, simulated

S = 1_000_000


class Changing:
    """A stream over rows that restarts with other watermark delays, in seconds."""

    def __init__(self, sql: str, rows: list[tuple]) -> None:
        self.sql, self.rows = sql, rows_table(rows)
        self.storage = Storage(4, 2)

    def start(self, delay: int) -> None:
        simulated.cache_clear()
        of = stream_over(simulated(self.sql, str(delay)), {"t": self.rows})
        self.running = start_query(of.query, of.tables, of.options, self.storage)

    def batch(self, *rows: int, crash: Crash | None = None, has_ended: bool = False) -> None:
        """Run a micro-batch. After a crash the stream has to start again."""
        self.storage.begin(crash)
        with suppress(CrashError):
            run_batch(self.running, self.storage, Batch(tuple(map(Arrival, rows)), 0, has_ended))

    def repeat(self) -> None:
        """Run the last planned micro-batch again, if it is not committed."""
        self.storage.begin(None)
        if len(self.storage.planned) > self.storage.n_committed:
            run_again(self.running, self.storage)

    def emitted(self) -> list[str]:
        """Return the keys emitted in each micro-batch."""
        outputs = self.storage.outputs
        return ["".join(outputs[n].rows.column("k").to_pylist()) for n in sorted(outputs)]

    def watermarks(self) -> list[int | None]:
        """Return the watermark after each micro-batch, in seconds after the first row's day."""
        marks = [self.storage.outputs[n].watermark_us for n in sorted(self.storage.outputs)]
        return [None if mark is None else mark // S % 86_400 for mark in marks]

    def n_late(self) -> int:
        return sum(output.n_late for output in self.storage.outputs.values())


#  0     5     10    15    20    25
#  [--a--)[--b--)[--c--)[--d--)
ROWS = [(s * 1_000, k, 1, 0.0) for s, k in [(3, "a"), (7, "b"), (13, "c"), (17, "d"), (24, "e")]]


def test_a_longer_delay_holds_the_watermark_until_rows_catch_up():
    of = Changing(of_window("tumble"), [*ROWS, (8_000, "late", 1, 0.0)])
    of.start(2)
    of.batch(0, 1, 2)
    of.start(10)
    of.batch(3)  # 17 - 10 s is behind 11
    of.batch(5)
    of.batch(4)
    assert of.watermarks() == [11, 11, 11, 14]
    assert of.emitted() == ["ab", "", "", ""] and of.n_late() == 1
    of.batch(has_ended=True)
    assert sorted(of.emitted()[-1]) == ["c", "d", "e"]


def test_a_shorter_delay_counts_from_the_next_row():
    of = Changing(of_window("tumble"), ROWS)
    of.start(10)
    of.batch(0, 1, 2)
    of.start(0)
    of.batch(3)
    assert of.watermarks() == [3, 17]
    assert of.emitted() == ["", "abc"]


@pytest.mark.variants(6)
@pytest.mark.parametrize("window", ["tumble", "hop", "session"])
@pytest.mark.parametrize(("old", "new"), [(0, 10), (10, 0), (2, 4)])
@pytest.mark.parametrize("write", list(Write))
def test_a_micro_batch_of_the_previous_run_is_repeated_with_its_delay(window, old, new, write):
    if write is Write.OFFSETS:
        crash = Crash(write, is_after=True)
    else:
        crash = Crash(write, 1, is_after=write is Write.OUTPUT)
    of = Changing(of_window(window), ROWS)
    of.start(old)
    of.batch(0)
    of.batch(1, 2, crash=crash)
    of.start(new)
    of.repeat()
    for first in of.storage.repeated:
        assert rows_of([of.storage.outputs[first.number].rows]) == rows_of([first.rows])
    of.batch(3, crash=Crash(Write.COMMIT))
    # this run repeats a micro-batch that was planned with the new delay
    of.start(old)
    of.repeat()
    of.batch(4)
    of.batch(has_ended=True)
    for first in of.storage.repeated:
        assert rows_of([of.storage.outputs[first.number].rows]) == rows_of([first.rows])
    alone = stream_over(simulated(of_window(window), str(old)), {"t": of.rows})
    outputs = [of.storage.outputs[number].rows for number in sorted(of.storage.outputs)]
    assert of.n_late() == 0
    assert difference(alone.batch_rows(alone.order), final_rows(rows_of(outputs))) is None
