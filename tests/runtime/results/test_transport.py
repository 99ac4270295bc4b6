"""Rows of Spark's tasks reach this process in order, once, in bounded memory, and leave no files."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from runtime.frames.arrow_rows import BatchRows, Stage
from runtime.results.chunks import PIECES_DDL, batches_from_chunks
from runtime.results.files import NAMES_DDL, batches_from_files
from runtime.results.transport import result_batches
from runtime.spark.errors import translate
from runtime.temporary import process_directory
from tests.observing import wait_until

Fetch = Callable[..., Iterator[pa.RecordBatch]]


def rows_by_files(frame: DataFrame, most_bytes: int = 64 << 20) -> Iterator[pa.RecordBatch]:
    """Yield the rows as on one machine."""
    return result_batches(BatchRows.of(frame), most_bytes)


def rows_by_chunks(frame: DataFrame, most_bytes: int = 64 << 20) -> Iterator[pa.RecordBatch]:
    """Yield the rows as on a cluster."""
    return batches_from_chunks(lambda stage: frame.mapInArrow(stage, PIECES_DDL), most_bytes)


ROADS = pytest.mark.parametrize("fetch", [rows_by_files, rows_by_chunks])


def files() -> list[Path]:
    return list(process_directory().glob("rows-*"))


def mapped_files() -> int:
    """Return the number of result files mapped into this process."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return len({line.split(maxsplit=5)[5] for line in lines if "/rows-" in line})


def ids(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [value for batch in batches for value in batch.column(0).to_pylist()]


@pytest.mark.variants(1)
@ROADS
@pytest.mark.parametrize("most_bytes", [600, 64 << 20])
def test_rows_come_in_order(spark: SparkSession, fetch: Fetch, most_bytes: int) -> None:
    frame = spark.range(0, 500, 1, 5)
    assert ids(fetch(frame, most_bytes)) == list(range(500))
    descending = frame.orderBy(frame.id.desc())
    assert ids(fetch(descending, most_bytes)) == list(range(499, -1, -1))
    assert not files()


@pytest.mark.variants(1, long=2)
@ROADS
def test_batches_are_cut_by_bytes(spark: SparkSession, fetch: Fetch) -> None:
    frame = spark.range(0, 5_000, 1, 2).selectExpr("id", "repeat('x', id % 100) AS s")
    sizes = [batch.nbytes for batch in fetch(frame, 48_000)]
    assert len(sizes) > 10 and max(sizes) <= 24_000
    # a row may be larger than the limit
    assert ids(fetch(spark.sql("SELECT 1 AS id, repeat('x', 90000) AS s"), 48_000)) == [1]


@ROADS
def test_no_rows_give_no_batch(spark: SparkSession, fetch: Fetch) -> None:
    empty = spark.createDataFrame(spark.sparkContext.emptyRDD(), "id bigint")
    assert empty.rdd.getNumPartitions() == 0
    assert ids(fetch(empty)) == ids(fetch(spark.range(9).where("id < 0"))) == []
    # some partitions have no rows
    assert ids(fetch(spark.range(0, 40, 1, 8).where("id % 20 = 3"))) == [3, 23]


@pytest.mark.variants(1, long=2)
@ROADS
def test_nested_values_and_instants(spark: SparkSession, fetch: Fetch) -> None:
    frame = spark.sql("""
        SELECT CAST(id AS INT) AS i, array(id, NULL) AS a, map('k', id) AS m,
          named_struct('x', X'01', 'y', array(named_struct('z', id))) AS s,
          TIMESTAMP_LTZ '2024-05-01 12:00:00' AS at, TIMESTAMP_NTZ '2024-05-01 12:00:00' AS wall,
          1.50BD AS d, CAST(NULL AS STRING) AS none FROM range(0, 50, 1, 3)""")
    expected = frame.toArrow()
    for most_bytes, n_batches in ((4_000, 3), (64 << 20, 1)):
        batches = list(fetch(frame, most_bytes))
        assert len(batches) >= n_batches
        assert pa.Table.from_batches(batches).to_pylist() == expected.to_pylist()
        assert batches[0].schema.types == expected.schema.types


def test_names_may_be_equal_or_odd(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 1 AS x, 2 AS x, 3 AS `a.b`, 4 AS X")
    (batch,) = rows_by_files(frame)
    assert batch.schema.names == ["x", "x", "a.b", "X"]
    assert [column.to_pylist() for column in batch.columns] == [[1], [2], [3], [4]]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="reads Linux's list of mappings")
def test_few_files_are_mapped_at_a_time(spark: SparkSession) -> None:
    most = 0
    for _batch in rows_by_files(spark.range(0, 100_000, 1, 3), 40_000):
        most = max(most, mapped_files())
    del _batch
    assert most == 1 and mapped_files() == 0


@pytest.mark.long
@ROADS
def test_an_early_stop_leaves_no_files(spark: SparkSession, fetch: Fetch) -> None:
    # with files, the last partition would never be ready
    frame = spark.range(0, 10_000, 1, 4) if fetch is rows_by_chunks else _endless(spark)
    batches = fetch(frame, 20_000)
    assert next(batches).num_rows
    batches.close()  # type: ignore[attr-defined]  # a generator
    assert not files()
    # a chunk that is being fetched is completed
    wait_until(lambda: not spark.sparkContext.statusTracker().getActiveJobsIds())
    jvm_context = spark.sparkContext._jsc
    assert jvm_context is not None and not jvm_context.getPersistentRDDs().size()


def _endless(spark: SparkSession) -> DataFrame:
    """Return rows whose first partition is ready at once and whose last one never is."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            while batch.column(0)[0].as_py() >= 5_000:
                time.sleep(0.02)
            yield batch

    return spark.range(0, 10_000, 1, 4).mapInArrow(run, "id bigint")


@pytest.mark.long
def test_rows_arrive_before_the_job_ends(spark: SparkSession) -> None:
    batches = rows_by_files(_endless(spark), 20_000)
    first = [next(batches).column(0)[0].as_py() for _ in range(2)]
    assert first[0] == 0 < first[1]
    assert spark.sparkContext.statusTracker().getActiveJobsIds()
    batches.close()  # type: ignore[attr-defined]  # a generator


@pytest.mark.long
def test_rows_arrive_without_accumulators(spark: SparkSession) -> None:
    rows = spark.range(0, 3_000, 1, 5)

    def run_stages(stage: Stage, _: Stage) -> DataFrame:
        return rows.mapInArrow(stage, NAMES_DDL)

    assert ids(batches_from_files(spark, run_stages, 10_000)) == list(range(3_000))


@pytest.mark.long
@ROADS
def test_a_failure_leaves_no_files(spark: SparkSession, fetch: Fetch) -> None:
    frame = spark.range(0, 100, 1, 4).selectExpr("id", "assert_true(id < 90, 'too large')")
    with pytest.raises(PySparkException, match="too large"):
        list(fetch(frame.select("id", frame.columns[1]), 200))
    assert not files()


def test_a_disk_that_takes_no_rows_is_named(spark: SparkSession) -> None:
    rows = spark.range(0, 10_000, 1, 2)

    def run_stages(stage: Stage, last: Stage) -> DataFrame:
        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            largest = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, largest[1]))
            try:
                yield from last(stage(batches))
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, largest)

        return rows.mapInArrow(run, NAMES_DDL)

    with pytest.raises(PySparkException) as raised:
        list(batches_from_files(spark, run_stages, 64 << 20))
    error = translate(raised.value)
    assert re.fullmatch(
        r"the rows of the result cannot be written to \S+/rows-\w+: File too large", error.message
    )
    assert "TMPDIR" in str(error.hint)
    assert not files()


@pytest.mark.long
def test_a_forgotten_iterator_leaves_no_files(spark: SparkSession) -> None:
    batches = rows_by_files(spark.range(0, 10_000, 1, 4), 20_000)
    next(batches)
    assert files()
    del batches
    assert not files()


@pytest.mark.variants(1)
@ROADS
def test_threads_get_their_own_rows(spark: SparkSession, fetch: Fetch) -> None:
    frames = [spark.range(start, start + 3_000, 1, 3) for start in (0, 10_000, 20_000)]
    with ThreadPoolExecutor(3) as threads:
        rows = list(threads.map(lambda frame: ids(fetch(frame, 10_000)), frames))
    assert rows == [list(range(start, start + 3_000)) for start in (0, 10_000, 20_000)]


# Each task fails once, after writing all of its rows
TWICE = """
from pyspark import TaskContext
import sqlwin
from runtime.frames.arrow_rows import BatchRows, Stage
from runtime.results.files import NAMES_DDL, batches_from_files

def run_stages(stage, last):
    def run(batches):
        yield from last(stage(batches))
        if TaskContext.get().attemptNumber() == 0:
            raise OSError("the first attempt")
    return rows.mapInArrow(run, NAMES_DDL)

with sqlwin.connect(master="local[2, 2]") as session:
    rows = session.spark.range(0, 5_000, 1, 4)
    batches = batches_from_files(session.spark, run_stages, 4_000)
    values = [value for batch in batches for value in batch.column(0).to_pylist()]
    print(values == list(range(5_000)))
"""


@pytest.mark.long
def test_tasks_that_run_twice_give_their_rows_once() -> None:
    process = subprocess.run(
        [sys.executable, "-c", TWICE], capture_output=True, text=True, timeout=200
    )
    assert process.stdout.split() == ["True"], process.stderr


# The rows are twice as large as the heap, in two partitions. Few long ones take less time to make
LARGE = """
import resource
import sqlwin

conf = {"spark.driver.memory": "512m"}
with sqlwin.connect(master="local[2]", conf=conf) as session:
    (result,) = session.execute("SELECT id, SPACE(1000) AS s FROM range(0, 1000000, 1, 2)")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    n_rows = 0
    for batch in result.batches():
        n_rows += batch.num_rows
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(n_rows, grown < 200 << 10)
"""


@pytest.mark.long
def test_rows_that_are_larger_than_any_memory_are_fetched() -> None:
    process = subprocess.run(
        [sys.executable, "-c", LARGE], capture_output=True, text=True, timeout=300
    )
    assert process.stdout.split() == ["1000000", "True"], process.stderr
