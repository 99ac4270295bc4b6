"""Window rows that workers return or write as Arrow equal the rows that Spark would make."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sqlwin
from runtime.compute.arrow.blobs import from_blobs
from runtime.connectors.filesystem.write import open_target
from runtime.connectors.registry import open_table
from runtime.errors import ExecutionError
from runtime.frames.arrow_rows import ArrowRows, BatchRows
from runtime.frames.blobs import without_emitted, wrap_emitted
from runtime.shown_types import shown_type
from runtime.spark.versions.frames import to_arrow
from runtime.spec.table import TableSpec
from sqlwin.result import RowsResult
from sqlwin.result.spark import SparkRows
from tests.marks import among

N_ROWS = 3_000
WINDOW = "TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
HOP = "TABLE(HOP(TABLE readings, DESCRIPTOR(ts), INTERVAL '30' SECONDS, INTERVAL '5' MINUTES))"


@pytest.fixture(scope="module")
def readings_session(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> sqlwin.Session:
    directory = tmp_path_factory.mktemp("readings")
    random = np.random.default_rng(5)

    def with_nulls(values: pa.Array) -> pa.Array:
        return pa.array(values.to_pylist(), values.type, mask=random.random(N_ROWS) < 0.1)

    seconds = random.integers(0, 3_600, N_ROWS)
    pq.write_table(
        pa.table(
            {
                "ts": pa.array(seconds * 1_000_000, pa.timestamp("us")),
                "k": with_nulls(pa.array(random.integers(0, 9, N_ROWS))),
                "name": with_nulls(pa.array([f"n{i % 7}" for i in range(N_ROWS)])),
                "day": with_nulls(pa.array(random.integers(0, 9, N_ROWS, np.int32)).cast("date32")),
                "v": with_nulls(pa.array(random.random(N_ROWS))),
                "small": with_nulls(pa.array(random.integers(-99, 99, N_ROWS, np.int16))),
                "price": pa.array([Decimal(i % 977) / 100 for i in range(N_ROWS)]),
            }
        ),
        directory / "a.parquet",
    )
    session = sqlwin.connect(spark)
    session.execute(f"""
        CREATE TABLE readings WITH (
          'connector' = 'filesystem', 'path' = '{directory}', 'format' = 'parquet')
    """)
    return session


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(map(str, zip(*(column.to_pylist() for column in table.columns), strict=True)))


def rows_of(result: sqlwin.Result) -> BatchRows:
    return replace(BatchRows.of(result.dataframe), arrow=arrow_rows(result))


def arrow_rows(result: sqlwin.Result) -> ArrowRows | None:
    """Return rows as workers hold them; None if Spark computes them."""
    assert isinstance(result, RowsResult)
    return result.data.arrow if isinstance(result.data, SparkRows) else None


QUERIES = {
    "counts": f"SELECT k, window_start, window_end, window_time, COUNT(*) AS n, COUNT(v) AS m "
    f"FROM {WINDOW} GROUP BY k, window_start, window_end, window_time",
    "sums": f"SELECT window_end, name, SUM(small) AS s, AVG(small) AS a, AVG(v) AS b, "
    f"SUM(price) AS p, MIN(day) AS d FROM {HOP} GROUP BY name, window_start, window_end",
    "having": f"SELECT k + 1, window_end, SUM(v) / COUNT(*) FROM {WINDOW} "
    f"GROUP BY k, window_start, window_end HAVING COUNT(*) > 5 AND k IS NOT NULL",
    "none": f"SELECT name, MAX(name) AS m FROM {WINDOW} GROUP BY name, window_start, window_end "
    f"HAVING COUNT(*) > 3000",
    "a subquery": f"SELECT n FROM (SELECT window_time, COUNT(*) AS n FROM {HOP} "
    f"GROUP BY window_start, window_end, window_time) WHERE n > 2",
    "windows of windows": f"""
        SELECT window_start, SUM(n) AS n FROM TABLE(TUMBLE((
          SELECT window_time AS at, COUNT(*) AS n FROM {WINDOW}
          GROUP BY k, window_start, window_end, window_time
        ), DESCRIPTOR(at), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end""",
}


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    "name", among(QUERIES, long=["counts", "none", "a subquery", "windows of windows"])
)
def test_rows_of_workers_equal_those_of_spark(readings_session: sqlwin.Session, name: str) -> None:
    (result,) = readings_session.execute(QUERIES[name])
    assert arrow_rows(result) is not None
    actual, expected = result.to_arrow(), to_arrow(result.dataframe)
    assert actual.schema.types == expected.schema.types
    assert actual.column_names == expected.column_names
    assert sorted_rows(actual) == sorted_rows(expected)
    assert bool(actual.num_rows) == (name != "none")


@pytest.mark.parametrize(
    "name", among(QUERIES, long=["counts", "none", "a subquery", "windows of windows"])
)
def test_a_table_of_them_has_the_columns_that_spark_finds(
    readings_session: sqlwin.Session, tmp_path: Path, name: str
) -> None:
    (result,) = readings_session.execute(QUERIES[name])
    expected = result.dataframe.schema.fields
    readings_session.execute(f"""
        CREATE TABLE made WITH (
          'connector' = 'filesystem', 'path' = '{tmp_path}/made', 'format' = 'parquet'
        ) AS {QUERIES[name]}""")
    try:
        described = readings_session.execute("DESCRIBE made")[0].rows
        assert writers(tmp_path / "made") == {"parquet-cpp-arrow"}
    finally:
        readings_session.execute("DROP TABLE made")
    assert [(row.name, row.type) for row in described] == [
        (field.name, shown_type(field.dataType.simpleString())) for field in expected
    ]
    # columns are nullable where only Spark knows that they have no NULL
    for row, field in zip(described, expected, strict=True):
        assert row.null == "TRUE" or not field.nullable
        if field.name in ("window_start", "window_end", "window_time"):
            assert (row.null == "TRUE") == field.nullable


@pytest.mark.long
def test_rows_that_are_forgotten_are_computed_and_counted_where_they_are(
    readings_session: sqlwin.Session,
) -> None:
    (result,) = readings_session.execute(QUERIES["sums"])
    n_rows = result.to_arrow().num_rows
    readings_session.execute("""
        CREATE TABLE nowhere (w TIMESTAMP(3), name STRING, s BIGINT, a DOUBLE, b DOUBLE,
          p DECIMAL(38, 2), d DATE) WITH ('connector' = 'blackhole')""")
    (written,) = readings_session.execute(f"INSERT INTO nowhere {QUERIES['sums']}")
    assert written.row_count == n_rows > 0
    assert arrow_rows(result) is not None
    target = open_table(TableSpec("nowhere", "blackhole"))
    assert target.write(rows_of(result), overwrite=False) == n_rows


@pytest.mark.long
@pytest.mark.parametrize(
    "query",
    [
        f"SELECT k, LN(SUM(v)) AS s FROM {WINDOW} GROUP BY k, window_start, window_end",
        f"SELECT k, COUNT(*) AS n FROM {WINDOW} GROUP BY k, window_start, window_end ORDER BY n",
        f"SELECT DISTINCT n FROM (SELECT COUNT(*) AS n FROM {WINDOW} "
        f"GROUP BY k, window_start, window_end)",
        f"SELECT k AS x, COUNT(*) AS x FROM {WINDOW} GROUP BY k, window_start, window_end",
        "SELECT k FROM readings",
    ],
)
def test_spark_evaluates_expressions_that_arrow_cannot(
    readings_session: sqlwin.Session, query: str
) -> None:
    (result,) = readings_session.execute(query)
    assert arrow_rows(result) is None
    assert result.to_arrow(limit=5).num_rows == 5


def test_an_error_of_a_row_is_one_line(readings_session: sqlwin.Session) -> None:
    (result,) = readings_session.execute(
        f"SELECT 1 / (COUNT(*) - COUNT(*)) AS x FROM {WINDOW} GROUP BY window_start, window_end"
    )
    assert arrow_rows(result) is not None
    with pytest.raises(ExecutionError, match=r"[Dd]ivision by zero"):
        result.to_arrow()


COLUMNS = "name STRING, e TIMESTAMP(3), n BIGINT, a DOUBLE, p DECIMAL(13, 2), d DATE"
WRITTEN = (
    f"SELECT name, window_end AS e, COUNT(*) AS n, AVG(v) AS a, SUM(price) AS p, MAX(day) AS d "
    f"FROM {WINDOW} GROUP BY name, window_start, window_end"
)


@pytest.fixture
def target(readings_session: sqlwin.Session, tmp_path: Path) -> Iterator[Path]:
    readings_session.execute(f"""
        CREATE TABLE target ({COLUMNS}) WITH (
          'connector' = 'filesystem', 'path' = '{tmp_path}/target', 'format' = 'parquet')
    """)
    yield tmp_path / "target"
    readings_session.execute("DROP TABLE target")


def footers(path: Path) -> list[pq.FileMetaData]:
    return [pq.read_metadata(file) for file in sorted(path.glob("part-*.parquet"))]


def writers(path: Path) -> set[str]:
    return {footer.created_by.split()[0] for footer in footers(path)}


@pytest.mark.long
def test_files_of_workers_equal_those_of_spark(
    readings_session: sqlwin.Session, target: Path, spark: SparkSession, tmp_path: Path
) -> None:
    (inserted,) = readings_session.execute(f"INSERT INTO target {WRITTEN}")
    expected = readings_session.sql(WRITTEN)
    expected.write.parquet(str(tmp_path / "sparks"))
    assert (writers(target), writers(tmp_path / "sparks")) == (
        {"parquet-cpp-arrow"},
        {"parquet-mr"},
    )
    assert inserted.row_count == expected.count()
    actual, sparks = (spark.read.parquet(str(path)) for path in (target, tmp_path / "sparks"))
    assert actual.schema == sparks.schema
    assert sorted_rows(to_arrow(actual)) == sorted_rows(to_arrow(sparks))
    assert [path.name for path in target.iterdir() if not path.name.startswith("part-")] == [
        "_SUCCESS"
    ]
    (codec,) = {footer.row_group(0).column(0).compression for footer in footers(target)}
    assert codec == "SNAPPY"


@pytest.mark.long
def test_they_are_added_and_replaced(readings_session: sqlwin.Session, target: Path) -> None:
    few = f"{WRITTEN} HAVING COUNT(*) > 8"
    (first, second) = readings_session.execute(
        f"INSERT INTO target {WRITTEN}; INSERT INTO target {few}"
    )
    assert first.row_count and second.row_count
    count = "SELECT COUNT(*) AS n FROM target"
    assert readings_session.execute(count)[0].rows[0].n == first.row_count + second.row_count
    readings_session.execute(f"INSERT OVERWRITE target {few}")
    assert readings_session.execute(count)[0].rows[0].n == second.row_count
    assert writers(target) == {"parquet-cpp-arrow"}
    # an empty file records the columns
    readings_session.execute(f"INSERT OVERWRITE target {WRITTEN} HAVING COUNT(*) > 3000")
    assert [(footer.num_rows, footer.num_columns) for footer in footers(target)] == [(0, 6)]


@pytest.mark.long
@pytest.mark.parametrize(
    "insert",
    [
        "INSERT INTO target SELECT name, e, CAST(n AS INT), a, p, d FROM ({})",
        "INSERT INTO target (a, name, d, p, e) SELECT a, name, d, p, e FROM ({})",
        "INSERT INTO target /*+ OPTIONS('parquet.block.size' = '1048576') */ {}",
        "INSERT INTO target /*+ OPTIONS('sink.parallelism' = '1') */ {}",
    ],
)
def test_spark_writes_formats_that_workers_write_differently(
    readings_session: sqlwin.Session, target: Path, insert: str
) -> None:
    (inserted,) = readings_session.execute(insert.format(WRITTEN))
    assert writers(target) == {"parquet-mr"}
    assert inserted.row_count == sum(footer.num_rows for footer in footers(target))


def test_a_directory_that_cannot_be_written_to_is_named(
    readings_session: sqlwin.Session, tmp_path: Path
) -> None:
    (result,) = readings_session.execute(WRITTEN)
    refuse_directory(result, tmp_path)


def refuse_directory(result: RowsResult, tmp_path: Path) -> None:
    """Check that workers name a directory that they cannot write to."""
    rows = rows_of(result)
    options = (("path", str(tmp_path / "o")), ("format", "parquet"))
    target = open_target(
        rows.spark, rows.schema.names, TableSpec("o", "filesystem", options=options)
    )
    (tmp_path / "taken").touch()
    with pytest.raises(OSError, match=r"taken/\.part-"):
        target.write(rows, str(tmp_path / "taken"))


N_ORDERED, DAY_US = 1_200_000, 86_400_000_000


@pytest.fixture(scope="module")
def ordered(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a day of rows, in order of time except for some seconds, enough for several splits."""
    directory = tmp_path_factory.mktemp("ordered")
    random = np.random.default_rng(11)
    n = N_ORDERED // 3
    for number in range(3):
        us = DAY_US + np.arange(number * n, (number + 1) * n) * (DAY_US // N_ORDERED)
        is_null = random.random(n) < 0.01
        table = pa.table(
            {
                "ts": pa.array(us + random.integers(0, 5_000_000, n), pa.timestamp("us")),
                "some_ts": pa.array(us, pa.timestamp("us"), mask=is_null),
                "k": pa.array(random.integers(0, 20, n), mask=is_null),
                "v": pa.array(random.random(n)),
            }
        )
        pq.write_table(table, directory / f"{number}.parquet", row_group_size=100_000)
    return directory


ORDERED = {
    "a minute": ("ts", "INTERVAL '1' MINUTE", 60, ""),
    "an offset": ("ts", "INTERVAL '7' MINUTES, INTERVAL '3' SECONDS", 420, ""),
    "two days": ("ts", "INTERVAL '2' DAYS", 172_800, ""),
    "some windows": ("ts", "INTERVAL '1' MINUTE", 60, "HAVING COUNT(*) > 45"),
    "no window": ("ts", "INTERVAL '1' MINUTE", 60, "HAVING COUNT(*) > 1000000"),
    "times of which some are NULL": ("some_ts", "INTERVAL '1' MINUTE", 60, ""),
}


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", among(ORDERED, long=["two days", "no window"]))
@pytest.mark.parametrize("keys", ["k", ""])
def test_windows_of_sorted_rows_equal_duckdb(
    fresh_session: sqlwin.Session, ordered: Path, tmp_path: Path, name: str, keys: str
) -> None:
    """Most windows have all rows in one split, whose task writes them; the others are exchanged."""
    time, window, size, having = ORDERED[name]
    start_us = 3_000_000 if name == "an offset" else 0
    comma = f"{keys}," if keys else ""
    fresh_session.execute(f"""
        CREATE TABLE ordered WITH (
          'connector' = 'filesystem', 'path' = '{ordered}', 'format' = 'parquet');
        CREATE TABLE written WITH (
          'connector' = 'filesystem', 'path' = '{tmp_path}/written', 'format' = 'parquet') AS
        SELECT {comma} window_start, COUNT(*) AS n, SUM(v) AS s, MAX(k) AS m
        FROM TABLE(TUMBLE(TABLE ordered, DESCRIPTOR({time}), {window}))
        GROUP BY {comma} window_start, window_end {having}""")
    bucket = f"(epoch_us({time}) - {start_us}) // {size * 1_000_000} * {size * 1_000_000}"
    expected = duckdb.sql(f"""
        SELECT {comma} make_timestamp({bucket} + {start_us}) AS window_start,
          COUNT(*) AS n, SUM(v) AS s, MAX(k) AS m
        FROM '{ordered}/*.parquet' WHERE {time} IS NOT NULL
        GROUP BY ALL {having} ORDER BY ALL""").to_arrow_table()
    actual = duckdb.sql(
        f"SELECT * FROM '{tmp_path}/written/*.parquet' ORDER BY ALL"
    ).to_arrow_table()
    sums = actual.column("s").to_numpy(), expected.column("s").to_numpy()
    np.testing.assert_allclose(*sums, rtol=1e-9)
    assert actual.drop_columns("s").to_pylist() == expected.drop_columns("s").to_pylist()
    assert bool(actual.num_rows) == (name != "no window")
    # only the file that records the columns is empty
    filled = [footer.num_rows for footer in footers(tmp_path / "written")]
    assert all(filled) or filled == [0]


def test_tasks_of_the_scan_write_the_windows_that_they_have_all_rows_of(
    fresh_session: sqlwin.Session, ordered: Path, tmp_path: Path
) -> None:
    fresh_session.execute(f"""
        CREATE TABLE ordered WITH (
          'connector' = 'filesystem', 'path' = '{ordered}', 'format' = 'parquet')""")
    query = """
        SELECT window_start, k, COUNT(*) AS n
        FROM TABLE(TUMBLE(TABLE ordered, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
        GROUP BY window_start, window_end, k"""
    (result,) = fresh_session.execute(query)
    arrow = arrow_rows(result)
    assert arrow is not None and arrow.make_whole is not None
    make_whole = arrow.make_whole
    blobs = to_arrow(arrow.input(lambda partials: wrap_emitted(make_whole(partials))))
    emitted: list[pa.RecordBatch] = []
    partials = list(without_emitted(blobs.to_batches(), emitted))
    n_partials = sum(from_blobs(b.column("partials").to_pylist()).num_rows for b in partials)
    n_windows = len(result.rows)
    assert n_windows > 1440 * 20
    # neighbouring splits share a minute or two, and there are four of them
    assert 0.99 * n_windows < sum(batch.num_rows for batch in emitted) < n_windows
    assert 0 < n_partials < 0.02 * n_windows
    refuse_directory(result, tmp_path)


# Each task fails once, after writing all of its rows
TWICE = """
import sys
from dataclasses import replace
from pathlib import Path
import pyarrow.dataset as ds
from pyspark import TaskContext
import sqlwin
from runtime.connectors.filesystem.write import open_target
from runtime.frames.arrow_rows import ArrowRows, BatchRows
from runtime.spec.table import TableSpec

def failing_once(make):
    def run(source):
        yield from make(source)
        if TaskContext.get().attemptNumber() == 0:
            raise OSError("the first attempt")
    return run

class Twice(ArrowRows):
    def then(self, stage, ddl):
        return super().then(failing_once(stage), ddl)

files, target = sys.argv[1:]
with sqlwin.connect(master="local[2, 2]") as session:
    session.execute(f"CREATE TABLE ordered WITH ('connector' = 'filesystem', 'path' = '{files}', "
                    "'format' = 'parquet')")
    (result,) = session.execute(
        "SELECT window_start, k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE ordered, DESCRIPTOR(ts), "
        "INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, k")
    twice = Twice(**vars(result.data.arrow))
    Path(target).mkdir()
    rows = replace(BatchRows.of(result.dataframe), arrow=twice)
    spec = TableSpec("o", "filesystem", options=(("path", target), ("format", "parquet")))
    paths, n_rows = open_target(rows.spark, rows.schema.names, spec).write(rows, target)
    found = ds.dataset([str(path) for path in Path(target).glob("part-*")]).to_table()
    n_hidden = len(list(Path(target).glob(".part-*.parquet")))
    print(n_rows, found.num_rows, sum(found["n"].to_pylist()), n_hidden > 0)
"""


@pytest.mark.long
def test_tasks_that_run_twice_write_their_rows_once(ordered: Path, tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", TWICE, str(ordered), str(tmp_path / "target")],
        capture_output=True,
        text=True,
        timeout=200,
    )
    expected = duckdb.sql(f"""
        SELECT COUNT(*) FROM (
          SELECT 1 FROM '{ordered}/*.parquet' GROUP BY time_bucket(INTERVAL '1' MINUTE, ts), k)
    """).fetchall()[0][0]
    assert process.stdout.split() == [str(expected), str(expected), str(N_ORDERED), "True"], (
        process.stderr
    )
