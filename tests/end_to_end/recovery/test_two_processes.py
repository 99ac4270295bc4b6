"""Two processes start the same stream: the second is refused, and takes over once the first ends."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import sqlwin
from tests.end_to_end.stream_files import write_next
from tests.observing import wait_until

pytestmark = pytest.mark.long

_FIRST = """
import sys, sqlwin
session = sqlwin.connect(settings={"execution.checkpointing.dir": sys.argv[1] + "/checkpoints"})
(stream,) = [result.stream for result in session.execute(sys.stdin.readline())[-1:]]
print("running", flush=True)
stream.wait()
"""


def statements(directory: Path) -> str:
    return (
        "CREATE TABLE readings (v BIGINT) WITH ('connector' = 'filesystem', 'format' = 'parquet', "
        f"'path' = '{directory}/in', 'source.monitor-interval' = '100 ms'); "
        "CREATE TABLE doubled (v BIGINT) WITH ('connector' = 'filesystem', 'format' = 'parquet', "
        f"'path' = '{directory}/out'); "
        "INSERT INTO doubled SELECT v * 2 AS v FROM readings"
    )


def written(directory: Path) -> list[int]:
    with sqlwin.connect() as session:
        session.execute(statements(directory).rpartition(";")[0])
        (result,) = session.execute("SELECT v FROM doubled ORDER BY v")
        return [row.v for row in result.rows]


def test_the_second_process_is_refused_until_the_first_is_killed(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    write_next(tmp_path / "in", {"v": pa.array(range(100))})
    (tmp_path / "out").mkdir()
    fresh_session.execute(f"SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints'")
    command = [sys.executable, "-c", _FIRST, str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as first:
        assert first.stdin is not None and first.stdout is not None
        print(statements(tmp_path), file=first.stdin, flush=True)
        assert first.stdout.readline() == "running\n"
        wait_until(lambda: len(written(tmp_path)) == 100)
        with pytest.raises(sqlwin.SqlwinError) as caught:
            fresh_session.execute(statements(tmp_path))
        assert re.fullmatch(
            rf"a stream of process {first.pid} on host \S+ is running on the checkpoint in "
            rf"{tmp_path}/checkpoints/doubled",
            caught.value.message,
        )
        write_next(tmp_path / "in", {"v": pa.array(range(100, 200))})
        wait_until(lambda: len(written(tmp_path)) == 200)
        first.kill()
    write_next(tmp_path / "in", {"v": pa.array(range(200, 300))})
    (result,) = fresh_session.execute(statements(tmp_path).rpartition(";")[2])
    assert result.stream is not None
    wait_until(lambda: len(written(tmp_path)) >= 300, explain=result.stream.failure)
    result.stream.stop()
    assert written(tmp_path) == [2 * v for v in range(300)]
