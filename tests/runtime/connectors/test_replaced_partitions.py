"""INSERT OVERWRITE of partitions replaces all of them or none, whenever it is killed."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sqlwin
from runtime.commits import Commit, committed_files
from runtime.connectors.filesystem import write
from runtime.connectors.filesystem.publish import Writer, clear_batches, conclude, publish
from runtime.errors import ExecutionError
from runtime.files import LocalFiles
from runtime.scan.paths import data_files
from runtime.spec.table import TableSpec
from tests.runtime.connectors.tables import read_table, table, write_table
from tests.runtime.connectors.test_batch_files import DEAD, FILES, everything, settle

OLD = [(0, 1), (0, 2), (0, 3)]
# the third partition gets no rows, and a fourth one is new
NEW = [(0, 3), (1, 1), (1, 2), (1, 4)]


def days(path: Path, **options: str) -> TableSpec:
    options = {"path": str(path), "format": "parquet", **options}
    return table("filesystem", "v BIGINT; day BIGINT", ("day",), **options)


def write_old(path: Path) -> None:
    for value, day in OLD:
        (path / f"day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"v": [value]}), path / f"day={day}/old.parquet")


def overwrite(path: Path, files: LocalFiles) -> None:
    """Replace partitions, after tasks have written the new files."""
    writer = Writer(files, str(path), DEAD)
    result = []
    for day in (1, 2, 4):
        hidden = Path(writer.hidden) / f"day={day}"
        hidden.mkdir(parents=True)
        result.append(f"{hidden}/part-0-x.c000.parquet")
        pq.write_table(pa.table({"v": [1]}), result[-1])
    replacing = ["day=1", "day=2", "day=4"]
    publish(writer, result, writer.hidden, Commit(0, True), replacing)
    conclude(writer)


def pairs(paths: list[str]) -> list[tuple[int, int]]:
    """Return (value, day) of the rows in files."""
    return sorted(
        (value, int(Path(path).parent.name.removeprefix("day=")))
        for path in paths
        for value in pq.ParquetFile(path).read()["v"].to_pylist()
    )


def rows(spark: SparkSession, spec: TableSpec) -> list[tuple[int, int]]:
    return sorted((row.v, row.day) for row in read_table(spark, spec).collect())


def on_disk(path: Path) -> list[str]:
    return list(data_files(str(path)))


class StopAt(LocalFiles):
    """Runs an action instead of the n-th change of files."""

    def __init__(self, number: int, act: Callable[[], Any]) -> None:
        self._left = number
        self._lock = threading.Lock()
        self._act = act

    def _change(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._act()

    def make_directory(self, path: str) -> None:
        self._change()
        super().make_directory(path)

    def rename(self, path: str, new: str) -> None:
        self._change()
        super().rename(path, new)

    def write_text(self, path: str, text: str) -> None:
        self._change()
        super().write_text(path, text)

    def delete(self, path: str) -> None:
        self._change()
        super().delete(path)


def killed_at(path: Path, number: int) -> bool:
    """Replace partitions in a process that is killed at a change. Return whether it reached it."""
    process = os.fork()
    if process == 0:
        try:
            overwrite(path, StopAt(number, lambda: os.kill(os.getpid(), signal.SIGKILL)))
        finally:
            os._exit(0)
    _, status = os.waitpid(process, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.long
def test_a_kill_replaces_all_partitions_or_none(tmp_path: Path) -> None:
    paths = []
    is_killed = True
    while is_killed:
        paths.append(tmp_path / str(len(paths) + 1))
        write_old(paths[-1])
        for _, day in OLD:
            (paths[-1] / f"day={day}/.old.parquet.crc").touch()
        is_killed = killed_at(paths[-1], len(paths))
    result = [pairs(committed_files(FILES, str(p), partial(on_disk, p))) for p in paths]
    # old rows up to some point, new rows from then on
    is_new = [rows == NEW for rows in result]
    assert result == [OLD] * is_new.count(False) + [NEW] * is_new.count(True)
    assert is_new.count(False) > 5 and is_new.count(True) > 5
    # the next writer, or the next stream that reads
    for path in paths[:-1]:
        if (hidden := path / f".sqlwin-{DEAD}").exists():
            settle(hidden)
    with ThreadPoolExecutor(len(paths)) as threads:
        list(threads.map(lambda path: clear_batches(FILES, str(path)), paths))
    kept = ["day=3/.old.parquet.crc", "day=3/old.parquet"]
    for path, counted in zip(paths, result, strict=True):
        assert pairs(on_disk(path)) == counted, path
        assert not [name for name in everything(path) if name.startswith(".")], path
    assert everything(paths[-1]) == ["day=1", "day=2", "day=3", *kept, "day=4"]


class Stopped(Exception):
    """Raised instead of a kill."""


def stop() -> None:
    raise Stopped


# before the last file is moved, and before the last one is deleted
@pytest.mark.long
@pytest.mark.parametrize("number", [7, 10])
@pytest.mark.parametrize("scan", ["", "push_local_aggregate_into_scan"])
def test_a_concurrent_query_sees_all_new_rows_or_all_old_ones(
    fresh_session: sqlwin.Session, tmp_path: Path, number: int, scan: str
) -> None:
    write_old(tmp_path / "t")
    with pytest.raises(Stopped):
        overwrite(tmp_path / "t", StopAt(number, stop))
    n_files = len(on_disk(tmp_path / "t"))
    assert n_files > 4, "both are there"
    fresh_session.execute(
        f"""SET 'sqlwin.optimizer.disabled-rules' = '{scan}';
        CREATE TABLE t (v BIGINT, day BIGINT, ts AS TIMESTAMP '2024-01-01 00:00:00')
        PARTITIONED BY (day)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'parquet')"""
    )
    expected = OLD if number == 7 else NEW
    result = fresh_session.sql("SELECT v, day FROM t ORDER BY 1, 2").collect()
    assert [tuple(row) for row in result] == expected
    windows = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY))"
    query = (
        f"SELECT v, COUNT(*) AS n FROM {windows} GROUP BY v, window_start, window_end ORDER BY v"
    )
    assert ("ArrowScan" in fresh_session.explain(query)) == (scan == "")
    counts = fresh_session.sql(query)
    n_old = sum(value == 0 for value, _ in expected)
    assert [tuple(r) for r in counts.collect()] == [
        item for item in ((0, n_old), (1, len(expected) - n_old)) if item[1]
    ]
    assert len(on_disk(tmp_path / "t")) == n_files
    settle(tmp_path / "t" / f".sqlwin-{DEAD}")
    fresh_session.execute("INSERT INTO t VALUES (5, 5)")
    assert pairs(on_disk(tmp_path / "t")) == [*expected, (5, 5)]


class InSteps(LocalFiles):
    """Replaces partitions in a thread, one change of files at a time."""

    def __init__(self, path: Path) -> None:
        self._may = threading.Semaphore(0)
        self._has = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, args=(path,))
        self._thread.start()

    def _run(self, path: Path) -> None:
        overwrite(path, self)
        self._has.release(100)

    def go(self, n_changes: int) -> None:
        """Make `n_changes` changes, or all remaining ones."""
        for _ in range(n_changes):
            self._may.release()
            self._has.acquire()

    def end(self) -> None:
        self._may.release(100)
        self._thread.join()

    @contextmanager
    def _change(self) -> Iterator[None]:
        self._may.acquire()
        yield
        self._has.release()

    def make_directory(self, path: str) -> None:
        with self._change():
            super().make_directory(path)

    def rename(self, path: str, new: str) -> None:
        with self._change():
            super().rename(path, new)

    def write_text(self, path: str, text: str) -> None:
        with self._change():
            super().write_text(path, text)

    def delete(self, path: str) -> None:
        with self._change():
            super().delete(path)


@pytest.mark.long
def test_a_reader_that_lists_meanwhile_sees_all_new_files_or_all_old_ones(tmp_path: Path) -> None:
    chosen = random.Random(3)
    listings = []
    for number in range(40):
        path = tmp_path / str(number)
        write_old(path)
        files = InSteps(path)
        files.go(chosen.randrange(12))
        # before a listing, during it, after it, and so on
        steps = [chosen.randrange(6) for _ in range(6)]

        def listed(
            path: Path = path, files: InSteps = files, steps: list[int] = steps
        ) -> list[str]:
            files.go(steps.pop() if steps else 0)
            result = [file for day in (1, 2) for file in data_files(f"{path}/day={day}")]
            files.go(steps.pop() if steps else 0)
            result += [file for day in (3, 4) for file in data_files(f"{path}/day={day}")]
            files.go(steps.pop() if steps else 0)
            return result

        names = committed_files(FILES, str(path), listed)
        files.end()
        kept = {Path(name).parent.name: Path(name).name.startswith("part-") for name in names}
        assert len(kept) == len(names), "of each partition the old file or the new one"
        assert kept in (
            {f"day={day}": False for day in (1, 2, 3)},
            {f"day={day}": day != 3 for day in (1, 2, 3, 4)},
        )
        listings.append("day=4" in kept)
    assert len(set(listings)) == 2


def test_an_overwrite_that_fails_leaves_all_partitions(spark: SparkSession, tmp_path: Path) -> None:
    spec = days(tmp_path / "t")
    write_old(tmp_path / "t")
    before = everything(tmp_path / "t")
    failing = spark.range(0, 100, 1, 2).selectExpr("IF(id = 99, raise_error('late'), id)", "1")
    with pytest.raises(ExecutionError, match="late"):
        write_table(failing, spec, overwrite=True)
    assert rows(spark, spec) == OLD
    assert everything(tmp_path / "t") == before


def test_an_overwrite_reads_the_partitions_that_it_replaces(
    spark: SparkSession, tmp_path: Path
) -> None:
    spec = days(tmp_path / "t")
    write_old(tmp_path / "t")
    plus = read_table(spark, spec).selectExpr("v + 10", "day + 1")
    assert write_table(plus, spec, overwrite=True) == 3
    assert rows(spark, spec) == [(0, 1), (10, 2), (10, 3), (10, 4)]


def test_undeletable_old_files_are_reported_and_ignored(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = days(tmp_path / "t")
    write_old(tmp_path / "t")

    class Sticky(LocalFiles):
        def delete(self, path: str) -> None:
            if path.endswith("old.parquet"):
                raise PermissionError(1, "Operation not permitted", path)
            super().delete(path)

    with monkeypatch.context() as patched:
        patched.setattr(write, "writable_files_at", lambda *_: Sticky())
        with pytest.raises(ExecutionError, match="cannot be deleted: Operation not permitted"):
            write_table(spark.sql("SELECT 7L, 1L"), spec, overwrite=True)
    assert rows(spark, spec) == [(0, 2), (0, 3), (7, 1)]
    settle(*(tmp_path / "t").glob(".sqlwin-*"))
    write_table(spark.sql("SELECT 8L, 1L"), spec, overwrite=False)
    assert pairs(on_disk(tmp_path / "t")) == [(0, 2), (0, 3), (7, 1), (8, 1)]


@pytest.mark.long
def test_the_last_concurrent_overwrite_wins(spark: SparkSession, tmp_path: Path) -> None:
    spec = days(tmp_path / "t")
    write_old(tmp_path / "t")
    failures: list[Exception] = []

    def replace(value: int) -> None:
        try:
            for _ in range(2):
                new = spark.range(1, 9, 1, 2).selectExpr(f"{value}L", "id")
                write_table(new, spec, overwrite=True)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=replace, args=(value,)) for value in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    result = rows(spark, spec)
    assert result in [[(value, day) for day in range(1, 9)] for value in (1, 2)]
    assert pairs(on_disk(tmp_path / "t")) == result


def test_a_whole_table_is_replaced_if_requested(spark: SparkSession, tmp_path: Path) -> None:
    write_old(tmp_path / "t")
    spec = days(tmp_path / "t", partitionOverwriteMode="static")
    write_table(spark.sql("SELECT 7L, 2L"), spec, overwrite=True)
    assert rows(spark, spec) == [(7, 2)]
    assert pairs(on_disk(tmp_path / "t")) == [(7, 2)]


@pytest.mark.long
def test_random_overwrites_leave_the_rows_of_a_model(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    chosen = random.Random(7)
    model = duckdb.connect()
    fresh_session.execute(
        f"""CREATE TABLE t (v BIGINT, a STRING, b BIGINT) PARTITIONED BY (a, b)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'json')"""
    )
    model.execute("CREATE TABLE t (v BIGINT, a VARCHAR, b BIGINT)")
    for number in range(15):
        values = [
            (number * 10 + i, chosen.choice(["x", "y/z", "'é'"]), chosen.randrange(3))
            for i in range(chosen.randrange(4))
        ]
        quoted = [(v, a.replace("'", "''"), b) for v, a, b in values]
        text = ", ".join(f"({v}, '{a}', {b})" for v, a, b in quoted)
        query = f"VALUES {text}" if text else "SELECT v, a, b FROM t WHERE FALSE"
        is_replacing = bool(number) and chosen.random() < 0.6
        fresh_session.execute(f"INSERT {'OVERWRITE' if is_replacing else 'INTO'} t {query}")
        model.execute("CREATE OR REPLACE TEMP TABLE n AS SELECT * FROM t LIMIT 0")
        if text:
            model.execute(f"INSERT INTO n VALUES {text}")
        if is_replacing:
            model.execute("DELETE FROM t WHERE (a, b) IN (SELECT (a, b) FROM n)")
        model.execute("INSERT INTO t SELECT * FROM n")
        expected = model.execute("SELECT * FROM t ORDER BY v").fetchall()
        result = fresh_session.sql("SELECT * FROM t ORDER BY v").collect()
        assert [tuple(row) for row in result] == expected, number
