"""Read text files: batches of the columns of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

import numpy as np
import pyarrow as pa

from runtime.compute.arrow.evaluate import filter_mask
from runtime.compute.arrow.types import arrow_type
from runtime.errors import ExecutionError
from runtime.spec.expressions import Expression, columns_of
from runtime.spec.text import TextSource
from runtime.text.csv_fields import csv_fields
from runtime.text.fields import BrokenRecordError, Fields
from runtime.text.json_fields import json_fields
from runtime.text.lines import LineRange, parts_of, read_lines
from runtime.text.values import convert

# Name of the only column of rows if no other column is read
ROW = "$row"


def text_parts(source: TextSource) -> Iterator[LineRange]:
    """Yield the parts of a table's files, to be read in parallel.

    Raises:
        ExecutionError: A file cannot be read.
    """
    for file in source.files:
        yield from parts_of(file)


def text_schema(source: TextSource) -> pa.Schema:
    """Return the schema of `read_part`."""
    columns = (*(c.column for c in source.columns), *source.partition_columns)
    fields = [pa.field(c.name, arrow_type(c.type)) for c in columns]
    return pa.schema(fields or [pa.field(ROW, pa.int8())])


def read_part(
    source: TextSource, part: LineRange, filters: Sequence[Expression] = ()
) -> tuple[pa.RecordBatch, int]:
    """Return the rows of a part that pass filters, and the number of rows read.

    Values are converted in the order in which filters read them, and only in the rows that passed
    the filters before: a value that does not fit is an error only where it is needed.

    Raises:
        ExecutionError: The file cannot be read, or a record or a value does not fit its table.
    """
    rows = _Rows(source, part, _fields(source, part))
    n_rows = rows.n_rows
    for condition in filters:
        rows.apply(condition)
    return rows.batch(), n_rows


def _fields(source: TextSource, part: LineRange) -> Fields:
    """Return the texts of the columns of a part."""
    lines = read_lines(part)
    try:
        if source.records is None:
            return json_fields(lines, source.columns, source.first)
        return csv_fields(lines, source.records, source.columns, is_start=part.start == 0)
    except BrokenRecordError as broken:
        _raise(source.broken, part.file.path, broken.record)


class _Rows:
    """Rows of a part, converted column by column.

    Args:
        source: Table.
        part: Part of a file.
        fields: Texts of the columns.
    """

    def __init__(self, source: TextSource, part: LineRange, fields: Fields) -> None:
        self.n_rows = fields.n_rows
        self._source = source
        self._path = part.file.path
        self._texts = dict(fields.texts)
        self._columns = {column.name: column for column in source.columns}
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
            if is_misfit.true_count:
                text = texts.filter(is_misfit)[0].as_py()
                _raise(column.misfit, self._path, text)
            self._values[name] = values
        return self._values[name]


def _raise(message: str, path: str, text: str) -> NoReturn:
    """Raise the error about a record or a value of a file."""
    # imported late because it searches the file for the line
    from runtime.detection.places import BETWEEN, MAX_CHARACTERS, explain_message

    explained = explain_message(f"{message}{BETWEEN}{path}{BETWEEN}{text[:MAX_CHARACTERS]}")
    assert explained is not None
    what, hint = explained
    raise ExecutionError(what, hint=hint)
