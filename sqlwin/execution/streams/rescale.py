"""Spreads the state of a stream that is stopped over another number of tasks."""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from runtime.errors import SetupError
from runtime.spark.errors import translate
from runtime.spark.files import refuse_remote_streams, resolve, writable_files_at
from runtime.streaming.checkpoint import find_checkpoint
from runtime.streaming.rescale import Rescaled, rescale
from sqlwin.execution.streams.options import KEY_GROUPS_PER_PARTITION


def rescale_checkpoint(spark: SparkSession, directory: str, partitions: int) -> Rescaled:
    """Have the stream of a checkpoint go on with another number of tasks.

    Args:
        spark: the session.
        directory: that of the checkpoint, as a user writes it.
        partitions: how many tasks.

    Raises:
        SqlwinError: a stream runs on it, it is none, or it cannot be rescaled.
    """
    refuse_remote_streams(spark)
    path = resolve(spark, directory)
    try:
        files = writable_files_at(spark, path)
        checkpoint, _ = find_checkpoint(files, path)
        return rescale(spark, files, checkpoint, partitions, KEY_GROUPS_PER_PARTITION)
    except OSError as error:
        raise SetupError(f"{path} cannot be read or written: {error.strerror or error}") from error
    except Py4JError as error:
        # a file system of Hadoop's
        raise SetupError(f"{path} cannot be used: {translate(error).message}") from error
