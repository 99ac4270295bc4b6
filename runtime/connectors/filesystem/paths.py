"""Paths in WITH options: relative ones, `~`, globs, and what is near a path that is not there.

Private API, seen in Spark 4.3: `SparkContext._jsc`, for the configuration of Hadoop's file systems.
"""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path

from pyspark.sql import SparkSession

from runtime.errors import ExecutionError, nearest
from runtime.spark.session import is_remote

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_GLOB = re.compile(r"[*?{}\[\]]")


def local_path(spark: SparkSession, path: str) -> str | None:
    """`path` as an absolute path of this machine, or None if it is none.

    Relative paths start at the current directory. A path with a scheme other than `file:`, and
    every path where Spark's own file system is another one (HDFS, a Connect server), is Spark's to
    understand.
    """
    if path.startswith("file:/"):
        return "/" + path.removeprefix("file:").lstrip("/")
    if _SCHEME.match(path) or is_remote(spark):
        return None
    default = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///")
    if not str(default).startswith("file:"):
        return None
    return os.path.normpath(os.path.join(os.getcwd(), os.path.expanduser(path)))


def path_for_spark(path: str) -> str:
    """A local path as Spark's reader takes it: where it is there as it stands, it is no glob."""
    if os.path.exists(path):
        return re.sub(r"([*?{}\[\]\\])", r"\\\1", path)
    return path


def is_glob(path: str) -> bool:
    """Whether a local path stands for many: it has a wildcard, and no file of that very name."""
    return _GLOB.search(path) is not None and not os.path.exists(path)


def expand(path: str) -> list[str]:
    """The files and directories that a local path or glob stands for; {a,b} counts as in Hadoop."""
    if not is_glob(path):
        return [path] if os.path.exists(path) else []
    match = re.search(r"\{([^{}]*)\}", path)
    if match is None:
        return sorted(glob.glob(path))
    before, after = path[: match.start()], path[match.end() :]
    return sorted(
        {found for part in match.group(1).split(",") for found in expand(before + part + after)}
    )


def data_files(path: str) -> list[str]:
    """The files below a local path or glob that Spark would read: none that start with _ or dot."""
    files: list[str] = []
    for root in expand(path):
        if os.path.isfile(root):
            files.append(root)
            continue
        for directory, below, names in os.walk(root):
            # Partition directories such as `_day=1` count, as they do for Spark.
            below[:] = sorted(d for d in below if not d.startswith((".", "_")) or "=" in d)
            files += [
                os.path.join(directory, name)
                for name in sorted(names)
                if not name.startswith((".", "_"))
            ]
    return files


def missing_path(path: str) -> ExecutionError:
    """The error for a local path that is not there: with the nearest name that is."""
    if is_glob(path):
        return ExecutionError(f"no file matches {path}")
    there = Path(path)
    while not there.parent.exists():
        there = there.parent
    siblings = sorted(os.listdir(there.parent)) if os.access(there.parent, os.R_OK) else []
    meant = nearest(there.name, siblings)
    hint = f"did you mean {there.parent / meant}?" if meant else f"{there.parent} is there"
    if there.parent.is_file():
        hint = f"{there.parent} is a file"
    return ExecutionError(f"{path} does not exist", hint=hint)
