"""Files of a micro-batch get names that say whose they are, and go if it is computed again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.commits import Commit, committed_files, read_commit, write_commit
from runtime.connectors.filesystem.stream_write import (
    check_written,
    publish,
    retract,
    written_files,
)
from runtime.errors import ExecutionError
from runtime.files import LocalFiles

FILES = LocalFiles()


def written(hidden: Path, *names: str) -> None:
    for name in names:
        (hidden / name).parent.mkdir(parents=True, exist_ok=True)
        (hidden / name).write_text(name)


def publish_all(
    hidden: Path, path: Path, writer: str, batch: int, files: LocalFiles = FILES
) -> None:
    found = written_files(files, str(hidden))
    publish(files, found, str(hidden), str(path), writer, batch)


def below(path: Path) -> list[str]:
    """The files below a directory, but for what `runtime.commits` keeps."""
    found = (str(p.relative_to(path)) for p in path.rglob("*") if p.is_file())
    return sorted(name for name in found if not name.endswith(".json") or name[0] != ".")


def counted(path: Path) -> list[str]:
    """The files that a reader takes."""
    shown = committed_files(FILES, str(path), lambda: [str(path / name) for name in below(path)])
    return [str(Path(name).relative_to(path)) for name in shown]


def test_files_move_to_where_readers_see_them_with_their_partition_directories(
    tmp_path: Path,
) -> None:
    hidden = tmp_path / ".sqlwin-w"
    written(
        hidden,
        "_SUCCESS",
        ".part-00000.crc",
        "part-00000-1f0c-c000.snappy.parquet",
        "day=2/part-00001-1f0c.c000.snappy.parquet",
    )
    publish_all(hidden, tmp_path, "w", 7)
    FILES.delete(str(hidden))
    names = ["day=2/part-w-00000007-00000.snappy.parquet", "part-w-00000007-00001.snappy.parquet"]
    assert below(tmp_path) == counted(tmp_path) == names
    assert read_commit(FILES, str(tmp_path), "w") == Commit(7, True, tuple(names))


@pytest.mark.parametrize("has_commit", [True, False])
def test_a_micro_batch_that_is_computed_again_replaces_what_it_had_published(
    tmp_path: Path, has_commit: bool
) -> None:
    hidden = tmp_path / ".sqlwin-w"
    for batch in (6, 7):
        written(hidden, "part-00000-a-c000.json", "k=1/part-00001-b.c000.json")
        publish_all(hidden, tmp_path, "w", batch)
    written(hidden, "part-00000-c-c000.json")
    publish_all(hidden, tmp_path, "other", 7)
    if not has_commit:
        (tmp_path / ".sqlwin-w.json").unlink()
    retract(FILES, str(tmp_path), "w", 7)
    left = [
        "k=1/part-w-00000006-00000.json",
        "part-other-00000007-00000.json",
        "part-w-00000006-00001.json",
    ]
    assert below(tmp_path) == counted(tmp_path) == left


def test_a_checkpoint_that_was_put_back_replaces_all_that_came_behind_it(tmp_path: Path) -> None:
    hidden = tmp_path / ".sqlwin-w"
    for batch in range(5):
        written(hidden, "part-00000-a-c000.json")
        publish_all(hidden, tmp_path, "w", batch)
    retract(FILES, str(tmp_path), "w", 2)
    assert below(tmp_path) == ["part-w-00000000-00000.json", "part-w-00000001-00000.json"]


class Watched(LocalFiles):
    """Takes down what a reader would count before and behind each file that is moved."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen: list[int] = []

    def rename(self, path: str, new: str) -> None:
        self.seen.append(len(counted(self.path)))
        super().rename(path, new)
        self.seen.append(len(counted(self.path)))


def test_a_reader_beside_a_publish_sees_all_of_a_micro_batch_or_nothing(tmp_path: Path) -> None:
    hidden, watched = tmp_path / ".sqlwin-w", Watched(tmp_path)
    for batch in range(2):
        written(hidden, *(f"k={k}/part-00000-a.c000.json" for k in range(5)))
        publish_all(hidden, tmp_path, "w", batch, watched)
        assert set(watched.seen) == {5 * batch}
        watched.seen.clear()
    assert len(counted(tmp_path)) == 10


def test_a_reader_that_lists_while_a_writer_begins_lists_again(tmp_path: Path) -> None:
    names = [f"part-w-00000000-0000{number}.json" for number in range(2)]
    listings: Iterator[list[str]] = iter([names[:1], names])

    def listed() -> list[str]:
        found = next(listings)
        if found == names[:1]:  # half of it: the other half comes before the commits are read
            write_commit(FILES, str(tmp_path), "w", Commit(0, True, tuple(names)))
        return found

    assert committed_files(FILES, str(tmp_path), listed) == names


def test_fewer_rows_than_were_written_are_an_error(tmp_path: Path) -> None:
    file = tmp_path / "part-00000.parquet"
    pq.write_table(pa.table({"a": range(3)}), file)
    check_written(FILES, "parquet", "/out", [str(file)], 3)
    with pytest.raises(ExecutionError, match="4 rows were written to /out, and 3 are found"):
        check_written(FILES, "parquet", "/out", [str(file)], 4)
    # whatever the format, files that are elsewhere are missed
    with pytest.raises(ExecutionError, match="4 rows were written to /out, and 0 are found"):
        check_written(FILES, "csv", "/out", [], 4)
    check_written(FILES, "csv", "/out", [], 0)
