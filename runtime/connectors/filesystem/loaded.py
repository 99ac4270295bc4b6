"""DataFrames of files, kept for the next statement as long as the files are the same.

To load files Spark lists them, and of those that describe themselves it reads a footer in a job:
some 60 ms, which each statement over a table would wait for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from runtime.spark.settings import SparkSettings, settings_of
from runtime.spec.table import TableSpec

# So many tables' are kept for a session
_MOST_KEPT = 32

# (path, bytes, time of the last change in ns, inode) of each file
_Snapshot = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True)
class _Loaded:
    """A DataFrame, and all that it depends on."""

    spec: TableSpec
    options: dict[str, str]
    paths: list[str]
    settings: SparkSettings
    files: _Snapshot
    dataframe: DataFrame


_kept: WeakKeyDictionary[SparkSession, dict[str, _Loaded]] = WeakKeyDictionary()


def loaded_once(
    spark: SparkSession,
    spec: TableSpec,
    options: dict[str, str],
    paths: list[str],
    files: Iterable[str],
    load: Callable[[], DataFrame],
) -> DataFrame:
    """What was loaded for a table before, if nothing has changed since; else what is loaded now.

    Args:
        spark: the session, whose settings matter.
        spec: the table.
        options: of Spark's reader.
        paths: what Spark is to load.
        files: the files that it will find there, on this machine.
        load: loads them.

    Raises:
        SqlwinError: as `load` does.
    """
    try:
        snapshot = tuple(_stamp(file) for file in sorted(files))
    except OSError:
        return load()  # one is gone again: Spark says what there is
    settings = settings_of(spark)
    kept = _kept.setdefault(spark, {})
    found = kept.pop(spec.name, None)
    if (
        found is None
        or found.settings is not settings
        or found.files != snapshot
        or (found.spec, found.options, found.paths) != (spec, options, paths)
    ):
        found = _Loaded(spec, dict(options), paths, settings, snapshot, load())
    kept[spec.name] = found  # the last that was asked for is the last to go
    while len(kept) > _MOST_KEPT:
        del kept[next(iter(kept))]
    return found.dataframe


def _stamp(file: str) -> tuple[str, int, int, int]:
    status = os.stat(file)
    return file, status.st_size, status.st_mtime_ns, status.st_ino
