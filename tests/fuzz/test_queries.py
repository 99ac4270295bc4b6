"""Random window queries have the rows that their definition gives, in batch and as streams."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fuzz.choices import Choices, shrink_choices
from tests.fuzz.differences import Roads
from tests.fuzz.values import DAY_US, SECOND_US, draw_rows
from tests.fuzz.windows import local_us


@pytest.mark.parametrize(
    ("seeds", "runs_all"),
    [
        (range(25), False),
        pytest.param(range(25, 60), False, marks=pytest.mark.long),
        pytest.param(range(60, 800), False, marks=pytest.mark.slow),
        *(
            pytest.param(range(n, n + 1_000), True, marks=pytest.mark.slow)
            for n in range(1_000, 6_000, 1_000)
        ),
    ],
    ids=str,
)
def test_a_random_query_has_the_rows_of_its_definition(
    seeds: range, runs_all: bool, tmp_path: Path
) -> None:
    roads = Roads(tmp_path, runs_all=runs_all)
    for seed in seeds:
        fault = roads.check(seed)
        assert fault is None, fault
    # Spark's share is not compared here
    assert roads.counts["in process"] > len(seeds) * 2 // 3, roads.counts
    assert roads.counts["stream"] > len(seeds) // 2, roads.counts
    for way in ("one phase", "rule off", "stream, rule off", "statement set"):
        assert roads.counts[way] > len(seeds) // 50, roads.counts


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("seeds", "count"),
    [
        (range(700_000, 700_004), 8),
        pytest.param(range(700_004, 700_010), 20, marks=pytest.mark.long),
        # calendar windows that begin before year 1
        (range(700_599, 700_600), 2),
        pytest.param(range(700_100, 700_106), 20, marks=pytest.mark.long),
        pytest.param(range(700_106, 700_120), 20, marks=pytest.mark.slow),
        *(
            pytest.param(range(n, n + 100), 100, marks=pytest.mark.slow)
            for n in range(701_000, 702_000, 100)
        ),
    ],
    ids=str,
)
def test_histories_of_a_random_query_have_the_rows_of_its_definition(
    seeds: range, count: int, tmp_path: Path
) -> None:
    roads = Roads(tmp_path)
    for seed in seeds:
        fault = roads.check_histories(seed, count)
        assert fault is None, fault
    assert roads.counts["histories"] >= len(seeds) * count // 2, roads.counts


@pytest.mark.parametrize(("zone", "offset_s"), [("UTC", 0), ("Europe/Berlin", 3_208)])
def test_a_zone_has_its_first_offset_before_year_1(zone: str, offset_s: int) -> None:
    for year in (-500, 0, 1, 2, 1800):
        time_us = (year - 1970) * 366 * DAY_US
        assert local_us(time_us, zone) == time_us + offset_s * SECOND_US


def test_a_fault_is_shrunk() -> None:
    def fails(made: Sequence[int]) -> Sequence[int] | None:
        draw = Choices(0, made)
        rows = draw_rows(draw, 0, 1_000_000, 0)
        return draw.made if any(row["v"] == 3 for row in rows) else None

    seed = next(seed for seed in range(99) if fails(_made(seed)))
    (row,) = draw_rows(Choices(0, shrink_choices(_made(seed), fails)), 0, 1_000_000, 0)
    assert (row["v"], row["k"], row["g"], row["d"]) == (3, "a", 0, 0.0)


def _made(seed: int) -> list[int]:
    draw = Choices(seed)
    draw_rows(draw, 0, 1_000_000, 0)
    return draw.made
