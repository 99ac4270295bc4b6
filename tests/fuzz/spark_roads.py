"""Random queries on Spark: the Arrow scan, Spark's aggregation, streams and materialized tables."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import sqlwin
from runtime.errors import ErrorKind, SqlwinError
from tests.fuzz.choices import Choices
from tests.fuzz.differences import ONE_PHASE, FaultError, Roads, compare, rows_of
from tests.fuzz.queries import Input, RandomQuery, draw_storable_query
from tests.fuzz.values import COLUMNS, Row, table_of
from tests.slt.modes import DISABLED, STREAMING

ON_SPARK = ("sqlwin.in-process.max-bytes", "0")
SPARK_AGGREGATES = (DISABLED, "push_local_aggregate_into_scan")


class SparkRoads(Roads):
    """Runs random queries on Spark.

    Args:
        directory: Directory for files.
        spark: Spark session.
        streams: Whether queries also run as streams.
    """

    # interrupting a call of Py4J would give its answer to the next call
    limit_s = 3_600.0

    def __init__(self, directory: Path, spark: SparkSession, *, streams: bool = False) -> None:
        super().__init__(directory)
        self.spark = spark
        self.streams = streams
        self.session = sqlwin.connect(spark)

    def run_query(self, draw: Choices, given: Input, query: RandomQuery) -> pa.Schema:
        """Run a query in all ways of Spark and return the columns of its result."""
        self.create_tables(draw, given, query)
        with self._setting(*ON_SPARK):
            schema = self._run_batch("Spark", query)
            for way, setting in (
                ("Spark's aggregation", SPARK_AGGREGATES),
                ("Spark, one phase", ONE_PHASE),
            ):
                with self._setting(*setting):
                    self._run_batch(way, query)
            if self.streams and query.is_stream:
                self._run_spark_stream(query)
        if not query.is_storable:
            self._refuse_to_store(query)
            query = draw_storable_query(draw, given)
        self._run_materialized(given, query)
        return schema

    def _run_spark_stream(self, query: RandomQuery) -> None:
        try:
            with self._setting(*STREAMING):
                (result,) = self.session.execute(query.sql)
                compare("Spark's stream", query, rows_of([result.to_arrow()]))
        except SqlwinError as error:
            if error.kind is not ErrorKind.STREAM:
                raise
            self.counts["no stream"] += 1
            return
        self.counts["Spark's stream"] += 1

    # -- materialized tables ---------------------------------------------------------------------

    def _refuse_to_store(self, query: RandomQuery) -> None:
        """Check that no materialized table stores a query that is not one aggregation of windows.

        Raises:
            FaultError: One does, or the error is not about the query.
        """
        try:
            self._create_materialized(query)
        except SqlwinError as error:
            if not error.message.startswith("the query cannot be stored as slices: "):
                raise
            self.counts["not stored"] += 1
            return
        self.session.execute("DROP MATERIALIZED TABLE m")
        raise FaultError(f"materialized: stores {query.sql}")

    def _create_materialized(self, query: RandomQuery) -> None:
        slices = self.directory / "slices"
        shutil.rmtree(slices, ignore_errors=True)
        self.session.execute(
            f"CREATE MATERIALIZED TABLE m WITH ('path' = '{slices}') AS {query.sql}"
        )

    def _run_materialized(self, given: Input, query: RandomQuery) -> None:
        """Store a query over some of the rows, add the other rows, and refresh."""
        base = self.directory / "base"
        shutil.rmtree(base, ignore_errors=True)
        base.mkdir()
        rows = given.tables["t"]
        self._add_file(base, "a", rows[::2])
        columns = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS)
        self.session.execute(
            f"CREATE OR REPLACE TABLE t ({columns}) WITH ('connector' = 'filesystem', "
            f"'path' = '{base}', 'format' = 'parquet')"
        )
        self._create_materialized(query)
        try:
            self._add_file(base, "b", rows[1::2])
            self._compare_answers("materialized, one file to read", query)
            self.session.execute("ALTER MATERIALIZED TABLE m REFRESH")
            self._compare_answers("materialized, refreshed", query)
            self._add_file(base, "b", rows[1::2])
            self.session.execute("ALTER MATERIALIZED TABLE m REFRESH")
            self._compare_answers("materialized, a file replaced", query)
        finally:
            self.session.execute("DROP MATERIALIZED TABLE m")
        self.counts["materialized"] += 1

    def _compare_answers(self, way: str, query: RandomQuery) -> None:
        if "SliceScan" not in self.session.explain(query.sql):
            raise FaultError(f"{way}: slices do not answer the query that they store")
        for sql in (query.sql, "SELECT * FROM m"):
            (result,) = self.session.execute(sql)
            compare(way, query, rows_of([result.to_arrow()]))

    @staticmethod
    def _add_file(base: Path, name: str, rows: list[Row]) -> None:
        pq.write_table(table_of(rows), base / f".{name}")
        (base / f".{name}").rename(base / f"{name}.parquet")
