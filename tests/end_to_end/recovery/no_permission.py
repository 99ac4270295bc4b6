"""Statements without permission to read or write: `python no_permission.py DIRECTORY`.

Prints the error of each as JSON. Run it as an ordinary user, or as root without capabilities.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import sqlwin
from runtime.errors import SqlwinError
from tests.end_to_end.recovery.killed_stream import CONF
from tests.end_to_end.sources.test_file_systems import COUNTS, OUT, PARQUET, write_minutes

BY_SPARK = "push_local_aggregate_into_scan"


def main(directory: Path) -> None:
    """Run the statements."""
    for name in ("in", "closed", "out", "full", "ck"):
        (directory / name).mkdir()
    write_minutes(directory / "in" / "a.parquet", 0)
    write_minutes(directory / "in" / "b.parquet", 1)
    result: dict[str, str] = {}
    with sqlwin.connect(master="local[2]", conf=CONF) as session:
        for table, path in (("i", "in"), ("closed", "closed")):
            session.execute(f"""
                CREATE TABLE {table} (k BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
                WITH ({PARQUET}, 'path' = '{directory}/{path}')""")
        for table, path in (("o", "out"), ("below", "out/new"), ("kept", "full"), ("ok", "ok")):
            session.execute(OUT.format(table, PARQUET, f"{directory}/{path}"))
        session.execute(f"INSERT INTO kept {COUNTS}")

        def run(name: str, statement: str) -> None:
            try:
                session.execute(statement)
                result[name] = "no error"
            except SqlwinError as error:
                result[name] = error.message

        for name in ("out", "full", "ck"):
            (directory / name).chmod(0o500)
        (directory / "closed").chmod(0)
        for mode in ("batch", "streaming"):
            session.execute(f"SET 'execution.runtime-mode' = '{mode}'")
            session.execute(f"SET 'execution.checkpointing.dir' = '{directory}/ck-of-{mode}'")
            run(f"{mode} sink", f"INSERT INTO o {COUNTS}")
            run(f"{mode} sink below", f"INSERT INTO below {COUNTS}")
            for rule in ("", BY_SPARK):
                session.execute(f"SET 'sqlwin.optimizer.disabled-rules' = '{rule}'")
                result[f"{mode} scan {rule}"] = str("ArrowScan" in session.explain(COUNTS))
                (directory / "in" / "b.parquet").chmod(0)
                run(f"{mode} file {rule}", f"INSERT INTO ok {COUNTS}")
                run(
                    f"{mode} source {rule}",
                    f"INSERT INTO ok {COUNTS.replace('TABLE i', 'TABLE closed')}",
                )
                (directory / "in" / "b.parquet").chmod(0o600)
            session.execute("RESET 'sqlwin.optimizer.disabled-rules'")
        session.execute(f"SET 'execution.checkpointing.dir' = '{directory}/ck'")
        run("checkpoint", f"INSERT INTO ok {COUNTS}")
        session.execute("SET 'execution.runtime-mode' = 'batch'")
        run("overwrite", f"INSERT OVERWRITE kept {COUNTS}")
        (kept,) = session.sql("SELECT COUNT(*) AS n FROM kept").collect()
        result["kept"] = str(kept.n)
    print(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
