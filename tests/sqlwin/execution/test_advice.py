"""What EXPLAIN ADVISE prints makes materialized tables that answer the queries it names."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from runtime.errors import SqlwinError

START_US = 1_704_067_200_000_000
MINUTE_US = 60_000_000
TABLE = "CREATE TABLE trips WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'parquet')"
WINDOWS = "FROM TABLE({}(TABLE trips, DESCRIPTOR(ts), {})) {} GROUP BY {}window_start, window_end"


def _query(items: str, window: str, lengths: str, keys: str = "", where: str = "") -> str:
    shown = f"{keys}window_start, window_end, {items}"
    return f"SELECT {shown} {WINDOWS.format(window, lengths, where, keys)}"


DASHBOARD = {
    "hourly": _query("COUNT(*) AS n, AVG(fare) AS a", "TUMBLE", "INTERVAL '1' HOUR", "city, "),
    "sliding": _query(
        "SUM(fare) AS s, MAX(fare) AS m", "HOP", "INTERVAL '20' MINUTE, INTERVAL '2' HOURS",
        where="WHERE city <> 'a' AND ts >= TIMESTAMP_NTZ '2024-01-01 01:10:00'",
    ),
    "growing": _query("COUNT(DISTINCT fare) AS d", "CUMULATE", "INTERVAL '2' HOURS, "
                      "INTERVAL '1' DAY", "city, "),
    "months": _query("STDDEV_SAMP(fare) AS d, MAX_BY(city, fare) AS c", "TUMBLE",
                     "INTERVAL '1' MONTH"),
    "either": _query("COUNT(*) FILTER (WHERE fare > 0) AS n, LAST_VALUE(fare) AS l", "TUMBLE",
                     "INTERVAL '1' HOUR, INTERVAL '30' MINUTE"),
    "sets": "SELECT city, window_end, SUM(fare) AS s FROM TABLE(TUMBLE(TABLE trips, "
            "DESCRIPTOR(ts), INTERVAL '4' HOURS)) GROUP BY GROUPING SETS "
            "((city, window_start, window_end), (window_start, window_end))",
    "about": _query("APPROX_COUNT_DISTINCT(fare) AS d, APPROX_COUNT_DISTINCT(city, 0.02) AS c",
                    "TUMBLE", "INTERVAL '6' HOURS"),
}  # fmt: skip


def _write(path: Path, n_rows: int = 4_000, n_days: int = 2) -> None:
    draw = random.Random(3)
    minutes = sorted(draw.randrange(n_days * 24 * 60) for _ in range(n_rows))
    rows = {
        "ts": pa.array([START_US + m * MINUTE_US for m in minutes], pa.timestamp("us")),
        "city": pa.array(draw.choices(["a", "b", "c", None], k=n_rows), pa.string()),
        "fare": pa.array([draw.randrange(-50, 50) for _ in minutes], pa.int32()),
        "ride": pa.array(range(n_rows), pa.int64()),
    }
    path.mkdir()
    pq.write_table(pa.table(rows), path / "rows.parquet")


def _advice(session: sqlwin.Session, sql: str) -> str:
    (result,) = session.execute(f"EXPLAIN ADVISE {sql}")
    return str(result.text)


def _rows(session: sqlwin.Session, sql: str) -> list[str]:
    rows = session.sql(sql).toArrow().to_pylist()
    # sums of doubles are added in another order
    return sorted(re.sub(r"(\d\.\d{9})\d+", r"\1", repr(row)) for row in rows)


@pytest.mark.long
def test_advised_tables_answer_each_query_with_the_same_rows(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    _write(tmp_path / "trips")
    script = tmp_path / "dashboards.sql"
    queries = ";\n".join(DASHBOARD.values())
    script.write_text(f"{TABLE.format(tmp_path / 'trips')};\n{queries};\n")
    fresh_session.execute(f"SET 'sqlwin.materialized.dir' = '{tmp_path / 'slices'}'")
    advice = _advice(fresh_session, f"'{script}'")
    assert "not answered" not in advice
    expected = {name: _rows(fresh_session, sql) for name, sql in DASHBOARD.items()}
    fresh_session.execute(advice)
    for name, sql in DASHBOARD.items():
        plan = str(fresh_session.execute(f"EXPLAIN {sql}")[0].text)
        assert "SliceScan(" in plan, (name, plan, advice)
        assert "TableSourceScan" not in plan, name
        assert _rows(fresh_session, sql) == expected[name], name
    again = _advice(fresh_session, f"'{script}'")
    assert "no materialized table is advised" in again
    assert again.count("dashboards.sql:") == len(DASHBOARD)


def test_one_table_is_advised_for_windows_that_share_slices_at_little_cost(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    _write(tmp_path / "trips")
    fresh_session.execute(TABLE.format(tmp_path / "trips"))
    script = tmp_path / "two.sql"
    script.write_text(f"{DASHBOARD['hourly']};\n{DASHBOARD['sets']};")
    advice = _advice(fresh_session, f"'{script}'")
    (made,) = re.findall(r"CREATE MATERIALIZED TABLE (\w+) WITH", advice)
    assert made == "trips_1_h"
    n_partials = fresh_session.sql(
        "SELECT COUNT(*) FROM (SELECT DISTINCT city, date_trunc('HOUR', ts) FROM trips)"
    ).collect()[0][0]
    assert f"holds {n_partials} partials of trips, counted" in advice
    assert "now 8,000 rows" in advice
    # a grid of a minute, which both are made of, would cost more than two tables
    odd = _query("COUNT(*) AS n", "TUMBLE", "INTERVAL '61' MINUTES", "city, ")
    script.write_text(f"{DASHBOARD['hourly']};\n{odd};")
    assert _advice(fresh_session, f"'{script}'").count("CREATE MATERIALIZED TABLE") == 2


def test_what_is_not_answered_is_listed_with_the_reason(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    _write(tmp_path / "trips")
    fresh_session.execute(TABLE.format(tmp_path / "trips"))
    script = tmp_path / "q.sql"
    script.write_text(
        _query("COUNT(*) AS n", "SESSION", "INTERVAL '10' MINUTE")
        + ";\n"
        + _query("COUNT(*) AS n", "TUMBLE", "INTERVAL '1' HOUR", "ride, ")
        + ";\n"
        + _query("PERCENTILE(fare, 0.5) AS p", "TUMBLE", "INTERVAL '1' HOUR")
        + ";\nSELECT city FROM trips;\n"
    )
    advice = _advice(fresh_session, f"'{script}'")
    assert "no materialized table is advised" in advice
    for line, reason in (
        (1, "the rows themselves say where windows of SESSION begin and end"),
        (2, "slices of 1 h by ride would be 4,000 partials of 4,000 rows"),
        (3, "PERCENTILE cannot be merged from partial results"),
        (4, "it has no window aggregation"),
    ):
        assert f"--   q.sql:{line}: {reason}" in advice, advice
    # a condition that all queries have is kept instead of a key with as many values as rows
    few = _query("COUNT(*) AS n", "TUMBLE", "INTERVAL '1' HOUR", where="WHERE ride < 3000")
    assert "WHERE (ride < CAST(3000 AS BIGINT))" in _advice(fresh_session, few)


@pytest.mark.long
def test_a_sample_counts_about_as_many_partials(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    _write(tmp_path / "trips", 40_000, 60)
    fresh_session.execute(TABLE.format(tmp_path / "trips"))
    query = _query("COUNT(*) AS n", "TUMBLE", "INTERVAL '10' MINUTE", "city, ")

    def partials() -> tuple[int, str]:
        advice = _advice(fresh_session, query)
        found = re.search(r"holds ([\d,]+) partials of trips, (.*);|would be ([\d,]+)", advice)
        assert found is not None, advice
        return int((found[1] or found[3]).replace(",", "")), advice

    exact, said = partials()
    assert "counted;" in said or "would be" in said
    fresh_session.execute("SET 'sqlwin.advise.sample-rows' = '8000'")
    about, _ = partials()
    assert about == pytest.approx(exact, rel=0.1)


def test_errors_are_placed_in_the_file(fresh_session: sqlwin.Session, tmp_path: Path) -> None:
    script = tmp_path / "bad.sql"
    script.write_text("SELECT 1;\nSELECT nothing FROM nowhere;\n")
    with pytest.raises(SqlwinError, match=r"at .*bad\.sql, line 2, column 21"):
        fresh_session.execute(f"EXPLAIN ADVISE '{script}'")
    with pytest.raises(SqlwinError, match=r"cannot read gone\.sql: No such file"):
        fresh_session.execute("EXPLAIN ADVISE 'gone.sql'")
