"""Make the archive of `runtime.spark.jvm.class_archive`.

`python -m runtime.spark.warm_up [ARCHIVE]` makes the one that a run missed, by default the one for
this environment.

Starts Spark, runs a little of everything that window SQL needs, and lets the JVM record the loaded
classes at exit. After a run it works in the background, at the lowest priority.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from runtime.logs import append_trace
from runtime.spark.jvm import class_archive
from runtime.spark.jvm.java import JavaRuntime, find_java
from runtime.spark.jvm.process import end_jvm
from runtime.spark.jvm.submit import archive_to_use
from runtime.spark.session import start_session
from runtime.spark.versions.frames import place_rows, to_arrow
from runtime.temporary import process_directory

_MASTER = "local[2]"
_MEMORY = "1g"
# Anything that takes longer hangs.
_BASE_SECONDS = 120
_EXIT_SECONDS = 300
_ALL_SECONDS = 900


def main(missed: Path | None = None) -> bool:
    """Create the archive, unless another process does.

    Args:
        missed: The archive that a run missed. Nothing is created if it is for another Java or
            Spark: they were replaced since.

    Returns:
        Whether it was created.

    Raises:
        OSError: The disk is full, or the cache directory cannot be written.
        SqlwinError: Spark does not start.
    """
    java = find_java()
    archive = archive_to_use(java, {"spark.master": _MASTER})
    if archive is None or (missed is not None and missed != archive):
        return False
    archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with class_archive.making_lock(archive.parent) as is_alone:
        if not is_alone or class_archive.is_usable(archive):
            return False
        class_archive.note_try(archive)
        written = class_archive.temporary_path(archive)
        options = [*_base_options(java, archive), f"-XX:ArchiveClassesAtExit={written}"]
        spark = start_session(
            _MASTER,
            {
                "spark.driver.memory": _MEMORY,
                "spark.driver.extraJavaOptions": shlex.join([*options, "-Xlog:cds*=off"]),
            },
        )
        with tempfile.TemporaryDirectory(dir=process_directory()) as directory:
            run_representative_queries(spark, Path(directory))
        spark.stop()
        if end_jvm(_EXIT_SECONDS) != 0 or not written.is_file():
            written.unlink(missing_ok=True)
            return False
        class_archive.publish_archive(written, archive)
    return True


def run_representative_queries(spark: SparkSession, directory: Path) -> None:
    """Load the classes that queries use: files, SQL, shuffles, Arrow, Python workers."""
    parquet, csv = str(directory / "parquet"), str(directory / "csv")
    rows = spark.range(2000).selectExpr(
        "id",
        "timestamp_micros(id * 1000000) AS ts",
        "timestamp_ntz '2020-01-01 00:00:00' + make_dt_interval(0, 0, 0, id) AS local_ts",
        "CAST(id % 7 AS STRING) AS name",
        "CAST(id AS DOUBLE) / 3 AS price",
        "CAST(id AS DECIMAL(18, 2)) AS amount",
    )
    rows.write.parquet(parquet)
    rows.write.option("header", True).csv(csv)
    spark.read.parquet(parquet).createOrReplaceTempView("bids")
    spark.read.option("header", True).csv(csv, schema=rows.schema).createOrReplaceTempView("lines")
    query = """
        SELECT name, window_end, COUNT(*) AS n, COUNT(DISTINCT id) AS ids, SUM(amount) AS amount,
               ROUND(AVG(price), 1) AS mean, MIN(local_ts) AS first, MAX(ts) AS last
        FROM (SELECT *, date_trunc('MINUTE', ts) AS window_end FROM {table} WHERE id > 10)
        GROUP BY name, window_end HAVING COUNT(*) > 1
        ORDER BY mean DESC, name LIMIT 10"""
    spark.sql(query.format(table="bids")).collect()
    to_arrow(spark.sql(query.format(table="lines")))
    spark.sql("""
        SELECT a.name, b.n, ROW_NUMBER() OVER (PARTITION BY a.name ORDER BY a.ts) AS place
        FROM bids a JOIN (SELECT name, COUNT(*) AS n FROM bids GROUP BY name) b USING (name)
        WHERE a.ts BETWEEN TIMESTAMP '1970-01-01' AND TIMESTAMP '2030-01-01'
        UNION ALL SELECT name, 1, CASE WHEN price > 1 THEN 1 ELSE 2 END FROM lines
    """).createOrReplaceTempView("places")
    spark.sql("SELECT * FROM places ORDER BY place, name LIMIT 20").collect()
    spark.sql("EXPLAIN EXTENDED SELECT * FROM places").collect()
    exchanged = _exchange(spark.table("bids"))
    exchanged.createOrReplaceTempView("exchanged")
    to_arrow(spark.sql("SELECT bucket, COUNT(*) FROM exchanged GROUP BY bucket ORDER BY 1"))
    exchanged.coalesce(1).write.mode("overwrite").parquet(parquet + "-exchanged")
    for _ in exchanged.orderBy("id").limit(50).toLocalIterator():
        pass


def _exchange(bids: DataFrame) -> DataFrame:
    """Run Python workers on both sides of an exchange, as window aggregations do."""

    def same(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    keyed = bids.selectExpr("id", "ts", "name", "CAST(id % 2 AS INT) AS bucket")
    schema = "id long, ts timestamp, name string, bucket int"
    partial = keyed.mapInArrow(same, schema)
    placed = place_rows(partial, 2, "bucket").sortWithinPartitions("name")
    return placed.mapInArrow(same, schema)


def _base_options(java: JavaRuntime, archive: Path) -> list[str]:
    """Return options for the base archive: Java's own, or else one created here."""
    if (java.home / "lib" / "server" / "classes.jsa").is_file():
        return []
    base = class_archive.base_path(archive)
    written = class_archive.temporary_path(base)
    subprocess.run(
        [str(java.executable), "-Xshare:dump", f"-XX:SharedArchiveFile={written}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=_BASE_SECONDS,
        check=False,
    )
    class_archive.move(written, base)
    return [f"-XX:SharedArchiveFile={base}"]


if __name__ == "__main__":
    # The JVM ends with this process, because its standard input is a pipe from here.
    signal.alarm(_ALL_SECONDS)
    missed = [Path(argument) for argument in sys.argv[1:]]
    if missed:
        os.nice(19)  # a run started this in the background
    try:
        sys.exit(0 if main(*missed) else 1)
    except Exception:
        append_trace("the class archive was not created", traceback.format_exc())
        raise
