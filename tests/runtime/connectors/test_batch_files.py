"""Batch INSERTs that run concurrently, are killed, or follow killed ones."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from runtime.commits import Commit, committed_files
from runtime.connectors.filesystem import write
from runtime.connectors.filesystem.publish import (
    Writer,
    clear_batches,
    finish_replacing,
    publish,
    remove,
    written_files,
)
from runtime.errors import ExecutionError
from runtime.files import LocalFiles, lock_directory
from runtime.spec.table import TableSpec
from tests.runtime.connectors.tables import read_table, table, write_table

FILES = LocalFiles()
# A batch writer whose process is gone
DEAD = "b0123456789ab"


def numbers(path: Path) -> TableSpec:
    return table("filesystem", "n BIGINT", path=str(path), format="parquet")


def rows(spark: SparkSession, spec: TableSpec) -> list[int]:
    return sorted(row.n for row in read_table(spark, spec).collect())


def everything(path: Path) -> list[str]:
    """Return the files below a directory except data files and Spark's success marker."""
    result = (p for p in path.rglob("*") if not p.name.startswith("part-"))
    return sorted(str(p.relative_to(path)) for p in result if p.name != "_SUCCESS")


def settle(*directories: Path) -> None:
    """Make directories look as old as the leftovers of a killed program."""
    for directory in directories:
        os.utime(directory, (time.time() - 60, time.time() - 60))


def test_leftovers_of_a_killed_job_are_not_in_the_next_insert(
    spark: SparkSession, tmp_path: Path
) -> None:
    spec = numbers(tmp_path / "t")
    # a finished task of a running job
    left = tmp_path / "t/_temporary/0/task_202601010000000000_0001_m_000000"
    left.mkdir(parents=True)
    pq.write_table(pa.table({"n": [100, 200]}), left / "part-00000-dead-c000.snappy.parquet")
    assert write_table(spark.range(2), spec, overwrite=False) == 2
    assert rows(spark, spec) == [0, 1]


@pytest.mark.long
def test_concurrent_inserts_write_all_their_rows(spark: SparkSession, tmp_path: Path) -> None:
    spec = numbers(tmp_path / "t")
    failures: list[Exception] = []

    def insert(start: int) -> None:
        try:
            for batch in range(3):
                first = start + 10 * batch
                write_table(spark.range(first, first + 10, 1, 2), spec, overwrite=False)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=insert, args=(start,)) for start in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert rows(spark, spec) == [*range(30), *range(100, 130), *range(200, 230)]
    assert everything(tmp_path / "t") == []


class Killed(LocalFiles):
    """Renames some files and then stops, as after a kill."""

    def __init__(self, n_renames: int) -> None:
        self._left = n_renames

    def rename(self, path: str, new: str) -> None:
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt
        super().rename(path, new)


def killed_insert(path: Path, n_renames: int) -> Writer:
    """Leave the state of an INSERT that was killed after moving some of three files."""
    writer = Writer(Killed(n_renames), str(path), DEAD)
    hidden = Path(writer.hidden)
    hidden.mkdir(parents=True)
    for number in range(3):
        pq.write_table(pa.table({"n": [100 + number]}), hidden / f"part-{number}-x.c000.parquet")
    result = written_files(FILES, str(hidden))
    if n_renames < 3:
        with pytest.raises(KeyboardInterrupt):
            publish(writer, result, str(hidden), Commit(0, True))
    else:
        publish(writer, result, str(hidden), Commit(0, True))
    settle(hidden)
    return writer


@pytest.mark.long
@pytest.mark.parametrize("n_renames", range(4))
def test_an_insert_killed_while_moving_files_counts_whole_or_not_at_all(
    spark: SparkSession, tmp_path: Path, n_renames: int
) -> None:
    spec = numbers(tmp_path / "t")
    write_table(spark.range(2), spec, overwrite=False)
    killed_insert(tmp_path / "t", n_renames)
    existing = [0, 1, *([100, 101, 102] if n_renames == 3 else [])]
    assert rows(spark, spec) == existing
    write_table(spark.range(5, 6), spec, overwrite=False)
    assert rows(spark, spec) == sorted([*existing, 5])
    assert everything(tmp_path / "t") == []
    files = (tmp_path / "t").glob("part-*")
    assert sum(pq.read_metadata(file).num_rows for file in files) == len(rows(spark, spec))


def test_files_of_a_running_insert_are_not_removed(tmp_path: Path) -> None:
    writer = killed_insert(tmp_path / "t", 1)
    with lock_directory(writer.hidden) as is_ours:
        assert is_ours
        clear_batches(FILES, str(tmp_path / "t"))
        assert Path(writer.hidden).exists()
    # a young directory may belong to a writer that has not locked it yet
    os.utime(writer.hidden)
    clear_batches(FILES, str(tmp_path / "t"))
    assert Path(writer.hidden).exists()
    settle(Path(writer.hidden))
    clear_batches(FILES, str(tmp_path / "t"))
    assert list((tmp_path / "t").iterdir()) == []


def test_a_reader_that_lists_while_a_batch_is_published_lists_again(tmp_path: Path) -> None:
    names = [f"part-{DEAD}-00000000-0000{number}.json" for number in range(2)]
    # half of the files; then the replacement completes and removes its commit file
    listings: Iterator[list[str]] = iter([names[:1], names, names, names])
    assert committed_files(FILES, str(tmp_path), lambda: next(listings)) == names


@pytest.mark.long
def test_a_first_insert_that_fails_leaves_no_directory(spark: SparkSession, tmp_path: Path) -> None:
    failing = spark.range(0, 100, 1, 2).selectExpr("IF(id = 99, raise_error('late'), id)")
    for overwrite in (False, True):
        with pytest.raises(ExecutionError, match="late"):
            write_table(failing, numbers(tmp_path / "t"), overwrite=overwrite)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize("point", ["written", "moved away", "replaced"])
def test_a_killed_overwrite_is_finished_or_reverted(
    spark: SparkSession, tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = numbers(tmp_path / "t")
    write_table(spark.range(2), spec, overwrite=False)
    reached = {"written": 0, "moved away": 1, "replaced": 2}[point]
    with monkeypatch.context() as patched:
        patched.setattr(write, "writable_files_at", lambda *_: Killed(reached))
        # a killed program removes nothing
        patched.setattr(write, "remove", lambda *_: None)
        patched.setattr(Killed, "delete", lambda *_: None)
        if reached < 2:
            with pytest.raises(KeyboardInterrupt):
                write_table(spark.range(7, 9), spec, overwrite=True)
        else:
            write_table(spark.range(7, 9), spec, overwrite=True)
    assert len(list(tmp_path.iterdir())) == 2
    settle(*tmp_path.iterdir())
    after = [0, 1] if point == "written" else [7, 8]
    assert rows(spark, spec) == after
    write_table(spark.range(9, 10), spec, overwrite=False)
    assert rows(spark, spec) == [*after, 9]
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_a_directory_recreated_by_tasks_is_removed(tmp_path: Path) -> None:
    new = tmp_path / ".t.0"

    class Recreated(LocalFiles):
        """Lets a task recreate the directory while, or right after, it is removed."""

        n_times = 0

        def delete(self, path: str) -> None:
            super().delete(path)
            self.n_times += 1
            if self.n_times <= 6:
                (new / f"_temporary/0/{self.n_times}").mkdir(parents=True)
            if self.n_times % 2:
                raise OSError("Directory not empty")

    files = Recreated()
    new.mkdir()
    remove(files, str(new))
    assert files.n_times == 7
    assert not new.exists()


def test_an_overwrite_that_was_killed_behind_a_link_is_finished_by_who_reads(
    tmp_path: Path,
) -> None:
    target, link = tmp_path / "there", tmp_path / "link"
    link.symlink_to(target / "t")
    for name in (f".t.{DEAD[1:]}", f".t.{DEAD[1:]}.old"):
        (target / name).mkdir(parents=True)
        (target / name / "f.parquet").write_text(name)
    settle(*target.iterdir())
    finish_replacing(str(link))
    assert (link / "f.parquet").read_text() == f".t.{DEAD[1:]}"
    assert [path.name for path in target.iterdir()] == ["t"]


def test_a_running_overwrite_is_not_disturbed(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    new = tmp_path / f".t.{DEAD[1:]}"
    new.mkdir()
    settle(new)
    with lock_directory(str(new)):
        finish_replacing(str(tmp_path / "t"))
        assert new.exists()
    finish_replacing(str(tmp_path / "t"))
    assert [path.name for path in tmp_path.iterdir()] == ["t"]
