"""How often a stream reads its sources, and how often Spark's report counts their rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from runtime.frames.reports import report_of
from runtime.streaming.source_reads import reads_of_sources
from runtime.streaming.status import Tally, stream_status

N_ROWS = 4


def make_source(spark: SparkSession) -> DataFrame:
    """Return a source of Spark's second interface, with N_ROWS rows under `availableNow`."""
    options = {"rowsPerBatch": str(N_ROWS), "numPartitions": "2"}
    return spark.readStream.format("rate-micro-batch").options(**options).load()


def files(spark: SparkSession, path: Path) -> DataFrame:
    """Return a source of Spark's first interface."""
    path.mkdir()
    (path / "rows.csv").write_text("".join(f"{i}\n" for i in range(N_ROWS)))
    return spark.readStream.schema("value BIGINT").csv(str(path))


def test_each_reading_of_a_streaming_dataframe_is_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    one, other = make_source(spark).select("value"), files(spark, tmp_path / "files")
    rest = spark.range(3).withColumnRenamed("id", "value")
    assert reads_of_sources(one) == (1,)
    assert reads_of_sources(one.union(other).union(one.where("value > 1"))) == (2, 1)
    assert reads_of_sources(other.join(rest, "value").union(one)) == (1, 1)
    # each side of a join has its own source
    assert reads_of_sources(one.join(one.alias("again"), "value")) == (2, 2)
    joined = other.alias("l").join(other.alias("r"), "value").union(other)
    assert sorted(reads_of_sources(joined)) == [3, 3]


@pytest.mark.variants(1)
@pytest.mark.parametrize("joins", [True, False])
def test_rows_count_once_however_often_they_are_read(
    joins: bool, spark: SparkSession, tmp_path: Path
) -> None:
    one, other = make_source(spark).select("value"), files(spark, tmp_path / "files")
    if joins:
        rest = spark.range(3).withColumnRenamed("id", "value")
        rows = one.union(other).union(other).union(one.join(rest, "value"))
    else:
        rows = one.union(other).union(other)
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "kept"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    progress = [p for p in query.recentProgress if p["numInputRows"]]
    reads = reads_of_sources(rows)
    assert reads == ((2, 2) if joins else (1, 2))
    assert sum(p["numInputRows"] for p in progress) == sum(reads) * N_ROWS
    status = [stream_status([report_of(p)], [], Tally(0), reads) for p in progress]
    assert sum(item.n_input_rows for item in status) == 2 * N_ROWS
