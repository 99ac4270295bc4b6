"""Runs the compiled texts of random queries on other engines, against their definition."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from planner.lowering.sql.targets import DuckDbTarget
from runtime.errors import SqlwinError
from runtime.spark.versions.frames import to_arrow
from sqlwin.statements.parse import parse_statement
from tests.fuzz.choices import Choices
from tests.fuzz.differences import Roads, compare, rows_of
from tests.fuzz.queries import Input, RandomQuery
from tests.fuzz.values import EPOCH
from tests.unstarted import NeedsSparkError

# Runs a compiled text over tables
Engine = Callable[[str, Mapping[str, pa.Table]], pa.Table]

# Reasons for which random queries are refused
KNOWN_REASONS = re.compile(
    r"only Spark knows"
    r"|GROUPING SETS over SESSION|TIMESTAMP_LTZ on the clocks"
    r"|PostgreSQL has no TINYINT|times outside the years of PostgreSQL"
    r"|AVG of DECIMAL.* on Spark"
    r"|TIMESTAMP_LTZ plus an interval of days"
    r"|LISTAGG\(DISTINCT\) is not merged from slices|DataFusion orders the rows"
    r"|LISTAGG without windows has no defined order|rules of clocks that an engine may not have yet"
    r"|times on clocks that the engine does not know"
    r"|DataFusion gives one name to expressions"
    r"|times outside the years of the engine|SUM\(DISTINCT\) is not merged from slices on DataFusion"
    r"|(?:CUBE|ROLLUP|GROUPING SETS) .*is not supported"
)
# Zone and year from which the rules that engines have are older than Python's
_NEW_RULES = ("Africa/Casablanca", 2026)
# A window of a time next to the ends of BIGINT ends beyond them
_OVERFLOW = re.compile(r"overflow|out of range", re.IGNORECASE)
_ZONE = re.compile(r"the clocks of \S+?(,| skip)")


class BlocksOnDuckDb(DuckDbTarget):
    """DuckDB that merges windows of HOP from blocks, as Spark does."""

    has_fast_frames = False


class CompiledRoads(Roads):
    """Runs the compiled text of random queries.

    Args:
        directory: Directory for files.
        dialect: Target of the text.
        engine: Function that runs it.

    Attributes:
        refusal: Start of the message that refuses a query.
        refused: Number of refused queries, by reason.
    """

    refusal = "cannot compile the query: "

    def __init__(self, directory: Path, dialect: str, engine: Engine) -> None:
        super().__init__(directory)
        self.dialect = dialect
        self.engine = engine
        self.refused: Counter[str] = Counter()

    def run_query(self, draw: Choices, given: Input, query: RandomQuery) -> pa.Schema | None:
        """Compare the rows of the compiled text, and its columns with those in this process."""
        tables = self.create_tables(draw, given, query)
        if (
            query.time == "tz"
            and given.zone == _NEW_RULES[0]
            and _ends_after(tables, _NEW_RULES[1])
        ):
            self.refused["rules of clocks that an engine may not have yet"] += 1
            return None
        try:
            rows = self.compiled_rows(query, tables)
        except SqlwinError as error:
            if not error.message.startswith(self.refusal):
                raise
            reason = _ZONE.sub(r"the clocks of a zone\1", error.message.removeprefix(self.refusal))
            self.refused[reason] += 1
            return None
        except Exception as error:
            if given.is_extreme and _OVERFLOW.search(str(error)):
                self.counts["limit"] += 1
                return None
            if "has no summer time in" in str(error):
                self.refused["times on clocks that the engine does not know"] += 1
                return None
            raise
        compare(self.dialect, query, rows_of([rows]))
        self.counts["compiled"] += 1
        try:
            (result,) = self.session.execute(query.sql)
            here = result.to_arrow()
        except NeedsSparkError:
            return None
        compare("in process", query, rows_of([here]))
        self.compare_schemas(self.dialect, query, *map(self.comparable, (here.schema, rows.schema)))
        return None

    def compiled_rows(self, query: RandomQuery, tables: Mapping[str, pa.Table]) -> pa.Table:
        """Return the rows of the compiled text.

        Raises:
            SqlwinError: The query is not compiled.
        """
        return self.engine(self.control.compiled(parse_statement(query.sql), self.dialect), tables)

    def comparable(self, schema: pa.Schema) -> pa.Schema:
        """Return a schema without the differences between engines."""
        return plain(schema)

    def run_set(
        self,
        queries: Sequence[RandomQuery],
        schemas: Sequence[pa.Schema | None],
        way: str = "statement set",
    ) -> None:
        """Do nothing: INSERTs are not compiled."""


def _ends_after(tables: Mapping[str, pa.Table], year: int) -> bool:
    """Return whether tables have times from a year on."""
    first_us = (dt.datetime(year, 1, 1, tzinfo=dt.UTC) - EPOCH) // dt.timedelta(microseconds=1)
    last = (pc.max(table["ts"]) for table in tables.values())
    return any(time.is_valid and time.value >= first_us for time in last)


def plain(schema: pa.Schema) -> pa.Schema:
    """Return a schema without nullability and with one name for each type."""
    fields = []
    for field in schema:
        is_text = pa.types.is_large_string(field.type)
        fields.append(pa.field(field.name, pa.string() if is_text else field.type))
    return pa.schema(fields)


def run_on_duckdb(text: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """Run a text on DuckDB."""
    with duckdb.connect() as connection:
        for name, rows in tables.items():
            connection.register(name, rows)
        return connection.sql(text).to_arrow_table()


# With which Spark runs the texts
SPARK_SETTINGS = {
    # Spark skips row groups whose statistics leave out NaN
    "spark.sql.parquet.filterPushdown": "false",
    # Spark 3.5 refuses times before 1900
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
}


def run_on_spark(
    spark: SparkSession, directory: Path, text: str, tables: Mapping[str, pa.Table]
) -> pa.Table:
    """Run a text on Spark.

    Args:
        spark: Session.
        directory: Directory of the tables' files, by their numbers.
        text: Text.
        tables: Tables by name.
    """
    for number, name in enumerate(tables):
        frame = spark.read.parquet(str(directory / f"{number}.parquet"))
        frame.createOrReplaceTempView(name)
    try:
        return to_arrow(spark.sql(text))
    finally:
        for name in tables:
            spark.catalog.dropTempView(name)
