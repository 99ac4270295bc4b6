"""Files that were published together but are read apart make no row late."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sqlwin
from runtime.commits import Commit, remove_commit, write_commit
from runtime.connectors.filesystem.split_batches import Directory, PartialBatches
from runtime.files import LocalFiles
from runtime.streaming.source_log import SourceLog

FILES = LocalFiles()


class Reading:
    """A stream whose micro-batches read files of a directory, as in Spark's checkpoint."""

    def __init__(self, directory: Path) -> None:
        self.table, self.checkpoint = directory / "in", directory / "spark"
        for item in (self.table, self.checkpoint / "offsets", self.checkpoint / "sources/0"):
            item.mkdir(parents=True)
        self.n_batches = self.n_logs = 0
        self.start()

    def start(self) -> None:
        table = Directory("t", FILES, str(self.table))
        self.parts = PartialBatches(SourceLog(FILES, str(self.checkpoint)), table)

    def there(self, *names: str) -> None:
        for name in names:
            path = self.table / name
            path.parent.mkdir(exist_ok=True)
            path.touch()

    def commits(self, batch: int, *names: str, is_whole: bool = True) -> None:
        write_commit(FILES, str(self.table), "abcd1234", Commit(batch, is_whole, names))

    def reads(self, *names: str) -> bool:
        """Return whether files of the table are missing after a micro-batch with these files."""
        if names:
            log = self.checkpoint / f"sources/0/{self.n_logs}"
            lines = [
                json.dumps(
                    {"path": f"file://{self.table}/{name}", "timestamp": 1, "batchId": self.n_logs},
                    separators=(",", ":"),
                )
                for name in names
            ]
            log.write_text("\n".join(["v1", *lines]))
            self.n_logs += 1
        offset = json.dumps({"logOffset": self.n_logs - 1})
        (self.checkpoint / f"offsets/{self.n_batches}").write_text(f"v1\n{{}}\n{offset}\n")
        self.n_batches += 1
        return self.parts.missing(self.n_batches - 1) == ("t",)

    def again(self) -> bool:
        """Return the same for the last micro-batch when it runs again, after a restart."""
        self.start()
        return self.parts.missing(self.n_batches - 1) == ("t",)


def name(batch: int, number: int, directory: str = "") -> str:
    return f"{directory}part-abcd1234-{batch:08}-{number:05}.json"


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    return Reading(tmp_path)


def test_files_that_have_not_moved_yet_are_missing(reading: Reading) -> None:
    reading.commits(0, name(0, 0), name(0, 1, "day=1/"), is_whole=False)
    reading.there(name(0, 0))
    assert reading.reads(name(0, 0))
    # processing time may trigger a micro-batch meanwhile
    assert reading.reads()
    reading.there(name(0, 1, "day=1/"))
    reading.commits(0, name(0, 0), name(0, 1, "day=1/"))
    assert reading.reads()
    assert reading.again()
    assert not reading.reads(name(0, 1, "day=1/"))
    assert not reading.again()


# column names may begin like hidden directories
@pytest.mark.parametrize("directory", ["", "_day=1/"])
@pytest.mark.parametrize("is_batch", [False, True])
def test_files_of_an_earlier_micro_batch_are_missing_too(
    is_batch: bool, directory: str, reading: Reading
) -> None:
    first = name(0, 0, directory)
    reading.there(first, name(0, 1), name(1, 0))
    if is_batch:
        remove_commit(FILES, str(reading.table), "abcd1234")
    else:
        reading.commits(1, name(1, 0))
    assert reading.reads(name(0, 1), name(1, 0))
    assert reading.again()
    assert not reading.reads(first)


def test_deleted_and_foreign_files_are_not_missing(reading: Reading) -> None:
    reading.there(name(0, 0), "part-00000-of-another-program.json", ".sqlwin-abcd1234/part-0.json")
    reading.commits(0, name(0, 0), name(0, 1))
    assert not reading.reads(name(0, 0), "part-00000-of-another-program.json")
    assert not reading.reads()


def events(*rows: tuple[str, int]) -> str:
    lines = [{"k": k, "ts": f"2024-02-28 10:00:{second:02}"} for k, second in rows]
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.mark.long
def test_a_stream_that_reads_them_in_two_micro_batches_has_no_late_rows(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    source = tmp_path / "in"
    source.mkdir()
    fresh_session.execute(f"""
        SET 'execution.runtime-mode' = 'streaming';
        CREATE TABLE events (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH (
          'connector' = 'filesystem', 'path' = '{source}', 'format' = 'json',
          'source.monitor-interval' = '100 ms');
        CREATE TABLE counts (k STRING, e TIMESTAMP(3), n BIGINT) WITH ('connector' = 'memory');
    """)
    (started,) = fresh_session.execute("""
        INSERT INTO counts SELECT k, window_end, COUNT(*)
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
        GROUP BY k, window_start, window_end
    """)
    assert started.stream is not None
    parts = (name(0, 0), name(0, 1))

    def moved(batch: int, number: int, *rows: tuple[str, int]) -> None:
        hidden = tmp_path / "moving"
        hidden.write_text(events(*rows))
        hidden.rename(source / name(batch, number))
        started.stream.query.processAllAvailable()

    write_commit(FILES, str(source), "abcd1234", Commit(0, False, parts))
    moved(0, 0, ("a", 1), ("a", 35))
    (shown,) = fresh_session.execute("SHOW STREAMS")
    assert "the watermark waits for files of `events` that" in str(shown.rows[0])
    moved(0, 1, ("b", 2), ("b", 12))
    write_commit(FILES, str(source), "abcd1234", Commit(0, True, parts))
    # a task without rows leaves an empty file, which Spark does not read
    (source / name(1, 1)).touch()
    write_commit(FILES, str(source), "abcd1234", Commit(1, True, (name(1, 0), name(1, 1))))
    moved(1, 0, ("a", 55))
    assert [operator.n_late for operator in started.stream.status().operators] == [0]
    started.stream.stop()
    rows = fresh_session.execute("SET 'execution.runtime-mode' = 'batch'; SELECT * FROM counts")
    assert sorted((row.k, row.e.second, row.n) for row in rows[-1].rows) == [
        ("a", 10, 1), ("a", 40, 1), ("b", 10, 1), ("b", 20, 1),
    ]  # fmt: skip
