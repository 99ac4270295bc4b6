"""What connectors do alike with the rows that they write."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from runtime.connectors.columns import declared_type, physical_columns
from runtime.connectors.options.checks import option_values
from runtime.errors import CatalogError, ExecutionError
from runtime.spark.clusters import check_seen_by_all
from runtime.spark.errors import NO_DIRECTORY, why_unwritable
from runtime.spec.stream import ROW_KIND
from runtime.spec.table import TableSpec

_HINT = "its 'path' has to be a directory that this program may write to"
_HINTS = {
    "there is no space left on the device": "make room there, or give the table another 'path'"
}
# The column of a row kind, where a user or a table sees it; Flink's client calls it so
KIND_COLUMN = "op"


def declared_types(spec: TableSpec) -> tuple[DataType, ...]:
    """The types of the columns that a table is written with, for `as_declared`.

    Raises:
        CatalogError: one is none of Spark's.
    """
    return tuple(declared_type(spec, column) for column in physical_columns(spec))


def as_declared(
    dataframe: DataFrame, spec: TableSpec, types: Sequence[DataType] | None = None
) -> DataFrame:
    """The columns under the names and types that `spec` declares, by position.

    Args:
        dataframe: has the columns.
        spec: the table.
        types: its `declared_types`, of which each takes calls to the JVM; None: nobody has them.

    Raises:
        CatalogError: there are more or fewer columns than the table has.
    """
    declared = physical_columns(spec)
    if not declared:
        return dataframe
    check_number(dataframe, spec, len(declared))
    types = declared_types(spec) if types is None else types
    if is_declared(dataframe.schema, spec, types):
        return dataframe
    names = [f"_{position}" for position in range(len(declared))]
    # Names may come twice in a query; positions do not.
    numbered = dataframe.toDF(*names)
    return numbered.select(
        *(
            F.col(name).cast(type_).alias(column.name)
            for name, column, type_ in zip(names, declared, types, strict=True)
        )
    )


def check_number(rows: DataFrame, spec: TableSpec, n_columns: int) -> None:
    """Check that a query gives as many columns as a table has to be written.

    Raises:
        CatalogError: it gives more or fewer.
    """
    if len(rows.columns) != n_columns:
        raise CatalogError(
            f"table `{spec.name}` has {n_columns} columns to be written, "
            f"the query gives {len(rows.columns)}",
            subjects=(spec.name,),
        )


def check_partitions(spec: TableSpec, partitions: Sequence[str], columns: Sequence[str]) -> None:
    """Check that a table has columns beside those that it is partitioned by.

    Raises:
        CatalogError: it has none.
    """
    if partitions and len(partitions) == len(columns):
        raise CatalogError(
            f"table `{spec.name}` is partitioned by all of its columns",
            subjects=(spec.name,),
            hint="files need at least one column of their own",
        )


def is_declared(
    schema: StructType, spec: TableSpec, types: Sequence[DataType] | None = None
) -> bool:
    """Whether columns have the names and types that `spec` declares, if it does.

    Args:
        schema: has the columns.
        spec: the table.
        types: its `declared_types`; None: nobody has them.
    """
    declared = physical_columns(spec)
    if not declared:
        return True
    types = declared_types(spec) if types is None else types
    wanted = [(c.name, type_.simpleString()) for c, type_ in zip(declared, types, strict=True)]
    return [(f.name, f.dataType.simpleString()) for f in schema.fields] == wanted


def check_shared(spark: SparkSession, path: str, spec: TableSpec) -> None:
    """Check that a table's files are written where the driver sees them.

    Raises:
        SetupError: its resolved path is on a disk of this machine, and tasks run on others.
    """
    check_seen_by_all(
        spark,
        path,
        f"the files of table `{spec.name}`",
        "'path' takes a directory that all hosts see, such as hdfs:// or s3a://",
    )


def with_named_kind(rows: DataFrame) -> DataFrame:
    """The rows of a stream with the column of their kind, if they have one, as KIND_COLUMN."""
    if ROW_KIND not in rows.columns:
        return rows
    return rows.withColumnRenamed(ROW_KIND, KIND_COLUMN)


@contextmanager
def naming_output(spec: TableSpec) -> Iterator[None]:
    """Say of a place that cannot be written to which table's it is, and where.

    Raises:
        ExecutionError: it cannot.
    """
    try:
        yield
    except Exception as error:
        why = why_unwritable(error)
        if why is None:
            raise
        path = option_values(spec).get("path")
        # Python's own errors say the path, as it was resolved
        said = why.removeprefix("cannot write to ")
        where = "" if path is None or said != why else f"{path}: "
        if path is not None and why == NO_DIRECTORY:
            said = _why_no_directory(path) or why
        raise ExecutionError(
            f"table `{spec.name}` cannot be written: {where}{said}",
            subjects=(spec.name,),
            hint=_HINTS.get(why, _HINT),
        ) from error


def _why_no_directory(path: str) -> str | None:
    """Why a directory of this machine cannot be made, for Java does not say."""
    there = Path(path.removeprefix("file:")).expanduser().absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    return None if os.access(there, os.W_OK | os.X_OK) else f"permission denied in {there}"


def count_written(dataframe: DataFrame) -> tuple[DataFrame, Callable[[], int]]:
    """The DataFrame to write, and a function that counts its rows when it is written.

    The function must not be called if the writing failed: it would wait for a run that never was.
    """
    observation = Observation("sqlwin_rows")
    counted = dataframe.observe(observation, F.count(F.lit(1)).alias("n_rows"))
    return counted, lambda: int(observation.get["n_rows"])


def compute(rows: DataFrame) -> int:
    """Compute rows without writing them; how many they are.

    A micro-batch that the sink has already is computed again: its checkpoint lacks it, and so does
    the state, which is kept as rows are computed.
    """
    counted, count = count_written(rows)
    counted.write.format("noop").mode("overwrite").save()
    return count()
