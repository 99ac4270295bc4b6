"""Every file in queries/ runs unchanged; its output is a golden file."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

import sqlwin
from tests import goldens
from tests.marks import among
from tests.observing import wait_until
from tests.postgres import rows
from tests.queries.outputs import EVERY_QUERY, HERE, golden_of, write_results
from tests.runtime.connectors.kafka.broker import Broker, broker

__all__ = ["broker"]
INTO_POSTGRES = goldens.ROOT / "queries/streaming/live_postgres.sql"
# Unbounded streams say so in their first lines
_ENDLESS = [path for path in EVERY_QUERY if "-- Runs until Ctrl-C." in path.read_text()]
ENDLESS = [path for path in _ENDLESS if path != INTO_POSTGRES]
QUERIES = [path for path in EVERY_QUERY if path not in _ENDLESS]
LONG = [
    goldens.ROOT / "queries" / f"{name}.sql"
    for name in (
        "aggregates/approximate",
        "aggregates/distinct",
        "connectors/delta",
        "connectors/files_by_name",
        "connectors/kafka",
        "materialized/departures",
        "shapes/grouping_sets",
        "shapes/window_join",
        "windows/calendar",
        "streaming/cascade",
        "streaming/corrections",
        "streaming/cumulative_daily_totals",
        "streaming/hot_items",
        "streaming/interval_join",
        "streaming/late_rows",
        "streaming/live_dashboard",
        "streaming/processing_time",
        "streaming/sessions",
        "streaming/several_sinks",
    )
]


@pytest.mark.parametrize(
    "query",
    among(QUERIES, long=[q for q in LONG if q in QUERIES]),
    ids=lambda path: golden_of(path).stem,
)
@pytest.mark.parametrize("broker", ["mock"], indirect=True)
def test_query_file_gives_its_golden_result(
    query: Path,
    fresh_session: sqlwin.Session,
    update_goldens: bool,
    monkeypatch: pytest.MonkeyPatch,
    broker: Broker,
) -> None:
    monkeypatch.chdir(goldens.ROOT)
    out = io.StringIO()
    script = query.read_text().replace("localhost:9092", broker.address)
    write_results(fresh_session, script, query.name, out)
    goldens.check(golden_of(query), out.getvalue(), update_goldens)


@pytest.mark.long
@pytest.mark.parametrize("query", ENDLESS, ids=lambda path: golden_of(path).stem)
def test_query_without_end_gives_rows_until_it_is_stopped(
    query: Path, fresh_session: sqlwin.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(goldens.ROOT)
    *_, result = fresh_session.execute(query.read_text(), query.name)
    assert sum(batch.num_rows for batch in result.batches(limit=3)) == 3
    assert fresh_session.streams.running() == []


@pytest.mark.long
def test_rows_in_postgresql_are_read_while_a_stream_writes_them(
    fresh_session: sqlwin.Session, database: str, tmp_path: Path
) -> None:
    script = INTO_POSTGRES.read_text().replace("postgresql://localhost:5432/live", database)
    script = script.replace("/tmp/live-totals", str(tmp_path / "checkpoint"))
    *_, result = fresh_session.execute(script, INTO_POSTGRES.name)
    assert result.stream is not None

    def n_requests() -> int:
        return int(rows(database, "SELECT COALESCE(SUM(requests), 0) FROM totals")[0][0])

    # a slow machine may emit windows only once, so the sum need not come from corrections
    wait_until(lambda: n_requests() > 0)
    before = n_requests()
    wait_until(lambda: n_requests() > before)
    fresh_session.streams.stop_all()
    assert rows(database, "SELECT MAX(worst_ms) <= 900, COUNT(*) > 0 FROM totals") == [(True, True)]


@pytest.mark.parametrize("query", EVERY_QUERY, ids=lambda path: golden_of(path).stem)
def test_query_file_begins_with_a_comment(query: Path) -> None:
    comment = re.match(r"(-- .*\n)+", query.read_text())
    assert comment is not None
    assert len(comment.group()) >= 100


def test_every_golden_result_has_a_query() -> None:
    assert {p.name for p in HERE.glob("*.out")} == {golden_of(q).name for q in QUERIES}
