"""Files that are written from Arrow batches."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.errors import ExecutionError
from runtime.text.write import CsvForm
from runtime.writing.encodings import TextEncoding
from runtime.writing.files import NewFiles, NotWritten, file_task

ROWS = pa.table({"k": ["b", "a", "b", None, ""], "n": [1, 2, 3, 4, 5]})


def by_k(directory: Path, *, keeps: bool = False) -> NewFiles:
    return NewFiles(str(directory), ROWS.schema, ("k",), lambda k: f"k={k[0]}", "x", keeps=keeps)


@pytest.mark.parametrize(
    ("keeps", "parts"),
    [
        (False, {"b": [1, 3], "a": [2], None: [4, 5]}),
        (True, {"b": [1, 3], "a": [2], None: [4], "": [5]}),
    ],
)
def test_a_file_holds_one_partition(
    tmp_path: Path, keeps: bool, parts: dict[str | None, list[int]]
) -> None:
    files = list(by_k(tmp_path, keeps=keeps).write(ROWS.to_batches()))
    found = {f.partition[0]: pq.ParquetFile(tmp_path / f.path).read() for f in files}
    assert {k: rows.column("n").to_pylist() for k, rows in found.items()} == parts
    assert {f.partition[0]: f.n_rows for f in files} == {k: len(n) for k, n in parts.items()}
    assert all(f.size == (tmp_path / f.path).stat().st_size for f in files)


def test_a_failure_leaves_no_unfinished_file(tmp_path: Path) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        for _ in range(3):
            yield pa.record_batch({"t": ["x" * (9 << 20)]})
        raise ValueError

    encoding = TextEncoding(".csv", CsvForm("UTC"))
    files = NewFiles(str(tmp_path), pa.schema([("t", pa.string())]), encoding=encoding)
    with pytest.raises(ValueError):
        list(files.write(failing()))
    assert list(tmp_path.iterdir()) == []


def test_a_task_returns_why_a_file_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "k=a").touch()
    *_, last = file_task(by_k(tmp_path))(ROWS.to_batches())
    error = pickle.loads(last["file"][0].as_py())
    assert isinstance(error, NotWritten) and error.filename.startswith(f"{tmp_path}/k=a/part-x-")


def test_a_column_that_is_not_null_has_no_null(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.string(), nullable=False), ("n", pa.int64())])
    with pytest.raises(ExecutionError, match="column k is NOT NULL in the table, but a row has"):
        list(NewFiles(str(tmp_path), schema).write(ROWS.to_batches()))


def test_hidden_files_get_visible_names(tmp_path: Path) -> None:
    files = NewFiles(str(tmp_path), ROWS.schema)
    written = [*files.write(ROWS.to_batches()), files.write_empty()]
    assert all(Path(file.path).name.startswith(".part-00000-") for file in written)
    paths = files.show(written)
    assert paths == sorted(str(path) for path in tmp_path.glob("part-00000-*.c000.parquet"))
    assert sorted(pq.read_metadata(path).num_rows for path in paths) == [0, 5]
