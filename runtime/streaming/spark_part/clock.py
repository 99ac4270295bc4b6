"""Add the clock to the sources in a checkpoint: an idle timeout is switched on at a restart.

Operators that wait for processing time read one more source, the clock
(`runtime.frames.heartbeat`). Spark numbers the sources of a query: an offsets file has a line for
each reading of a source, in the order of the plan, and `sources/K` is the log of source K. So a
checkpoint without a clock gets a copy of Spark's part with a line `-` for each reading of the
clock, Spark's mark of a source that has not been read, and with new numbers for the logs behind it.
State, offsets and the number of the micro-batch stay. A micro-batch that was interrupted runs again
without rows of the clock, as before.

If the idle timeout is switched off, the clock stays, and no operator waits for it.

Private API, seen in Spark 4.3: `analyzed().collectLeaves()` and the classes of its leaves that read
streams.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame

from runtime.errors import ExecutionError
from runtime.files import Files
from runtime.frames.heartbeat import is_clock
from runtime.streaming.checkpoint import Checkpoint, check_checkpoint, replace_checkpoint
from runtime.streaming.source_reads import stream_leaves
from runtime.streaming.spark_part.copy import copy_part, with_next_part

# Line of a source without an offset
_NO_OFFSET = "-"
_LOG = re.compile(r"sources/(\d+)/")
# Lines of an offsets file before the first source: version, settings
_N_HEAD = 2


@dataclass(frozen=True)
class SourceLayout:
    """Sources of a stream as Spark numbers them.

    Attributes:
        numbers: Number of the source that each leaf of the plan reads, in order. A source that is
            read again has the number of its first reading.
        is_clock: Whether each leaf is the clock.
    """

    numbers: tuple[int, ...]
    is_clock: tuple[bool, ...]

    @classmethod
    def of(cls, rows: DataFrame) -> SourceLayout:
        """Return the layout of a streaming DataFrame."""
        leaves: list[Any] = stream_leaves(rows)
        # equal leaves are one source to Spark; py4j compares them in the JVM
        firsts = [leaves.index(leaf) for leaf in leaves]
        in_order = sorted(set(firsts))
        return cls(tuple(map(in_order.index, firsts)), tuple(map(is_clock, leaves)))

    @property
    def moved(self) -> dict[int, int]:
        """Numbers of the sources without the clock, and with it."""
        pairs = zip(self.numbers, self.is_clock, strict=True)
        others = sorted({number for number, is_clock in pairs if not is_clock})
        return dict(enumerate(others))

    def with_clock(self, offsets: str) -> str | None:
        """Return an offsets file with the clock, or None if it does not have the other sources."""
        lines = offsets.splitlines()
        sources = iter(lines[_N_HEAD:])
        if len(lines) - _N_HEAD != self.is_clock.count(False):
            return None
        every = [_NO_OFFSET if is_clock else next(sources) for is_clock in self.is_clock]
        return "\n".join([*lines[:_N_HEAD], *every])


def add_clock(files: Files, before: Checkpoint, rows: DataFrame) -> Checkpoint:
    """Add the clock to a checkpoint whose stream has processed rows without it.

    Args:
        files: File system of the checkpoint.
        before: Checkpoint, which no other stream uses.
        rows: Streaming DataFrame of the stream, with the clock.

    Returns:
        The checkpoint with the clock, which is valid from here on.

    Raises:
        ExecutionError: The checkpoint has other sources, or is damaged.
    """
    layout = SourceLayout.of(rows)
    moved = layout.moved

    def edit(name: str, text: str) -> str:
        if not name.startswith("offsets/"):
            return text
        edited = layout.with_clock(text)
        if edited is None:
            raise ExecutionError(
                f"the idle timeout cannot be switched on in the checkpoint in {before.directory}: "
                f"{name} does not have the sources of the query",
                hint="RESET 'table.exec.source.idle-timeout' and 'sqlwin.watermark.idle-advance'",
            )
        return edited

    def rename(name: str) -> str:
        return _LOG.sub(lambda match: f"sources/{moved[int(match[1])]}/", name)

    after = replace(with_next_part(files, before), has_clock=True)
    try:
        copy_part(rows.sparkSession, files, before, after, edit, rename=rename)
        check_checkpoint(files, after)
    except BaseException:
        files.delete(after.spark_directory)
        raise
    replace_checkpoint(files, after)
    files.delete(before.spark_directory)
    return after
