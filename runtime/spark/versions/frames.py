"""DataFrames: Arrow tables from and to them, and rows placed by partition number.

Private APIs of Spark 3.5, which has no public ones for Arrow tables; checked with PySpark 3.5 and
not called on later ones: `DataFrame._collect_as_arrow`, `SparkContext._serialize_to_jvm`,
`PythonSQLUtils`, `ArrowIteratorServer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from runtime.spark.versions.capabilities import (
    ARROW_TABLES,
    METADATA_COLUMNS,
    PLACING_BY_NUMBER,
    has,
)
from runtime.spark.versions.murmur import number_hashed_to

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


def place_rows(frame: DataFrame, partitions: int, number: str | Column) -> DataFrame:
    """Move each row to the partition of its number.

    Before `repartitionById`, Spark places rows by the hash of an expression. A row's partition is
    then looked up in a list of numbers whose hashes are the partitions, so that the result is the
    same.

    Args:
        frame: Rows.
        partitions: Number of partitions.
        number: INT column with numbers of at least 0. The partition is the remainder by
            `partitions`.
    """
    if has(PLACING_BY_NUMBER):
        return frame.repartitionById(partitions, number)
    from pyspark.sql import functions as F

    numbers = ", ".join(str(number_hashed_to(place)) for place in range(partitions))
    column = F.col(number) if isinstance(number, str) else number
    hashed = F.element_at(F.expr(f"array({numbers})"), F.pmod(column, F.lit(partitions)) + 1)
    return frame.repartition(partitions, hashed)


def to_arrow(frame: DataFrame) -> pa.Table:
    """Return the rows as an Arrow table, with instants labelled UTC."""
    if has(ARROW_TABLES):
        return frame.toArrow()
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(frame.schema)
    numbered: Any = frame.toDF(*(f"_{i}" for i in range(len(schema))))
    batches = [batch.rename_columns(schema.names) for batch in numbered._collect_as_arrow()]
    if not batches:
        return schema.empty_table()
    return pa.Table.from_batches(batches).cast(schema)


def from_arrow(spark: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """Return an Arrow table as a DataFrame.

    Args:
        spark: Session.
        table: Rows.
        schema: Columns, to whose types the table is cast.
    """
    if has(ARROW_TABLES):
        return spark.createDataFrame(table, schema)
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer
    from pyspark.sql.pandas.types import to_arrow_schema

    session: Any = spark
    jvm = session._jvm
    batches = table.cast(to_arrow_schema(schema)).to_batches(
        max_chunksize=session._jconf.arrowMaxRecordsPerBatch()
    )
    rows = session._sc._serialize_to_jvm(
        batches,
        ArrowStreamSerializer(),
        lambda file: jvm.PythonSQLUtils.readArrowStreamFromFile(file),
        lambda: jvm.ArrowIteratorServer(),
    )
    frame = jvm.PythonSQLUtils.toDataFrame(rows, schema.json(), session._jsparkSession)
    return DataFrame(frame, session)


def metadata_column(frame: DataFrame, name: str) -> Column:
    """Return a metadata column of the source that a DataFrame reads."""
    return frame.metadataColumn(name) if has(METADATA_COLUMNS) else frame[name]
