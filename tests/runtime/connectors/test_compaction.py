"""Micro-batches of a stream that compacts its files: few files, each row once, all rows or none."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from runtime.commits import committed_files, read_commit
from runtime.connectors.filesystem.stream_write import Compaction, FileSink, compaction
from runtime.errors import ExecutionError
from runtime.files import LocalFiles
from runtime.spec.sink import StreamWriter
from runtime.spec.table import TableSpec
from tests.marks import among
from tests.observing import wait_until
from tests.runtime.connectors.tables import read_table, table
from tests.runtime.connectors.test_stream_files import Killed, below

FILES = LocalFiles()


class Run:
    """A run of a stream of numbers; micro-batch n has 10n to 10n + 9."""

    def __init__(self, spark: SparkSession, spec: TableSpec, directory: Path, files: LocalFiles):
        self.spark = spark
        self.checkpoint = directory / "checkpoint"
        for name in ("offsets", "commits"):
            (self.checkpoint / name).mkdir(parents=True, exist_ok=True)
        writer = StreamWriter("w", f"file://{self.checkpoint}")
        self.sink = FileSink(self.rows(0), spec, writer, files)

    def rows(self, batch: int) -> DataFrame:
        return self.spark.range(10 * batch, 10 * batch + 10, 1, 2).selectExpr("id AS n", "id % 2 p")

    def next(self) -> int:
        committed = [int(path.name) for path in (self.checkpoint / "commits").iterdir()]
        return max(committed, default=-1) + 1

    def micro_batch(self) -> None:
        batch = self.next()
        plan = self.checkpoint / "offsets" / str(batch)
        if not plan.exists():
            plan.write_text(f"planned at {time.time_ns()}")
        assert self.sink.write(self.rows(batch), batch) == 10
        (self.checkpoint / "commits" / str(batch)).touch()


def compacting_table(path: Path, partitioned: tuple[str, ...] = (), **options: str) -> TableSpec:
    waiting = {"sink__rolling_policy__rollover_interval": "1 h"}
    options = {"format": "parquet", "auto_compaction": "true", **waiting, **options}
    return table("filesystem", "n BIGINT; p BIGINT", partitioned, path=str(path), **options)


def visible_rows(path: Path) -> list[int]:
    """Return the rows that a reader sees, in Parquet files without partitions."""
    paths = [str(path / name) for name in below(path) if not name.startswith(".")]
    shown = committed_files(FILES, str(path), lambda: paths)
    return sorted(n for file in shown for n in pq.read_table(file)["n"].to_pylist())


@pytest.mark.long
@pytest.mark.parametrize(
    ("file_format", "partitioned"), [("parquet", ()), ("parquet", ("p",)), ("csv", ())]
)
def test_micro_batches_are_published_together_at_the_end(
    spark: SparkSession, tmp_path: Path, file_format: str, partitioned: tuple[str, ...]
) -> None:
    spec = compacting_table(tmp_path / "out", partitioned, format=file_format)
    run = Run(spark, spec, tmp_path, FILES)
    for _ in range(3):
        run.micro_batch()
    assert [name for name in below(tmp_path / "out") if name[0] != "."] == []
    run.sink.commit()
    names = [f"part-w-00000002-{number:05d}" for number in range(2 if partitioned else 1)]
    shown = below(tmp_path / "out")
    assert [name.rpartition("/")[2].partition(".")[0] for name in shown] == names
    rows = sorted((row.n, row.p) for row in read_table(spark, spec).collect())
    assert rows == [(n, n % 2) for n in range(30)]
    commit = read_commit(FILES, str(tmp_path / "out"), "w")
    assert commit is not None
    assert (commit.batch, commit.is_whole, commit.held) == (2, True, ())


@pytest.mark.long
def test_micro_batches_are_published_when_they_are_large_or_many_or_old(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = Run(
        spark, compacting_table(tmp_path / "out", compaction__file_size="3 kb"), tmp_path, FILES
    )
    run.micro_batch()
    run.micro_batch()
    assert visible_rows(tmp_path / "out") == []
    run.micro_batch()
    # of the two previous ones, which are committed
    assert visible_rows(tmp_path / "out") == list(range(20))
    held = read_commit(FILES, str(tmp_path / "out"), "w")
    assert held is not None
    now_s = held.held[0].since_s
    assert not Compaction(1 << 30, 10).is_due(held.held, now_s + 9)
    assert Compaction(1 << 30, 10).is_due(held.held, now_s + 10)
    assert Compaction(1 << 30, 10, n_batches=1).is_due(held.held, now_s)
    assert not Compaction(1, 0).is_due((), now_s)
    assert compaction({"compaction.file-size": "1mb"}) is None
    chosen = {
        "auto-compaction": "TRUE",
        "compaction.file-size": "64 MB",
        "sink.rolling-policy.rollover-interval": "30 min",
    }
    assert compaction(chosen) == Compaction(64 << 20, 1800)
    run.sink.commit()


@pytest.mark.long
def test_rows_do_not_wait_for_others_that_never_come(spark: SparkSession, tmp_path: Path) -> None:
    options = {"sink__rolling_policy__rollover_interval": "1 s"}
    run = Run(spark, compacting_table(tmp_path / "out", **options), tmp_path, FILES)
    run.micro_batch()
    assert wait_until(lambda: visible_rows(tmp_path / "out")) == list(range(10))
    run.sink.commit()


class KilledBetween(Killed):
    """Also records the visible files before each change."""

    def __init__(self, path: Path, n_changes: int) -> None:
        super().__init__(n_changes)
        self._path = path

    def change(self) -> None:
        result = visible_rows(self._path)
        # complete micro-batches, each once
        assert result == list(range(len(result)))
        assert len(result) % 10 == 0
        super().change()

    def delete(self, path: str) -> None:
        if self.exists(path):
            self.change()
        super().delete(path)


@pytest.mark.parametrize("n_changes", among(range(14), long=(9,), slow=set(range(14)) - {9}))
@pytest.mark.parametrize("is_again", [False, True])
def test_killed_anywhere_a_stream_shows_each_row_once(
    spark: SparkSession, tmp_path: Path, n_changes: int, is_again: bool
) -> None:
    out = tmp_path / "out"
    spec = compacting_table(out, compaction__file_size="1 kb")
    first = Run(spark, spec, tmp_path, FILES)
    first.micro_batch()
    first.micro_batch()  # which publishes the first one
    visible = visible_rows(out)
    for _ in range(1 + is_again):
        with pytest.raises(KeyboardInterrupt):
            second = Run(spark, spec, tmp_path, KilledBetween(out, n_changes))
            for _ in range(2):
                second.micro_batch()
            second.sink.commit()
            raise KeyboardInterrupt
    now = visible_rows(out)
    assert now[: len(visible)] == visible
    third = Run(spark, spec, tmp_path, FILES)
    third.micro_batch()
    third.sink.commit()
    assert visible_rows(out) == list(range(10 * third.next()))
    assert [p.name for p in out.iterdir() if p.is_dir()] == []


def test_a_restored_checkpoint_older_than_compacted_files_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    spec = compacting_table(tmp_path / "out")
    run = Run(spark, spec, tmp_path, FILES)
    for _ in range(3):
        run.micro_batch()
    run.sink.commit()
    for name in ("offsets", "commits"):
        for batch in (1, 2):
            (run.checkpoint / name / str(batch)).unlink()
    with pytest.raises(ExecutionError, match=r"contains rows up to micro-batch 2, several"):
        Run(spark, spec, tmp_path, FILES).micro_batch()
    assert visible_rows(tmp_path / "out") == list(range(30))


def test_a_published_micro_batch_stays_when_it_is_repeated(
    spark: SparkSession, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    spec = compacting_table(out, auto_compaction="false")
    Run(spark, spec, tmp_path, FILES).micro_batch()
    (tmp_path / "checkpoint" / "commits" / "0").unlink()
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")}
    Run(spark, spec, tmp_path, FILES).micro_batch()
    assert {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")} == before
    # planned again from an older checkpoint, it may have other rows
    for name in ("offsets", "commits"):
        (tmp_path / "checkpoint" / name / "0").unlink()
    Run(spark, spec, tmp_path, FILES).micro_batch()
    assert {path.stat().st_mtime_ns for path in out.glob("part-*")}.isdisjoint(before.values())
    assert visible_rows(out) == list(range(10))
