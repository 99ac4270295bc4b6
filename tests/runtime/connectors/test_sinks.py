from __future__ import annotations

import errno
import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from runtime.connectors.connector import Table
from runtime.connectors.registry import BUILT_IN, load_connector, open_table, open_writable
from runtime.errors import AnalysisError, CatalogError, ExecutionError, SqlwinError
from runtime.sinks.latest_rows import LatestRows
from runtime.sinks.stream_sinks import check_sink
from runtime.spec.table import TableSpec, Watermark
from tests.runtime.connectors.tables import read_table, table, write_table


def rows(spark: SparkSession, spec) -> list[tuple]:
    return sorted(tuple(row) for row in read_table(spark, spec).collect())


@pytest.mark.variants(1)
@pytest.mark.parametrize("file_format", ["parquet", "csv", "json", "orc"])
def test_written_messages_are_read_again(spark: SparkSession, tmp_path: Path, file_format: str):
    spec = table(
        "filesystem",
        "n BIGINT; s STRING; ts TIMESTAMP_NTZ",
        path=f"{tmp_path}/t",
        format=file_format,
    )
    query = """SELECT id AS x, concat('a "', id, '", \\\\') AS y, TIMESTAMP_NTZ'2024-01-01 10:00:00.123456' AS z
               FROM range(3)"""
    assert write_table(spark.sql(query), spec, overwrite=False) == 3
    assert rows(spark, spec) == sorted(tuple(row) for row in spark.sql(query).collect())


def test_columns_go_by_position_and_take_the_declared_types(spark: SparkSession, tmp_path: Path):
    spec = table("filesystem", "a INT; b STRING; c  = a + 1", path=f"{tmp_path}/t.parquet")
    write_table(spark.sql("SELECT 7L AS b, 8 AS b"), spec, overwrite=False)
    assert rows(spark, spec) == [(7, "8", 8)]
    with pytest.raises(CatalogError, match="has 2 columns, but the query returns 1"):
        write_table(spark.sql("SELECT 1"), spec, overwrite=False)


@pytest.mark.long
def test_append_adds_and_overwrite_replaces(spark: SparkSession, tmp_path: Path):
    spec = table("filesystem", "a BIGINT", path=f"{tmp_path}/t.parquet")
    write_table(spark.range(2), spec, overwrite=False)
    write_table(spark.range(2, 3), spec, overwrite=False)
    assert rows(spark, spec) == [(0,), (1,), (2,)]
    assert write_table(spark.range(9, 10), spec, overwrite=True) == 1
    assert rows(spark, spec) == [(9,)]
    assert os.listdir(tmp_path) == ["t.parquet"]


def test_a_table_may_be_overwritten_with_its_own_rows(spark: SparkSession, tmp_path: Path):
    spec = table("filesystem", "a BIGINT", path=f"{tmp_path}/t.parquet")
    write_table(spark.range(3), spec, overwrite=False)
    write_table(read_table(spark, spec).selectExpr("a + 10"), spec, overwrite=True)
    assert rows(spark, spec) == [(10,), (11,), (12,)]


@pytest.mark.long
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_job_that_fails_changes_nothing(spark: SparkSession, tmp_path: Path, overwrite: bool):
    spec = table("filesystem", "a BIGINT", path=f"{tmp_path}/t.parquet")
    write_table(spark.range(3), spec, overwrite=False)
    failing = spark.range(0, 100, 1, 2).selectExpr("IF(id = 99, raise_error('late'), id)")
    with pytest.raises(ExecutionError, match="late"):
        write_table(failing, spec, overwrite=overwrite)
    assert rows(spark, spec) == [(0,), (1,), (2,)]
    assert os.listdir(tmp_path) == ["t.parquet"]


@pytest.mark.long
def test_overwriting_a_partitioned_table_replaces_the_partitions_that_get_rows(
    spark: SparkSession, tmp_path: Path
):
    spec = table("filesystem", "n BIGINT; p STRING", ("p",), path=f"{tmp_path}/t.parquet")
    write_table(spark.sql("SELECT id, concat('0', id) FROM range(2)"), spec, overwrite=False)
    write_table(spark.sql("SELECT 5, '01'"), spec, overwrite=True)
    assert rows(spark, spec) == [(0, "00"), (5, "01")]
    only_partitions = table("filesystem", "p STRING", ("p",), path=f"{tmp_path}/u.parquet")
    with pytest.raises(CatalogError, match="partitioned by all of its columns"):
        write_table(spark.sql("SELECT 'x'"), only_partitions, overwrite=False)


def test_a_path_that_is_a_file_cannot_be_written(spark: SparkSession, tmp_path: Path):
    (tmp_path / "t.csv").write_text("1\n")
    spec = table("filesystem", "a BIGINT", path=f"{tmp_path}/t.csv")
    with pytest.raises(CatalogError, match=r"its path .*/t\.csv is a file"):
        write_table(spark.range(1), spec, overwrite=True)


@pytest.mark.long
def test_json_timestamps_are_written_as_asked(spark: SparkSession, tmp_path: Path):
    spec = table(
        "filesystem",
        "ts TIMESTAMP_NTZ; at TIMESTAMP",
        path=f"{tmp_path}/t.json",
        json__timestamp_format__standard="SQL",
    )
    query = "SELECT TIMESTAMP_NTZ'2024-01-01 10:00:00.5', TIMESTAMP'2024-01-01 10:00:00Z'"
    write_table(spark.sql(query), spec, overwrite=False)
    text = "".join(path.read_text() for path in (tmp_path / "t.json").glob("*.json"))
    assert text == '{"ts":"2024-01-01 10:00:00.500000","at":"2024-01-01 10:00:00.000000Z"}\n'
    assert rows(spark, spec) == [tuple(spark.sql(query).first())]


def test_print_writes_rows_as_flink_does(spark: SparkSession, capsys):
    query = """
        SELECT 1, 'x', NULL, true, 1.50BD, 1e10D, CAST(0.1 AS FLOAT), DATE'2024-01-02',
               TIMESTAMP_NTZ'2024-01-02 10:00:00', TIMESTAMP_NTZ'2024-01-02 10:00:01.5',
               TIMESTAMP'2024-01-02 10:00:00Z', array(1.0D, NULL), map('k', 1), X'01FF',
               named_struct('a', 1, 'b', TIMESTAMP'2024-01-02 10:00:00.000001Z')"""
    assert write_table(spark.sql(query), table("print", print_identifier="ID"), False) == 1
    assert capsys.readouterr().out == (
        "ID> +I[1, x, null, true, 1.50, 1.0E10, 0.1, 2024-01-02, 2024-01-02T10:00, "
        "2024-01-02T10:00:01.500, 2024-01-02T10:00:00Z, [1.0, null], {k=1}, [1, -1], "
        "+I[1, 2024-01-02T10:00:00.000001Z]]\n"
    )


def test_print_writes_times_of_any_year(spark: SparkSession, capsys):
    """Python's dates are limited to the years 1 to 9999."""
    query = """
        SELECT DATE'9999-12-31' + 1, DATE'0001-01-01' - 1, DATE'-0044-03-15', ARRAY(DATE'+10000-01-01'),
               TIMESTAMP_NTZ'+10000-01-01 00:00:00', TIMESTAMP'+10000-01-01 00:00:00.001Z',
               NAMED_STRUCT('a', TIMESTAMP_NTZ'0000-12-31 23:59:59.999999', 'b', NULL),
               MAP(TIMESTAMP'+10000-01-01 00:00:00Z', CAST(NULL AS TIMESTAMP_NTZ)),
               CAST(NULL AS DATE), CAST(NULL AS TIMESTAMP), CAST(NULL AS ARRAY<TIMESTAMP>),
               CAST(NULL AS STRUCT<a: DATE>), CAST(NULL AS MAP<INT, DATE>)"""
    write_table(spark.sql(query), table("print"), overwrite=False)
    assert capsys.readouterr().out == (
        "+I[+10000-01-01, 0000-12-31, -0044-03-15, [+10000-01-01], +10000-01-01T00:00, "
        "+10000-01-01T00:00:00.001Z, +I[0000-12-31T23:59:59.999999, null], "
        "{+10000-01-01T00:00:00Z=null}, null, null, null, null, null]\n"
    )


def test_print_writes_to_standard_error_with_its_option(spark: SparkSession, capsys):
    write_table(spark.range(1), table("print", standard_error="true"), overwrite=False)
    write_table(spark.range(5, 6), table("print"), overwrite=False)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("+I[5]\n", "+I[0]\n")


def test_blackhole_runs_the_whole_query(spark: SparkSession):
    assert write_table(spark.range(5), table("blackhole", "a BIGINT"), overwrite=False) == 5
    assert write_table(spark.range(5).filter("id < 0"), table("blackhole"), overwrite=False) == 0
    with pytest.raises(ExecutionError, match="division by zero"):
        write_table(spark.sql("SELECT id / (id - id) FROM range(3)"), table("blackhole"), False)


def test_any_source_of_spark_can_be_written(spark: SparkSession, tmp_path: Path):
    spec = table("spark", "a BIGINT", format="orc", path=f"{tmp_path}/t")
    assert write_table(spark.range(3), spec, overwrite=True) == 3
    assert rows(spark, spec) == [(0,), (1,), (2,)]


def test_the_latest_rows_are_fetched_with_any_column_names(spark: SparkSession):
    latest = LatestRows()
    rows = spark.sql(
        "SELECT TIMESTAMP '2024-01-01 00:00:00' + MAKE_INTERVAL(id) AS `a``t` FROM range(3)"
    )
    latest.fetch("t", rows)
    assert [row["a`t"].year for row in latest.tables()["t"].to_pylist()] == [2026, 2025, 2024]


@pytest.mark.long
def test_a_commit_that_the_disk_does_not_take_leaves_no_file(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    spec = table("delta", "a BIGINT", path=f"{tmp_path}/t")
    write_table(spark.range(1), spec, overwrite=False)
    existing = sorted((tmp_path / "t").rglob("*"))
    monkeypatch.setattr("runtime.connectors.lake.delta.write.commit_version", full)
    with pytest.raises(ExecutionError, match="no space left"):
        write_table(spark.range(1, 2), spec, overwrite=False)
    assert sorted((tmp_path / "t").rglob("*")) == existing
    assert rows(spark, spec) == [(0,)]


def test_rows_in_memory_may_have_nulls_or_none(spark: SparkSession):
    spec, owner = open_table(table("memory", "a BIGINT")).with_storage()
    for query in ("SELECT 1L", "SELECT CAST(NULL AS BIGINT)"):
        write_table(spark.sql(query), spec, overwrite=False)
    assert sorted(read_table(spark, spec).toArrow()["a"].to_pylist(), key=str) == [1, None]
    assert pickle.loads(pickle.dumps(spec)) == spec, "a spec holds no rows"
    del owner
    with pytest.raises(ExecutionError, match=r"`t` .* has no rows in this process: it was dropped"):
        read_table(spark, spec)


IN_MEMORY, _OWNER = open_table(table("memory", "a BIGINT")).with_storage()
# A table of each writable connector
WRITTEN = {
    "filesystem": table("filesystem", "a BIGINT", path="t.parquet"),
    "kafka": table(
        "kafka",
        "a BIGINT",
        topic="t",
        format="json",
        properties__bootstrap__servers="nowhere:9092",
        properties__default__api__timeout__ms="1000",
    ),
    "spark": table("spark", "a BIGINT", format="orc", path="t"),
    "delta": table("delta", "a BIGINT", path="t"),
    "iceberg": table("iceberg", "a BIGINT", catalog_type="sql", uri="c.db", warehouse="t"),
    "memory": IN_MEMORY,
    "print": table("print", "a BIGINT"),
    "blackhole": table("blackhole", "a BIGINT"),
}
ONLY_SOURCES = {
    "datagen": table("datagen", "a BIGINT", number_of_rows="1"),
    "nexmark": table("nexmark", "event_type INT", events__num="1"),
    "socket": table("socket", "a STRING", hostname="localhost", port="9999"),
    "hybrid": replace(
        table("hybrid", "ts TIMESTAMP_NTZ", first="history", then="live", overlap="allow"),
        watermark=Watermark("ts", "ts"),
        parts=(table("filesystem", "ts TIMESTAMP_NTZ", path="a", format="json"),) * 2,
    ),
}

# Their checks need a server: tests/end_to_end/sinks and tests/runtime/connectors/postgres
NEED_SERVERS = {"postgres", "jdbc", "upsert-kafka"}


def in_directory(spec: TableSpec, directory: Path) -> TableSpec:
    if spec.connector == "iceberg":
        places = {"uri": f"sqlite:///{directory}/c.db", "warehouse": f"file://{directory}/t"}
        load_catalog("default", type="sql", **places).create_namespace("default")
        return replace(spec, options=tuple((k, places.get(k, v)) for k, v in spec.options))
    options = tuple((k, f"{directory}/{v}" if k == "path" else v) for k, v in spec.options)
    return replace(spec, options=options)


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", sorted(BUILT_IN.keys() - NEED_SERVERS))
def test_every_connector_writes_or_refuses_in_batch_and_as_a_stream(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    connector = cast(type[Table], load_connector(name))
    streams = connector.sink_mode is not None or connector.spark_writer is not Table.spark_writer
    assert connector.can_write == streams == (name in WRITTEN)
    if name in ONLY_SOURCES:
        refusal = f"table `t` cannot be written: connector '{name}' is a source only"
        spec = ONLY_SOURCES[name]
        for write in (
            lambda: write_table(spark.range(1), spec, overwrite=False),
            lambda: write_table(spark.range(1), spec, overwrite=True),
            lambda: open_writable(spec, overwrite=False),
            lambda: check_sink(spec, overwrite=False, emits_updates=False),
        ):
            with pytest.raises(CatalogError, match=refusal) as caught:
                write()
            assert "insert into a table of filesystem, delta, iceberg, kafka" in str(
                caught.value.hint
            )
        return
    spec = in_directory(WRITTEN[name], tmp_path)
    check_sink(spec, overwrite=False, emits_updates=False)
    if name == "kafka":
        with pytest.raises(SqlwinError, match="table `t`: "):
            write_table(spark.range(3), spec, overwrite=False)
        return
    assert write_table(spark.range(3), spec, overwrite=False) == 3
    if connector.read is not Table.read:
        assert rows(spark, spec) == [(0,), (1,), (2,)]


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", WRITTEN)
def test_every_sink_replaces_its_rows_or_refuses_to(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    spec = in_directory(WRITTEN[name], tmp_path)
    if not open_table(spec).can_overwrite:
        refusal = (
            f"INSERT OVERWRITE is not supported for `t`: connector '{name}' cannot replace rows"
        )
        with pytest.raises(AnalysisError, match=refusal) as caught:
            write_table(spark.range(1), spec, overwrite=True)
        assert caught.value.hint == "use INSERT INTO"
        return
    write_table(spark.range(3), spec, overwrite=False)
    write_table(spark.range(7, 8), spec, overwrite=True)
    assert rows(spark, spec) == [(7,)]
