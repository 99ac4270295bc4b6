"""Every kind of window in every shape of query: a stream gives the rows of the batch.

All shapes of a kind are one query, a UNION ALL of rows as text, so that one stream runs them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sqlwin
from tests.end_to_end.streams.streams import Streams
from tests.marks import among

pytestmark = pytest.mark.long

KINDS = {
    "tumble": "TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '20' SECONDS)",
    "hop": "HOP(TABLE {}, DESCRIPTOR(ts), INTERVAL '10' SECONDS, INTERVAL '25' SECONDS)",
    "cumulate": "CUMULATE(TABLE {}, DESCRIPTOR(ts), INTERVAL '10' SECONDS, INTERVAL '30' SECONDS)",
    "session": "SESSION(TABLE {} PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' SECONDS)",
}
SCHEMA = "ts timestamp_ntz, k string, v bigint, x double"
COUNTS = """
    SELECT k, window_start, window_end, window_time, COUNT(*) AS n, SUM(v) AS s
    FROM {window} WHERE k <> '{not_k}' GROUP BY k, window_start, window_end, window_time"""
ON = "a.window_start = b.window_start AND a.window_end = b.window_end"


def join_query(kind: str, columns: str = "a.k, a.n, a.window_end, b.k, b.s, b.window_end") -> str:
    """Return a join of two window aggregations on equal keys and on their common columns."""
    return f"""SELECT {columns} FROM ({COUNTS.replace("{not_k}", "c")}) AS a
        {kind} ({COUNTS.replace("{not_k}", "a")}) AS b ON {ON} AND a.k = b.k AND a.s + b.n > 100"""


SHAPES = {
    "no aggregate": "SELECT ts, k, v, x, window_start, window_end, window_time FROM {window}",
    "aggregate": COUNTS.replace("{not_k}", "none"),
    "cascade": f"""SELECT window_end, SUM(n) AS n FROM TABLE(TUMBLE(
        TABLE (SELECT window_time AS t, n FROM ({COUNTS.replace("{not_k}", "c")})), DESCRIPTOR(t), INTERVAL '1' MINUTE))
        GROUP BY window_start, window_end""",
    "the same window again": f"""SELECT window_end, MAX(n) AS most, COUNT(*) AS n
        FROM ({COUNTS.replace("{not_k}", "c")}) GROUP BY window_start, window_end""",
    "distinct": "SELECT DISTINCT window_end, k, window_start, v > 50 AS high FROM {window} WHERE v > 20",
    "distinct windows": f"SELECT DISTINCT window_start, window_end FROM ({COUNTS.replace('{not_k}', 'c')}) WHERE n > 3",
    "aggregate of window columns": """SELECT window_end, MAX(TIMESTAMPDIFF(SECOND, ts, window_end)) AS d
        FROM {window} GROUP BY window_start, window_end""",
    "grouping sets": """SELECT k, x, window_end, GROUPING(x) AS all_x, COUNT(*) AS n, SUM(v) AS s
        FROM {window} GROUP BY window_start, window_end, k, ROLLUP (x)""",
    "texts": """SELECT window_end, LISTAGG(k) AS ks, LISTAGG(DISTINCT k) AS each_k, LISTAGG(CAST(v AS STRING), ' ') FILTER (WHERE v > 50) AS vs,
        COUNT(*) AS n FROM {window} GROUP BY window_start, window_end""",
    "top-n of rows": """SELECT k, v, ts, window_end, rn FROM (SELECT *,
          ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v DESC, ts, k, x) AS rn
          FROM {window} WHERE v > 10) WHERE rn <= 3""",
    "top-n of aggregates": f"""SELECT k, n, window_end FROM ({COUNTS.replace("{not_k}", "d")})
        QUALIFY RANK() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, s, k) <= 2""",
    "first row": """SELECT k, v, x, window_end FROM {window} WHERE v IS NOT NULL
        QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY ts) = 1""",
    "last row": """SELECT k, v, window_end FROM (SELECT *,
          ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY ts DESC) AS rn
          FROM {window}) WHERE rn = 1""",
    "join of rows": f"""SELECT a.ts, a.k, b.ts, b.v, a.window_end
        FROM (SELECT * FROM {{window}} WHERE v < 30) AS a JOIN (SELECT * FROM {{window}} WHERE v > 70) AS b
        ON {ON} AND a.k = b.k AND a.v < b.v - 50""",
    "inner": join_query("JOIN"),
    "left": join_query("LEFT JOIN"),
    "right": join_query("RIGHT JOIN"),
    "full": join_query("FULL JOIN"),
    "semi": join_query("LEFT SEMI JOIN", "a.k, a.n, a.window_end"),
    "anti": join_query("LEFT ANTI JOIN", "a.k, a.n, a.window_end"),
    "full using": f"""SELECT k, a.n, b.s, window_end, a.window_start
        FROM ({COUNTS.replace("{not_k}", "c")}) AS a FULL JOIN ({COUNTS.replace("{not_k}", "a")}) AS b
        USING (window_start, window_end, k)""",
    "natural": f"""SELECT k, n, window_end, b.most FROM ({COUNTS.replace("{not_k}", "c")}) AS a
        NATURAL LEFT JOIN (SELECT k, window_end, MAX(v) AS most FROM {{window}} WHERE v > 60
        GROUP BY k, window_start, window_end) AS b""",
    "in": f"""SELECT a.ts, a.k, a.window_end FROM {{window}} AS a WHERE a.k IN (
        SELECT b.k FROM {{window}} AS b WHERE {ON} AND b.v > 90)""",
    "not in": f"""SELECT a.ts, a.k, a.window_end FROM {{window}} AS a WHERE a.k NOT IN (
        SELECT b.k FROM {{window}} AS b WHERE {ON} AND b.v > 90)""",
    "not exists": f"""SELECT a.ts, a.k, a.window_end FROM {{window}} AS a WHERE NOT EXISTS (
        SELECT 1 FROM {{window}} AS b WHERE {ON} AND b.v = 50 AND b.k = a.k)""",
    "first row after a join": f"""SELECT k, bk, window_end FROM (
        SELECT a.k, b.k AS bk, a.window_start, a.window_end, a.window_time
        FROM ({COUNTS.replace("{not_k}", "c")}) AS a JOIN ({COUNTS.replace("{not_k}", "a")}) AS b
        ON {ON} AND a.s <= b.s + 100)
        QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY bk, window_time) = 1""",
    "window after a join": f"""SELECT window_end, SUM(n) AS n, COUNT(*) AS pairs FROM TABLE(TUMBLE(TABLE (
        SELECT a.window_time AS t, a.n + b.n AS n FROM ({COUNTS.replace("{not_k}", "c")}) AS a
        JOIN ({COUNTS.replace("{not_k}", "a")}) AS b ON {ON} AND a.k = b.k),
        DESCRIPTOR(t), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end""",
    "wider windows joined": f"""SELECT a.window_end, a.n, b.v FROM (
        SELECT window_start, window_end, SUM(n) AS n FROM TABLE(TUMBLE(TABLE (
          SELECT window_time AS t, n FROM ({COUNTS.replace("{not_k}", "c")})),
          DESCRIPTOR(t), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end) AS a
        LEFT JOIN TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) AS b
        ON {ON} AND b.v > 95""",
}  # fmt: skip


def events(n_rows: int, start_s: int, seed: int) -> pa.Table:
    """Return rows in order of time, all with different times. One row occurs twice."""
    rng = np.random.default_rng(seed)
    tenths = np.sort(
        rng.choice(np.arange(start_s * 10, (start_s + 60) * 10), n_rows, replace=False)
    )
    rows = pa.table(
        {
            "ts": pa.array(tenths * 100_000, pa.timestamp("us"), mask=rng.random(n_rows) < 0.03),
            "k": pa.array(np.array(["a", "b", "c"])[rng.integers(0, 3, n_rows)]),
            "v": pa.array(rng.integers(1, 100, n_rows), pa.int64(), mask=rng.random(n_rows) < 0.03),
            "x": pa.array(rng.choice([0.5, 1.0, np.nan, np.inf], n_rows)),
        }
    )
    return rows


# Spark computes grouping sets of sessions, over rows
WITHOUT = {("session", "grouping sets")}

# Kinds that buffer rows run once in each run of the suite; the whole matrix takes too long.
QUICK = ("no aggregate", "first row", "in")


def union(kind: str, shapes: tuple[str, ...]) -> str:
    """Return a UNION ALL of some shapes over one kind of window."""
    window = f"TABLE({KINDS[kind].format('events')})"
    return "\nUNION ALL\n".join(
        f"SELECT '{shape}' AS shape, CAST(STRUCT(*) AS STRING) AS row "
        f"FROM ({SHAPES[shape].replace('{window}', window)})"
        for shape in shapes
    )


@pytest.fixture
def check(fresh_session: sqlwin.Session, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Return a function that compares a stream of two micro-batches with the batch."""
    spark = fresh_session.spark
    before = str(spark.conf.get("spark.sql.shuffle.partitions"))
    spark.conf.set("spark.sql.shuffle.partitions", "1")

    def compare(kind: str, shapes: tuple[str, ...]) -> None:
        parts = [events(60, 60 * i, i) for i in range(2)]
        parts[1] = pa.concat_tables([parts[1].slice(0, 1), parts[1]])
        streams = Streams(fresh_session, tmp_path)
        streams.table("events", SCHEMA, "ts", "ts - INTERVAL '1' SECOND")
        for part in parts:
            streams.write("events", part)
        sql = union(kind, shapes)
        result = streams.rows(sql)
        fresh_session.register("events", spark.createDataFrame(pa.concat_tables(parts)))
        expected = sorted((tuple(row) for row in fresh_session.sql(sql).collect()), key=str)
        for shape in shapes:
            of_shape = [row for row in expected if row[0] == shape]
            assert of_shape, f"{shape} shows nothing"
            assert [row for row in result if row[0] == shape] == of_shape
        assert len(result) == len(expected)

    yield compare
    spark.conf.set("spark.sql.shuffle.partitions", before)


def test_rows_of_sessions_are_ranked_joined_and_emitted_as_in_a_batch(
    check: Callable[..., None],
) -> None:
    check("session", QUICK)


FIRST = range(0, len(SHAPES), 5)


@pytest.mark.parametrize("first", among(FIRST, slow=FIRST[1:]))
@pytest.mark.parametrize("kind", among(KINDS, slow=["tumble", "cumulate"]))
def test_a_stream_gives_the_rows_of_the_batch_in_every_shape(
    kind: str, first: int, check: Callable[..., None]
) -> None:
    shapes = tuple(SHAPES)[first : first + 5]
    check(kind, tuple(s for s in shapes if (kind, s) not in WITHOUT))
