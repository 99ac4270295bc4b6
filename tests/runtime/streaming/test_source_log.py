"""The files of a stream are read from Spark's log, each log file once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from runtime.files import LocalFiles
from runtime.streaming.source_log import SourceLog


class Noting(LocalFiles):
    """Records the files that are read."""

    def __init__(self) -> None:
        self.read: Counter[str] = Counter()

    def read_text(self, path: str) -> str:
        self.read[path] += 1
        return super().read_text(path)


def entry(directory: Path, name: str, *numbers: int, source: int = 0) -> None:
    """Write a log entry with a file for each micro-batch."""
    path = directory / f"sources/{source}/{name}"
    path.parent.mkdir(parents=True, exist_ok=True)
    files = [{"path": f"file:///in/{n}", "timestamp": n, "batchId": n} for n in numbers]
    lines = (json.dumps(file, separators=(",", ":")) for file in files)
    path.write_text("\n".join(["v1", *lines]))


def offsets(directory: Path, batch: int, *ends: int | None) -> None:
    path = directory / f"offsets/{batch}"
    path.parent.mkdir(exist_ok=True)
    lines = ["-" if end is None else json.dumps({"logOffset": end}) for end in ends]
    path.write_text("\n".join(["v1", "{}", *lines]))


def make_checkpoint(directory: Path, n_batches: int) -> None:
    """Write the checkpoint of micro-batches with one file each."""
    for batch in range(n_batches):
        if batch % 10 == 9:
            entry(directory, f"{batch}.compact", *range(batch + 1))
        else:
            entry(directory, str(batch), batch)
        offsets(directory, batch, batch)


def test_a_file_of_the_log_is_read_once_in_a_micro_batch_and_at_a_start(tmp_path: Path) -> None:
    make_checkpoint(tmp_path, 13)
    files = Noting()
    log = SourceLog(files, str(tmp_path))
    assert log.files_so_far() == {f"file:///in/{number}" for number in range(13)}
    assert set(files.read) == {
        f"{tmp_path}/sources/0/{name}" for name in ("9.compact", "10", "11", "12")
    }
    files.read.clear()
    for _ in range(2):
        assert log.files_of_batch(12) == {"file:///in/12": 12}
    entry(tmp_path, "13", 13)
    offsets(tmp_path, 13, 13)
    assert log.files_of_batch(13) == {"file:///in/13": 13}
    assert set(files.read.values()) == {1}


@pytest.mark.parametrize("n_batches", [0, 1, 9, 10, 12])
def test_entries_without_a_micro_batch_are_detected(n_batches: int, tmp_path: Path) -> None:
    make_checkpoint(tmp_path, n_batches)
    log = SourceLog(LocalFiles(), str(tmp_path))
    assert log.unplanned_entries() == []
    name = f"{n_batches}.compact" if n_batches % 10 == 9 else str(n_batches)
    entry(tmp_path, name, *(range(n_batches + 1) if n_batches % 10 == 9 else [n_batches]))
    (tmp_path / f"sources/0/.{name}.crc").touch()
    result = sorted(path.rpartition("/")[2] for path in log.unplanned_entries())
    assert result == sorted([name, f".{name}.crc"])


def test_entries_of_other_sources_are_unchanged(tmp_path: Path) -> None:
    make_checkpoint(tmp_path, 3)
    # two offsets with one log, followed by another source's offset
    offsets(tmp_path, 3, 2, 2, 7)
    for number in range(8):
        entry(tmp_path, str(number), number, source=1)
    log = SourceLog(LocalFiles(), str(tmp_path))
    assert log.unplanned_entries() == []
    # logs of other sources
    (tmp_path / "sources/2").mkdir()
    (tmp_path / "sources/2/8").write_text('v1\n{"topic":{"0":0}}')
    assert log.unplanned_entries() == []
    entry(tmp_path, "8", 8, source=1)
    assert log.unplanned_entries() == [f"{tmp_path}/sources/1/8"]
