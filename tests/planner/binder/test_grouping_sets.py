"""Expansion of GROUP BY with several groupings."""

from __future__ import annotations

import pytest
from sqlglot import exp

from planner.binder.grouping_sets import check_grouping_calls, groupings_of, has_groupings
from planner.sql.build import to_sql
from runtime.errors import AnalysisError
from sqlwin.parser.parser import parse_query


def sets_of(clause: str) -> list[str]:
    """Return each grouping as the names of its keys, in order of the keys."""
    group = parse_query(f"SELECT 1 FROM t GROUP BY {clause}").args["group"]
    assert has_groupings(group)
    groupings = groupings_of(group, lambda key: key)
    names = [to_sql(key) for key in groupings.keys]
    return ["".join(names[i] for i in sorted(positions)) for positions in groupings.sets]


@pytest.mark.parametrize(
    ("clause", "sets"),
    [
        ("GROUPING SETS ((a, b), (a), ())", ["ab", "a", ""]),
        ("GROUPING SETS (a, b)", ["a", "b"]),
        ("ROLLUP (a, b, c)", ["abc", "ab", "a", ""]),
        ("ROLLUP (a, (b, c))", ["abc", "a", ""]),
        ("CUBE (a, b)", ["ab", "a", "b", ""]),
        ("a, GROUPING SETS ((b), ())", ["ab", "a"]),
        ("ROLLUP (a), CUBE (b)", ["ab", "a", "b", ""]),
        ("GROUPING SETS (ROLLUP (a, b), (c))", ["ab", "a", "", "c"]),
        ("a, b GROUPING SETS ((a), (b))", ["a", "b"]),
        ("a, b WITH ROLLUP", ["ab", "a", ""]),
        ("a, b WITH CUBE", ["ab", "a", "b", ""]),
    ],
)
def test_every_form_is_a_list_of_sets(clause: str, sets: list[str]) -> None:
    assert sets_of(clause) == sets


def test_a_grouping_id_has_a_bit_for_each_omitted_key() -> None:
    group = parse_query("SELECT 1 FROM t GROUP BY CUBE (a, b)").args["group"]
    assert groupings_of(group, lambda key: key).ids((0, 1)) == (0, 1, 2, 3)


def test_sets_that_are_written_twice_keep_ids_of_their_own() -> None:
    group = parse_query("SELECT 1 FROM t GROUP BY GROUPING SETS ((a), (b), (a))").args["group"]
    first, second, third = groupings_of(group, lambda key: key).ids((0, 1))
    assert len({first, second, third}) == 3
    assert first % 4 == third % 4 == 1


def test_keys_outside_of_the_ids_have_no_bits() -> None:
    group = parse_query("SELECT 1 FROM t GROUP BY w, ROLLUP (a)").args["group"]
    assert groupings_of(group, lambda key: key).ids((1,)) == (0, 1)


@pytest.mark.parametrize(
    ("asked", "is_key"),
    [
        ("st.b", True),
        ("t.st.b", True),
        ("`ST`.b", True),
        ("k", True),
        ("st.c", False),
        ("b", False),
    ],
)
def test_grouping_may_ask_about_a_field_of_a_struct(asked: str, is_key: bool) -> None:
    select = parse_query(f"SELECT GROUPING({asked}) FROM t GROUP BY ROLLUP (k, st.b)")
    assert isinstance(select, exp.Select)
    groupings = groupings_of(select.args["group"], lambda key: key)
    if is_key:
        check_grouping_calls(select, groupings)
        return
    with pytest.raises(AnalysisError, match="is not a group key"):
        check_grouping_calls(select, groupings)
