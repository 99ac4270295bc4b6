"""Parts of files by bytes, as splits of tasks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from runtime.spec.scan import ScanFile

# Minimum bytes per task, to be worth its startup.
MIN_BYTES = 4 << 20
# Maximum bytes per task: larger tasks are slow to retry and delay the stage.
SPLIT_BYTES = 128 << 20


@dataclass(frozen=True)
class FileRange:
    """Row groups of a file whose middle is within a byte range, or lines that start in it.

    Tasks can therefore read parts of a file without coordination and before the file is opened.
    """

    file: ScanFile
    start: int
    stop: int

    def text(self) -> str:
        """Encode the range as the text of a split; `of` decodes it."""
        file = self.file
        return json.dumps([file.path, file.n_bytes, file.modified_ns, self.start, self.stop])

    @classmethod
    def of(cls, text: str) -> FileRange:
        """Decode a range that `text` encoded."""
        path, n_bytes, modified_ns, start, stop = json.loads(text)
        return cls(ScanFile(path, (), (), n_bytes, modified_ns), start, stop)


def file_ranges(
    files: Sequence[ScanFile], n_splits: int, split_bytes: int = SPLIT_BYTES
) -> list[list[FileRange]]:
    """Cut files into splits of similar size.

    Args:
        files: Files with their sizes.
        n_splits: Minimum number of splits, if there is enough data.
        split_bytes: Maximum bytes per split.
    """
    total = sum(file.n_bytes for file in files)
    count = max(min(n_splits, total // MIN_BYTES), -(-total // split_bytes), 1)
    most = max(1, -(-total // count))
    splits: list[list[FileRange]] = [[]]
    left = most
    for file in files:
        start = 0
        while start < file.n_bytes:
            if not left:
                splits.append([])
                left = most
            stop = min(file.n_bytes, start + left)
            splits[-1].append(FileRange(file, start, stop))
            left -= stop - start
            start = stop
    return [split for split in splits if split]
