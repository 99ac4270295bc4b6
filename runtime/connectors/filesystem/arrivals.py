"""Check that new files of a stream are complete before they are read.

Spark silently skips an empty file and never returns to it, and a truncated one fails in a task
without the table's name. Spark reads a file's length when it plans a micro-batch, and ignores data
appended later. Programs must therefore move complete files into the directory. A micro-batch with a
file that has grown since is refused; the next run plans it again.

The checkpoint lists the files of a micro-batch before it runs; see `runtime.streaming.damage`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from pyspark.sql import SparkSession

from runtime.connectors.filesystem.read import (
    completeness_filter,
    incomplete_file_error,
    reachable,
    selection_filter,
)
from runtime.errors import ExecutionError
from runtime.files import for_each_file, is_local_path
from runtime.options.checks import option_values
from runtime.options.formats import SELF_DESCRIBING, format_of
from runtime.scan.paths import fixed_prefix
from runtime.spark.files import resolve
from runtime.spec.source import FileLog
from runtime.spec.table import TableSpec

# A file that has not changed for this long is no longer being written
_QUIET_S = 5.0
_POLL_S = 0.1
_NS_PER_MS = 1_000_000
# Bytes at the start and the end of a Parquet file
_PARQUET_MARK = b"PAR1"


def arrivals_check(spark: SparkSession, spec: TableSpec, log: FileLog) -> Callable[[int], None]:
    """Return the check for a micro-batch's files, for a table on a disk of this machine.

    Args:
        spark: Spark session.
        spec: Table of the connector that the stream reads.
        log: Spark's log of the files to read.

    Returns:
        Function of the number of a micro-batch about to run. It raises an ExecutionError if a file
        stays empty or truncated, or was written to after the micro-batch was planned.
    """
    begun_ms = time.time_ns() // _NS_PER_MS
    path = resolve(spark, option_values(spec)["path"])
    is_checked = completeness_filter(spark, spec)
    # text has no end mark and may be empty
    is_text = format_of(option_values(spec)) not in SELF_DESCRIBING
    if not (is_text or is_checked is not None) or not is_local_path(path):
        return lambda batch: None
    begin, is_shown = fixed_prefix(path), is_checked or selection_filter(spec)
    listed_before = log.planned_batches()

    def check(batch: int) -> None:
        arrivals = arrived_files(log, batch)

        def look_at(path: str) -> None:
            status = _status(path, spec) if is_text else _await_complete(path, spec)
            if status is None or status.st_mtime_ns // _NS_PER_MS == arrivals[path]:
                return
            # This run has planned again the files that an earlier run listed. Programs that copy
            # files set the modification time at the end; the change time shows when they did.
            changed_ns = max(status.st_mtime_ns, status.st_ctime_ns)
            if batch not in listed_before or changed_ns // _NS_PER_MS >= begun_ms:
                raise _has_grown(path, spec)

        for_each_file(
            look_at,
            [path for path in arrivals if f"{path}/".startswith(begin) and is_shown(path)],
        )

    return check


def _has_grown(path: str, spec: TableSpec) -> ExecutionError:
    return ExecutionError(
        f"table `{spec.name}`: {path} changed after the stream had started to read it",
        subjects=(spec.name,),
        hint="run the statement again: it resumes and reads the whole file. Move only "
        "complete files into the directory",
    )


def arrived_files(log: FileLog, batch: int) -> dict[str, int]:
    """Return the local files that a micro-batch reads, according to Spark's log.

    Returns:
        Modification time of each path as Spark listed it, in milliseconds since 1970.
    """
    return {
        "/" + path.removeprefix("file:").lstrip("/"): modified_ms
        for path, modified_ms in log.files_of_batch(batch).items()
        if path.startswith("file:/")
    }


def _await_complete(path: str, spec: TableSpec) -> os.stat_result | None:
    """Wait while a file is being written.

    Returns:
        Its status. None if it was removed.

    Raises:
        ExecutionError: The file is incomplete and no longer being written.
    """
    while True:
        status = _status(path, spec)
        if status is None:
            return None  # the reader reports it, or skips it if configured so
        with reachable(spec, path):
            if status.st_size > 0 and (
                format_of(option_values(spec)) != "parquet" or _ends_as_parquet(path)
            ):
                return status
        if time.time() - status.st_mtime > _QUIET_S:
            what = "empty and" if not status.st_size else "truncated or"
            raise incomplete_file_error(
                spec,
                f"{path} is {what} not a valid file of format",
                "replace the file and run the statement again; it resumes",
            )
        time.sleep(_POLL_S)


def _status(path: str, spec: TableSpec) -> os.stat_result | None:
    with reachable(spec, path):
        try:
            return os.stat(path)
        except FileNotFoundError:
            return None


def _ends_as_parquet(path: str) -> bool:
    with open(path, "rb") as file:
        file.seek(-min(len(_PARQUET_MARK), file.seek(0, os.SEEK_END)), os.SEEK_END)
        # an encrypted file has another mark
        return file.read() in (_PARQUET_MARK, b"PARE")
