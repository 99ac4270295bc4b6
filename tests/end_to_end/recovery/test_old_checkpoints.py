"""Streams that an older version began resume, and their windows have the rows of both halves."""

from __future__ import annotations

from pathlib import Path

import pytest

import sqlwin
from tests.end_to_end.recovery.old_checkpoints import (
    QUERIES,
    add_input,
    create_tables,
    extract,
    run_stream,
)

pytestmark = pytest.mark.long


@pytest.mark.parametrize("name", QUERIES)
def test_a_checkpoint_of_an_older_version_resumes(
    name: str, fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    extract(tmp_path)
    before = _rows(fresh_session, f"SELECT * FROM '{tmp_path}/out/{name}'")
    add_input(tmp_path, 1)
    create_tables(fresh_session, tmp_path)
    expected = _rows(fresh_session, QUERIES[name])
    run_stream(fresh_session, tmp_path, name, ends=True)
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    assert before
    assert set(before) < set(expected)
    assert _rows(fresh_session, f"SELECT * FROM '{tmp_path}/out/{name}'") == expected


def _rows(session: sqlwin.Session, sql: str) -> list[tuple[object, ...]]:
    (result,) = session.execute(sql)
    assert result.rows is not None
    return sorted(result.rows)
