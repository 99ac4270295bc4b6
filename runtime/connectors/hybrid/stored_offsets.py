"""Offsets of a topic that are stored with the version of a lake table that has its messages.

A writer from a topic to Delta stores them as `userMetadata` of each commit, in the form of Spark's
`startingOffsets`: {"topic": {"0": 23, "1": 7}}, per partition the offset of the first message that
is not in the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from runtime.connectors.connector import Table
from runtime.errors import ExecutionError
from runtime.options.checks import bad_option, option_values
from runtime.spec.table import TableSpec

# Value of 'overlap': the second table starts at the offsets stored with the version of the first
STORED_OFFSETS = "stored-offsets"
_START = "scan.startup.mode"


def check_tables(spec: TableSpec, first: TableSpec, then: TableSpec) -> None:
    """Check that the first table can have offsets of the second.

    Raises:
        CatalogError: It cannot.
    """
    values, needs = option_values(then), f"'overlap' = '{STORED_OFFSETS}' needs"
    problem = hint = None
    if first.connector.lower() != "delta":
        problem = f"{needs} a table of Delta as 'first', not `{first.name}`"
    elif then.connector.lower() != "kafka" or ";" in values.get("topic", ";"):
        problem = f"{needs} a single topic of Kafka as 'then', not `{then.name}`"
    elif _START in values:
        problem = f"{needs} no '{_START}' of `{then.name}`: the offsets say where it starts"
        hint = f"remove '{_START}'"
    if problem is not None:
        raise bad_option(spec, problem, hint, (first.name, then.name))


def at_stored_offsets(spark: SparkSession, first: Table, then: Table) -> tuple[Table, Table]:
    """Return a lake table at one version, and the topic from the offsets stored with it.

    Raises:
        ExecutionError: The version has no offsets of all partitions of the topic.
    """
    at_version, text = first.at_version(spark)
    topic = option_values(then.spec)["topic"].strip()
    version = option_values(at_version.spec)["version"]
    try:
        offsets = _offsets_in(text, topic)
        return at_version, then.from_offsets(spark, offsets)
    except ValueError as error:
        raise ExecutionError(
            f"table `{first.spec.name}`: version {version} has no offsets at which "
            f"`{then.spec.name}` starts: {error}",
            subjects=(first.spec.name,),
            hint=f'commit {{"{topic}": {{"0": 23}}}} as userMetadata, with all partitions',
        ) from error


def _offsets_in(text: str, topic: str) -> Mapping[int, int]:
    """Return the offsets of a topic by partition.

    Raises:
        ValueError: The text has none.
    """
    metadata: Any = json.loads(text) if text else None
    offsets = metadata.get(topic) if isinstance(metadata, dict) else None
    if not isinstance(offsets, dict):
        raise ValueError(f"its userMetadata is {text or 'missing'}")
    # Spark's -1 and -2 stand for the newest and the oldest message
    if not all(type(offset) is int and offset >= 0 for offset in offsets.values()):
        raise ValueError(f"its userMetadata is {text}")
    return {int(partition): offset for partition, offset in offsets.items()}
