"""Small things with files wherever Spark can write them: HDFS, an object store, this machine.

Private APIs, seen in Spark 4.3: `SparkSession._jvm` and `SparkContext._jsc`, for Hadoop's
file systems.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from runtime.errors import SetupError
from runtime.files import Files, LocalFiles
from runtime.spark.session import is_remote


def files_at(spark: SparkSession, path: str) -> Files:
    """The file system that `path` is on: an absolute path of this machine, or a URI.

    Raises:
        SetupError: the session is one of Spark Connect, whose driver is out of reach.
    """
    if is_remote(spark):
        raise SetupError(
            "streams are started where Spark's driver runs, not over Spark Connect",
            hint="use master= (--master) in place of remote= (--remote)",
        )
    return LocalFiles() if path.startswith("/") else HadoopFiles(spark)


class HadoopFiles:
    """A file system of Hadoop's, as the Spark session's driver sees it; paths are URIs.

    Args:
        spark: the session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._conf: Any = spark.sparkContext._jsc.hadoopConfiguration()

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""
        return bool(self._system(path).exists(self._path(path)))

    def make_directory(self, path: str) -> None:
        """Make a directory, and those above it."""
        self._system(path).mkdirs(self._path(path))

    def make_private(self, path: str) -> None:
        """Nothing: who may see what is a matter of the file system's own rules."""

    def read_text(self, path: str) -> str:
        """The UTF-8 text in a small file."""
        stream = self._system(path).open(self._path(path))
        try:
            return bytes(stream.readAllBytes()).decode("utf-8")
        finally:
            stream.close()

    def write_text(self, path: str, text: str) -> None:
        """Write a small file; one that is there is replaced."""
        stream = self._system(path).create(self._path(path), True)
        try:
            stream.write(bytearray(text.encode("utf-8")))
        finally:
            stream.close()

    def rename(self, path: str, new: str) -> None:
        """Give a file another name, which must be free; its directory is made."""
        system = self._system(path)
        target = self._path(new)
        system.mkdirs(target.getParent())
        if not system.rename(self._path(path), target):
            raise OSError(f"cannot rename {path} to {new}")

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with all that is in it, if it is there."""
        self._system(path).delete(self._path(path), True)

    def files_below(self, path: str) -> Iterator[str]:
        """The files below a directory, by paths that start with `path`."""
        if not self.exists(path):
            return
        system, root = self._system(path), self._path(path)
        base = str(system.getFileStatus(root).getPath().toUri().getPath()).rstrip("/")
        found = system.listFiles(root, True)
        while found.hasNext():
            full = str(found.next().getPath().toUri().getPath())
            yield path.rstrip("/") + full.removeprefix(base)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _system(self, path: str) -> Any:
        return self._path(path).getFileSystem(self._conf)
