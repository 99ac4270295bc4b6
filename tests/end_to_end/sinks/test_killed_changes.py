"""Streams of a table's changes into PostgreSQL that are killed again and again."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import sqlwin
from tests.end_to_end.recovery.kills import WRITES, kill, wait_for_writes
from tests.end_to_end.sinks.killed_changes import BOUNDED, QUERIES, tables
from tests.observing import files_below, wait_until
from tests.postgres import rows
from tests.runtime.connectors.kafka.broker import PARTITIONS, Broker, broker

__all__ = ["broker"]

PROGRAM = Path(__file__).with_name("killed_changes.py")
N_KILLS = 20
MINUTES = 60  # more than the kills leave time for
PER_MINUTE = 50
ORDERS = pa.schema(
    [
        ("id", pa.int32()), ("status", pa.string()), ("v", pa.int64()), ("d", pa.float64()),
        ("ts", pa.timestamp("us")),
    ]
)  # fmt: skip


def changes(seed: int, minutes: int = MINUTES) -> list[dict[str, Any]]:
    """Return messages of Debezium: rows of the last minutes are updated, moved and deleted."""
    draw = random.Random(seed)
    orders: dict[int, dict[str, Any]] = {}
    messages: list[dict[str, Any]] = []

    def order(number: int, second: int) -> dict[str, Any]:
        at = max(0, second - draw.randrange(300))
        return {
            "id": number,
            "status": draw.choice(["new", "paid", "sent", "lost"]),
            "v": draw.choice([None, *range(20)]),
            "d": draw.choice([None, 0.25, 0.5, -2.0, 7.5]),
            "ts": f"2024-05-01 {at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}",
        }

    for number in range(minutes * PER_MINUTE):
        second = number * 60 // PER_MINUTE
        old = orders.pop(draw.choice(list(orders)), None) if orders else None
        kind = draw.random()
        if old is None or kind < 0.4:
            if old is not None:
                orders[old["id"]] = old
            orders[number] = order(number, second)
            messages.append({"before": None, "after": orders[number], "op": "c"})
        elif kind < 0.75:
            orders[old["id"]] = order(old["id"], second)
            messages.append({"before": old, "after": orders[old["id"]], "op": "u"})
        else:
            messages.append({"before": old, "after": None, "op": "d"})
        # older rows stay: changing them would be late for their windows
        orders = {key: row for key, row in orders.items() if key > number - 4 * PER_MINUTE}
    return messages


def write_files(directory: Path, messages: list[dict[str, Any]]) -> str:
    (directory / "in").mkdir()
    for first in range(0, len(messages), PER_MINUTE):
        path = directory / "in" / f"{first:06}.json"
        path.write_text("".join(map(_line, messages[first : first + PER_MINUTE])))
        os.utime(path, (1_700_000_000 + first,) * 2)
    return "files"


def _line(message: dict[str, Any]) -> str:
    return json.dumps(message) + "\n"


def send(broker: Broker, messages: list[dict[str, Any]]) -> str:
    """Send messages to all partitions in turn: a deletion may be read before the insertion."""
    for partition in range(PARTITIONS):
        values = (_line(message).encode() for message in messages[partition::PARTITIONS])
        broker.send("changes", values, partition)
    return broker.address


class DeltaWriter(threading.Thread):
    """Writes the changes of each minute as versions of a Delta table, while streams read them.

    Args:
        directory: Directory of the table and of the streams' checkpoints.
        messages: All changes.
        has_feed: Whether the table has a change data feed.
    """

    def __init__(self, directory: Path, messages: list[dict[str, Any]], *, has_feed: bool) -> None:
        super().__init__(daemon=True)
        self.has_ended = False
        self._directory, self._path = directory, directory / "orders"
        self._messages = messages
        configuration = {"delta.enableChangeDataFeed": str(has_feed).lower()}
        write_deltalake(self._path, ORDERS.empty_table(), configuration=configuration)

    def run(self) -> None:
        """Write a version, or two, each time that the streams have planned a micro-batch."""
        for first in range(0, len(self._messages), PER_MINUTE):
            planned = self._last_planned()
            self._write(first // PER_MINUTE, self._messages[first : first + PER_MINUTE])
            while self._last_planned() == planned:
                time.sleep(0.05)
        self.has_ended = True

    def _last_planned(self) -> int:
        plans = files_below(self._directory / "checkpoint", "[0-9]*")
        return max((int(p.name) for p in plans if p.parent.name == "offsets"), default=-1)

    def _write(self, minute: int, messages: list[dict[str, Any]]) -> None:
        old: dict[int, bool] = {}
        new: dict[int, dict[str, Any] | None] = {}
        for message in messages:
            key = (message["after"] or message["before"])["id"]
            old.setdefault(key, message["before"] is not None)
            new[key] = message["after"]
        inserted = [row for key, row in new.items() if row is not None and not old[key]]
        updated = [row for key, row in new.items() if row is not None and old[key]]
        deleted = [key for key, row in new.items() if row is None and old[key]]
        if minute % 3 == 0:
            write_deltalake(self._path, _orders(inserted), mode="append")
            inserted = []
        gone = pa.table({"id": pa.array(deleted, pa.int32()), "is_gone": [True] * len(deleted)})
        source = pa.concat_tables([_orders(updated + inserted), gone], promote_options="default")
        values = {name: f"s.{name}" for name in ORDERS.names}
        (
            DeltaTable(self._path)
            .merge(source, "t.id = s.id", source_alias="s", target_alias="t")
            .when_matched_delete("s.is_gone")
            .when_matched_update(values)
            .when_not_matched_insert(values)
            .execute()
        )
        if minute % 10 == 9:
            DeltaTable(self._path).optimize.compact()


def _orders(rows: list[dict[str, Any]]) -> pa.Table:
    given = [{**row, "ts": dt.datetime.fromisoformat(row["ts"])} for row in rows]
    return pa.Table.from_pylist(given, ORDERS)


def run_with_kills(
    directory: Path, url: str, address: str, wanted: int, is_done: Callable[[], bool]
) -> int:
    """Run until done, and kill each run before at a random moment. Return the number of kills."""
    draw = random.Random(12)
    patterns = [WRITES[name] for name in ("planned", "state", "committed")]
    for n_kills in range(wanted + 1):
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(directory), url, address],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            if n_kills < wanted:
                wait_for_writes(process, directory, draw.choice(patterns), draw.randrange(1, 4))
                time.sleep(draw.uniform(0, 0.5))  # anywhere in a micro-batch
            if n_kills == wanted or process.poll() is not None:
                is_over = partial(_is_over, process, is_done)
                wait_until(is_over, 1_500, every_s=1)
                assert process.poll() in (None, 0), process.stdout.read()
                return n_kills
        finally:
            kill(process)
    raise AssertionError("the last run does not return")


def _is_over(process: subprocess.Popen[str], is_done: Callable[[], bool]) -> bool:
    return process.poll() is not None or is_done()


def check(
    session: sqlwin.Session, directory: Path, url: str, address: str, n_kills: int = N_KILLS
) -> None:
    """Run the streams with kills, and compare their tables with the batch."""
    options = "" if address in ("files", "delta") else BOUNDED
    session.execute(tables(directory, url, address, options))
    expected = _results(session)
    assert all(len(of_table) >= 4 for of_table in expected.values())
    n = run_with_kills(directory, url, address, n_kills, lambda: _written(url) == expected)
    assert n == n_kills and _written(url) == expected


def _results(session: sqlwin.Session) -> dict[str, list[tuple[Any, ...]]]:
    return {name: _sorted(session.sql(query).collect()) for name, query in QUERIES.items()}


def _written(url: str) -> dict[str, list[tuple[Any, ...]]]:
    return {name: _sorted(rows(url, f"SELECT * FROM {name}")) for name in QUERIES}


def check_delta(
    session: sqlwin.Session, directory: Path, url: str, writer: DeltaWriter, n_kills: int
) -> None:
    """Run the streams with kills while a Delta table grows, and compare with its last version."""
    session.execute("SET 'execution.runtime-mode' = 'batch'")
    session.execute(tables(directory, url, "delta"))
    writer.start()
    expected: dict[str, list[tuple[Any, ...]]] = {}

    def is_done() -> bool:
        if writer.has_ended and not expected:
            expected.update(_results(session))
        return writer.has_ended and _written(url) == expected

    assert run_with_kills(directory, url, "delta", n_kills, is_done) == n_kills
    assert len(expected["minutes"]) > 10
    assert _written(url) == expected


@pytest.mark.slow
def test_tables_of_changes_in_files_equal_the_batch_after_kills(
    fresh_session: sqlwin.Session, database: str, tmp_path: Path
) -> None:
    check(fresh_session, tmp_path, database, write_files(tmp_path, changes(11)))


@pytest.mark.slow
@pytest.mark.parametrize("broker", ["mock"], indirect=True)
def test_tables_of_changes_in_a_topic_equal_the_batch_after_kills(
    fresh_session: sqlwin.Session, database: str, broker: Broker, tmp_path: Path
) -> None:
    check(fresh_session, tmp_path, database, send(broker, changes(11)))


@pytest.mark.parametrize(
    ("has_feed", "n_kills", "minutes"),
    [
        pytest.param(True, 1, 8, marks=pytest.mark.long),
        pytest.param(True, N_KILLS, MINUTES, marks=pytest.mark.slow),
        pytest.param(False, N_KILLS, MINUTES, marks=pytest.mark.slow),
    ],
)
def test_tables_of_changes_of_a_delta_table_equal_the_batch_after_kills(
    has_feed: bool,
    n_kills: int,
    minutes: int,
    fresh_session: sqlwin.Session,
    database: str,
    tmp_path: Path,
) -> None:
    writer = DeltaWriter(tmp_path, changes(11, minutes), has_feed=has_feed)
    check_delta(fresh_session, tmp_path, database, writer, n_kills)


def _sorted(of: Iterable[Any]) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, of), key=repr)
