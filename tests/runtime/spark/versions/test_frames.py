"""Calls in the form of the running PySpark, and in the form of older ones where this one has both."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, MapType, StructField, StructType, TimestampType

from runtime.spark.versions import capabilities
from runtime.spark.versions.arrow_types import to_arrow_schema
from runtime.spark.versions.casts import try_cast, type_from_ddl
from runtime.spark.versions.frames import from_arrow, place_rows, to_arrow
from runtime.spark.versions.murmur import number_hashed_to
from runtime.spark.versions.sessions import all_settings, explicit_settings

ROWS = pa.table(
    {
        "k": pa.array([1, None, 3], pa.int32()),
        "a.b": pa.array(["x", None, "日本"]),
        "m": pa.array([Decimal("1.50"), None, Decimal("-0.01")], pa.decimal128(12, 2)),
        "at": pa.array(
            [datetime(1969, 12, 31, 23, tzinfo=UTC), None, None], pa.timestamp("us", "UTC")
        ),
        "local": pa.array([None, datetime(2024, 2, 29, 12), None], pa.timestamp("us")),  # noqa: DTZ001
        "l": pa.array([[1, None], [], None], pa.list_(pa.int64())),
    }
)


def test_numbers_have_the_hash_of_spark(spark: SparkSession) -> None:
    targets = [*range(300), 2**31 - 1]
    numbers = spark.createDataFrame([(number_hashed_to(t),) for t in targets], "n INT")
    assert [row[0] for row in numbers.select(F.hash("n")).collect()] == targets


@pytest.mark.parametrize("version", [None, "3.5.9"])
@pytest.mark.parametrize("partitions", [1, 7, 200])
def test_rows_are_placed_by_their_number(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, version: str | None, partitions: int
) -> None:
    if version is not None:
        monkeypatch.setattr(capabilities, "pyspark_version", lambda: version)
    numbers = spark.range(500).select(F.col("id").cast("int").alias("n"))
    placed = place_rows(numbers, partitions, "n")
    found = placed.select("n", F.spark_partition_id().alias("part")).collect()
    assert sorted(row.n for row in found) == list(range(500))
    assert all(row.part == row.n % partitions for row in found)
    assert placed.rdd.getNumPartitions() == partitions


def test_an_arrow_table_and_a_dataframe_have_the_same_rows(spark: SparkSession) -> None:
    frame = from_arrow(spark, ROWS, from_arrow_schema(ROWS.schema, prefer_timestamp_ntz=True))
    assert [field.dataType.simpleString() for field in frame.schema] == [
        *("int", "string", "decimal(12,2)", "timestamp", "timestamp_ntz", "array<bigint>")
    ]
    back = to_arrow(frame)
    assert back.schema.field("at").type == pa.timestamp("us", "UTC")
    assert back.to_pylist() == ROWS.to_pylist()


def test_a_table_without_rows_keeps_its_columns(spark: SparkSession) -> None:
    frame = from_arrow(spark, ROWS[:0], from_arrow_schema(ROWS.schema, prefer_timestamp_ntz=True))
    assert to_arrow(frame).schema.names == ROWS.schema.names
    assert to_arrow(frame).num_rows == 0


@pytest.mark.parametrize("version", [None, "4.0.9"])
def test_instants_on_every_level_get_the_time_zone(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    instants = TimestampType()
    schema = StructType(
        [
            StructField("a", instants),
            StructField("l", ArrayType(instants)),
            StructField("m", MapType(instants, StructType([StructField("x", instants)]))),
        ]
    )
    if version is None:
        found = to_arrow_schema(schema, "Asia/Tokyo")
    else:
        found = _in_zone_of_older(monkeypatch, schema, version)
    text = str(found)
    assert text.count("timestamp[us, tz=Asia/Tokyo]") == text.count("timestamp") > 0


def _in_zone_of_older(
    monkeypatch: pytest.MonkeyPatch, schema: StructType, version: str
) -> pa.Schema:
    """Return the schema that an older PySpark gives, with its label UTC from this one."""
    from pyspark.sql.pandas import types

    in_utc = to_arrow_schema(schema)
    monkeypatch.setattr(types, "to_arrow_schema", lambda _: in_utc)
    monkeypatch.setattr(capabilities, "pyspark_version", lambda: version)
    return to_arrow_schema(schema, "Asia/Tokyo")


def test_a_cast_that_fails_gives_null(spark: SparkSession) -> None:
    texts = spark.createDataFrame([("7",), ("x",), (None,)], "t STRING")
    numbers = texts.select(
        try_cast(texts.t, "int"), try_cast(texts.t, type_from_ddl("decimal(4,1)"))
    )
    assert [tuple(row) for row in numbers.collect()] == [
        (7, Decimal("7.0")),
        (None, None),
        (None, None),
    ]


def test_a_type_is_read_from_its_text(spark: SparkSession) -> None:
    assert type_from_ddl("array<int>").simpleString() == "array<int>"
    assert type_from_ddl("a INT, b STRING").simpleString() == "struct<a:int,b:string>"


def test_settings_of_a_session_are_listed(spark: SparkSession) -> None:
    own = spark.newSession()
    own.conf.set("fs.made.up", "a, b=c")
    assert "fs.made.up=a, b=c" in explicit_settings(own)
    assert all_settings(own)["fs.made.up"] == "a, b=c"
