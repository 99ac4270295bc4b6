r"""The file of \o: rows go there in the format of its name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from runtime.errors import SetupError, SqlwinError
from sqlwin.console.formats import FORMAT_OF_SUFFIX
from sqlwin.display.output import writing

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET = "parquet"


class OutputFile:
    r"""A file that results are written to, one behind the other.

    Args:
        path: its name; the format is that of its ending (.csv, .json, .jsonl, .md, .txt, .parquet).

    Attributes:
        path: its name.
        format: its format; None: as \format says.

    Raises:
        SetupError: it cannot be made.
        ExecutionError: it cannot be written, for instance since the disk is full.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        suffix = path.suffix.lower()
        self.format = PARQUET if suffix == ".parquet" else FORMAT_OF_SUFFIX.get(suffix)
        self._text: TextIO | None = None
        self._parquet: Any = None
        try:
            if self.format == PARQUET:
                path.open("wb").close()
            else:
                self._text = path.open("w", encoding="utf-8", newline="")
        except OSError as error:
            raise SetupError(f"cannot write {path}: {error.strerror}") from error

    def write(self, text: str) -> None:
        """Append text.

        Raises:
            SetupError: the file takes no text.
        """
        if self._text is None:
            raise SetupError(
                f"{self.path} takes rows alone, as Parquet", hint=r"\o ends that, or \o plan.txt"
            )
        with writing(self.path):
            self._text.write(text)

    def write_parquet(self, columns: Sequence[str], batches: Iterator[pa.RecordBatch]) -> int:
        """Append rows as Parquet; how many.

        Raises:
            SqlwinError: they have other columns than those that are there.
        """
        import pyarrow as pa
        from pyarrow import parquet

        n_rows = 0
        for batch in batches:
            named = pa.table(batch.columns, names=list(columns))
            if self._parquet is None:
                with writing(self.path):
                    self._parquet = parquet.ParquetWriter(self.path, named.schema)
            if self._parquet.schema != named.schema:
                raise SqlwinError(
                    f"{self.path} has rows with other columns, and a Parquet file has one set of "
                    "them",
                    hint=r"give the result a file of its own: \o other.parquet",
                )
            with writing(self.path):
                self._parquet.write_table(named)
            n_rows += named.num_rows
        return n_rows

    def flush(self) -> None:
        """Have text that was written reach the file."""
        if self._text is not None:
            with writing(self.path):
                self._text.flush()

    def close(self) -> None:
        """Nothing more is written."""
        with writing(self.path):
            if self._text is not None:
                self._text.close()
            if self._parquet is not None:
                self._parquet.close()
            elif self.format == PARQUET:
                self.path.unlink(missing_ok=True)  # no rows, no Parquet
