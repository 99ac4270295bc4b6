"""Random queries on Spark: the Arrow scan, Spark's aggregation, streams and materialized tables."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
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
from tests.unstarted import NeedsSparkError

ON_SPARK = ("sqlwin.in-process.max-bytes", "0")
SPARK_AGGREGATES = (DISABLED, "push_local_aggregate_into_scan")
# Ways to run a batch query, and their settings
BATCH_WAYS = {
    "Spark": (),
    "Spark's aggregation": (SPARK_AGGREGATES,),
    "Spark, one phase": (ONE_PHASE,),
}
STREAM, STORED = "Spark's stream", "materialized"
# Percentage of the queries that run in a way. A run takes 0.4 seconds of CPU in batch, 0.9 as a
# materialized table, which is read in three states, and 2.5 as a stream.
SHARES = {"Spark": 25, "Spark's aggregation": 20, "Spark, one phase": 15, STREAM: 6, STORED: 15}


class SparkRoads(Roads):
    """Runs random queries on Spark.

    Args:
        directory: Directory for files.
        spark: Spark session.
        streams: Whether queries also run as streams.
        draws_ways: Whether each query runs in all ways without Spark, and then in the ways of Spark
            that its seed draws (`SHARES`): about a second of CPU. Otherwise it runs in all ways of
            Spark, which takes five.
    """

    # interrupting a call of Py4J would give its answer to the next call
    limit_s = 3_600.0
    # a run takes a second
    n_shrinks = 60

    def __init__(
        self,
        directory: Path,
        spark: SparkSession,
        *,
        streams: bool = False,
        draws_ways: bool = False,
    ) -> None:
        super().__init__(directory)
        self.spark = spark
        self.streams = streams
        self.session = sqlwin.connect(spark)
        self._without_spark: Roads | None = None
        if draws_ways:
            # each writes its own statement sets
            files = directory / "without_spark"
            files.mkdir()
            self._without_spark = Roads(files, runs_all=True)
            self._without_spark.counts = self.counts
            self._without_spark.schemas = self.schemas

    def run(self, draw: Choices, given: Input, queries: Sequence[RandomQuery]) -> None:
        """Run queries over the same tables, and raise `FaultError` if rows differ."""
        if self._without_spark is not None:
            try:
                self._without_spark.run(draw, given, queries)
            except NeedsSparkError:
                self.counts["spark"] += 1
        super().run(draw, given, queries)

    def run_query(self, draw: Choices, given: Input, query: RandomQuery) -> pa.Schema | None:
        """Run a query in its ways.

        Returns:
            Columns of its result, or None if it ran in no batch way.
        """
        ways = list(SHARES)
        if self._without_spark is not None:
            ways = [way for way, share in SHARES.items() if draw.chance(share)]
        if not ways:
            return None
        self.create_tables(draw, given, query)
        if self._without_spark is None:
            # its schema is compared with those of Spark's ways
            self._run_batch("in process", query)
        schema = None
        with self._setting(*ON_SPARK):
            for way, settings in BATCH_WAYS.items():
                if way in ways:
                    with ExitStack() as stack:
                        for setting in settings:
                            stack.enter_context(self._setting(*setting))
                        schema = self._run_batch(way, query)
            if STREAM in ways and self.streams and query.is_stream:
                self._run_spark_stream(query)
        if STORED in ways:
            if not query.is_storable:
                self._refuse_to_store(query)
                query = draw_storable_query(draw, given)
            self._run_materialized(given, query)
        return schema

    def run_set(self, queries: Sequence[RandomQuery], schemas: Sequence[pa.Schema | None]) -> None:
        """Run the queries as a statement set, if the columns of their results are known."""
        if all(schema is not None for schema in schemas):
            with self._setting(*ON_SPARK):
                super().run_set(queries, schemas, "statement set on Spark")

    def _run_spark_stream(self, query: RandomQuery) -> None:
        try:
            with self._setting(*STREAMING):
                (result,) = self.session.execute(query.sql)
                self.compare_schemas(STREAM, query, result.schema)
                compare(STREAM, query, rows_of([result.to_arrow()]))
        except SqlwinError as error:
            if error.kind is not ErrorKind.STREAM:
                raise
            self.counts["no stream on Spark"] += 1
            return
        self.counts[STREAM] += 1

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
        self.counts[STORED] += 1

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
