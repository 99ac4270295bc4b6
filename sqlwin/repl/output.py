r"""Output file of \o: the file's name decides the format of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

from runtime.errors import SetupError
from sqlwin.console.formats import FORMAT_OF_SUFFIX
from sqlwin.display.output import writing

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET = "parquet"
# Machine-readable formats whose files can hold only one table
_ONE_TABLE = ("csv", "json", "jsonl", PARQUET)


class OutputFile:
    r"""Output file for results, with additional files for results that do not fit into it.

    Results with the same columns share a file: one header for CSV, none for JSON lines and Parquet.
    A result with other columns goes to `NAME-2.ENDING`. So does each further result in JSON, since
    such a file holds one array. Formats for people collect all results in one file.

    Args:
        path: Path of the file. Its suffix sets the format (.csv, .json, .jsonl, .md, .txt,
            .parquet).

    Attributes:
        path: Path of the current file.
        format: Format of the file. None: as set by \format.

    Raises:
        SetupError: The file cannot be created.
        ExecutionError: The file cannot be written, for example because the disk is full.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        suffix = path.suffix.lower()
        self.format = PARQUET if suffix == ".parquet" else FORMAT_OF_SUFFIX.get(suffix)
        self._first = path
        self._text: TextIO | None = None
        self._parquet: Any = None
        # format and columns of the results in the file
        self._holds: tuple[str, tuple[str, ...]] | None = None
        self._open("w")

    def begin(self, columns: Sequence[str], format: str) -> bool:
        """Begin a result. Return whether the file's earlier results have the same columns.

        Args:
            columns: Names of the columns.
            format: Format of the result.

        Raises:
            SqlwinError: An additional file cannot be created.
        """
        holds, self._holds = self._holds, (format, tuple(columns))
        if holds is None or format not in _ONE_TABLE:
            return False
        if format == "json" or holds != self._holds:
            self._begin_file()
            return False
        return True

    def write(self, text: str) -> None:
        """Append text.

        Raises:
            SetupError: The file is Parquet.
        """
        if self._text is None:
            raise SetupError(
                f"{self.path} is a Parquet file, which can only hold rows",
                hint="use \\o to write to the screen, or \\o plan.txt",
            )
        with writing(self.path):
            self._text.write(text)

    def write_parquet(self, columns: Sequence[str], batches: Iterator[pa.RecordBatch]) -> int:
        """Append rows as Parquet and return their number. Rows of other types begin a new file."""
        import pyarrow as pa
        from pyarrow import parquet

        n_rows = 0
        for batch in batches:
            named = pa.table(batch.columns, names=list(columns))
            if self._parquet is not None and self._parquet.schema != named.schema:
                self._begin_file()
            if self._parquet is None:
                with writing(self.path):
                    self._parquet = parquet.ParquetWriter(self.path, named.schema)
            with writing(self.path):
                self._parquet.write_table(named)
            n_rows += named.num_rows
        return n_rows

    def flush(self) -> None:
        """Flush the text to the file."""
        if self._text is not None:
            with writing(self.path):
                self._text.flush()

    def close(self) -> None:
        """Close the file."""
        with writing(self.path):
            if self._text is not None:
                self._text.close()
            if self._parquet is not None:
                self._parquet.close()
            elif self.format == PARQUET:
                self.path.unlink(missing_ok=True)  # no rows, no Parquet file

    def _begin_file(self) -> None:
        """Continue in a new file next to the first one."""
        self.close()
        self._text = self._parquet = None
        for number in count(2):
            self.path = self._first.with_stem(f"{self._first.stem}-{number}")
            if not self.path.exists():
                break
        self._open("x")

    def _open(self, mode: Literal["w", "x"]) -> None:
        try:
            if self.format == PARQUET:
                self.path.open("wb" if mode == "w" else "xb").close()
            else:
                self._text = self.path.open(mode, encoding="utf-8", newline="")
        except OSError as error:
            raise SetupError(f"cannot write {self.path}: {error.strerror}") from error
