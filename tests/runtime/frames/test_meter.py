"""Counters of EXPLAIN ANALYZE in a task, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from runtime.compute.arrow.blobs import to_blob
from runtime.compute.counters import count, count_into
from runtime.frames.meter import measure_stage
from runtime.frames.scan_counts import LastWins


class Records:
    """Replaces a Spark accumulator."""

    def __init__(self) -> None:
        self.value: dict[Any, Any] = {}

    def add(self, term: dict[Any, Any]) -> None:
        self.value = LastWins().addInPlace(self.value, term)


def numbers(n_rows: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(n_rows), pa.int64())], names=["n"])


def blobs(*n_rows: int) -> pa.RecordBatch:
    cells = [to_blob(numbers(n), "lz4") for n in n_rows]
    buckets = pa.array(range(len(cells)), pa.int32())
    return pa.record_batch([buckets, pa.array(cells)], names=["bucket", "partials"])


def test_rows_are_counted_and_results_stay_as_they_are():
    records = Records()

    def halved(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.slice(0, batch.num_rows // 2)

    results = list(measure_stage(halved, "p1", records)(iter([numbers(10), numbers(4)])))
    assert results == [numbers(5), numbers(2)]
    [(label, figures)] = [(key[0], value) for key, value in records.value.items()]
    assert label == "p1"
    assert (figures["rows_in"], figures["rows_out"]) == (14, 7)
    assert figures["seconds"] >= 0
    assert figures["peak_memory_bytes"] > 1 << 20
    assert "blobs_out" not in figures


def test_of_blobs_the_partials_inside_are_counted():
    records = Records()
    run = measure_stage(lambda batches: iter(batches), "p2", records)
    assert len(list(run([blobs(3, 4), blobs()]))) == 2
    [figures] = records.value.values()
    assert (figures["rows_in"], figures["rows_out"], figures["blobs_out"]) == (7, 7, 2)
    assert figures["bytes_out"] >= sum(len(item.as_py()) for item in blobs(3, 4).column(1))


def test_a_stopped_task_has_reported_its_counts():
    records = Records()
    run = measure_stage(lambda batches: iter(batches), "p3", records)(iter([numbers(2)] * 9))
    next(run)
    run.close()
    [figures] = records.value.values()
    assert (figures["rows_in"], figures["rows_out"]) == (2, 2)


def test_a_task_that_ran_twice_counts_once():
    merged = LastWins().addInPlace({("p", 1, 0): {"rows_in": 5}}, {("p", 1, 0): {"rows_in": 7}})
    assert merged == {("p", 1, 0): {"rows_in": 7}}


def test_counters_exist_only_while_an_operator_is_measured():
    count("rows_scanned", 5)
    counters: dict[str, int] = {}
    with count_into(counters):
        count("rows_scanned", 2)
        count("rows_scanned", 3)
    count("rows_scanned", 5)
    assert counters == {"rows_scanned": 5}
