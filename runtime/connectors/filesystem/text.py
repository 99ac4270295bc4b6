"""Convert CSV and JSON values to their declared types, or fail with their position.

Spark's own readers turn a value that does not fit into NULL, or fail with a record but no line. So
CSV columns are read as text and cast here, and so are JSON columns in notations that Spark does not
read. A value that does not fit fails the task with file, column and value, from which
`runtime.detection.places` makes an error message.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from runtime.connectors.declared_columns import BROKEN_RECORD, declared_type
from runtime.detection.lines import COMMENT, PATTERN
from runtime.detection.places import BETWEEN, MAX_CHARACTERS
from runtime.frames.file_rows import file_metadata
from runtime.names import quote_name
from runtime.options.checks import option_values
from runtime.options.formats import ONLY_READ, TIME_UNITS
from runtime.spark.versions.casts import try_cast
from runtime.spec.table import TableColumn, TableSpec
from runtime.text.rules import TextRules

# Spark options about the notation of values, with which Spark converts the values itself
_SPARKS_OWN = ("columnNameOfCorruptRecord", "locale", "timeZone")
# Spark options with the texts of numbers without digits
_WORDS = {"nanValue": "NaN", "negativeInf": "-Infinity", "positiveInf": "Infinity"}


class TextReading(TextRules):
    """Rules for converting the columns of a text table, described to Spark."""

    def type_of(self, column: TableColumn) -> str:
        """Return Spark's name of a column's type."""
        return column.common_type or declared_type(self.spec, column).simpleString()

    @property
    def records_field(self) -> str:
        """Field of a single JSON object that holds the records. Empty without such a field."""
        return option_values(self.spec).get("json.records", "")

    @property
    def checks_records(self) -> bool:
        """Whether each record is checked, even if a query needs only some columns."""
        if self.format == "json":
            is_filtered = self.leaves_out or self.drops
            return (is_filtered or (self.refuses and not self.is_whole)) and not self.records_field
        return self.refuses and self.format == "csv"

    @property
    def leaves_out(self) -> bool:
        """Whether broken lines of JSON are left out, as in Flink. Misfits in others are NULL."""
        return self.format == "json" and self.options.get("mode") == "PERMISSIVE"

    @property
    def drops(self) -> bool:
        """Whether JSON with a value that does not fit any column is left out, as in Spark."""
        return self.format == "json" and self.options.get("mode") == "DROPMALFORMED"

    @property
    def reader_options(self) -> dict[str, str]:
        """Options of Spark's reader."""
        if not self.checks_records:
            return self.options
        # a record pruned to the required columns would always have the right number of fields
        pruning = {"columnPruning": "false"} if self.format == "csv" else {}
        broken = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": BROKEN_RECORD}
        return {**self.options, **pruning, **broken}

    def converts(self, column: TableColumn) -> bool:
        """Return whether a column is read as text and cast here."""
        if column.computed is not None or column.metadata is not None:
            return False
        if column.name.lower() in self.formats:
            return True
        if column.name.lower() in {name.lower() for name in self.spec.partitioned_by}:
            return False
        return self.is_cast(column.name, self.type_of(column))

    def schema(self, schema: StructType) -> StructType:
        """Return the schema for Spark's reader, with text for the columns that are cast here."""
        text = {c.name.lower() for c in self.spec.columns if self.converts(c)}
        fields = [
            StructField(f.name, StringType()) if f.name.lower() in text else f
            for f in schema.fields
        ]
        if self.checks_records:
            fields.append(StructField(BROKEN_RECORD, StringType()))
        return StructType(fields)

    def check_records(self, dataframe: DataFrame) -> DataFrame:
        """Return the records, with an error for a broken one, or without it."""
        if not self.checks_records:
            return dataframe
        record = F.col(BROKEN_RECORD)
        if self.drops:
            # Spark checks only the columns that it reads, which may be none for a COUNT(*)
            names = (n for n in dataframe.columns if n != BROKEN_RECORD)
            reads_all = F.greatest(F.lit(True), *(dataframe[quote_name(n)].isNull() for n in names))
            return dataframe.filter(record.isNull() & reads_all)
        if self.leaves_out:
            values = (dataframe[quote_name(n)] for n in dataframe.columns if n != BROKEN_RECORD)
            has_value = (value.isNotNull() for value in values)
            return dataframe.filter(reduce(operator.or_, has_value, record.isNull()))
        _check_before_filters(dataframe.sparkSession, self.format)
        # Spark would not read records for the check column alone
        first = dataframe[quote_name(dataframe.columns[0])]
        nothing = F.substring(F.coalesce(first.cast("string"), F.lit("")), 1, 0)
        message = _message(self.record_message(), dataframe, record)
        is_broken = F.raise_error(F.concat(message, nothing)).cast("boolean")
        return dataframe.filter(record.isNull() | is_broken)

    def value(self, dataframe: DataFrame, column: TableColumn, name: str) -> Column:
        """Convert the text read under a name to a column."""
        text = dataframe[quote_name(name)]
        type_ = self.type_of(column)
        is_null = text.isNull()
        nulls = self.notation().nulls
        if nulls:
            is_null = is_null | text.isin(*nulls)
        if type_ == "string":
            return F.when(~is_null, text).alias(column.name)
        value = self._cast(text, type_, self.pattern(column.name, type_))
        if nulls:
            value = F.when(~text.isin(*nulls), value)
        if not self.refuses:
            return value.alias(column.name)
        message = self.value_message(column.name, type_, dataframe.columns.index(name))
        is_null = is_null | (F.trim(text) == F.lit(""))
        error = F.raise_error(_message(message, dataframe, text))
        misfit = F.when(is_null, F.lit(None)).otherwise(error)
        return F.coalesce(value, misfit.cast(type_)).alias(column.name)

    def _cast(self, text: Column, type_: str, pattern: str) -> Column:
        if type_ in ("date", "timestamp", "timestamp_ntz"):
            return _time(text, type_, pattern)
        if type_ == "boolean":
            lower = F.lower(F.trim(text))
            return F.when(lower == "true", F.lit(True)).when(lower == "false", F.lit(False))
        notation = self.notation()
        if type_ in ("float", "double"):
            for option in filter(self.options.__contains__, _WORDS):
                is_word = text == self.options[option]
                text = F.when(is_word, F.lit(_WORDS[option])).otherwise(text)
        if notation.symbols:
            text = _without_symbols(text, notation.symbols)
        if notation.thousands:
            text = _ungroup(text, notation.thousands, notation.decimal)
        if notation.decimal != ".":
            # a point that is not the decimal separator must not become one
            text = F.translate(text, f".{notation.decimal}", "\u0000.")
        return try_cast(text, type_)


def text_reading(spec: TableSpec, file_format: str, options: dict[str, str]) -> TextReading | None:
    """Return the rules for converting a table's text, or None if Spark's reader converts it.

    Args:
        spec: Table specification with columns.
        file_format: Format of the table.
        options: Options of Spark's reader.
    """
    if not spec.columns:
        return None
    text = TextReading(spec, file_format, options)
    names = {name.lower() for name, _ in spec.options}
    has_pattern = file_format == "text" and PATTERN in names
    if text.formats or text.leaves_out or text.drops:
        return text
    if file_format not in ("csv", "json") and not has_pattern:
        return None
    if any(name.partition(".")[2] in ONLY_READ or name == COMMENT for name in names):
        return text
    is_sparks = not text.refuses or any(option in options for option in _SPARKS_OWN)
    return None if is_sparks else text


def allow_encoding(spark: SparkSession, options: Mapping[str, str]) -> None:
    """Let Spark accept the encoding in the options of a reader or writer.

    By default Spark 4 accepts seven encodings, without windows-1252, which spreadsheets use. The
    setting is checked when a plan runs, so it stays set for the session. Its only other effect is
    that `encode` and `decode` accept more names.
    """
    name = options.get("encoding", options.get("charset", ""))
    if name and name.lower() not in _SPARKS_ENCODINGS:
        spark.conf.set(_ALL_ENCODINGS, "true")


def _check_before_filters(spark: SparkSession, file_format: str) -> None:
    """Let Spark's reader of CSV or JSON return each record, before a query filters them.

    The reader applies filters while it parses, and drops a broken record whose first fields do
    not pass them. The setting is read when a plan runs, so it stays set for the session. It
    changes the speed of other queries over text files, never their rows.
    """
    if file_format in ("csv", "json"):
        spark.conf.set(f"spark.sql.{file_format}.filterPushdown.enabled", "false")


_ALL_ENCODINGS = "spark.sql.legacy.javaCharsets"
_SPARKS_ENCODINGS = frozenset(
    {"utf-8", "us-ascii", "iso-8859-1", "utf-16", "utf-16be", "utf-16le", "utf-32"}
)


def _message(begin: str, dataframe: DataFrame, text: Column) -> Column:
    """Complete a task's message about a text; see `runtime.detection.places`."""
    path = file_metadata(dataframe)["file_path"]
    return F.concat(F.lit(begin), path, F.lit(BETWEEN), F.left(text, F.lit(MAX_CHARACTERS)))


def _without_symbols(text: Column, symbols: Sequence[str]) -> Column:
    """Remove symbols around a number; see `runtime.detection.kinds.without_symbols`."""
    any_symbol = "|".join(re.escape(symbol) for symbol in sorted(symbols, key=len, reverse=True))
    text = F.regexp_replace(text, rf"^\s*([+-]?)\s*(?:{any_symbol})\s*", "$1")
    return F.regexp_replace(text, rf"\s*(?:{any_symbol})\s*$", "")


def _ungroup(text: Column, group: str, decimal: str) -> Column:
    """Remove thousands separators from a number; NULL if its groups do not have three digits."""
    marks = (" ", "\u00a0", "\u202f") if group == " " else (group,)
    between = "[" + "".join(re.escape(mark) for mark in marks) + "]"
    groups = rf"^\s*[+-]?\d{{1,3}}(?:{between}\d{{3}})+(?:{re.escape(decimal)}\d*)?\s*$"
    plain = reduce(lambda t, mark: F.replace(t, F.lit(mark), F.lit("")), marks, text)
    return F.when(~F.trim(text).rlike(between) | text.rlike(groups), plain)


def _time(text: Column, type_: str, pattern: str) -> Column:
    """Convert text to a date or time; NULL if it has another notation."""
    text = F.trim(text)
    if pattern in TIME_UNITS:
        unit = F.lit(Decimal(TIME_UNITS[pattern]))
        micros = try_cast(try_cast(text, "decimal(29,9)") * unit, "bigint")
        time = from_micros(micros, is_instant=type_ == "timestamp")
        return time.cast("date") if type_ == "date" else time
    if pattern:
        if type_ == "timestamp":
            return _instant(text, pattern)
        # parsed as UTC, because the session's zone may skip an hour for summer time
        utc = _instant(F.concat(text, F.lit(" +0000")), f"{pattern} XX")
        local = from_micros(F.unix_micros(utc), is_instant=False)
        return local.cast("date") if type_ == "date" else local
    # a cast would also accept a year, a month, and a time of today
    is_date = (F.substring(text, 5, 1) == "-") & (F.length(text) >= len("2025-1-1"))
    is_date |= text.startswith("+") | text.startswith("-")  # years of other lengths
    if type_ == "date":
        # ... and truncate the time of day
        is_date &= ~(text.contains(" ") | text.contains("T"))
    elif type_ == "timestamp_ntz":
        # ... or drop the zone
        is_date &= ~F.substring(text, 12, 40).rlike("[A-Za-z+-]")
    return F.when(is_date, try_cast(text, type_))


def _instant(text: Column, pattern: str) -> Column:
    return F.try_to_timestamp(text, F.lit(pattern)).cast("timestamp_ltz")


def from_micros(micros: Column, *, is_instant: bool) -> Column:
    """Return the timestamp for microseconds since 1970, as an instant or on a wall clock."""
    if is_instant:
        return F.timestamp_micros(micros)
    # unlike a cast from TIMESTAMP, this is independent of the session time zone
    epoch = F.expr("timestamp_ntz'1970-01-01 00:00:00'")
    return epoch + micros * F.expr("interval '0.000001' second")
