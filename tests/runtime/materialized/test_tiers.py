"""Which old slices are merged or dropped, and the effect on partials and intervals."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.materialized.tiers import TierRules, apply_tiers, cuts_of, due_tiers, is_touched, widen
from runtime.spec.materialized import Reached, Tier
from runtime.windows.tumble import Tumble

MINUTES = Tumble(60, 20)
# slices of 60 for 600, of 300 for 6000, then of 1500
RULES = TierRules(((300, 600), (1500, 6000)))
REACHED = Reached((Tier(300, 9020), Tier(1500, 4520)), 1520)


def ends(values: list[int]) -> pa.Table:
    return pa.table({"k": pa.array(range(len(values))), "slice_end": pa.array(values, pa.int64())})


def tier_of(end: int, reached: Reached) -> int:
    """Return the width of the slice that contains one of MINUTES, by definition."""
    widths = [60, *(tier.width_us for tier in reached.tiers if end <= tier.until_us)]
    return max(widths)


def test_old_slices_are_merged_when_they_are_old_enough_by_the_newest_one() -> None:
    result = due_tiers(RULES, MINUTES, Reached(), 80, 10_040)
    # up to 600 before the newest, at the end of a slice of 300, and 6000 before it
    assert result == Reached((Tier(300, 9320), Tier(1500, 3020)))
    assert due_tiers(RULES, MINUTES, Reached(), 9380, 10_040) == Reached()
    # only once a slice of the tier, and an eighth of the age, has accumulated
    assert due_tiers(RULES, MINUTES, result, 320, 10_200) == result
    assert due_tiers(RULES, MINUTES, result, 320, 10_340).tiers[0] == Tier(300, 9620)
    assert due_tiers(
        TierRules(((300, 6000),)), MINUTES, Reached((Tier(300, 20),)), 20, 6380
    ) == Reached((Tier(300, 20),))


def test_merged_slices_stay_merged_without_the_newest_ones() -> None:
    result = due_tiers(RULES, MINUTES, REACHED, 1580, 5_000)
    assert result == REACHED


def test_slices_are_dropped_where_the_widest_ones_end() -> None:
    rules = TierRules(((300, 600),), 3000)
    result = due_tiers(rules, MINUTES, Reached(), 80, 10_040)
    assert result.since_us == 6920
    assert (result.since_us - 20) % 300 == 0
    assert due_tiers(TierRules((), 3000), MINUTES, Reached(), 7100, 10_040).since_us is None


@given(st.lists(st.integers(1, 200).map(lambda n: n * 60 + 20), min_size=1))
def test_each_slice_is_merged_into_its_wide_slice(values: list[int]) -> None:
    rows = apply_tiers(ends(values), MINUTES, REACHED).to_pylist()
    expected = []
    for number, end in enumerate(values):
        width = tier_of(end, REACHED)
        wide = next(e for e in range(20, 20_000, width) if e >= end)
        if end > 1520:
            expected.append({"k": number, "slice_end": wide})
    assert rows == expected
    # its end does not change
    table = apply_tiers(ends(values), MINUTES, REACHED)
    assert apply_tiers(table, MINUTES, REACHED) == table


@given(st.integers(1, 200), st.integers(0, 30))
def test_intervals_are_widened_to_whole_slices(first: int, more: int) -> None:
    low, high = first * 60 + 20, (first + more) * 60 + 20
    result = widen(((low, high),), MINUTES, REACHED)
    # all minutes whose wide slice contains one of the interval's minutes
    wide = {
        row["slice_end"]
        for row in apply_tiers(ends(list(range(low, high + 1, 60))), MINUTES, REACHED).to_pylist()
    }
    minutes = list(range(80, 20_000, 60))
    table = apply_tiers(ends(minutes), MINUTES, REACHED)
    expected = {minutes[row["k"]] for row in table.to_pylist() if row["slice_end"] in wide}
    inside = {m for m in minutes if any(a <= m <= b for a, b in result)}
    assert inside == expected


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [(80, 1520, True), (1580, 4520, False), (4820, 9020, False), (8720, 9320, True)],
    ids=["dropped", "merged", "merged to the finer", "between"],
)
def test_only_files_with_slices_that_change_are_touched(
    first: int, last: int, expected: bool
) -> None:
    before = Reached(REACHED.tiers, None)
    after = Reached((Tier(300, 9320), Tier(1500, 4520)), 1520)
    assert is_touched(first, last, before, after) == expected
    assert cuts_of(after) == (4520, 9320)
