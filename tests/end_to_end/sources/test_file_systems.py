"""Tables and checkpoints on another file system: a path keeps its scheme.

`viewfs` shows directories of this machine under other names, so that a path without its scheme is
not found.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sqlwin
from runtime.commits import Commit, write_commit
from runtime.errors import ExecutionError
from runtime.files import LocalFiles
from tests.marks import among

COUNTS = """
    SELECT k, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE i, DESCRIPTOR(ts), INTERVAL '15' MINUTE))
    GROUP BY k, window_start, window_end
"""
OUT = "CREATE TABLE {} (k BIGINT, e TIMESTAMP(3), n BIGINT) WITH ({}, 'path' = '{}')"
FILES = "'connector' = 'filesystem', 'format' = '{}'"
PARQUET = FILES.format("parquet")


@pytest.fixture
def elsewhere(spark: SparkSession, tmp_path: Path) -> Iterator[sqlwin.Session]:
    """Provide a session whose default file system is a `viewfs` with `/data` and `/ck`."""
    own = spark.newSession()
    # Java caches file systems for its lifetime, so each test has its own
    default = f"viewfs://{tmp_path.name.replace('_', '-')}"
    own.conf.set("fs.defaultFS", default)
    for name in ("data", "ck"):
        (tmp_path / name).mkdir()
        own.conf.set(
            f"fs.viewfs.mounttable.{default[9:]}.link./{name}", f"file://{tmp_path}/{name}"
        )
    write_minutes(tmp_path / "data" / "in" / "a.parquet", 0)
    session = sqlwin.connect(own)
    yield session
    session.streams.stop_all()


def write_minutes(path: Path, start: int) -> None:
    """Write an hour of rows, one per minute, for three keys: 12 windows."""
    path.parent.mkdir(exist_ok=True)
    times = [dt.datetime(2024, 1, 1, start) + dt.timedelta(minutes=i) for i in range(60)]  # noqa: DTZ001
    table = {"k": [i % 3 for i in range(60)], "ts": pa.array(times, pa.timestamp("us"))}
    pq.write_table(pa.table(table), path)


def source(path: str) -> str:
    return f"""CREATE TABLE i (k BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
        WITH ({PARQUET}, 'path' = '{path}')"""


def streaming(session: sqlwin.Session, base: str = "/ck") -> None:
    default = session.spark.conf.get("fs.defaultFS")
    session.execute("SET 'execution.runtime-mode' = 'streaming'")
    session.execute(f"SET 'execution.checkpointing.dir' = '{base.format(default)}'")


def total(session: sqlwin.Session, table: str = "o") -> tuple[int, int]:
    """Return the number of rows of a table, and the sum of their counts."""
    session.execute("SET 'execution.runtime-mode' = 'batch'")
    (row,) = session.sql(f"SELECT COUNT(*) AS rows, SUM(n) AS n FROM {table}").collect()
    return row[0], row[1]


@pytest.mark.long
@pytest.mark.parametrize("base", among(["{}/ck", "/ck"], slow=["/ck"]))
def test_a_stream_into_the_default_file_system_loses_no_rows(
    elsewhere: sqlwin.Session, tmp_path: Path, base: str
) -> None:
    elsewhere.execute(source("/data/in"))
    elsewhere.execute(OUT.format("o", PARQUET, "/data/out"))
    streaming(elsewhere, base)
    elsewhere.execute(f"INSERT INTO o {COUNTS}")
    rows = pq.read_table(list(map(str, (tmp_path / "data/out").glob("part-*.parquet"))))
    assert (rows.num_rows, sum(rows["n"].to_pylist())) == (12, 60)
    assert total(elsewhere) == (12, 60)
    assert (tmp_path / "ck" / "o" / "sqlwin.json").exists()


@pytest.mark.long
def test_a_path_of_this_machine_keeps_its_scheme(elsewhere: sqlwin.Session, tmp_path: Path) -> None:
    # the Arrow scan reads the files, whose paths come from Spark
    elsewhere.execute(source(f"file://{tmp_path}/data/in"))
    elsewhere.execute(OUT.format("o", FILES.format("json"), f"file:{tmp_path}/data/out"))
    streaming(elsewhere, f"file://{tmp_path}/ck")
    elsewhere.execute(f"INSERT INTO o {COUNTS}")
    assert total(elsewhere) == (12, 60)


@pytest.mark.long
def test_a_checkpoint_on_another_file_system_resumes(
    elsewhere: sqlwin.Session, tmp_path: Path
) -> None:
    elsewhere.execute(source("/data/in"))
    elsewhere.execute(OUT.format("o", PARQUET, "/data/out"))
    streaming(elsewhere)
    elsewhere.execute("SET 'sqlwin.end-of-input' = 'hold-windows'")
    elsewhere.execute(f"INSERT INTO o {COUNTS}")
    write_minutes(tmp_path / "data" / "in" / "b.parquet", 1)
    elsewhere.execute("SET 'sqlwin.end-of-input' = 'close-windows'")
    elsewhere.execute(f"INSERT INTO o {COUNTS}")
    assert total(elsewhere) == (24, 120)


@pytest.mark.long
def test_a_batch_writes_and_replaces_files_elsewhere(
    elsewhere: sqlwin.Session, tmp_path: Path
) -> None:
    elsewhere.execute(source("/data/in"))
    elsewhere.execute(OUT.format("o", PARQUET, "/data/out"))
    elsewhere.execute(f"INSERT INTO o {COUNTS}")
    assert total(elsewhere) == (12, 60)
    # the query reads the table that it replaces
    elsewhere.execute("INSERT OVERWRITE o SELECT k, e, n + 1 FROM o WHERE k = 1")
    assert total(elsewhere) == (4, 24)
    assert [p.name for p in (tmp_path / "data").iterdir() if p.name.startswith(".")] == []


@pytest.mark.long
def test_a_batch_replaces_partitions_elsewhere_all_at_once(
    elsewhere: sqlwin.Session, tmp_path: Path
) -> None:
    table = tmp_path / "data" / "days"
    for day in range(3):
        (table / f"day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"v": [day]}), table / f"day={day}" / "old.parquet")
    elsewhere.execute(
        "CREATE TABLE days (v BIGINT, day BIGINT) PARTITIONED BY (day)"
        f" WITH ({PARQUET}, 'path' = '/data/days')"
    )
    elsewhere.execute("INSERT OVERWRITE days SELECT v + 10, day + 1 FROM days WHERE day > 0")
    rows = "SELECT day, v FROM days ORDER BY day, v"
    assert elsewhere.sql(rows).collect() == [(0, 0), (1, 1), (2, 11), (3, 12)]
    assert len(list(table.glob("day=*/*.parquet"))) == 4
    # killed after the new directory was complete
    name = "part-b0123456789ab-00000000-00000.parquet"
    pq.write_table(pa.table({"v": [7]}), table / "day=0" / name)
    commit = Commit(0, True, (f"day=0/{name}",), replaced=("day=0/old.parquet",))
    write_commit(LocalFiles(), str(table), "b0123456789ab", commit)
    assert elsewhere.sql(rows).collect() == [(0, 7), (1, 1), (2, 11), (3, 12)]
    elsewhere.execute("INSERT INTO days VALUES (8, 8)")
    assert elsewhere.sql(rows).collect() == [(0, 7), (1, 1), (2, 11), (3, 12), (8, 8)]
    assert not (table / "day=0" / "old.parquet").exists()
    assert list(table.glob(".sqlwin*")) == []


def test_a_directory_elsewhere_without_files_has_no_rows(
    elsewhere: sqlwin.Session, tmp_path: Path
) -> None:
    (tmp_path / "data" / "empty").mkdir()
    elsewhere.execute(OUT.format("o", PARQUET, "/data/empty"))
    assert elsewhere.sql("SELECT COUNT(*) AS n FROM o").collect() == [(0,)]
    elsewhere.execute(OUT.format("unwritten", PARQUET, "/data/unwritten"))
    assert elsewhere.sql("SELECT * FROM unwritten").collect() == []
    with pytest.raises(ExecutionError, match=r"viewfs://.*/data/none\.parquet does not exist"):
        elsewhere.execute(
            OUT.format("none", PARQUET, "/data/none.parquet") + "; SELECT * FROM none"
        )


@pytest.mark.variants(1)
@pytest.mark.parametrize("scan", ["", "push_local_aggregate_into_scan"])
def test_a_query_during_a_publish_sees_whole_micro_batches_only(
    elsewhere: sqlwin.Session, tmp_path: Path, scan: str
) -> None:
    table = tmp_path / "data" / "table"
    files = LocalFiles()
    for batch in range(2):
        write_minutes(table / f"part-0a-0000000{batch}-00000.parquet", batch)
    write_commit(files, str(table), "0a", Commit(1, False, ("part-0a-00000001-00000.parquet",)))
    elsewhere.execute(f"SET 'sqlwin.optimizer.disabled-rules' = '{scan}'")
    elsewhere.execute(source(f"file://{table}"))
    assert ("ArrowScan" in elsewhere.explain(COUNTS)) == (scan == "")
    rows = elsewhere.sql(COUNTS).collect()
    assert sum(row[2] for row in rows) == 60
    write_commit(files, str(table), "0a", Commit(1, True))
    assert sum(row[2] for row in elsewhere.sql(COUNTS).collect()) == 120
