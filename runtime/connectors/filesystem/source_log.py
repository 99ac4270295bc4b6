"""What Spark's sources of files have written down of the files that a stream reads.

Spark names the files of a micro-batch in a log of the source, and then plans the micro-batch. As
PySpark 4.3 was seen to write it, in its part of a checkpoint:

    offsets/N         of micro-batch N: a version, settings, then a line for each source, of which
                      that of a source of files has the number of its log's last entry
    sources/K/M       entry M of source K: a version, then a line for each file
    sources/K/M.compact  all entries up to M
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from runtime.files import Files

# An entry, or Hadoop's sum of its bytes
_ENTRY = re.compile(r"\.?(\d+)(\.compact)?(?:\.crc)?")


class SourceLog:
    """The log of the sources of a stream, of which each file is read once a run.

    Args:
        files: the file system of the checkpoint.
        checkpoint: Spark's part of it.
    """

    def __init__(self, files: Files, checkpoint: str) -> None:
        self._files = files
        self._checkpoint = checkpoint
        # the last micro-batch that was asked for, where its sources end, and its files
        self._batch: int | None = None
        self._offsets: dict[int, int] = {}
        self._listed: dict[str, int] = {}

    def planned(self) -> frozenset[int]:
        """The numbers of the micro-batches whose plans are there."""
        names = self._files.names_in(f"{self._checkpoint}/offsets")
        return frozenset(int(name) for name in names if name.isdecimal())

    def listed_in(self, batch: int) -> dict[str, int]:
        """The files that a micro-batch reads, which is planned.

        Returns:
            For the URI of each when it had last been written to as Spark listed it, in milliseconds
            since 1970.
        """
        if batch == self._batch:
            return self._listed
        before = self._offsets if batch - 1 == self._batch else self._offsets_of(batch - 1)
        now = self._offsets_of(batch)
        new = {source: (before.get(source, -1) + 1, last) for source, last in now.items()}
        logs = self._logs()
        if not new.keys() <= logs:
            # a table that is read twice has two offsets and one log, and those behind it other
            # numbers
            every = (min(n for n, _ in new.values()), max(n for _, n in new.values()))
            new = dict.fromkeys(logs, every)
        found: dict[str, int] = {}
        for source, (first, last) in new.items():
            for number in range(first, last + 1):
                path = f"{self._checkpoint}/sources/{source}/{number}"
                if not self._files.exists(path):
                    path += ".compact"
                if not self._files.exists(path):
                    continue
                # a compact one has those before it too
                found |= {
                    unquote(entry["path"]): entry["timestamp"]
                    for entry in self._entries(path)
                    if entry.get("batchId") == number
                }
        self._batch, self._offsets, self._listed = batch, now, found
        return found

    def listed_until_now(self) -> set[str]:
        """The files that all micro-batches so far read, by URI."""
        found: set[str] = set()
        for source in self._logs():
            entries = self._entries_of(source)
            compact = max((n for n, is_compact in entries if is_compact), default=-1)
            for number, is_compact in entries:
                if number > compact or (number == compact and is_compact):
                    path = f"{self._checkpoint}/sources/{source}/{number}"
                    path += ".compact" if is_compact else ""
                    found.update(unquote(entry["path"]) for entry in self._entries(path))
        return found

    def unplanned(self) -> list[str]:
        """The entries that no micro-batch has been planned with, of a run that was killed then.

        Spark takes them for read, and adds the next entry to the same micro-batch, which then has
        more files than `maxFilesPerTrigger` says. Without them it lists their files anew.
        """
        offsets = self._offsets_of(max(self.planned(), default=-1))
        # which log an offset is of is not always known, see `listed_in`: none may be missing that
        # is planned
        last = max(offsets.values(), default=-1)
        found = []
        for source in self._logs():
            below = f"{self._checkpoint}/sources/{source}"
            if not any(number > last for number, _ in self._entries_of(source)):
                continue
            later = [
                (name, match)
                for name in self._files.names_in(below)
                if (match := _ENTRY.fullmatch(name)) and int(match[1]) > last
            ]
            # sources of other kinds have other files there
            shown = [f"{below}/{name}" for name, _ in later if not name.startswith(".")]
            if all(any(self._entries(path)) for path in shown):
                found += [f"{below}/{name}" for name, _ in later]
        return found

    def _logs(self) -> set[int]:
        names = self._files.names_in(f"{self._checkpoint}/sources")
        return {int(name) for name in names if name.isdecimal()}

    def _entries_of(self, source: int) -> list[tuple[int, bool]]:
        """The entries of a log: their numbers, and whether each has those before it too."""
        names = self._files.names_in(f"{self._checkpoint}/sources/{source}")
        shown = (_ENTRY.fullmatch(name) for name in names if not name.startswith("."))
        return sorted((int(match[1]), bool(match[2])) for match in shown if match)

    def _entries(self, path: str) -> Iterator[dict[str, Any]]:
        """What a file of the log of a source of files says of each of them."""
        for line in self._files.read_text(path).splitlines()[1:]:
            # other sources have logs of other kinds
            if line.startswith('{"path":'):
                yield json.loads(line)

    def _offsets_of(self, batch: int) -> dict[int, int]:
        """Where each source of files ends in a micro-batch, by the number of the source."""
        path = f"{self._checkpoint}/offsets/{batch}"
        if batch < 0 or not self._files.exists(path):
            return {}
        offsets = {}
        for source, line in enumerate(self._files.read_text(path).splitlines()[2:]):
            offset = json.loads(line) if line.startswith("{") else None
            last = offset.get("logOffset") if isinstance(offset, dict) else None
            if isinstance(last, int):
                offsets[source] = last
        return offsets
