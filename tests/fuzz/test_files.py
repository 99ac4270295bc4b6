"""Damaged files give rows or a readable error, never anything else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.files import DamagedFiles
from tests.fuzz.outcome import judge, new_session


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
        path, script = DamagedFiles(seed, tmp_path).draw()
        outcome = judge(new_session(), script)
        assert outcome.kind != "fault", f"seed {seed}, {path}: {outcome.text}\n{script}"
        if outcome.kind == "error":
            # the file, or the statement about it
            assert path.name in outcome.text or "line 1, column" in outcome.text, outcome.text
        kinds[outcome.kind] += 1
        path.unlink()
    # the others check little
    assert kinds["rows"] + kinds["error"] > len(seeds) // 3, kinds
