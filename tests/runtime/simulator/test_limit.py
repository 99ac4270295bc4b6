"""LIMIT ends a stream after that many rows."""

from __future__ import annotations

import pytest

from runtime.simulator.arrivals import cut_at_every_row
from runtime.simulator.check import disagreement, final_rows_of, first_disagreement
from runtime.simulator.compare import limited_difference
from runtime.simulator.histories import Batch
from tests.runtime.simulator.queries import WINDOWS, stream

ROWS = [(i * 900, "ab"[i % 2], i, i / 2) for i in range(30)]
COUNTS = f"""SELECT window_end, k, COUNT(*) AS n FROM TABLE({WINDOWS["tumble"]})
    GROUP BY k, window_start, window_end"""


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_every_history_ends_after_some_rows_of_batch(limit):
    of = stream(f"{COUNTS} LIMIT {limit}", ROWS)
    all_rows = of.batch_rows(of.order)
    assert len(all_rows) == 12
    outcome = of.run(cut_at_every_row(of.order, of.shape))
    assert len(final_rows_of(outcome)) == min(limit, 12)
    # the stream has ended, and reads no more rows
    n_batches = sum(isinstance(step, Batch) for step in cut_at_every_row(of.order, of.shape).steps)
    assert (len(outcome.batches) < n_batches) == (limit < 10)
    assert first_disagreement(of, all_rows, 6, 0) is None


def test_the_first_rows_in_order_equal_those_of_batch():
    of = stream(f"{COUNTS} ORDER BY window_end, k DESC LIMIT 3", ROWS)
    rows = final_rows_of(of.run(cut_at_every_row(of.order, of.shape)))
    assert [(row["window_end"].second, row["k"]) for row in rows] == [(5, "b"), (5, "a"), (10, "b")]
    for seed in range(4):
        assert final_rows_of(of.run(of.history(seed))) == rows


def test_a_stream_with_too_few_or_other_rows_disagrees():
    rows = [{"n": 1}, {"n": 2}, {"n": 3}]
    assert limited_difference(rows, rows[:2], 2) is None
    assert limited_difference(rows, rows[1:], 2) is None
    assert limited_difference(rows, rows, 5) is None
    assert limited_difference(rows, rows[:1], 2) is not None
    assert limited_difference(rows, [{"n": 1}, {"n": 4}], 2) is not None
    assert limited_difference(rows, rows, 2) is not None
    of = stream(f"{COUNTS} LIMIT 3", ROWS)
    wrong = [{**row, "n": 0} for row in of.batch_rows(of.order)]
    assert disagreement(of, cut_at_every_row(of.order, of.shape), wrong) is not None
