"""Parquet files of lake tables, which tasks write before a log lists them."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from runtime.frames.blobs import map_in_arrow
from runtime.names import quote_name
from runtime.writing.files import FILE_DDL, DirectoryOf, NewFiles, NotWritten, file_task, records_of
from runtime.writing.places import remove_files, unwritable
from runtime.writing.written import WrittenFile

_NAME = re.compile(r"part-[0-9a-f]{32}-[0-9a-f]{12}(?:\.c\d{3,})?\.parquet")


def write_parquet(
    rows: DataFrame,
    directory: str,
    schema: pa.Schema,
    partitions: Sequence[str],
    directory_of: DirectoryOf,
    *,
    keeps: bool = False,
) -> tuple[str, list[WrittenFile]]:
    """Write rows to new files below a directory. Return the mark in their names, and the files.

    For the arguments see `NewFiles`; the columns of the rows are found by name.

    Raises:
        ExecutionError: A NOT NULL column contains NULL, or the query or the writing failed.
    """
    mark = uuid.uuid4().hex
    if partitions:
        rows = rows.sortWithinPartitions(*map(quote_name, partitions))
    rows = rows.select(*map(quote_name, schema.names))
    task = file_task(
        NewFiles(directory, schema, tuple(partitions), directory_of, mark, keeps=keeps)
    )
    try:
        return mark, records_of(map_in_arrow(rows, task, FILE_DDL))
    except BaseException as error:
        remove_files(None, directory, mark)
        if isinstance(error, NotWritten):
            raise unwritable(error.filename, error) from error
        raise


def is_unfinished(directory: str, log: str) -> bool:
    """Return whether all files below a directory come from jobs killed before their commit.

    Args:
        directory: Directory that the jobs wrote to.
        log: Subdirectory to ignore.
    """
    return all(
        _NAME.fullmatch(name)
        for above, _, names in os.walk(directory)
        if above != log
        for name in names
    )
