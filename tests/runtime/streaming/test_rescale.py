"""A rescaled checkpoint resumes, and stays as it was until rescaling is complete."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.checkpoint_lock import hold_for_stream
from runtime.errors import ExecutionError, SetupError
from runtime.files import LocalFiles
from runtime.streaming.checkpoint import (
    Checkpoint,
    check_checkpoint,
    find_checkpoint,
    mark_ended,
    open_checkpoint,
    replace_checkpoint,
)
from runtime.streaming.identity import Identity
from runtime.streaming.members import mark_members
from runtime.streaming.rescale import _blob, _map_key, _row, _spark_key, rescale, split_for

FILES = LocalFiles()
QUERY = Identity("Scan(t)", {}, {})


def open_new(directory: Path) -> Checkpoint:
    return open_checkpoint(FILES, str(directory), QUERY, 4, 2)


def rescale_to(checkpoint: Checkpoint, partitions: int = 8) -> None:
    nothing_of_spark: Any = None
    rescale(nothing_of_spark, FILES, checkpoint, partitions, 2)


def test_rows_of_state_are_as_spark_writes_them() -> None:
    # seen in Spark 4.3
    key = bytes.fromhex(
        "00000000000000001000000018000000180000002800000000000000000000000200000000000000"
        "000000000000000005000000100000006661637473000000"
    )
    assert _spark_key(2, "facts") == key
    assert _map_key(key, 2) == "facts"
    value = _row(b"\x02{}")
    assert value == bytes.fromhex("00000000000000000300000010000000027b7d0000000000")
    assert _blob(value) == b"\x02{}"
    with pytest.raises(ExecutionError, match="an unknown format"):
        _map_key(key[:-8] + bytes(16), 2)
    with pytest.raises(ExecutionError, match="an unknown format"):
        _blob(value + bytes(8))


def test_state_that_others_can_write_is_not_rescaled(tmp_path: Path) -> None:
    checkpoint = open_new(tmp_path / "ck")
    (tmp_path / "ck").chmod(0o770)
    with pytest.raises(SetupError, match="others can write it"):
        rescale_to(checkpoint)


@pytest.mark.parametrize(
    ("partitions", "into"), [(1, 1), (2, 1), (3, 2), (4, 2), (8, 4), (128, 64)]
)
def test_each_task_gets_two_key_groups(partitions: int, into: int) -> None:
    assert split_for(Checkpoint("/ck/t", 4, 2, "w", "id"), partitions, 2).into == into


def test_tasks_are_not_without_bound() -> None:
    with pytest.raises(ExecutionError, match="to 40000 tasks; its maximum is 32768"):
        split_for(Checkpoint("/ck/t", 4, 2, "w", "id"), 40_000, 2)


def test_impossible_rescaling_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match="does not exist"):
        find_checkpoint(FILES, str(tmp_path / "nowhere"))
    checkpoint = open_new(tmp_path / "t")
    with pytest.raises(ExecutionError, match="already has 2 tasks"):
        rescale_to(checkpoint, 2)
    with pytest.raises(ExecutionError, match="has not processed any rows"):
        rescale_to(checkpoint)
    with (
        ExitStack() as stream,
        pytest.raises(
            ExecutionError, match=r"a stream of process \d+ on host .* is running on the"
        ),
    ):
        hold_for_stream(stream, checkpoint.directory)
        rescale_to(checkpoint)
    mark_ended(FILES, checkpoint, QUERY)
    with pytest.raises(ExecutionError, match=r"the input of the checkpoint in .* has ended"):
        rescale_to(find_checkpoint(FILES, checkpoint.directory)[0])
    mark_members(FILES, checkpoint.directory, [f"{tmp_path}/part"])
    with pytest.raises(
        ExecutionError, match=r"INSERT in .*/part is part of the checkpoint in .*/t"
    ):
        find_checkpoint(FILES, str(tmp_path / "part"))
    about = tmp_path / "t/sqlwin.json"
    about.write_text(about.read_text().replace('"version": 4', '"version": 7'))
    with pytest.raises(ExecutionError, match="has format 7, but this sqlwin reads format 4"):
        find_checkpoint(FILES, checkpoint.directory)
    about.write_text("{")
    with pytest.raises(ExecutionError, match="cannot read"):
        find_checkpoint(FILES, checkpoint.directory)


def test_damaged_checkpoints_are_not_rescaled(tmp_path: Path) -> None:
    checkpoint = open_new(tmp_path / "t")
    for name in ("offsets/0", "commits/0"):
        path = Path(checkpoint.spark_directory, name)
        path.parent.mkdir()
        path.write_text('v1\n{"conf":{}}\n-')
    assert check_checkpoint(FILES, checkpoint) == 0
    with pytest.raises(ExecutionError, match="offsets/0 has no number of tasks"):
        rescale_to(checkpoint)
    assert sorted(path.name for path in tmp_path.glob("t/*")) == [
        "end-of-input",
        "spark",
        "sqlwin.json",
    ]
    Path(checkpoint.spark_directory, "metadata").unlink()
    with pytest.raises(ExecutionError, match="metadata is missing"):
        rescale_to(checkpoint)


def test_a_checkpoint_resumes_with_the_rescaled_state(tmp_path: Path) -> None:
    checkpoint = open_new(tmp_path / "t")
    Path(checkpoint.spark_directory).rename(tmp_path / "t/spark-2")
    new = replace(checkpoint, key_groups=16, partitions=8, spark_name="spark-2")
    replace_checkpoint(FILES, new)
    assert open_new(tmp_path / "t") == new
    assert find_checkpoint(FILES, new.directory)[0] == new
    assert new.spark_location.endswith("/t/spark-2")
