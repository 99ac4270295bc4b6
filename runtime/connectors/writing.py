"""Shared code of connectors for writing rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from runtime.connectors.declared_columns import declared_type
from runtime.errors import CatalogError, ExecutionError
from runtime.options.checks import option_values
from runtime.spark.clusters import check_seen_by_all
from runtime.spark.errors import NO_DIRECTORY, NO_SPACE, why_unwritable
from runtime.spec.table import TableSpec

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_HINT = "set 'path' to a directory with write permission"
_HINTS = {NO_SPACE: "free some space, or set another 'path'"}


def declared_types(spec: TableSpec) -> tuple[DataType, ...]:
    """Return the types of the written columns of a table, for `to_declared_types`.

    Raises:
        CatalogError: A type is not one of Spark's.
    """
    return tuple(declared_type(spec, column) for column in spec.physical_columns)


def to_declared_types(
    dataframe: DataFrame, spec: TableSpec, types: Sequence[DataType] | None = None
) -> DataFrame:
    """Convert columns to the names and types declared in `spec`, by position.

    Args:
        dataframe: Rows to convert.
        spec: Table specification.
        types: Its `declared_types`, to save calls to the JVM. None to determine them.

    Raises:
        CatalogError: The query and the table have different numbers of columns.
    """
    declared = spec.physical_columns
    if not declared:
        return dataframe
    check_number(dataframe, spec, len(declared))
    types = declared_types(spec) if types is None else types
    if is_declared(dataframe.schema, spec, types):
        return dataframe
    names = [f"_{position}" for position in range(len(declared))]
    # names may be duplicates in a query; positions are unique
    numbered = dataframe.toDF(*names)
    return numbered.select(
        *(
            F.col(name).cast(type_).alias(column.name)
            for name, column, type_ in zip(names, declared, types, strict=True)
        )
    )


def check_number(rows: DataFrame, spec: TableSpec, n_columns: int) -> None:
    """Check that a query has as many columns as the table.

    Raises:
        CatalogError: The numbers differ.
    """
    if len(rows.columns) != n_columns:
        raise CatalogError(
            f"table `{spec.name}` has {n_columns} columns, but the query returns "
            f"{len(rows.columns)}",
            subjects=(spec.name,),
        )


def check_partitions(spec: TableSpec, partitions: Sequence[str], columns: Sequence[str]) -> None:
    """Check that a table has columns other than its partition columns.

    Raises:
        CatalogError: All columns are partition columns.
    """
    if partitions and len(partitions) == len(columns):
        raise CatalogError(
            f"table `{spec.name}` is partitioned by all of its columns",
            subjects=(spec.name,),
            hint="leave at least one column out of PARTITIONED BY",
        )


def is_declared(
    schema: StructType, spec: TableSpec, types: Sequence[DataType] | None = None
) -> bool:
    """Return whether columns have the names and types declared in `spec`, if there are any.

    Args:
        schema: Schema of the columns.
        spec: Table specification.
        types: Its `declared_types`. None to determine them.
    """
    declared = spec.physical_columns
    if not declared:
        return True
    types = declared_types(spec) if types is None else types
    expected = [(c.name, type_.simpleString()) for c, type_ in zip(declared, types, strict=True)]
    return [(f.name, f.dataType.simpleString()) for f in schema.fields] == expected


def check_shared(spark: SparkSession, path: str, spec: TableSpec) -> None:
    """Check that a table's files are written where the driver sees them.

    Raises:
        SetupError: The resolved path is on a disk of this machine, and tasks run on others.
    """
    check_seen_by_all(
        spark,
        path,
        f"the files of table `{spec.name}`",
        "set 'path' to a directory that all hosts share, such as hdfs:// or s3a://",
    )


@contextmanager
def name_output_in_errors(spec: TableSpec) -> Iterator[None]:
    """Add table and path to the error for a place that cannot be written to.

    Raises:
        ExecutionError: The place cannot be written to.
    """
    try:
        yield
    except Exception as error:
        why = why_unwritable(error)
        if why is None:
            raise
        path = option_values(spec).get("path")
        # Python's own errors include the resolved path
        reason = why.removeprefix("cannot write to ")
        where = "" if path is None or reason != why else f"{path}: "
        if path is not None and why == NO_DIRECTORY:
            reason = _why_no_directory(path) or why
        raise ExecutionError(
            f"table `{spec.name}` cannot be written: {where}{reason}",
            subjects=(spec.name,),
            hint=_HINTS.get(why, _HINT),
        ) from error


def _why_no_directory(path: str) -> str | None:
    """Return why a local directory cannot be created, because Java gives no reason."""
    ancestor = Path(path.removeprefix("file:")).expanduser().absolute()
    while not ancestor.exists() and ancestor != ancestor.parent:
        ancestor = ancestor.parent
    return None if os.access(ancestor, os.W_OK | os.X_OK) else f"permission denied in {ancestor}"


def count_written(dataframe: DataFrame) -> tuple[DataFrame, Callable[[], int]]:
    """Return the DataFrame to write, and a function that counts its rows once written.

    Do not call the function if writing failed: it would wait forever.
    """
    observation = Observation("sqlwin_rows")
    observed = dataframe.observe(observation, F.count(F.lit(1)).alias("n_rows"))
    return observed, lambda: int(observation.get["n_rows"])


def compute(rows: DataFrame) -> int:
    """Compute rows without writing them and return their number.

    A micro-batch that the sink already has must still be computed: its checkpoint lacks the commit
    and the state, which is stored while rows are computed.
    """
    observed, count = count_written(rows)
    observed.write.format("noop").mode("overwrite").save()
    return count()
