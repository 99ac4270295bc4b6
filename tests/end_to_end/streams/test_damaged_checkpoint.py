"""A checkpoint with files that are missing or damaged: one line with the file and what to do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sqlwin
from runtime.errors import SqlwinError
from tests.end_to_end.streams.test_stream_settings import write

Damage = Callable[[Path], None]


def missing(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garbage(path: Path) -> None:
    path.write_bytes(b"\x80\xff garbage" * 9)


ALL = (missing, empty, cut, garbage)
# By the file in the checkpoint, the kinds of damage that nothing but Spark sees
OF_LOGS = [
    "spark/metadata",
    "spark/offsets/1",
    "spark/offsets/2",
    "spark/commits/1",
    "spark/commits/2",
    "spark/sources/0/1.compact",
    "spark/sources/0/2",
]


@pytest.fixture(scope="module")
def run(
    tmp_path_factory: pytest.TempPathFactory, session: sqlwin.Session
) -> Iterator[Callable[[Path], None]]:
    """Runs a stream from a checkpoint's directory on; one of three micro-batches is there."""
    directory = tmp_path_factory.mktemp("damaged")
    for second in (1, 12, 14):
        write(directory / "in", (second, "a"), (second, "b"))
    fresh = sqlwin.Session(session.spark)
    fresh.execute(
        f"""CREATE TABLE readings (ts TIMESTAMP(6), k STRING, WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'path' = '{directory}/in', 'format' = 'parquet',
              'max-files-per-trigger' = '1');
        CREATE TABLE totals (k STRING, n BIGINT) WITH ('connector' = 'memory');
        SET 'execution.runtime-mode' = 'streaming';
        SET 'sqlwin.end-of-input' = 'hold-windows'"""
    )
    conf = "spark.sql.streaming.fileSource.log.compactInterval"
    fresh.spark.conf.set(conf, "2")

    def go_on(checkpoint: Path) -> None:
        fresh.execute(
            f"""SET 'execution.checkpointing.dir' = '{checkpoint}';
            INSERT INTO totals SELECT k, COUNT(*)
            FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
            GROUP BY k, window_start, window_end"""
        )

    go_on(directory / "whole")
    go_on.whole = directory / "whole"  # type: ignore[attr-defined]
    yield go_on
    fresh.spark.conf.unset(conf)


@pytest.fixture
def checkpoint(run: Callable[[Path], None], tmp_path: Path) -> Path:
    """A copy of the whole checkpoint."""
    shutil.copytree(run.whole, tmp_path / "copy")  # type: ignore[attr-defined]
    return tmp_path / "copy"


def message(run: Callable[[Path], None], checkpoint: Path) -> tuple[str, str]:
    """What a run from a checkpoint on says, and the hint."""
    with pytest.raises(SqlwinError) as caught:
        run(checkpoint)
    error = caught.value
    print("MESSAGE", type(error).__name__, error.message, "|", error.hint)
    assert "\n" not in error.message
    assert "java" not in error.message
    assert "Exception" not in error.message
    return error.message, error.hint or ""


@pytest.mark.spark
@pytest.mark.parametrize("damage", ALL)
@pytest.mark.parametrize("name", OF_LOGS)
def test_a_damaged_log_is_named(
    name: str, damage: Damage, run: Callable[[Path], None], checkpoint: Path
) -> None:
    path = checkpoint / "totals" / name
    damage(path)
    if name == "spark/commits/2" and damage is missing:
        # the micro-batch is computed again
        return run(checkpoint)
    said, hint = message(run, checkpoint)
    assert said.startswith(f"the checkpoint in {checkpoint}/totals is damaged: {path} ")
    assert hint == (
        "restore the directory from a copy, or start anew in another 'execution.checkpointing.dir'"
    )


@pytest.mark.spark
@pytest.mark.parametrize("damage", ALL)
@pytest.mark.parametrize(
    "pattern",
    [
        "0/0/1.zip",
        "0/0/*.changelog",
        "0/0/SSTs/*.sst",
        "0/_metadata/v2/*",
        "0/_stateSchema/default/*",
    ],
)
def test_damaged_state_is_named(
    pattern: str, damage: Damage, run: Callable[[Path], None], checkpoint: Path
) -> None:
    state = checkpoint / "totals/spark/state"
    found = [path for path in sorted(state.glob(pattern)) if not path.name.startswith(".")]
    print(sorted(os.path.relpath(p, state) for p in state.rglob("*")))
    damage(found[-1])
    message(run, checkpoint)
