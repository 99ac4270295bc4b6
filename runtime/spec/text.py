"""Text files that tasks and this process read, with the same rows as Spark's readers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from runtime.spec.scan import ScanFile, ScanSource
from runtime.spec.table import Column

# Bytes of a typical record
_RECORD_BYTES = 64


@dataclass(frozen=True)
class TextColumn:
    """Column of text files.

    Attributes:
        name: Name of the column.
        type: Spark's name of its type.
        field: Position of the field in a CSV record.
        key: Name of the field in JSON.
        is_cast: Whether a field in JSON is read as text and then cast. CSV always is.
        pattern: Time pattern; empty for the forms that a cast accepts.
        misfit: Task message for a value that does not fit, up to the file; see
            `runtime.detection.places`.
    """

    name: str
    type: str
    field: int = 0
    key: str = ""
    is_cast: bool = False
    pattern: str = ""
    misfit: str = ""

    @property
    def column(self) -> Column:
        """Name and type."""
        return Column(self.name, self.type)


@dataclass(frozen=True)
class Notation:
    """Notation of values.

    Attributes:
        nulls: Texts that stand for NULL in any column.
        decimal: Decimal separator.
        thousands: Thousands separator, empty for none.
        symbols: Texts around numbers that are ignored.
        zone: Session time zone, for TIMESTAMP_LTZ.
    """

    nulls: tuple[str, ...] = ()
    decimal: str = "."
    thousands: str = ""
    symbols: tuple[str, ...] = ()
    zone: str = "UTC"


@dataclass(frozen=True)
class LineRecords:
    """Rules for splitting lines of CSV or of a log into records and fields.

    Attributes:
        n_fields: Fields of a record.
        delimiter: Separator of fields, one character.
        quote: Character around fields, doubled inside them. Empty if fields are not quoted.
        escape: Character before a quote in a quoted field. Empty if quotes are doubled.
        comment: Beginning of comment lines. Empty without comments.
        null: Text of a field that is NULL. Empty fields are NULL, too, unless they are quoted.
        has_header: Whether the first line of a file names the columns.
        header: The header that all files must have. Empty to accept any.
        skip: Number of lines above the header, or above the first record without a header.
        skip_below: Number of lines below the header that are not records.
        drops_repeated: Whether lines equal to the header are not records.
        prefixes: Beginnings of lines below the header that are not records.
        spans_lines: Whether a quoted field may contain line ends.
        trims: Whether blanks at the start and at the end of fields are ignored.
        pattern: Regular expression whose groups are the fields, for logs.
        is_strict: Whether a record with other fields is an error. Otherwise missing fields are
            NULL, and lines that do not match the pattern are left out.
    """

    n_fields: int
    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    comment: str = ""
    null: str = ""
    has_header: bool = False
    header: str = ""
    skip: int = 0
    skip_below: int = 0
    drops_repeated: bool = False
    prefixes: tuple[str, ...] = ()
    spans_lines: bool = False
    trims: tuple[bool, bool] = (False, False)
    pattern: str = ""
    is_strict: bool = True

    @property
    def needs_whole_files(self) -> bool:
        """Whether part of a file does not tell which of its lines are records."""
        return self.spans_lines or (self.drops_repeated and not self.header)


@dataclass(frozen=True)
class TextSource:
    """Text files of a table.

    Attributes:
        path: Path as written by the user.
        files: Files with their sizes, in the order of their paths.
        fields: Columns to read from the records.
        records: Rules for splitting lines into records. None: each line is a JSON object.
        first: First column of a table of JSON, which Spark reads with each record, unless it is
            cast.
        notation: Notation of values.
        partition_columns: Columns to read that come from directory names.
        broken: Task message for a record that does not fit, up to the file; see
            `runtime.detection.places`.
        encoding: Encoding of the files, for Python. Empty for UTF-8.
    """

    path: str
    files: tuple[ScanFile, ...]
    fields: tuple[TextColumn, ...]
    records: LineRecords | None
    notation: Notation
    first: TextColumn | None = None
    partition_columns: tuple[Column, ...] = ()
    broken: str = ""
    encoding: str = ""

    @property
    def is_strict(self) -> bool:
        """Whether a value that does not fit its column is an error. Otherwise it is NULL."""
        return self.records is None or self.records.is_strict

    @property
    def columns(self) -> tuple[Column, ...]:
        """Names and types of the columns to read from the records."""
        return tuple(field.column for field in self.fields)

    @property
    def others(self) -> tuple[ScanFile, ...]:
        """Files that only Spark's reader supports: none."""
        return ()

    @property
    def bytes_of_rows(self) -> int:
        """Estimated bytes of the rows in memory."""
        return sum(file.n_bytes for file in self.files)

    @property
    def n_rows(self) -> int:
        """Estimated number of rows."""
        return self.bytes_of_rows // _RECORD_BYTES

    def without_files(self) -> TextSource:
        """Return the source for tasks, whose splits name their files."""
        return replace(self, files=())


# Files that the local stage reads
FileSource: TypeAlias = ScanSource | TextSource
