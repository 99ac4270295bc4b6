"""A stream that is killed at its writes and restarted writes each row to a lake table once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

import sqlwin
from tests.end_to_end.lake.killed_lake import QUERY, tables
from tests.end_to_end.recovery.kills import WRITES, run_until_stopped
from tests.end_to_end.recovery.test_killed import LATE, write_input

PROGRAM = Path(__file__).with_name("killed_lake.py")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_kills_around_commits_write_each_row_once(
    fresh_session: sqlwin.Session, tmp_path: Path, kind: str
) -> None:
    rng = random.Random(5)
    write_input(tmp_path, 8)
    if kind == "iceberg":
        places = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
        load_catalog("default", type="sql", **places).create_namespace("db")
    # files exist but no table; or a table, but no commit in the checkpoint
    for stops in ("before:0", "after:0", "after:1"):
        assert not run_until_stopped(PROGRAM, tmp_path, kind, stops)
    assert not run_until_stopped(
        PROGRAM, tmp_path, kind, "never", at=(rng.choice(list(WRITES)), rng.randint(1, 3))
    )
    assert run_until_stopped(PROGRAM, tmp_path, kind, "never")
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    fresh_session.execute(tables(tmp_path, kind))
    late = f"WHERE k <> {LATE}"
    expected = fresh_session.sql(f"SELECT * FROM ({QUERY}) {late}").collect()
    result = fresh_session.sql(f"SELECT * FROM totals {late}").collect()
    assert len(expected) > 50
    assert sorted(map(tuple, result)) == sorted(map(tuple, expected))
    # other readers see the same
    if kind == "delta":
        rows = DeltaTable(tmp_path / "out").to_pyarrow_table()
    else:
        rows = (
            load_catalog("default", type="sql", **places).load_table("db.totals").scan().to_arrow()
        )
    assert sum(k != LATE for k in rows["k"].to_pylist()) == len(expected)
