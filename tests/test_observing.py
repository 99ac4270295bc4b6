"""The helpers for tests that observe changes by others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.observing import files_below, wait_until


def test_a_removed_directory_has_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.json").touch()
    (tmp_path / "gone").mkdir()
    scandir = os.scandir

    def scan(path: str) -> object:
        if Path(path) == tmp_path / "gone":
            os.rmdir(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scan)
    assert files_below(tmp_path) == [tmp_path / "a.json"]
    assert not (tmp_path / "gone").exists()
    assert files_below(tmp_path, "*.csv") == []
    assert files_below(tmp_path / "never") == []


def test_waiting_gives_the_value_or_fails_with_the_explanation() -> None:
    states = iter([0, 0, 7])
    assert wait_until(lambda: next(states), every_s=0) == 7
    with pytest.raises(AssertionError, match="still 3"):
        wait_until(lambda: False, 0, explain=lambda: f"still {3}")
