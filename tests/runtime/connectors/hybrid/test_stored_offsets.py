"""Offsets of a topic stored with the versions of a Delta table."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake
from pyspark.sql import SparkSession

from runtime.connectors.hybrid.stored_offsets import at_stored_offsets
from runtime.connectors.registry import open_table
from runtime.errors import ExecutionError
from runtime.spec.table import TableSpec
from tests.runtime.connectors.kafka.broker import Broker, broker
from tests.runtime.connectors.tables import table

__all__ = ["broker"]

pytestmark = pytest.mark.parametrize("broker", ["mock"], indirect=True)
COLUMNS = "id BIGINT; ts TIMESTAMP_NTZ"


def commit(path: Path, metadata: object = None) -> None:
    """Commit a row, with the JSON of a value as `userMetadata`, or a text as it is."""
    text = metadata if isinstance(metadata, str) else json.dumps(metadata)
    stored = {} if metadata is None else {"userMetadata": text}
    row = pa.table({"id": [1], "ts": pa.array([dt.datetime(2026, 5, 1)], pa.timestamp("us"))})  # noqa: DTZ001
    write_deltalake(
        path, row, mode="append", commit_properties=CommitProperties(custom_metadata=stored)
    )


def options_at(
    spark: SparkSession, path: Path, topic: str, broker: Broker, **options: str
) -> tuple[TableSpec, TableSpec]:
    """Return the definitions of a table and a topic at the stored offsets."""
    then = table(
        "kafka", COLUMNS, topic=topic, format="json", properties__bootstrap__servers=broker.address
    )
    first = open_table(table("delta", COLUMNS, path=str(path), **options))
    parts = at_stored_offsets(spark, first, open_table(then))
    return parts[0].spec, parts[1].spec


def test_each_version_has_its_offsets(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    for number in range(9):
        broker.send("in_versions", [b"{}"], number % 2)
    # topics of the mock have four partitions
    for ends in ((0, 0, 0, 0), (2, 1, 0, 0), (5, 4, 0, 0)):
        commit(tmp_path, {"in_versions": dict(enumerate(ends)), "other": {"0": 9}})
    for options, version, ends in (
        ({}, "2", (5, 4)),
        ({"version": "1"}, "1", (2, 1)),
        ({"timestamp": "2999-01-01"}, "2", (5, 4)),
    ):
        first, then = options_at(spark, tmp_path, "in_versions", broker, **options)
        assert first.option_map["version"] == version
        assert "timestamp" not in first.option_map
        assert then.option_map["scan.startup.mode"] == "specific-offsets"
        start = ";".join(f"partition:{p},offset:{o}" for p, o in enumerate((*ends, 0, 0)))
        assert then.option_map["scan.startup.specific-offsets"] == start


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (None, "its userMetadata is missing"),
        ("loaded by hand", "Expecting value"),
        ({"other": {"0": 1}}, 'its userMetadata is {"other": {"0": 1}}'),
        ({"of_two": [1, 1]}, "its userMetadata is"),
        ({"of_two": {"0": -1, "1": 1}}, "its userMetadata is"),
        ({"of_two": {"0": 1}}, "partition 1 is missing"),
    ],
)
def test_a_version_without_offsets_is_refused(
    spark: SparkSession, broker: Broker, tmp_path: Path, metadata: object, message: str
) -> None:
    for partition in (0, 1):
        broker.send("of_two", [b"{}"], partition)
    commit(tmp_path, {"of_two": {"0": 0, "1": 0}})
    commit(tmp_path, metadata)
    with pytest.raises(ExecutionError) as caught:
        options_at(spark, tmp_path, "of_two", broker)
    place = "table `t`: version 1 has no offsets at which `t` starts: "
    assert caught.value.message.startswith(place + message)


def test_offsets_that_the_topic_lacks_are_refused(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    broker.send("short", [b"{}"], 0)
    broker.send("short", [b"{}"], 1)
    commit(tmp_path, {"short": {"0": 7, "1": 1}})
    with pytest.raises(ExecutionError, match="partition 0 has no offset 7"):
        options_at(spark, tmp_path, "short", broker)
