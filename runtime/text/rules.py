"""Rules that turn the text of a table's files into records and values, for both readers of text.

Imports no PySpark.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from runtime.detection.dialect import Dialect
from runtime.detection.lines import COMMENT, LineRules, line_rules
from runtime.detection.places import RECORD, VALUE, FileReading
from runtime.detection.times import ISO
from runtime.options.checks import option_values
from runtime.options.formats import column_formats
from runtime.shown_types import shown_type
from runtime.spec.table import TableColumn, TableSpec
from runtime.spec.text import LineRecords, Notation

# Types with one form in text, other than texts and DECIMAL
SIMPLE_TYPES = frozenset(
    "tinyint smallint int bigint float double boolean date timestamp timestamp_ntz".split()
)
# Options with the time pattern of all columns of a type
_PATTERNS = {
    "timestamp_ntz": "timestampNTZFormat",
    "timestamp": "timestampFormat",
    "date": "dateFormat",
}


@dataclass(frozen=True)
class TextRules:
    """Rules for the text of a table.

    Attributes:
        spec: Table specification.
        format: `csv`, `json`, or a format whose files type their columns.
        options: Options of Spark's reader.
    """

    spec: TableSpec
    format: str
    options: dict[str, str]

    def type_of(self, column: TableColumn) -> str:
        """Return Spark's name of a column's type, or the declared type if only Spark knows it."""
        return column.common_type or column.type or ""

    @property
    def refuses(self) -> bool:
        """Whether a value that does not fit is an error. Otherwise it becomes NULL."""
        is_text = self.format in ("csv", "json", "text")
        return not is_text or self.options.get("mode", "FAILFAST").upper() == "FAILFAST"

    @property
    def has_header(self) -> bool:
        """Whether the first record of a file names the columns."""
        return self.options.get("header", "false").lower() == "true"

    @property
    def is_whole(self) -> bool:
        """Whether a record may span lines."""
        return self.options.get("multiLine", "false").lower() == "true"

    @property
    def dialect(self) -> Dialect:
        """Dialect of CSV records."""
        get = self.options.get
        return Dialect(
            get("sep", get("delimiter", ",")),
            get("quote", '"'),
            get("escape", '"'),
            get("comment", ""),
        )

    @property
    def line_rules(self) -> LineRules | None:
        """Rules that turn lines into records. None if Spark's reader suffices."""
        if self.format == "text":
            return self._line_rules
        return (
            None if self.format != "csv" or self._line_rules.is_spark_enough() else self._line_rules
        )

    @property
    def _line_rules(self) -> LineRules:
        return line_rules(
            {COMMENT: self.options.get("comment", ""), **option_values(self.spec)}, self.format
        )

    @property
    def line_records(self) -> LineRecords:
        """Rules for splitting lines into records and fields. Their number is still unknown."""
        rules, dialect = self._line_rules, self.dialect
        is_log = self.format == "text"

        def trims(side: str) -> bool:
            return self.options.get(f"ignore{side}WhiteSpace", "false").lower() == "true"

        return LineRecords(
            n_fields=0,
            delimiter=dialect.delimiter,
            quote=dialect.quote,
            # the default for any quote, which is doubled
            escape="" if dialect.escape in (dialect.quote, '"') else dialect.escape,
            comment=rules.comment,
            null=self.options.get("nullValue", ""),
            has_header=self.has_header and not is_log,
            skip=rules.skip,
            skip_below=rules.skip_below,
            drops_repeated=rules.drops_repeated,
            prefixes=rules.prefixes,
            spans_lines=self.is_whole and bool(dialect.quote) and not is_log,
            trims=(trims("Leading"), trims("Trailing")),
            pattern=rules.pattern,
            is_strict=self.refuses,
        )

    @property
    def encoding(self) -> str:
        """Encoding of the files. Empty for UTF-8."""
        return self.options.get("encoding", self.options.get("charset", ""))

    @property
    def formats(self) -> dict[str, str]:
        """Time patterns of columns, by lower-case name."""
        return column_formats(self.spec)

    def pattern(self, name: str, type_: str) -> str:
        """Return the time pattern of a column. Empty for the forms that a cast accepts."""
        of_type = self.options.get(_PATTERNS.get(type_, ""), "")
        pattern = self.formats.get(name.lower(), of_type)
        return "" if pattern == ISO else pattern

    def notation(self, zone: str = "") -> Notation:
        """Return the notation of values. `zone` is the session time zone."""
        values = option_values(self.spec)

        def option(name: str, default: str = "") -> str:
            return values.get(f"{self.format}.{name}", default)

        group = option("thousands-separator")
        return Notation(
            nulls=_words(option("null-literals")),
            decimal=option("decimal-separator", "," if group == "." else "."),
            thousands=group,
            symbols=_words(option("number-symbols")),
            zone=zone,
        )

    def is_cast(self, name: str, type_: str) -> bool:
        """Return whether a field is read as text and then cast.

        Args:
            name: Name of the column.
            type_: Spark's name of its type.
        """
        if name.lower() in self.formats:
            return True
        has_nulls = bool(self.notation().nulls)
        is_simple = type_ in SIMPLE_TYPES or type_.startswith("decimal")
        if type_ == "string":
            return has_nulls
        if self.format in ("csv", "text"):
            return is_simple
        # Spark reads a time with a zone as NULL for a type without one
        reads_null = self.refuses and type_ == "timestamp_ntz"
        return self.format == "json" and is_simple and (has_nulls or reads_null)

    def record_message(self) -> str:
        """Return a task's message about a record that does not fit, up to the file."""
        return self._file_reading().message(RECORD)

    def value_message(self, name: str, type_: str, index: int) -> str:
        """Return a task's message about a value that does not fit, up to the file.

        Args:
            name: Name of the column.
            type_: Spark's name of its type.
            index: Position of the field in a record.
        """
        reading = replace(
            self._file_reading(),
            column=name,
            type=shown_type(type_),
            pattern=self.pattern(name, type_),
            index=index,
        )
        return reading.message(VALUE)

    def _file_reading(self) -> FileReading:
        """Return the rules by which messages locate a line."""
        partitions = {name.lower() for name in self.spec.partitioned_by}
        dialect = self.dialect
        rules = self.line_rules or LineRules(comment=dialect.comment)
        null = self.options.get("nullValue", "")
        return FileReading(
            table=self.spec.name,
            format=self.format,
            fields=tuple(
                (column.name, shown_type(self.type_of(column)))
                for column in self.spec.physical_columns
                if column.name.lower() not in partitions
            ),
            delimiter=dialect.delimiter,
            quote=dialect.quote,
            escape=dialect.escape,
            comment=rules.comment,
            skip=rules.skip,
            skip_below=rules.skip_below,
            line_pattern=rules.pattern,
            encoding=self.encoding,
            has_header=self.has_header,
            nulls="|".join([*filter(None, [null]), *self.notation().nulls]),
            by_name=self.spec.name.startswith("'"),
        )


def _words(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split("|")))
