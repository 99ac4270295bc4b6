"""Killing the driver at any point of a micro-batch or of the end neither loses nor duplicates rows."""

from __future__ import annotations

import datetime as dt
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sqlwin
from runtime.errors import ExecutionError
from sqlwin.execution.streams import handle
from tests.end_to_end.recovery.faulty_stream import QUERIES, statements
from tests.end_to_end.recovery.killed_stream import SET_QUERIES
from tests.end_to_end.recovery.test_killed import LATE, write_input
from tests.marks import pairs
from tests.observing import files_below

PROGRAM = Path(__file__).with_name("faulty_stream.py")
N_FILES = 10
# One kind of stream is killed at all points, the others at some points that are specific to them
POINTS = {
    "hop": [
        "written:1",
        "committed:1",
        *(f"change:{number}" for number in range(1, 7)),
        *("end:1", "ended:1", "closed:1"),
    ],
    "session": ["change:2", "written:1", "change:5", "ended:1"],
    "top": ["change:3", "committed:1", "closed:1"],
    "compacted": [
        *(f"change:{number}" for number in (2, 3, 5, 7, 9, 11, 13)),
        *("written:1", "committed:2", "ended:1", "closed:1"),
    ],
    "set": ["change:3", "change:6", "change:9", "change:12", "written:1", "closed:1"],
}


def run(directory: Path, kind: str, point: str) -> tuple[int, str]:
    """Run the stream and return its exit code and its output."""
    process = subprocess.run(
        [sys.executable, str(PROGRAM), str(directory), kind, point],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240, check=False,
        start_new_session=True,
    )  # fmt: skip
    return process.returncode, process.stdout


def run_with_faults(directory: Path, kind: str, points: list[str]) -> None:
    """Run to the end, killed at each of the points on the way, and after the end is recorded."""
    for point in [*points, "remembered:1"]:
        code, output = run(directory, kind, point)
        assert code == -signal.SIGKILL, f"{point} was not reached: {output}"
    code, output = run(directory, kind, "none")
    assert code == 0, output
    assert "nothing to do" in output


def on_disk(directory: Path) -> int:
    """Return the number of rows that other programs see below a path."""
    files = files_below(directory, "*.parquet")
    shown = (f for f in files if not any(p.startswith((".", "_")) for p in f.parts))
    return sum(pq.read_metadata(f).num_rows for f in shown)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "name"),
    pairs(
        ["hop", "clock"],
        ["end_input", "mark_ended"],
        slow=[("hop", "end_input"), ("hop", "mark_ended"), ("clock", "mark_ended")],
    ),
)
def test_an_error_of_java_at_the_end_fails_the_stream(
    kind: str,
    name: str,
    fresh_session: sqlwin.Session,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_input(tmp_path, 1)

    def fail(*_: object) -> None:
        jvm: Any = fresh_session.spark._jvm
        jvm.java.io.FileInputStream(str(tmp_path / "gone"))

    monkeypatch.setattr(handle, name, fail)
    setup, statement = statements(kind, tmp_path)
    fresh_session.execute(
        f"{setup} SET 'execution.runtime-mode' = 'streaming';"
        f"SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoint'"
    )
    with pytest.raises(ExecutionError) as caught:
        fresh_session.execute(statement)
    where = f"cannot record the end of the input in {tmp_path}/checkpoint/totals: "
    assert caught.value.message.startswith(where)
    assert "java." not in caught.value.message
    assert not fresh_session.streams.running()


@pytest.mark.long
def test_a_file_that_was_named_and_not_planned_has_its_own_micro_batch(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    late = write_input(tmp_path, 4)
    setup, statement = statements("hop", tmp_path)
    fresh_session.execute(
        f"{setup} SET 'execution.runtime-mode' = 'streaming';"
        "SET 'sqlwin.end-of-input' = 'hold-windows';"
        f"SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoint'"
    )
    for name in ("0002", "0003"):
        (tmp_path / f"in/{name}.parquet").rename(tmp_path / name)
    fresh_session.execute(statement)
    for name in ("0002", "0003"):
        (tmp_path / name).rename(tmp_path / f"in/{name}.parquet")
    # killed after it had listed the third file
    log = tmp_path / "checkpoint/totals/spark/sources/0"
    before = (log / "1").read_text()
    named = before
    for old, new in (
        ("/0001.parquet", "/0002.parquet"),
        ("001000,", "002000,"),
        ('Id":1', 'Id":2'),
    ):
        assert named.count(old) == 1
        named = named.replace(old, new)
    (log / "2").write_text(named)
    fresh_session.execute(statement)
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    rows = fresh_session.sql("SELECT * FROM too_late").collect()
    assert sorted(map(tuple, rows)) == late


@pytest.mark.slow
@pytest.mark.parametrize("kind", QUERIES)
def test_a_stream_killed_at_every_point_writes_the_rows_of_the_batch(
    kind: str, fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    late = write_input(tmp_path, N_FILES)
    run_with_faults(tmp_path, kind, POINTS[kind])
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    fresh_session.execute(statements(kind, tmp_path)[0])
    batch = fresh_session.sql(QUERIES[kind]).collect()
    expected = sorted(tuple(row) for row in batch if row.k != LATE)
    assert len(expected) > 20
    totals = fresh_session.sql("SELECT * FROM totals").collect()
    assert sorted(tuple(row) for row in totals if row.k != LATE) == expected
    assert on_disk(tmp_path / "out") == len(totals)
    if kind == "top":  # rows that the query filters out are not late
        assert on_disk(tmp_path / "late") == 0
        return
    result = sorted(map(tuple, fresh_session.sql("SELECT * FROM too_late").collect()))
    assert result == late
    assert on_disk(tmp_path / "late") == len(result)


@pytest.mark.slow
def test_a_statement_set_killed_at_every_point_writes_the_rows_of_the_batch(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    late = write_input(tmp_path, N_FILES)
    run_with_faults(tmp_path, "set", POINTS["set"])
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    fresh_session.execute(statements("set", tmp_path)[0])
    for name, query in SET_QUERIES.items():
        expected = sorted(tuple(row) for row in fresh_session.sql(query).collect() if row.k != LATE)
        written = fresh_session.sql(f"SELECT * FROM {name}").collect()
        assert sorted(tuple(row) for row in written if row.k != LATE) == expected
        assert on_disk(tmp_path / name) == len(written)
    result: list[tuple[object, ...]] = sorted(
        map(tuple, fresh_session.sql("SELECT * FROM too_late").collect())
    )
    wanted_late: list[tuple[str, int, dt.datetime]] = sorted(
        (name, *row) for name in SET_QUERIES for row in late
    )
    assert result == wanted_late


@pytest.mark.slow
def test_a_stream_on_processing_time_ends_though_it_was_killed_at_its_end(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    write_input(tmp_path, 2)
    run_with_faults(tmp_path, "clock", ["ended:1", "closed:1"])
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    fresh_session.execute(statements("clock", tmp_path)[0])
    (written,) = fresh_session.sql("SELECT SUM(n), SUM(total) FROM totals").collect()
    (read,) = fresh_session.sql("SELECT COUNT(*), SUM(v) FROM readings").collect()
    assert tuple(written) == tuple(read)
