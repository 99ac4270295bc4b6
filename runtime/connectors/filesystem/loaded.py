"""Cache of DataFrames over files, valid while the files are unchanged.

To load files, Spark lists them and reads the footer of a self-describing file in a job. Every
statement over a table would wait some 60 ms for that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from runtime.spark.settings import SparkSettings, settings_of
from runtime.spec.table import TableSpec

# Maximum number of cached tables per session
_MAX_KEPT = 32

# (path, bytes, modification time in ns, inode) of each file
_Snapshot = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True)
class _Loaded:
    """Cached DataFrame with everything it depends on."""

    spec: TableSpec
    options: dict[str, str]
    paths: list[str]
    settings: SparkSettings
    files: _Snapshot
    dataframe: DataFrame


_tables_of: WeakKeyDictionary[SparkSession, dict[str, _Loaded]] = WeakKeyDictionary()


def load_cached(
    spark: SparkSession,
    spec: TableSpec,
    options: dict[str, str],
    paths: list[str],
    files: Iterable[str],
    load: Callable[[], DataFrame],
) -> DataFrame:
    """Return the cached DataFrame of a table if nothing has changed, or else load it.

    Args:
        spark: Session whose settings apply.
        spec: Table specification.
        options: Options of Spark's reader.
        paths: Paths for Spark to load.
        files: Local files that Spark will find there.
        load: Loads the paths.

    Raises:
        SqlwinError: As raised by `load`.
    """
    try:
        snapshot = tuple(_stamp(file) for file in sorted(files))
    except OSError:
        return load()  # a file was removed: Spark decides what exists
    settings = settings_of(spark)
    cache = _tables_of.setdefault(spark, {})
    entry = cache.pop(spec.name, None)
    if (
        entry is None
        or entry.settings is not settings
        or entry.files != snapshot
        or (entry.spec, entry.options, entry.paths) != (spec, options, paths)
    ):
        entry = _Loaded(spec, dict(options), paths, settings, snapshot, load())
    cache[spec.name] = entry  # most recently used entries are dropped last
    while len(cache) > _MAX_KEPT:
        del cache[next(iter(cache))]
    return entry.dataframe


def _stamp(file: str) -> tuple[str, int, int, int]:
    status = os.stat(file)
    return file, status.st_size, status.st_mtime_ns, status.st_ino
