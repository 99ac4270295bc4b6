"""The rate of generated rows."""

from __future__ import annotations

from runtime.connectors.generated.row_numbers import MAX_SECONDS, Pace, RowNumbers

SECOND = 1_000_000


def test_unbounded_rows_arrive_at_their_rate() -> None:
    pace = Pace(per_second=100, per_batch=7, n_rows=None)
    assert pace.due(0, 0, 0) == 0
    assert pace.due(0, 0, SECOND // 2) == 50
    assert pace.due(1_000, 1_000, 2 * SECOND) == 1_200
    assert pace.due(0, 50, SECOND // 10) == 50, "the clock never takes rows back"


def test_a_slow_reader_gets_at_most_some_seconds_of_rows() -> None:
    pace = Pace(per_second=100, per_batch=7, n_rows=None)
    assert pace.due(0, 20, 3_600 * SECOND) == 20 + MAX_SECONDS * 100


def test_bounded_rows_arrive_by_micro_batch() -> None:
    pace = Pace(per_second=None, per_batch=300, n_rows=1_000)
    assert [pace.due(0, start, 0) for start in (0, 300, 900, 1_000)] == [300, 600, 1_000, 1_000]


def test_rows_of_an_offset_are_the_same_however_they_are_cut() -> None:
    source = RowNumbers({"pace": "[1000, 1, null]", "partitions": "3"})
    reader = source.streamReader(None)  # type: ignore[arg-type]
    end = {"rows": 45_000, "us": 90 * SECOND}
    parts = reader.partitions({"rows": 5_000, "us": 0}, end)
    batches = [batch for part in parts for batch in reader.read(part)]
    ids = [i for batch in batches for i in batch["id"].to_pylist()]
    times = [t for batch in batches for t in batch["at_us"].to_pylist()]
    assert len(parts) == 3
    assert ids == list(range(5_000, 45_000))
    assert times[-1] == 90 * SECOND
    assert times[-1001] == 89 * SECOND
    assert reader.partitions(end, end) == []
