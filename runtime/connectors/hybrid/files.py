"""Files of the first table as splits that tasks read.

A split is a JSON array: the text of a FileRange, the names of columns in the file that differ from
the table's (None for a missing column), and the values of columns that the file does not store.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import pyarrow as pa

from runtime.scan.ranges import FileRange
from runtime.scan.stores import STORE_READERS, Store
from runtime.scan.stream_files import read_stream_file
from runtime.spec.scan import PartitionValue, ScanSource
from runtime.spec.source import SplitReader
from runtime.spec.table import Column
from runtime.spec.text import FileSource


def split_of(part: FileRange, source: FileSource) -> str:
    """Return the split of a part of a file of `source`."""
    file = part.file
    names = {
        column.name: name
        for column, name in zip(source.columns, file.names, strict=bool(file.names))
        if name != column.name
    }
    values = {
        column.name: str(value) if isinstance(value, Decimal) else value
        for column, value in zip(source.partition_columns, file.partition_values, strict=True)
    }
    return json.dumps([part.text(), names, values])


def path_of_split(split: str) -> str:
    """Return the path of the file of a split."""
    return FileRange.of(json.loads(split)[0]).file.path


@dataclass(frozen=True)
class HistoryReader(SplitReader):
    """Reader of splits of the first table in a task; see `SplitReader`.

    Attributes:
        text: Reads the columns from text files. None: the files are Parquet.
        columns: Columns to read.
        store: Store of files of Parquet. None for this machine.
    """

    text: SplitReader | None
    columns: tuple[Column, ...]
    store: Store | None

    def read(self, splits: Sequence[str], dictionaries: frozenset[str]) -> Iterator[pa.RecordBatch]:
        """Read parts of files one after the other.

        Raises:
            ExecutionError: A file cannot be read, or has changed since planning.
        """
        pa.set_io_thread_count(1 if self.store is None else STORE_READERS)
        names = [column.name for column in self.columns]
        for split in splits:
            text, stored, values = json.loads(split)
            if self.text is not None:
                yield from self.text.read([text], dictionaries)
                continue
            source, part = self._stored(FileRange.of(text), stored, values)
            path = part.file.path
            for batch in read_stream_file(path, source, dictionaries, self.store, part):
                yield batch.select(names)

    def _stored(
        self,
        part: FileRange,
        stored: Mapping[str, str | None],
        values: Mapping[str, PartitionValue],
    ) -> tuple[ScanSource, FileRange]:
        """Return the columns of a part of a file, and the part with names and values of them."""
        in_file = tuple(c for c in self.columns if c.name not in values)
        in_log = tuple(c for c in self.columns if c.name in values)
        file = replace(
            part.file,
            names=tuple(stored.get(c.name, c.name) for c in in_file) if stored else (),
            partition_values=tuple(_value(values[c.name], c.type) for c in in_log),
        )
        return ScanSource(file.path, (), in_file, in_log), replace(part, file=file)


def _value(value: PartitionValue, type_: str) -> PartitionValue:
    is_text = type_.startswith("decimal") and isinstance(value, str)
    return Decimal(str(value)) if is_text else value
