"""Choice of the way by which the rows of a batch query reach this process."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa

from runtime.frames.arrow_rows import BatchRows, Stage
from runtime.frames.blobs import map_in_arrow, number_columns
from runtime.results.chunks import PIECES_DDL, batches_from_chunks
from runtime.results.files import NAMES_DDL, batches_from_files
from runtime.spark.connect import remote_batches
from runtime.spark.session import is_local_mode, is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEFAULT_MAX_BYTES = 64 << 20


def result_batches(
    rows: BatchRows, most_bytes: int = DEFAULT_MAX_BYTES
) -> Generator[pa.RecordBatch, None, None]:
    """Compute the rows of a batch query and yield them as Arrow batches, in their order.

    Columns have the names of the rows; instants may be in any time zone. Closing the iterator
    cancels the jobs and removes all files.

    Args:
        rows: Rows to compute. Their types must be types that Arrow has.
        most_bytes: Maximum bytes of rows held at a time. A single row may exceed it.

    Raises:
        Exception: Spark's error, if a job fails.
    """
    if is_remote(rows.spark):
        # the server sends Arrow batches without Python workers
        batches = remote_batches(rows.dataframe)
    elif is_local_mode(rows.spark):

        def run_stages(stage: Stage, last: Stage) -> DataFrame:
            if rows.arrow is not None:
                return rows.arrow.then(stage, NAMES_DDL, last)
            run = number_columns(rows.dataframe)
            return map_in_arrow(run, lambda batches: last(stage(batches)), NAMES_DDL)

        batches = batches_from_files(rows.spark, run_stages, most_bytes)
    else:

        def run_stage(stage: Stage) -> DataFrame:
            if rows.arrow is not None:
                return rows.arrow.behind_exchange(stage, PIECES_DDL)
            return map_in_arrow(number_columns(rows.dataframe), stage, PIECES_DDL)

        batches = batches_from_chunks(run_stage, most_bytes)
    with closing(batches):
        for batch in batches:
            yield batch.rename_columns(rows.schema.names)
