"""Storage faults give a one-line error that names them and leave slices unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.recovery.test_full_disk import result_on_a_small_disk

FULL_DISK = Path(__file__).with_name("full_disk.py")


@pytest.mark.spark
@pytest.mark.slow
def test_a_refresh_on_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    result = result_on_a_small_disk(FULL_DISK, tmp_path, 300)
    assert result["errors"], "there was room for all"
    assert all("o space left on" in error and "\n" not in error for error in result["errors"])
    assert all(result["as before"])
    assert result["is whole"]
    assert result["left"] == []
