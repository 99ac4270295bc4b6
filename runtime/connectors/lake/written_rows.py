"""Columns and rows of a lake table to write, from its definition and a query."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import NullType, StructField, StructType

from runtime.connectors.declared_columns import declared_type, find_column, is_widening, same_type
from runtime.connectors.writing import check_number
from runtime.errors import CatalogError
from runtime.names import quote_name
from runtime.options.checks import option_values
from runtime.shown_types import shown_type
from runtime.spec.stream import ROW_KIND
from runtime.spec.table import TableSpec


def schema_of_new_table(dataframe: DataFrame, spec: TableSpec) -> StructType:
    """Return the columns of a table to create: as declared, or else from the rows."""
    declared = spec.physical_columns
    if not declared:
        for field in dataframe.schema.fields:
            if isinstance(field.dataType, NullType):
                raise CatalogError(
                    f"column `{field.name}` of table `{spec.name}` is NULL without a type",
                    subjects=(field.name, spec.name),
                    hint="add a type: CAST(NULL AS STRING)",
                )
        return StructType([StructField(f.name, f.dataType) for f in dataframe.schema.fields])
    return StructType([StructField(c.name, declared_type(spec, c), c.nullable) for c in declared])


def rows_of_table(dataframe: DataFrame, spec: TableSpec, schema: StructType) -> DataFrame:
    """Return the rows with the columns of the table, NULL for columns that are not given.

    ROW_KIND stays first if the rows have one. The number of partitions is `sink.parallelism`, if
    set.

    Raises:
        CatalogError: The rows do not fit the table.
    """
    declared_columns = spec.physical_columns
    names = [column.name for column in declared_columns] or schema.names
    kind = [ROW_KIND] if ROW_KIND in dataframe.columns else []
    check_number(dataframe.drop(*kind), spec, len(names))
    numbered = dataframe.toDF(*kind, *(f"_{position}" for position in range(len(names))))
    columns: dict[str, Any] = {}
    for position, name in enumerate(names):
        matches = find_column(schema.names, name)
        if len(matches) != 1:
            raise CatalogError(
                f"column `{name}` of table `{spec.name}` does not exist in the stored table",
                subjects=(name, spec.name),
                hint="available columns: "
                f"{', '.join(f'`{column_name}`' for column_name in schema.names)}",
            )
        stored = schema[matches[0]].dataType
        declared = declared_type(spec, declared_columns[position]) if declared_columns else stored
        if not (same_type(declared, stored) or is_widening(declared, stored)):
            raise CatalogError(
                f"column `{name}` of table `{spec.name}` is declared "
                f"{shown_type(declared.simpleString())}, but is stored as "
                f"{shown_type(stored.simpleString())}",
                subjects=(name, spec.name),
            )
        columns[matches[0]] = F.col(f"_{position}").cast(stored)
    rows = numbered.select(
        *map(quote_name, kind),
        *(
            columns.get(field.name, F.lit(None).cast(field.dataType)).alias(field.name)
            for field in schema.fields
        ),
    )
    parallelism = option_values(spec).get("sink.parallelism")
    return rows.repartition(int(parallelism)) if parallelism else rows
