"""Streams whose checkpoints an older sqlwin wrote, and the archive of those checkpoints.

With the older version installed, `python -m tests.end_to_end.recovery.old_checkpoints` writes
`old_checkpoints.tar.xz` again: the first half of the input, the checkpoints, and the emitted rows.
"""

from __future__ import annotations

import json
import random
import tarfile
import tempfile
from pathlib import Path

import sqlwin

ARCHIVE = Path(__file__).with_name("old_checkpoints.tar.xz")
# Takes the place of the directory in the archived files
ROOT = "/root-of-old-checkpoints"

_TUMBLE = "TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
_HOP = "TABLE(HOP(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '4' MINUTES))"
_CUMULATE = (
    "TABLE(CUMULATE(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '5' MINUTES))"
)
_SESSION = (
    "TABLE(SESSION(TABLE readings PARTITION BY sensor, DESCRIPTOR(ts), INTERVAL '7' SECONDS))"
)
_WINDOW = "sensor, window_start, window_end"

QUERIES = {
    "tumble": f"SELECT {_WINDOW}, COUNT(*) AS n, SUM(v) AS total, AVG(x) AS mean, MIN(d) AS low, "
    f"STDDEV_SAMP(v) AS spread, FIRST_VALUE(v) AS opening FROM {_TUMBLE} GROUP BY {_WINDOW}",
    "hop": f"SELECT {_WINDOW}, COUNT(DISTINCT v) AS n, SUM(d) AS total, LISTAGG(sensor) AS texts "
    f"FROM {_HOP} GROUP BY {_WINDOW}",
    "cumulate": "SELECT window_start, window_end, COUNT(*) AS n, SUM(v) FILTER (WHERE v > 5) AS s "
    f"FROM {_CUMULATE} GROUP BY window_start, window_end",
    "session": f"SELECT {_WINDOW}, COUNT(*) AS n, MAX(v) AS high FROM {_SESSION} GROUP BY {_WINDOW}",
    "top": "SELECT sensor, window_start, v, place FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY "
    f"window_start, window_end ORDER BY v DESC, ts, sensor) AS place FROM {_TUMBLE}) "
    "WHERE place <= 2",
    "versions": "SELECT r.sensor, r.ts, r.v * q.factor AS v FROM readings AS r "
    "JOIN rates FOR SYSTEM_TIME AS OF r.ts AS q ON r.sensor = q.sensor",
    "filled": f"SELECT {_WINDOW}, SUM(v) AS total FROM {_TUMBLE} GROUP BY {_WINDOW} FILL (LOCF)",
    "filtered": "SELECT sensor, ts, v FROM readings WHERE v > 7",
}


def create_tables(session: sqlwin.Session, root: Path) -> None:
    for columns, name in (
        (
            "sensor STRING, v INT, x DOUBLE, d DECIMAL(10, 2), ts TIMESTAMP(6), "
            "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND",
            "readings",
        ),
        (
            "sensor STRING, factor INT, since TIMESTAMP(6), PRIMARY KEY (sensor) NOT ENFORCED, "
            "WATERMARK FOR since AS since",
            "rates",
        ),
    ):
        session.execute(
            f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', "
            f"'path' = '{root}/{name}', 'format' = 'json')"
        )


def add_input(root: Path, half: int) -> None:
    """Write one file per table: 400 seconds with a gap; the second half follows the first."""
    rng = random.Random(half)
    first = half * 400
    readings = [
        {
            "sensor": rng.choice("abc"),
            "v": rng.randrange(10),
            "x": rng.randrange(100) / 4,
            "d": f"{rng.randrange(1000) / 100:.2f}",
            "ts": _time(first + second),
        }
        for second in range(0, 400, 4)
        if not 100 < second < 190
    ]
    rates = [
        {"sensor": sensor, "factor": rng.randrange(1, 9), "since": _time(first + second)}
        for second in range(0, 400, 130)
        for sensor in "abc"
    ]
    for name, rows in (("readings", readings), ("rates", rates)):
        (root / name).mkdir(exist_ok=True)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (root / name / f"{half}.json").write_text(text)


def _time(second: int) -> str:
    return f"2026-03-01 10:{second // 60:02d}:{second % 60:02d}"


def run_stream(session: sqlwin.Session, root: Path, name: str, *, ends: bool) -> None:
    """Run a query to the end of its input, and write its rows to a directory of JSON files."""
    session.execute(f"""SET 'execution.runtime-mode' = 'streaming';
        SET 'sqlwin.end-of-input' = '{"close" if ends else "hold"}-windows';
        SET 'sqlwin.state.key-groups' = '2'; SET 'sqlwin.exchange.partitions' = '1';
        SET 'execution.checkpointing.dir' = '{root}/checkpoints';
        CREATE TABLE {name} WITH (
            'connector' = 'filesystem', 'path' = '{root}/out/{name}', 'format' = 'parquet'
        ) AS {QUERIES[name]}""")


def extract(root: Path) -> None:
    """Extract the archive and let its files name their new directory."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(root, filter="data")
    _replace(root, ROOT, str(root))


def _replace(root: Path, old: str, new: str) -> None:
    """Replace a directory in all files of text. Hadoop does not check files without checksums."""
    for path in [path for path in root.rglob("*") if path.is_file()]:
        content = path.read_bytes()
        if old.encode() in content:
            path.write_text(content.decode().replace(old, new))
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def _write_archive() -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        add_input(root, 0)
        with sqlwin.connect() as session:
            create_tables(session, root)
            for name in QUERIES:
                run_stream(session, root, name, ends=False)
        _replace(root, directory, ROOT)
        with tarfile.open(ARCHIVE, "w:xz") as archive:
            for path in sorted(root.iterdir()):
                archive.add(path, path.name)


if __name__ == "__main__":
    _write_archive()
