"""Options of a new stream, from settings."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig
from pyspark.sql.streaming.query import StreamingQuery

from runtime.options.checks import monitor_interval_us
from runtime.outages import SETTING as RETRY_TIMEOUT
from runtime.outages import Retries
from runtime.spark.clusters import stream_partitions
from runtime.spark.defaults import ARROW_BYTES, SMALL_ARROW_BYTES
from runtime.spec.table import TableSpec
from runtime.streaming.operators.firing import FireRule
from runtime.streaming.options import StreamOptions
from runtime.temporary import new_directory
from sqlwin.catalog.entries import Registered
from sqlwin.config.config import Config

# Key groups per task. A task holds one key group's windows in memory at a time, but each key group
# costs milliseconds per micro-batch, even with few rows.
KEY_GROUPS_PER_PARTITION = 2

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
# Maximum rows in a batch that Spark sends to Python, besides the limit of 64 MB. Spark's default is
# too small for the cost per batch, so it is raised unless the user has set it.
_ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_SPARKS_ARROW_ROWS = "10000"
_OUR_ARROW_ROWS = "100000"
_SPARKS_ARROW_BYTES = "64m"
# By default Spark writes its offset log and state through Hadoop's FileContext. On a local disk
# this starts about thirty processes per micro-batch (readlink, chmod), more than the rest of a
# small micro-batch costs. FileSystem does not resolve links, but does not replace existing files
# either: no task may run twice, and what a killed run left of the state is removed first
# (`runtime.streaming.damage.uncommitted_state`).
_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_LOCAL_FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

# Spark's status message while it prepares a stream
_INITIALIZING = "Initializing"
# Maximum seconds to wait for a stream's sources. A source in Python takes longer, since it is a
# process, but does not depend on these settings.
_OPENED_SECONDS = 2.0
_POLL_SECONDS = 0.005


def stream_options(config: Config, partitions: int = 1) -> StreamOptions:
    """Return the options of a stream with the given parallelism."""
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
    """Return the options of a stream that would start now without a checkpoint."""
    chosen = config.get("sqlwin.exchange.partitions")
    if not chosen and config.is_set("parallelism.default"):
        chosen = str(spark.conf.get("spark.sql.shuffle.partitions"))
    return stream_options(config, int(chosen or stream_partitions(spark)))


def foreign_options(spark: SparkSession, config: Config) -> StreamOptions:
    """Return the options of a stream that the user starts through Spark."""
    # In that case Spark's own setting at the time of the start counts.
    partitions = int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    return replace(stream_options(config, partitions), fixes_partitions=False)


def trigger_us(config: Config, sources: Sequence[TableSpec | Registered]) -> int:
    """Return the time between micro-batches: the setting, or else the sources' listing interval."""
    if config.is_set("execution.checkpointing.interval"):
        return int(config.get("execution.checkpointing.interval"))
    intervals = [
        monitor_interval_us(spec) if isinstance(spec, TableSpec) else None for spec in sources
    ]
    polls = [interval for interval in intervals if interval is not None]
    if polls and len(polls) == len(intervals):
        return min(polls)
    return int(config.get("execution.checkpointing.interval"))


def stream_retries(config: Config) -> Retries:
    """Return how a new stream retries while a broker or a database is unavailable."""
    seconds = int(config.get(RETRY_TIMEOUT)) / 1_000_000
    return Retries(seconds, str(new_directory("outages")))


def _fire_rule(config: Config, kind: str) -> FireRule | None:
    rows = config.get(f"sqlwin.emit.{kind}.rows") or None
    if config.get(f"table.exec.emit.{kind}.enabled"):
        return FireRule(int(config.get(f"table.exec.emit.{kind}.delay")), rows)
    return None if rows is None else FireRule(rows=rows)


@contextmanager
def stream_settings(
    conf: RuntimeConfig, partitions: int, *, is_local: bool = False
) -> Iterator[None]:
    """Set Spark's session settings for a stream that is started in the block.

    Spark reads most of them at the start, but those for the log of a file source only when it opens
    the source a moment later; see `await_sources`.

    Args:
        conf: Settings of the session, restored at the end.
        partitions: Parallelism of the stream's state.
        is_local: Whether the checkpoint is on the local disk, where all tasks run.
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
    """Return whether Spark is still opening a stream's sources, which may start processes."""
    return query.isActive and str(query.status["message"]).startswith(_INITIALIZING)


def await_sources(query: StreamingQuery, at_most_s: float = _OPENED_SECONDS) -> None:
    """Wait until Spark has opened a stream's sources, for `at_most_s` seconds at most."""
    until = time.monotonic() + at_most_s
    while is_opening(query) and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
