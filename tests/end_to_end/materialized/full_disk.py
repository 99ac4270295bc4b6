"""A disk that is full while slices are written: `unshare -rm python full_disk.py DIRECTORY`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import sqlwin
from runtime.errors import SqlwinError
from runtime.materialized.store import open_slices
from tests.end_to_end.materialized.base import QUERY, TABLE, Base, stored_slices
from tests.end_to_end.materialized.killed import CONF


def main(directory: Path) -> None:
    """Refresh with room for nothing, then for a data file but no version, then for everything."""
    disk, base = directory / "disk", Base(directory / "in")
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)], check=True)
    base.write("day", 300)
    errors, are_as_before = [], []
    with sqlwin.connect(master="local[2]", conf=CONF) as session:
        session.execute(TABLE.format(base.root))
        session.execute(f"CREATE MATERIALIZED TABLE m WITH ('path' = '{disk / 'm'}') AS {QUERY}")
        before, files = base.slices(), open_slices(str(disk / "m")).files
        base.write("new", 300)
        n_bytes = sum(file.n_bytes for file in files)
        for room in (0, n_bytes + 4096, n_bytes + 12_288):
            fill(disk / "fill", room)
            try:
                session.execute("ALTER MATERIALIZED TABLE m REFRESH")
            except SqlwinError as error:
                errors.append(error.message)
                are_as_before.append(stored_slices(disk / "m") == before)
            (disk / "fill").unlink()
        session.execute("ALTER MATERIALIZED TABLE m REFRESH")
        named = {file.path for file in open_slices(str(disk / "m")).files}
        existing = {path.name for path in (disk / "m").glob("*.parquet")}
        result = {
            "errors": errors,
            "as before": are_as_before,
            "is whole": stored_slices(disk / "m") == base.slices(),
            "left": sorted(existing - named),
        }
    print(json.dumps(result))


def fill(path: Path, room: int) -> None:
    """Write a file that leaves `room` bytes of its disk free."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    os.truncate(path, max(0, path.stat().st_size - room))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
