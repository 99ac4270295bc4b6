"""Statements whose disk is full, and then has room: `unshare -rm python full_disk.py DIRECTORY`.

Mounts small file systems, runs each statement on a full one, makes room, runs it again, and prints
the outcomes as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import sqlwin
from runtime.errors import SqlwinError
from tests.end_to_end.recovery.killed_stream import CONF
from tests.observing import files_below

N_ROWS = 60_000
PARQUET = "'connector' = 'filesystem', 'format' = 'parquet'"
WINDOWS = """
    SELECT id % 2000, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE n, DESCRIPTOR(at), INTERVAL '2' HOURS))
    GROUP BY id % 2000, window_start, window_end
"""


class SmallDisk:
    """A file system of `n_bytes` bytes.

    Args:
        directory: Mount point.
        n_bytes: Size in bytes.
    """

    def __init__(self, directory: Path, n_bytes: int) -> None:
        directory.mkdir()
        options = f"size={n_bytes}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(directory)], check=True)
        self._filler = directory / "filler"

    def fill(self, leave: int) -> None:
        """Fill the disk, leaving `leave` bytes."""
        actual = os.statvfs(self._filler.parent)
        self._filler.write_bytes(b"-" * (actual.f_bavail * actual.f_frsize - leave))

    def clear(self) -> None:
        """Make room."""
        self._filler.unlink()


def n_visible_files(directory: Path) -> int:
    """Return the number of data files that readers see below a directory."""
    actual = (path.relative_to(directory) for path in files_below(directory, "part-*.parquet"))
    return sum(not any(p.startswith((".", "_")) for p in path.parts) for path in actual)


def main(directory: Path) -> None:
    """Run the statements."""
    table_disk = SmallDisk(directory / "tables", 100 << 20)
    checkpoint_disk = SmallDisk(directory / "checkpoints", 100 << 20)
    spill_disk = SmallDisk(directory / "spill", 200 << 20)
    conf = {**CONF, "spark.local.dir": f"{directory}/spill"}
    actual: dict[str, dict[str, object]] = {}
    with sqlwin.connect(master="local[2]", conf=conf) as session:
        session.execute(f"""
            CREATE TABLE i (id BIGINT, v STRING) WITH ('connector' = 'datagen', 'seed' = '1',
              'number-of-rows' = '{N_ROWS}', 'rows-per-batch' = '15000', 'fields.v.length' = '100');
            CREATE TABLE n (id BIGINT, at AS TIMESTAMPADD(SECOND, CAST(id AS INT),
              TIMESTAMP '2024-01-01 00:00:00'), WATERMARK FOR at AS at) WITH (
              'connector' = 'datagen', 'number-of-rows' = '{N_ROWS}', 'rows-per-batch' = '15000',
              'fields.id.kind' = 'sequence', 'fields.id.start' = '0',
              'fields.id.end' = '{N_ROWS - 1}')
        """)

        def case(
            name: str, disk: SmallDisk, leave: int, query: str = "SELECT id, v FROM i"
        ) -> None:
            path = directory / "tables" / name
            compacts = ", 'auto-compaction' = 'true'" if name == "compacted" else ""
            columns = (
                "k BIGINT, e TIMESTAMP(3), n BIGINT" if query == WINDOWS else "id BIGINT, v STRING"
            )
            session.execute(
                f"CREATE TABLE {name} ({columns}) WITH ({PARQUET}, 'path' = '{path}'{compacts})"
            )
            insert = f"INSERT INTO {name} {query}"
            if name == "overwritten":
                session.execute(f"INSERT INTO {name} VALUES (1, 'a')")
                insert = f"INSERT OVERWRITE {name} {query}"
            is_stream = name in ("streamed", "compacted", "checkpointed")
            on = "checkpoints" if name == "checkpointed" else "elsewhere"
            session.execute(f"SET 'execution.checkpointing.dir' = '{directory}/{on}'")
            session.execute(
                f"SET 'execution.runtime-mode' = '{'streaming' if is_stream else 'batch'}'"
            )
            disk.fill(leave)
            try:
                (result,) = session.execute(insert)
                error = result.message
            except SqlwinError as failure:
                error = failure.message
            n_shown = n_visible_files(path)
            disk.clear()
            session.execute(insert)
            session.execute("SET 'execution.runtime-mode' = 'batch'")
            total = "SUM(n)" if query == WINDOWS else "COUNT(*)"
            (row,) = session.sql(f"SELECT {total} AS n FROM {name}").collect()
            hidden = [p.name for p in path.parent.rglob(".*") if p.is_dir()]
            actual[name] = {"error": error, "shown": n_shown, "rows": row.n, "hidden": hidden}

        case("inserted", table_disk, 1 << 20)
        case("overwritten", table_disk, 1 << 20)
        case("streamed", table_disk, 4 << 20)
        case("compacted", table_disk, 4 << 20)
        case("checkpointed", checkpoint_disk, 200 << 10, WINDOWS)
        case("spilled", spill_disk, 1 << 20, "SELECT id, v FROM i ORDER BY v")
    print(json.dumps(actual))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
