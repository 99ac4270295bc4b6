"""Connector 'filesystem': files, directories and globs of Parquet, CSV, JSON, ORC, Avro, text.

Columns are matched by name, ignoring case; in CSV without a header by position. A JSON field that a
line lacks is NULL. Parquet, ORC and Avro type their columns; a declared type may be wider than the
file's, but a value never changes.

Modules that read or write files with Spark are imported when that happens: a query that this
process answers needs none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.connectors.connector import Table
from runtime.connectors.declarations import check_columns
from runtime.connectors.filesystem.planning import METADATA, scan, stream_scan, unwritten_note
from runtime.detection.lines import PATTERN, REPEATED, SKIP_BELOW
from runtime.errors import CatalogError, nearest
from runtime.frames.arrow_rows import BatchRows
from runtime.options.checks import (
    bad_option,
    check_options,
    is_monitored,
    missing_option,
    option_values,
    unknown_option,
)
from runtime.options.formats import (
    CHANGES_IN_FILES,
    FLINK_OPTIONS,
    FORMATS,
    TIME_FORMAT,
    format_of,
    format_option_names,
    spark_options,
)
from runtime.options.known import FILESYSTEM
from runtime.spec.expressions import Expression
from runtime.spec.sink import SinkMode, StreamSink, StreamWriter
from runtime.spec.source import FileLog, SplitTable
from runtime.spec.table import Column, TableColumn, TableSpec
from runtime.spec.text import FileSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from runtime.connectors.filesystem.splits import FileSplits

# Names for the format of Arrow files, some close to 'avro'
_ARROW_FORMATS = ("arrow", "feather", "ipc")


def _check_pattern(spec: TableSpec, pattern: str, columns: Sequence[TableColumn]) -> None:
    """Check that the groups of a pattern match the columns of a table."""
    from runtime.detection.log_lines import group_names, pattern_error

    if (expected := pattern_error(pattern)) is not None:
        raise bad_option(
            spec, f"invalid value for option '{PATTERN}': {pattern!r}", f"it must be {expected}"
        )
    names = group_names(pattern)
    partitions = {name.lower() for name in spec.partitioned_by}
    for column in columns:
        lower_name = column.name.lower()
        if names is None or lower_name in partitions or lower_name in map(str.lower, names):
            continue
        raise CatalogError(
            f"table `{spec.name}`: '{PATTERN}' has no group named `{column.name}`",
            subjects=(column.name, spec.name),
            hint=f"available groups: {', '.join(names)}",
        )


def _check_json_encoding(spec: TableSpec) -> None:
    """Check that Spark can split JSON in this encoding into lines."""
    options = spark_options(spec, "json")
    encoding = options.get("encoding", options.get("charset", ""))
    is_whole = options.get("multiLine", "false").lower() == "true"
    if encoding.upper() in ("UTF-16", "UTF-32") and not is_whole:
        raise bad_option(
            spec,
            f"JSON lines cannot be read in 'encoding' = {encoding}",
            "convert the file to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW",
        )


def _check_formats(spec: TableSpec, options: list[str], columns: Sequence[TableColumn]) -> None:
    """Check the time formats of columns."""
    types = {column.name.lower(): (column.type or "").upper() for column in columns}
    for option in options:
        match = TIME_FORMAT.fullmatch(option)
        name = match["column"] if match is not None else option
        type_ = types.get(name.lower())
        if columns and type_ is None:
            suggestion = nearest(name, [column.name for column in columns])
            raise bad_option(
                spec,
                f"option '{option}' names column `{name}`, which does not exist",
                f"did you mean `{suggestion}`?" if suggestion else None,
            )
        if type_ is not None and not type_.startswith(("TIMESTAMP", "DATE")):
            raise bad_option(
                spec,
                f"option '{option}' is a time format, but column `{name}` is {type_}",
                f"declare `{name}` TIMESTAMP(3), TIMESTAMP_LTZ(3) or DATE",
            )


@dataclass(frozen=True)
class FileChecks:
    """Checks of a stream's files; see `InputChecks`.

    Attributes:
        check: Raises an error if a file is truncated, or has changed since the batch was planned.
        find_incomplete: Returns the name of the table if files are missing.
    """

    check: Callable[[int], None]
    find_incomplete: Callable[[int], tuple[str, ...] | None]


class FileTable(Table):
    """Table of files."""

    options = FILESYSTEM
    can_stream_bounded = True
    can_overwrite = True
    sink_mode = SinkMode.APPEND
    has_snapshots = True

    def validate(self) -> None:
        """Check options and columns of a filesystem table, but not whether files exist.

        Raises:
            CatalogError: An option or a column is wrong.
        """
        spec = self.spec
        values = option_values(spec)
        file_format = format_of(values)
        if file_format is None:
            if "path" not in values:
                raise missing_option(spec, "path")
            raise bad_option(
                spec,
                f"option 'format' is missing, and '{values['path']}' has no known suffix",
                f"set 'format' to one of {', '.join(FORMATS)}",
            )
        if file_format not in FORMATS:
            known = (*FORMATS, *CHANGES_IN_FILES)
            suggestion = nearest(file_format, known)
            hint = f"available formats: {', '.join(known)}"
            if file_format in _ARROW_FORMATS:
                hint = f"convert the files to Parquet; {hint}"
            elif suggestion:
                hint = f"did you mean '{suggestion}'?"
            raise bad_option(spec, f"unknown format '{values['format']}'", hint)
        format_options = FLINK_OPTIONS.get(file_format, {})
        names = format_option_names(file_format)
        for name, _ in spec.options:
            prefix = name.lower().split(".")[0]
            # an option of another format is a mistake, even if the table's format has one of
            # that name
            if prefix in FORMATS and prefix != file_format:
                valid = [n for n in (*format_options, *names) if n.startswith(file_format)]
                raise unknown_option(spec, name, valid)
        has_header = values.get("header", "false").lower() == "true"
        for option in (SKIP_BELOW, REPEATED):
            if option in values and spec.columns and not has_header:
                raise bad_option(
                    spec,
                    f"option '{option}' requires a header, but 'header' is not 'true'",
                    "set 'header' = 'true'",
                )
        if file_format == "json":
            _check_json_encoding(spec)
        formats = [name for name, _ in spec.options if TIME_FORMAT.fullmatch(name)]
        check_options(spec, {**FILESYSTEM, **format_options}, [*names, *formats])
        check_columns(spec, list(METADATA))
        physical = spec.physical_columns
        _check_formats(spec, formats, physical)
        if file_format == "text" and PATTERN in values:
            _check_pattern(spec, values[PATTERN], physical)
        elif file_format == "text" and spec.columns:
            types = {(c.type or "").lower() for c in physical}
            if len(physical) != 1 or types != {"string"}:
                raise CatalogError(
                    f"table `{spec.name}`: format 'text' requires exactly one column, of type "
                    "STRING",
                    subjects=("'text'", spec.name),
                )

    @property
    def is_unbounded(self) -> bool:
        """Whether new files are monitored."""
        return is_monitored(self.spec)

    @property
    def file_format(self) -> str:
        """Format of the files."""
        return format_of(option_values(self.spec)) or ""

    @property
    def is_read_by_workers(self) -> bool:
        """Whether Spark's readers cannot find the records in the lines of the files."""
        from runtime.connectors.filesystem.text import text_reading

        file_format = self.file_format
        text = text_reading(self.spec, file_format, spark_options(self.spec, file_format))
        return text is not None and text.line_rules is not None

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the rows of the existing files."""
        from runtime.connectors.filesystem.read import read

        return read(spark, self.spec)

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the rows of files as they arrive."""
        from runtime.connectors.filesystem.stream import stream

        return stream(spark, self.spec)

    def note(self, spark: SparkSession) -> str | None:
        """Return the note about a directory that does not exist yet."""
        return unwritten_note(spark, self.spec)

    def scan(
        self, spark: SparkSession, columns: Sequence[Column], filters: Sequence[Expression]
    ) -> FileSource:
        """Return the Parquet, CSV, JSON or log files that tasks and this process read."""
        is_log = self.file_format == "text" and PATTERN in option_values(self.spec)
        if is_log or self.file_format in ("csv", "json"):
            from runtime.connectors.filesystem.text_source import text_source

            return text_source(spark, self.spec, columns)
        return scan(spark, self.spec, columns)

    def stream_scan(self, spark: SparkSession, columns: Sequence[Column]) -> SplitTable:
        """Return the Parquet files of a stream that tasks read."""
        return stream_scan(spark, self.spec, columns)

    def splits(self, spark: SparkSession) -> FileSplits:
        """Return the files as splits."""
        from runtime.connectors.filesystem.splits import FileSplits

        return FileSplits(spark, self.spec)

    def check_input(self, spark: SparkSession, log: FileLog) -> FileChecks:
        """Return the checks of new files, and of files published together with them."""
        from runtime.connectors.filesystem.arrivals import arrivals_check
        from runtime.connectors.filesystem.split_batches import missing_files

        return FileChecks(
            arrivals_check(spark, self.spec, log), missing_files(spark, self.spec, log)
        )

    def write(self, rows: BatchRows, *, overwrite: bool) -> int:
        """Write files below the path."""
        from runtime.connectors.filesystem.write import write_rows

        return write_rows(rows, self.spec, overwrite)

    def why_spark_writes(self, spark: SparkSession) -> str | None:
        """Return why this process cannot write the files itself."""
        from runtime.connectors.filesystem.write import why_spark_writes

        return why_spark_writes(spark, self.spec)

    def open_sink(self, rows: DataFrame, writer: StreamWriter) -> StreamSink:
        """Return the sink that publishes the files of each micro-batch together."""
        from runtime.connectors.filesystem.stream_write import FileSink

        return FileSink(rows, self.spec, writer)
