"""Bounded tables of files that are cached while a stream is joined with them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from threading import Lock

import pyarrow.parquet as pq
import pytest

import sqlwin
from tests.end_to_end.stream_files import write_keys
from tests.observing import wait_for_stream

N_FILES, KEYS = 5, 7


@pytest.mark.long
@pytest.mark.parametrize("format_", ["csv", "json"])
def test_files_are_read_again_after_the_interval_and_not_before(
    fresh_session: sqlwin.Session,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    format_: str,
) -> None:
    names, named = tmp_path / "names", tmp_path / "named"
    names.mkdir()

    def write_names(minute: int) -> None:
        rows = [{"k": f"k{key}", "name": f"minute {minute}"} for key in range(KEYS)]
        lines = [
            json.dumps(row) if format_ == "json" else "{k},{name}".format(**row) for row in rows
        ]
        hidden = names / "_next"
        hidden.write_text("\n".join(lines))
        for old in names.glob("*.*"):
            old.unlink()
        hidden.rename(names / f"{minute}.{format_}")

    def batches() -> int:
        # files have the number of their micro-batch in their names
        return len({path.name.split("-")[2] for path in named.glob("part-*")})

    one_at_a_time = Lock()

    def now_us() -> int:
        # each written micro-batch takes a minute, and replaces the names
        with one_at_a_time:
            minute = batches()
            if not (names / f"{minute}.{format_}").exists():
                write_names(minute)
            return minute * 60_000_000

    write_names(0)
    monkeypatch.setattr("runtime.sinks.lookup_caches.now_us", now_us)
    for second in range(N_FILES):
        write_keys(tmp_path / "in", *((second, f"k{key}") for key in range(KEYS)))
    *_, result = fresh_session.execute(f"""
        CREATE TABLE readings (ts TIMESTAMP(6), k STRING) WITH ('connector' = 'filesystem',
          'path' = '{tmp_path}/in', 'format' = 'parquet', 'max-files-per-trigger' = '1',
          'source.monitor-interval' = '1 s');
        CREATE TABLE names (k STRING, name STRING) WITH ('connector' = 'filesystem',
          'path' = '{names}', 'format' = '{format_}', 'lookup.cache' = 'FULL',
          'lookup.full-cache.periodic-reload.interval' = '2 min');
        CREATE TABLE named (name STRING, k STRING) WITH ('connector' = 'filesystem',
          'path' = '{named}', 'format' = 'parquet');
        INSERT INTO named SELECT n.name, r.k FROM readings AS r
        JOIN names AS n ON r.k = n.k""")
    stream = result.stream
    assert stream is not None
    wait_for_stream(stream, lambda: batches() == N_FILES)
    stream.stop()
    counts = Counter(pq.read_table(named).column("name").to_pylist())
    assert counts == {"minute 0": 2 * KEYS, "minute 2": 2 * KEYS, "minute 4": KEYS}
