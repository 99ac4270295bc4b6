"""The work of a refresh, from the existing files and those in the slices."""

from __future__ import annotations

from runtime.materialized.changes import (
    BaseFile,
    changes,
    even_bounds,
    overlaps,
    set_ranges,
    union_of,
)


def _file(path: str, size: int = 1, first: int | None = None, last: int | None = None) -> BaseFile:
    return BaseFile(path, size, 7, first, last)


def test_a_table_with_all_files_is_up_to_date() -> None:
    result = changes([_file("a")], [_file("a", first=10, last=20)])
    assert result.is_nothing
    assert result.unchanged == (_file("a", first=10, last=20),)


def test_only_the_new_file_is_read() -> None:
    result = changes([_file("a"), _file("b")], [_file("a", first=10, last=20)])
    assert [file.path for file in result.added] == ["b"]
    assert (result.again, result.intervals, result.is_nothing) == ((), (), False)


def test_slices_of_a_changed_file_are_recomputed_from_all_their_files() -> None:
    #  10   20   30   40   50
    #  [changed ]
    #       [b       ]
    #                 [c   ]
    manifest = [_file("x", 1, 10, 20), _file("b", 1, 20, 30), _file("c", 1, 40, 50)]
    result = changes([_file("x", 2), _file("b"), _file("c")], manifest)
    assert [file.path for file in result.added] == ["x"]
    assert [file.path for file in result.again] == ["b"]
    assert [file.path for file in result.unchanged] == ["b", "c"]
    assert (result.intervals, result.n_changed, result.n_gone) == (((10, 20),), 1, 0)


def test_a_file_that_went_without_a_row_changes_no_slice() -> None:
    result = changes([], [_file("a")])
    assert (result.intervals, result.n_gone, result.is_nothing) == ((), 1, False)


def test_intervals_that_meet_are_one() -> None:
    assert union_of([(30, 40), (10, 20), (None, None), (20, 25)]) == ((10, 25), (30, 40))
    assert overlaps(((10, 25), (30, 40)), 25, 27)
    assert not overlaps(((10, 25), (30, 40)), 26, 29)
    assert not overlaps(((10, 25),), None, None)


def test_bounds_cut_time_into_buckets_of_one_length() -> None:
    assert even_bounds(0, 100, 4) == (25, 50, 75)
    assert even_bounds(5, 5, 4) == ()


def test_ranges_cover_the_counted_rows() -> None:
    assert set_ranges([_file("a"), _file("b")], {"a": (1, 2)}) == (_file("a", 1, 1, 2), _file("b"))
