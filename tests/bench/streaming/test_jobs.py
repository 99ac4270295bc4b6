"""Engines in separate processes: comparison of results, timing, and termination."""

import sys
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.bench.cases import MINUTE_US, case_of
from tests.bench.data import DISORDER_SECONDS
from tests.bench.streaming import clink, flink, jobs
from tests.bench.streaming.formats import csv_by_task, csv_files, millisecond_files
from tests.bench.streaming.jobs import Job, Peer, PeerFailedError
from tests.bench.streaming.live import Traffic

_TUMBLE = case_of("TUMBLE 1 min", 20)
# A minute's windows come every 0.1 s. After the last minute that the watermark closes, the process
# prints nothing more and never ends: a run that waited for another line would never return.
_FAKE = """
import sys, time
first, n_closed = int(sys.argv[1]), int(sys.argv[2])
print("WINDOWS", flush=True)
input()
print("STARTED", flush=True)
for minute in range(first + 1, first + 1_000):
    time.sleep(0.1 if minute <= first + n_closed else 1_000_000)
    print("FIRED", minute * 60_000_000, 1, flush=True)
    if len(sys.argv) > 3 and minute == first + 2:
        raise SystemExit(sys.argv[3])
"""


def _fake(first: int, n_closed: int, *more: str) -> Peer:
    """Return a peer that emits one window for each closed minute, and one for the open minute."""
    ends = [(first + 1 + i) * MINUTE_US for i in range(n_closed + 1)]
    table = {"window_end": ends, "s": [5] * len(ends), "n": [2] * len(ends)}
    windows = pa.table({**table, "a": [0.5] * len(ends), "m": [9_999] * len(ends)})

    def fired(line: str) -> tuple[int, int] | None:
        words = line.split()
        return (int(words[1]), int(words[2])) if words[0] == "FIRED" else None

    command = [sys.executable, "-c", _FAKE, str(first), str(n_closed), *more]
    return Peer(lambda job: command, lambda output: windows, fired)


def _first_minute(path: Path) -> int:
    (part, *_) = sorted(path.glob("*.parquet"))
    return int(pq.read_table(part)["ts"].cast(pa.int64())[0].as_py() // MINUTE_US)


def test_timing_ends_with_the_last_closed_window(tmp_path):
    files = Traffic(keys=20, rows=100, minutes=6).files(tmp_path)
    began = time.monotonic()
    outcome = jobs.run(_fake(_first_minute(files.path), 5), _TUMBLE, files)
    assert outcome.minute < outcome.seconds < time.monotonic() - began
    assert outcome.digest == (5, 25, 10, 2.5, 5 * 9_999), "the open window does not count"
    assert outcome.n_rows == 600 and outcome.state_bytes is None


def test_a_job_that_ends_too_early_is_reported_with_its_output(tmp_path):
    files = Traffic(keys=20, rows=100, minutes=6).files(tmp_path)
    with pytest.raises(PeerFailedError, match="out of disk"):
        jobs.run(_fake(_first_minute(files.path), 5, "out of disk"), _TUMBLE, files)


def test_files_of_peers_have_the_same_rows_in_the_same_order(tmp_path):
    path = Traffic(keys=20, rows=100, minutes=3).files(tmp_path).path
    rows = [pq.read_table(part) for part in sorted(path.glob("*.parquet"))]
    millis = [pq.read_table(part) for part in sorted(millisecond_files(path).glob("*.parquet"))]
    names = pyarrow.csv.ReadOptions(column_names=rows[0].column_names)
    texts = [pyarrow.csv.read_csv(part, names) for part in sorted(csv_files(path).glob("*.csv"))]
    for before, ms, text in zip(rows, millis, texts, strict=True):
        assert ms["ts"].cast(pa.timestamp("ms")).cast(pa.timestamp("us")) == before["ts"]
        assert text["ts"].cast(pa.timestamp("us")) == before["ts"]
        assert all(item.select(["key", "price", "val"]) == before.select(["key", "price", "val"])
                   for item in (ms, text))  # fmt: skip
    tasks = [pyarrow.csv.read_csv(path, names) for path in sorted(csv_by_task(path, 2).iterdir())
             if path.suffix == ".csv"]  # fmt: skip
    assert tasks == [pa.concat_tables(texts[task::2]) for task in range(2)]
    times = [part.stat().st_mtime for part in sorted(csv_files(path).glob("*.csv"))]
    assert times == sorted(times) and len(set(times)) == len(times)


def test_windows_in_the_words_of_the_engines():
    hop = case_of("HOP 1 min / 1 h", 1)
    assert clink.window(_TUMBLE) == "TUMBLE(ts, INTERVAL '60' SECOND)"
    assert clink.window(hop) == "HOP(ts, INTERVAL '60' MINUTE, INTERVAL '60' SECOND)"
    assert flink.window(hop) == (
        "HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '60' SECOND(5), INTERVAL '60' MINUTE(5))"
    )


def test_lines_of_flinks_print_connector_are_understood():
    peer = flink.flink(Path("python"), "hashmap")
    line = "2> +I[49, 2026-01-07T23:01, 2026-01-08T00:01, 17039, 4, 39.25, 9996]"
    assert peer.fired(line) == (1_767_830_460_000_000, 1)
    assert peer.fired("Picked up JAVA_TOOL_OPTIONS") is None
    job = Job(_TUMBLE, Traffic(1, 1, 1).files, 1_767_830_460_001_000, 9_995, Path("scratch"))
    assert flink._text(job.closed_us) == "2026-01-08 00:01:00.001"


@pytest.mark.parametrize("window", ["TUMBLE 1 min", "HOP 1 min / 3 min"])
def test_clink_gives_the_windows_of_the_definition(tmp_path, window):
    pytest.importorskip("pyclink", reason="pip install -e '.[bench]', on Linux")
    case = case_of(window, 50)
    files = Traffic(50, 2_000, 6).files(tmp_path)
    outcome = jobs.run(clink.clink(Path(sys.executable)), case, files)
    assert outcome.digest == pytest.approx(_by_definition(case.size, files.path))
    assert outcome.seconds > 0 and outcome.worker_bytes > 0


def _by_definition(size: int, path: Path) -> tuple[float, ...]:
    """Return the digest of the closed windows, with each row in all its windows."""
    (row,) = duckdb.sql(f"""
        WITH rows AS (SELECT epoch_us(ts) AS us, key, price, val FROM '{path}/*.parquet'),
        copies AS (
          SELECT us // {MINUTE_US} + 1 + unnest(range({size})) AS minute, key, price, val FROM rows
        ),
        windows AS (
          SELECT minute, key, sum(price) AS s, count(*) AS n, avg(val) AS a, max(price) AS m
          FROM copies GROUP BY ALL
        )
        SELECT count(*), sum(s), sum(n), sum(a), sum(m) FROM windows
        WHERE minute * {MINUTE_US} <= (SELECT max(us) FROM rows) - {DISORDER_SECONDS}e6 + 1000
    """).fetchall()
    return tuple(map(float, row))
