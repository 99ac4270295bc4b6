"""Which tables are read as streams in which mode, and which rows sinks accept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from runtime.errors import SqlwinError
from runtime.sinks.stream_sinks import check_sink
from runtime.spec.table import TableColumn, TableSpec, Watermark
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.catalog.streams import StreamReading
from sqlwin.statements.nodes import ShowStreams, StopStream
from sqlwin.statements.parse import parse_statement

LATE = Watermark("ts", "ts - INTERVAL 5 SECONDS")


def table(connector: str, **options: str) -> TableSpec:
    named = tuple((k.replace("_", "-").replace("--", "."), v) for k, v in options.items())
    return TableSpec("t", connector, (TableColumn("a", "STRING"),), named, watermark=LATE)


FILES = table("filesystem", path="x.csv")
WATCHED = table("filesystem", path="x.csv", source__monitor_interval="5 s")
TEN_ROWS = table("datagen", number_of_rows="10")
ROWS = table("datagen")
KAFKA = table("kafka", topic="x", format="json")
LINES = table("socket", hostname="h", port="1")
RATE = table("spark", format="rate")
DELTA = table("spark", format="delta")
POSTGRES = table("postgres", url="postgresql://h/d", table_name="t")
LIVE_DELTA = table("spark", format="delta", source__unbounded="true")


@pytest.mark.parametrize(
    ("mode", "streams"),
    [
        ("automatic", {"WATCHED", "ROWS", "KAFKA", "LINES", "RATE", "LIVE_DELTA"}),
        ("streaming", {"WATCHED", "ROWS", "KAFKA", "LINES", "RATE", "LIVE_DELTA", "FILES", "TEN_ROWS"}),
        ("batch", set()),
    ],
)  # fmt: skip
def test_tables_are_streams_by_their_options_and_the_mode(mode: str, streams: set[str]) -> None:
    tables = {n: t for n, t in globals().items() if isinstance(t, TableSpec)}
    catalog = SessionCatalog(cast(Any, None), cast(Any, None))
    for name, spec in tables.items():
        catalog.add((name,), spec, replace=False, if_not_exists=False)
    catalog.start_statement(StreamReading(mode))
    result = {name for name in tables if catalog.stream((name,)) is not None}
    assert result == streams
    for name in result:
        stream = catalog.stream((name,))
        assert stream is not None
        assert stream.watermark == LATE
    assert catalog.stream(("nothing",)) is None


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        (table("datagen"), {}, "cannot be written"),
        (LINES, {}, "cannot be written"),
        (FILES, {"overwrite": True}, "INSERT OVERWRITE is not supported on streams: table `t`"),
        (FILES, {"emits_updates": True}, "`t` (connector 'filesystem') does not support updates"),
        (DELTA, {"emits_updates": True}, "RESET 'table.exec.emit.allow-lateness'"),
        (POSTGRES, {"emits_updates": True}, "`t` (connector 'postgres') needs a PRIMARY KEY"),
    ],
)
def test_a_sink_without_streaming_is_refused_before_the_start(
    spec: TableSpec, options: dict[str, bool], message: str
) -> None:
    with pytest.raises(SqlwinError) as caught:
        check_sink(spec, **{"overwrite": False, "emits_updates": False, **options})
    assert message in str(caught.value)


@pytest.mark.parametrize("connector", ["print", "blackhole", "memory"])
def test_sinks_that_keep_no_order_of_their_own_take_updates(connector: str) -> None:
    check_sink(table(connector), overwrite=False, emits_updates=True)


def test_a_sink_that_updates_by_key_takes_updates_if_it_has_one() -> None:
    check_sink(replace(POSTGRES, primary_key=("a",)), overwrite=False, emits_updates=True)


def test_streams_are_shown_and_stopped_by_statements_flinks_words_included() -> None:
    assert isinstance(parse_statement("SHOW STREAMS;"), ShowStreams)
    assert isinstance(parse_statement("show jobs"), ShowStreams)
    for text, name in (
        ("STOP STREAM 3", "3"),
        ("STOP STREAM totals-2", "totals-2"),
        ("STOP STREAM 'my totals'", "my totals"),
        ("STOP JOB '7' WITH SAVEPOINT", "7"),
    ):
        statement = parse_statement(text)
        assert isinstance(statement, StopStream)
        assert statement.name == name
    with pytest.raises(SqlwinError, match="STOP requires a stream"):
        parse_statement("STOP totals")
