"""RANGES over random rows and ranges, against a loop over all pairs."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from sqlwin.session import Session
from tests.unstarted import unstarted_spark

# Around the hour that clocks of Berlin repeat; they also skip one hour at another seed
STARTS = (datetime(2026, 10, 25), datetime(2026, 3, 29), datetime(1969, 12, 31, 20))  # noqa: DTZ001
ZONES = ("UTC", "Europe/Berlin", "America/New_York")
Range = tuple[str, datetime, datetime]


class Case:
    """Random rows and ranges."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.zone = draw.choice(ZONES)
        first = draw.choice(STARTS)

        def time() -> datetime | None:
            if draw.random() < 0.1:
                return None
            return first + timedelta(minutes=draw.choice((5, 15, 30)) * draw.randrange(20))

        n_rows, n_ranges = draw.randrange(40), draw.randrange(12)
        self.rows = [(draw.randrange(-5, 6), draw.choice("ab"), time()) for _ in range(n_rows)]
        ranges = [(time(), time()) for _ in range(n_ranges)]
        ranges += [draw.choice(ranges) for _ in range(3) if ranges]
        ranges += [(time(), draw.choice(ranges)[1]) for _ in range(3) if ranges]
        self.ranges = [(f"r{i}", *bounds) for i, bounds in enumerate(ranges)]

    def wall(self, time: datetime) -> datetime:
        return time.replace(tzinfo=UTC).astimezone(ZoneInfo(self.zone)).replace(tzinfo=None)

    def create(self, session: sqlwin.Session, directory: Path) -> None:
        """Create t(v, k, ts, at) and b(name, s, e, si, ei); `at`, `si`, `ei` are instants."""
        plain, instant = pa.timestamp("us"), pa.timestamp("us", "UTC")
        v, k, ts = zip(*self.rows, strict=True) if self.rows else ((), (), ())
        name, s, e = zip(*self.ranges, strict=True) if self.ranges else ((), (), ())
        tables = {
            "t": {
                "v": pa.array(v, pa.int32()),
                "k": pa.array(k, pa.string()),
                "ts": pa.array(ts, plain),
                "at": pa.array(ts, plain).cast(pa.int64()).cast(instant),
            },
            "b": {
                "name": pa.array(name, pa.string()),
                "s": pa.array(s, plain),
                "e": pa.array(e, plain),
                "si": pa.array(s, plain).cast(pa.int64()).cast(instant),
                "ei": pa.array(e, plain).cast(pa.int64()).cast(instant),
            },
        }
        session.execute(f"SET 'table.local-time-zone' = '{self.zone}'")
        for table, columns in tables.items():
            (directory / table).mkdir()
            pq.write_table(pa.table(columns), directory / table / "rows.parquet")
            session.execute(
                f"CREATE TABLE {table} WITH ('connector' = 'filesystem', "
                f"'path' = '{directory / table}', 'format' = 'parquet')"
            )

    def pairs(self, time: str, starts: str) -> list[tuple[int, str, datetime, Range]]:
        """Return rows with a range that contains them; window bounds are on the wall clock."""
        is_instants = time == "at" and starts == "si"

        def compared(value: datetime, name: str) -> datetime:
            return value if is_instants or name in ("ts", "s") else self.wall(value)

        def shown(value: datetime) -> datetime:
            return self.wall(value) if starts == "si" else value

        return [
            (v, k, at, (name, shown(start), shown(end)))
            for v, k, at in self.rows
            for name, start, end in self.ranges
            if None not in (at, start, end)
            and compared(start, starts) <= compared(at, time) < compared(end, starts)
        ]


def check(session: sqlwin.Session, case: Case, time: str, bounds: tuple[str, str]) -> None:
    call = f"TABLE(RANGES(TABLE t, DESCRIPTOR({time}), (SELECT name, {', '.join(bounds)} FROM b), "
    call += f"DESCRIPTOR({', '.join(bounds)})))"
    pairs = case.pairs(time, bounds[0])

    def rows_of(sql: str) -> list[tuple]:
        (result,) = session.execute(sql.format(call))
        return sorted((tuple(row.values()) for row in result.to_arrow().to_pylist()), key=repr)

    assert rows_of("SELECT v, k, name, window_start, window_end FROM {}") == sorted(
        [(v, k, *window) for v, k, _, window in pairs], key=repr
    )
    groups: dict[tuple, list[int]] = defaultdict(list)
    ends: dict[datetime, list[int]] = defaultdict(list)
    for v, k, _, window in pairs:
        groups[(k, *window)].append(v)
        ends[window[2]].append(v)
    by = "k, name, window_start, window_end"
    grouped = f"SELECT {by}, COUNT(*) AS c, SUM(v) AS s FROM {{}} GROUP BY {by}"
    results = [(*key, len(values), sum(values)) for key, values in groups.items()]
    assert rows_of(f"{grouped} HAVING COUNT(*) > 1") == sorted(
        [row for row in results if row[-2] > 1], key=repr
    )
    assert rows_of("SELECT window_end, MAX(v) AS m FROM {} WHERE v > 0 GROUP BY window_end") == (
        sorted(
            [(end, max(vs)) for end, vs in ends.items() if max(vs) > 0],
            key=repr,
        )
    )
    ranked = f"""SELECT * FROM (SELECT *, RANK() OVER (
        PARTITION BY window_start, window_end ORDER BY s DESC) AS r FROM ({grouped})) WHERE r = 1"""
    assert rows_of(ranked) == sorted([(*row, 1) for row in first_of(results)], key=repr)


def first_of(results: Sequence[tuple]) -> list[tuple]:
    """Return the results with the greatest sum of the ranges with the same bounds."""
    greatest = {
        window: max(r[-1] for r in results if r[2:4] == window)
        for window in {r[2:4] for r in results}
    }
    return [r for r in results if r[-1] == greatest[r[2:4]]]


@pytest.mark.parametrize("seed", range(12))
def test_rows_are_in_the_ranges_that_contain_them(seed: int, tmp_path: Path) -> None:
    session, case = Session(unstarted_spark(), settings={}), Case(seed)
    case.create(session, tmp_path)
    for time, bounds in (("ts", ("s", "e")), ("at", ("si", "ei")), ("at", ("s", "e"))):
        check(session, case, time, bounds)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 104))
def test_so_are_they_on_spark(seed: int, fresh_session: sqlwin.Session, tmp_path: Path) -> None:
    fresh_session.execute("SET 'sqlwin.in-process.max-bytes' = '0'")
    case = Case(seed)
    case.create(fresh_session, tmp_path)
    for time, bounds in (("ts", ("s", "e")), ("at", ("si", "ei")), ("at", ("s", "e"))):
        check(fresh_session, case, time, bounds)
