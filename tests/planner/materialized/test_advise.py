"""What windows want of a table of slices, or why no table is advised for them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from planner.materialized.advise import WantedSlices, wanted_of
from tests.planner.materialized.kept import Tables, local_of

QUERY = "SELECT window_end, COUNT(*) AS n FROM TUMBLE({}, ts, 1h) GROUP BY window_start, window_end"


def test_files_by_their_name_are_no_table_to_keep_slices_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rides").mkdir()
    times = pa.array([datetime(2026, 1, 30, 22)], pa.timestamp("us"))  # noqa: DTZ001  # a wall clock
    pq.write_table(pa.table({"ts": times}), tmp_path / "rides" / "rows.parquet")
    tables = Tables()
    tables.add_files("trips", tmp_path / "rides")
    of_table, of_files = (
        wanted_of(local_of(tables.plan(QUERY.format(name)).physical), tables, "UTC")
        for name in ("trips", "'rides'")
    )
    assert isinstance(of_table, WantedSlices)
    assert of_files == (
        "slices are of tables, and 'rides' is files by their name: "
        "SHOW CREATE TABLE 'rides' makes a table of them"
    )
