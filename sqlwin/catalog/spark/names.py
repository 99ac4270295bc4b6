"""Names in Spark's catalogs, which no Spark job computes.

`spark.catalog` returns its lists as Datasets, whose rows only a job has: it waits for a slot behind
the jobs of other statements. The rows of SHOW exist as soon as Spark has analysed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.spark.exceptions import spark_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def table_names(spark: SparkSession) -> list[str]:
    """Return the tables and views of Spark's current database, and its temporary views."""
    return [str(row[1]) for row in spark.sql("SHOW TABLES").collect()]


def view_names(spark: SparkSession) -> list[str]:
    """Return the views among `table_names`. A catalog without views has none."""
    try:
        return [str(row[1]) for row in spark.sql("SHOW VIEWS").collect()]
    except spark_error():
        return []


def function_names(spark: SparkSession) -> list[str]:
    """Return the functions that Spark knows, without their database."""
    return [str(row[0]).rpartition(".")[2] for row in spark.sql("SHOW FUNCTIONS").collect()]


def database_names(spark: SparkSession) -> list[str]:
    """Return the databases of Spark's current catalog."""
    return [str(row[0]) for row in spark.sql("SHOW DATABASES").collect()]


def catalog_names(spark: SparkSession) -> list[str]:
    """Return the catalogs that Spark has loaded."""
    return [str(row[0]) for row in spark.sql("SHOW CATALOGS").collect()]
