"""Runs the logic tests, `*.slt`: see `tests.logic.script` for what they may hold."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

import sqlwin
from tests.logic import windows
from tests.logic.script import Record, filled, records, with_rows
from tests.marks import among
from tests.oracle import same_rows

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*.slt"))
LONG = [
    HERE / name
    for name in ("flink_hints.slt", "strict_flink.slt", "time_functions.slt", "window_shapes.slt")
]


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    con = windows.oracle(windows.rows())
    yield con
    con.close()


@pytest.mark.parametrize("path", among(FILES, long=LONG), ids=lambda path: path.stem)
def test_every_record_of_a_file_holds(
    path: Path,
    fresh_session: sqlwin.Session,
    duck: duckdb.DuckDBPyConnection,
    tmp_path: Path,
    update_goldens: bool,
) -> None:
    pq.write_table(windows.rows(), tmp_path / "data.parquet")
    fresh_session.execute(
        "CREATE TABLE data WITH ('connector' = 'filesystem', 'format' = 'parquet', "
        f"'path' = '{tmp_path / 'data.parquet'}')"
    )
    results: dict[int, list[str]] = {}
    failures: list[str] = []
    for record in records(path):
        try:
            rows = check(record, fresh_session, duck, update_goldens)
        except (AssertionError, sqlwin.SqlwinError, duckdb.Error) as error:
            failures.append(f"{path.name}, {record.title}: {error}")
            continue
        if record.kind == "query":
            results[record.line] = rows
    if update_goldens:
        path.write_text(with_rows(path, results))
    assert not failures, "\n\n".join(failures)


def check(
    record: Record, session: sqlwin.Session, duck: duckdb.DuckDBPyConnection, update: bool
) -> list[str]:
    """Run one record; the rows of a query as text."""
    window = record.variables.get("window")
    ours = filled(record, window=windows.in_sqlwin(window)) if window else filled(record)
    theirs = filled(record, window=windows.in_duckdb(window)) if window else ours
    if record.kind == "statement":
        outcome, _, words = ours.words.partition(" ")
        report = failure(ours.sql, session)
        assert (report is None) == (outcome == "ok"), report or "it did not fail"
        assert report is None or words in report, report
        return []
    (*_, result) = session.execute(ours.sql)
    rows = [tuple(row) for row in result.rows]
    if ours.operators:
        plan = session.explain(ours.sql).partition("== Optimized Physical Plan ==")[2]
        missing = [name for name in ours.operators if f" {name}(" not in plan.replace("\n", "\n ")]
        assert not missing, f"no {missing} in\n{plan}"
    if record.kind == "oracle":
        wanted = duck.execute(theirs.below or theirs.sql).fetchall()
        assert wanted, "the oracle has no rows: the record shows nothing"
        same_rows(rows, wanted)
        return []
    texts = [" | ".join(map(text_of, row)) for row in rows]
    if "ordered" not in ours.words:
        texts.sort()
    if not update:
        assert texts == (ours.below or "").splitlines()
    return texts


def failure(sql: str, session: sqlwin.Session) -> str | None:
    """The report of a statement that fails."""
    try:
        for result in session.execute(sql):
            assert result.rows is not None
    except sqlwin.SqlwinError as error:
        return str(error)
    return None


def text_of(value: Any) -> str:
    """A value as the files have it."""
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds" if value.microsecond else "seconds")
    if isinstance(value, date):
        return value.isoformat()
    return str(value).lower() if isinstance(value, bool) else str(value)
