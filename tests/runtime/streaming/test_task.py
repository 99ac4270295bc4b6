"""A stream without Spark: local stage, key groups, state, offsets and sink are in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.local.stage import BufferPlan
from runtime.local.streaming.messages import Message
from runtime.local.streaming.stage import LocalPlan, LocalTask
from runtime.spec.aggregates import Merge, MergeOp
from runtime.spec.stream import FINAL_US, KEEP, SOURCE, TIME, WATERMARK
from runtime.streaming.operators.base import KeyGroupSpec
from runtime.streaming.operators.window import WindowSpec
from runtime.streaming.slices.levels import one_reader
from runtime.streaming.task import KeyGroupTask, TaskSpec
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.runtime.streaming.model import (
    KEYS,
    MS,
    PARTIALS,
    SCHEMA,
    SPANS_FROM_THE_START,
    Memory,
    Model,
    aggregation,
    decode_messages,
    result_rows,
    slice_store,
)

S = 1000 * MS
DELAY = 3_000
# two tasks, each with two key groups
GROUPS, HEADS = (0, 1, 2, 3), (0, 2)
TASKS = ((0, 1), (2, 3))
Row = tuple[str, int, int]
WINDOWS = [Tumble(10 * S), Hop(2 * S, 24 * S), Cumulate(5 * S, 30 * S)]


class DiedError(Exception):
    """The process died."""


@dataclass
class InMemoryStream:
    """Runs micro-batches over rows in memory, and repeats those that did not commit.

    Attributes:
        rows: Source. Its offsets are positions in this list.
        offsets: Offset up to which each micro-batch reads, recorded before it runs.
        committed: Number of committed micro-batches.
        states: State of each key group as of the last committed micro-batch.
        sink: Rows by micro-batch.
    """

    window: Tumble | Hop | Cumulate
    rows: list[Row]
    offsets: list[int] = field(default_factory=list)
    committed: int = 0
    states: dict[int, dict[str, bytes]] = field(default_factory=dict)
    sink: dict[int, list[Any]] = field(default_factory=dict)
    n_late: dict[int, int] = field(default_factory=dict)

    def run(self, n_rows: int, dies_after: int | None = None) -> None:
        """Run a micro-batch over the next rows, or repeat the one that did not commit.

        It dies after some outputs, or after all of them but before it commits.
        """
        if len(self.offsets) == self.committed:
            start = self.offsets[-1] if self.offsets else 0
            self.offsets.append(min(start + n_rows, len(self.rows)))
        number = self.committed
        start = self.offsets[number - 1] if number else 0
        rows = self.rows[start : self.offsets[number]]
        states = {group: Memory() for group in GROUPS}
        for group, store in states.items():
            store.blobs = dict(self.states.get(group, {}))
        outputs = self._outputs(self._messages(rows), states)
        # rows written before it died are written again under the same number
        self.sink[number] = list(islice(outputs, dies_after))
        if dies_after is not None:
            raise DiedError
        self.states = {group: store.blobs for group, store in states.items()}
        self.committed += 1

    def _messages(self, rows: list[Row]) -> dict[int, list[Message]]:
        """Return the messages of two local-stage tasks to each key group."""
        accumulators = (*PARTIALS, Merge(("$rows",), MergeOp.COUNT))
        plan = LocalPlan(
            BufferPlan(
                self.window, KEYS, "$slice_end", accumulators, ((), ("value",), ("value",), ()),
                (None,) * 4, SCHEMA,
            ), 1, GROUPS, HEADS,
        )  # fmt: skip
        messages: dict[int, list[Message]] = {group: [] for group in GROUPS}
        for part in (rows[::2], rows[1::2]):
            for group, message in decode_messages(LocalTask(plan, FINAL_US).run([_batch(part)])):
                messages[group].append(message)
        return messages

    def _outputs(self, messages: dict[int, list[Message]], states: dict[int, Memory]) -> Any:
        spec = WindowSpec(
            one_reader(aggregation(self.window), PARTIALS, store=slice_store(self.window)),
            KeyGroupSpec(1, by=KEYS, thresholds=SPANS_FROM_THE_START),
        )
        n_late = 0
        for groups in TASKS:
            task = KeyGroupTask(TaskSpec(spec, ("timestamp_ntz",), "UTC", GROUPS, HEADS, 1 << 20))
            for group in groups:
                batch, _ = task.receive(group, messages[group])
                for output in task.run(group, batch, states[group]):
                    if isinstance(output.result, pa.RecordBatch):
                        yield from result_rows(output.result)
                    else:
                        n_late += output.result.n_late
        self.n_late[self.committed] = n_late


def _batch(rows: list[Row]) -> pa.RecordBatch:
    keys, times, values = zip(*rows, strict=True) if rows else ((), (), ())
    at = np.array(times, np.int64)
    return pa.RecordBatch.from_pydict(
        {
            KEEP: pa.array([True] * len(rows), pa.bool_()),
            SOURCE: pa.array([0] * len(rows), pa.int32()),
            WATERMARK: pa.array((at - DELAY) * MS),
            TIME: pa.array(at * MS),
            "key": pa.array(keys, pa.string()),
            "value": pa.array(values, pa.int64()),
        }
    )


rows = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 60_000), st.integers(-5, 5)),
    min_size=5,
    max_size=40,
)
deaths = st.lists(st.none() | st.integers(0, 9), max_size=3)


@pytest.mark.variants(1)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@given(rows=rows, cuts=st.lists(st.tuples(st.integers(1, 12), deaths), min_size=1, max_size=8))
@settings(max_examples=15, deadline=None)
def test_a_stream_in_memory_gives_each_window_once_however_often_it_dies(
    window: Any, rows: list[Row], cuts: list[tuple[int, list[int | None]]]
) -> None:
    # in order, except some
    ordered = sorted(rows, key=lambda row: row[1] + 4_000 * (row[2] == 5))
    stream, model = InMemoryStream(window, ordered), Model(window)
    for number, (n_rows, dies_after) in enumerate(cuts):
        for after in dies_after:
            if after is not None:
                with pytest.raises(DiedError):
                    stream.run(n_rows, after)
        stream.run(n_rows)
        start = stream.offsets[number - 1] if number else 0
        read = ordered[start : stream.offsets[number]]
        mark = max((time for _, time, _ in read), default=None)
        expected = model.micro_batch(read, None if mark is None else mark - DELAY)
        assert sorted(stream.sink[number]) == sorted(expected)
    assert sum(stream.n_late.values()) == model.n_late
