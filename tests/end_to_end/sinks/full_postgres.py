"""Write to a table on a full disk, then make room: `unshare -m python full_postgres.py`.

Prints the outcome as JSON. Neither the table nor its micro-batches need Spark.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator

import pyarrow as pa

from runtime.connectors.postgres.write import BatchWriter
from runtime.errors import SqlwinError
from runtime.spec.table import Column, TableColumn, TableSpec
from tests.end_to_end.recovery.full_disk import SmallDisk
from tests.postgres import rows, run, server

COLUMNS = (Column("id", "bigint"), Column("text", "string"))


def numbers(start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Yield rows of 100 bytes."""
    ids = pa.array(range(start, end), pa.int64())
    yield pa.record_batch({"id": ids, "text": pa.array(["x" * 80] * len(ids))})


def main() -> None:
    """Write a micro-batch, one on a full disk, and that one again."""
    with server() as database:
        # below a directory that the user of the server can reach
        disk = SmallDisk(database.directory / "disk", 64 << 20)
        space = database.directory / "disk/space"
        space.mkdir()
        if database.user is not None:
            os.chown(space, database.user, -1)
        database.run_alone(f"CREATE TABLESPACE small LOCATION '{space}'")
        run(database.url(), "CREATE TABLE t (id bigint PRIMARY KEY, text text) TABLESPACE small")
        options = (("url", database.url()), ("table-name", "t"))
        declared = tuple(TableColumn(c.name, c.type.upper()) for c in COLUMNS)
        spec = TableSpec("t", "postgres", declared, options, primary_key=("id",))
        writer = BatchWriter(spec, COLUMNS, "w")
        writer.write(numbers(0, 10), 0)
        disk.fill(1 << 20)
        result: dict[str, object] = {}
        try:
            writer.write(numbers(10, 200_010), 1)
        except SqlwinError as error:
            result["error"] = error.message
        (result["rows_when_full"],) = rows(database.url(), "SELECT COUNT(*) FROM t")[0]
        disk.clear()
        writer.write(numbers(10, 200_010), 1)
        (result["rows"],) = rows(database.url(), "SELECT COUNT(*) FROM t")[0]
        writer.close()
        print(json.dumps(result))
    subprocess.run(["umount", str(database.directory / "disk")], check=True)
    shutil.rmtree(database.directory)


if __name__ == "__main__":
    main()
