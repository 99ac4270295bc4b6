"""Files of a micro-batch have names with their writer, and are removed if it is computed again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.commits import Commit, committed_files, read_commit, write_commit
from runtime.connectors.filesystem.publish import (
    Writer,
    check_written,
    finish,
    publish,
    retract,
    written_files,
)
from runtime.errors import ExecutionError
from runtime.files import LocalFiles
from tests.observing import files_below

FILES = LocalFiles()


def write_file(hidden: Path, *names: str) -> None:
    for name in names:
        (hidden / name).parent.mkdir(parents=True, exist_ok=True)
        (hidden / name).write_text(name)


def publish_all(
    hidden: Path, path: Path, name: str, batch: int, files: LocalFiles = FILES, plan: str = ""
) -> None:
    result = written_files(files, str(hidden))
    commit = Commit(batch, True, plan=plan)
    publish(Writer(files, str(path), name), result, str(hidden), commit)


def below(path: Path) -> list[str]:
    """Return the files below a directory without the commit files of `runtime.commits`."""
    result = (str(file.relative_to(path)) for file in files_below(path))
    return sorted(name for name in result if not name.endswith(".json") or name[0] != ".")


def visible_files(path: Path) -> list[str]:
    """Return the files that a reader sees."""
    shown = committed_files(FILES, str(path), lambda: [str(path / name) for name in below(path)])
    return [str(Path(name).relative_to(path)) for name in shown]


def test_files_move_to_where_readers_see_them_with_their_partition_directories(
    tmp_path: Path,
) -> None:
    hidden = tmp_path / ".sqlwin-w"
    write_file(
        hidden,
        "_SUCCESS",
        ".part-00000.crc",
        "part-00000-1f0c-c000.snappy.parquet",
        "day=2/part-00001-1f0c.c000.snappy.parquet",
    )
    publish_all(hidden, tmp_path, "w", 7)
    FILES.delete(str(hidden))
    names = ["day=2/part-w-00000007-00000.snappy.parquet", "part-w-00000007-00001.snappy.parquet"]
    assert below(tmp_path) == visible_files(tmp_path) == names
    assert read_commit(FILES, str(tmp_path), "w") == Commit(7, True, tuple(names))


@pytest.mark.parametrize("has_commit", [True, False])
def test_a_repeated_micro_batch_replaces_its_files(tmp_path: Path, has_commit: bool) -> None:
    hidden = tmp_path / ".sqlwin-w"
    for batch in (6, 7):
        write_file(hidden, "part-00000-a-c000.json", "k=1/part-00001-b.c000.json")
        publish_all(hidden, tmp_path, "w", batch)
    write_file(hidden, "part-00000-c-c000.json")
    publish_all(hidden, tmp_path, "other", 7)
    if not has_commit:
        (tmp_path / ".sqlwin-w.json").unlink()
    retract(Writer(FILES, str(tmp_path), "w"), 7)
    left = [
        "k=1/part-w-00000006-00000.json",
        "part-other-00000007-00000.json",
        "part-w-00000006-00001.json",
    ]
    assert below(tmp_path) == visible_files(tmp_path) == left


def test_a_restored_checkpoint_replaces_later_files(tmp_path: Path) -> None:
    hidden = tmp_path / ".sqlwin-w"
    for batch in range(5):
        write_file(hidden, "part-00000-a-c000.json")
        publish_all(hidden, tmp_path, "w", batch)
    retract(Writer(FILES, str(tmp_path), "w"), 2)
    assert below(tmp_path) == ["part-w-00000000-00000.json", "part-w-00000001-00000.json"]


class Watched(LocalFiles):
    """Records the files that a reader sees before and after each move."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen: list[int] = []

    def rename(self, path: str, new: str) -> None:
        self.seen.append(len(visible_files(self.path)))
        super().rename(path, new)
        self.seen.append(len(visible_files(self.path)))


def test_a_concurrent_reader_sees_all_of_a_micro_batch_or_nothing(tmp_path: Path) -> None:
    hidden, watched = tmp_path / ".sqlwin-w", Watched(tmp_path)
    for batch in range(2):
        write_file(hidden, *(f"k={k}/part-00000-a.c000.json" for k in range(5)))
        publish_all(hidden, tmp_path, "w", batch, watched)
        assert set(watched.seen) == {5 * batch}
        watched.seen.clear()
    assert len(visible_files(tmp_path)) == 10


def test_a_reader_that_lists_while_a_writer_begins_lists_again(tmp_path: Path) -> None:
    names = [f"part-w-00000000-0000{number}.json" for number in range(2)]
    listings: Iterator[list[str]] = iter([names[:1], names])

    def listed() -> list[str]:
        result = next(listings)
        if result == names[:1]:  # the other half is published before the commits are read
            write_commit(FILES, str(tmp_path), "w", Commit(0, True, tuple(names)))
        return result

    assert committed_files(FILES, str(tmp_path), listed) == names


class Killed(LocalFiles):
    """Makes some changes and then stops, as after a kill."""

    def __init__(self, n_changes: int) -> None:
        self._left = n_changes

    def change(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt

    def rename(self, path: str, new: str) -> None:
        self.change()
        super().rename(path, new)

    def write_text(self, path: str, text: str) -> None:
        self.change()
        super().write_text(path, text)


@pytest.mark.parametrize("n_changes", range(5))
def test_a_move_that_was_cut_short_is_finished_with_the_same_files(
    tmp_path: Path, n_changes: int
) -> None:
    hidden = tmp_path / ".sqlwin-w"
    write_file(hidden, "k=1/part-00000-a.c000.json", "k=2/part-00000-b.c000.json")
    with pytest.raises(KeyboardInterrupt):
        publish_all(hidden, tmp_path, "w", 3, Killed(n_changes), plan="x")
        raise KeyboardInterrupt  # after everything was done
    assert len(visible_files(tmp_path)) in ((2,) if n_changes > 3 else (0,))
    inodes = {name: (tmp_path / name).stat().st_ino for name in below(tmp_path) if name[0] != "."}
    writer = Writer(FILES, str(tmp_path), "w")
    # with another plan, it is another micro-batch that must be written
    other = finish(writer, "y")
    assert other is None if n_changes == 0 else other is not None
    assert other is None or other.is_whole == (n_changes > 3)
    result = finish(writer, "x")
    if n_changes == 0:
        assert result is None
        return
    assert result is not None
    assert result.is_whole
    names = [f"k={k}/part-w-00000003-{k - 1:05d}.json" for k in (1, 2)]
    assert visible_files(tmp_path) == names == below(tmp_path)
    # visible files do not change
    assert all((tmp_path / name).stat().st_ino == number for name, number in inodes.items())


def test_a_move_with_missing_files_is_not_finished(tmp_path: Path) -> None:
    hidden = tmp_path / ".sqlwin-w"
    write_file(hidden, "part-00000-a.c000.json", "part-00001-b.c000.json")
    with pytest.raises(KeyboardInterrupt):
        publish_all(hidden, tmp_path, "w", 3, Killed(2), plan="x")
    FILES.delete(str(hidden))
    result = finish(Writer(FILES, str(tmp_path), "w"), "x")
    assert result is not None
    assert not result.is_whole
    assert visible_files(tmp_path) == []


def test_fewer_rows_than_were_written_are_an_error(tmp_path: Path) -> None:
    file = tmp_path / "part-00000.parquet"
    pq.write_table(pa.table({"a": range(3)}), file)
    check_written(FILES, "parquet", "/out", [str(file)], 3, int)
    with pytest.raises(
        ExecutionError, match="4 rows were written to /out, but its files contain 3"
    ):
        check_written(FILES, "parquet", "/out", [str(file)], 4, int)
    # missing files are noticed in any format
    with pytest.raises(
        ExecutionError, match="4 rows were written to /out, but its files contain 0"
    ):
        check_written(FILES, "csv", "/out", [], 4, int)
    check_written(FILES, "csv", "/out", [], 0, int)
