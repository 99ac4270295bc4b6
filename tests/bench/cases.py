"""The benchmark's queries in the SQL of every engine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

MINUTE_US = 60_000_000
_WINDOW = re.compile(
    r"(TUMBLE) (\d+) min|(HOP) (\d+) (s|min) / (\d+) (min|h)|(SESSION) (\d+) (s|min)"
)


@dataclass(frozen=True)
class Case:
    """A window aggregation: SUM, COUNT, AVG and MAX by key, or a count of DISTINCT values.

    Lengths are in minutes, `step` is the slide of HOP and the step of CUMULATE, `step_seconds` the
    gap of SESSION.
    """

    kind: str
    size: int
    step: int
    keys: int = 1_000
    key_type: str = "int"
    distinct: bool = False
    approximate: bool = False
    hot: float = 0.0  # fraction of the rows with the first key, in addition to its even share
    step_seconds: int = 0  # replaces `step` for slides below a minute
    n_open: int = 0  # number of sessions open at the same time, for cases about that

    @property
    def name(self) -> str:
        """Name in the table of results."""
        step = _length(self.step_us)
        window = f"{self.kind} {step}" + (f" / {_length(self.size_us)}" if self.overlap > 1 else "")
        what = ", COUNT(DISTINCT)" if self.distinct else ""
        what += ", APPROX_COUNT_DISTINCT" if self.approximate else ""
        what += f", {self.hot:.0%} of the rows on one" if self.hot else ""
        what += f", {self.n_open:,} open" if self.n_open else ""
        return f"{window}, {self.keys:,} {self.key_type} keys{what}"

    @property
    def size_us(self) -> int:
        """Length of the window."""
        return self.size * MINUTE_US

    @property
    def step_us(self) -> int:
        """Slide or step; for TUMBLE the size."""
        return self.step_seconds * 1_000_000 or self.step * MINUTE_US

    @property
    def is_of_values(self) -> bool:
        """Whether the case counts distinct values."""
        return self.distinct or self.approximate

    def rows_for(self, rows: int, most_copies: int) -> int:
        """Return the number of rows, at most `rows`, that make at most `most_copies` copies in
        windows.
        """
        copies = self.overlap if self.kind != "CUMULATE" else (self.overlap + 1) // 2
        return min(rows, most_copies // max(1, copies))

    @property
    def overlap(self) -> int:
        """Number of windows that contain a row; for CUMULATE the maximum."""
        return self.size_us // self.step_us

    def aggregates(self, sum_of: str = "price") -> str:
        """Return the aggregates, spelled alike for every engine."""
        if self.approximate:
            return "APPROX_COUNT_DISTINCT(price) AS n"
        if self.distinct:
            return "COUNT(DISTINCT price) AS n"
        return f"SUM({sum_of}) AS s, COUNT(*) AS n, AVG(val) AS a, MAX(price) AS m"

    @property
    def digest(self) -> str:
        """Return SQL for one row that differs if the result does."""
        if self.is_of_values:
            return "COUNT(*), SUM(n), MIN(n), MAX(n)"
        return "COUNT(*), SUM(s), SUM(n), SUM(a), SUM(m)"


def _length(us: int) -> str:
    for unit, width in (("d", 1440 * MINUTE_US), ("h", 60 * MINUTE_US), ("min", MINUTE_US)):
        if us % width == 0:
            return f"{us // width} {unit}"
    return f"{us // 1_000_000} s"


def sqlwin_sql(case: Case) -> str:
    """Return sqlwin's query over the table `events`."""
    step = f"INTERVAL '{case.step_us // 1_000_000}' SECOND"
    size = f"INTERVAL '{case.size}' MINUTE"
    lengths = step if case.kind in ("TUMBLE", "SESSION") else f"{step}, {size}"
    partition = " PARTITION BY key" if case.kind == "SESSION" else ""
    return (
        f"SELECT key, window_start, window_end, {case.aggregates()} "
        f"FROM TABLE({case.kind}(TABLE events{partition}, DESCRIPTOR(ts), {lengths})) "
        "GROUP BY key, window_start, window_end"
    )


def spark_sql(case: Case) -> str:
    """Return the query with Spark's own window() or session_window().

    For CUMULATE, rows are copied into their windows.
    """
    if case.kind == "SESSION":
        window = f"session_window(ts, '{case.step_us // 1_000_000} seconds')"
        return f"SELECT key, {window} AS w, {case.aggregates()} FROM events GROUP BY key, {window}"
    if case.kind != "CUMULATE":
        size, step = f"{case.size_us // 1_000_000} seconds", f"{case.step_us // 1_000_000} seconds"
        window = (
            f"window(ts, '{size}')" if case.kind == "TUMBLE" else f"window(ts, '{size}', '{step}')"
        )
        return f"SELECT key, {window} AS w, {case.aggregates()} FROM events GROUP BY key, {window}"
    us = "unix_micros(CAST(ts AS TIMESTAMP))"
    ends = (
        f"explode(sequence({us} - pmod({us}, {case.step_us}L) + {case.step_us}L, "
        f"{us} - pmod({us}, {case.size_us}L) + {case.size_us}L, {case.step_us}L))"
    )
    rows = f"SELECT key, price, val, {ends} AS e FROM events"
    return f"SELECT key, e, {case.aggregates()} FROM ({rows}) GROUP BY key, e"


def duckdb_expanding(case: Case, path: Path) -> str:
    """Return DuckDB's query: rows copied into windows; sessions by a running sum of gaps."""
    if case.kind == "SESSION":
        return _duckdb_sessions(case, path)
    step, size = case.step_us, case.size_us
    first = f"(t - t % {step} + {step})"
    last = f"(t - t % {step} + {size})" if case.kind == "HOP" else f"(t - t % {size} + {size})"
    ends = first if case.kind == "TUMBLE" else f"unnest(range({first}, {last} + 1, {step}))"
    rows = f"SELECT key, price, val, epoch_us(ts) AS t FROM '{path}/*.parquet'"
    return _with_bounds(
        case,
        f"SELECT key, e, {case.aggregates()} FROM (SELECT *, {ends} AS e FROM ({rows})) GROUP BY key, e",
    )


def _duckdb_sessions(case: Case, path: Path) -> str:
    gap = f"INTERVAL {case.step_us} MICROSECONDS"
    by_time = "OVER (PARTITION BY key ORDER BY ts)"
    return (
        f"SELECT key, MIN(ts) AS window_start, MAX(ts) + {gap} AS window_end, {case.aggregates()} "
        f"FROM (SELECT *, SUM(is_first) {by_time} AS session FROM "
        f"(SELECT *, CAST(ts - LAG(ts) {by_time} <= {gap} IS NOT TRUE AS INT) AS is_first "
        f"FROM '{path}/*.parquet')) GROUP BY key, session"
    )


def _with_bounds(case: Case, windows: str) -> str:
    """Replace the window end in microseconds by sqlwin's window columns."""
    start = f"(e - 1) // {case.size_us} * {case.size_us}"
    if case.kind != "CUMULATE":
        start = f"e - {case.size_us}"
    return (
        f"SELECT * EXCLUDE (e), make_timestamp({start}) AS window_start, "
        f"make_timestamp(e) AS window_end FROM ({windows})"
    )


def duckdb_slices(case: Case, path: Path) -> str | None:
    """Return DuckDB's query with hand-written slices: GROUP BY rows, then copy slices.

    None if impossible.
    """
    if case.is_of_values or case.kind in ("TUMBLE", "SESSION"):
        return None
    step, size = case.step_us, case.size_us
    slices = (
        f"SELECT key, epoch_us(ts) // {step} * {step} + {step} AS e, SUM(price) AS s, COUNT(*) AS n, "
        f"SUM(val) AS v, COUNT(val) AS c, MAX(price) AS m FROM '{path}/*.parquet' GROUP BY ALL"
    )
    last = f"e + {size} - {step}" if case.kind == "HOP" else f"(e - 1) // {size} * {size} + {size}"
    return _with_bounds(
        case,
        f"WITH slices AS ({slices}) SELECT key, w AS e, SUM(s) AS s, SUM(n) AS n, SUM(v) / SUM(c) AS a, "
        f"MAX(m) AS m FROM (SELECT *, unnest(range(e, {last} + 1, {step})) AS w FROM slices) GROUP BY key, w",
    )


_WINDOWS = [
    ("TUMBLE", 1, 60),
    ("HOP", 2, 60),
    ("HOP", 10, 60),
    ("HOP", 60, 60),
    ("HOP", 1440, 60),
    ("HOP", 60, 1),
    ("CUMULATE", 1440, 60),
]

# Every window with every number and type of keys; then variants of single windows.
MATRIX = [
    Case(kind, size, 0, keys=keys, key_type=key_type, step_seconds=seconds)
    for kind, size, seconds in _WINDOWS
    for key_type in ("int", "string")
    for keys in (1_000, 1, 100_000)
] + [
    Case("TUMBLE", 1, 1, hot=0.9),
    Case("HOP", 60, 1, hot=0.9),
    Case("HOP", 60, 1, distinct=True),
    Case("HOP", 1440, 1, distinct=True),
    Case("HOP", 60, 1, approximate=True),
    Case("TUMBLE", 1440, 1440, keys=10_000_000),
    Case("TUMBLE", 1440, 1440, keys=10_000_000, distinct=True),
]

# Default cases: each window once, and HOP's difficult variants.
HEADLINES = [
    case
    for case in MATRIX
    if (case.keys == 1_000 and case.key_type == "int")
    or (case.kind == "HOP" and case.size == 60 and case.step_us == MINUTE_US)
]

# Results that a program fetches: few rows and many, and the windows that peers find expensive.
ANSWERS = [
    Case("TUMBLE", 1, 1),
    Case("TUMBLE", 1, 1, keys=100_000),
    Case("TUMBLE", 60, 60),
    Case("HOP", 60, 1),
    Case("CUMULATE", 1440, 1),
    Case("SESSION", 0, 0, step_seconds=2),
    Case("HOP", 60, 1, distinct=True),
]


def case_of(window: str, keys: int) -> Case:
    """Return the case with a window named as in the table of results.

    Raises:
        ValueError: No window has that name.
    """
    result = _WINDOW.fullmatch(window)
    if result is None:
        raise ValueError(f"no window: {window}; write TUMBLE 1 min, HOP 1 min / 1 h, SESSION 90 s")
    if result.group(1):
        size = int(result.group(2))
        return Case("TUMBLE", size, size, keys=keys)
    if result.group(8):
        gap = int(result.group(9)) * (60 if result.group(10) == "min" else 1)
        return Case("SESSION", 0, 0, keys=keys, step_seconds=gap)
    slide = int(result.group(4)) * (60 if result.group(5) == "min" else 1)
    size = int(result.group(6)) * (60 if result.group(7) == "h" else 1)
    return Case("HOP", size, 0, keys=keys, step_seconds=slide)
