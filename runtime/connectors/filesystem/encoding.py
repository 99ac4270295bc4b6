"""Formats that sqlwin writes with the content of Spark's files: Parquet, CSV and JSON.

Parquet files have the types, codec and footer that Spark's writer gives them; text has the same
bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from runtime.refusal import refuse
from runtime.spark.settings import settings_of
from runtime.writing.encodings import Encoding, ParquetEncoding, TextEncoding

# Spark codecs that Arrow writes identically; Spark's `lz4` is Hadoop's own format
_SUFFIXES = {"snappy": ".snappy", "zstd": ".zstd", "gzip": ".gz", "none": ""}
_CODEC_CONF = "spark.sql.parquet.compression.codec"
_INSTANTS_CONF = "spark.sql.parquet.outputTimestampType"
_LEGACY_CONF = "spark.sql.parquet.writeLegacyFormat"
# Footer keys of Spark: its schema, and its version, which tells the calendar of dates
_SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"
_SPARK_VERSION = "org.apache.spark.version"
# Rows are written to the right directories in every mode
_MODE = "partitionOverwriteMode"
_TIME_OPTIONS = dict.fromkeys(("timestampFormat", "timestampNTZFormat", _MODE))
# Options with which sqlwin writes text, and their only supported value if there is one
_CSV_OPTIONS: Mapping[str, str | None] = {
    **_TIME_OPTIONS,
    **dict.fromkeys(("sep", "delimiter", "header", "nullValue")),
    "quote": '"',
    "escape": '"',
}
_JSON_OPTIONS: Mapping[str, str | None] = {**_TIME_OPTIONS, "ignoreNullFields": None}


def encoding_of(
    spark: SparkSession,
    file_format: str,
    options: Mapping[str, str],
    *,
    has_instants: bool = True,
    schema: StructType | None = None,
) -> Encoding:
    """Return the encoding of a table's files.

    Args:
        spark: Session with the settings.
        file_format: Format of the table.
        options: Options of Spark's writer.
        has_instants: Whether a column is TIMESTAMP_LTZ.
        schema: Columns of the files.

    Raises:
        Refused: Only Spark's writer gives the same files.
    """
    if file_format == "parquet":
        return _parquet(spark, options, has_instants, schema)
    if file_format in ("csv", "json"):
        return _text(spark, file_format, options)
    refuse(f"Spark writes {file_format}")


def _parquet(
    spark: SparkSession, options: Mapping[str, str], has_instants: bool, schema: StructType | None
) -> ParquetEncoding:
    settings = settings_of(spark)

    def conf(name: str, default: str) -> str:
        return settings.get(name, default).lower()

    requested = {name.lower(): value.lower() for name, value in options.items()}
    requested.pop(_MODE.lower(), None)
    codec = requested.pop("compression", None) or conf(_CODEC_CONF, "snappy")
    as_arrow_does = not has_instants or conf(_INSTANTS_CONF, "int96") == "timestamp_micros"
    is_legacy = conf(_LEGACY_CONF, "false") != "false"
    if requested or codec not in _SUFFIXES or not as_arrow_does or is_legacy:
        refuse("Spark writes Parquet with these options")
    described = {} if schema is None else {_SPARK_SCHEMA: schema.json()}
    footer = {**described, _SPARK_VERSION: pyspark.__version__}
    return ParquetEncoding(f"{_SUFFIXES[codec]}.parquet", codec, footer)


def _text(spark: SparkSession, file_format: str, options: Mapping[str, str]) -> TextEncoding:
    from runtime.text.write import CsvForm, JsonForm

    zone = settings_of(spark).get("spark.sql.session.timeZone")
    known_options = _CSV_OPTIONS if file_format == "csv" else _JSON_OPTIONS
    for name, value in options.items():
        if name not in known_options or (known_options[name] not in (None, value)):
            refuse(f"Spark writes {file_format} with the option '{name}'")
    if file_format == "json":
        between = "T" if "'T'" in options.get("timestampNTZFormat", "") else " "
        has_nulls = options.get("ignoreNullFields", "true").lower() == "false"
        return TextEncoding(".json", JsonForm(zone, between, has_nulls))
    delimiter = options.get("sep", options.get("delimiter", ","))
    if len(delimiter) != 1 or delimiter in '"\n\r#\\ ' or not delimiter.isascii():
        refuse(f"Spark writes csv with the delimiter {delimiter!r}")
    has_header = options.get("header", "false").lower() == "true"
    null = options.get("nullValue", "")
    if null and not null.isalnum():
        refuse(f"Spark writes csv with the text {null!r} for NULL")
    return TextEncoding(".csv", CsvForm(zone, delimiter, null, has_header))
