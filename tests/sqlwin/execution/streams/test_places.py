"""Names of checkpoint directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.files import LocalFiles
from sqlwin.execution.streams.checkpoint import existing_name, lasting_place


@pytest.mark.parametrize(
    ("name", "existing"),
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
    name: str, existing: str, tmp_path: Path
) -> None:
    for text in ("totals", "default_database.hours", "Of-The-Day", "other"):
        (tmp_path / text).mkdir()
    (tmp_path / "totals/sqlwin.json").touch()
    (tmp_path / "default_database.hours/set.json").touch()
    (tmp_path / "Of-The-Day/sqlwin.json").touch()
    assert existing_name(LocalFiles(), str(tmp_path), name) == existing


def test_of_two_checkpoints_that_one_counts_whose_name_is_the_same(tmp_path: Path) -> None:
    for text in ("Totals", "totals"):
        (tmp_path / text).mkdir()
        (tmp_path / text / "sqlwin.json").touch()
    assert existing_name(LocalFiles(), str(tmp_path), "totals") == "totals"
    assert existing_name(LocalFiles(), str(tmp_path), "Totals") == "Totals"
    assert existing_name(LocalFiles(), str(tmp_path / "none"), "totals") == "totals"


@pytest.mark.parametrize("order", ["abc", "cab", "b", "bc"])
def test_streams_of_one_table_find_each_its_own_checkpoint_in_any_order(order: str) -> None:
    kept = {"/ck/totals": "a", "/ck/totals-2": "b", "/ck/totals-3": "c"}
    claimed: set[str] = set()

    def claim(directory: str) -> bool:
        return directory not in claimed and not claimed.add(directory)

    for query in order:
        place = lasting_place(
            "/ck", "totals", (), claim, kept.__contains__, lambda d, query=query: kept[d] == query
        )
        assert kept[place.directory] == query and place.name == place.directory[4:]


def test_a_stream_without_a_checkpoint_uses_the_first_free_directory() -> None:
    used = {"/ck/totals", "/ck/totals-2"}
    free = lasting_place("/ck", "totals", (), lambda d: d not in used, used.__contains__)
    assert free.directory == "/ck/totals-3"
