"""Which slices windows share, and from which finer ones they are rolled up."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.nodes.slice_levels import (
    Grid,
    common_grid,
    grid_of,
    is_cheaper_together,
    slice_levels,
    slices_per_second,
)
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND


def widths(*grids):
    """Return (width, source width, whether it is read) of each level."""
    levels = slice_levels(
        [Grid(*grid) if isinstance(grid, tuple) else Grid(grid, 0) for grid in grids]
    )
    return [
        (level.width_us, None if level.source is None else levels[level.source].width_us, level.is_read)
        for level in levels
    ]  # fmt: skip


def test_a_dashboard_rolls_up_from_each_width_to_the_next():
    assert widths(DAY, MINUTE, HOUR, 5 * MINUTE) == [
        (MINUTE, None, True),
        (5 * MINUTE, MINUTE, True),
        (HOUR, 5 * MINUTE, True),
        (DAY, HOUR, True),
    ]


def test_a_common_grid_that_no_window_has_is_computed_but_not_read():
    assert widths(4, 6) == [(2, None, False), (4, 2, True), (6, 2, True)]


def test_an_intermediate_grid_is_added_if_it_saves_a_second_read():
    # Without it, slices of 1 s would be read for 10 s and for 15 s.
    assert widths(1, 10, 15) == [
        (1, None, True),
        (5, 1, False),
        (10, 5, True),
        (15, 5, True),
    ]


def test_a_useless_intermediate_grid_is_not_added():
    # 2 / 1 reads of the finest level, or 1 / 1 + 2 / 2
    assert widths(1, 4, 6) == [(1, None, True), (4, 1, True), (6, 1, True)]


def test_an_offset_moves_the_slices_that_are_rolled_up():
    # slices 10 wide that begin at 5 consist of slices 5 wide that begin at 0
    assert widths((10, 0), (10, 5)) == [(5, None, False), (10, 5, True), (10, 5, True)]
    assert common_grid([Grid(10, 0), Grid(10, 4)]) == Grid(2, 0)


@pytest.mark.parametrize(
    ("window", "grid"),
    [
        (Tumble(10, -3), Grid(10, 7)),
        (Hop(5, 20, 6), Grid(5, 1)),
        (Hop(3, 10), Grid(1, 0)),
        (Hop(10, 4), Grid(2, 0)),
        (Cumulate(5, 20), Grid(5, 0)),
    ],
)
def test_the_grid_of_a_window_is_cut_where_it_starts_and_ends(window, grid):
    assert grid_of(window) == grid


def test_windows_share_slices_unless_these_are_far_finer():
    assert is_cheaper_together([Tumble(MINUTE), Tumble(5 * MINUTE), Hop(HOUR, DAY)])
    assert is_cheaper_together([Tumble(2 * MINUTE), Tumble(3 * MINUTE)])
    assert not is_cheaper_together([Tumble(60 * SECOND), Tumble(61 * SECOND)])
    # 1 us apart
    assert not is_cheaper_together([Tumble(MINUTE), Tumble(MINUTE, 1)])


def test_a_paired_hop_counts_its_two_slices_a_slide():
    assert slices_per_second(Hop(HOUR, 61 * MINUTE)) == pytest.approx(2 / 3600)
    # It is cut at whole minutes, which costs nothing with one-minute windows,
    assert is_cheaper_together([Hop(HOUR, 61 * MINUTE), Tumble(MINUTE)])
    # but it would cut hours into minutes.
    assert not is_cheaper_together([Hop(HOUR, 61 * MINUTE), Tumble(HOUR)])


@settings(deadline=None)
@given(
    st.lists(
        st.builds(
            lambda width, offset: Grid(width, offset % width),
            st.integers(1, 60),
            st.integers(0, 60),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_every_level_follows_its_source(grids):
    levels = slice_levels(grids)
    grid_at = [Grid(level.width_us, level.offset_us) for level in levels]
    assert grid_at[0] == common_grid(grids)
    assert levels[0].source is None
    for position, level in enumerate(levels[1:], 1):
        assert level.source is not None and level.source < position
        assert grid_at[position].consists_of(grid_at[level.source])
    read = [grid for grid, level in zip(grid_at, levels, strict=True) if level.is_read]
    assert sorted(read) == sorted(set(grids))
