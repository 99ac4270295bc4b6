"""Stream a database's changes into PostgreSQL: `python killed_changes.py DIRECTORY URL ADDRESS`.

ADDRESS is a Kafka broker with the topic `changes`, or `files` or `delta`, for files or a Delta table
below the directory.
"""

from __future__ import annotations

import sys
from pathlib import Path

import sqlwin
from tests.end_to_end.recovery.killed_stream import CONF

FILES = """'connector' = 'filesystem', 'path' = '{directory}/in', 'max-files-per-trigger' = '1',
    'format' = 'debezium-json'"""
TOPIC = """'connector' = 'kafka', 'topic' = 'changes', 'properties.bootstrap.servers' = '{address}',
    'scan.startup.mode' = 'earliest-offset', 'maxOffsetsPerTrigger' = '50',
    'format' = 'debezium-json'"""
DELTA = """'connector' = 'delta', 'path' = '{directory}/orders', 'scan.changes' = 'true',
    'starting-version' = '0', 'source.monitor-interval' = '1 s'"""
BOUNDED = ", 'scan.bounded.mode' = 'latest-offset'"
UPDATES = {
    "table.exec.emit.early-fire.enabled": "true",
    "table.exec.emit.early-fire.delay": "0 s",
}
# By target table
QUERIES = {
    "minutes": """
        SELECT status, window_end, COUNT(*) AS n, SUM(v) AS total,
          MAX(v) AS top
        FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
        GROUP BY status, window_start, window_end""",
    "statuses": """
        SELECT status, COUNT(*) AS n, SUM(v) AS total, MIN(d) AS low,
          AVG(d) AS mean, COUNT(DISTINCT v) AS values_of_v
        FROM orders GROUP BY status HAVING COUNT(*) > 3""",
    "copies": "SELECT id, status, v * 2 AS twice FROM orders WHERE v > 5",
}
_TARGET = "'connector' = 'postgres', 'url' = '{url}', 'create-table' = 'true'"


def tables(directory: Path, url: str, address: str, options: str = "") -> str:
    """Return the tables `orders`, which is given by its changes, and the targets of QUERIES.

    Args:
        directory: Directory with the files, if they are the source.
        url: Database of the targets.
        address: Address of the broker, `files` or `delta`.
        options: More options of the source.
    """
    sources = {"files": FILES, "delta": DELTA}
    source = sources.get(address, TOPIC).format(directory=directory, address=address)
    target = _TARGET.format(url=url)
    return f"""
        CREATE TABLE orders (id INT, status STRING, v BIGINT, d DOUBLE, ts TIMESTAMP(3),
          WATERMARK FOR ts AS ts - INTERVAL '10' MINUTES, PRIMARY KEY (id) NOT ENFORCED
        ) WITH ({source}{options});
        CREATE TABLE minutes (status STRING, window_end TIMESTAMP(3), n BIGINT, total BIGINT,
          top BIGINT, PRIMARY KEY (status, window_end) NOT ENFORCED
        ) WITH ({target}, 'table-name' = 'minutes');
        CREATE TABLE statuses (status STRING, n BIGINT, total BIGINT, low DOUBLE, mean DOUBLE,
          values_of_v BIGINT, PRIMARY KEY (status) NOT ENFORCED
        ) WITH ({target}, 'table-name' = 'statuses');
        CREATE TABLE copies (id INT, status STRING, twice BIGINT, PRIMARY KEY (id) NOT ENFORCED
        ) WITH ({target}, 'table-name' = 'copies');
    """


def main(directory: Path, url: str, address: str) -> None:
    """Run the streams until they end or are killed, from where an earlier run was killed."""
    settings = {
        "execution.runtime-mode": "streaming",
        "execution.checkpointing.dir": str(directory / "checkpoint"),
        **UPDATES,
    }
    with sqlwin.connect(master="local[2]", conf=CONF, settings=settings) as session:
        session.execute(tables(directory, url, address))
        print("ready", flush=True)
        inserts = " ".join(f"INSERT INTO {name} {query};" for name, query in QUERIES.items())
        session.execute(f"EXECUTE STATEMENT SET BEGIN {inserts} END;")
        for stream in session.streams.all():
            stream.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
