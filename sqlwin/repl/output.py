r"""The file of \o: rows go there in the format of its name."""

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
# Formats that programs read: a file holds one table
_ONE_TABLE = ("csv", "json", "jsonl", PARQUET)


class OutputFile:
    r"""A file that results are written to, and further ones for those that do not fit into it.

    Results of the same columns share a file: CSV has one header, JSON lines and Parquet have none.
    A result of other columns goes to `NAME-2.ENDING`, as does each further one of JSON, whose files
    hold one array. Formats that are read by people take all results, one below the other.

    Args:
        path: its name; the format is that of its ending (.csv, .json, .jsonl, .md, .txt, .parquet).

    Attributes:
        path: the name of the file that is being written.
        format: its format; None: as \format says.

    Raises:
        SetupError: it cannot be made.
        ExecutionError: it cannot be written, for instance since the disk is full.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        suffix = path.suffix.lower()
        self.format = PARQUET if suffix == ".parquet" else FORMAT_OF_SUFFIX.get(suffix)
        self._first = path
        self._text: TextIO | None = None
        self._parquet: Any = None
        # of the results in the file: their format, and their columns
        self._holds: tuple[str, tuple[str, ...]] | None = None
        self._open("w")

    def begin(self, columns: Sequence[str], format: str) -> bool:
        """Begin a result; whether its columns are those of the results before it in the file.

        Args:
            columns: names of the columns.
            format: how it will be written.

        Raises:
            SqlwinError: a further file cannot be made.
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
            SetupError: the file takes no text.
        """
        if self._text is None:
            raise SetupError(
                f"{self.path} takes rows alone, as Parquet", hint=r"\o ends that, or \o plan.txt"
            )
        with writing(self.path):
            self._text.write(text)

    def write_parquet(self, columns: Sequence[str], batches: Iterator[pa.RecordBatch]) -> int:
        """Append rows as Parquet; how many. Rows of other types begin a further file."""
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

    def _begin_file(self) -> None:
        """Go on in a new file beside the first one."""
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
