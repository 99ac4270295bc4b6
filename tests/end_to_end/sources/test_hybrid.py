"""Hybrid tables on Spark: a stream over a history and then over files or a topic."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, write_deltalake
from pyiceberg.catalog import load_catalog

import sqlwin
from tests.observing import wait_until
from tests.postgres import run
from tests.runtime.connectors.kafka.broker import Broker, broker

__all__ = ["broker"]

COLUMNS = "id BIGINT, ts TIMESTAMP(3), v INT"
START = dt.datetime(2026, 5, 1)  # noqa: DTZ001
N_ROWS, N_FIRST, N_BOTH = 600, 400, 50
QUERY = """
    SELECT window_end, COUNT(*) AS n, SUM(v) AS total
    FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '1' MINUTE))
    GROUP BY window_start, window_end"""


def rows_between(start: int, stop: int) -> pa.Table:
    """Return rows, one per second."""
    return pa.table(
        {
            "id": range(start, stop),
            "ts": pa.array(
                [START + dt.timedelta(seconds=n) for n in range(start, stop)], pa.timestamp("ms")
            ),
            "v": pa.array([n % 7 for n in range(start, stop)], pa.int32()),
        }
    )


def create(session: sqlwin.Session, first: str, then: str) -> None:
    """Create the tables of a stream; the newest rows of the first are also in the second."""
    session.execute(f"""
        CREATE TABLE history ({COLUMNS}) WITH ({first});
        CREATE TABLE live ({COLUMNS}, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ({then});
        CREATE TABLE events WITH ('connector' = 'hybrid', 'first' = 'history', 'then' = 'live',
          'overlap' = '{N_BOTH} s', 'overlap.key' = 'id', 'first.range-size' = '4 kb');
        CREATE TABLE kept (at TIMESTAMP(3), n BIGINT, total BIGINT) WITH ('connector' = 'memory');
    """)


def windows(session: sqlwin.Session, query: str) -> list[tuple]:
    *_, result = session.execute(f"{query} ORDER BY 1")
    return [tuple(row) for row in result.rows or ()]


@pytest.mark.long
def test_csv_and_then_files(fresh_session: sqlwin.Session, tmp_path: Path) -> None:
    """Files of a history that is not in order are read in order of time."""
    for part in ("first", "then"):
        (tmp_path / part).mkdir()
    starts = [*range(0, N_FIRST, 100)]
    Random(1).shuffle(starts)
    for number, start in enumerate(starts):
        pa.csv.write_csv(
            rows_between(start, start + 100).take(Random(2).sample(range(100), 100)),
            tmp_path / "first" / f"{number}.csv",
            pa.csv.WriteOptions(include_header=False),
        )
    pq.write_table(rows_between(N_FIRST - N_BOTH - 20, N_ROWS), tmp_path / "then" / "0.parquet")
    create(
        fresh_session,
        f"'connector' = 'filesystem', 'format' = 'csv', 'path' = '{tmp_path}/first'",
        f"'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{tmp_path}/then'",
    )
    expected = windows(fresh_session, QUERY)
    assert sum(n for _, n, _ in expected) == 6 * N_ROWS
    fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'")
    text = fresh_session.explain(f"INSERT INTO kept {QUERY}")
    assert f"events reads history ({tmp_path}/first) in order of time, then live (" in text
    fresh_session.execute(f"INSERT INTO kept {QUERY}")
    # a SELECT has no checkpoint of its own until its rows are requested
    assert windows(fresh_session, QUERY) == expected
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    assert windows(fresh_session, "SELECT * FROM kept") == expected


def write_delta(path: Path) -> str:
    """Write a history with partitions, and a version that does not belong to it."""
    options = {"partition_by": ["v"]}
    write_deltalake(path, rows_between(0, 250), **options)
    write_deltalake(path, rows_between(250, N_FIRST), mode="append", **options)
    write_deltalake(path, rows_between(5_000, 5_100), mode="append", **options)
    return f"'connector' = 'delta', 'path' = '{path}', 'version' = '1'"


def write_iceberg(path: Path) -> str:
    """Write a history whose column `v` had another name at first."""
    places = {"uri": f"sqlite:///{path}/c.db", "warehouse": f"file://{path}/w"}
    path.mkdir()
    catalog = load_catalog("default", type="sql", **places)
    catalog.create_namespace("db")
    old = rows_between(0, 250).cast(as_microseconds()).rename_columns(["id", "ts", "w"])
    table = catalog.create_table("db.history", old.schema)
    table.append(old)
    with table.update_schema() as update:
        update.rename_column("w", "v")
    table.append(rows_between(250, N_FIRST).cast(as_microseconds()))
    return (
        "'connector' = 'iceberg', 'catalog-type' = 'sql', 'catalog-table' = 'db.history', "
        f"'uri' = '{places['uri']}', 'warehouse' = '{places['warehouse']}'"
    )


def as_microseconds() -> pa.Schema:
    """Return the schema of the rows with the times of Iceberg."""
    schema = rows_between(0, 1).schema
    return schema.set(1, pa.field("ts", pa.timestamp("us")))


def write_partitions(path: Path) -> str:
    """Write a history whose directories have the values of `v`."""
    pq.write_to_dataset(rows_between(0, N_FIRST), path, partition_cols=["v"])
    return f"'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{path}'"


def write_records(path: Path) -> str:
    """Write a history that only Spark reads, because of its options."""
    path.mkdir()
    options = pa.csv.WriteOptions(include_header=False)
    pa.csv.write_csv(rows_between(0, N_FIRST), path / "0.csv", options)
    return f"'connector' = 'filesystem', 'format' = 'csv', 'multiLine' = 'true', 'path' = '{path}'"


@pytest.mark.long
@pytest.mark.parametrize("write", [write_delta, write_iceberg, write_partitions, write_records])
def test_a_history_whose_columns_are_not_all_in_its_files(
    fresh_session: sqlwin.Session, tmp_path: Path, write: Callable[[Path], str]
) -> None:
    (tmp_path / "then").mkdir()
    pq.write_table(rows_between(N_FIRST - N_BOTH - 20, N_ROWS), tmp_path / "then" / "0.parquet")
    create(
        fresh_session,
        write(tmp_path / "first"),
        f"'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{tmp_path}/then'",
    )
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    expected = windows(fresh_session, QUERY)
    assert sum(n for _, n, _ in expected) == 6 * N_ROWS
    fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'")
    assert windows(fresh_session, QUERY) == expected


@pytest.mark.long
def test_postgres_and_then_files(
    fresh_session: sqlwin.Session, tmp_path: Path, database: str
) -> None:
    (tmp_path / "then").mkdir()
    pq.write_table(rows_between(N_FIRST - N_BOTH - 20, N_ROWS), tmp_path / "then" / "0.parquet")
    insert = "INSERT INTO history SELECT i, timestamp '2026-05-01' + i * interval '1 s', i % 7 "
    run(
        database,
        "CREATE TABLE history (id bigint PRIMARY KEY, ts timestamp, v int)",
        f"{insert} FROM generate_series(0, {N_FIRST - 1}) i ORDER BY random()",
    )
    create(
        fresh_session,
        f"'connector' = 'postgres', 'url' = '{database}', 'table-name' = 'history', "
        "'scan.partition.column' = 'id', 'scan.partition.num' = '2'",
        f"'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{tmp_path}/then'",
    )
    expected = windows(fresh_session, QUERY)
    assert sum(n for _, n, _ in expected) == 6 * N_ROWS
    fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'")
    text = fresh_session.explain(f"INSERT INTO kept {QUERY}")
    reason = "copied into the checkpoint at the start: it is not a table of files"
    assert f"events reads history (postgres; {reason}) in order of time, then live (" in text
    fresh_session.execute(f"INSERT INTO kept {QUERY}")
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    assert windows(fresh_session, "SELECT * FROM kept") == expected


@pytest.mark.parametrize("broker", ["mock"], indirect=True)
@pytest.mark.long
def test_a_topic_goes_on_at_the_offsets_of_a_version(
    fresh_session: sqlwin.Session, broker: Broker, tmp_path: Path
) -> None:
    for row in rows_between(0, N_ROWS).to_pylist():
        message = json.dumps(row | {"ts": str(row["ts"])}).encode()
        broker.send("stored", [message], row["id"] % 2)
    for start, stop in ((0, 100), (100, N_FIRST), (N_FIRST, 500)):
        # topics of the mock have four partitions
        offsets = json.dumps({"stored": {"0": stop // 2, "1": stop // 2, "2": 0, "3": 0}})
        properties = CommitProperties(custom_metadata={"userMetadata": offsets})
        rows = rows_between(start, stop)
        write_deltalake(tmp_path, rows, mode="append", commit_properties=properties)
    create(
        fresh_session,
        f"'connector' = 'delta', 'path' = '{tmp_path}', 'version' = '1'",
        "'connector' = 'kafka', 'topic' = 'stored', 'format' = 'json', "
        f"'properties.bootstrap.servers' = '{broker.address}'",
    )
    fresh_session.execute("ALTER TABLE events SET ('overlap' = 'stored-offsets')")
    expected = windows(fresh_session, f"SET 'execution.runtime-mode' = 'batch'; {QUERY}")
    assert sum(n for _, n, _ in expected) == 6 * N_ROWS
    fresh_session.execute(f"""
        SET 'execution.runtime-mode' = 'automatic';
        SET 'sqlwin.watermark.per-split' = 'false';
        INSERT INTO kept {QUERY}""")
    text = fresh_session.explain(f"INSERT INTO kept {QUERY}")
    assert "from the offsets stored with the version of the first" in text
    closed = [row for row in expected if row[0] <= START + dt.timedelta(seconds=N_ROWS - 6)]
    wait_until(lambda: len(windows(fresh_session, "SELECT * FROM kept")) >= len(closed))
    assert windows(fresh_session, "SELECT * FROM kept") == closed


# librdkafka's mock does not find messages by their timestamps
@pytest.mark.parametrize("broker", ["tansu"], indirect=True)
@pytest.mark.slow
def test_files_and_then_a_topic(
    fresh_session: sqlwin.Session, broker: Broker, tmp_path: Path
) -> None:
    pq.write_table(rows_between(0, N_FIRST), tmp_path / "0.parquet", row_group_size=100)
    for row in rows_between(N_FIRST - N_BOTH, N_ROWS).to_pylist():
        message = json.dumps(row | {"ts": str(row["ts"])}).encode()
        broker.send("live", [message], row["id"] % 2)
    create(
        fresh_session,
        f"'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{tmp_path}'",
        "'connector' = 'kafka', 'topic' = 'live', 'format' = 'json', "
        f"'properties.bootstrap.servers' = '{broker.address}'",
    )
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    expected = windows(fresh_session, QUERY)
    assert sum(n for _, n, _ in expected) == 6 * N_ROWS
    fresh_session.execute(f"""
        SET 'execution.runtime-mode' = 'automatic';
        SET 'sqlwin.watermark.per-split' = 'false';
        INSERT INTO kept {QUERY}""")
    # windows up to the watermark, 5 seconds before the last row
    closed = [row for row in expected if row[0] <= START + dt.timedelta(seconds=N_ROWS - 6)]
    wait_until(lambda: len(windows(fresh_session, "SELECT * FROM kept")) >= len(closed))
    assert windows(fresh_session, "SELECT * FROM kept") == closed
