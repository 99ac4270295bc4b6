"""Delta and Iceberg tables in an object store that Spark has no package for."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

import sqlwin
from runtime.errors import SqlwinError
from tests.object_store import KEYS, ObjectStore

pytestmark = pytest.mark.long
N_ROWS = 600
BY_HOURS = """
    SELECT window_end, k, COUNT(*) AS n, SUM(v) AS s
    FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '6' HOUR))
    GROUP BY window_start, window_end, k ORDER BY window_end, k
"""


def rows(first: int) -> pa.Table:
    """Return one row per minute; `day` is the same in all of them."""
    begin, numbers = dt.datetime.fromisoformat("2024-01-01"), range(first, first + N_ROWS)
    return pa.table(
        {
            "ts": pa.array([begin + dt.timedelta(minutes=i) for i in numbers], pa.timestamp("us")),
            "k": pa.array([i % 3 for i in numbers], pa.int32()),
            "v": pa.array(numbers, pa.int64()),
            "day": pa.array([first // N_ROWS] * N_ROWS, pa.int32()),
        }
    )


def expected_rows(session: sqlwin.Session, tmp_path: Path) -> list[object]:
    for number in range(3):
        write_deltalake(tmp_path / "local", rows(number * N_ROWS), mode="append")
    session.execute(f"CREATE TABLE local WITH ('connector' = 'delta', 'path' = '{tmp_path}/local')")
    result: list[object] = session.sql(BY_HOURS.format("local")).collect()
    assert result
    return result


@pytest.mark.parametrize("partitions", [None, ["day"]], ids=["flat", "partitioned"])
def test_a_delta_table_is_read_in_the_scan_and_row_by_row(
    lake: sqlwin.Session, store: ObjectStore, tmp_path: Path, partitions: list[str] | None
) -> None:
    name = "partitioned" if partitions else "flat"
    options = {
        "aws_access_key_id": KEYS["access.key"],
        "aws_secret_access_key": KEYS["secret.key"],
        "aws_endpoint_url": store.endpoint,
        "aws_region": "us-east-1",
        "aws_allow_http": "true",
    }
    for number in range(3):
        write_deltalake(
            f"s3://{store.bucket}/{name}",
            rows(number * N_ROWS),
            mode="append",
            partition_by=partitions,
            storage_options=options,
        )
    lake.execute(f"CREATE TABLE t WITH ('connector' = 'delta', 'path' = '{store.uri(name)}')")
    plan = str(lake.explain(BY_HOURS.format("t")))
    assert "ArrowScanLocalWindowAggregate(table=[t]" in plan
    assert KEYS["secret.key"] not in plan
    assert lake.sql(BY_HOURS.format("t")).collect() == expected_rows(lake, tmp_path)
    days = lake.sql("SELECT day, COUNT(*), SUM(v) FROM t GROUP BY day ORDER BY day").collect()
    assert [tuple(row)[:2] for row in days] == [(0, N_ROWS), (1, N_ROWS), (2, N_ROWS)]
    first = lake.sql(BY_HOURS.format("t /*+ OPTIONS('version' = '0') */")).collect()
    assert sum(row["n"] for row in first) == N_ROWS
    with pytest.raises(SqlwinError, match="not on a local file system"):
        lake.execute("INSERT INTO t SELECT * FROM local")


def test_an_iceberg_table_is_read_by_its_path_and_of_a_catalog(
    lake: sqlwin.Session, store: ObjectStore, tmp_path: Path
) -> None:
    properties = {
        "s3.endpoint": store.endpoint,
        "s3.access-key-id": KEYS["access.key"],
        "s3.secret-access-key": KEYS["secret.key"],
        "s3.region": "us-east-1",
    }
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = SqlCatalog("c", uri=uri, warehouse=f"s3://{store.bucket}/ice", **properties)
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", schema=rows(0).schema)
    for number in range(3):
        table.append(rows(number * N_ROWS))
    path = store.uri(table.location().removeprefix(f"s3://{store.bucket}/"))
    lake.execute(f"CREATE TABLE by_path WITH ('connector' = 'iceberg', 'path' = '{path}')")
    more = ", ".join(f"'catalog.{name}' = '{value}'" for name, value in properties.items())
    lake.execute(
        "CREATE TABLE by_name WITH ('connector' = 'iceberg', 'catalog-name' = 'c', "
        f"'catalog-type' = 'sql', 'uri' = '{uri}', 'catalog-table' = 'db.t', {more})"
    )
    expected = expected_rows(lake, tmp_path)
    for name in ("by_path", "by_name"):
        assert "ArrowScanLocalWindowAggregate" in str(lake.explain(BY_HOURS.format(name)))
        assert lake.sql(BY_HOURS.format(name)).collect() == expected
        (row,) = lake.sql(f"SELECT COUNT(*) AS n FROM {name} WHERE k = 1").collect()
        assert row["n"] == N_ROWS


@pytest.mark.parametrize("connector", ["delta", "iceberg"])
def test_a_missing_table_or_store_is_one_line(
    lake: sqlwin.Session, store: ObjectStore, connector: str
) -> None:
    def message(path: str) -> str:
        lake.execute(
            f"CREATE OR REPLACE TABLE t WITH ('connector' = '{connector}', 'path' = '{path}')"
        )
        with pytest.raises(SqlwinError) as error:
            lake.sql("SELECT * FROM t").collect()
        return error.value.message

    assert f"no {connector.title()} table exists at s3a://lake/none" in message(store.uri("none"))
    assert "bucket elsewhere does not exist" in message("s3a://elsewhere/t")
    lake.spark.conf.set("fs.s3a.endpoint", "http://127.0.0.1:1")
    text = message(store.uri("none"))
    assert "the store is not reachable: check spark.hadoop.fs.s3a.endpoint" in text
    assert "\n" not in text and "\x1b" not in text
