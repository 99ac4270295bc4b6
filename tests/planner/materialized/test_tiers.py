"""Slices whose old ones are merged or dropped give the same answers as rows."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.nodes.physical import SliceScan
from runtime.materialized.tiers import apply_tiers
from runtime.spec.materialized import Reached, Tier
from runtime.spec.scan import ScanFile
from tests.oracle import OracleWindow
from tests.planner.materialized.stored_tables import Tables, local_of
from tests.planner.materialized.test_answers import (
    DEFINITION,
    TEN,
    WINDOWS,
    as_rows,
    brute_force,
    query,
    refusals,
    rows,
)

HOUR = 6 * TEN
# 2026-02-01
DAY_US = 20_485 * 24 * HOUR
REACHED = Reached((Tier(HOUR, DAY_US + 12 * HOUR), Tier(4 * HOUR, DAY_US)))
WIDE = [
    OracleWindow("TUMBLE", 4 * HOUR),
    OracleWindow("HOP", 24 * HOUR, 4 * HOUR),
    OracleWindow("TUMBLE", HOUR),
    OracleWindow("HOP", 4 * HOUR, 2 * HOUR),
]
BOUNDS = [
    "",
    "ts >= TIMESTAMP_NTZ '2026-02-01 12:00:00'",
    "ts >= TIMESTAMP_NTZ '2026-02-01 00:00:00'",
    "ts >= TIMESTAMP_NTZ '2026-02-01 03:20:00'",
    "ts < TIMESTAMP_NTZ '2026-01-31 20:00:00'",
    "ts < TIMESTAMP_NTZ '2026-01-31 21:00:00'",
    "ts >= TIMESTAMP_NTZ '2026-02-01 12:00:00' AND ts < TIMESTAMP_NTZ '2026-02-01 17:10:00'",
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Create the table `trips` of two files, one of them in `m`, whose old slices are wide."""
    path = tmp_path_factory.mktemp("wide")
    data, base = rows(600), path / "trips"
    base.mkdir()
    for number in range(2):
        pq.write_table(data.slice(number * 300, 300), base / f"{number}.parquet")
    catalog = Tables()
    catalog.add_files("trips", base)
    stored = catalog.materialize("m", DEFINITION, path / "m", [str(base / "0.parquet")])
    table = pq.read_table(stored.files[0].path)
    pq.write_table(apply_tiers(table, stored.table.form.grid, REACHED), path / "wide.parquet")
    files = (ScanFile(str(path / "wide.parquet")),)
    catalog.stored[:] = [replace(stored, table=replace(stored.table, reached=REACHED), files=files)]
    catalog.data = data
    return catalog


def with_reached(tables, reached):
    (stored,) = tables.stored
    result = Tables()
    result.entries = tables.entries
    result.stored.append(replace(stored, table=replace(stored.table, reached=reached)))
    return result


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([*WIDE, *WINDOWS]), st.sampled_from(BOUNDS))
def test_wide_slices_never_answer_wrongly(tables, window, bound):
    names = ["SUM(fare)", "COUNT(*)", "MIN(fare)"]
    result = tables.rows(query(window, ("city",), names, bound))
    expected = brute_force(tables.data, window, ("city",), names, bound)
    assert as_rows(result) == as_rows(expected)


@pytest.mark.parametrize(
    ("window", "bound", "reason"),
    [
        (WIDE[0], "", None),
        (WIDE[2], "", "m: its slices up to 2026-02-01 00:00:00 are 4 h wide"),
        (WIDE[2], BOUNDS[2], None),
        (WIDE[3], BOUNDS[2], None),
        (WIDE[2], BOUNDS[3], "m: its slices up to 2026-02-01 12:00:00 are 1 h wide"),
        (WIDE[0], BOUNDS[5], "m: its slices up to 2026-02-01 00:00:00 are 4 h wide"),
        (WIDE[0], BOUNDS[4], None),
        (WINDOWS[0], BOUNDS[1], None),
        (WINDOWS[0], BOUNDS[6], None),
        (WINDOWS[0], BOUNDS[2], "m: its slices up to 2026-02-01 12:00:00 are 1 h wide"),
    ],
)
def test_windows_that_are_finer_than_slices_read_rows(tables, window, bound, reason):
    sql = query(window, ("city",), ["SUM(fare)"], bound)
    scan = local_of(tables.plan(sql).physical)
    assert isinstance(scan, SliceScan) == (reason is None)
    if reason is not None:
        assert reason in refusals(tables, sql)


def test_bounds_of_windows_restrict_slices_like_bounds_of_time(tables):
    sql = query(WINDOWS[0], ("city",), ["SUM(fare)"], "")
    above = "SELECT * FROM ({}) WHERE window_start >= TIMESTAMP_NTZ '2026-02-01 {}:00:00'"
    assert isinstance(local_of(tables.plan(above.format(sql, 12)).physical), SliceScan)
    assert not isinstance(local_of(tables.plan(above.format(sql, 11)).physical), SliceScan)


def test_slices_that_were_dropped_are_read_from_rows(tables):
    dropped = with_reached(tables, replace(REACHED, since_us=DAY_US))
    reason = "m: its slices up to 2026-02-01 00:00:00 were dropped"
    for bound in ("", BOUNDS[4]):
        assert reason in refusals(dropped, query(WIDE[0], (), ["SUM(fare)"], bound))
    newer = query(WINDOWS[0], (), ["SUM(fare)"], BOUNDS[1])
    assert isinstance(local_of(dropped.plan(newer).physical), SliceScan)
