"""The Parquet tables that the Arrow scan reads, and the reasons for leaving others to Spark."""

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

from runtime.refusal import Refused
from runtime.scan.metadata import find_source
from runtime.scan.read import read_batches
from runtime.scan.splits import plan_splits
from runtime.spec.table import Column
from tests.runtime.scan.test_scan import source_of

TS = Column("ts", "timestamp_ntz")
NUMBER = Column("i", "int")


def reason_for(path, *columns):
    with pytest.raises(Refused) as refused:
        find_source(str(path), [str(path)], columns)
    return str(refused.value)


def write(path, **columns):
    ts = pa.array([0], pa.timestamp("us"))
    pq.write_table(pa.table({"ts": ts, **columns}), path)


@pytest.mark.parametrize(
    ("stored", "spark_type", "reason"),
    [
        (pa.array([{"a": 1}]), "struct<a:bigint>", "is nested"),
        (pa.array([[1]]), "array<bigint>", "is nested"),
        (pa.array([1], pa.int64()), "int", "is BIGINT, but INT in the table"),
        (pa.array([1], pa.timestamp("ns")), "timestamp_ntz", "is stored as INT64 (timestamp)"),
        (pa.array([1], pa.timestamp("us")), "timestamp", "is TIMESTAMP(6), but TIMESTAMP_LTZ(6) in"),
        (pa.array([1], pa.uint32()), "bigint", "is stored as INT32 (int)"),
        (pa.array([1], pa.duration("us")), "bigint", "has a special Arrow type"),
        (pa.array([b"ab"], pa.binary(2)), "binary", "is stored as FIXED_LEN_BYTE_ARRAY"),
        (pa.array([1], pa.time64("us")), "time", "is stored as INT64 (time)"),
    ],
)  # fmt: skip
def test_columns_that_spark_would_convert_are_left_to_spark(tmp_path, stored, spark_type, reason):
    write(tmp_path / "f", x=stored)
    assert reason in reason_for(tmp_path, TS, Column("x", spark_type))
    assert source_of(tmp_path, TS)


def test_files_of_different_types_or_columns_are_left_to_spark(tmp_path):
    write(tmp_path / "1", i=pa.array([1], pa.int32()))
    write(tmp_path / "2", i=pa.array([1], pa.int64()))
    assert (
        reason_for(tmp_path, TS, NUMBER)
        == f"column i is BIGINT, but INT in the table, in {tmp_path}/2"
    )
    write(tmp_path / "2")
    assert "column i does not exist or has a dot in its name" in reason_for(tmp_path, TS, NUMBER)


def test_columns_match_in_any_case_unless_ambiguous(tmp_path):
    write(tmp_path / "1", I=pa.array([7], pa.int32()))
    source = source_of(tmp_path, TS, NUMBER)
    (batch,) = read_batches(plan_splits(source, [], 1)[0], source, frozenset())
    assert batch["i"].to_pylist() == [7]
    write(tmp_path / "2", i=pa.array([7], pa.int32()), I=pa.array([7], pa.int32()))
    assert "several spellings" in reason_for(tmp_path / "2", TS, NUMBER)


def test_files_from_before_the_calendar_of_today_are_left_to_spark(tmp_path):
    for number, marks in enumerate(
        ({"org.apache.spark.version": "2.4.8"}, {"org.apache.spark.legacyDateTime": ""})
    ):
        table = pa.table({"ts": pa.array([0], pa.timestamp("us"))}).replace_schema_metadata(marks)
        pq.write_table(table, tmp_path / f"{number}")
        assert "calendar" in reason_for(tmp_path / f"{number}", TS)
    table = table.replace_schema_metadata({"org.apache.spark.version": "4.1.0"})
    pq.write_table(table, tmp_path / "new")
    assert source_of(tmp_path / "new", TS)


def test_directories_with_other_rules_are_left_to_spark(tmp_path):
    (tmp_path / "plain").mkdir()
    write(tmp_path / "plain" / "f")
    assert "is not named column=value" in reason_for(tmp_path, TS)
    write(tmp_path / "f")
    assert "has both files and directories" in reason_for(tmp_path, TS)
    assert reason_for(tmp_path / "nowhere", TS).endswith("is not a local file or directory")


@pytest.mark.parametrize(
    ("value", "type_"), [("1.5", "double"), ("2026-1-1", "date"), ("x", "int"), ("9" * 12, "int")]
)
def test_partition_values_without_a_certain_value_are_left_to_spark(tmp_path, value, type_):
    (tmp_path / f"p={value}").mkdir()
    write(tmp_path / f"p={value}" / "f")
    assert "partition" in reason_for(tmp_path, TS, Column("p", type_))


def test_other_formats_are_left_to_spark(tmp_path):
    (tmp_path / "f").write_text("ts\n1\n")
    assert f"cannot read {tmp_path}/f" in reason_for(tmp_path, TS)


class Vault(pe.KmsClient):
    def __init__(self, _):
        super().__init__()

    def wrap_key(self, key_bytes, master_key_identifier):
        return key_bytes.hex()

    def unwrap_key(self, wrapped_key, master_key_identifier):
        return bytes.fromhex(wrapped_key)


@pytest.mark.parametrize("plaintext_footer", [True, False])
def test_encrypted_files_are_left_to_spark(tmp_path, plaintext_footer):
    settings = pe.EncryptionConfiguration(
        footer_key="f", column_keys={"c": ["i"]}, plaintext_footer=plaintext_footer
    )
    properties = pe.CryptoFactory(Vault).file_encryption_properties(
        pe.KmsConnectionConfig(), settings
    )
    table = pa.table({"ts": pa.array([0], pa.timestamp("us")), "i": pa.array([1], pa.int32())})
    path = tmp_path / "f"
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    assert "encrypt" in reason_for(path, TS, NUMBER).lower()
