"""PARTITIONED BY tables in this process: the directories of Spark, pruned and written."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from runtime.compute.partitions import split_by_partition
from sqlwin.result.in_process import InProcessRows
from sqlwin.session import Session
from tests.unstarted import NeedsSparkError, unstarted_spark

COLUMNS = "n BIGINT, day DATE, place STRING, s STRING"
ROWS = [
    (1, datetime.date(2024, 1, 31), "a/b", "x"),
    (2, datetime.date(2024, 1, 31), "a/b", None),
    (3, None, "100% é=:?", ""),
    (4, datetime.date(1, 1, 1), "", "y"),
    (5, datetime.date(2024, 2, 1), None, "z"),
    (6, datetime.date(2024, 2, 1), " [tab\t]^ ", "z"),
]
INSERT = "INSERT INTO t SELECT n, day, place, s FROM source"


def create(session: Session, path: Path, file_format: str, options: str = "") -> None:
    source = path.with_name("source.parquet")
    names = ("n", "day", "place", "s")
    pq.write_table(pa.Table.from_pylist([dict(zip(names, r, strict=True)) for r in ROWS]), source)
    session.execute(
        "CREATE OR REPLACE TABLE source WITH ('connector' = 'filesystem', "
        f"'path' = '{source}'); CREATE OR REPLACE TABLE t ({COLUMNS}) PARTITIONED BY (day, place) WITH ("
        f"'connector' = 'filesystem', 'path' = '{path}', 'format' = '{file_format}'{options})"
    )


def without_spark() -> Session:
    return Session(unstarted_spark(), settings={})


def rows_of(session: sqlwin.Session, sql: str) -> list[str]:
    (result,) = session.execute(sql)
    return sorted(map(repr, result.to_arrow().to_pylist()))


def directories(path: Path) -> list[str]:
    return sorted({str(file.parent.relative_to(path)) for file in path.rglob("part-*")})


def test_partitions_are_written_and_read_without_spark(tmp_path: Path) -> None:
    session = without_spark()
    create(session, tmp_path / "t", "parquet")
    assert "in process: " in session.explain(INSERT)
    (inserted,) = session.execute(INSERT)
    assert inserted.message == "INSERT INTO t: 6 rows"
    assert directories(tmp_path / "t") == [
        "day=0001-01-01/place=__HIVE_DEFAULT_PARTITION__",
        "day=2024-01-31/place=a%2Fb",
        "day=2024-02-01/place= %5Btab%09]%5E ".replace("]", "%5D"),
        "day=2024-02-01/place=__HIVE_DEFAULT_PARTITION__",
        "day=__HIVE_DEFAULT_PARTITION__/place=100%25 é%3D%3A%3F",
    ]
    file = next((tmp_path / "t/day=2024-01-31/place=a%2Fb").glob("part-*"))
    assert pq.read_schema(file).names == ["n", "s"]
    expected = {n: (day, place) for n, day, place, _ in ROWS}
    (result,) = session.execute("SELECT n, day, place FROM t ORDER BY n")
    assert isinstance(result.data, InProcessRows)
    by_number = {row["n"]: (row["day"], row["place"]) for row in result.to_arrow().to_pylist()}
    assert by_number.keys() == expected.keys()
    assert by_number[1] == by_number[2] == (datetime.date(2024, 1, 31), "a/b")
    assert by_number[3] == (None, "100% é=:?")
    assert by_number[4] == (datetime.date(1, 1, 1), None)
    assert by_number[6] == (datetime.date(2024, 2, 1), " [tab\t]^ ")


def test_an_overwrite_replaces_the_partitions_with_new_rows(tmp_path: Path) -> None:
    session = without_spark()
    create(session, tmp_path / "t", "parquet")
    session.execute(INSERT)
    session.execute(
        "INSERT OVERWRITE t SELECT n + 10 AS n, day, place, s FROM t WHERE place = 'a/b' AND n < 2"
    )
    numbers = [f"{{'n': {n}}}" for n in (11, 3, 4, 5, 6)]
    assert rows_of(session, "SELECT n FROM t") == sorted(numbers)


@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_text_in_partitions_is_pruned(tmp_path: Path, file_format: str) -> None:
    line = {"csv": "{},{}\n", "json": '{{"n":{},"s":"{}"}}\n'}[file_format]
    for day in ("2024-01-01", "2024-01-02", "__HIVE_DEFAULT_PARTITION__"):
        for number, place in enumerate(("a", "b%2Fc")):
            directory = tmp_path / f"day={day}" / f"place={place}"
            directory.mkdir(parents=True)
            n_lines = 3 + number
            (directory / "a").write_text("".join(line.format(n, day) for n in range(n_lines)))
    session = without_spark()
    create(session, tmp_path, file_format)
    (result,) = session.execute(
        "SELECT place, day, COUNT(*) AS rows, SUM(n) AS s FROM t GROUP BY place, day"
    )
    assert isinstance(result.data, InProcessRows)
    assert len(result.to_arrow()) == 6
    (result,) = session.execute(
        "SELECT n, s FROM t WHERE day > DATE '2024-01-01' AND place = 'b/c'"
    )
    expected = [{"n": n, "s": "2024-01-02"} for n in range(4)]
    assert result.to_arrow().to_pylist() == expected
    assert result.data.computed.counts.rows_read() == 4
    # a broken file in another partition is not read
    (tmp_path / "day=2024-01-01/place=a/a").write_text("1,2,3,4\n")
    assert rows_of(session, "SELECT n FROM t WHERE day = DATE '2024-01-02' AND place = 'a'")
    with pytest.raises(sqlwin.SqlwinError, match="place=a/a, line 1"):
        rows_of(session, "SELECT n FROM t")


def test_directories_other_than_declared_are_left_to_spark(tmp_path: Path) -> None:
    (tmp_path / "day=2024-1-1" / "place=a").mkdir(parents=True)
    (tmp_path / "day=2024-1-1" / "place=a" / "a.csv").write_text("1,x\n")
    session = without_spark()
    create(session, tmp_path, "csv")
    explained = session.explain("SELECT n FROM t WHERE day IS NULL")
    assert "on Spark: Spark reads the partition value 2024-1-1" in explained
    with pytest.raises(NeedsSparkError):
        rows_of(session, "SELECT day FROM t")


def test_rows_of_a_partition_keep_their_order() -> None:
    table = pa.table({"k": ["b", "a", None, "b", ""], "n": [1, 2, 3, 4, 5]})
    parts = [(k, rows.column("n").to_pylist()) for (k,), rows in split_by_partition(table, ["k"])]
    assert parts == [("b", [1, 4]), ("a", [2]), (None, [3, 5])]
    kept = split_by_partition(table, ["k"], keeps=True)
    assert [k for (k,), _ in kept] == ["b", "a", None, ""]


@pytest.mark.long
def test_spark_writes_and_reads_the_same_partitions(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    fresh_session.execute("SET 'sqlwin.in-process.max-bytes' = '0'")
    create(fresh_session, tmp_path / "spark", "parquet")
    fresh_session.execute(INSERT)
    session = without_spark()
    create(session, tmp_path / "here", "parquet")
    session.execute(INSERT)
    assert directories(tmp_path / "here") == directories(tmp_path / "spark")
    expected = rows_of(session, "SELECT * FROM t")
    assert rows_of(fresh_session, "SELECT * FROM t") == expected
    create(session, tmp_path / "spark", "parquet")
    assert rows_of(session, "SELECT * FROM t") == expected
    create(fresh_session, tmp_path / "here", "parquet")
    assert rows_of(fresh_session, "SELECT * FROM t") == expected
    for file_format in ("csv", "json"):
        create(fresh_session, tmp_path / file_format, file_format)
        fresh_session.execute(INSERT)
        create(session, tmp_path / file_format, file_format)
        by_spark = rows_of(fresh_session, "SELECT * FROM t")
        assert rows_of(session, "SELECT * FROM t") == by_spark
