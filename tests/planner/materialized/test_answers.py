"""Queries answered from slices equal those from rows and brute force in DuckDB."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.nodes.physical import SharedExchange, SliceScan
from runtime.engines.local.partials import tables_in_process
from runtime.plan.local import ArrowBuffer, LocalStep
from runtime.refusal import Refusal
from tests.marks import pairs
from tests.oracle import MINUTE_US, OracleWindow
from tests.planner.materialized.stored_tables import Tables, local_of, scan_partials, windows_below

START = datetime(2026, 1, 30, 22)  # noqa: DTZ001  # a wall clock
CITIES = ["Rome", "Oslo", "Bonn", None]
DEFINITION = (
    "SELECT city, rider, window_end, SUM(fare) AS a, AVG(x) AS b, COUNT(*) AS n, MIN(fare) AS c, "
    "MAX(x) AS d, COUNT(DISTINCT rider) AS e, COUNT(fare) AS i "
    "FROM TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) "
    "GROUP BY city, rider, window_start, window_end"
)
AGGREGATES = {
    "SUM(fare)": "sum(fare)",
    "COUNT(*)": "count(*)",
    "COUNT(fare)": "count(fare)",
    "MIN(fare)": "min(fare)",
    "MAX(x)": "max(x)",
    "AVG(x)": "avg(x)",
    "AVG(fare)": "avg(fare)",
    "SUM(x)": "sum(x)",
    "COUNT(DISTINCT rider)": "count(distinct rider)",
    "SUM(fare) FILTER (WHERE city = 'Rome')": "sum(fare) filter (where city = 'Rome')",
    "COUNT(*) FILTER (WHERE rider > 2)": "count(*) filter (where rider > 2)",
}
KEYS = [(), ("city",), ("rider",), ("rider", "city")]
FILTERS = [
    "",
    "city = 'Rome'",
    "rider > 1 AND city <> 'Oslo'",
    "city IS NULL OR rider IN (1, 3)",
    "ts >= TIMESTAMP_NTZ '2026-01-31 01:20:00' AND city = 'Bonn'",
    "ts < TIMESTAMP_NTZ '2026-02-01 02:10:00' AND ts >= TIMESTAMP_NTZ '2026-01-31 00:00:00'",
    "ts <= TIMESTAMP_NTZ '2026-01-31 23:59:59.999999'",
]
TEN = 10 * MINUTE_US
WINDOWS = [
    OracleWindow("TUMBLE", TEN),
    OracleWindow("TUMBLE", 3 * TEN, offset_us=TEN),
    OracleWindow("HOP", 6 * TEN, TEN),
    OracleWindow("HOP", 5 * TEN, 2 * TEN),
    OracleWindow("HOP", 2 * TEN, 6 * TEN),
    OracleWindow("CUMULATE", 18 * TEN, 3 * TEN),
]


def rows(n_rows):
    rng = random.Random(7)
    return pa.table(
        {
            "ts": [
                None if rng.random() < 0.02 else START + timedelta(seconds=rng.randrange(200_000))
                for _ in range(n_rows)
            ],
            "city": [rng.choice(CITIES) for _ in range(n_rows)],
            "rider": pa.array([rng.choice([1, 2, 3, 4, None]) for _ in range(n_rows)], pa.int32()),
            "fare": [rng.choice([None, *range(-5, 90)]) for _ in range(n_rows)],
            "x": [rng.choice([None, *(i / 4 for i in range(50))]) for _ in range(n_rows)],
            "money": pa.array(
                [Decimal(rng.randrange(-500, 9_000)) / 100 for _ in range(n_rows)],
                pa.decimal128(10, 2),
            ),
        }
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Create the table `trips` of four files; three of them are in the materialized table `m`."""
    path = tmp_path_factory.mktemp("kept")
    data, base = rows(900), path / "trips"
    base.mkdir()
    files = []
    for number, start in enumerate(range(0, 900, 225)):
        files.append(str(base / f"{number}.parquet"))
        pq.write_table(data.slice(start, 225), files[-1])
    catalog = Tables()
    catalog.add_files("trips", base)
    catalog.materialize("m", DEFINITION, path / "m", files[:3])
    catalog.data = data
    return catalog


def query(window, keys, names, where):
    call = window.call.replace("TABLE data", "TABLE trips")
    by = ", ".join((*keys, "window_start", "window_end"))
    items = ", ".join(f"{name} AS a{i}" for i, name in enumerate(names))
    return f"SELECT {by}, {items} FROM {call} {where and 'WHERE ' + where} GROUP BY {by}"


def brute_force(data, window, keys, names, where):
    con = duckdb.connect()
    con.register("rows", data)
    by = ", ".join(
        (*keys, "make_timestamp(w.s) AS window_start", "make_timestamp(w.e) AS window_end")
    )
    items = ", ".join(f"{AGGREGATES[name]} AS a{i}" for i, name in enumerate(names))
    where = where.replace("TIMESTAMP_NTZ", "TIMESTAMP")
    return (
        con.sql(
            f"SELECT {by}, {items} FROM (SELECT *, unnest({window.windows_sql}) AS w FROM "
            f"(SELECT *, epoch_us(ts) AS t FROM rows WHERE ts IS NOT NULL) "
            f"{where and 'WHERE ' + where}) GROUP BY ALL"
        )
        .arrow()
        .read_all()
    )


def as_rows(table):
    result = [tuple(map(_plain, row.values())) for row in table.to_pylist()]
    return sorted(result, key=lambda row: [(value is None, value) for value in row])


def _plain(value):
    return round(value, 9) if isinstance(value, float) else value


@settings(max_examples=8)
@given(
    st.sampled_from(WINDOWS),
    st.sampled_from(KEYS),
    st.lists(st.sampled_from(list(AGGREGATES)), min_size=1, max_size=4, unique=True),
    st.sampled_from(FILTERS),
)
def test_answers_from_slices_equal_those_from_rows(tables, window, keys, names, where):
    sql = query(window, keys, names, where)
    assert isinstance(local_of(tables.plan(sql).physical), SliceScan)
    answer = tables.rows(sql)
    assert answer.equals(tables.rows(sql, rewrites_to_slices=False))
    assert as_rows(answer) == as_rows(brute_force(tables.data, window, keys, names, where))


HOURLY_CITY = (
    "SELECT city, window_end, SUM(fare) AS a FROM TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ts), "
    "INTERVAL '1' HOUR)) WHERE rider > 1 GROUP BY city, window_start, window_end"
)


def test_grouping_sets_are_answered_from_slices(tables):
    sql = (
        "SELECT city, rider, window_end, SUM(fare) AS a FROM "
        "TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '1' DAY)) WHERE rider > 0 "
        "AND city <> 'Oslo' GROUP BY window_start, window_end, CUBE(city, rider)"
    )
    assert isinstance(local_of(tables.plan(sql).physical), SliceScan)
    expected = []
    for keys in (("city", "rider"), ("city",), ("rider",), ()):
        window, where = OracleWindow("TUMBLE", 144 * TEN), "rider > 0 AND city <> 'Oslo'"
        rows = brute_force(tables.data, window, keys, ["SUM(fare)"], where).to_pylist()
        names = ("city", "rider", "window_end", "a0")
        expected += [{name: row.get(name) for name in names} for row in rows]
    assert as_rows(tables.rows(sql)) == as_rows(pa.Table.from_pylist(expected))


def test_windows_that_share_slices_read_stored_slices(tables):
    parts = [query(window, ("city",), ["SUM(fare)"], "") for window in WINDOWS[:3]]
    plan = tables.plan(" UNION ALL ".join(parts))
    exchanges = {id(item.input.input): item.input.input for item in windows_below(plan.physical)}
    ((shared),) = exchanges.values()
    assert isinstance(shared, SharedExchange) and isinstance(shared.input, SliceScan)
    assert shared.input.rows.tail is not None


def test_windows_of_months_are_answered_from_slices(tables):
    sql = (
        "SELECT city, window_end, SUM(fare) AS a, COUNT(DISTINCT rider) AS b FROM "
        "TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '1' MONTH)) "
        "GROUP BY city, window_start, window_end"
    )
    assert isinstance(local_of(tables.plan(sql).physical), SliceScan)
    result = tables.rows(sql)
    assert {str(end)[:10] for end in result.column("window_end").to_pylist()} == {
        "2026-02-01",
        "2026-03-01",
    }
    assert result.equals(tables.rows(sql, rewrites_to_slices=False))


def test_conditions_of_the_slices_must_be_in_the_query(tables, tmp_path):
    tables.materialize("city_hours", HOURLY_CITY, tmp_path / "n", [])
    try:
        # of two tables that can answer, the one with fewer rows to read does
        assert local_of(tables.plan(HOURLY_CITY).physical).table.name == "m"
        more = HOURLY_CITY.replace("WHERE", "WHERE city = 'Rome' AND 1 < rider AND")
        assert tables.rows(more).equals(tables.rows(more, rewrites_to_slices=False))
        (reason,) = refusals(tables, HOURLY_CITY.replace("rider > 1", "fare > 1"))
        assert "city_hours: it contains only rows where (rider > 1)" in reason
    finally:
        tables.stored.pop()


def test_stale_reads_leave_the_tail_out(tables):
    sql = query(WINDOWS[0], (), ["COUNT(*)"], "")
    scan = local_of(tables.plan(sql).physical)
    assert scan.tail_files == 1 and len(scan.rows.tail.files.files) == 1
    stale = local_of(tables.plan(sql, reads_stale=True).physical)
    assert stale.tail_files == 0 and stale.rows.tail is None
    counts = [sum(tables.rows(sql, reads_stale=r).column("a0").to_pylist()) for r in (False, True)]
    n_dated = len(tables.data) - tables.data.column("ts").null_count
    assert counts[0] == n_dated > counts[1] > 0


def test_only_slices_in_range_are_read(tables):
    tables.asked.clear()
    where = "ts >= TIMESTAMP_NTZ '2026-02-01' AND ts < TIMESTAMP_NTZ '2026-02-01 01:00:00'"
    tables.plan(query(WINDOWS[0], (), ["COUNT(*)"], where))
    first = 1_769_904_000_000_000
    assert tables.asked == [(first, first + 6 * TEN)]


def refusals(tables, sql, **options):
    """Return why a query is not answered from slices."""
    entries = tables.plan(sql, **options).trace.entries
    return [entry.reason for entry in entries if entry.rule == "answer_from_slices"]


@pytest.mark.parametrize(
    "sql, reason",
    [
        (
            query(OracleWindow("TUMBLE", 5 * MINUTE_US), (), ["COUNT(*)"], ""),
            "m: the windows do not consist of slices of 10 min",
        ),
        (
            query(OracleWindow("TUMBLE", TEN, offset_us=MINUTE_US), (), ["COUNT(*)"], ""),
            "m: the windows do not consist of slices of 10 min",
        ),
        (
            query(WINDOWS[0], (), ["COUNT(*)"], "fare > 3"),
            "m: (fare > CAST(3 AS BIGINT)) reads fare, which is not one of its keys",
        ),
        (
            query(WINDOWS[0], (), ["COUNT(*)"], "ts < TIMESTAMP_NTZ '2026-02-01 00:05:00'"),
            "m: (ts < TIMESTAMP_NTZ '2026-02-01 00:05:00') does not match the bounds of its slices of 10 min",
        ),
        (
            query(WINDOWS[0], (), ["COUNT(*)"], "").replace("COUNT(*)", "MIN(x)"),
            "m: it does not store MIN(x)",
        ),
        (
            query(WINDOWS[0], ("fare",), ["COUNT(*)"], ""),
            "m: the key fare reads fare, which is not one of its keys",
        ),
        (
            query(WINDOWS[0], (), ["COUNT(*)"], "").replace("TUMBLE", "SESSION"),
            "m: SESSION windows cannot be computed from slices",
        ),
    ],
)
def test_refusals_give_the_reason(tables, sql, reason):
    assert refusals(tables, sql) == [reason]


def test_the_setting_turns_it_off(tables):
    sql = query(WINDOWS[0], (), ["COUNT(*)"], "")
    assert refusals(tables, sql, rewrites_to_slices=False) == [
        "sqlwin.materialized.rewrite is false"
    ]
    assert refusals(tables, "SELECT 1 AS one") == []


BOUNDS = [
    "window_end > TIMESTAMP_NTZ '2026-01-31 20:00:00'",
    "window_start >= TIMESTAMP_NTZ '2026-01-31 20:00:00' "
    "AND window_end <= TIMESTAMP_NTZ '2026-02-01 03:30:00'",
    "window_start < TIMESTAMP_NTZ '2026-01-31 02:05:00'",
    "window_end = TIMESTAMP_NTZ '2026-01-31 20:00:00'",
    "TIMESTAMP_NTZ '2026-01-31 20:00:00' = window_start AND city IS NOT NULL",
    "city = 'Rome' AND window_time < TIMESTAMP_NTZ '2026-01-31 20:00:00'",
]


@pytest.mark.parametrize(
    "window, where", pairs(WINDOWS[3:], BOUNDS, slow=[(w, b) for w in WINDOWS[4:] for b in BOUNDS])
)
def test_only_slices_of_windows_that_are_wanted_are_read(tables, window, where):
    inner = query(window, ("city",), ["SUM(fare)"], "").replace(
        "window_end,", "window_end, window_time,"
    )
    inner = inner.replace("GROUP BY city, window_start", "GROUP BY window_time, city, window_start")
    sql = f"SELECT * FROM ({inner}) WHERE {where}"
    plan = tables.plan(sql)
    whole = tables.plan(sql, disabled_rules=frozenset(("narrow_slices",)))
    narrow, wide = local_of(plan.physical), local_of(whole.physical)
    assert len(narrow.rows.filters) > len(wide.rows.filters)
    counts = [sum(len(table) for table in scan_tables(scan)) for scan in (narrow, wide)]
    assert counts[0] < counts[1]
    assert tables.rows(sql).equals(tables.rows(sql, rewrites_to_slices=False))


def scan_tables(scan):
    rows = replace(scan.rows, tail=None)
    of = (scan.window, scan.time_column, scan.time_type, scan.slice_end)
    return tables_in_process(LocalStep(rows, ArrowBuffer(), *of))


def test_keys_that_grouping_sets_leave_out_are_no_condition_on_slices(tables):
    sql = (
        "SELECT * FROM (SELECT city, window_end, SUM(fare) AS a FROM "
        "TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '1' DAY)) WHERE rider > 0 "
        "GROUP BY window_start, window_end, ROLLUP(city)) WHERE city IS NULL"
    )
    scan = local_of(tables.plan(sql).physical)
    assert len(scan.rows.filters) == 1


def tables_in_zone(zone, tmp_path):
    """Create `rides` on instants around the end of summer time, and its hours in `hours`."""
    catalog, path = Tables(), tmp_path / "rides"
    catalog.zone = zone
    path.mkdir()
    instants = [datetime(2026, 10, 24, tzinfo=UTC) + timedelta(minutes=17 * i) for i in range(300)]
    data = pa.table({"ts": pa.array(instants, pa.timestamp("us", "UTC")), "n": range(300)})
    pq.write_table(data, path / "0.parquet")
    catalog.add_files("rides", path)
    catalog.materialize(
        "hours", RIDES.format("HOUR", ""), tmp_path / "h", [str(path / "0.parquet")]
    )
    return catalog


RIDES = (
    "SELECT window_end, COUNT(*) AS c, SUM(n) AS s FROM TABLE(TUMBLE(TABLE rides, DESCRIPTOR(ts), "
    "INTERVAL '1' {})) {} GROUP BY window_start, window_end"
)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize(
    "bound", ["2026-10-27 08:00:00+01:00", "2026-10-27 06:00:00Z", "2026-10-24 03:00:00Z"]
)
def test_bounds_of_instants_are_on_the_wall_clock_of_the_session(zone, bound, tmp_path):
    catalog = tables_in_zone(zone, tmp_path)
    sql = RIDES.format("DAY", f"WHERE ts >= TIMESTAMP_LTZ '{bound}'")
    scan = local_of(catalog.plan(sql).physical)
    if zone == "Europe/Berlin" and "-24" in bound:
        # clocks go back in the night of the 25th
        (reason,) = refusals(catalog, sql)
        assert (
            reason == "hours: clocks change in Europe/Berlin within two days of a bound of the time"
        )
        return
    assert isinstance(scan, SliceScan)
    of_rows = local_of(catalog.plan(sql, rewrites_to_slices=False).physical)
    of = (of_rows.window, of_rows.time_column, of_rows.time_type, of_rows.slice_end)
    n_rows = sum(
        sum(table.column("c$0").to_pylist())
        for table in scan_partials(LocalStep(of_rows.scan, ArrowBuffer(), *of))
    )
    assert sum(sum(table.column("c$0").to_pylist()) for table in scan_tables(scan)) == n_rows > 0


def test_slices_of_instants_belong_to_one_time_zone(tmp_path):
    catalog = tables_in_zone("Europe/Berlin", tmp_path)
    assert isinstance(local_of(catalog.plan(RIDES.format("DAY", "")).physical), SliceScan)
    catalog.zone = "UTC"
    (reason,) = refusals(catalog, RIDES.format("DAY", ""))
    assert reason == "hours: its slices use the time zone Europe/Berlin, not UTC"


def test_rows_are_read_where_a_materialized_table_is_broken(tables, monkeypatch):
    monkeypatch.setattr(tables, "slice_tables", lambda base: [Refusal("m: there is nothing at /m")])
    assert refusals(tables, query(WINDOWS[0], (), ["COUNT(*)"], "")) == [
        "m: there is nothing at /m"
    ]
