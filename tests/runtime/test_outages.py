"""Notes about outages, and the limits of retries."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from runtime.connectors.postgres.database import DatabaseAwayError
from runtime.connectors.postgres.retries import AwayLimit
from runtime.outages import Outage, Retries, outages_text
from runtime.spec.table import TableSpec


def note(directory: Path, table: str, since: float) -> Path:
    path = directory / f"{table}.json"
    content = {"table": table, "reason": "the broker is away", "since": since, "most": 300.0}
    path.write_text(json.dumps(content))
    return path


def test_a_stream_shows_the_outages_of_its_tables(tmp_path: Path) -> None:
    note(tmp_path, "a", time.time() - 12)
    assert outages_text(str(tmp_path)) == (
        "`a`: the broker is away; retrying for 12 s, at most 300 s"
    )
    assert outages_text(str(tmp_path / "nowhere")) == outages_text("") == ""


def test_the_note_of_a_killed_process_is_forgotten(tmp_path: Path) -> None:
    path = note(tmp_path, "a", time.time() - 12)
    os.utime(path, (time.time() - 60, time.time() - 60))
    assert outages_text(str(tmp_path)) == ""


def test_a_short_silence_is_no_outage(tmp_path: Path) -> None:
    outage = Outage(Retries(300, str(tmp_path)), "a")
    assert outage.goes_on("the broker is away") < 2
    assert list(tmp_path.iterdir()) == []
    outage.is_over()


@pytest.mark.parametrize(
    ("limit", "hint"),
    [
        (AwayLimit(0), "check 'url'"),
        (
            AwayLimit(None, Retries(0, "/nowhere")),
            "'sqlwin.retry-timeout' is 0 s; run the statement again once it can be reached",
        ),
    ],
)
def test_the_error_after_the_last_retry_says_how_to_go_on(limit: AwayLimit, hint: str) -> None:
    error = DatabaseAwayError("the database is away", hint="check 'url'")
    with limit.wait(TableSpec("t", "postgres")) as wait, pytest.raises(DatabaseAwayError) as caught:
        wait(error)
    assert caught.value.hint == hint


def test_the_option_of_a_table_replaces_the_setting() -> None:
    spec = TableSpec("t", "postgres", options=(("sink.max-retries", "7"),))
    retries = Retries(300, "/nowhere")
    assert AwayLimit.of(spec, "sink.max-retries", retries).max_retries == 7
    assert AwayLimit.of(spec, "lookup.max-retries", retries) == AwayLimit(None, retries)
