"""Which ways of running a query the tests choose, without Spark."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from sqlwin.session import Session
from tests.slt import definitions
from tests.slt.modes import ALONE, BATCH, DISABLED, ONE_PHASE, RULES_OFF, Selection
from tests.slt.run import FileRun
from tests.slt.script import Record
from tests.unstarted import unstarted_spark

MODES = (ALONE, ONE_PHASE, RULES_OFF)
WINDOWS = "TABLE(HOP(TABLE data, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '3' MINUTE))"
COUNTS = f"SELECT window_end, COUNT(*) AS n FROM {WINDOWS} GROUP BY window_start, window_end"
ROWS = f"SELECT k, window_end FROM {WINDOWS}"


@pytest.fixture
def run(tmp_path: Path) -> FileRun:
    session = Session(unstarted_spark(), settings={})
    session.execute(definitions.create_data(tmp_path / "data"))
    return FileRun(session, duckdb.connect(), tmp_path, Selection("", MODES, done=(BATCH,)))


def query(sql: str, words: str = "") -> Record:
    return Record(1, "query", words, "", sql, None)


def test_a_query_runs_again_where_its_plan_differs(run: FileRun) -> None:
    ways = run.ways(query(COUNTS), MODES)
    rules = [dict(way.settings)[DISABLED] for way in ways if way.mode is RULES_OFF]
    assert [way.mode for way in ways[:2]] == [ALONE, ONE_PHASE]
    # `prune_aggregate_input` only changes the logical plan, and without `split_window_aggregate`
    # the query has one phase
    assert rules == ["fold_window_into_aggregate", "push_local_aggregate_into_scan"]


def test_a_query_does_not_run_the_same_plan_again(run: FileRun) -> None:
    assert [way.mode for way in run.ways(query(ROWS), MODES)] == [ALONE]
    assert run.n_same_program == 1


def test_a_query_that_runs_alone_has_no_second_way(run: FileRun) -> None:
    assert run.ways(query(ROWS, "alone"), MODES) == []
