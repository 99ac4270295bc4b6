"""Random window queries have the rows that their definition gives, in batch and as streams."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.differences import Roads


@pytest.mark.parametrize(
    "seeds",
    [
        range(200),
        pytest.param(range(200, 1_000), marks=pytest.mark.long),
        *(
            pytest.param(range(n, n + 1_000), marks=pytest.mark.slow)
            for n in range(1_000, 6_000, 1_000)
        ),
    ],
    ids=str,
)
def test_a_random_query_has_the_rows_of_its_definition(seeds: range, tmp_path: Path) -> None:
    roads = Roads(tmp_path)
    for seed in seeds:
        fault = roads.check(seed)
        assert fault is None, fault
    # Spark's share is not compared here
    assert roads.counts["batch"] > len(seeds) * 2 // 3, roads.counts
    assert roads.counts["stream"] > len(seeds) // 2, roads.counts
