"""A stream whose sources are silent emits its windows, and a repeated micro-batch the same rows."""

from __future__ import annotations

import pytest

from planner.explain.streams import explain_stream
from runtime.simulator.check import disagreement, final_rows_of
from runtime.simulator.histories import Arrival, Batch, Crash, Restart, StreamHistory, Write
from sqlwin.testing.simulated import stream_over
from tests.runtime.simulator.queries import of_window, rows_table, simulated, stream

S = 1_000_000
SETTING = (("sqlwin.watermark.idle-advance", "10 s"),)
#  0     5     10    15     watermark: 2 s behind the rows
#  [--a--)[--b--)     c: late
ROWS = [(3_000, "a", 1, 0.0), (7_000, "b", 2, 0.0), (8_000, "c", 3, 0.0)]
TABLES = ("t",)


def history(of, crash=None, *more):
    """Return a history: two rows, silence for 10 and 20 s, a row of the closed window."""
    now = of.shape.clock_us
    return StreamHistory(
        (
            Batch((Arrival(0), Arrival(1)), now),
            Batch((), now + 9 * S),
            Batch((), now + 20 * S, crash=crash),
            *more,
            Batch((Arrival(2),), now + 21 * S),
            Batch((), now + 21 * S, has_ended=True),
        ),
        4,
        2,
    )


def emitted(outcome):
    """Return the keys emitted in each micro-batch."""
    return ["".join(batch.rows.column("k").to_pylist()) for batch in outcome.batches]


def test_open_windows_are_emitted_and_a_later_row_is_late():
    of = stream(of_window("tumble"), ROWS, settings=SETTING, tables=TABLES)
    outcome = of.run(history(of))
    assert emitted(outcome) == ["a", "", "b", "", ""]
    assert [batch.n_late for batch in outcome.batches] == [0, 0, 0, 1, 0]
    off = stream(of_window("tumble"), ROWS)
    assert emitted(off.run(history(off))) == ["a", "", "", "", "bc"]


@pytest.mark.variants(10)
@pytest.mark.parametrize("window", ["tumble", "hop", "session"])
@pytest.mark.parametrize("write", list(Write))
@pytest.mark.parametrize("is_after", [False, True])
def test_a_repeated_micro_batch_emits_the_windows_of_its_first_attempt(window, write, is_after):
    of = stream(of_window(window), ROWS, settings=SETTING, tables=TABLES)
    expected = final_rows_of(of.run(history(of)))
    if write is Write.OFFSETS and not is_after:
        # the micro-batch was never planned, and the clock of the source starts over
        outcome = of.run(history(of, Crash(write)))
        assert "b" not in "".join(emitted(outcome)[:-1])
        return
    crashed = history(of, Crash(write, 1, is_after))
    assert disagreement(of, crashed, expected) is None
    assert of.run(crashed).planned == tuple(b for b in crashed.steps)


def test_a_restart_resets_the_silence_but_not_the_watermark():
    of = stream(of_window("tumble"), ROWS, settings=SETTING, tables=TABLES)
    now = of.shape.clock_us
    outcome = of.run(history(of, None, Restart(), Batch((), now + 20 * S), Batch((), now + 29 * S)))
    marks = [batch.watermark_us for batch in outcome.batches]
    assert marks[3] == marks[4] == marks[2]
    outcome = of.run(history(of, None, Restart(), Batch((), now + 20 * S), Batch((), now + 31 * S)))
    marks = [batch.watermark_us for batch in outcome.batches]
    assert marks[4] - marks[2] == 11 * S


def test_a_repeated_micro_batch_finds_the_same_sources_idle_as_its_first_attempt():
    both = """SELECT window_end, COUNT(*) AS n
        FROM TABLE(TUMBLE((SELECT * FROM t UNION ALL SELECT * FROM u), DESCRIPTOR(ts),
          INTERVAL '5' SECONDS)) GROUP BY window_start, window_end"""
    timeout = (("table.exec.source.idle-timeout", "10 s"),)
    query = simulated(both, settings=timeout, tables=("t", "u"))
    of = stream_over(query, {"t": rows_table(ROWS[:2]), "u": rows_table([])})
    for crash in (None, *(Crash(write, 0, is_after=True) for write in Write)):
        silent = Batch((), 11 * S, crash=crash)
        steps = (Batch((Arrival(0), Arrival(1)), 0), silent, Batch((), 12 * S, has_ended=True))
        outcome = of.run(StreamHistory(steps))
        assert [batch.rows.num_rows for batch in outcome.batches] == [0, 1, 1], crash


def test_explain_and_random_histories_of_the_sample_know_the_setting():
    of = simulated(of_window("tumble"), settings=SETTING, tables=TABLES)
    lines = explain_stream(of.query.operators[0].step, 8, "min").splitlines()
    (line,) = [line for line in lines if line.startswith("  watermark: ")]
    assert line == (
        "  watermark: from t; never decreases; advances with the clock once t has had no row for 10 s"
    )
    given = stream_over(of, {"t": rows_table(ROWS)})
    # random histories have no silence, so all rows are on time
    for seed in range(5):
        assert disagreement(given, given.history(seed), given.batch_rows(given.order)) is None
