"""A stream copies a history into its checkpoint once, and again after a kill before the plan."""

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


def splits_of(spark: SparkSession, url: str, path: Path, size: str = "1 kb") -> HybridSplits:
    """Return the splits of a table with PostgreSQL's table `old`, and then a file."""
    partitions = {"scan__partition__column": "id", "scan__partition__num": "2"}
    first = table("postgres", COLUMNS, url=url, table_name="old", **partitions)
    pq.write_table(pa.table({"id": [0], "ts": [dt.datetime(2026, 5, 1)]}), path / "then.parquet")  # noqa: DTZ001
    then = table("filesystem", COLUMNS, path=str(path / "then.parquet"), format="parquet")
    options = {"overlap": "1 s", "overlap__key": "id", "first__range_size": size}
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
    directory = tmp_path / "listed"

    def planned() -> HistoryPlan:
        return plan(splits_of(spark, database, tmp_path), directory)

    with pytest.raises(ExecutionError, match="table `history` has no rows to begin with"):
        planned()
    rows = "INSERT INTO old SELECT i, timestamp '2026-05-01' - i * interval '1 s' "
    run(database, f"{rows} FROM generate_series(1, 500) i")
    # a stream that was killed while it wrote left a part
    (directory / "first-0" / "_temporary").mkdir(parents=True)
    (directory / "first-0" / "part-0.parquet").write_bytes(b"half")
    with monkeypatch.context() as patch:
        patch.setattr(LocalFiles, "write_text", killed)
        with pytest.raises(KilledError):
            planned()
    # it read no row, so rows that came since then are in the next copy
    run(database, f"{rows} FROM generate_series(501, 600) i")
    history = planned()
    assert history.is_copy and len(history.ranges) > 2
    newest = dt.datetime(2026, 4, 30, 23, 59, 59)  # noqa: DTZ001
    assert history.newest_us == (newest - dt.datetime(1970, 1, 1)) / dt.timedelta(microseconds=1)  # noqa: DTZ001
    # one partition per file, each in order of time
    assert copied(directory) == [list(range(300, 0, -1)), list(range(600, 300, -1))]
    run(database, f"{rows} FROM generate_series(601, 700) i", "ALTER TABLE old RENAME TO older")
    assert planned() == history


@pytest.mark.long
def test_copies_of_one_stream_are_made_once_and_have_the_same_ranges(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    rows = "SELECT i AS id, timestamp '2026-05-01' - i * interval '1 s' AS ts"
    run(database, f"CREATE TABLE old AS {rows} FROM generate_series(1, 500) i")
    both = [splits_of(spark, database, tmp_path, size) for size in ("1 kb", "2 kb")]
    directories = [tmp_path / "0", tmp_path / "1"]
    plans = [
        plan(splits.read_with(both), directory)
        for splits, directory in zip(both, directories, strict=True)
    ]
    assert len(plans[0].ranges) == len(plans[1].ranges) > 2
    assert sorted(id_ for file in copied(directories[0]) for id_ in file) == sorted(
        [*range(1, 501), *range(1, 501)]
    )
    assert not copied(directories[1])
    # a stream that was killed between the two plans copies the second table again
    (directories[1] / "history.json").unlink()
    again = [splits_of(spark, database, tmp_path, size) for size in ("1 kb", "2 kb")]
    resumed = [
        plan(splits.read_with(again), directory)
        for splits, directory in zip(again, directories, strict=True)
    ]
    assert resumed[0] == plans[0] and resumed[1].newest_us == plans[1].newest_us
    assert len(copied(directories[0])) == 4 and len(copied(directories[1])) == 4


def killed(files: LocalFiles, path: str, text: str) -> None:
    raise KilledError
