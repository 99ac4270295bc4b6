"""Under which name a stream finds its checkpoint again."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.files import LocalFiles
from sqlwin.execution.streams.checkpoint import kept_name


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("totals", "totals"),
        ("TOTALS", "totals"),
        ("default_catalog.default_database.Totals", "totals"),
        ("Hours", "default_database.hours"),
        ("of the day", "Of-The-Day"),
        # a directory without a checkpoint; nothing
        ("OTHER", "OTHER"),
        ("new", "new"),
        ("my_database.totals", "my_database.totals"),
    ],
)
def test_a_table_has_its_checkpoint_however_it_is_spelled(
    name: str, known: str, tmp_path: Path
) -> None:
    for there in ("totals", "default_database.hours", "Of-The-Day", "other"):
        (tmp_path / there).mkdir()
    (tmp_path / "totals/sqlwin.json").touch()
    (tmp_path / "default_database.hours/set.json").touch()
    (tmp_path / "Of-The-Day/sqlwin.json").touch()
    assert kept_name(LocalFiles(), str(tmp_path), name) == known


def test_of_two_checkpoints_that_one_counts_whose_name_is_the_same(tmp_path: Path) -> None:
    for there in ("Totals", "totals"):
        (tmp_path / there).mkdir()
        (tmp_path / there / "sqlwin.json").touch()
    assert kept_name(LocalFiles(), str(tmp_path), "totals") == "totals"
    assert kept_name(LocalFiles(), str(tmp_path), "Totals") == "Totals"
    assert kept_name(LocalFiles(), str(tmp_path / "none"), "totals") == "totals"
