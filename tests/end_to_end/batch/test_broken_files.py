"""Empty, truncated and corrupt files: a one-line error that names the file, and no output."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from runtime.errors import ExecutionError
from tests.marks import among, pairs
from tests.observing import files_below

WINDOWS = (
    "SELECT window_start, k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), "
    "INTERVAL '1' HOUR)) GROUP BY window_start, window_end, k"
)
BY_SPARK = "SET 'sqlwin.optimizer.disabled-rules' = 'push_local_aggregate_into_scan'"
MODES = ("batch", "streaming")


def parquet(directory: Path) -> Path:
    """Write two files; the test breaks the second one."""
    directory.mkdir()
    rng = np.random.default_rng(1)
    for name in "ab":
        times = pa.array(np.arange(20_000) * 1_000_000, pa.timestamp("us"))
        table = pa.table({"ts": times, "k": rng.integers(0, 1 << 40, 20_000)})
        pq.write_table(table, directory / f"{name}.parquet", row_group_size=5_000)
    return directory / "b.parquet"


def text(name: str, lines: str, directory: Path) -> Path:
    directory.mkdir()
    packed = gzip.compress(lines.encode())
    path = directory / name
    path.write_bytes(packed[: len(packed) // 2])
    return path


def table(session: sqlwin.Session, directory: Path, mode: str, file_format: str) -> None:
    session.execute(f"""
        SET 'execution.runtime-mode' = '{mode}';
        CREATE TABLE t (ts TIMESTAMP(3), k BIGINT, WATERMARK FOR ts AS ts) WITH (
          'connector' = 'filesystem', 'path' = '{directory}', 'format' = '{file_format}');
        CREATE TABLE o (a TIMESTAMP(3), k BIGINT, n BIGINT) WITH (
          'connector' = 'filesystem', 'path' = '{directory}-out', 'format' = 'parquet')
    """)


def failure(session: sqlwin.Session, sql: str) -> str:
    with pytest.raises(ExecutionError) as caught:
        for result in session.execute(sql):
            _ = result.rows
    report = str(caught.value)
    assert "Exception" not in report
    assert "org.apache" not in report
    return report


def visible(directory: Path) -> list[str]:
    actual = files_below(Path(f"{directory}-out"), "*.parquet")
    return [path.name for path in actual if not any(part.startswith(".") for part in path.parts)]


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("damage", "mode"),
    pairs(
        ["empty", "no footer", "a page"],
        MODES,
        slow=[("no footer", "streaming"), ("a page", "streaming")],
    ),
)
def test_parquet(fresh_session: sqlwin.Session, tmp_path: Path, mode: str, damage: str) -> None:
    path = parquet(tmp_path / "in")
    data = bytearray(path.read_bytes())
    if damage == "a page":
        for i in range(len(data) // 4, len(data) // 2):
            data[i] = (data[i] * 7 + 13) % 256
    path.write_bytes(data[: {"empty": 0, "no footer": len(data) // 2}.get(damage, len(data))])
    table(fresh_session, path.parent, mode, "parquet")
    if damage == "a page":  # others are found when the query is planned
        assert "ArrowScanLocalWindowAggregate" in fresh_session.explain(WINDOWS)
    for sql in (f"INSERT INTO o {WINDOWS}", "SELECT * FROM t", f"{BY_SPARK}; {WINDOWS}"):
        report = failure(fresh_session, sql)
        assert str(path) in report
        # problem, place, line of the statement, remedy
        assert len(report.splitlines()) <= 5, report
    assert visible(path.parent) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("file_format", "mode"),
    pairs(
        ["csv", "json"],
        MODES,
        long=[("csv", "streaming")],
        slow=[("json", "streaming"), ("json", "batch")],
    ),
)
def test_a_truncated_compressed_file_is_one_line(
    fresh_session: sqlwin.Session, tmp_path: Path, mode: str, file_format: str
) -> None:
    lines = "".join(
        f'{{"ts": "2026-01-01 00:00:00", "k": {i * 7919}}}\n'
        if file_format == "json"
        else f"2026-01-01 00:00:00,{i * 7919}\n"
        for i in range(20_000)
    )
    path = text(f"a.{file_format}.gz", lines, tmp_path / "in")
    table(fresh_session, path.parent, mode, file_format)
    assert f"cannot read {path}: it is truncated" in failure(
        fresh_session, f"INSERT INTO o {WINDOWS}"
    )
    assert visible(path.parent) == []


def test_an_empty_file_is_skipped_if_spark_ignores_corrupt_files(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    path = parquet(tmp_path / "in")
    path.write_bytes(b"")
    table(fresh_session, path.parent, "batch", "parquet")
    fresh_session.execute("SET 'spark.sql.files.ignoreCorruptFiles' = 'true'")
    assert fresh_session.sql("SELECT COUNT(*) FROM t").collect()[0][0] == 20_000
    fresh_session.execute("RESET 'spark.sql.files.ignoreCorruptFiles'")


@pytest.mark.parametrize("mode", among(MODES, long=["streaming"]))
def test_an_output_below_a_file_is_one_line(
    fresh_session: sqlwin.Session, tmp_path: Path, mode: str
) -> None:
    path = parquet(tmp_path / "in")
    Path(f"{path.parent}-file").touch()
    table(fresh_session, path.parent, mode, "parquet")
    fresh_session.execute(f"""
        DROP TABLE o;
        CREATE TABLE o (a TIMESTAMP(3), k BIGINT, n BIGINT) WITH (
          'connector' = 'filesystem', 'path' = '{path.parent}-file/out', 'format' = 'parquet')
    """)
    report = failure(fresh_session, f"INSERT INTO o {WINDOWS}").splitlines()
    assert report[0].startswith(f"table `o` cannot be written: {path.parent}-file/out: ")
    assert report[1:4] == [
        "  at line 1, column 13",
        f"    INSERT INTO o {WINDOWS}",
        "                ^",
    ]
