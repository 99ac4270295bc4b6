"""The general operator of a key group: micro-batches, compared with all rows at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import ExecutionError
from runtime.local.streaming.messages import EndOfInput, Progress, SourceProgress
from runtime.spec.stream import TIME
from runtime.streaming.general.assigners import (
    AlignedAssigner,
    Assigner,
    GlobalAssigner,
    SessionAssigner,
)
from runtime.streaming.general.evictors import CountEvictor
from runtime.streaming.general.functions import AggregateFunction, WholeWindowFunction
from runtime.streaming.general.operator import GeneralWindowOperator, WindowJob
from runtime.streaming.general.rows import results_batch
from runtime.streaming.general.triggers import (
    ContinuousTrigger,
    CountTrigger,
    EarlyAndLateTrigger,
    EventTimeTrigger,
)
from runtime.streaming.operators.base import KeyGroupSpec, MicroBatch, Status
from runtime.streaming.operators.general import POSITION, GeneralGroup, GeneralSpec
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.runtime.streaming.model import Memory

MS = 1_000
VALUES = WholeWindowFunction(lambda key, window, rows: [(sorted(row["v"] for row in rows),)])
SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("window_start", pa.timestamp("us")),
        ("window_end", pa.timestamp("us")),
        ("values", pa.list_(pa.int64())),
    ]
)


class Group:
    """A key group that is recreated for every micro-batch, as in workers; times in ms."""

    def __init__(self, job: WindowJob, delay: int = 0, cell_bytes: int = 1 << 20) -> None:
        self._spec = GeneralSpec(job, ("k",), SCHEMA, KeyGroupSpec(1), "UTC", cell_bytes=cell_bytes)
        self.store = Memory()
        self._delay = delay
        self.status: Status | None = None
        self.position: Callable[[str], int] = lambda key: ord(key) % 2

    def takes(self, job: WindowJob) -> None:
        """Continue with another job, as after a restart."""
        self._spec = replace(self._spec, job=job)

    def batch(
        self,
        rows: list[tuple[str, int, int]],
        clock: int | None = None,
        progress: list[Progress] | None = None,
    ) -> list[tuple[Any, ...]]:
        """Process rows (key, time, value) and return results (key, start, end, values)."""
        if progress is None and rows:
            progress = self.progress(rows)
        table = pa.table(
            {
                "k": pa.array([key for key, _, _ in rows], pa.string()),
                "v": pa.array([value for _, _, value in rows], pa.int64()),
                TIME: pa.array([time * MS for _, time, _ in rows], pa.int64()),
                POSITION: pa.array([self.position(key) for key, _, _ in rows], pa.int32()),
            }
        )
        clock_us = None if clock is None else clock * MS
        micro = MicroBatch(
            [table[: len(rows) // 2], table[len(rows) // 2 :]], progress or [], 0, clock_us
        )
        actual: list[tuple[Any, ...]] = []
        for output in GeneralGroup(self._spec, self.store).process(micro):
            result = output.result
            if isinstance(result, Status):
                self.status = result
                continue
            columns = [result.column(name) for name in SCHEMA.names]
            columns[1:3] = [c.cast(pa.int64()) for c in columns[1:3]]
            actual += [
                (k, s if s is None else s // MS, e if e is None else e // MS, v)
                for k, s, e, v in zip(*(c.to_pylist() for c in columns), strict=True)
            ]
        return sorted(actual, key=repr)

    def progress(self, rows: list[tuple[str, int, int]]) -> list[Progress]:
        """Return a task's progress in the source of rows."""
        marks = [(time - self._delay) * MS for _, time, _ in rows]
        return [SourceProgress(0, max(marks), min(marks), len(rows))]

    def end(self) -> list[tuple[Any, ...]]:
        return self.batch([], progress=[EndOfInput()])


def batch_results(job: WindowJob, rows: list[tuple[str, int, int]]) -> list[tuple[Any, ...]]:
    """Return the results of a batch."""
    actual = []
    for key in sorted({key for key, _, _ in rows}):
        operator = GeneralWindowOperator(job)
        for _, time, value in sorted((r for r in rows if r[0] == key), key=lambda row: row[1]):
            actual += operator.on_watermark(time * MS - MS - 1)
            actual += operator.on_row(key, {"k": key, "v": value}, time * MS)
        actual += operator.on_end()
    batch = results_batch(actual, 1, SCHEMA)
    starts, ends = (
        [None if t is None else t // MS for t in batch.column(n).cast(pa.int64()).to_pylist()]
        for n in ("window_start", "window_end")
    )
    keys, values = batch.column("k").to_pylist(), batch.column("values").to_pylist()
    return sorted(zip(keys, starts, ends, values, strict=True), key=repr)


JOBS = {
    "tumble": WindowJob(AlignedAssigner(Tumble(10 * MS)), VALUES),
    "hop": WindowJob(AlignedAssigner(Hop(5 * MS, 10 * MS)), VALUES),
    "session": WindowJob(SessionAssigner(7 * MS), VALUES),
    "session by row": WindowJob(SessionAssigner(lambda row: (row["v"] + 1) * MS), VALUES),
    "every second row of a window": WindowJob(
        AlignedAssigner(Tumble(20 * MS)), VALUES, CountTrigger(2), CountEvictor(3)
    ),
    "early by count": WindowJob(
        SessionAssigner(7 * MS), VALUES, EarlyAndLateTrigger(early=CountTrigger(2))
    ),
    "everything, evicted": WindowJob(GlobalAssigner(), VALUES, CountTrigger(3), CountEvictor(4)),
    "everything at the end": WindowJob(GlobalAssigner(), VALUES, EventTimeTrigger()),
    "accumulator": WindowJob(
        AlignedAssigner(Tumble(10 * MS)),
        AggregateFunction(lambda: 0, lambda a, row: a + row["v"], lambda a, b: a + b,
                          process=lambda key, window, total: [([total],)]),
    ),
}  # fmt: skip

# (key, step in time, value): rows in order
STEPS = st.lists(
    # often exactly a session gap apart
    st.tuples(st.sampled_from("abc"), st.sampled_from([0, 7]) | st.integers(0, 9), st.integers(0, 9)),
    max_size=25,
)  # fmt: skip


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
@given(
    steps=STEPS,
    cuts=st.lists(st.integers(0, 25), max_size=4),
    delay=st.just(1) | st.integers(1, 30),
)
def test_ordered_rows_give_the_batch_result(
    job: WindowJob, steps: list[tuple[str, int, int]], cuts: list[int], delay: int
) -> None:
    times = np.cumsum([step for _, step, _ in steps] or [0]) - 40
    rows = [(k, int(t), v) for (k, _, v), t in zip(steps, times, strict=False)]
    # the order of a key's rows with equal times is undefined; different keys are emitted together
    rows = list({(k, t): (k, t, v) for k, t, v in rows}.values())
    group = Group(job, delay)
    actual = []
    for first, last in zip([0, *sorted(cuts)], [*sorted(cuts), 25], strict=True):
        actual += group.batch(rows[first:last])
    actual += group.end()
    assert sorted(actual, key=repr) == batch_results(job, rows)


@given(
    batches=st.lists(
        st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60), st.integers(0, 9)), max_size=8),
        max_size=5,
    ),
    delay=st.integers(0, 15),
)  # fmt: skip
def test_a_row_is_late_by_the_watermark_of_the_micro_batch_before(
    batches: list[list[tuple[str, int, int]]], delay: int
) -> None:
    group = Group(JOBS["tumble"], delay)
    watermark, n_late = None, 0
    windows: dict[tuple[str, int], list[int]] = defaultdict(list)
    actual = []
    for rows in batches:
        actual += group.batch(rows)
        assert group.status is not None
        for key, time, value in rows:
            end = time // 10 * 10 + 10
            if watermark is not None and watermark >= end - 1:
                n_late += 1
            else:
                windows[key, end].append(value)
        n_late -= group.status.n_late
        for _, time, _ in rows:
            watermark = time - delay if watermark is None else max(watermark, time - delay)
    actual += group.end()
    assert n_late == 0
    expected = [(k, end - 10, end, sorted(values)) for (k, end), values in windows.items()]
    assert sorted(actual, key=repr) == sorted(expected, key=repr)
    assert set(group.store.blobs) == {"metadata"}


def test_rows_within_the_lateness_emit_a_window_again() -> None:
    group = Group(WindowJob(JOBS["tumble"].assigner, VALUES, allowed_lateness_us=20 * MS))
    assert group.batch([("a", 3, 1), ("a", 15, 2)]) == [("a", 0, 10, [1])]
    assert group.batch([("a", 4, 3)]) == [("a", 0, 10, [1, 3])]
    assert group.batch([("a", 31, 4)]) == [("a", 10, 20, [2])]
    assert group.batch([("a", 5, 5)]) == []
    assert group.status is not None
    assert group.status.n_late == 1


def test_windows_on_processing_time_close_with_or_without_rows() -> None:
    group = Group(WindowJob(AlignedAssigner(Tumble(10 * MS)), VALUES, is_processing_time=True))
    assert group.batch([("a", 500, 1), ("b", 0, 2)], clock=12) == []
    assert group.status is not None
    assert group.batch([("a", -7, 3)], clock=18) == []
    assert group.batch([], clock=19) == [("a", 10, 20, [1, 3]), ("b", 10, 20, [2])]
    group.batch([("a", 0, 4)], clock=30)
    assert group.batch([], clock=31, progress=[EndOfInput()]) == [("a", 30, 40, [4])]
    assert set(group.store.blobs) == {"metadata"}


def test_a_trigger_on_processing_time_wakes_windows_of_event_time() -> None:
    early = EarlyAndLateTrigger(early=ContinuousTrigger(100 * MS, processing_time=True))
    job = WindowJob(AlignedAssigner(Tumble(10 * MS)), VALUES, early)
    assert job.needs_processing_time
    assert not JOBS["early by count"].needs_processing_time
    group = Group(job)
    assert group.batch([("a", 3, 1)], clock=1_020) == []
    assert group.status is not None
    assert group.batch([], clock=1_100) == [("a", 0, 10, [1])]
    assert group.batch([("a", 12, 2)], clock=1_130) == [("a", 0, 10, [1])]


def test_only_cells_with_rows_or_timers_are_read() -> None:
    group = Group(JOBS["tumble"], cell_bytes=1)
    group.batch([("a", 3, 1), ("b", 4, 2)])
    before = group.store.n_gets
    assert group.batch([("b", 5, 3)]) == []
    assert group.store.n_gets - before == 2
    assert group.batch([("b", 10, 4)]) == [("a", 0, 10, [1]), ("b", 0, 10, [2, 3])]


def test_a_result_that_does_not_fit_its_column_is_named() -> None:
    function = WholeWindowFunction(lambda key, window, rows: ["text"])
    group = Group(WindowJob(AlignedAssigner(Tumble(10 * MS)), function))
    with pytest.raises(ExecutionError, match="values of a window function for `values`"):
        group.batch([("a", 3, 1), ("a", 30, 1)])


def test_a_continuous_trigger_ends_with_the_input() -> None:
    rows = [("a", 3, 1), ("a", 25, 2)]
    actual = batch_results(WindowJob(GlobalAssigner(), VALUES, ContinuousTrigger(10 * MS)), rows)
    assert [values for *_, values in actual] == [[1, 2], [1, 2], [1], [1]]


@pytest.mark.parametrize(
    "assigner", [JOBS["tumble"].assigner, SessionAssigner(10 * MS)], ids=["tumble", "session"]
)
def test_more_lateness_extends_only_open_windows(
    assigner: Assigner,
) -> None:
    group = Group(WindowJob(assigner, VALUES, allowed_lateness_us=5 * MS))
    group.batch([("a", 0, 1), ("a", 9, 2)])
    # "b" is closed when the lateness is raised, "c" stays open for 5 ms more
    group.batch([("b", 0, 3), ("c", 40, 4), ("a", 53, 5)])
    group.takes(WindowJob(assigner, VALUES, allowed_lateness_us=100 * MS))
    assert group.batch([("b", 1, 6), ("a", 58, 7)]) == []
    assert group.status is not None
    assert group.status.n_late == 1
    actual = group.batch([("c", 41, 8), ("a", 90, 9)])
    assert [values for key, *_, values in actual if key == "c"] == [[4, 8]]
    group.batch([("a", 400, 10)])
    assert group.status.n_rows == 1
    assert group.batch([("c", 42, 11)]) == []
    assert group.status.n_late == 1
    group.end()
    assert set(group.store.blobs) == {"metadata"}


@pytest.mark.parametrize(
    "assigner", [JOBS["tumble"].assigner, SessionAssigner(10 * MS)], ids=["tumble", "session"]
)
def test_less_lateness_closes_open_windows(assigner: Assigner) -> None:
    group = Group(WindowJob(assigner, VALUES, allowed_lateness_us=1000 * MS))
    group.batch([("a", 0, 1), ("b", 0, 2), ("c", 60, 3), ("a", 100, 4)])
    group.takes(WindowJob(assigner, VALUES, allowed_lateness_us=50 * MS))
    actual = group.batch([("a", 3, 5), ("c", 61, 6)])
    assert [(key, values) for key, *_, values in actual] == [("c", [3, 6])]
    assert group.status is not None
    assert group.status.n_late == 1
    group.takes(WindowJob(assigner, VALUES, allowed_lateness_us=1000 * MS))
    assert group.batch([("b", 4, 7)]) == []
    assert group.status.n_late == 1
    group.end()
    assert set(group.store.blobs) == {"metadata"}
