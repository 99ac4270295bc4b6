"""Damaged files give rows or a readable error, never anything else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.files import judge_file


@pytest.mark.parametrize(
    "seeds",
    [
        range(100),
        pytest.param(range(100, 1_000), marks=pytest.mark.long),
        pytest.param(range(1_000, 10_000), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_damaged_file_gives_rows_or_a_readable_error(seeds: range, tmp_path: Path) -> None:
    kinds: Counter[str] = Counter()
    for seed in seeds:
        path, script, outcome = judge_file(seed, tmp_path)
        assert outcome.kind != "fault", f"seed {seed}, {path}: {outcome.text}\n{script}"
        if outcome.kind == "error":
            # the file, or the statement about it
            assert path.name in outcome.text or "line 1, column" in outcome.text, outcome.text
        kinds[outcome.kind] += 1
    # the others check little
    assert kinds["rows"] + kinds["error"] > len(seeds) // 3, kinds


@pytest.mark.parametrize("seed", [20_389, 20_994, 21_045])
def test_a_broken_value_has_a_line(seed: int, tmp_path: Path) -> None:
    _, _, outcome = judge_file(seed, tmp_path)
    assert outcome.kind == "error", outcome.text
    assert ", line 1" in outcome.text or ", line 2" in outcome.text
