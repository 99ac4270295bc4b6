"""Tables of Spark's catalog as base tables of slices."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.errors import CatalogError
from sqlwin.catalog.spark.tables import SPARK_TABLE, full_name, table_from_description

FOUND: dict[str, Any] = {
    "table_name": "Trips",
    "catalog_name": "spark_catalog",
    "namespace": ["shop"],
    "location": "file:/data/ware house/shop.db/trips",
    "type": "MANAGED",
    "provider": "parquet",
    "partition_provider": "Catalog",
    "partition_columns": ["day"],
}


def test_a_table_is_known_by_its_whole_name_and_where_it_is() -> None:
    table = table_from_description("Trips", FOUND)
    assert (table.name, table.connector, table.partitioned_by) == ("Trips", SPARK_TABLE, ("day",))
    assert full_name(table) == "spark_catalog.shop.trips"
    assert table.option_map["path"] == "file:///data/ware house/shop.db/trips"
    assert table == table_from_description("Trips", FOUND | {"created_time": "now"})
    assert table != table_from_description("Trips", FOUND | {"location": "s3a://b/trips"})


def test_of_parquet_files_that_hive_reads_the_directory_is_named() -> None:
    result = FOUND | {"provider": "hive", "serde_library": "ql.io.parquet.serde.ParquetHiveSerDe"}
    with pytest.raises(CatalogError) as raised:
        table_from_description("t", result)
    assert "'connector' = 'filesystem', 'format' = 'parquet', 'path'" in str(raised.value.hint)


@pytest.mark.parametrize(
    ("provider", "kind", "hint"),
    [
        ("delta", "DELTA", "'connector' = 'delta', 'path' = 'file:/data/ware house/shop.db/trips'"),
        ("csv", "CSV", "store it as Parquet, Delta or Iceberg"),
        ("hive", "HIVE", "store it as Parquet, Delta or Iceberg"),
    ],
)
def test_another_format_is_refused_with_a_remedy(provider: str, kind: str, hint: str) -> None:
    with pytest.raises(CatalogError) as raised:
        table_from_description("shop.trips", FOUND | {"provider": provider})
    assert raised.value.message.startswith(f"`shop.trips` is a table of format {kind}, ")
    assert hint in str(raised.value.hint)
