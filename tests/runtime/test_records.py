"""Dataclasses are read from JSON as they were written; any other JSON is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.commits import Commit, HeldBatch
from runtime.records import (
    MalformedRecordError,
    OtherVersionError,
    from_json,
    from_text,
    round_trip,
    to_json,
    to_text,
)


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Point(NamedTuple):
    x: int
    y: int | None
    names: Sequence[str]


@dataclass(frozen=True)
class Circle:
    radius: float


@dataclass(frozen=True)
class Square:
    side: int
    corner: Point | None = None


@dataclass(frozen=True)
class Drawing:
    shape: Circle | Square | None
    points: tuple[Point, ...]
    colors: Mapping[int, Color]
    pairs: tuple[tuple[str, int], ...]
    extra: Any
    live: object = field(default=None, compare=False)


points = st.builds(
    Point, st.integers(), st.none() | st.integers(), st.lists(st.text(), max_size=2).map(tuple)
)
shapes = st.one_of(
    st.none(),
    st.builds(Circle, st.floats(allow_nan=False)),
    st.builds(Square, st.integers(), st.none() | points),
)
drawings = st.builds(
    Drawing,
    shapes,
    st.lists(points, max_size=3).map(tuple),
    st.dictionaries(st.integers(), st.sampled_from(Color), max_size=2),
    st.lists(st.tuples(st.text(), st.integers()), max_size=2).map(tuple),
    st.recursive(st.none() | st.booleans() | st.text(), lambda below: st.lists(below, max_size=2)),
)
DRAWING = Drawing(Square(2, Point(1, None, ("a",))), (), {3: Color.RED}, (("b", 4),), {"any": [1]})


@given(drawings)
def test_a_record_is_read_as_it_was_written(drawing: Drawing) -> None:
    assert from_text(Drawing, to_text(drawing, 3), 3) == drawing
    assert from_text(Drawing, to_text(drawing)) == drawing
    assert round_trip(drawing) == drawing


def test_json_has_the_fields_by_name_and_the_kind_where_there_are_several() -> None:
    assert to_json(DRAWING) == {
        "shape": {"kind": "Square", "side": 2, "corner": (1, None, ("a",))},
        "points": (),
        "colors": {3: "red"},
        "pairs": (("b", 4),),
        "extra": {"any": [1]},
    }


def test_fields_that_are_not_compared_are_not_written() -> None:
    drawing = Drawing(None, (), {}, (), None, live=object())
    assert round_trip(drawing).live is None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"size": 1}, "unknown field `size`"),
        ({"pairs": None}, "`pairs`: expected an array, not null"),
        ({"pairs": [["a"]]}, '`pairs`: expected an array of 2 values, not ["a"]'),
        ({"colors": {"3": "green"}}, '`colors`: "green" is unknown'),
        ({"colors": {"x": "red"}}, "`colors`: expected numbers as names"),
        ({"shape": {"kind": "Line"}}, '`shape`: unknown kind "Line"'),
        ({"shape": {"kind": "Circle"}}, "`shape`: field `radius` is missing"),
        (
            {"shape": {"kind": "Circle", "radius": "2"}},
            '`shape.radius`: expected a number, not "2"',
        ),
        ({"shape": {"kind": "Square", "side": True, "corner": None}}, "`shape.side`: expected a"),
        ({"points": [[1, 2, [3]]]}, "`points`: expected a text, not 3"),
        ({"points": [[1.5, 2, []]]}, "`points`: expected a whole number, not 1.5"),
    ],
)
def test_other_json_is_refused_in_one_line(change: dict[str, Any], problem: str) -> None:
    content = json.loads(json.dumps(to_json(DRAWING))) | change
    with pytest.raises(MalformedRecordError) as caught:
        from_json(Drawing, content)
    assert str(caught.value).startswith(problem)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "3"])
def test_a_text_without_a_record_is_refused(text: str) -> None:
    with pytest.raises(MalformedRecordError):
        from_text(Circle, text)


@pytest.mark.parametrize("version", [1, 3, "2", None])
def test_another_version_is_refused_with_any_content(version: object) -> None:
    with pytest.raises(OtherVersionError, match=f"has format {version}, but .* reads format 2"):
        from_text(Circle, json.dumps({"version": version, "diameter": 2}), 2)


@given(
    st.builds(
        Commit,
        batch=st.integers(),
        is_whole=st.booleans(),
        files=st.none() | st.lists(st.text(), max_size=2).map(tuple),
        sources=st.lists(st.text(), max_size=2).map(tuple),
        plan=st.text(),
        held=st.lists(
            st.builds(
                HeldBatch, st.integers(), st.integers(), st.integers(), st.floats(0, 1e9), st.text()
            ),
            max_size=2,
        ).map(tuple),
        is_merged=st.booleans(),
        replaced=st.lists(st.text(), max_size=2).map(tuple),
    )
)
def test_a_commit_of_a_sink_is_read_as_it_was_written(commit: Commit) -> None:
    assert from_text(Commit, to_text(commit, 1), 1) == commit
