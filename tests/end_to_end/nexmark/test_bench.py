"""The streaming benchmark: both engines give the defined results, and it reports that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

import sqlwin
from tests.bench.nexmark import __main__ as nexmark
from tests.bench.nexmark import queries
from tests.bench.streaming.engines import CONF


@pytest.fixture
def bench_session(spark: SparkSession) -> Iterator[sqlwin.Session]:
    own = spark.newSession()
    for key, value in CONF.items():
        own.conf.set(key, value)
    session = sqlwin.connect(own)
    yield session
    for view in own.catalog.listTables():
        own.catalog.dropTempView(view.name)


@pytest.mark.slow
@pytest.mark.parametrize("query", queries.QUERIES)
def test_both_engines_agree_with_the_definition(
    query: str, bench_session: sqlwin.Session, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.getbasetemp() / "nexmark"
    events = queries.make(bench_session, directory, 250_000, 125_000)
    assert events == queries.Events(events.path, 250_000)
    assert len(list(Path(events.path).glob("*.parquet"))) == 4
    console = Console(record=True, width=140)
    console.print(
        nexmark.run(bench_session, [query], ["sqlwin", "spark"], events, "small", console)
    )
    text = console.export_text()
    assert "differs" not in text
    rows = [line for line in text.splitlines() if line.startswith(f"{query} | ")]
    assert [row.split(" | ")[1:3] for row in rows] == [
        ["sqlwin", "250,000"],
        ["spark", "250,000"],
    ]


@pytest.mark.long
def test_a_result_that_differs_gets_no_time(
    bench_session: sqlwin.Session,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory = tmp_path_factory.getbasetemp() / "nexmark"
    events = queries.make(bench_session, directory, 250_000, 125_000)
    monkeypatch.setattr(nexmark, "by_definition", lambda query, events: (0.0,))
    console = Console(record=True, width=140)
    table = nexmark.run(bench_session, ["q11"], ["spark"], events, "small", console)
    console.print(table)
    text = console.export_text()
    assert "q11: spark (" in text and "by definition (0.0,)" in text
    assert "differs" in text and "q11 | spark" not in text
