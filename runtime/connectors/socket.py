"""Connector 'socket': lines of text from a TCP server, for experiments.

Options: `hostname`, `port`, and `format`: text (one STRING column), json or csv. Lines are not
stored: those already read are lost when a stream is stopped or fails.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from runtime.connectors.connector import Table
from runtime.connectors.declarations import check_columns
from runtime.connectors.declared_columns import declared_schema
from runtime.connectors.messages import decode_fields
from runtime.errors import CatalogError, SqlwinError
from runtime.options.checks import bad_option, option_values
from runtime.options.formats import check_message_options
from runtime.options.known import SOCKET
from runtime.spark.errors import translate


class SocketTable(Table):
    """Lines of a TCP server."""

    options = SOCKET
    is_unbounded = True

    def validate(self) -> None:
        """Check options and columns of a socket table without connecting.

        Raises:
            CatalogError: An option or a column is wrong.
        """
        file_format = option_values(self.spec).get("format", "text").lower()
        check_message_options(self.spec, SOCKET, [file_format])
        check_columns(self.spec)
        physical = self.spec.physical_columns
        if not physical:
            raise bad_option(self.spec, "columns are required", "for example (line STRING)")
        if file_format == "text" and [(c.type or "").lower() for c in physical] != ["string"]:
            raise CatalogError(
                f"table `{self.spec.name}`: format 'text' requires exactly one column, of type "
                "STRING",
                subjects=("'text'", self.spec.name),
            )

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the lines as they arrive."""
        values = option_values(self.spec)
        options = {"host": values["hostname"], "port": values["port"]}
        file_format = values.get("format", "text").lower()
        schema = declared_schema(self.spec, self.spec.physical_columns)
        lines = spark.readStream.format("socket").options(**options).load()
        message_format = "raw" if file_format == "text" else file_format
        lines, fields = decode_fields(lines, F.col("value"), schema, message_format, self.spec)
        return lines.select(*(column.alias(name) for name, column in fields.items()))

    def explain(self, error: Exception) -> SqlwinError:
        """Translate an error of the stream."""
        return translate(error)
