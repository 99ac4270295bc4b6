"""Paths are resolved by the session's rules, and small files are replaced atomically."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from runtime.errors import ExecutionError
from runtime.files import LocalFiles, as_uri
from runtime.spark.files import HadoopFiles, files_at, resolve


class FailsToReplace(HadoopFiles):
    """Is killed between the write and the rename."""

    def replace(self, path: str, new: str) -> None:
        raise OSError("killed")


class FailsBehindDelete(HadoopFiles):
    """Is killed after the old file is deleted and before the new one is renamed."""

    def rename(self, path: str, new: str) -> None:
        if path.endswith(".new"):
            raise OSError("killed")
        super().rename(path, new)


class Overtaken(HadoopFiles):
    """Another process completes the same replacement first."""

    def rename(self, path: str, new: str) -> None:
        if path.endswith(".new"):
            super().rename(path, new)
        super().rename(path, new)


def test_paths_without_a_scheme_are_on_the_default_file_system_of_the_session(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve(spark, "a/../b") == f"{tmp_path}/b"
    assert resolve(spark, "file:///x/y") == resolve(spark, "file:/x/y") == "/x/y"
    assert resolve(spark, "s3a://bucket/a/") == "s3a://bucket/a"
    assert isinstance(files_at(spark, "/x"), LocalFiles)
    own = spark.newSession()
    own.conf.set("fs.defaultFS", "viewfs://paths/")
    own.conf.set("fs.viewfs.mounttable.paths.link./data", f"file://{tmp_path}")
    assert resolve(own, "/data/x") == "viewfs://paths/data/x"
    assert resolve(own, f"file://{tmp_path}") == str(tmp_path)
    files = files_at(own, resolve(own, "/data"))
    files.write_text("viewfs://paths/data/x", "one")
    assert (tmp_path / "x").read_text() == "one"
    assert files.names_in("viewfs://paths/data") == ["x"]
    assert files.expand("viewfs://paths/data/{x,y}*") == ["viewfs://paths/data/x"]


def test_a_page_of_the_web_is_refused_at_once(spark: SparkSession) -> None:
    for path in ("https://example.com/x.csv", "HTTP://example.com/x.csv", "ftp://example.com/x"):
        with pytest.raises(
            ExecutionError, match=r"is a web address, which cannot be read as a file"
        ):
            resolve(spark, path)


@pytest.mark.parametrize("replaces", [True, False])
def test_a_small_file_is_replaced_in_whole(
    spark: SparkSession, tmp_path: Path, replaces: bool
) -> None:
    files, path = HadoopFiles(spark, replaces=replaces), as_uri(f"{tmp_path}/x")
    for text in ("one", "two"):
        files.write_text(path, text)
        assert files.read_text(path) == text
    with pytest.raises(OSError, match="killed"):
        FailsToReplace(spark).write_text(path, "three")
    assert files.read_text(path) == "two"


def test_a_replacement_that_was_cut_short_is_finished_by_whoever_reads(
    spark: SparkSession, tmp_path: Path
) -> None:
    files, path = HadoopFiles(spark), as_uri(f"{tmp_path}/x")
    files.write_text(path, "one")
    with pytest.raises(OSError, match="killed"):
        FailsBehindDelete(spark, replaces=False).write_text(path, "two")
    assert not (tmp_path / "x").exists()
    assert files.exists(path)
    assert files.read_text(path) == "two"


def test_two_processes_may_finish_a_replacement_at_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    files, path = HadoopFiles(spark), as_uri(f"{tmp_path}/x")
    files.write_text(path, "one")
    Overtaken(spark, replaces=False).write_text(path, "two")
    assert files.read_text(path) == "two"
    with pytest.raises(OSError, match="killed"):
        FailsBehindDelete(spark, replaces=False).write_text(path, "three")
    assert Overtaken(spark).exists(path)
    assert files.read_text(path) == "three"


def test_errors_of_java_about_files_are_os_errors(spark: SparkSession, tmp_path: Path) -> None:
    files = HadoopFiles(spark)
    with pytest.raises(FileNotFoundError):
        files.read_text(as_uri(f"{tmp_path}/none"))
    with pytest.raises(OSError, match="nowhere"):
        files.exists("nowhere://x/y")


def test_footers_are_read_wherever_files_are(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": range(100_000)}), tmp_path / "a.parquet")
    with HadoopFiles(spark).open(as_uri(f"{tmp_path}/a.parquet")) as file:
        assert pq.read_metadata(file).num_rows == 100_000
