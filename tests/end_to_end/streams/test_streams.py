"""SQL over streams of files gives the rows of the batch, and says before it starts what it cannot."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from planner.explain.streams import explain_stream
from runtime.errors import AnalysisError
from tests.end_to_end.streams.streams import Streams
from tests.marks import among

MIN = "INTERVAL '1' MINUTE"
LONG = [
    "local time",
    "session",
    "top n",
    "a full join of windows",
]
SCHEMA = "ts timestamp_ntz, lts timestamp, k string, v bigint"

QUERIES = {
    "tumble": """
        SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s, AVG(v) AS a
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
        GROUP BY k, window_start, window_end""",
    "hop, filters and expressions": """
        SELECT UPPER(k) AS key, window_time, MAX(v) + 1 AS m, COUNT(DISTINCT v % 7) AS d,
               COUNT(*) FILTER (WHERE 100 / v > 2) AS f, LAST_VALUE(v) AS l
        FROM TABLE(HOP(
          (SELECT ts, k, v FROM events WHERE v > 10 AND k <> 'c'),
          DESCRIPTOR(ts), INTERVAL '30' SECONDS, INTERVAL '2' MINUTES))
        WHERE v < 900
        GROUP BY k, window_start, window_end, window_time
        HAVING COUNT(*) > 1""",
    "first and last values, NULLs left out or kept": """
        SELECT k, window_end, FIRST_VALUE(CASE WHEN v % 5 = 0 THEN v END) AS f,
               LAST_VALUE(CASE WHEN v % 5 = 0 THEN v END) AS l,
               LAST_VALUE(CASE WHEN v % 5 = 0 THEN v END) RESPECT NULLS AS r
        FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '30' SECONDS, INTERVAL '2' MINUTES))
        GROUP BY k, window_start, window_end""",
    "estimates": """
        SELECT k, window_end, COUNT(DISTINCT v) AS exactly, APPROX_COUNT_DISTINCT(v) AS about,
               APPROX_COUNT_DISTINCT(CAST(v AS STRING), 0.2) FILTER (WHERE v % 3 > 0) AS texts,
               APPROX_COUNT_DISTINCT(CAST(v AS DECIMAL(30, 2)), 0.01) AS large,
               APPROX_PERCENTILE(v, 0.5) AS median,
               PERCENTILE_APPROX(v / 7, ARRAY(0.1, 0.5, 0.99), 1000) AS three,
               APPROX_PERCENTILE(lts, 0.9) FILTER (WHERE v < 300) AS late,
               APPROX_PERCENTILE(CAST(v AS DECIMAL(12, 2)), 1.0) FILTER (WHERE v < 0) AS nothing
        FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '30' SECONDS, INTERVAL '2' MINUTES))
        GROUP BY k, window_start, window_end""",
    "estimates of sessions, and of windows again": """
        SELECT window_start, APPROX_COUNT_DISTINCT(d) AS d, APPROX_PERCENTILE(m, 0.5) AS m, n
        FROM (SELECT k, window_start, window_end, COUNT(*) AS n,
                     APPROX_COUNT_DISTINCT(v) AS d, APPROX_PERCENTILE(v, 0.5) AS m
              FROM TABLE(SESSION(TABLE events PARTITION BY k, DESCRIPTOR(ts), INTERVAL '6' SECONDS))
              GROUP BY k, window_start, window_end)
        GROUP BY window_start, window_end, n""",
    "cumulate without keys": """
        SELECT window_start, window_end, COUNT(*) AS n, STDDEV_POP(v) AS d, MIN(k) AS k
        FROM TABLE(CUMULATE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '5' MINUTES))
        GROUP BY window_start, window_end""",
    "local time": """
        SELECT k, window_start, window_end, SUM(v) AS s
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(lts), INTERVAL '2' MINUTES))
        GROUP BY k, window_start, window_end""",
    "session": """
        SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s
        FROM TABLE(SESSION(TABLE events PARTITION BY k, DESCRIPTOR(ts), INTERVAL '6' SECONDS))
        GROUP BY k, window_start, window_end""",
    "union": """
        SELECT k, window_end, COUNT(*) AS n
        FROM TABLE(TUMBLE(
          (SELECT ts, k FROM events WHERE v > 500 UNION ALL SELECT ts, 'all' FROM events),
          DESCRIPTOR(ts), INTERVAL '1' MINUTE))
        GROUP BY k, window_end""",
    "cascade": """
        SELECT window_start, window_end, SUM(n) AS n, MAX(s) AS s
        FROM TABLE(TUMBLE(
          (SELECT window_time AS t, n, s FROM (
             SELECT k, window_start, window_end, window_time, COUNT(*) AS n, SUM(v) AS s
             FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '30' SECONDS))
             GROUP BY k, window_start, window_end, window_time) WHERE n > 1),
          DESCRIPTOR(t), INTERVAL '5' MINUTES))
        GROUP BY window_start, window_end""",
    "the same window again, and a wider one behind it": """
        SELECT window_start, window_end, SUM(most) AS s, COUNT(*) AS n
        FROM TABLE(TUMBLE(
          (SELECT MAX(n) AS most, COUNT(DISTINCT n) AS d, window_time AS t FROM (
             SELECT k, window_start, window_end, window_time, COUNT(*) AS n
             FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '30' SECONDS, INTERVAL '1' MINUTE))
             GROUP BY k, window_start, window_end, window_time) WHERE n > 1
           GROUP BY window_start, window_end, window_time),
          DESCRIPTOR(t), INTERVAL '5' MINUTES))
        GROUP BY window_start, window_end""",
    "top n": """
        SELECT k, n, s, window_end, place FROM (
          SELECT *, RANK() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, k) AS place
          FROM (SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s
                FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
                GROUP BY k, window_start, window_end))
        WHERE place <= 2 AND n > 5""",
    "the item with the most, by a join of windows": """
        SELECT a.k, a.n, a.window_end, b.most
        FROM (SELECT k, window_start, window_end, COUNT(*) AS n
              FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '30' SECONDS, INTERVAL '1' MINUTE))
              GROUP BY k, window_start, window_end) a
        JOIN (SELECT MAX(n) AS most, window_start, window_end
              FROM (SELECT k, window_start, window_end, COUNT(*) AS n
                    FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '30' SECONDS, INTERVAL '1' MINUTE))
                    GROUP BY k, window_start, window_end)
              GROUP BY window_start, window_end) b
        ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.n >= b.most""",
    "a full join of windows": """
        SELECT a.k AS ak, a.n, b.k AS bk, b.s
        FROM (SELECT k, window_start, window_end, COUNT(*) AS n
              FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
              WHERE v > 500 GROUP BY k, window_start, window_end) a
        FULL JOIN (SELECT k, window_start, window_end, SUM(v) AS s
              FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
              WHERE v < 500 GROUP BY k, window_start, window_end) b
        ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k""",
    "no aggregate": """
        SELECT k, v, window_end
        FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '2' MINUTES))
        WHERE v > 900""",
    "a join with a bounded table": """
        SELECT name, window_end, COUNT(*) AS n
        FROM TABLE(TUMBLE(
          (SELECT e.ts, n.name FROM events e JOIN names n ON e.k = n.k),
          DESCRIPTOR(ts), INTERVAL '1' MINUTE))
        GROUP BY name, window_end""",
}


def events(n_rows, start_s, seed):
    """Rows in the order of time, some without a time."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(start_s * 10, (start_s + 300) * 10, n_rows)) * 100_000
    ts = pa.array(times, pa.timestamp("us"), mask=rng.random(n_rows) < 0.02)
    return pa.table(
        {
            "ts": ts,
            "lts": ts.cast(pa.int64()).cast(pa.timestamp("us", tz="UTC")),
            "k": pa.array(np.array(["a", "b", "c", "d"])[rng.integers(0, 4, n_rows)]),
            "v": pa.array(rng.integers(1, 1000, n_rows)),
        }
    )


@pytest.fixture
def streams(fresh_session, tmp_path):
    found = Streams(fresh_session, tmp_path)
    names = fresh_session.spark.createDataFrame(
        [("a", "Anna"), ("b", "Bert")], "k string, name string"
    )
    fresh_session.register("names", names)
    found.bounded_table("names", names)
    return found


def batch_rows(sql, parts, streams, session):
    """The rows of a query over all files at once; the streams are no more."""
    session.register("events", session.spark.createDataFrame(pa.concat_tables(parts)))
    return by_text(tuple(row) for row in session.sql(sql).collect())


# One query stands for all, and the others are run with --long
@pytest.mark.parametrize(
    "name", among(QUERIES, long=LONG, slow=QUERIES.keys() - {"hop, filters and expressions", *LONG})
)
def test_a_stream_that_ends_gives_the_rows_of_the_batch(name, streams, fresh_session):
    parts = [events(200, 300 * i, i) for i in range(3)]
    column = "lts" if name == "local time" else "ts"
    streams.table("events", SCHEMA, column, f"{column} - INTERVAL '5' SECONDS")
    for part in parts:
        streams.write("events", part)
    found = streams.rows(QUERIES[name])
    expected = batch_rows(QUERIES[name], parts, streams, fresh_session)
    assert len(expected) >= 3
    assert found == [
        tuple(pytest.approx(v) if isinstance(v, float) else v for v in r) for r in expected
    ]


def at(second):
    return dt.datetime(2024, 5, 1, tzinfo=dt.UTC).replace(tzinfo=None) + dt.timedelta(
        seconds=second
    )


def rows(*pairs, key="a"):
    """A file of (second, value), all of one key."""
    times = [at(second) for second, _ in pairs]
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us")),
            "lts": pa.array(times, pa.timestamp("us", tz="UTC")),
            "k": pa.array([key] * len(pairs)),
            "v": pa.array([value for _, value in pairs], pa.int64()),
        }
    )


def by_text(found):
    """Rows in the order of their texts, as `Running.wait` has them."""
    return sorted(found, key=str)


HOP = """
    SELECT window_end, SUM(v) AS s
    FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '5' SECONDS, INTERVAL '20' SECONDS))
    GROUP BY window_end"""
TUMBLE = """
    SELECT window_end, SUM(v) AS s
    FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
    GROUP BY window_end"""


SIDES = """
    SELECT a.s FROM (SELECT window_start, window_end, SUM(v) AS s
      FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
      GROUP BY window_start, window_end) a
    {} (SELECT window_start, window_end, SUM(v) AS s
      FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
      GROUP BY window_start, window_end) b
    ON a.window_start = b.window_start AND a.window_end = b.window_end {}"""


SESSIONS = """
    SELECT k, window_start, window_end, window_time, COUNT(*) AS n, SUM(v) AS s
    FROM TABLE(SESSION(TABLE events PARTITION BY k, DESCRIPTOR(ts), INTERVAL '6' SECONDS))
    GROUP BY k, window_start, window_end, window_time"""


@pytest.mark.long
def test_rows_exactly_the_gap_apart_are_one_session_in_whatever_micro_batches_they_come(
    streams, fresh_session
):
    # in order, and the watermark right behind them
    streams.table("events", SCHEMA, "ts", "ts - INTERVAL '0.001' SECOND")
    parts = [
        rows((0, 1)),
        rows((6, 2)),
        pa.concat_tables([rows((12, 3), (18.001, 5)), rows((12, 7), (18, 4), key="b")]),
        rows((18.001, 0), key="b"),
    ]
    for part in parts:
        streams.write("events", part)
    found = streams.rows(SESSIONS)
    assert [(row[0], row[1], row[2], row[4]) for row in found] == [
        ("a", at(0), at(18), 3),
        ("a", at(18.001), at(24.001), 1),
        ("b", at(12), at(24.001), 3),
    ]
    wider = f"""
        SELECT window_end, COUNT(*) AS n, SUM(s) AS s
        FROM TABLE(TUMBLE((SELECT window_time AS t, s FROM ({SESSIONS})),
                   DESCRIPTOR(t), INTERVAL '6' SECONDS))
        GROUP BY window_end"""
    found_wider = streams.rows(wider)
    assert found_wider == [(at(18), 1, 6), (at(30), 2, 16)]
    assert found == batch_rows(SESSIONS, parts, streams, fresh_session)
    assert found_wider == batch_rows(wider, parts, streams, fresh_session)


@pytest.mark.long
def test_late_rows_count_in_the_windows_that_are_open(streams):
    streams.table("events", SCHEMA, "ts")
    with streams.running(HOP) as running:
        streams.write("events", rows((1, 10), (12, 0)))
        assert running.wait() == by_text([(at(5), 10), (at(10), 10)])
        streams.write("events", rows((3, 1), (26, 0)))
        assert running.wait() == by_text([(at(15), 11), (at(20), 11), (at(25), 0)])
        streams.write("events", rows((4, 100)))
        assert running.wait() == []
        metrics = [p["observedMetrics"]["sqlwin.window.0"] for p in running.query.recentProgress]
        assert sum(m["n_late"] for m in metrics) == 1


def test_a_stream_goes_on_from_its_checkpoint(streams):
    streams.table("events", SCHEMA, "ts")
    streams.write("events", rows((1, 10), (12, 5)))
    with streams.running(TUMBLE, "kept") as running:
        assert running.wait() == [(at(10), 10)]
    streams.write("events", rows((2, 100), (13, 7)))
    with streams.running(TUMBLE, "kept") as running:
        assert running.wait() == []
        assert running.end() == [(at(20), 12)]


@pytest.mark.long
def test_allowed_lateness_puts_a_window_out_again(streams):
    streams.table("events", SCHEMA, "ts")
    with streams.running(TUMBLE, allowed_lateness_us=60_000_000) as running:
        streams.write("events", rows((1, 10), (12, 5)))
        assert running.wait() == [("+I", at(10), 10)]
        streams.write("events", rows((2, 100)))
        assert running.wait() == by_text([("-U", at(10), 10), ("+U", at(10), 110)])


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (TUMBLE + " ORDER BY s", "needs all rows before the first is emitted"),
        ("SELECT COUNT(*) FROM events GROUP BY k", "never ends"),
        (TUMBLE.replace("SUM(v)", "PERCENTILE(v, 0.5)"), "cannot be merged"),
        ("SELECT DISTINCT k FROM events", "compares every row"),
        (
            "SELECT a.k FROM events a JOIN events b ON a.k = b.k",
            "a join of two streams would keep all rows",
        ),
        (TUMBLE.replace("events", "silent"), "`silent` has no watermark"),
        (TUMBLE.replace("DESCRIPTOR(ts)", "DESCRIPTOR(lts)"), "follows `ts`"),
        (
            "SELECT window_start, COUNT(*) FROM TABLE(CUMULATE(TABLE events, DESCRIPTOR(ts), "
            "INTERVAL '1' MINUTE, INTERVAL '5' MINUTES)) GROUP BY window_start",
            "identifies no window",
        ),
        (
            SIDES.format("JOIN", "clock", ""),
            "processing time and windows on the watermark of events",
        ),
        (
            SIDES.format("LEFT JOIN", "events", "AND FORMAT_NUMBER(a.s, 1) > '1' || b.s"),
            "cannot be evaluated with all rows of a window",
        ),
    ],
)
def test_what_a_stream_cannot_do_is_said_before_it_starts(sql, message, streams):
    streams.table("events", SCHEMA, "ts")
    streams.table("silent", SCHEMA)
    streams.table("clock", SCHEMA, proctime=("ts",))
    with pytest.raises(AnalysisError, match=message) as raised:
        streams.step(sql)
    assert raised.value.hint


@pytest.mark.long
def test_windows_of_two_streams_meet_when_both_have_got_so_far(streams):
    streams.table("events", SCHEMA, "ts")
    streams.table("other", SCHEMA, "ts")
    sides = SIDES.format("FULL JOIN", "other", "").replace("a.s FROM", "a.s AS s, b.s AS t FROM", 1)
    both = """SELECT window_end, SUM(v) AS s FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts),
        INTERVAL '10' SECONDS)) GROUP BY window_start, window_end"""
    of_union = f"""SELECT SUM(s) AS s, COUNT(*) AS t
        FROM ({both.format("events")} UNION ALL {both.format("other")}) GROUP BY window_end"""
    sql = (
        f"SELECT 'joined' AS what, * FROM ({sides}) UNION ALL SELECT 'in all', * FROM ({of_union})"
    )
    streams.write("events", rows((1, 1), (12, 2), (25, 3)))
    streams.write("other", rows((2, 10)))
    with streams.running(sql) as running:
        assert running.wait() == []
        streams.write("other", rows((13, 20), (31, 40)))
        assert running.wait() == [
            ("in all", 11, 2),
            ("in all", 22, 2),
            ("joined", 1, 10),
            ("joined", 2, 20),
        ]
        assert running.end() == [
            ("in all", 3, 1),
            ("in all", 40, 1),
            ("joined", 3, None),
            ("joined", None, 40),
        ]


def test_results_that_come_twice_are_not_ranked(streams):
    streams.table("events", SCHEMA, "ts")
    with pytest.raises(AnalysisError, match="cannot be grouped again, ranked or joined"):
        streams.step(QUERIES["top n"], allowed_lateness_us=1)


def test_explain_shows_what_keeps_no_state(streams):
    streams.table("events", SCHEMA, "ts")
    for name, head in (
        ("top n", "WindowRank(partitionBy=[window_start, window_end], ranks=[RANK 1 to 2]):"),
        ("the item with the most, by a join of windows", "WindowRank(partitionBy=["),
        ("the same window again, and a wider one behind it", "WindowRegroup(groupBy=["),
        ("a full join of windows", "WindowJoin(joinType=[FullOuter], on=["),
    ):
        lines = explain_stream(streams.step(QUERIES[name]), 8, "min").splitlines()
        (found,) = [n for n, line in enumerate(lines) if line.startswith(head)]
        assert lines[found + 1] == "  no state: all results of a window arrive in one micro-batch"


def test_explain_shows_what_a_stream_keeps_and_waits_for(streams):
    streams.table("events", SCHEMA, "ts")
    text = explain_stream(streams.step(QUERIES["cascade"]), 8, "min")
    assert text == (
        "== Stream ==\n"
        "StreamWindowOperator(number=[0], window=[TUMBLE(time_col=[ts], size=[30 s])]):\n"
        "  watermark: of events; never decreases\n"
        "  key groups: 8, by k\n"
        "  state: one partial per key and open window: k, $slice_end, n$0, s$0\n"
        "  slice store: plain, because a window is one slice\n"
        "  a window is emitted when the watermark reaches its end; rows that arrive later are "
        "late: dropped and counted\n"
        "StreamWindowOperator(number=[1], window=[TUMBLE(time_col=[t], size=[5 min])]):\n"
        "  watermark: of window operator 0; never decreases\n"
        "  key groups: 1, because the query has no keys\n"
        "  state: one partial per key and open window: $slice_end, $agg0$0, $agg1$0\n"
        "  slice store: plain, because a window is one slice\n"
        "  a window is emitted when the watermark reaches its end; rows that arrive later are "
        "late: dropped and counted\n"
    )
