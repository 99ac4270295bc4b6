"""Streams whose rows are known by definition, for finding faults."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from runtime.simulator.arrivals import cut_at_every_row
from runtime.simulator.check import Defined, SimulatedStream, disagreement, final_rows_of
from runtime.simulator.compare import Row, difference
from runtime.spec.thresholds import Thresholds
from runtime.windows import Window
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from sqlwin.testing.simulated import stream_over
from tests.reference import windows_of
from tests.runtime.simulator.queries import (
    ON_WHOLE_WINDOWS,
    START,
    of_window,
    rows_table,
    simulated,
    stream,
)
from tests.runtime.simulator.test_all_time import CHANGES, groups_of
from tests.runtime.simulator.test_changelog import AGGREGATES as CALLS
from tests.runtime.simulator.test_changelog import by_definition, changes, grouped
from tests.runtime.simulator.test_changing_results import GROUPS
from tests.runtime.simulator.test_filtered_changes import (
    test_kinds_of_a_count_between_two_limits as check_filtered_groups,
)
from tests.runtime.streaming.operators.test_all_time import (
    test_changes_give_the_rows_that_remain_and_deleted_keys_leave_no_state as check_state_of_groups,
)
from tests.runtime.streaming.operators.test_expiry import (
    test_a_last_row_that_is_dropped_is_first_again as check_expired_row,
)
from tests.runtime.streaming.operators.test_expiry import (
    test_an_expired_key_begins_anew_and_its_deletion_is_ignored as check_expired_group,
)

SECOND = 1_000_000
SPECS: dict[str, Window] = {
    "tumble": Tumble(5 * SECOND),
    "tumble_offset": Tumble(5 * SECOND, 2 * SECOND),
    "hop": Hop(2 * SECOND, 6 * SECOND),
    "hop_uneven": Hop(4 * SECOND, 10 * SECOND),
    "hop_many": Hop(1 * SECOND, 20 * SECOND),
    "cumulate": Cumulate(3 * SECOND, 12 * SECOND),
}
GAP_MS = 3_000
N_HISTORIES = 3
DELAY_MS = 2_000
LATENESS = (("table.exec.emit.allow-lateness", "5 s"),)
EARLY = (
    *LATENESS,
    ("table.exec.emit.early-fire.enabled", "true"),
    ("table.exec.emit.early-fire.delay", "0 s"),
)
CASCADE = """
    SELECT window_start, window_end, SUM(n) AS n FROM TABLE(TUMBLE((
      SELECT window_time AS wt, k, COUNT(*) AS n
      FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECONDS))
      GROUP BY k, window_start, window_end, window_time
    ), DESCRIPTOR(wt), INTERVAL '20' SECONDS)) GROUP BY window_start, window_end"""
UPDATED_RANK = """
    SELECT * FROM (SELECT *, ROW_NUMBER() OVER (
      PARTITION BY window_start, window_end ORDER BY n DESC, k) AS r
    FROM (SELECT k, window_start, window_end, COUNT(*) AS n
      FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECONDS))
      GROUP BY k, window_start, window_end)) WHERE r <= 1"""
UNION = """
    SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE((
      SELECT ts, k FROM t UNION ALL SELECT ts, k FROM u WHERE v >= 0
    ), DESCRIPTOR(ts), INTERVAL '5' SECONDS)) GROUP BY window_start, window_end"""
JOIN = """
    SELECT a.window_end, a.n, b.n AS m FROM (
      SELECT window_start, window_end, k, COUNT(*) AS n
      FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECONDS))
      GROUP BY window_start, window_end, k) AS a
    FULL JOIN (SELECT window_start, window_end, k, COUNT(*) AS n
      FROM TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '5' SECONDS))
      GROUP BY window_start, window_end, k) AS b
    ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k"""

Settings = tuple[tuple[str, str], ...]
# A row: time in ms, key, and two values
Input = tuple[int | None, str | None, int | None, float | None]


def rows_of(seed: int, n_rows: int = 60) -> list[Input]:
    """Return rows in the order of their times, with ties, NULLs and edges of windows."""
    draw = random.Random(seed)
    edges = [second * 1_000 + ms for second in range(0, 41) for ms in (-2, -1, 0, 1, 999)]
    rows: list[Input] = []
    for _ in range(n_rows):
        time = draw.choice([draw.randrange(40_000), draw.choice(edges), draw.choice(edges)])
        key, value = draw.choice(["a", "b", "c", None]), draw.choice([None, *range(-4, 5)])
        rows.append((time, key, value, draw.choice([None, 0.5, -1.25, 3.0])))
    rows.sort(key=lambda row: row[0])
    rows.insert(n_rows // 2, (None, "a", 1, 1.0))
    # exactly the gap of a session apart, and a millisecond more
    apart = [50_000, 50_000 + GAP_MS, 60_000, 60_001 + GAP_MS]
    return [*rows, *((time, "d", 1, 1.0) for time in apart)]


def expected_rows(name: str, rows: list[Input]) -> list[Row]:
    """Return the rows of a window aggregation by definition."""
    groups: dict[tuple[object, int, int], list[Input]] = defaultdict(list)
    if name == "session":
        for row in rows:
            if row[0] is None:
                continue
            for group in [g for g in groups if g[0] == row[1]]:
                if group[1] <= row[0] + GAP_MS and row[0] <= group[2]:
                    members = [*groups.pop(group), row]
                    times = [member[0] for member in members]
                    groups[row[1], min(times), max(times) + GAP_MS] = members
                    break
            else:
                groups[row[1], row[0], row[0] + GAP_MS] = [row]
    else:
        for row in rows:
            if row[0] is not None:
                for start, end in windows_of(SPECS[name], row[0], 1_000):
                    groups[row[1], start, end].append(row)
    return [_aggregate(group, members) for group, members in groups.items()]


def _aggregate(group: tuple[object, int, int], members: list[Input]) -> Row:
    key, start, end = group
    values = [value for _, _, value, _ in members if value is not None]
    floats = [value for *_, value in members if value is not None]
    return {
        "k": key,
        "window_start": _time(start),
        "window_end": _time(end),
        "n": len(members),
        "s": sum(values) if values else None,
        "lo": min(values, default=None),
        "hi": max(values, default=None),
        "a": math.fsum(floats) / len(floats) if floats else None,
    }


def _time(ms: int) -> object:
    import datetime as dt

    return START + dt.timedelta(milliseconds=ms)


def problems(first: str = "") -> Iterator[str]:
    """Yield each fault with the seed of its history or rows.

    Args:
        first: Section to begin with. All of them run.
    """
    sections = _sections()
    for name in sorted(sections, key=lambda name: name != first):
        yield from sections[name]()


def _sections() -> dict[str, Callable[[], Iterator[str]]]:
    """Return the parts of the battery by name."""
    rows = rows_of(3)
    sections: dict[str, Callable[[], Iterator[str]]] = {}
    for name in ("tumble", "hop", "cumulate", "session"):
        sections[f"late {name}"] = partial(_of_late_rows, name)
    sections["union"] = partial(_of_two_tables, "union", UNION)
    sections["join"] = partial(_of_two_tables, "join", JOIN)
    for name in (*SPECS, "session"):
        sections[name] = partial(_of_window, name, name, rows)
    for name in ("tumble", "hop", "cumulate", "hop_many", "session"):
        for kind, settings in (("lateness", LATENESS), ("early", EARLY)):
            title = f"{kind} {name}"
            sections[title] = partial(_of_window, title, name, rows, settings)
    sections["early rank"] = partial(_of_query, "early rank", UPDATED_RANK, rows, EARLY)
    for name in ("hop_many", "tumble", "session", "cumulate"):
        title = f"small {name}"
        sections[title] = partial(_of_window, title, name, rows, is_small=True)
    for title, sql in {"cascade": CASCADE, **ON_WHOLE_WINDOWS}.items():
        sections[title] = partial(_of_query, title, sql, rows)
    sections["results that change"] = _of_results_that_change
    for kind, settings in (("", ()), ("early ", EARLY)):
        title = f"{kind}changes"
        sections[title] = partial(_of_changes, title, settings)
    sections["groups"] = _of_groups
    return sections


def _of_results_that_change() -> Iterator[str]:
    """Groups over last rows: in the sink, and in state, as in batch."""
    of = stream(GROUPS["last rows"], rows_of(3))
    yield from _of_stream("results that change", of, of.batch_rows(of.order))


def _of_changes(title: str, settings: Settings) -> Iterator[str]:
    """Aggregates of rows that are updated and deleted."""
    rows = changes(5, 60)
    of = stream(grouped("hop", CALLS), rows, settings=settings)
    yield from _of_stream(title, of, by_definition(rows, 2, 6, CALLS))


def _of_groups() -> Iterator[str]:
    """Groups without a window over rows that are updated and deleted, and what state keeps."""
    rows = changes(5, 40)
    yield from _of_stream("groups", stream(CHANGES["groups"], rows), groups_of(rows, "groups"))
    checks = {
        "state of groups": partial(check_state_of_groups, 0),
        "an expired group": check_expired_group,
        "an expired first row": check_expired_row,
        "filtered groups": check_filtered_groups,
    }
    for title, check in checks.items():
        try:
            check()
        except AssertionError as error:
            yield f"{title}: {error}"


def _of_window(
    title: str, name: str, rows: list[Input], settings: Settings = (), *, is_small: bool = False
) -> Iterator[str]:
    of = stream(of_window(name), rows, settings=settings)
    of = _with_thresholds(of) if is_small else of
    yield from _of_stream(title, of, expected_rows(name, rows))


def _of_query(title: str, sql: str, rows: list[Input], settings: Settings = ()) -> Iterator[str]:
    of = stream(sql, rows, settings=settings)
    defined = of.defined(of.order)
    assert isinstance(defined, Defined) and not defined.ties, defined
    yield from _of_stream(title, of, defined.rows)


def _with_thresholds(of: SimulatedStream) -> SimulatedStream:
    """Return a stream with running aggregates from the start, and sub-buckets."""
    thresholds = Thresholds(spans_min_rows=0, spans_min_slices_per_key=0)
    return replace(of, options=replace(of.options, thresholds=thresholds, bucket_bytes=200))


def _of_stream(name: str, of: SimulatedStream, expected: list[Row]) -> Iterator[str]:
    mismatch = difference(expected, of.batch_rows(of.order))
    if mismatch is not None:
        yield f"{name}: batch differs from the definition"
    n_null_times = sum(time is None for time in next(iter(of.tables.values())).times_us)
    histories = [(None, cut_at_every_row(of.order, of.shape))] if not of.shape.late else []
    histories += [(seed, of.history(seed)) for seed in range(N_HISTORIES)]
    for seed, history in histories:
        found = disagreement(of, history, expected, seed)
        if found is not None:
            yield f"{name}, seed {seed}: {found.reason}"
        elif len(of.tables) == len(of.query.operators) == 1:
            counted = sum(batch.n_null_times for batch in of.run(history).batches)
            if counted != n_null_times:
                yield f"{name}, seed {seed}: {counted} rows without a time, not {n_null_times}"


def _of_late_rows(name: str) -> Iterator[str]:
    """Compare late rows with a model that takes them one by one."""
    shuffled = [row for row in rows_of(4, 40) if row[0] is not None]
    random.Random(5).shuffle(shuffled)
    # each second row arrives a millisecond before or after the watermark reaches its window's end
    edges: list[Input] = [
        row
        for end in range(5_000, 60_000, 5_000)
        for first, second in ((end + 1_998, end - 1), (end + 1_999, end - 2))
        for row in ((first, "a", 1, 0.5), (second, "b", 2, 1.5))
    ]
    for rows in (edges, shuffled) if name == "tumble" else (shuffled,):
        of = stream(of_window(name), rows)
        late, on_time = _late_by_definition(name, rows)
        for seed in (None, *range(N_HISTORIES + 1)):
            history = cut_at_every_row(of.order, of.shape) if seed is None else of.history(seed)
            if seed == N_HISTORIES:
                # each watermark of a task comes in its own record batch
                history = replace(history, batch_rows=1)
            outcome = of.run(history)
            named = sorted(number for batch in outcome.batches for number in batch.late)
            counted = sum(batch.n_late for batch in outcome.batches)
            if named != late or counted != len(late):
                yield f"late rows of {name}, seed {seed}: {named} ({counted}), not {late}"
            mismatch = difference(on_time, final_rows_of(outcome))
            if mismatch is not None:
                yield f"rows of {name} next to late rows, seed {seed}: the rows differ"


def _late_by_definition(name: str, rows: list[Input]) -> tuple[list[int], list[Row]]:
    """Return the numbers of late rows, and the windows of the others."""
    watermark = -math.inf
    late: list[int] = []
    groups: dict[tuple[object, int, int], list[Input]] = defaultdict(list)
    sessions: list[list[object]] = []
    for number, row in enumerate(rows):
        if name == "session":
            if not _joins(sessions, row, watermark):
                late.append(number)
        else:
            windows = windows_of(SPECS[name], row[0], 1_000)
            open_windows = [(s, e) for s, e in windows if e - 1 > watermark]
            if not open_windows:
                late.append(number)
            for start, end in open_windows:
                groups[row[1], start, end].append(row)
        watermark = max(watermark, row[0] - DELAY_MS)
    if name == "session":
        return late, [_aggregate((k, s, e), m) for k, s, e, m in sessions]
    return late, [_aggregate(group, members) for group, members in groups.items()]


def _joins(sessions: list[list[object]], row: Input, watermark: float) -> bool:
    """Add a row to the open sessions of its key; return False if its session has closed."""
    start, end, members = row[0], row[0] + GAP_MS, [row]
    merged = [
        s for s in sessions if s[0] == row[1] and s[1] <= end and start <= s[2] and s[2] > watermark
    ]
    for session in merged:
        start, end = min(start, session[1]), max(end, session[2])
        members = [*session[3], *members]
    if end <= watermark:
        return False
    sessions[:] = [session for session in sessions if session not in merged]
    sessions.append([row[1], start, end, members])
    return True


def _of_two_tables(name: str, sql: str) -> Iterator[str]:
    """Two tables; one lags behind the other."""
    of = simulated(sql, tables=("t", "u"))
    first, second = rows_of(6), rows_of(7, 30)
    both = stream_over(of, {"t": rows_table(first), "u": rows_table(second)})
    expected = both.batch_rows(both.order)
    for seed in range(N_HISTORIES):
        found = disagreement(both, both.history(seed), expected, seed)
        if found is not None:
            yield f"{name}, seed {seed}: {found.reason}"
    # all rows of one table first: the other one holds the watermark back
    order = (*both.tables["t"].numbers, *both.tables["u"].numbers)
    lagging = replace(both, order=order)
    found = disagreement(lagging, cut_at_every_row(order, lagging.shape), expected)
    if found is not None:
        yield f"{name} of a table that lags: {found.reason}"
