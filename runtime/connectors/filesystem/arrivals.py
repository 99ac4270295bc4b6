"""Looks at new files of a stream before they are read: whether they are there in whole.

Spark leaves out a file without a byte, and never comes back to it; one that is cut short fails in
a task, under no name of a table. A file that is still written to is waited for, though not long:
whoever writes files for a stream moves them in when they are complete.

What a micro-batch reads is in the checkpoint before it runs: `runtime.streaming.damage` says how.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from urllib.parse import unquote

from pyspark.sql import SparkSession

from runtime.connectors.filesystem.paths import fixed_part
from runtime.connectors.filesystem.read import broken_file, checked_files
from runtime.connectors.options.checks import option_values
from runtime.connectors.options.formats import format_of
from runtime.errors import ExecutionError
from runtime.files import Files, for_each_file, is_local_path
from runtime.spark.files import resolve
from runtime.spec.table import TableSpec

# A file that nobody has written to for so long is not written to any more
_QUIET_S = 5.0
_POLL_S = 0.1
# How a Parquet file begins and ends
_PARQUET_MARK = b"PAR1"


def arrivals_check(
    spark: SparkSession, specs: Sequence[TableSpec], files: Files, checkpoint: str
) -> Callable[[int], None]:
    """What looks at the files of a micro-batch, of tables on disks of this machine.

    Args:
        spark: the session.
        specs: the tables that the stream reads, of whatever connector.
        files: the file system of the checkpoint.
        checkpoint: Spark's part of it.

    Returns:
        A function that takes the number of a micro-batch that is about to run, and raises an
        ExecutionError if a file of it is empty or cut short, and stays so.
    """
    tables: list[tuple[str, TableSpec, Callable[[str], bool]]] = []
    for spec in specs:
        if spec.connector.lower() == "filesystem":
            path = resolve(spark, option_values(spec)["path"])
            is_checked = checked_files(spark, spec)
            if is_checked is not None and is_local_path(path):
                tables.append((fixed_part(path), spec, is_checked))

    def check(batch: int) -> None:
        new = arrived(files, checkpoint, batch) if tables else []
        for begin, spec, is_checked in tables:
            found = [path for path in new if path.startswith(begin) and is_checked(path)]
            for_each_file(lambda path, spec=spec: _await_whole(path, spec), found)  # type: ignore[misc]

    return check


def arrived(files: Files, checkpoint: str, batch: int) -> list[str]:
    """The files of this machine that a micro-batch reads, by what Spark says of it."""
    found: list[str] = []
    before, now = (_offsets(files, checkpoint, number) for number in (batch - 1, batch))
    new = {source: (before.get(source, -1) + 1, last) for source, last in now.items()}
    names = files.names_in(f"{checkpoint}/sources")
    logs = [int(name) for name in names if name.isdecimal()]
    if not new.keys() <= set(logs):
        # a table that is read twice has two offsets and one log, and those behind it other numbers
        every = (min(n for n, _ in new.values()), max(n for _, n in new.values()))
        new = dict.fromkeys(logs, every)
    for source, (first, last) in new.items():
        for number in range(first, last + 1):
            path = f"{checkpoint}/sources/{source}/{number}"
            if not files.exists(path):
                path += ".compact"
            if not files.exists(path):
                continue
            for line in files.read_text(path).splitlines()[1:]:
                # other sources have logs of other kinds
                entry = json.loads(line) if line.startswith('{"path":') else {}
                # a compact one has those before it too
                if entry.get("batchId") == number:
                    found.append(unquote(entry["path"]))
    return ["/" + path.removeprefix("file:").lstrip("/") for path in found if _is_local(path)]


def _offsets(files: Files, checkpoint: str, batch: int) -> dict[int, int]:
    """Where each source of files ends in a micro-batch, by the number of the source."""
    path = f"{checkpoint}/offsets/{batch}"
    if batch < 0 or not files.exists(path):
        return {}
    offsets = {}
    for source, line in enumerate(files.read_text(path).splitlines()[2:]):
        offset = json.loads(line) if line.startswith("{") else None
        last = offset.get("logOffset") if isinstance(offset, dict) else None
        if isinstance(last, int):
            offsets[source] = last
    return offsets


def _is_local(path: str) -> bool:
    return path.startswith("file:/")


def _await_whole(path: str, spec: TableSpec) -> None:
    """Wait for a file while it is written to.

    Raises:
        ExecutionError: it is not whole, and nobody writes to it.
    """
    while True:
        try:
            found = os.stat(path)
            is_whole = found.st_size > 0 and (
                format_of(option_values(spec)) != "parquet" or _ends_as_parquet(path)
            )
        except FileNotFoundError:
            return  # what reads it says so, or leaves it out where it was set to
        except OSError as error:
            raise ExecutionError(
                f"table `{spec.name}`: cannot read {path}: {error.strerror}", subjects=(spec.name,)
            ) from error
        if is_whole:
            return
        if time.time() - found.st_mtime > _QUIET_S:
            what = "empty, which is" if not found.st_size else "cut short, or"
            raise broken_file(
                spec,
                f"{path} is {what} no file of format",
                "put it there in whole and run the statement again, which resumes",
            )
        time.sleep(_POLL_S)


def _ends_as_parquet(path: str) -> bool:
    with open(path, "rb") as file:
        file.seek(-min(len(_PARQUET_MARK), file.seek(0, os.SEEK_END)), os.SEEK_END)
        # columns may be encrypted, and the mark with them
        return file.read() in (_PARQUET_MARK, b"PARE")
