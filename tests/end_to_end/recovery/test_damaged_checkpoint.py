"""Missing and damaged checkpoint files: one line with the file and the remedy."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sqlwin
from runtime.errors import SqlwinError
from tests.end_to_end.stream_files import write_keys
from tests.marks import among

Damage = Callable[[Path], None]
# Gives the rows
Run = Callable[[Path], list[tuple[object, ...]]]


def missing(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garbage(path: Path) -> None:
    path.write_bytes(b"\x80\xff garbage" * 9)


ALL = (missing, empty, truncate, garbage)
# Files of a checkpoint that are checked before Spark resumes it
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
def run(tmp_path_factory: pytest.TempPathFactory, session: sqlwin.Session) -> Iterator[Run]:
    """Provide a function that resumes a checkpoint, and a checkpoint of three micro-batches."""
    directory = tmp_path_factory.mktemp("damaged")
    for second in (1, 12, 14):
        write_keys(directory / "in", (second, "a"), (second, "b"))
    fresh = sqlwin.connect(session.spark)
    fresh.execute(
        f"""CREATE TABLE readings (ts TIMESTAMP(6), k STRING, WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'path' = '{directory}/in', 'format' = 'parquet',
              'max-files-per-trigger' = '1');
        SET 'execution.runtime-mode' = 'streaming';
        SET 'sqlwin.end-of-input' = 'hold-windows'"""
    )
    conf = "spark.sql.streaming.fileSource.log.compactInterval"
    fresh.spark.conf.set(conf, "2")

    def go_on(checkpoint: Path) -> list[tuple[object, ...]]:
        fresh.execute(
            f"""DROP TABLE IF EXISTS totals;
            CREATE TABLE totals (k STRING, n BIGINT) WITH ('connector' = 'memory');
            SET 'execution.checkpointing.dir' = '{checkpoint}';
            INSERT INTO totals SELECT k, COUNT(*)
            FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
            GROUP BY k, window_start, window_end"""
        )
        return sorted(tuple(row) for row in fresh.execute("SELECT * FROM totals")[0].rows)

    go_on(directory / "whole")
    write_keys(directory / "in", (30, "a"))
    go_on.whole = directory / "whole"  # type: ignore[attr-defined]
    yield go_on
    fresh.spark.conf.unset(conf)


@pytest.fixture
def checkpoint(run: Run, tmp_path: Path) -> Path:
    """Copy the whole checkpoint."""
    shutil.copytree(run.whole, tmp_path / "copy")  # type: ignore[attr-defined]
    return tmp_path / "copy"


def message(run: Run, checkpoint: Path) -> tuple[str, str]:
    """Return the message and the hint of a run that resumes a checkpoint."""
    with pytest.raises(SqlwinError) as caught:
        run(checkpoint)
    error = caught.value
    assert "\n" not in error.message
    assert "java." not in error.message
    assert "Exception" not in error.message
    return error.message, error.hint or ""


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("damage", among(ALL, slow=[missing, empty, garbage]))
@pytest.mark.parametrize("name", OF_LOGS)
def test_a_damaged_log_is_named(name: str, damage: Damage, run: Run, checkpoint: Path) -> None:
    path = checkpoint / "totals" / name
    damage(path)
    if name == "spark/commits/2" and damage is missing:
        # the micro-batch is computed again
        assert run(checkpoint) == [("a", 2), ("b", 2)]
        return
    if damage is missing:
        # then it is unknown whether the log was compacted there
        path = path.with_suffix("")
    text, hint = message(run, checkpoint)
    assert text.startswith(f"the checkpoint in {checkpoint}/totals is damaged: {path} ")
    assert hint == (
        "restore the directory from a backup, or start over with another 'execution.checkpointing.dir'"
    )


OF_STATE = [
    ("0/0/3.changelog", ALL),
    ("0/0/1.zip", (empty, garbage)),
    ("0/0/SSTs/*.sst", (missing, garbage)),
    ("0/_metadata/v2/*", (garbage,)),
]
CASES = [(pattern, each) for pattern, some in OF_STATE for each in some]


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("case", among(CASES, slow=CASES[1:]))
def test_damaged_state_is_named(case: tuple[str, Damage], run: Run, checkpoint: Path) -> None:
    pattern, damage = case
    result = sorted((checkpoint / "totals/spark/state").glob(pattern))
    damage(next(path for path in reversed(result) if not path.name.startswith(".")))
    text, hint = message(run, checkpoint)
    state = f"{checkpoint}/totals/spark/state"
    assert text.startswith(f"the checkpoint in {checkpoint}/totals is damaged: {state}")
    assert hint.startswith("restore the directory from a backup")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("damage", [missing, garbage])
def test_spark_can_do_without_the_schema_of_its_state(
    damage: Damage, run: Run, checkpoint: Path
) -> None:
    (path,) = (checkpoint / "totals/spark/state/0/_stateSchema/default").glob("[0-9]*")
    damage(path)
    assert run(checkpoint) == [("a", 2), ("b", 2)]


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("name", among(["spark/state", "spark"], slow=["spark/state"]))
def test_state_of_another_checkpoint_is_refused(
    name: str, run: Run, checkpoint: Path, tmp_path: Path
) -> None:
    # of the same query, so that only the ids differ
    run(tmp_path / "other")
    into = checkpoint / "totals" / name
    shutil.rmtree(into)
    shutil.copytree(tmp_path / "other/totals" / name, into)
    text, hint = message(run, checkpoint)
    assert (
        text
        == f"the checkpoint in {checkpoint}/totals is damaged: {into} belongs to another checkpoint"
    )
    assert hint.startswith("restore the directory from a backup")
