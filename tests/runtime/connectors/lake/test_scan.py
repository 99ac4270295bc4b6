"""What the scan of a lake table refuses."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from runtime.connectors.lake.connector import DeltaTable
from runtime.refusal import Refused
from runtime.spec.table import Column, TableSpec


def test_a_column_of_another_type_than_declared_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    deltalake.write_deltalake(str(tmp_path), pa.table({"v": pa.array([1], pa.int32())}))
    spec = TableSpec("d", "delta", options=(("path", str(tmp_path)),))
    with pytest.raises(Refused) as refused:
        DeltaTable(spec).scan(spark, [Column("v", "string")], ())
    assert str(refused.value) == "column v is INT, but is declared STRING"
