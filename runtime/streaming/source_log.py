"""Read Spark's log of the files that a stream reads.

Spark lists the files of a micro-batch in a log of the source before it plans the micro-batch.
Layout of Spark's part of a checkpoint, checked with PySpark 4.3:

    offsets/N         of micro-batch N: a version, settings, then a line per source; the line of
                      a file source has the number of its log's last entry
    sources/K/M       entry M of source K: a version, then a line for each file
    sources/K/M.compact  all entries up to M
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from runtime.files import Files, numbers_in

# Log entry, or its Hadoop checksum file
_ENTRY = re.compile(r"\.?(\d+)(\.compact)?(?:\.crc)?")


class SourceLog:
    """Log of the sources of a stream. Each file of it is read once per run.

    Args:
        files: File system of the checkpoint.
        checkpoint: Spark's part of the checkpoint.
    """

    def __init__(self, files: Files, checkpoint: str) -> None:
        self._files = files
        self._checkpoint = checkpoint
        # cache of the last requested micro-batch: number, end of its sources, files
        self._batch: int | None = None
        self._offsets: dict[int, int] = {}
        self._listed: dict[str, int] = {}

    def planned_batches(self) -> frozenset[int]:
        """Return the numbers of the micro-batches that have a plan."""
        return frozenset(numbers_in(self._files, f"{self._checkpoint}/offsets"))

    def files_of_batch(self, batch: int) -> dict[str, int]:
        """Return the files that a planned micro-batch reads.

        Returns:
            Modification time of each URI as Spark listed it, in milliseconds since 1970.
        """
        if batch == self._batch:
            return self._listed
        before = self._offsets if batch - 1 == self._batch else self._offsets_of(batch - 1)
        now = self._offsets_of(batch)
        new = {source: (before.get(source, -1) + 1, last) for source, last in now.items()}
        logs = self._logs()
        if not new.keys() <= logs:
            # a table that is read twice has two offsets but one log, which shifts the numbers of
            # later logs
            every = (min(n for n, _ in new.values()), max(n for _, n in new.values()))
            new = dict.fromkeys(logs, every)
        files: dict[str, int] = {}
        for source, (first, last) in new.items():
            for number in range(first, last + 1):
                path = f"{self._checkpoint}/sources/{source}/{number}"
                if not self._files.exists(path):
                    path += ".compact"
                if not self._files.exists(path):
                    continue
                # a compact entry includes the entries before it
                files |= {
                    unquote(entry["path"]): entry["timestamp"]
                    for entry in self._entries(path)
                    if entry.get("batchId") == number
                }
        self._batch, self._offsets, self._listed = batch, now, files
        return files

    def files_so_far(self) -> set[str]:
        """Return the URIs of the files that all micro-batches so far have read."""
        files: set[str] = set()
        for source in self._logs():
            entries = self._entries_of(source)
            compact = max((n for n, is_compact in entries if is_compact), default=-1)
            for number, is_compact in entries:
                if number > compact or (number == compact and is_compact):
                    path = f"{self._checkpoint}/sources/{source}/{number}"
                    path += ".compact" if is_compact else ""
                    files.update(unquote(entry["path"]) for entry in self._entries(path))
        return files

    def unplanned_entries(self) -> list[str]:
        """Return the log entries of a killed run that no micro-batch was planned with.

        Spark would count them as read and add the next entry to the same micro-batch, which would
        exceed `maxFilesPerTrigger`. After their removal it lists the files again.
        """
        offsets = self._offsets_of(max(self.planned_batches(), default=-1))
        # the log of an offset is not always known, see `files_of_batch`; keep all planned entries
        last = max(offsets.values(), default=-1)
        paths = []
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
                paths += [f"{below}/{name}" for name, _ in later]
        return paths

    def _logs(self) -> set[int]:
        names = self._files.names_in(f"{self._checkpoint}/sources")
        return {int(name) for name in names if name.isdecimal()}

    def _entries_of(self, source: int) -> list[tuple[int, bool]]:
        """Return a log's entry numbers, and whether each includes the entries before it."""
        names = self._files.names_in(f"{self._checkpoint}/sources/{source}")
        shown = (_ENTRY.fullmatch(name) for name in names if not name.startswith("."))
        return sorted((int(match[1]), bool(match[2])) for match in shown if match)

    def _entries(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield the lines about files in a log entry."""
        for line in self._files.read_text(path).splitlines()[1:]:
            # other sources have logs of other kinds
            if line.startswith('{"path":'):
                yield json.loads(line)

    def _offsets_of(self, batch: int) -> dict[int, int]:
        """Return the end of each file source in a micro-batch, by number of the source."""
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
