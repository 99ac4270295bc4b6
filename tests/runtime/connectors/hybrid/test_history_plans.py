"""Plans of histories that one stream reads together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.connectors.hybrid.history import HistoryPart, HistoryPlan, plan_history

Drawn = list[tuple[int, int, int]]
PARTS = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 30), st.integers(0, 9)), max_size=12)


def parts_of(table: int, drawn: Drawn) -> list[HistoryPart]:
    """Return parts named by their table and number, from first times, lengths and sizes."""
    return [
        HistoryPart(f"{table}.{number}", n_bytes, (first, first + length))
        for number, (first, length, n_bytes) in enumerate(drawn)
    ]


def plans_of(tables: list[list[HistoryPart]], range_bytes: list[int]) -> list[HistoryPlan]:
    """Return the plan that each table makes on its own."""
    both = list(zip(tables, range_bytes, strict=True))
    return [
        plan_history(parts, n, 2, 0, [*both[:number], *both[number + 1 :]])
        for number, (parts, n) in enumerate(both)
    ]


def starts_of(plan: HistoryPlan, parts: list[HistoryPart]) -> list[list[int]]:
    """Return the first times of the parts of each range."""
    by_split = {part.split: part.times_us[0] for part in parts if part.times_us is not None}
    return [[by_split[split] for task in range_.tasks for split in task] for range_ in plan.ranges]


@given(tables=st.tuples(PARTS, PARTS, PARTS), range_bytes=st.tuples(*[st.integers(1, 20)] * 3))
def test_ranges_with_one_number_begin_together(
    tables: tuple[Drawn, Drawn, Drawn], range_bytes: tuple[int, int, int]
) -> None:
    parts = [parts_of(number, drawn) for number, drawn in enumerate(tables)]
    plans = plans_of(parts, list(range_bytes))
    assert len({len(plan.ranges) for plan in plans}) == 1
    starts = [starts_of(*pair) for pair in zip(plans, parts, strict=True)]
    reached = -1
    for number in range(len(plans[0].ranges)):
        of_range = [start for table in starts for start in table[number]]
        assert all(start >= reached for start in of_range)
        reached = max(of_range, default=reached)
    for plan, of_table in zip(plans, parts, strict=True):
        read = sorted(split for range_ in plan.ranges for task in range_.tasks for split in task)
        assert read == sorted(part.split for part in of_table)


def test_a_small_history_waits_for_a_large_one() -> None:
    small = parts_of(0, [(0, 10, 1), (50, 10, 1)])
    large = parts_of(1, [(time, 5, 10) for time in range(0, 60, 10)])
    plan, of_large = plans_of([small, large], [100, 10])
    assert starts_of(plan, small) == [[0], [], [], [], [], [50]]
    assert starts_of(of_large, large) == [[time] for time in range(0, 60, 10)]
    # alone, it is one range
    assert len(plan_history(small, 100, 2, 0).ranges) == 1
