"""The rows of live micro-batches and of the history before them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.bench.cases import Case, case_of
from tests.bench.data import DISORDER_SECONDS
from tests.bench.streaming.engines import Files
from tests.bench.streaming.live import SETTLING, Traffic, history_of, sessions

_MINUTE = 60_000_000
_DISORDER = DISORDER_SECONDS * 1_000_000


def _batches(path: Path | None, files: Files) -> list[pa.Table]:
    assert path is not None
    # as Spark does, by the files' times
    paths = sorted(path.glob("*.parquet"), key=lambda file: file.stat().st_mtime)
    parts = [pq.read_table(file) for file in paths]
    return [
        pa.concat_tables(parts[at : at + files.per_batch])
        for at in range(0, len(parts), files.per_batch)
    ]


def _minutes(rows: pa.Table) -> float:
    span = pc.min_max(rows["ts"].cast(pa.int64())).as_py()
    return float((span["max"] - span["min"]) / _MINUTE)


def test_a_history_is_read_in_large_micro_batches_and_live_minutes_one_by_one(tmp_path):
    files = Traffic(keys=50, rows=100, minutes=4, history=30, history_rows=40).files(tmp_path)
    (history,), live = _batches(files.history, files), _batches(files.path, files)
    assert len(history) == 30 * 40 and 29 < _minutes(history) < 30.1
    assert [len(rows) for rows in live] == [100] * (SETTLING + 4)
    assert files.settling == SETTLING and files.n_rows == 4 * 100
    assert all(_minutes(rows) < 1.1 for rows in live)


def test_live_minutes_are_the_same_after_any_history(tmp_path):
    alone = Traffic(50, 100, 3).files(tmp_path)
    after = Traffic(50, 100, 3, history=9, history_rows=50).files(tmp_path)
    assert alone.settling == 0 and alone.history is None
    rows, later = (_batches(files.path, files) for files in (alone, after))
    assert len(rows) == 3
    assert all(map(pa.Table.equals, later[SETTLING:], rows))


def test_no_row_is_late_and_each_minute_ends_a_window_of_the_one_before(tmp_path):
    files = Traffic(50, 100, 5, history=20, history_rows=50).files(tmp_path)
    watermark = None
    for rows in _batches(files.history, files) + _batches(files.path, files):
        least, most = pc.min_max(rows["ts"].cast(pa.int64())).as_py().values()
        assert watermark is None or least > watermark
        passed = None if watermark is None else watermark // _MINUTE
        watermark = most - _DISORDER
        assert passed is None or watermark // _MINUTE > passed


def test_a_minute_of_history_has_each_key_once(tmp_path):
    files = Traffic(keys=30, rows=60, minutes=2, history=2, history_rows=30).files(tmp_path)
    (history,) = _batches(files.history, files)
    keys = history["key"].value_counts()
    assert len(keys) == 30 and set(keys.field("counts").to_pylist()) == {2}


def test_history_fills_the_window():
    assert history_of(case_of("HOP 1 min / 24 h", 1), 1440) == 1440
    assert history_of(case_of("HOP 1 min / 1 h", 1), 1440) == 60
    assert history_of(case_of("TUMBLE 1 min", 1), 0) == 0


def test_the_requested_number_of_sessions_is_open(tmp_path):
    case = sessions(n_open=5_000, rows=1_000)
    assert isinstance(case, Case) and case.kind == "SESSION"
    before = history_of(case, 1 << 30)
    files = Traffic(case.keys, 1_000, 4, before, 1_000).files(tmp_path)
    rows = pa.concat_tables(_batches(files.history, files) + _batches(files.path, files))
    now = pc.max(rows["ts"].cast(pa.int64())).as_py()
    newest = rows.group_by("key").aggregate([("ts", "max")])["ts_max"].cast(pa.int64())
    n_open = pc.sum(pc.greater(newest, now - case.step_us)).as_py()
    assert 0.95 * 5_000 < n_open < 1.05 * 5_000
