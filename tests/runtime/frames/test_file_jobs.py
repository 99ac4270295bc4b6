"""Tables of many files: a job reads footers, and the file list is sent as rows."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sqlwin
from runtime.frames.file_jobs import file_checker, row_group_selector
from runtime.local.arrow_scan import item_rows, items_of
from runtime.refusal import Refused
from runtime.scan.metadata import WantedColumns, check_files, find_source
from runtime.scan.splits import RowGroupCriteria, plan_splits, select_row_groups
from runtime.spec.expressions import Call, ColumnRef, Constant
from runtime.spec.scan import ScanSource
from runtime.spec.table import Column

K = Column("k", "bigint")
N_FILES = 12
TOTALS = """
    SELECT window_end, day, COUNT(*) AS n, SUM(k) AS s
    FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
    GROUP BY window_start, window_end, day ORDER BY window_end, day
"""


def rows(number: int, type_: pa.DataType) -> pa.Table:
    ts = pa.array([number * 30_000_000 + i for i in range(50)], pa.timestamp("us"))
    return pa.table({"ts": ts, "k": pa.array(range(number * 50, number * 50 + 50), type_)})


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for number in range(N_FILES):
        path = tmp_path / f"day={number % 2}" / f"{number:02}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(rows(number, pa.int64()), path, row_group_size=20)
    return tmp_path


def source_of(path: Path, *columns: Column, leaves_some: bool = False) -> ScanSource:
    return find_source(str(path), [str(path)], columns, leaves_some=leaves_some)


def test_a_job_finds_the_files_that_the_driver_finds(spark: SparkSession, files: Path) -> None:
    source = source_of(files, K, Column("day", "int"))
    expected = WantedColumns((K,), frozenset({"day"}))
    assert file_checker(spark, many=2)(source.files, expected) == check_files(
        source.files, expected
    )
    late = Call(">", (ColumnRef("k", "bigint"), Constant(500, "bigint")), "boolean")
    criteria = RowGroupCriteria(source, (late,))
    result = row_group_selector(spark, many=2)(source.files, criteria)
    assert result == select_row_groups(source.files, criteria)
    assert sum(len(file.row_groups) for file in result) < N_FILES


def test_large_tables_have_more_splits_than_are_wanted(files: Path) -> None:
    source = source_of(files, K)
    (whole,) = plan_splits(source, [], 2)
    total = sum(
        g.compressed_bytes
        for f in select_row_groups(source.files, RowGroupCriteria(source, ()))
        for g in f.row_groups
    )
    splits = plan_splits(source, [], 2, most_bytes=total // 5)
    assert len(splits) == 6
    assert sum(part.n_rows for split in splits for part in split) == sum(p.n_rows for p in whole)


def test_only_a_file_with_another_schema_falls_back(files: Path) -> None:
    pq.write_table(rows(20, pa.int32()), files / "day=1" / "20.parquet")
    source = source_of(files, K, Column("day", "int"), leaves_some=True)
    assert len(source.files) == N_FILES
    assert [(file.path, file.partition_values) for file in source.others] == [
        (f"{files}/day=1/20.parquet", (1,))
    ]
    with pytest.raises(Refused):
        find_source("x", [str(files)], [K])


def test_large_items_travel_as_rows(spark: SparkSession) -> None:
    items = [("a", b"x" * 50_000), ("b", b"y" * 50_000)]
    for some, is_sent in ((items[:1], True), (items, False)):
        numbers, shipped = item_rows(spark, some)
        assert list(shipped) == (some if is_sent else [])
        assert sorted(items_of(numbers.toArrow().to_batches(), shipped)) == some


@pytest.mark.long
@pytest.mark.parametrize("is_long", [False, True], ids=["splits in code", "splits as rows"])
def test_results_are_the_same_however_files_are_read(
    fresh_session: sqlwin.Session, files: Path, is_long: bool
) -> None:
    # the paths alone exceed the limit for data sent with the code
    path = files.joinpath(*["x" * 250] * 13) if is_long else files / "short"
    for number in range(24):
        (path / f"day={number % 2}").mkdir(parents=True, exist_ok=True)
        pq.write_table(rows(number, pa.int64()), path / f"day={number % 2}" / f"{number}.parquet")
    pq.write_table(rows(30, pa.int32()), path / "day=1" / "30.parquet")
    source = source_of(path, K, Column("day", "int"), leaves_some=True)
    splits = plan_splits(source, [], 4)
    assert bool(item_rows(fresh_session.spark, splits)[1]) != is_long
    session = fresh_session
    session.execute(
        "CREATE TABLE t (ts TIMESTAMP(6), k BIGINT, day INT) WITH ('connector' = 'filesystem', "
        f"'format' = 'parquet', 'path' = '{path}')"
    )
    assert "ArrowScan" in str(session.explain(TOTALS))
    result = session.sql(TOTALS).collect()
    session.execute("SET 'sqlwin.optimizer.disabled-rules' = 'push_local_aggregate_into_scan'")
    assert session.sql(TOTALS).collect() == result
    session.execute("RESET 'sqlwin.optimizer.disabled-rules'")
    assert sum(row["n"] for row in result) == 25 * 50
