"""Queries over columns of every type, in every construct that groups, orders or compares them."""

from __future__ import annotations

from tests.fuzz.choices import Choices

TYPES = (
    "v", "k", "d", "ts", "v > 1", "CAST(v AS TINYINT)", "CAST(d AS FLOAT)", "CAST(ts AS DATE)",
    "CAST(v AS DECIMAL(38, 18))", "CAST(k AS BINARY)", "NULL", "INTERVAL '1' MINUTE * v",
    "INTERVAL '1' MONTH * v",
)  # fmt: skip
NESTED = (
    "array({}, NULL)", "array({}, {})", "named_struct('a', {}, 'b', k)", "map('k', {})",
    "array(named_struct('a', {}))", "split(k, ',')", "array(array({}))",
)  # fmt: skip
WINDOW = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTES))"
BOUNDS = "window_start, window_end"
SIDE = f"(SELECT * FROM {WINDOW})"
SAME_WINDOW = "l.window_start = r.window_start AND l.window_end = r.window_end"
CONSTRUCTS = (
    "SELECT * FROM t",
    "SELECT a, COUNT(*) AS n FROM t GROUP BY a",
    "SELECT DISTINCT a FROM t",
    "SELECT a FROM t ORDER BY a DESC",
    "SELECT a FROM t ORDER BY a LIMIT 1",
    "SELECT a FROM t UNION SELECT a FROM t",
    "SELECT a = a AS e, a < a AS l, COALESCE(a, a) AS c FROM t",
    *(
        f"SELECT window_end, {call} AS r FROM {WINDOW} GROUP BY {BOUNDS}"
        for call in (
            "MIN(a)", "MAX(a)", "FIRST_VALUE(a)", "ANY_VALUE(a)", "COUNT(DISTINCT a)", "MODE(a)",
            "APPROX_COUNT_DISTINCT(a)", "ARRAY_AGG(a)", "COLLECT_SET(a)", "MIN_BY(v, a)",
            "MAX_BY(a, v)", "SUM(a)", "AVG(a)", "MEDIAN(a)", "LISTAGG(a)",
        )
    ),
    f"SELECT a, window_end, COUNT(*) AS n FROM {WINDOW} GROUP BY a, {BOUNDS}",
    f"SELECT a, window_end, COUNT(*) AS n FROM {WINDOW} GROUP BY {BOUNDS}, ROLLUP (a)",
    f"SELECT a, {BOUNDS}, COUNT(*) AS n FROM {WINDOW} GROUP BY a, {BOUNDS} FILL (n = 0)",
    f"SELECT k, {BOUNDS}, MAX(a) AS m FROM {WINDOW} GROUP BY k, {BOUNDS} FILL (m = LOCF)",
    "SELECT a, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE t PARTITION BY a, "
    f"DESCRIPTOR(ts), INTERVAL '5' MINUTES)) GROUP BY a, {BOUNDS}",
    "SELECT * FROM TABLE(GAP_FILL(TABLE t PARTITION BY a, DESCRIPTOR(ts), INTERVAL '5' MINUTES))",
    "SELECT * FROM TABLE(GAP_FILL(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' MINUTES, "
    "FILL => (a = LINEAR)))",
    f"SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {BOUNDS}, a ORDER BY v) AS rn "
    f"FROM {WINDOW}) WHERE rn = 1",
    f"SELECT * FROM (SELECT *, RANK() OVER (PARTITION BY {BOUNDS} ORDER BY a) AS rn "
    f"FROM {WINDOW}) WHERE rn = 1",
    f"SELECT l.a, r.v FROM {SIDE} l JOIN {SIDE} r ON l.a = r.a AND {SAME_WINDOW}",
    f"SELECT l.a, r.v FROM {SIDE} l FULL JOIN {SIDE} r ON l.a = r.a AND {SAME_WINDOW}",
    "SELECT l.a, r.v FROM t l ASOF JOIN t r ON l.a = r.a AND l.ts >= r.ts",
)  # fmt: skip
ROWS = (
    "(1, TIMESTAMP_NTZ '2026-01-01 10:00:00', 'a,b', 0.0D)",
    "(2, TIMESTAMP_NTZ '2026-01-01 10:01:00', 'a', CAST('NaN' AS DOUBLE))",
    "(1, TIMESTAMP_NTZ '2026-01-01 10:33:00', 'a,b', -0.0D)",
    "(NULL, TIMESTAMP_NTZ '2026-01-01 10:34:00', NULL, NULL)",
)


def draw_query(seed: int) -> str:
    """Return a query with a column `a` of a random type."""
    draw = Choices(seed)
    expression = draw.one_of(TYPES)
    # nested types need Spark, so most runs have only their planning
    for _ in range(draw.one_of([0, 0, 0, 1, 2])):
        shape = draw.one_of(NESTED)
        expression = shape.replace("{}", expression)
    rows = ", ".join(ROWS[: draw.between(1, len(ROWS) + 1)])
    return (
        f"WITH t AS (SELECT *, {expression} AS a FROM (SELECT * FROM VALUES {rows} "
        f"AS b(v, ts, k, d))) {draw.one_of(CONSTRUCTS)}"
    )
