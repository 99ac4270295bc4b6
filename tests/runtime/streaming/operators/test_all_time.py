"""The window that never closes: it reads the parts of the keys that change, and forgets deleted ones."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

from runtime.local.streaming.messages import EndOfInput
from runtime.local.streaming.stage import ROW_COUNT
from runtime.spec.aggregates import Merge, MergeOp, WindowAggregation
from runtime.spec.thresholds import Thresholds
from runtime.streaming.operators.base import KeyGroupSpec, MicroBatch, OperatorRun
from runtime.streaming.operators.firing import FireRule, UpdateRules
from runtime.streaming.operators.window import WindowOperator, WindowSpec
from runtime.streaming.slices.levels import one_reader
from runtime.streaming.state.table_cache import CACHE
from runtime.streaming.watermarks import WatermarkRules
from runtime.windows.all_time import N_PARTS, AllTime
from tests.runtime.streaming.model import Memory

SUMS = (Merge(("n",), MergeOp.SUM), Merge(("total",), MergeOp.SUM))
AGGREGATION = WindowAggregation(AllTime(), ("key",), "$end", SUMS, remaining="n")
SMALL = Thresholds(
    slices_max_small_chunks=2,
    slices_merge_rows=4 * N_PARTS,
    results_part_rows=4,
    results_max_runs=2,
)


def partials(changes: list[tuple[int, int, int]]) -> pa.Table:
    """Return changes (key, 1 or -1, value) as the local stage aggregates them."""
    sums: dict[int, list[int]] = {}
    for key, change, value in changes:
        n, total, rows = sums.setdefault(key, [0, 0, 0])
        sums[key] = [n + change, total + change * value, rows + 1]
    keys = [*sums]
    columns = {"key": keys, "$end": [1 + key % N_PARTS for key in keys]}
    for place, name in enumerate(("n", "total", ROW_COUNT)):
        columns[name] = [sums[key][place] for key in keys]
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def run(store: Memory, changes: list[tuple[int, int, int]], limits: Thresholds = SMALL, **batch):
    """Run a micro-batch over a state. Returns the changes (kind, key, n, total)."""
    common = KeyGroupSpec(1, OperatorRun(WatermarkRules()), "", thresholds=limits)
    early = UpdateRules(0, FireRule(delay_us=0), None)
    spec = WindowSpec(one_reader(AGGREGATION, SUMS), common, early)
    given = MicroBatch([partials(changes)] if changes else [], batch.get("progress", []), 0, None)
    *windows, _ = (output.result for output in WindowOperator(spec, store).process(given))
    rows = [row for window in windows for row in window.to_pylist()]
    return [(row["$row_kind"], row["key"], row["n"], row["total"]) for row in rows]


@pytest.mark.parametrize("seed", range(2))
def test_changes_give_the_rows_that_remain_and_deleted_keys_leave_no_state(seed):
    source, store = random.Random(seed), Memory()
    remaining: Counter[tuple[int, int]] = Counter()
    shown: dict[int, tuple[int, int]] = {}
    for number in range(40):
        is_deleting = number >= 15
        changes = []
        for _ in range(5):
            rows = [*remaining.elements()]
            if rows and (is_deleting or source.random() < 0.3):
                row = source.choice(rows)
                remaining[row] -= 1
                changes.append((row[0], -1, row[1]))
            elif not is_deleting:
                row = (source.randrange(12) * N_PARTS, source.choice([0, 3, 7]))
                remaining[row] += 1
                changes.append((row[0], 1, row[1]))
        for kind, key, n, total in run(store, changes):
            assert (key in shown) == (kind != "+I")
            if kind in ("+I", "+U"):
                shown[key] = n, total
            else:
                assert shown[key] == (n, total)
            if kind == "-D":
                shown.pop(key)
        expected: dict[int, tuple[int, int]] = {}
        for key, value in remaining.elements():
            n, total = expected.get(key, (0, 0))
            expected[key] = n + 1, total + value
        assert shown == expected
    assert not shown
    for _ in range(8):  # further rows of the same part merge its chunks and results
        run(store, [(0, 1, 1)])
    rows = sum(chunk.n_rows for slab in store.slabs for chunk in slab.chunks)
    results = sum(part.n_rows for run_ in store.contents.updates.runs for part in run_)
    assert rows <= 3 and results <= 3
    assert not [slab for slab in store.slabs if not slab.chunks]


def test_a_micro_batch_of_one_key_reads_the_state_of_one_part():
    store, limits = Memory(), Thresholds(results_part_rows=64)
    run(store, [(key, 1, 1) for key in range(25 * N_PARTS)], limits)
    CACHE.clear()
    before = store.n_gets
    assert run(store, [(7, 1, 5)], limits) == [("-U", 7, 1, 1), ("+U", 7, 2, 6)]
    # the metadata, a chunk, and a part of the results
    assert store.n_gets - before <= 4


def test_the_end_of_the_input_emits_nothing_again():
    store = Memory()
    assert len(run(store, [(1, 1, 5), (2, 1, 5)])) == 2
    assert run(store, [], progress=[EndOfInput()]) == []
    assert len(store.blobs) == 1
