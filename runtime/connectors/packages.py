"""Parts of Spark that are not in PySpark's own package: their Maven coordinates."""

from __future__ import annotations

import pyspark

from runtime.errors import SetupError
from runtime.spec.table import TableSpec

# Spark 4 is built with Scala 2.13 alone
_SCALA = "2.13"
KAFKA = "spark-sql-kafka-0-10"
AVRO = "spark-avro"


def coordinate(package: str) -> str:
    """The Maven coordinate of a package for the Spark that is running."""
    return f"org.apache.spark:{package}_{_SCALA}:{pyspark.__version__}"


def missing_package(spec: TableSpec, what: str, package: str) -> SetupError:
    """The error for a table that needs a package which is not there."""
    found = coordinate(package)
    return SetupError(
        f"table `{spec.name}`: Spark {what} only with a package of its own",
        subjects=(spec.name,),
        hint=f"start with --conf spark.jars.packages={found} "
        f"(spark-submit and pyspark: --packages {found})",
    )
