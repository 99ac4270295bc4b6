"""Formats of files that are written from Arrow: Parquet, and lines of text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from runtime.frames.parquet_columns import repeating_columns

if TYPE_CHECKING:
    from runtime.text.write import TextForm


@dataclass(frozen=True)
class ParquetEncoding:
    """Parquet files.

    Attributes:
        suffix: End of the file names.
        codec: Arrow's name of the codec.
        footer: Entries of the footer, which then lacks the schema of Arrow.
    """

    suffix: str = ".parquet"
    codec: str = "snappy"
    footer: Mapping[str, str] | None = None
    # size of a row group before compression
    chunk_bytes: ClassVar[int] = 64 << 20

    def open(self, file: pa.NativeFile, schema: pa.Schema, first: pa.Table | None) -> Any:
        """Begin a file and return its encoder, with the methods `write_table` and `close`.

        Args:
            file: Empty file, which the encoder leaves open.
            schema: Columns of the file.
            first: First rows, which show what repeats. None for a file without rows.
        """
        encoder = pq.ParquetWriter(
            file,
            schema,
            compression=self.codec,
            coerce_timestamps="us",
            store_schema=self.footer is None,
            use_dictionary=first is None or repeating_columns(first),
        )
        if self.footer is not None:
            encoder.add_key_value_metadata(self.footer)
        return encoder


@dataclass(frozen=True)
class TextEncoding:
    """Files of lines.

    Attributes:
        suffix: End of the file names.
        form: How a row is written.
    """

    suffix: str
    form: TextForm
    chunk_bytes: ClassVar[int] = 16 << 20

    def open(self, file: pa.NativeFile, schema: pa.Schema, first: pa.Table | None) -> Any:
        """Begin a file with the text before the rows. See `ParquetEncoding.open`."""
        file.write(self.form.head(schema))
        return _Lines(file, self.form)


class _Lines:
    def __init__(self, file: pa.NativeFile, form: TextForm) -> None:
        self.write_table = lambda table: file.write(form.lines(table))

    def close(self) -> None:
        """Do nothing, because lines have no footer."""


Encoding = ParquetEncoding | TextEncoding
