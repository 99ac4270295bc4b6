"""Where INSERT puts rows. One file a connector; all are listed here."""

from __future__ import annotations

import sys
from typing import TextIO

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.connectors import kafka, memory
from runtime.connectors.columns import declared_type, physical_columns
from runtime.connectors.counting import count_written
from runtime.connectors.filesystem.write import write_files
from runtime.connectors.options import option_values
from runtime.connectors.print import print_rows
from runtime.connectors.registry import validate_table
from runtime.connectors.spark import source_format
from runtime.errors import CatalogError, SqlwinError
from runtime.spark.errors import translate
from runtime.spec.table import TableSpec

__all__ = ["as_declared", "output_of", "write_table"]


def write_table(
    dataframe: DataFrame, spec: TableSpec, overwrite: bool, output: TextIO | None = None
) -> int | None:
    """Write all rows of `dataframe` to a table and return how many there were, if that is known.

    Columns go by position and are cast to the declared types. A job that fails leaves nothing that
    a reader would see.

    Args:
        dataframe: the rows.
        spec: the table.
        overwrite: replace what is there; of a partitioned table, the partitions that get rows.
        output: where 'print' prints; standard output, or standard error if the table says so.

    Raises:
        CatalogError: the table is declared wrongly, or cannot be written.
        ExecutionError: the query or the writing failed.
    """
    validate_table(spec)
    connector = spec.connector.lower()
    if connector in ("datagen", "socket"):
        raise CatalogError(
            f"table `{spec.name}` cannot be written: connector '{connector}' only makes rows",
            subjects=(f"'{connector}'", spec.name),
        )
    try:
        dataframe = as_declared(dataframe, spec)
        if connector == "print":
            return print_rows(dataframe, spec, output or output_of(spec))
        if connector == "filesystem":
            return write_files(dataframe, spec, overwrite)
        if connector == "memory":
            return memory.write(dataframe, spec, overwrite)
        if connector == "kafka":
            return _write_kafka(dataframe, spec)
        mode = "overwrite" if overwrite else "append"
        name, options = source_format(spec) if connector == "spark" else ("noop", {})
        with count_written(dataframe) as (counted, count):
            writer = counted.write.format(name).options(**options)
            writer.mode("overwrite" if name == "noop" else mode).save()
        return count()
    except SqlwinError:
        raise
    except Exception as error:
        raise translate(error) from error


def _write_kafka(dataframe: DataFrame, spec: TableSpec) -> int:
    try:
        with count_written(kafka.messages(dataframe, spec)) as (counted, count):
            counted.write.format("kafka").options(**kafka.sink_options(spec)).save()
        return count()
    except Exception as error:
        raise kafka.explained(error, spec) from error


def as_declared(dataframe: DataFrame, spec: TableSpec) -> DataFrame:
    """The columns under the names and types that `spec` declares, by position.

    Raises:
        CatalogError: there are more or fewer columns than the table has.
    """
    declared = physical_columns(spec)
    if not declared:
        return dataframe
    if len(dataframe.columns) != len(declared):
        raise CatalogError(
            f"table `{spec.name}` has {len(declared)} columns to be written, "
            f"the query gives {len(dataframe.columns)}",
            subjects=(spec.name,),
        )
    found = [(field.name, field.dataType.simpleString()) for field in dataframe.schema.fields]
    if found == [(c.name, declared_type(spec, c).simpleString()) for c in declared]:
        return dataframe
    names = [f"_{position}" for position in range(len(declared))]
    # Names may come twice in a query; positions do not.
    numbered = dataframe.toDF(*names)
    return numbered.select(
        *(
            F.col(name).cast(declared_type(spec, column)).alias(column.name)
            for name, column in zip(names, declared, strict=True)
        )
    )


def output_of(spec: TableSpec) -> TextIO:
    """Where a print table prints."""
    is_error = option_values(spec).get("standard-error", "false").lower() == "true"
    return sys.stderr if is_error else sys.stdout
