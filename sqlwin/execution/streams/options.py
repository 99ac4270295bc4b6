"""What settings say of a stream that is started now."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig
from pyspark.sql.streaming.query import StreamingQuery

from runtime.connectors.filesystem.stream import monitor_interval_us
from runtime.spark.clusters import stream_partitions
from runtime.spark.defaults import ARROW_BYTES, SMALL_ARROW_BYTES
from runtime.spec.table import TableSpec
from runtime.streaming.operators.updates import FireRule
from runtime.streaming.options import StreamOptions
from sqlwin.catalog.entries import Registered
from sqlwin.config.config import Config

# Groups of keys for each task. The windows of one are in memory at a time; but each takes some
# milliseconds of every micro-batch, however few rows it has.
KEY_GROUPS_PER_PARTITION = 2

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
# Spark sends rows to Python in batches of so many at most, or of 64 MB. Those that it takes by
# itself are small for what is done with each, so they are larger here unless they are set.
_ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_SPARKS_ARROW_ROWS = "10000"
_OUR_ARROW_ROWS = "100000"
_SPARKS_ARROW_BYTES = "64m"
# By itself Spark writes its log of offsets and its state through Hadoop's FileContext. On a disk of
# this machine that starts a process (readlink, chmod) some thirty times a micro-batch, which is
# more than the rest of a small one takes. FileSystem does not ask for links; but where there is a
# file already it leaves that: no task may run twice, and what a run that was killed has left of
# the state is removed before (`runtime.streaming.damage.uncommitted_state`).
_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_LOCAL_FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

# What Spark says of a stream before it looks for its first rows
_INITIALIZING = "Initializing"
# For so long a start waits for the sources of its stream; a source in Python is a process that
# takes longer, and goes by none of these settings
_OPENED_SECONDS = 2.0
_POLL_SECONDS = 0.005


def stream_options(config: Config, partitions: int = 1) -> StreamOptions:
    """The options of a stream of this parallelism."""
    get = config.get
    return StreamOptions(
        key_groups=int(get("sqlwin.state.key-groups") or partitions * KEY_GROUPS_PER_PARTITION),
        partitions=partitions,
        idle_timeout_us=get("table.exec.source.idle-timeout") or None,
        watermark_policy=str(get("sqlwin.watermark.policy")),
        max_jump_us=get("sqlwin.watermark.max-jump") or None,
        bucket_bytes=int(get("sqlwin.state.bucket-bytes")),
        allowed_lateness_us=int(get("table.exec.emit.allow-lateness")),
        early_fire=_fire_rule(config, "early-fire"),
        late_fire=_fire_rule(config, "late-fire"),
    )


def planned_options(spark: SparkSession, config: Config) -> StreamOptions:
    """The options of a stream that sqlwin would start now, without a checkpoint."""
    chosen = config.get("sqlwin.exchange.partitions")
    if not chosen and config.is_set("parallelism.default"):
        chosen = str(spark.conf.get("spark.sql.shuffle.partitions"))
    return stream_options(config, int(chosen or stream_partitions(spark)))


def foreign_options(spark: SparkSession, config: Config) -> StreamOptions:
    """The options of a stream that is started now, for whoever starts it without sqlwin."""
    # then Spark goes by its own setting, as it is at that time
    partitions = int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    return replace(stream_options(config, partitions), fixes_partitions=False)


def trigger_us(config: Config, sources: Sequence[TableSpec | Registered]) -> int:
    """Time between micro-batches: what is set, else how often directories are looked at."""
    if config.is_set("execution.checkpointing.interval"):
        return int(config.get("execution.checkpointing.interval"))
    intervals = [
        monitor_interval_us(spec) if isinstance(spec, TableSpec) else None for spec in sources
    ]
    known = [interval for interval in intervals if interval is not None]
    if known and len(known) == len(intervals):
        return min(known)
    return int(config.get("execution.checkpointing.interval"))


def _fire_rule(config: Config, kind: str) -> FireRule | None:
    rows = config.get(f"sqlwin.emit.{kind}.rows") or None
    if config.get(f"table.exec.emit.{kind}.enabled"):
        return FireRule(int(config.get(f"table.exec.emit.{kind}.delay")), rows)
    return None if rows is None else FireRule(rows=rows)


@contextmanager
def stream_settings(
    conf: RuntimeConfig, partitions: int, *, is_local: bool = False
) -> Iterator[None]:
    """The settings that Spark takes over from its session when a stream is started in the block.

    Spark takes most of them at the start, and those by which a source of files writes its log when
    it opens the source, a moment later; see `await_sources`.

    Args:
        conf: the session's settings, which are afterwards as they were.
        partitions: the parallelism of the stream's state.
        is_local: whether the checkpoint is on a disk of this machine, where all tasks run.
    """
    chosen = {_SHUFFLE_PARTITIONS: str(partitions)}
    if conf.get(_ARROW_ROWS) == _SPARKS_ARROW_ROWS:
        chosen[_ARROW_ROWS] = _OUR_ARROW_ROWS
    if is_local and conf.get(_FILE_MANAGER, None) is None:
        chosen[_FILE_MANAGER] = _LOCAL_FILE_MANAGER
    if conf.get(ARROW_BYTES, "") == SMALL_ARROW_BYTES:
        chosen[ARROW_BYTES] = _SPARKS_ARROW_BYTES
    before = {key: conf.get(key, None) for key in chosen}
    try:
        for key, value in chosen.items():
            conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                conf.unset(key)
            else:
                conf.set(key, old)


def is_opening(query: StreamingQuery) -> bool:
    """Whether Spark still opens a stream's sources, for which it may start processes."""
    return query.isActive and str(query.status["message"]).startswith(_INITIALIZING)


def await_sources(query: StreamingQuery, at_most_s: float = _OPENED_SECONDS) -> None:
    """Wait until Spark has opened a stream's sources, for some time at most."""
    until = time.monotonic() + at_most_s
    while is_opening(query) and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
