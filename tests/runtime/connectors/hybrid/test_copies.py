"""Copies of histories in checkpoints: when they are made, and what is in them."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from runtime.connectors.hybrid.history import HistoryPlan
from runtime.connectors.hybrid.splits import HybridSplits
from runtime.connectors.registry import open_table
from runtime.errors import ExecutionError
from runtime.files import LocalFiles
from runtime.spec.table import Watermark
from tests.postgres import run
from tests.runtime.connectors.tables import table

COLUMNS = "id BIGINT; ts TIMESTAMP_NTZ"


class KilledError(BaseException):
    """The process was killed."""


def splits_of(spark: SparkSession, url: str, path: Path) -> HybridSplits:
    """Return the splits of a table with PostgreSQL's table `old`, and then a file."""
    partitions = {"scan__partition__column": "id", "scan__partition__num": "2"}
    first = table("postgres", COLUMNS, url=url, table_name="old", **partitions)
    pq.write_table(pa.table({"id": [0], "ts": [dt.datetime(2026, 5, 1)]}), path / "then.parquet")  # noqa: DTZ001
    then = table("filesystem", COLUMNS, path=str(path / "then.parquet"), format="parquet")
    options = {"overlap": "1 s", "overlap__key": "id", "first__range_size": "1 kb"}
    both = table("hybrid", COLUMNS, first="history", then="live", **options)
    parts = (replace(first, name="history"), replace(then, name="live"))
    splits = open_table(replace(both, watermark=Watermark("ts", "ts"), parts=parts)).splits(spark)
    assert isinstance(splits, HybridSplits)
    return splits


def plan(splits: HybridSplits, directory: Path) -> HistoryPlan:
    """Return the plan of a stream that starts with a checkpoint."""
    source = splits.stream(str(directory)).source
    assert isinstance(source, HybridSplits) and source.history is not None
    return source.history


def copied(directory: Path) -> list[list[int]]:
    """Return the ids in the files of copies, in the order of their rows."""
    files = sorted(directory.glob("first-*/*.parquet"))
    return [pq.read_table(file)["id"].to_pylist() for file in files]


@pytest.mark.long
def test_a_copy_is_made_again_until_a_plan_names_it(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(database, "CREATE TABLE old (id bigint, ts timestamp)")
    splits, directory = splits_of(spark, database, tmp_path), tmp_path / "listed"
    with pytest.raises(ExecutionError, match="table `history` has no rows to begin with"):
        plan(splits, directory)
    rows = "INSERT INTO old SELECT i, timestamp '2026-05-01' - i * interval '1 s' "
    run(database, f"{rows} FROM generate_series(1, 500) i")
    # a stream that was killed while it wrote left a part
    (directory / "first-0" / "_temporary").mkdir(parents=True)
    (directory / "first-0" / "part-0.parquet").write_bytes(b"half")
    with monkeypatch.context() as patch:
        patch.setattr(LocalFiles, "write_text", killed)
        with pytest.raises(KilledError):
            plan(splits, directory)
    # it read no row, so rows that came since then are in the next copy
    run(database, f"{rows} FROM generate_series(501, 600) i")
    history = plan(splits, directory)
    assert history.is_copy and len(history.ranges) > 2
    newest = dt.datetime(2026, 4, 30, 23, 59, 59)  # noqa: DTZ001
    assert history.newest_us == (newest - dt.datetime(1970, 1, 1)) / dt.timedelta(microseconds=1)  # noqa: DTZ001
    # one partition per file, each in order of time
    assert copied(directory) == [list(range(300, 0, -1)), list(range(600, 300, -1))]
    run(database, f"{rows} FROM generate_series(601, 700) i", "ALTER TABLE old RENAME TO older")
    assert plan(splits, directory) == history


def killed(files: LocalFiles, path: str, text: str) -> None:
    raise KilledError
