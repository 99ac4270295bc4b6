"""Offsets and logs of a checkpoint that gets the clock as another source."""

from __future__ import annotations

import pytest

from runtime.streaming.spark_part.clock import SourceLayout

HEAD = ["v1", '{"batchWatermarkMs":0}']
# events, end of input, clock
ONE = SourceLayout((0, 1, 2), (False, False, True))
# events, end of input, clock; others, and again the end of input and the clock
TWO = SourceLayout((0, 1, 2, 3, 1, 2), (False, False, True, False, False, True))


def offsets(*sources: str) -> str:
    return "\n".join([*HEAD, *sources])


@pytest.mark.parametrize(
    ("layout", "before", "after"),
    [
        (ONE, ["a", "b"], ["a", "b", "-"]),
        (ONE, ["a", "-"], ["a", "-", "-"]),
        (TWO, ["a", "b", "c", "b"], ["a", "b", "-", "c", "b", "-"]),
    ],
)
def test_each_reading_of_the_clock_gets_a_line_without_an_offset(layout, before, after):
    assert layout.with_clock(offsets(*before)) == offsets(*after)


@pytest.mark.parametrize("sources", [[], ["a"], ["a", "b", "c"]])
def test_offsets_of_other_sources_are_refused(sources):
    assert ONE.with_clock(offsets(*sources)) is None


def test_logs_behind_the_clock_get_the_next_number():
    assert ONE.moved == {0: 0, 1: 1}
    assert TWO.moved == {0: 0, 1: 1, 2: 3}
