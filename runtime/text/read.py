"""Read text files: batches of the columns of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pyarrow as pa

from runtime.compute.arrow.evaluate import filter_mask
from runtime.compute.arrow.types import arrow_type
from runtime.errors import ExecutionError
from runtime.scan.ranges import FileRange, file_ranges
from runtime.spec.expressions import Expression, columns_of
from runtime.spec.scan import ScanFile
from runtime.spec.text import TextSource
from runtime.text.csv_fields import csv_fields, log_fields
from runtime.text.fields import BrokenRecordError, Fields
from runtime.text.json_fields import json_fields
from runtime.text.line_records import select_records
from runtime.text.lines import read_pieces
from runtime.text.values import convert

if TYPE_CHECKING:
    from runtime.scan.pruning import ValueRange
    from runtime.scan.stores import Store

# Name of the only column of rows if no other column is read
ROW = "$row"


# Parts of files that a task reads one after the other
TextSplit = tuple[FileRange, ...]


def text_splits(
    source: TextSource, filters: Sequence[Expression], n_splits: int
) -> list[TextSplit]:
    """Return splits of similar size, without files in partitions where no row passes filters.

    Args:
        source: Table.
        filters: Conditions, joined by AND.
        n_splits: Minimum number of splits, if there is enough data.
    """
    return [tuple(split) for split in file_ranges(_matching_files(source, filters), n_splits)]


def _matching_files(source: TextSource, filters: Sequence[Expression]) -> Sequence[ScanFile]:
    if not source.partition_columns:
        return source.files
    from runtime.scan.pruning import can_be_true, range_of_value

    names = [column.name for column in source.partition_columns]

    def may_match(file: ScanFile) -> bool:
        values = dict(zip(names, file.partition_values, strict=True))

        def range_of(name: str) -> ValueRange | None:
            return range_of_value(values[name], 1) if name in values else None

        return all(can_be_true(condition, range_of) for condition in filters)

    return list(filter(may_match, source.files))


def text_schema(source: TextSource) -> pa.Schema:
    """Return the schema of the batches of `read_split`."""
    columns = (*source.columns, *source.partition_columns)
    fields = [pa.field(c.name, arrow_type(c.type)) for c in columns]
    return pa.schema(fields or [pa.field(ROW, pa.int8())])


def read_split(
    source: TextSource,
    split: TextSplit,
    filters: Sequence[Expression] = (),
    store: Store | None = None,
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield the rows of a split that pass filters, with the number of rows read for them.

    Values are converted in the order in which filters read them, and only in the rows that passed
    the filters before: a value that does not fit is an error only where it is needed.

    Args:
        source: Table.
        split: Parts of its files.
        filters: Conditions, joined by AND.
        store: Store of the files. None means this machine.

    Raises:
        ExecutionError: The file cannot be read, or a record or a value does not fit its table.
    """
    for part in split:
        for fields in read_fields(source, part, store):
            rows = _Rows(source, part, fields)
            n_rows = rows.n_rows
            for condition in filters:
                rows.apply(condition)
            yield rows.batch(), n_rows


def read_fields(
    source: TextSource, part: FileRange, store: Store | None = None, content: bytes | None = None
) -> Iterator[Fields]:
    """Yield the texts of the columns of a part of a file, some megabytes at a time.

    Args:
        source: Table.
        part: Part of a file.
        store: Store of the file. None means this machine.
        content: Bytes of the file. None to open it.

    Raises:
        ExecutionError: The file cannot be read, or a record does not fit the table.
    """
    path, records = part.file.path, source.records
    is_whole = records is not None and records.needs_whole_files
    for lines in read_pieces(
        part, store, encoding=source.encoding, is_whole=is_whole, content=content
    ):
        try:
            if records is None:
                yield json_fields(lines, source.fields, source.first)
            else:
                split = log_fields if records.pattern else csv_fields
                yield split(select_records(lines, records, path), records, source.fields)
        except BrokenRecordError as broken:
            _raise(source.broken, path, broken.record)


class _Rows:
    """Rows of a part, converted column by column.

    Args:
        source: Table.
        part: Part of a file.
        fields: Texts of the columns.
    """

    def __init__(self, source: TextSource, part: FileRange, fields: Fields) -> None:
        self.n_rows = fields.n_rows
        self._source = source
        self._path = part.file.path
        self._texts = dict(fields.texts)
        self._columns = {field.name: field for field in source.fields}
        self._values = dict(fields.values)
        values = part.file.partition_values
        for column, value in zip(source.partition_columns, values, strict=True):
            constant = pa.scalar(value, arrow_type(column.type))
            self._values[column.name] = pa.repeat(constant, self.n_rows)

    def apply(self, condition: Expression) -> None:
        """Keep the rows that satisfy a condition."""
        names = [name for name in columns_of(condition) if self._is_column(name)]
        mask = filter_mask([condition], self._batch(names))
        n_rows = mask.true_count
        if n_rows == self.n_rows:
            return
        self.n_rows = n_rows
        self._texts = {key: texts.filter(mask) for key, texts in self._texts.items()}
        self._values = {key: values.filter(mask) for key, values in self._values.items()}

    def batch(self) -> pa.RecordBatch:
        """Return the rows with all columns."""
        return self._batch(
            [
                *(column.name for column in self._source.columns),
                *(column.name for column in self._source.partition_columns),
            ]
        )

    def _is_column(self, name: str) -> bool:
        return name in self._columns or name in self._values

    def _batch(self, names: Sequence[str]) -> pa.RecordBatch:
        if not names:
            return pa.record_batch([pa.array(np.zeros(self.n_rows, np.int8))], [ROW])
        return pa.record_batch([self._value(name) for name in names], list(names))

    def _value(self, name: str) -> pa.Array:
        if name not in self._values:
            column = self._columns[name]
            texts = self._texts[name]
            values, is_misfit = convert(texts, column, self._source.notation)
            if is_misfit.true_count and self._source.is_strict:
                text = texts.filter(is_misfit)[0].as_py()
                _raise(column.misfit, self._path, text)
            self._values[name] = values
        return self._values[name]


def _raise(message: str, path: str, text: str) -> NoReturn:
    """Raise the error about a record or a value of a file."""
    # imported late because it searches the file for the line
    from runtime.detection.places import BETWEEN, MAX_CHARACTERS, explain_message

    explained = explain_message(f"{message}{path}{BETWEEN}{text[:MAX_CHARACTERS]}")
    assert explained is not None
    what, hint = explained
    raise ExecutionError(what, hint=hint)
