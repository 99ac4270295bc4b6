"""Rows of a stream on a terminal, and the status line below them."""

from __future__ import annotations

import io

import pyarrow as pa
from rich.console import Console

from sqlwin.display.table import write_stream_table
from sqlwin.execution.streams.results import by_window


def batch(**columns: list[object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_the_header_repeats_only_when_a_column_widens() -> None:
    out = io.StringIO()
    batches = [
        batch(k=["a", "b"], n=[1, 20]),
        batch(k=[], n=pa.array([], pa.int64())),
        batch(k=["cc", None], n=[3, None]),
        batch(k=["a long name"], n=[4]),
    ]
    n_rows = write_stream_table(["k", "n"], batches, Console(file=out, force_terminal=False))
    assert n_rows == 5
    assert out.getvalue().splitlines() == [
        "k    │ n",
        "─────┼─────",
        "a    │    1",
        "b    │   20",
        "cc   │    3",
        "NULL │ NULL",
        "k           │ n",
        "────────────┼─────",
        "a long name │    4",
    ]


def test_rows_of_a_micro_batch_are_shown_by_window_and_updates_as_they_came() -> None:
    table = pa.table({"k": ["b", "a", "a"], "window_end": [2, 2, 1], "v": [[1], [2], [3]]})
    assert by_window(table)["window_end"].to_pylist() == [1, 2, 2]
    assert by_window(table)["k"].to_pylist() == ["a", "a", "b"]
    updates = pa.table({"op": ["-U", "+U"], "window_end": [2, 1]})
    assert by_window(updates) == updates
