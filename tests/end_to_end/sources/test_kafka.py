"""Kafka topics through confluent-kafka, over TCP against librdkafka's mock broker and Tansu."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sqlwin
from tests.end_to_end.recovery.kills import WRITES, kill, wait_for_writes
from tests.end_to_end.sources.killed_kafka import QUERY, TABLES
from tests.end_to_end.sources.test_sources_run import first_rows
from tests.observing import wait_for_stream, wait_until
from tests.runtime.connectors.kafka.broker import PARTITIONS, Broker, broker
from tests.runtime.connectors.kafka.registry_server import Registry, serve_registry
from tests.runtime.connectors.kafka.test_avro import encode, schema

__all__ = ["broker"]


@pytest.mark.slow
def test_rows_are_written_to_a_topic_and_read_again(
    fresh_session: sqlwin.Session, broker: Broker
) -> None:
    fresh_session.execute(f"""
        CREATE TABLE totals (
          name STRING, n BIGINT, at TIMESTAMP(3),
          part INT METADATA FROM 'partition', message BYTES METADATA FROM 'key',
          sent TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
          headers ARRAY<STRUCT<key: STRING, `value`: BINARY>> METADATA FROM 'headers'
        ) WITH (
          'connector' = 'kafka', 'topic' = 'totals', 'value.format' = 'json', 'key.format' = 'raw',
          'key.fields' = 'name', 'properties.bootstrap.servers' = '{broker.address}',
          'scan.bounded.mode' = 'latest-offset');
        INSERT INTO totals VALUES
          ('a', 1, TIMESTAMP '2026-05-01 10:00:00.123'), ('b', NULL, NULL)""")
    rows = rows_of(fresh_session, "SELECT * FROM totals ORDER BY name")
    assert [(r.name, r.n, r.at, bytes(r.message)) for r in rows] == [
        ("a", 1, dt.datetime(2026, 5, 1, 10, 0, 0, 123000), b"a"),  # noqa: DTZ001
        ("b", None, None, b"b"),
    ]
    assert all(0 <= r.part < PARTITIONS and r.sent is not None for r in rows)
    broker.send("totals", [b'{"name": "c",\n"n": "many"}'], partition=2)
    with pytest.raises(sqlwin.SqlwinError) as caught:
        rows_of(fresh_session, "SELECT n FROM totals")
    pattern = r"table `totals`: topic 'totals', partition 2, offset \d: not valid JSON for the columns name, n, "
    assert re.fullmatch(pattern + r'at: {"name": "c", "n": "many"}', caught.value.message)
    hint = "/*+ OPTIONS('json.ignore-parse-errors' = 'true') */"
    assert rows_of(fresh_session, f"SELECT COUNT(*) AS n FROM totals {hint}")[0].n == 2
    with pytest.raises(sqlwin.SqlwinError) as caught:
        rows_of(fresh_session, "SELECT n FROM totals /*+ OPTIONS('topic' = 'total') */")
    assert caught.value.message.startswith(
        "table `totals`: topic 'total' does not exist in Kafka at"
    )
    assert caught.value.hint == "did you mean 'totals'?"


def rows_of(session: sqlwin.Session, sql: str) -> list[Any]:
    (result,) = session.execute(sql)
    return list(result.rows or ())


def seconds_of(broker: Broker, topic: str, first: int, last: int) -> None:
    """Send one message per second to each partition, in order."""
    for partition in range(PARTITIONS):
        broker.send(topic, (reading(second, partition) for second in range(first, last)), partition)


def reading(second: int, key: int) -> bytes:
    at = dt.datetime(2026, 5, 1) + dt.timedelta(seconds=second)  # noqa: DTZ001
    return json.dumps({"k": key, "v": second * 10 + key, "ts": str(at)}).encode()


def topic(address: str, name: str, *options: str, table: str = "") -> str:
    """Return the table of a topic with messages of `reading`."""
    listed = ", ".join((f"'topic' = '{name}'", *options))
    return f"""
        CREATE TABLE {table or name} (k INT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
        WITH ('connector' = 'kafka', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset',
          'properties.bootstrap.servers' = '{address}', {listed});"""


def sums_of(table: str) -> str:
    """Return the query of the windows of five seconds."""
    return f"""
        SELECT window_end, COUNT(*) AS n, SUM(v) AS total
        FROM TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(ts), INTERVAL '5' SECONDS))
        GROUP BY window_start, window_end"""


def seconds_and_sums(rows: Iterable[Any]) -> list[tuple[int, int, int]]:
    return sorted((row[0].second, row[1], row[2]) for row in rows)


# Of messages of each second to each partition
SUMS = [
    (end, 20, sum(second * 10 + k for second in range(end - 5, end) for k in range(PARTITIONS)))
    for end in (5, 10, 15)
]
FEW = "'maxOffsetsPerTrigger' = '20'"
RULE = "push_local_aggregate_into_scan"
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}


@pytest.mark.slow
def test_rows_that_spark_evaluates_are_counted(
    fresh_session: sqlwin.Session, broker: Broker
) -> None:
    broker.send("odd", [reading(second, 0) for second in range(60)], 0)
    unlike = [
        b'{"k": 1, "v": 52.0, "ts": "2026-05-01 00:00:07"}',
        b'{"k": 1, "v": 53, "ts": "2026-05-01 00:01"}',
        b'{"k": 1, "v": "54", "ts": "2026-05-01 00:00:09"}',
        b'{"k": null, "v": 55}',
        b'{"v":',
        b"",
        None,
    ]
    broker.send("odd", [*(reading(second, 1) for second in range(40)), *unlike], 1)
    fresh_session.execute(f"""
        CREATE TABLE odd (k INT, v BIGINT, ts TIMESTAMP(3), part INT METADATA FROM 'partition',
          sent TIMESTAMP_LTZ(3) METADATA FROM 'timestamp')
        WITH ('connector' = 'kafka', 'topic' = 'odd', 'format' = 'json',
          'scan.bounded.mode' = 'latest-offset', 'json.ignore-parse-errors' = 'true',
          'properties.bootstrap.servers' = '{broker.address}')""")
    query = """
        SELECT k, part, window_end, COUNT(*) AS n, SUM(v) AS total, COUNT(sent) AS sent
        FROM TABLE(TUMBLE(TABLE odd{hint}, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
        WHERE v < 500 OR k = 1 GROUP BY k, part, window_start, window_end"""
    explained = fresh_session.explain(query.format(hint=""))
    assert "ArrowScanLocalWindowAggregate(table=[odd], fields=[k, v, ts, part, sent]" in explained
    actual = [tuple(row) for row in rows_of(fresh_session, query.format(hint=""))]
    strict = query.format(hint=" /*+ OPTIONS('json.ignore-parse-errors' = 'false') */")
    with pytest.raises(sqlwin.SqlwinError, match=r"topic 'odd', partition 1, offset 4[0-6]: not "):
        rows_of(fresh_session, strict)
    fresh_session.execute(f"SET 'sqlwin.optimizer.disabled-rules' = '{RULE}'")
    expected_rows = [tuple(row) for row in rows_of(fresh_session, query.format(hint=""))]
    assert sorted(actual, key=str) == sorted(expected_rows, key=str)
    assert sum(row[3] for row in actual) == 50 + 40 + 1


@pytest.mark.slow
@pytest.mark.parametrize("rules", [(RULE, ""), ("", RULE)])
def test_a_stream_resumes_with_another_reader_of_messages(
    fresh_session: sqlwin.Session, broker: Broker, tmp_path: Path, rules: tuple[str, str]
) -> None:
    name = f"resumed-{rules.index('')}"
    fresh_session.execute(f"""
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoint';
        {topic(broker.address, name, table="resumed")}
        CREATE TABLE totals (window_end TIMESTAMP(3), n BIGINT, total BIGINT)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'parquet')""")

    def ends() -> list[tuple[int, int, int]]:
        if not list((tmp_path / "out").glob("**/*.parquet")):
            return []
        return seconds_and_sums(rows_of(fresh_session, "SELECT * FROM totals"))

    for number, rule in enumerate(rules):
        fresh_session.execute(f"SET 'sqlwin.optimizer.disabled-rules' = '{rule}'")
        seconds_of(broker, name, 8 * number, 8 * number + 8)
        insert = f"INSERT INTO totals {sums_of('resumed')}"
        assert ("ArrowScanLocalWindowAggregate" in fresh_session.explain(insert)) is (rule == "")
        (result,) = fresh_session.execute(insert)
        has_ends = partial(lambda n: len(ends()) >= n, (1, 3)[number])
        wait_for_stream(result.stream, has_ends, every_s=0.2, explain=ends)
        result.stream.stop()
    assert ends() == SUMS


@pytest.mark.long
def test_a_stream_emits_windows_of_a_topic(fresh_session: sqlwin.Session, broker: Broker) -> None:
    seconds_of(broker, "windows", 0, 16)
    *_, result = fresh_session.execute(f"""
        SET 'execution.checkpointing.interval' = '100 ms';
        {topic(broker.address, "windows", FEW)}
        {sums_of("windows")}""")
    assert seconds_and_sums(first_rows(result, 3)) == SUMS


@pytest.mark.slow
def test_a_slow_partition_has_no_late_rows(fresh_session: sqlwin.Session, broker: Broker) -> None:
    # 100 rows of the first second: the other partition is read to its end long before
    broker.send("uneven", (reading(second, 0) for second in range(16)), 0)
    broker.send("uneven", (reading(second, 1) for second in [0] * 100 + list(range(16))), 1)
    *_, result = fresh_session.execute(f"""
        SET 'execution.checkpointing.interval' = '100 ms';
        {topic(broker.address, "uneven", FEW)}
        {sums_of("uneven")}""")
    actual = {row[0].second: row[1] for row in first_rows(result, 3)}
    assert actual == {5: 110, 10: 10, 15: 10}


@pytest.mark.slow
def test_a_killed_stream_reads_each_message_once(
    fresh_session: sqlwin.Session, broker: Broker, tmp_path: Path
) -> None:
    rng = random.Random(3)
    last = 1500
    seconds_of(broker, "readings", 0, last)
    program = Path(__file__).with_name("killed_kafka.py")
    windows = (last - 10) // 10

    def n_rows() -> int:
        # task directories come and go meanwhile, which `walk` tolerates
        walked = os.walk(tmp_path / "out")
        files = (Path(at, name) for at, _, names in walked for name in names)
        actual = [path for path in files if path.suffix == ".parquet"]
        # hidden files are incomplete
        seen = [
            p
            for p in actual
            if not {"_", "."} & {part[0] for part in p.relative_to(tmp_path).parts}
        ]
        return sum(pq.read_metadata(path).num_rows for path in seen)

    def is_over(process: subprocess.Popen[str]) -> bool:
        return n_rows() >= windows * PARTITIONS or process.poll() is not None

    # the last run reads the rest
    for pattern in [*rng.sample(list(WRITES.values()), 4), None]:
        process = subprocess.Popen(
            [sys.executable, str(program), str(tmp_path), broker.address],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        if pattern is not None:
            wait_for_writes(process, tmp_path, pattern, rng.randint(1, 2))
        else:
            wait_until(partial(is_over, process), every_s=0.2)
        assert process.poll() is None, process.stdout.read()
        kill(process)
    bounded = "'scan.bounded.mode' = 'latest-offset', 'connector' = 'kafka'"
    tables = TABLES.format(directory=tmp_path, address=broker.address)
    fresh_session.execute(tables.replace("'connector' = 'kafka'", bounded, 1))
    expected_rows = [tuple(row) for row in fresh_session.sql(QUERY).collect()]
    found = [tuple(row) for row in fresh_session.sql("SELECT * FROM totals").collect()]
    latest = max(row[1] for row in found)
    assert len(found) >= windows * PARTITIONS
    assert sorted(found) == sorted(row for row in expected_rows if row[1] <= latest)


@pytest.mark.slow
def test_messages_of_a_schema_registry_are_read_by_the_windows_task(
    fresh_session: sqlwin.Session, broker: Broker
) -> None:
    first = schema(
        [("k", "int", "", None), ("v", ["null", "long"], "", None), ("ts", MILLIS, "", None)]
    )
    later = schema([("ts", MILLIS, "", None), ("k", "long", "", None), ("v", "int", "", None)])
    midnight = 1_777_593_600_000
    with serve_registry(Registry("reader:secret-of-mine")) as registry:
        registry.put(1, first)
        registry.put(2, later)
        for number, writer_schema, keys in ((1, first, range(60)), (2, later, range(60, 100))):
            rows = [{"k": 1, "v": key, "ts": midnight + key * 1000} for key in keys]
            head = b"\0" + number.to_bytes(4, "big")
            broker.send("avro", [head + value for value in encode(writer_schema, *rows)], number)
        broker.send("avro", [None], 3)
        fresh_session.execute(f"""
            CREATE TABLE bids (k BIGINT, v BIGINT, ts TIMESTAMP(3), part INT METADATA FROM 'partition')
            WITH ('connector' = 'kafka', 'topic' = 'avro', 'format' = 'avro-confluent',
              'avro-confluent.url' = '{registry.url}',
              'avro-confluent.basic-auth.user-info' = 'reader:secret-of-mine',
              'scan.bounded.mode' = 'latest-offset',
              'properties.bootstrap.servers' = '{broker.address}')""")
        query = """SELECT window_end, COUNT(*), SUM(v) FROM TABLE(TUMBLE(TABLE bids{hint},
            DESCRIPTOR(ts), INTERVAL '10' SECONDS)) GROUP BY window_start, window_end"""
        assert "ArrowScanLocalWindowAggregate" in fresh_session.explain(query.format(hint=""))
        actual = rows_of(fresh_session, query.format(hint=""))
        assert sorted((row[1], row[2]) for row in actual) == [
            (10, sum(range(start, start + 10))) for start in range(0, 100, 10)
        ]
        rows = rows_of(fresh_session, "SELECT v, part FROM bids")
        assert sorted(map(tuple, rows), key=str) == sorted(
            [*((v, 1 if v < 60 else 2) for v in range(100)), (None, 3)], key=str
        )
        wrong = " /*+ OPTIONS('avro-confluent.basic-auth.user-info' = 'reader:wrong') */"
        with pytest.raises(sqlwin.SqlwinError, match="rejected the login: 401") as caught:
            rows_of(fresh_session, query.format(hint=wrong))
        assert "\n" not in caught.value.message
        broker.send("avro", [b"\0\0\0\0\x02\x01"], 0)
        with pytest.raises(sqlwin.SqlwinError) as caught:
            rows_of(fresh_session, query.format(hint=""))
        assert caught.value.message == (
            "table `bids`: topic 'avro', partition 0, offset 0: the message cannot be read as Avro: "
            "it does not match its schema: it is truncated"
        )


@pytest.mark.slow
def test_windows_are_sent_in_a_transaction_for_each_micro_batch(
    fresh_session: sqlwin.Session, broker: Broker, tmp_path: Path
) -> None:
    seconds_of(broker, "in", 0, 16)
    broker.send("out", [None], 0)
    *_, result = fresh_session.execute(f"""
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoint';
        {topic(broker.address, "in", FEW, table="seconds")}
        CREATE TABLE sent (e TIMESTAMP(3), n BIGINT, total BIGINT)
        WITH ('connector' = 'kafka', 'topic' = 'out', 'format' = 'json',
          'scan.bounded.mode' = 'latest-offset', 'sink.delivery-guarantee' = 'exactly-once',
          'properties.isolation.level' = 'read_committed',
          'properties.bootstrap.servers' = '{broker.address}');
        INSERT INTO sent {sums_of("seconds")}""")
    actual: list[Any] = []

    def has_all() -> bool:
        actual[:] = rows_of(fresh_session, "SELECT * FROM sent WHERE e IS NOT NULL")
        return len(actual) >= 3

    wait_for_stream(result.stream, has_all, every_s=0.2, explain=lambda: actual)
    result.stream.stop()
    assert seconds_and_sums(actual) == SUMS
