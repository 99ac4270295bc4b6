"""Counting rows while they are written, without a second run of the query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F


@contextmanager
def count_written(dataframe: DataFrame) -> Iterator[tuple[DataFrame, Callable[[], int]]]:
    """The DataFrame to write in this context, and a function that then tells its rows.

    The function must not be called if the writing failed: it would wait for a run that never was.
    """
    observation = Observation("sqlwin_rows")
    counted = dataframe.observe(observation, F.count(F.lit(1)).alias("n_rows"))
    yield counted, lambda: int(observation.get["n_rows"])
