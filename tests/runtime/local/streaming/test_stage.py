"""The local stage: rows to partials by key group, and control messages to each task's head group."""

from typing import get_args

import pyarrow as pa
import pytest
from pyspark import TaskContext

from runtime.local.stage import BufferPlan
from runtime.local.streaming.messages import (
    EndOfInput,
    LateCandidates,
    LateRows,
    Message,
    MessageKind,
    NoRows,
    NullTimes,
    Partials,
    ProcessingTime,
    RowsRead,
    SourceProgress,
    encode,
)
from runtime.local.streaming.stage import NOT_KEPT, LocalPlan, LocalTask, decode_sent
from runtime.spec.aggregates import Merge, MergeOp
from runtime.spec.stream import ALL_SOURCES, KEEP, PROCESSING_TIME, SOURCE, TIME, WATERMARK
from runtime.windows.hop import Hop
from tests.runtime.streaming.model import decode_messages

SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        pa.field("$slice_end", pa.int64(), nullable=False),
        ("n", pa.int64()),
        ("total", pa.int64()),
        ("$rows", pa.int64()),
    ]
)
PLAN = LocalPlan(
    BufferPlan(
        Hop(5, 20),
        ("key",),
        "$slice_end",
        (
            Merge(("n",), MergeOp.COUNT),
            Merge(("total",), MergeOp.SUM),
            Merge(("$rows",), MergeOp.COUNT),
        ),
        ((), ("$arg0",), ()),
        (None, "$if1", None),
        SCHEMA,
    ),
    2,
    (3, 5, 8),
    (3, 8),
)


def batch(rows):
    """Return rows of (keep, source, watermark, time, key, value, whether the FILTER holds)."""
    columns = list(zip(*rows, strict=True)) or [()] * 7
    types = {
        KEEP: pa.bool_(),
        SOURCE: pa.int32(),
        WATERMARK: pa.int64(),
        TIME: pa.int64(),
        "key": pa.string(),
        "$arg0": pa.int64(),
        "$if1": pa.bool_(),
    }
    arrays = [pa.array(c, t) for c, t in zip(columns, types.values(), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(types))


def run(rows):
    """Return (partials by key group, control messages by key group)."""
    partials, control = {}, {}
    for group, message in decode_messages(LocalTask(PLAN).run([batch(rows)])):
        if isinstance(message, Partials):
            partials.setdefault(group, []).extend(message.rows.to_pylist())
        else:
            control.setdefault(group, []).append(message)
    return partials, control


def test_rows_are_aggregated_to_one_partial_per_key_and_slice():
    partials, _ = run(
        [
            (True, 0, 1, 1, "a", 10, True),
            (True, 0, 2, 2, "a", 20, False),
            (True, 0, 6, 6, "a", 40, True),
            (True, 0, 3, 3, None, 1, None),
        ]
    )
    result = sorted(
        (str(r["key"]), r["$slice_end"], r["n"], r["total"], r["$rows"])
        for rows in partials.values()
        for r in rows
    )
    assert result == [("None", 5, 1, None, 1), ("a", 5, 2, 10, 2), ("a", 10, 1, 40, 1)]
    assert sum(len({r["key"] for r in rows}) for rows in partials.values()) == 2


def test_the_first_key_group_of_each_task_gets_the_progress_of_every_source():
    _, control = run(
        [
            (True, 0, 7, 1, "a", 10, True),
            (True, 0, 4, 1, "a", 10, True),
            (True, 1, 3, 2, "b", 20, True),
        ]
    )
    progress = [SourceProgress(0, 7, 4, 2), SourceProgress(1, 3, 3, 1)]
    assert control == {3: progress, 5: [NoRows()], 8: progress}


def test_every_key_group_gets_a_message_of_a_task_without_rows():
    _, control = run([])
    assert control == {3: [NoRows()], 5: [NoRows()], 8: [NoRows()]}


class SecondTask:
    """Spark's task context in a task that is not the first."""

    def partitionId(self):
        return 1


def test_the_first_task_calls_key_groups_without_messages(monkeypatch):
    monkeypatch.setattr(TaskContext, "get", SecondTask)
    _, control = run([(True, 1, 3, 2, None, 20, True)])
    progress = [SourceProgress(1, 3, 3, 1)]
    assert control == {3: progress, 8: progress}
    assert run([]) == ({}, {})


def test_a_row_without_a_source_counts_and_is_no_sign_of_life_of_any():
    partials, control = run([(True, None, None, 1, "a", 10, True)])
    assert len(partials) == 1
    assert control[3] == [NoRows()]


def test_the_first_key_group_of_each_task_gets_the_processing_time():
    beat = batch([(False, ALL_SOURCES, None, None, None, None, None)])
    beat = beat.append_column(PROCESSING_TIME, pa.array([1_700_000_000_000_000]))
    now = ProcessingTime(1_700_000_000_000_000)
    assert list(decode_messages(LocalTask(PLAN).run([beat]))) == [
        (3, now), (8, now), (5, NoRows()),
    ]  # fmt: skip


def test_a_row_that_a_filter_dropped_still_tells_its_watermark():
    partials, control = run([(False, 1, 9, None, None, None, None)])
    assert partials == {}
    assert control[3] == [SourceProgress(1, 9, 9, 1)]


def test_rows_without_a_time_are_dropped_and_counted_once():
    partials, control = run([(True, 0, None, None, "a", 1, True), (True, 0, 5, None, "b", 1, True)])
    assert partials == {}
    every = [message for messages in control.values() for message in messages]
    assert [item for item in every if isinstance(item, NullTimes)] == [NullTimes(2)]


def test_the_first_key_group_of_each_task_gets_the_end_of_input():
    _, control = run([(False, ALL_SOURCES, 1, None, None, None, None)])
    end = [EndOfInput()]
    assert control == {3: end, 5: [NoRows()], 8: end}


@pytest.mark.parametrize(
    "message",
    [
        SourceProgress(1, 5, -5, 2), SourceProgress(0, None, None, 1), EndOfInput(), NoRows(),
        ProcessingTime(7), NullTimes(3), RowsRead(4), Partials(pa.table({"n": [1]})),
        LateCandidates(pa.table({"n": [1]})), LateRows(pa.table({"n": range(1000)}), -1),
    ],
)  # fmt: skip
def test_a_message_is_decoded_as_it_was_encoded(message):
    assert list(decode_messages([encode([(8, message), (3, message)])])) == [
        (8, message),
        (3, message),
    ]


def test_there_is_a_class_for_every_kind_of_message():
    kinds = {kind.name.replace("_", "").lower() for kind in MessageKind}
    assert kinds == {get_arg.__name__.lower() for get_arg in get_args(Message)}


@pytest.mark.parametrize("n_rows", [1, 5000])
def test_a_key_is_always_in_the_same_group(n_rows):
    rows = [(True, 0, None, i, f"k{i % 50}", 1, True) for i in range(n_rows)]
    groups = {}
    for _ in range(2):
        for group, some in run(rows)[0].items():
            for row in some:
                assert groups.setdefault(row["key"], group) == group


def encoded_rows(rows, has_watermark):
    """Return rows in the encoded columns, as Spark makes them."""
    full = batch(rows).to_pydict()
    codes, times = [], []
    for keep, source, mark, time in zip(
        full[KEEP], full[SOURCE], full[WATERMARK], full[TIME], strict=True
    ):
        number = ALL_SOURCES if source is None else source
        codes.append(number if keep else NOT_KEPT - number)
        times.append(time if keep else mark)
    columns = {**full, SOURCE: pa.array(codes, pa.int32()), TIME: pa.array(times, pa.int64())}
    del columns[KEEP]
    if not has_watermark:
        del columns[WATERMARK]
    names = [name for name in batch(rows).schema.names if name in columns]
    return pa.RecordBatch.from_pydict({name: columns[name] for name in names})


@pytest.mark.parametrize("delay_us", [None, 0, 3])
@pytest.mark.parametrize("only_kept", [False, True])
def test_rows_are_received_as_they_were_before_they_were_sent(delay_us, only_kept):
    before = 1 if delay_us is None else delay_us
    rows = [
        (True, 0, 10 - before, 10, "a", 1, True),
        (True, 1, None, None, "b", 2, False),
        (True, 0, -7 - before, -7, None, None, None),
    ]
    if not only_kept:
        rows += [
            (False, 0, 99, None, None, None, None),
            (False, 1, None, None, "c", 3, True),
            (False, ALL_SOURCES, 0, None, None, None, None),
        ]
    result = decode_sent(encoded_rows(rows, delay_us is None), delay_us)
    assert result.select(batch(rows).schema.names).to_pylist() == batch(rows).to_pylist()


def test_a_key_equal_to_the_time_is_read_once():
    rows = [(True, 0, 5, 10, "a", 1, True), (True, 0, None, None, "b", 2, True)]
    rows.append((False, 0, 99, None, None, None, None))
    result = decode_sent(encoded_rows(rows, True), None, "at")
    assert result.column("at").type == pa.timestamp("us")
    assert result.column("at").cast(pa.int64()).to_pylist() == [10, None, None]


def test_rows_without_a_source_report_no_progress():
    row = (True, None, None, 5, "a", 1, True)
    result = decode_sent(encoded_rows([row, (False, *row[1:])], True), None)
    assert result.column(SOURCE).to_pylist() == [ALL_SOURCES, ALL_SOURCES]
    assert result.column(KEEP).to_pylist() == [True, False]
    assert result.column(TIME).to_pylist() == [5, None]


def test_the_watermark_of_the_earliest_time_does_not_wrap_around():
    least = -(1 << 63)
    times = pa.array([least, least + 10, None], pa.int64())
    sent = pa.record_batch({SOURCE: pa.array([0, 0, 0], pa.int32()), TIME: times})
    marks = decode_sent(sent, 1000).column(WATERMARK).to_pylist()
    assert marks == [least + 1, least + 1, None]
