"""Merging and dropping old slices does not change the windows."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sqlwin
from runtime.materialized.store import open_slices
from runtime.spec.materialized import Reached
from tests.end_to_end.materialized.base import (
    QUERY,
    TABLE,
    WIDTH_US,
    Base,
    Slices,
    answers,
    refresh,
    slices_of,
    stored_slices,
)

PROGRAM = Path(__file__).with_name("killed.py")
HOUR_US = 6 * WIDTH_US
TIERS = "'slices.tiers' = '10 min for 6 h, 1 h for 12 h, 4 h'"
HOURS = QUERY.replace("HOP(", "TUMBLE(").replace("INTERVAL '10' MINUTE, ", "")
MINUTES = QUERY.replace("HOP(", "TUMBLE(").replace(", INTERVAL '1' HOUR", "")


def create(session: sqlwin.Session, base: Base, path: Path, options: str = TIERS) -> None:
    session.execute(TABLE.format(base.root))
    session.execute(f"CREATE MATERIALIZED TABLE m WITH ('path' = '{path}', {options}) AS {QUERY}")


def tier_state(path: Path) -> Reached:
    return open_slices(str(path)).reached


def expected(base: Base, actual: Reached) -> Slices:
    """Return the slices of all rows, each as wide as its tier, by definition."""
    rows = pa.concat_tables(pq.read_table(p) for p in sorted(base.root.glob("*.parquet")))
    rows = rows.filter(pc.is_valid(rows["ts"]))
    bounds = [(WIDTH_US, None), *((tier.width_us, tier.until_us) for tier in actual.tiers)]
    slices: Slices = {}
    ends = pc.multiply(pc.add(pc.divide(rows["ts"].cast(pa.int64()), WIDTH_US), 1), WIDTH_US)
    for (width_us, until_us), (_, older_us) in zip(bounds, [*bounds[1:], (0, None)], strict=True):
        mask = pc.greater(ends, older_us or actual.since_us or 0)
        if until_us is not None:
            mask = pc.and_(mask, pc.less_equal(ends, until_us))
        slices |= slices_of(rows.filter(mask), width_us)
    return slices


def check_answers(session: sqlwin.Session, sql: str, words: str) -> None:
    """Check the windows of a query, and the way to compute them in EXPLAIN."""
    assert words in session.explain(sql)
    expected_rows = answers(session, sql, "false")
    assert expected_rows
    assert answers(session, sql) == expected_rows


@pytest.mark.long
def test_wide_old_slices_answer_windows_of_their_multiples(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    base, path = Base(tmp_path / "in"), tmp_path / "m"
    for hour in range(0, 24, 6):
        base.write(f"f{hour}", 300, hour * 60, (hour + 6) * 60)
    create(fresh_session, base, path)
    result = tier_state(path)
    assert [tier.width_us for tier in result.tiers] == [HOUR_US, 4 * HOUR_US]
    assert stored_slices(path) == expected(base, result)
    # a late row is merged into its wide slice
    base.write("late", 30, 100, 700)
    check_answers(fresh_session, HOURS.replace("'1' HOUR", "'4' HOUR"), "SliceScan")
    refresh(fresh_session)
    assert stored_slices(path) == expected(base, result)
    check_answers(fresh_session, HOURS.replace("'1' HOUR", "'4' HOUR"), "SliceScan")
    check_answers(fresh_session, HOURS, "are 4 h wide")
    check_answers(fresh_session, MINUTES, "m: its slices up to 2024-01-01 ")
    today = "SELECT * FROM ({}) WHERE window_end > TIMESTAMP_NTZ '2024-01-01 {}:00'"
    check_answers(fresh_session, today.format(MINUTES, "19:00"), "SliceScan")
    check_answers(fresh_session, today.format(HOURS, "14:00"), "SliceScan")
    check_answers(fresh_session, today.format(HOURS, "09:00"), "are 4 h wide")
    bounded = MINUTES.replace("GROUP", "WHERE ts >= TIMESTAMP_NTZ '2024-01-01 18:30:00' GROUP")
    check_answers(fresh_session, bounded, "SliceScan")
    between = HOURS.replace("GROUP", "WHERE ts >= TIMESTAMP_NTZ '2024-01-01 13:10:00' GROUP")
    check_answers(fresh_session, between, "are 1 h wide")
    facts = fresh_session.execute("DESCRIBE EXTENDED m")[0].table.to_pylist()
    assert {"property": "base files", "value": "5"} in facts
    (slices,) = (row["value"] for row in facts if row["property"] == "slices")
    assert slices.startswith("4 h up to 2024-01-01 ")
    assert slices.endswith(", 10 min")


@pytest.mark.slow
@pytest.mark.parametrize("retention", ["", ", 'slices.retention' = '20 h'"])
def test_wide_slices_equal_the_rows_after_any_file_changes(
    fresh_session: sqlwin.Session, tmp_path: Path, retention: str
) -> None:
    draw = random.Random(21)
    base, path = Base(tmp_path / "in", 4), tmp_path / "m"
    base.write("f0", 300, 0, 300)
    create(fresh_session, base, path, TIERS + retention)
    existing = ["f0"]
    for number in range(1, 14):
        now = 300 + number * 100
        base.write(f"new{number}", 100, now - 100, now)
        existing.append(f"new{number}")
        what, first = draw.choice(["late", "change", "remove"]), draw.randrange(now)
        if what == "late":
            base.write(f"late{number}", 20, first, first + 50)
        elif what == "change":
            base.write(draw.choice(existing), 100, first, first + 100)
        elif len(existing) > 2:
            base.remove(removed := draw.choice(existing))
            existing.remove(removed)
        refresh(fresh_session)
        assert stored_slices(path) == expected(base, tier_state(path))
    result = tier_state(path)
    assert len(result.tiers) == 2
    assert (result.since_us is not None) == bool(retention)
    if retention:
        check_answers(fresh_session, HOURS.replace("'1' HOUR", "'4' HOUR"), "were dropped")


@pytest.mark.slow
@pytest.mark.parametrize("point", ["tiered", "settled"])
def test_a_killed_merge_of_old_slices_loses_nothing(
    fresh_session: sqlwin.Session, tmp_path: Path, point: str
) -> None:
    base, path = Base(tmp_path / "in"), tmp_path / "m"
    base.write("day", 300, 0, 900)
    create(fresh_session, base, path)
    before = tier_state(path)
    base.write("new", 300, 900, 1400)
    program = [sys.executable, str(PROGRAM), str(tmp_path), point]
    killed = subprocess.run(program, timeout=300, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert (tier_state(path) == before) == (point == "tiered")
    assert stored_slices(path) == expected(base, tier_state(path))
    check_answers(fresh_session, HOURS.replace("'1' HOUR", "'4' HOUR"), "SliceScan")
    assert "is up to date" in refresh(fresh_session)
    assert tier_state(path) != before
    assert stored_slices(path) == expected(base, tier_state(path))
