"""Settings that Spark copies when a stream starts."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.spark.defaults import ARROW_BYTES, SMALL_ARROW_BYTES
from sqlwin.execution.streams.options import await_sources, stream_settings

PARTITIONS = "spark.sql.shuffle.partitions"
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


class Conf(dict[str, str]):
    def set(self, key: str, value: str) -> None:
        self[key] = value

    def unset(self, key: str) -> None:
        del self[key]


@pytest.mark.parametrize(("rows", "during"), [("10000", "100000"), ("500", "500")])
def test_batches_for_python_are_larger_unless_somebody_chose(rows: str, during: str) -> None:
    conf: Any = Conf({PARTITIONS: "200", ARROW_ROWS: rows})
    with stream_settings(conf, 4):
        settings_then = dict(conf)
    assert settings_then == {PARTITIONS: "4", ARROW_ROWS: during}
    assert conf == {PARTITIONS: "200", ARROW_ROWS: rows}


def test_batches_for_python_have_as_many_bytes_as_spark_would_give_them() -> None:
    conf: Any = Conf({PARTITIONS: "200", ARROW_ROWS: "500", ARROW_BYTES: SMALL_ARROW_BYTES})
    with stream_settings(conf, 4):
        settings_then = dict(conf)
    assert settings_then[ARROW_BYTES] == "64m"
    assert conf[ARROW_BYTES] == SMALL_ARROW_BYTES


def test_settings_are_restored_if_a_stream_does_not_start() -> None:
    conf: Any = Conf({PARTITIONS: "200", ARROW_ROWS: "10000"})
    with pytest.raises(ValueError, match="no"), stream_settings(conf, 4):
        raise ValueError("no")
    assert conf == {PARTITIONS: "200", ARROW_ROWS: "10000"}


@pytest.mark.parametrize(
    ("is_local", "chosen", "during"),
    [
        (True, {}, "FileSystemBasedCheckpointFileManager"),
        (True, {FILE_MANAGER: "mine"}, "mine"),
        (False, {}, ""),
    ],
)
def test_checkpoints_on_this_machine_are_written_without_other_processes(
    is_local: bool, chosen: dict[str, str], during: str
) -> None:
    before = {PARTITIONS: "200", ARROW_ROWS: "500", **chosen}
    conf: Any = Conf(before)
    with stream_settings(conf, 4, is_local=is_local):
        settings_then = dict(conf)
    assert settings_then.get(FILE_MANAGER, "").rpartition(".")[2] == during
    assert conf == before


class Query:
    """A stream that reports `n` times that it opens its sources."""

    def __init__(self, n_times: int, *, fails: bool = False) -> None:
        self.n_left = n_times
        self._fails = fails

    @property
    def isActive(self) -> bool:
        return not (self._fails and self.n_left < 3)

    @property
    def status(self) -> dict[str, str]:
        self.n_left -= 1
        is_done = self.n_left < 0
        return {"message": "Getting offsets from X" if is_done else "Initializing sources"}


def test_a_start_waits_until_spark_has_opened_the_sources_or_failed_to() -> None:
    opens: Any = Query(5)
    await_sources(opens)
    assert opens.n_left == -1
    fails: Any = Query(5, fails=True)
    await_sources(fails)
    assert fails.n_left == 2


def test_a_start_does_not_wait_for_ever() -> None:
    never: Any = Query(1_000_000)
    await_sources(never, at_most_s=0.02)
    assert 0 < never.n_left < 1_000_000
