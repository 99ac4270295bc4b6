"""Delta and Iceberg tables in Azure: the libraries get the account options of Hadoop's settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from runtime.connectors.lake.delta.snapshot import open_delta
from runtime.connectors.lake.iceberg.properties import iceberg_properties
from runtime.connectors.lake.iceberg.snapshot import from_path
from runtime.errors import SqlwinError
from runtime.lake.places import TablePlace
from runtime.spec.table import TableSpec
from tests.azure_store import SAS, WRONG_KEY, AzureStore, Blob, azure_store

ROWS = pa.table({"k": range(10)})


@pytest.fixture(params=["flat", "hierarchical"])
def azure(request: pytest.FixtureRequest) -> Iterator[AzureStore]:
    with azure_store(is_hierarchical=request.param == "hierarchical") as result:
        yield result


@pytest.mark.variants(1, long=2)
def test_a_delta_table_is_read_with_a_key_and_with_a_sas_token(
    azure: AzureStore, tmp_path: Path
) -> None:
    for _ in range(2):
        write_deltalake(tmp_path / "t", ROWS, mode="append")
    for path in (tmp_path / "t").rglob("*"):
        if path.is_file():
            azure.blobs[str(path.relative_to(tmp_path))] = Blob(path.read_bytes())
    spec = TableSpec("t", "delta", options=(("path", azure.uri("t")),))
    for store in (azure.store(), azure.store(sas=SAS)):
        table = open_delta(spec, TablePlace(azure.uri("t"), store))
        assert table.version() == 1 and table.to_pyarrow_table().num_rows == 20


@pytest.mark.variants(1, long=2)
def test_an_iceberg_table_is_read_by_its_path(azure: AzureStore, tmp_path: Path) -> None:
    properties = iceberg_properties(TablePlace(azure.uri(), azure.store()))
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = SqlCatalog("c", uri=uri, warehouse=azure.uri("ice"), **properties)
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", schema=ROWS.schema)
    table.append(ROWS)
    spec = TableSpec("t", "iceberg", options=(("path", table.location()),))
    for store in (azure.store(), azure.store(sas=SAS)):
        result = from_path(spec, TablePlace(table.location(), store))
        assert result.scan().to_arrow() == ROWS


def test_a_key_that_is_refused_is_named(azure: AzureStore) -> None:
    store = azure.store(account_key=WRONG_KEY)
    for connector, open_table in (("delta", open_delta), ("iceberg", from_path)):
        spec = TableSpec("t", connector, options=(("path", azure.uri("t")),))
        with pytest.raises(SqlwinError, match="the store rejected the account key; check spark"):
            open_table(spec, TablePlace(azure.uri("t"), store))
