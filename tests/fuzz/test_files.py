"""Damaged files give rows or a readable error, never anything else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.files import judge_file
from tests.fuzz.messy_times import fault_in, messy_times


@pytest.mark.parametrize(
    "seeds",
    [
        range(100),
        pytest.param(range(100, 500), marks=pytest.mark.long),
        pytest.param(range(500, 10_000), marks=pytest.mark.slow),
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


@pytest.mark.parametrize(
    "seeds", [range(200), pytest.param(range(200, 5_000), marks=pytest.mark.slow)], ids=str
)
def test_a_column_of_nearly_all_times_is_a_time_or_has_a_note(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        text = messy_times(seed)
        fault = fault_in(tmp_path / "f.csv", text)
        assert fault is None, f"seed {seed}: {fault}\n{text}"


def test_an_unknown_codec_of_parquet_does_not_end_the_process(tmp_path: Path) -> None:
    # pyarrow aborts if the name of such a codec is read from the footer
    path, _, outcome = judge_file(25_696, tmp_path)
    assert (path.suffix, outcome.kind) == (".parquet", "rows"), outcome.text


def test_a_long_value_is_cut_in_a_message(tmp_path: Path) -> None:
    _, _, outcome = judge_file(23_048, tmp_path)
    assert "xxx'…" in outcome.text


@pytest.mark.parametrize("seed", [20_389, 20_994, 21_045])
def test_a_broken_value_has_a_line(seed: int, tmp_path: Path) -> None:
    _, _, outcome = judge_file(seed, tmp_path)
    assert outcome.kind == "error", outcome.text
    assert ", line 1" in outcome.text or ", line 2" in outcome.text


def test_half_of_a_surrogate_pair_has_a_line(tmp_path: Path) -> None:
    _, _, outcome = judge_file(25_105, tmp_path)
    assert ", line 8, column `ts`: '?' is not a valid TIMESTAMP" in outcome.text
