"""When the input of a stream is used up, by what Spark reports of its micro-batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from runtime.streaming.heartbeat import is_heartbeat
from runtime.streaming.status import has_seen_end


class InputWatch:
    """Asks of a stream, again and again, whether its input is used up.

    Of each report that Spark keeps, the last hundred by itself, Python fetches the whole text in
    calls of its own. So they are fetched when there is one that may say it, and not each time.

    Args:
        query: the stream.
        n_operators: of how many window operators the end of the input, which was sent, has to have
            closed the windows; None: none was sent.
    """

    def __init__(self, query: StreamingQuery, n_operators: int | None = None) -> None:
        self._query = query
        self._n_operators = n_operators
        self._since = report_key(query.lastProgress)
        self._seen: tuple[int, str] | None = None

    def is_used_up(self) -> bool:
        """Whether micro-batches since it was made have read, or closed, all that there was."""
        last = self._query.lastProgress
        if last is None or report_key(last) == self._seen:
            return False
        self._seen = report_key(last)
        if self._n_operators is not None:
            return has_seen_end(self._query.recentProgress, self._n_operators)
        return not _has_read(last) and has_used_up(self._query.recentProgress, self._since)


def has_used_up(progress: Sequence[Mapping[str, Any]], since: object) -> bool:
    """Whether the micro-batches after `since` have read all that there was.

    Of a run that has just begun the first one may be that of an earlier run, computed again; so
    it takes a second one that reads nothing.
    """
    batches = [report_key(each) for each in progress]
    new = progress[batches.index(since) + 1 :] if since in batches else progress
    return len(new) > 1 and not _has_read(new[-1])


def report_key(progress: Mapping[str, Any] | None) -> tuple[int, str] | None:
    """What tells a report of a micro-batch from those of others."""
    return None if progress is None else (progress["batchId"], progress["timestamp"])


def _has_read(progress: Mapping[str, Any]) -> bool:
    """Whether a micro-batch has read something."""
    sources = (each for each in progress["sources"] if not is_heartbeat(each))
    return any(each["startOffset"] != each["endOffset"] for each in sources)
