"""The rows of live micro-batches and of the history before them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.bench.cases import Case, case_of
from tests.bench.data import DISORDER_SECONDS
from tests.bench.streaming.live import SETTLING, Traffic, history_of, sessions

_MINUTE = 60_000_000
_DISORDER = DISORDER_SECONDS * 1_000_000


def _batches(traffic: Traffic, directory: Path) -> list[pa.Table]:
    files = traffic.files(directory)
    # as Spark does, by the files' times
    paths = sorted(files.path.glob("*.parquet"), key=lambda path: path.stat().st_mtime)
    parts = [pq.read_table(path) for path in paths]
    return [
        pa.concat_tables(parts[at : at + files.per_batch])
        for at in range(0, len(parts), files.per_batch)
    ]


def _minutes(rows: pa.Table) -> float:
    span = pc.min_max(rows["ts"].cast(pa.int64())).as_py()
    return float((span["max"] - span["min"]) / _MINUTE)


def test_a_history_is_read_in_large_micro_batches_and_live_minutes_one_by_one(tmp_path):
    traffic = Traffic(keys=50, rows=100, minutes=4, history=30, history_rows=40)
    files, batches = traffic.files(tmp_path), _batches(traffic, tmp_path)
    assert len(batches) == files.history + 4
    assert files.n_rows == 4 * 100 == sum(len(rows) for rows in batches[files.history :])
    assert [len(rows) for rows in batches] == [27 * 40, *[100] * (SETTLING + 4)]
    assert 26 < _minutes(batches[0]) < 27.1 and all(_minutes(rows) < 1.1 for rows in batches[1:])


def test_live_minutes_are_the_same_after_any_history(tmp_path):
    alone = _batches(Traffic(50, 100, 3), tmp_path)
    after = _batches(Traffic(50, 100, 3, history=9, history_rows=50), tmp_path)
    assert len(alone) == 3
    assert all(map(pa.Table.equals, after[-3:], alone))


def test_no_row_is_late_and_each_minute_ends_a_window_of_the_one_before(tmp_path):
    batches = _batches(Traffic(50, 100, 5, history=20, history_rows=50), tmp_path)
    watermark = None
    for rows in batches:
        least, most = pc.min_max(rows["ts"].cast(pa.int64())).as_py().values()
        assert watermark is None or least > watermark
        passed = None if watermark is None else watermark // _MINUTE
        watermark = most - _DISORDER
        assert passed is None or watermark // _MINUTE > passed


def test_a_minute_of_history_has_each_key_once(tmp_path):
    (history, *_), files = _batches(Traffic(30, 60, 2, 5, 30), tmp_path), 2
    keys = history["key"].value_counts()
    assert len(keys) == 30 and set(keys.field("counts").to_pylist()) == {files}


def test_history_fills_the_window():
    assert history_of(case_of("HOP 1 min / 24 h", 1), 1440) == 1440
    assert history_of(case_of("HOP 1 min / 1 h", 1), 1440) == 60 + SETTLING
    assert history_of(case_of("TUMBLE 1 min", 1), 0) == 0


def test_as_many_sessions_are_open_as_asked(tmp_path):
    case = sessions(n_open=5_000, rows=1_000)
    assert isinstance(case, Case) and case.kind == "SESSION"
    before = history_of(case, 1 << 30)
    rows = pa.concat_tables(_batches(Traffic(case.keys, 1_000, 4, before, 1_000), tmp_path))
    now = pc.max(rows["ts"].cast(pa.int64())).as_py()
    newest = rows.group_by("key").aggregate([("ts", "max")])["ts_max"].cast(pa.int64())
    n_open = pc.sum(pc.greater(newest, now - case.step_us)).as_py()
    assert 0.95 * 5_000 < n_open < 1.05 * 5_000
