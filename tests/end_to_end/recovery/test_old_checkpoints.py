"""Checkpoints of an earlier release resume, and say from then on what they keep.

`checkpoints/*.tar.xz` were written by sqlwin when `sqlwin.json` had a plan as text and nothing
else; a path in them is `@DIRECTORY@`. They hold the state after two files, of seconds 0 to 599 and
600 to 899 after 12:00, and the watermark is at 12:14:52.
"""

from __future__ import annotations

import json
import os
import tarfile
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin

CHECKPOINTS = Path(__file__).parent / "checkpoints"
# When they were written, by what the checkpoints say: Spark leaves out files of a week before that
WRITTEN = 1_795_395_926
NOON = datetime(2026, 1, 1, 12)  # noqa: DTZ001  # wall clock
SECONDS = (range(0, 600, 7), range(600, 900, 11), range(900, 1200, 13))
HOP = """SELECT k, window_start, window_end, SUM(v) AS total, COUNT(DISTINCT name) AS names,
    STDDEV_POP(x) AS s, LAST_VALUE(v) AS l, APPROX_COUNT_DISTINCT(v) AS a
    FROM TABLE(HOP(TABLE r, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '5' MINUTES))
    GROUP BY k, window_start, window_end HAVING COUNT(*) > 1"""
SESSION = """SELECT k, window_start, window_end, COUNT(*) AS n, MIN(v) AS lo
    FROM TABLE(SESSION(TABLE r PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
    GROUP BY k, window_start, window_end"""


def unpacked(name: str, directory: Path) -> None:
    """A checkpoint, its paths below a directory."""
    with tarfile.open(CHECKPOINTS / f"{name}.tar.xz") as packed:
        for member in packed:
            file = packed.extractfile(member)
            assert file is not None
            path = directory / "cp" / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.read().replace(b"@DIRECTORY@", str(directory).encode()))


@pytest.mark.parametrize(
    ("name", "query"),
    [
        pytest.param("hop", HOP, marks=pytest.mark.long),
        pytest.param("session", SESSION, marks=pytest.mark.slow),
    ],
)
def test_a_checkpoint_of_an_earlier_release_resumes(
    name: str, query: str, fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    unpacked(name, tmp_path)
    (tmp_path / "in").mkdir()
    for number, seconds in enumerate(SECONDS, 1):
        n_rows = len(seconds)
        table = pa.table(
            {
                "k": pa.array([i % 3 for i in range(n_rows)], pa.int32()),
                "name": [f"n{i % 2}" for i in range(n_rows)],
                "v": pa.array(range(n_rows), pa.int64()),
                "x": [i * 0.5 for i in range(n_rows)],
                "ts": pa.array([NOON + timedelta(seconds=s) for s in seconds], pa.timestamp("us")),
            }
        )
        file = tmp_path / "in" / f"{number}.parquet"
        pq.write_table(table, file)
        os.utime(file, (WRITTEN + number, WRITTEN + number))
    session = fresh_session
    session.execute(f"""
        CREATE TABLE r (k INT, name STRING, v BIGINT, x DOUBLE, ts TIMESTAMP(6),
                        WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'parquet',
              'max-files-per-trigger' = '1');
        SET 'execution.runtime-mode' = 'streaming';
        SET 'pipeline.name' = '{name}'; SET 'execution.checkpointing.dir' = '{tmp_path}/cp'""")
    identity = tmp_path / "cp" / name / "sqlwin.json"
    assert "kept" not in json.loads(identity.read_text())
    state = session.execute(f"SELECT * FROM TABLE(STATE('{tmp_path}/cp/{name}'))")[-1].rows
    assert len(state) > 0
    session.execute(f"CREATE TABLE found WITH ('connector' = 'memory') AS {query}")
    assert json.loads(identity.read_text())["kept"]["operators"][0]["keys"][0]["name"] == "k"
    session.execute("SET 'execution.runtime-mode' = 'batch'")
    expected = session.execute(
        f"SELECT * FROM ({query}) w WHERE window_end > TIMESTAMP_NTZ'2026-01-01 12:14:52.001'"
    )[-1]
    found = session.execute("SELECT * FROM found")[-1]
    assert sorted(map(str, found.rows)) == sorted(map(str, expected.rows)) and found.rows
