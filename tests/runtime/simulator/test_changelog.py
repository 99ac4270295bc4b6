"""FROM_CHANGELOG gives the rows that remain: in batch, and in the windows of a stream."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from decimal import ROUND_HALF_UP, Decimal
from functools import reduce
from operator import xor
from statistics import fmean, median, multimode, stdev
from typing import Any

import pytest

from runtime.simulator.check import disagreement
from runtime.simulator.compare import difference
from runtime.simulator.histories import Arrival, Batch, StreamHistory
from tests.runtime.simulator.queries import START, WINDOWS, stream
from tests.runtime.simulator.test_histories import EARLY, LATENESS

Change = tuple[int, str, int | None, float | None]  # time in ms, code, v, d

DELAY_MS = 2_000
CODES = "MAP['c, r', 'INSERT', 'ub', 'UPDATE_BEFORE', 'ua', 'UPDATE_AFTER', 'd', 'DELETE']"
CHANGELOG = f"FROM_CHANGELOG(input => TABLE t, op => DESCRIPTOR(k), op_mapping => {CODES})"
# Aggregates, and their definitions over the values of v and d
AGGREGATES = {
    "COUNT(*)": lambda v, d: len(v),
    "COUNT(v)": lambda v, d: len(present(v)),
    "SUM(v)": lambda v, d: sum(present(v)) if present(v) else None,
    "MIN(v)": lambda v, d: min(present(v), default=None),
    "MAX(d)": lambda v, d: max(present(d), default=None),
    "SUM(d)": lambda v, d: sum(present(d)) if present(d) else None,
    "AVG(v)": lambda v, d: sum(present(v)) / len(present(v)) if present(v) else None,
    "AVG(d)": lambda v, d: sum(present(d)) / len(present(d)) if present(d) else None,
    "MEDIAN(v)": lambda v, d: float(median(present(v))) if present(v) else None,
    "MEDIAN_ABS_DEV(d)": lambda v, d: spread(present(d)) if present(d) else None,
    "MODE(v)": lambda v, d: min(multimode(present(v)), default=None),
    "COUNT(DISTINCT v)": lambda v, d: len(set(present(v))),
    "COUNT(DISTINCT v, d)": lambda v, d: len(set(present_pairs(v, d))),
    "SUM(DISTINCT d)": lambda v, d: sum(set(present(d))) if present(d) else None,
    "AVG(DISTINCT v)": lambda v, d: fmean(set(present(v))) if present(v) else None,
    "AVG(CAST(d AS DECIMAL(9, 1)))": lambda v, d: mean_of_decimals(present(d)),
    "STDDEV(d)": lambda v, d: stdev(present(d)) if len(present(d)) > 1 else None,
    "BIT_XOR(v)": lambda v, d: reduce(xor, present(v)) if present(v) else None,
    "BOOL_AND(d > 1)": lambda v, d: all(x > 1 for x in present(d)) if present(d) else None,
    "MAX_BY(v, d)": lambda v, d: by_order(v, d)[-1][1] if present(d) else None,
    "MIN_BY(v, d)": lambda v, d: by_order(v, d)[0][1] if present(d) else None,
    "SUM(v) FILTER (WHERE d > 1)": lambda v, d: sum_of(v, d),
}
# Those from which deleted rows are subtracted
SUBTRACTED = ("COUNT(*)", "COUNT(v)", "SUM(v)", "SUM(v) FILTER (WHERE d > 1)")


def present(values: list) -> list:
    return [value for value in values if value is not None]


def present_pairs(v: list, d: list) -> list[tuple]:
    return [pair for pair in zip(v, d, strict=True) if None not in pair]


def spread(values: list) -> float:
    """Return the median of the distances from the median."""
    return float(median(abs(value - median(values)) for value in values))


def sum_of(v: list, d: list) -> int | None:
    """Return the sum of v in rows where d is more than 1."""
    chosen = [x for x, y in zip(v, d, strict=True) if x is not None and y is not None and y > 1]
    return sum(chosen) if chosen else None


def mean_of_decimals(values: list) -> Decimal | None:
    """Return the mean with five digits after the point, rounded half up."""
    if not values:
        return None
    mean = Decimal(str(sum(values))) / len(values)
    return mean.quantize(Decimal("0.00001"), ROUND_HALF_UP)


def by_order(values: list, order: list) -> list[tuple]:
    """Return the pairs of order and value in order. NULL is the smallest value, not an order."""
    pairs = [(o, v) for v, o in zip(values, order, strict=True) if o is not None]
    return sorted(pairs, key=lambda pair: (pair[0], pair[1] is not None, pair[1] or 0))


def changes(seed: int, n: int) -> list[Change]:
    """Return random changes in their order of arrival, none of them late.

    An update may move a row to another window or group. Equal rows occur.
    """
    source = random.Random(seed)
    remaining: list[tuple[int, int | None, float | None]] = []
    last, made = 0, []

    def row() -> tuple[int, int | None, float | None]:
        time = max(0, last + source.randrange(-DELAY_MS, 3_000) // 500 * 500)
        return time, source.choice([None, 0, 1, 2, 5]), source.choice([None, 0.5, 1.5, 4.0])

    while len(made) < n:
        recent = [old for old in remaining if old[0] > last - DELAY_MS]
        kind = source.random()
        if kind < 0.5 or not recent:
            new = row()
            made.append(("c" if source.random() < 0.7 else "r", new))
        else:
            old = source.choice(recent)
            remaining.remove(old)
            if kind < 0.75:
                made.append(("d", old))
                continue
            made.append(("ub", old))
            new = row()
            made.append(("ua", new))
        remaining.append(new)
        last = max(last, new[0])
    return [(time, code, v, d) for code, (time, v, d) in made]


def remaining_rows(rows: list[Change]) -> list[tuple[int, int | None, float | None]]:
    """Return the rows that remain, by definition."""
    counts: Counter[tuple] = Counter()
    for time, code, v, d in rows:
        counts[time, v, d] += 1 if code in ("c", "r", "ua") else -1
    return list(counts.elements())


def windows(time: int, step: int, size: int) -> Iterator[int]:
    """Yield the ends in seconds of the windows that contain a time in ms."""
    first = time // (step * 1_000) * step
    for start in range(first, first - size, -step):
        if start * 1_000 <= time < (start + size) * 1_000:
            yield start + size


def by_definition(rows: list[Change], step: int, size: int, calls: Iterable[str]) -> list[dict]:
    """Return groups (v % 2) of windows with some AGGREGATES."""
    groups = defaultdict(list)
    for time, v, d in remaining_rows(rows):
        for end in windows(time, step, size):
            groups[end, None if v is None else v % 2].append((v, d))
    return [
        {
            "window_end": START + dt.timedelta(seconds=end),
            "g": key,
            **{f"a{n}": AGGREGATES[call](*zip(*of, strict=True)) for n, call in enumerate(calls)},
        }
        for (end, key), of in groups.items()
    ]


def grouped(window: str, calls: Iterable[str]) -> str:
    """Return some AGGREGATES by group over the changelog in some windows."""
    items = ", ".join(f"{call} AS a{number}" for number, call in enumerate(calls))
    over = WINDOWS[window].replace("TABLE t", "TABLE w")
    return (
        f"WITH w AS (SELECT *, v % 2 AS g FROM {CHANGELOG}) "
        f"SELECT window_end, g, {items} FROM TABLE({over}) GROUP BY window_start, window_end, g"
    )


def check(
    sql: str, rows: list[Change], expected: list[dict] | None, seed: int, **options: Any
) -> None:
    """Compare batch with the expected rows, and histories of the stream with batch."""
    of = stream(sql, list(rows), **options)
    in_batch = of.batch_rows(of.order)
    if expected is not None:
        assert difference(expected, in_batch) is None
    for number in (seed, seed + 1):
        mismatch = disagreement(of, of.history(number), in_batch, number)
        assert mismatch is None, mismatch


@pytest.mark.parametrize(("window", "step", "size"), [("tumble", 5, 5), ("hop", 2, 6)])
@pytest.mark.variants(1)
@pytest.mark.parametrize("calls", [tuple(AGGREGATES), SUBTRACTED], ids=["all", "subtracted"])
@pytest.mark.parametrize("seed", range(8))
def test_aggregates_of_windows_are_those_of_the_rows_that_remain(window, step, size, calls, seed):
    rows = changes(seed, 40)
    assert len(remaining_rows(rows)) < len(rows)
    check(grouped(window, calls), rows, by_definition(rows, step, size, calls), seed)


@pytest.mark.variants(1)
@pytest.mark.parametrize("seed", range(8))
def test_aggregates_of_sessions_are_those_of_the_rows_that_remain(seed):
    rows = changes(seed, 40)
    sessions = defaultdict(list)
    for time, v, d in sorted(remaining_rows(rows), key=lambda row: row[0]):
        of = sessions[None if v is None else v % 2]
        if not of or time - of[-1][-1][0] > 3_000:
            of.append([])
        of[-1].append((time, v, d))
    expected = [
        {
            "window_end": START + dt.timedelta(milliseconds=session[-1][0] + 3_000),
            "g": key,
            **{
                f"a{number}": AGGREGATES[call](*zip(*(r[1:] for r in session), strict=True))
                for number, call in enumerate(AGGREGATES)
            },
        }
        for key, of_key in sessions.items()
        for session in of_key
    ]
    sql = grouped("session", AGGREGATES).replace("PARTITION BY k", "PARTITION BY g")
    # a row at the watermark may extend a session that ends there
    check(sql, rows, expected, seed, delay="2.5")


def check_sessions(*batches: list[Change]) -> None:
    """Compare sessions of a stream with batch. A watermark is two seconds behind the rows."""
    sql = grouped("session", ["COUNT(*)", "SUM(v)"]).replace("PARTITION BY k", "PARTITION BY g")
    of = stream(sql, [row for rows in batches for row in rows])
    order, steps = iter(of.order), []
    for rows in batches:
        steps.append(Batch(tuple(Arrival(next(order)) for _ in rows)))
    history = StreamHistory((*steps, Batch((), has_ended=True)))
    assert disagreement(of, history, of.batch_rows(of.order)) is None


def test_an_update_is_kept_in_an_open_session_while_another_one_ends():
    update = [(4_000, "ub", 2, None), (4_000, "ua", 4, None)]
    # the watermark, 4 s, ends the first session of g = 1
    check_sessions([(0, "c", 1, None), (4_000, "c", 2, None)], [*update, (6_000, "c", 1, None)])


def test_a_row_stays_next_to_a_deletion_that_waits_for_its_insertion():
    # the watermark, 5.5 s, ends a session of the same key
    early = [(1_500, "c", 1, 4.0), (5_500, "c", 1, None), (7_500, "c", 2, 4.0)]
    check_sessions([*early, (5_500, "ub", 5, 0.5)], [(5_500, "r", 5, 0.5)])


@pytest.mark.long
@pytest.mark.parametrize(
    ("window", "step", "size", "settings"),
    [("tumble", 5, 5, EARLY), ("hop", 2, 6, LATENESS)],
    ids=["early", "lateness"],
)
def test_windows_that_are_emitted_before_and_after_their_end_are_corrected(
    window, step, size, settings
):
    rows, calls = changes(2, 40), tuple(AGGREGATES)
    expected = by_definition(rows, step, size, calls)
    check(grouped(window, calls), rows, expected, 2, settings=settings)


def rows_in(window: str) -> str:
    """Return the changelog in some windows."""
    data = f"(SELECT *, v % 2 AS g FROM {CHANGELOG} WHERE v IS NOT NULL OR d > 0)"
    return f"TABLE({WINDOWS[window].replace('TABLE t', data)})"


_BY_GROUP = (
    f"SELECT window_start, window_end, window_time, g, COUNT(*) AS n, SUM(d) AS s "
    f"FROM {rows_in('tumble')} GROUP BY window_start, window_end, window_time, g"
)
SHAPES = {
    "rows": f"SELECT * FROM {rows_in('hop')}",
    "rows of sessions": "SELECT * FROM "
    + rows_in("session").replace("PARTITION BY k", "PARTITION BY g"),
    "sessions of all groups": "SELECT window_end, COUNT(*) AS n FROM "
    + rows_in("session").replace("PARTITION BY k", "PARTITION BY g")
    + " GROUP BY window_start, window_end",
    "cumulate": f"SELECT window_end, g, COUNT(*) AS n, MAX(d) AS m FROM {rows_in('cumulate')} "
    "GROUP BY window_start, window_end, g",
    "a count": f"SELECT window_end, COUNT(*) AS n FROM {rows_in('hop')} "
    "GROUP BY window_start, window_end",
    "first and last": f"SELECT window_end, g, FIRST_VALUE(v) AS f, LAST_VALUE(d) AS l, "
    f"MIN_BY(v, d) AS b FROM {rows_in('hop')} GROUP BY window_start, window_end, g",
    "spread": f"SELECT window_end, STDDEV(d) AS e, PERCENTILE(v, 0.5) AS p FROM {rows_in('tumble')} GROUP BY window_start, window_end",
    "grouping sets": f"SELECT window_end, v, g, COUNT(*) AS n, SUM(v) AS s, MAX(d) AS m, "
    f"GROUPING(v) AS p FROM {rows_in('hop')} WHERE d > 0 "
    "GROUP BY window_start, window_end, GROUPING SETS ((v), (g), ()) HAVING COUNT(*) > 1",
    "grouping sets of rows": f"SELECT window_end, v, MAX(window_end) AS m, COUNT(*) AS n "
    f"FROM {rows_in('tumble')} GROUP BY window_start, window_end, ROLLUP (v)",
    "distinct": f"SELECT DISTINCT window_end, g FROM {rows_in('hop')}",
    "top": f"SELECT window_end, g, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, "
    f"window_end ORDER BY v DESC, d DESC, ts) AS r FROM {rows_in('tumble')}) WHERE r <= 2",
    "join": f"SELECT a.window_end, a.g, a.n, b.s FROM ({_BY_GROUP}) a JOIN ({_BY_GROUP}) b "
    "ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.n = b.n",
    "window over windows": f"SELECT window_end, SUM(n) AS n FROM TABLE(TUMBLE((SELECT g, n, "
    f"window_time AS wt FROM ({_BY_GROUP})), DESCRIPTOR(wt), INTERVAL '10' SECONDS)) "
    "GROUP BY window_start, window_end",
    "having and filter": f"SELECT window_end, g, SUM(v) AS s FROM {rows_in('hop')} WHERE d < 4 "
    "GROUP BY window_start, window_end, g HAVING COUNT(*) > 1",
}


@pytest.mark.variants(1)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(2))
def test_queries_over_windows_of_changes_give_the_rows_of_batch(shape, seed):
    check(SHAPES[shape], changes(seed, 40), None, seed)


def test_a_lost_change_is_found():
    rows = changes(3, 40)
    lost = next(place for place, row in enumerate(rows) if row[1] == "ub")
    of = stream(grouped("tumble", SUBTRACTED), rows[:lost] + rows[lost + 1 :])
    expected = by_definition(rows, 5, 5, SUBTRACTED)
    assert difference(expected, of.batch_rows(of.order)) is not None
