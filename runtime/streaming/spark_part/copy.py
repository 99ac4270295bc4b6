"""Write a second copy of Spark's part of a checkpoint, with changes.

The copy is valid once `sqlwin.json` names it; that file is replaced atomically after the copy is
complete and checked. Until then the old part is unchanged. If the process is killed, the next one
that opens the checkpoint removes the unfinished directory.

Private API, seen in Spark 4.3: `_jvm`, for the copy of binary files by Hadoop.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from runtime.files import Files, as_uri
from runtime.spark.files import hadoop_conf
from runtime.streaming.checkpoint import Checkpoint, drop_other_parts

_SCHEMA_PATH = re.compile(r'"[^"]*(/state/\d+/_stateSchema/)')
_STATE_OF_TASK = re.compile(r"state/\d+/\d+/")
_ABOUT_STATE = re.compile(r"state/\d+/(_metadata/|metadata$)")


def with_next_part(files: Files, before: Checkpoint) -> Checkpoint:
    """Return the checkpoint with a new name for Spark's part, whose directory does not exist."""
    drop_other_parts(files, before)
    number = int(before.spark_name.partition("-")[2] or 1) + 1
    return replace(before, spark_name=f"spark-{number}")


def copy_part(
    spark: SparkSession,
    files: Files,
    before: Checkpoint,
    after: Checkpoint,
    edit: Callable[[str, str], str],
    *,
    rename: Callable[[str], str] = lambda name: name,
    has_state: bool = True,
) -> None:
    """Copy Spark's part of a checkpoint.

    Args:
        spark: Session.
        files: File system of the checkpoint.
        before: Checkpoint whose part is copied.
        after: Checkpoint with the name of the copy.
        edit: Returns the new text of a file of Spark's logs or about the state, given the file's
            name in the part and its text.
        rename: Returns the name of the copy of a file.
        has_state: Whether to copy the tasks' state.
    """
    root, new = f"{before.spark_directory}/", f"{after.spark_directory}/"
    schemas = f'"{as_uri(after.spark_directory)}'
    files.make_directory(after.spark_directory)
    files.make_private(after.spark_directory)
    for path in list(files.files_below(before.spark_directory)):
        name = path.removeprefix(root)
        is_state = _STATE_OF_TASK.match(name) is not None
        # Hadoop's checksums: it writes them again or does without
        if (is_state and not has_state) or name.rpartition("/")[2].startswith("."):
            continue
        target = f"{new}{rename(name)}"
        files.make_directory(target.rpartition("/")[0])
        if name.startswith("state/") and not _ABOUT_STATE.match(name):
            _copy(spark, path, target)
            continue
        text = edit(name, files.read_text(path))
        if name.startswith("state/"):
            text = _SCHEMA_PATH.sub(lambda match: f"{schemas}{match[1]}", text)
        files.write_text(target, text)


def _copy(spark: SparkSession, path: str, new: str) -> None:
    """Copy a binary file."""
    jvm: Any = spark._jvm
    hadoop, conf = jvm.org.apache.hadoop.fs, hadoop_conf(spark)
    old_path, new_path = (hadoop.Path(as_uri(location)) for location in (path, new))
    old_system, new_system = (
        hadoop_path.getFileSystem(conf) for hadoop_path in (old_path, new_path)
    )
    hadoop.FileUtil.copy(old_system, old_path, new_system, new_path, False, conf)
