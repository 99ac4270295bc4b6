"""Random histories: arrival orders, micro-batches, tasks, crashes, restarts. A seed decides all.

An order of arrival is on time if no row can be late in it, however it is cut into micro-batches.
All histories with such an order give the rows of the batch query. Rows that are late in the order
in which they were given keep it, and each late row begins a micro-batch, so that it is late in all
histories.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from runtime.simulator.histories import Arrival, Batch, Crash, Restart, Step, StreamHistory, Write
from runtime.simulator.tables import TableRows

_MS_US, _SECOND_US = 1_000, 1_000_000
# Most processing time between micro-batches if rows have it: windows of any size get several
_TICKS_US = tuple(_SECOND_US * seconds for seconds in (1, 60, 3_600, 86_400))
# Approximate numbers of micro-batches: each costs some milliseconds
_CUTS = (1, 2, 4, 8, 8, 16)
# Rows of a record batch: few, so that tasks get several
_BATCH_ROWS = (3, 16, 16, 64)
# Watermarks fire windows a millisecond before their end
_FIRE_LAG_US = 1_000


@dataclass(frozen=True)
class Shape:
    """What histories may contain.

    Attributes:
        lateness_us: How long after their end windows accept rows.
        late: Numbers of rows that may be late in the given order. Then the order is kept.
        clock_us: Processing time at the start.
        idle_us: Idle timeout of sources. None: sources are never idle.
        advances_with_clock: Whether the watermark advances while all sources are silent. Then a
            micro-batch without rows runs at the end of each of `waits`.
        crashes: Whether the stream crashes, restarts and is rescaled.
        is_shared: Whether the highest watermark of all tables counts for each of them.
        waits: Processing time in microseconds that passes before a row arrives, by number. If
            there are any, each row is a micro-batch.
        reads_clock: Whether rows have the processing time of their micro-batch. Then histories
            without `waits` advance it by milliseconds up to days.
    """

    lateness_us: int = 0
    late: Collection[int] = ()
    clock_us: int = 0
    idle_us: int | None = None
    advances_with_clock: bool = False
    crashes: bool = True
    is_shared: bool = False
    waits: Mapping[int, int] = field(default_factory=dict)
    reads_clock: bool = False

    @property
    def may_be_idle(self) -> bool:
        """Whether processing time without rows changes the watermark."""
        return self.idle_us is not None or self.advances_with_clock

    def silence_before(self, row: int, clock_us: int) -> list[Batch]:
        """Return the micro-batch without rows before a row that arrives at `clock_us`, if any."""
        return [Batch((), clock_us)] if self.advances_with_clock and self.waits.get(row) else []


def cut_at_every_row(order: Sequence[int], shape: Shape) -> StreamHistory:
    """Return the history in which each row is a micro-batch, in the given order.

    Args:
        order: Numbers of all rows in their order of arrival.
        shape: Processing time at the start.
    """
    batches: list[Batch] = []
    clock_us = shape.clock_us
    for row in order:
        clock_us += shape.waits.get(row, 0)
        batches += shape.silence_before(row, clock_us)
        batches.append(Batch((Arrival(row),), clock_us))
    return StreamHistory((*batches, Batch((), clock_us, has_ended=True)))


def random_history(
    tables: Mapping[str, TableRows], order: Sequence[int], shape: Shape, seed: int
) -> StreamHistory:
    """Return a random history in which the same rows are late as in the given order.

    Args:
        tables: Rows by name of the table.
        order: Numbers of all rows in their order of arrival.
        shape: What the history may contain.
        seed: Seed. Equal seeds give equal histories.
    """
    random = Random(seed)
    if not shape.late and not shape.waits:
        order = _on_time_order(tables, shape, random)
    n_tasks = random.choice((1, 1, 2, 3))
    partitions = random.choice((1, 1, 1, 2, 3))
    key_groups = partitions * random.choice((1, 1, 2))
    clock_us = shape.clock_us
    # the idle clocks of sources start over with the stream
    longest_us = random.choice(_TICKS_US) if shape.reads_clock else 10 * _SECOND_US
    may_restart = shape.crashes and not (shape.waits and shape.may_be_idle)
    steps: list[Step] = []
    for rows in _cut(tables, order, shape, random):
        clock_us += sum(shape.waits.get(row, 0) for row in rows)
        for row in rows if shape.waits else ():
            steps += shape.silence_before(row, clock_us)
        arrivals = tuple(Arrival(row, random.randrange(n_tasks)) for row in rows)
        crash = _random_crash(shape, random) if random.random() < 0.15 else None
        steps.append(Batch(arrivals, clock_us, crash=crash))
        if not shape.may_be_idle and not shape.waits:
            clock_us += _MS_US * random.randrange(longest_us // _MS_US)
        if may_restart and random.random() < 0.1:
            is_rescaled = random.random() < 0.5
            steps.append(Restart(random.choice((1, 2, 3)) if is_rescaled else None))
    crash = _random_crash(shape, random) if random.random() < 0.2 else None
    steps.append(Batch((), clock_us, has_ended=True, crash=crash))
    return StreamHistory(tuple(steps), key_groups, partitions, random.choice(_BATCH_ROWS))


def fire_lag_us(table: TableRows) -> int:
    """Return by how much a row must precede a watermark to be on time for all its windows.

    Windows fire a millisecond before their end, so times finer than that need a margin.
    """
    is_fine = any(time is not None and time % _FIRE_LAG_US for time in table.times_us)
    return _FIRE_LAG_US if is_fine else 0


def overtaken_rows(
    tables: Mapping[str, TableRows],
    order: Sequence[int],
    lateness_us: int,
    *,
    is_shared: bool = False,
) -> list[int]:
    """Return the rows whose time the watermark of earlier rows has reached.

    They are late for some windows, or for none.

    Args:
        tables: Rows by name of the table.
        order: Numbers of all rows in their order of arrival.
        lateness_us: How long after their end windows accept rows.
        is_shared: Whether watermarks of other tables count.
    """
    table_of = {number: table for table in tables.values() for number in table.numbers}
    lags = {name: fire_lag_us(table) for name, table in tables.items()}
    highest: dict[str, int] = {}
    overtaken: list[int] = []
    for number in order:
        table = table_of[number]
        place = number - table.numbers.start
        time, mark = table.times_us[place], table.watermarks[place]
        if time is None or mark is None:
            continue
        key = "" if is_shared else table.table.name
        if key in highest and highest[key] - lateness_us >= time - lags[table.table.name]:
            overtaken.append(number)
        highest[key] = max(mark, highest.get(key, mark))
    return overtaken


def _on_time_order(tables: Mapping[str, TableRows], shape: Shape, random: Random) -> list[int]:
    """Return an order in which no row's time is reached by the watermark of an earlier row.

    A row that arrives `delay` after its time is not overtaken by a watermark, so each row is moved
    by less than that.
    """
    moved: list[tuple[int, int]] = []
    delays = [table.table.delay_us for table in tables.values()]
    for table in tables.values():
        delay_us = min(delays) if shape.is_shared else table.table.delay_us
        most = max(delay_us + shape.lateness_us - fire_lag_us(table), 0)
        latest = 0
        for number, time in zip(table.numbers, table.times_us, strict=True):
            if time is not None:
                # the extremes most often, because they bring rows next to watermarks
                moves = (0, most - 1, random.randrange(most)) if most else (0,)
                latest = time + random.choice(moves)
            # a row without a time is in no window: any place will do
            moved.append((latest, number))
    # rows of different tables interleave; rows of equal times keep their order
    return [number for _, number in sorted(moved, key=lambda pair: pair[0])]


def _cut(
    tables: Mapping[str, TableRows], order: Sequence[int], shape: Shape, random: Random
) -> list[list[int]]:
    """Cut rows into micro-batches, some of them empty."""
    if shape.waits:
        return [[row] for row in order]
    times = _whole_times(tables)
    size = max(len(order) / random.choice(_CUTS), 1)
    batches: list[list[int]] = [[]]
    previous: int | None = None
    for row in order:
        is_together = row in times and previous in times and times[row] == times[previous]
        may_cut = not is_together and random.random() < 1 / size
        if batches[-1] and (row in shape.late or may_cut):
            batches.append([])
            if random.random() < 0.1:
                batches.append([])
        batches[-1].append(row)
        previous = row
    return batches


def _whole_times(tables: Mapping[str, TableRows]) -> dict[int | None, int | None]:
    """Return the times of rows that must not be cut apart from rows of the same time.

    With a delay of less than a millisecond, a row closes the window that ends with its own
    millisecond: another row of that time, in a later micro-batch, is late.
    """
    return {
        number: None if time is None else time // _FIRE_LAG_US
        for table in tables.values()
        if table.table.delay_us < _FIRE_LAG_US
        for number, time in zip(table.numbers, table.times_us, strict=True)
    }


def _random_crash(shape: Shape, random: Random) -> Crash | None:
    """Return a crash, if the stream may crash.

    After a crash before the offsets are written, the rows arrive with the next micro-batch. Late
    rows would then be on time.
    """
    crash = Crash(random.choice(list(Write)), random.randrange(8), random.random() < 0.5)
    is_unplanned = crash.write is Write.OFFSETS and not crash.is_after
    if not shape.crashes or (is_unplanned and (shape.late or shape.waits)):
        return None
    return None if shape.waits and shape.may_be_idle else crash
