"""`sqlwin test --simulate N FILE --then FILE2`: a stream resumes with another script."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.simulator.changed_query import ChangedStream
from sqlwin.testing.simulated import resume
from tests.sqlwin.testing.test_command import START, run

TUMBLE = """
    SELECT k, window_start, window_end, SUM(v) AS s
    FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
    GROUP BY k, window_start, window_end
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return script(tmp_path, "old.sql", TUMBLE)


def script(directory: Path, name: str, query: str, settings: str = "") -> Path:
    us = int(START.timestamp()) * 1_000_000
    times = pa.array([us + second * 1_000_000 for second in range(40)], pa.timestamp("us"))
    keys = [("a", "b", "c")[number % 3] for number in range(40)]
    pq.write_table(pa.table({"ts": times, "k": keys, "v": range(40)}), directory / "t.parquet")
    path = directory / name
    path.write_text(f"""
        {settings}
        CREATE TABLE t (
          ts TIMESTAMP(3), k STRING, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND
        ) WITH ('connector' = 'filesystem', 'path' = '{directory}/t.parquet', 'format' = 'parquet');
        {query};
    """)
    return path


def resumed(old: Path, new: Path, *more: str) -> tuple[int, list[str]]:
    code, out, _ = run("--simulate", "10", str(old), "--then", str(new), *more)
    return code, out.splitlines()


@pytest.mark.long
def test_an_allowed_change_has_the_rows_of_both_queries(old: Path, tmp_path: Path) -> None:
    new = script(tmp_path, "new.sql", TUMBLE.replace("AS s", "AS total, SUM(v) * 2 AS twice"))
    code, lines = resumed(old, new)
    assert code == 0
    assert lines == [
        "40 rows of t",
        "10 histories agree with batch and with the definition: 12 rows",
        f"10 histories resume with {new} and have the rows of both queries",
    ]


@pytest.mark.long
def test_other_windows_are_a_finding(old: Path, tmp_path: Path) -> None:
    hop = "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECONDS, INTERVAL '20' SECONDS)"
    new = TUMBLE.replace("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECONDS)", hop)
    code, lines = resumed(old, script(tmp_path, "new.sql", new))
    assert code == 0
    assert lines[-1].startswith("finding: its windows differ, so the first ones may be incomplete")


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("new", "reason"),
    [
        ({"query": TUMBLE.replace("SUM", "MIN")}, "from which MIN(v) cannot be computed"),
        (
            {"query": TUMBLE, "settings": "SET 'table.exec.emit.allow-lateness' = '1 min';"},
            "'early firing or allowed lateness' has changed from 'off' to 'on'",
        ),
    ],
)
def test_an_unsupported_change_fails_with_its_reason(
    old: Path, tmp_path: Path, new: dict[str, str], reason: str
) -> None:
    changed = script(tmp_path, "new.sql", **new)
    code, lines = resumed(old, changed)
    assert code == 1
    assert lines[-1].startswith(f"the stream cannot resume with {changed}: ")
    assert reason in lines[-1]


@pytest.mark.long
def test_rows_that_differ_from_the_changed_query_are_shown(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resume_with_a_fault(*arguments: Any) -> ChangedStream:
        changed = resume(*arguments)
        assert isinstance(changed, ChangedStream)
        # the changed query still runs, but the first one is expected
        return replace(changed, after=changed.before)

    monkeypatch.setattr("sqlwin.testing.sampling.resume", resume_with_a_fault)
    new = script(tmp_path, "new.sql", TUMBLE.replace("SUM(v) AS s", "SUM(v) * 2 AS s"))
    code, lines = resumed(old, new)
    assert code == 1
    assert any("has other rows than the changed query" in line for line in lines)
    assert "  the stream stops and resumes with the changed query" in [
        f"  {line.strip()}" for line in lines
    ]


def test_errors_of_the_command_line_and_of_the_sql(old: Path, tmp_path: Path) -> None:
    code, _, err = run("--then", str(old), str(tmp_path))
    assert code == 2 and "--then needs --simulate" in err
    code, _, err = run("--simulate", "5", str(old), "--then", str(tmp_path / "nothing.sql"))
    assert code == 2 and "nothing.sql: no such file" in err
    wrong = script(tmp_path, "wrong.sql", TUMBLE.replace("SUM(v)", "SUM(nothing)"))
    code, _, err = run("--simulate", "5", str(old), "--then", str(wrong))
    assert code == 2 and "nothing" in err and "wrong.sql, line" in err
    assert run("--simulate", "5", str(wrong))[0] == 2
