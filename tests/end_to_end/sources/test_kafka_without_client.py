"""Kafka tables where confluent-kafka is not installed."""

from __future__ import annotations

import sys

import pytest

from runtime.errors import SetupError
from sqlwin import Session

_SERVER = "'topic' = 'bids', 'properties.bootstrap.servers' = 'host:9092'"
TABLES = {
    "plain": "CREATE TABLE plain (a INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH "
    f"('connector' = 'kafka', 'format' = 'json', {_SERVER})",
    "by_key": "CREATE TABLE by_key (a INT, ts TIMESTAMP(3), PRIMARY KEY (a) NOT ENFORCED) WITH "
    f"('connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json', {_SERVER})",
}


@pytest.mark.parametrize("name", TABLES)
def test_only_running_needs_the_package(
    fresh_session: Session, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # makes `import` fail as for a package that is not installed
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    fresh_session.execute(TABLES[name])
    (columns,) = fresh_session.execute(f"DESCRIBE {name}")
    assert columns.to_arrow().column(0).to_pylist() == ["a", "ts"]
    (plan,) = fresh_session.execute(f"EXPLAIN SELECT a + 1 AS b FROM {name}")
    assert name in plan.text
    with pytest.raises(SetupError, match="requires the package confluent-kafka"):
        fresh_session.execute(f"INSERT INTO {name} VALUES (1, TIMESTAMP_NTZ '2026-01-01 00:00:00')")
