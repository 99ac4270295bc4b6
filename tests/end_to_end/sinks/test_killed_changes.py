"""Streams of a database's changes into PostgreSQL that are killed again and again."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import sqlwin
from tests.end_to_end.recovery.kills import WRITES, kill, wait_for_writes
from tests.end_to_end.sinks.killed_changes import BOUNDED, QUERIES, tables
from tests.observing import wait_until
from tests.postgres import rows
from tests.runtime.connectors.kafka.broker import PARTITIONS, Broker, broker

__all__ = ["broker"]

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("killed_changes.py")
N_KILLS = 20
MINUTES = 60
PER_MINUTE = 50


def changes(seed: int) -> list[dict[str, Any]]:
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

    for number in range(MINUTES * PER_MINUTE):
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
                wait_for_writes(process, directory, draw.choice(patterns), draw.randrange(1, 6))
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
    options = "" if address == "files" else BOUNDED
    session.execute(tables(directory, url, address, options))
    expected = {name: _sorted(session.sql(query).collect()) for name, query in QUERIES.items()}
    assert all(len(of_table) >= 4 for of_table in expected.values())

    def written() -> dict[str, list[tuple[Any, ...]]]:
        return {name: _sorted(rows(url, f"SELECT * FROM {name}")) for name in QUERIES}

    n = run_with_kills(directory, url, address, n_kills, lambda: written() == expected)
    assert n == n_kills and written() == expected


def test_tables_of_changes_in_files_equal_the_batch_after_kills(
    fresh_session: sqlwin.Session, database: str, tmp_path: Path
) -> None:
    check(fresh_session, tmp_path, database, write_files(tmp_path, changes(11)))


@pytest.mark.parametrize("broker", ["mock"], indirect=True)
def test_tables_of_changes_in_a_topic_equal_the_batch_after_kills(
    fresh_session: sqlwin.Session, database: str, broker: Broker, tmp_path: Path
) -> None:
    check(fresh_session, tmp_path, database, send(broker, changes(11)))


def _sorted(of: Iterable[Any]) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, of), key=repr)
