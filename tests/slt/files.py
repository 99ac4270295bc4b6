"""Files of `file` records."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

from tests.slt.script import Record


def write_file(record: Record, directory: Path) -> None:
    """Write the lines of a record into its file, compressed if its name ends in `.gz`."""
    name, *words = record.words.split()
    options = dict(word.split("=") for word in words)
    # a backslash alone is an empty line, `\\r` at the end of a line a carriage return
    text = re.sub(r"^\\$", "", record.sql, flags=re.M)
    text = re.sub(r"\\r$", "\r", text, flags=re.M) + "\n"
    data = text.encode(options.get("encoding", "utf-8"))
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
