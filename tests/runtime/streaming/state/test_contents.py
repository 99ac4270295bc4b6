"""The state of a key group as rows, under the names in SQL."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from runtime.records import round_trip
from runtime.spec.state_schema import (
    OperatorSchema,
    StateAccumulator,
    StateKey,
)
from runtime.streaming.state.codec import encode_table
from runtime.streaming.state.contents import BlobKind, Decoder, blobs_of
from runtime.streaming.state.metadata import FillMetadata, GroupMetadata, MarkedChunk
from runtime.streaming.watermarks import Watermarks
from runtime.windows import Window
from runtime.windows.cumulate import CalendarCumulate, Cumulate
from runtime.windows.hop import CalendarHop, Hop
from runtime.windows.session import SessionWindow
from runtime.windows.times import FIRST_TIME, LAST_TIME
from runtime.windows.tumble import CalendarTumble, Tumble
from tests.runtime.streaming.model import MS, Memory, Stream

S = 1000 * MS
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # wall clock


def drive_stream(window: Window) -> OperatorSchema:
    accumulators = (
        StateAccumulator(("n",), "count", (), None, "COUNT(*)"),
        StateAccumulator(("total",), "sum", ("v",), None, "SUM(v)"),
        StateAccumulator(("largest",), "max", ("v",), None, "MAX(v)"),
    )
    keys = (StateKey("key", "k", "string"),)
    return OperatorSchema(window, ("ts", "timestamp_ntz"), "$slice_end", keys, accumulators)


def rows_in(store: Memory, operator: OperatorSchema | None) -> list[dict[str, object]]:
    metadata = store.metadata
    decoder = Decoder(operator, metadata.closed_us)
    tables = [
        decoder.decode(blob, store.get(name) or b"")
        for name, blob in blobs_of(metadata).items()
        if blob.kind is BlobKind.SLICES
    ]
    return sorted(pa.concat_tables(tables).to_pylist(), key=str) if tables else []


def at(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def row(key: str, start: float, end: float, n: int, total: int, largest: int) -> dict[str, object]:
    times = {"slice_start": at(start), "slice_end": at(end)}
    return {"key": key, **times, "COUNT(*)": n, "SUM(v)": total, "MAX(v)": largest}


@pytest.mark.parametrize(
    ("window", "slices"),
    [
        (Tumble(10 * S), [(20, 30, 2, 12, 7)]),
        (Hop(5 * S, 20 * S), [(15, 20, 1, 1, 1), (20, 25, 1, 5, 5), (25, 30, 1, 7, 7)]),
        # cut at window starts and at window ends
        (Hop(5 * S, 8 * S), [(18, 20, 1, 1, 1), (20, 23, 1, 5, 5), (25, 28, 1, 7, 7)]),
        # closed steps are one slice of the window so far
        (Cumulate(10 * S, 60 * S), [(0, 20, 2, 101, 100), (20, 30, 2, 12, 7)]),
    ],
)
def test_slices_have_their_bounds_and_aggregates(
    window: Window, slices: list[tuple[int, ...]]
) -> None:
    store = Memory()
    stream = Stream(window, store=store)
    fed = [("a", 1_000, 100), ("a", 19_000, 1), ("a", 21_000, 5), ("a", 26_000, 7)]
    stream.micro_batch(fed, 20_500)
    assert rows_in(store, drive_stream(window)) == [row("a", *item) for item in slices]


def test_without_a_description_columns_have_the_names_of_the_state() -> None:
    store = Memory()
    Stream(Tumble(10 * S), store=store).micro_batch([("a", 1_000, 5)], 1_000)
    (result,) = rows_in(store, None)
    assert result == {
        "slice_start": None, "slice_end": at(10), "key": "a", "n": 1, "total": 5, "largest": 5,
    }  # fmt: skip


def test_fill_has_the_last_values_and_windows_of_a_key() -> None:
    table = pa.table(
        {"key": ["a"], "$slice_end": [40 * S], "n": [2], "total": [5], "largest": [4],
         FIRST_TIME: [40 * S], LAST_TIME: [20 * S]}
    )  # fmt: skip
    metadata = FillMetadata([MarkedChunk("c", 1, 9, 40 * S, 20 * S, "run")])
    of_group = GroupMetadata(Watermarks(()), "", None, None, None, 0, metadata)
    (blob,) = blobs_of(of_group).values()
    decoder = Decoder(drive_stream(Tumble(10 * S)), None)
    assert blob.kind is BlobKind.FILL
    assert decoder.decode(blob, encode_table(table)).to_pylist() == [
        {"key": "a", "filled_until": at(40), "last_window_end": at(20),
         "COUNT(*)": 2, "SUM(v)": 5, "MAX(v)": 4}
    ]  # fmt: skip


@pytest.mark.parametrize(
    "window",
    [
        Tumble(7, 3),
        Hop(1, 5, 2),
        Cumulate(1, 6, 0, emit_only_on_update=True),
        SessionWindow(5, ("k", "j")),
        CalendarTumble(3),
        CalendarHop(1, 12, 1, 5),
        CalendarCumulate(1, step_us=86_400_000_000),
    ],
)
def test_a_description_is_read_as_it_was_written(window: Window) -> None:
    operator = drive_stream(window)
    assert round_trip(operator) == operator
