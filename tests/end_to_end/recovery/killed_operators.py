"""Streams of window operators: `python killed_operators.py DIRECTORY [elsewhere] KIND...`.

Each KIND is a name in KINDS; all of them run at once. Windows that are emitted once go to files in
`out-KIND`; updated ones to standard output, as lines that begin with `KIND> `. `KIND!` kills itself
just before the checkpoint changes to KIND's identity, before anything has run. With `elsewhere`,
the number of cores, the current directory and the spelling of the statements differ.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlwin
from sqlwin import windows as w
from sqlwin.execution.streams import start
from tests.end_to_end.recovery.faulty_stream import kill
from tests.end_to_end.recovery.killed_stream import CONF, readings

_ONE_GROUP = {"sqlwin.state.key-groups": "1", "sqlwin.exchange.partitions": "1"}
_EARLY = {
    "table.exec.emit.early-fire.enabled": "true",
    "table.exec.emit.early-fire.delay": "0 s",
}
SUMS = "COUNT(*) AS n, SUM(v) AS total"
_LATENESS = {"table.exec.emit.allow-lateness": "5 min"}


def totals(window: str, aggregates: str = SUMS, source: str = "readings") -> str:
    """Return the aggregates of a window function over a table, which it calls `{}`."""
    function = window.format(f"TABLE {source}", "DESCRIPTOR(ts)")
    return (
        f"SELECT k, window_start, window_end, {aggregates} FROM TABLE({function}) "
        "GROUP BY k, window_start, window_end"
    )


TUMBLE = "TUMBLE({}, {}, INTERVAL '1' MINUTE)"
FIVE_MINUTES = "TUMBLE({}, {}, INTERVAL '5' MINUTES)"
HOP = "HOP({}, {}, INTERVAL '1' MINUTE, INTERVAL '%s' MINUTES)"
CUMULATE = "CUMULATE({}, {}, INTERVAL '1' MINUTE, INTERVAL '10' MINUTES)"
FILLED_TO = "1970-01-01 00:09:00"
SESSION = "SESSION({} PARTITION BY k, {}, INTERVAL '5' SECONDS)"


@dataclass(frozen=True)
class Kind:
    """A stream.

    Attributes:
        query: Query that returns k, window_start, window_end, n, total.
        settings: Settings in addition to the common ones.
        pipeline: Name of its checkpoint and its output; empty: the kind's name.
        is_updated: Whether results are emitted again.
    """

    query: str
    settings: dict[str, str] = field(default_factory=dict)
    is_updated: bool = False
    pipeline: str = ""


KINDS = {
    "tumble": Kind(totals(TUMBLE)),
    "hop": Kind(totals(HOP % 4)),
    # with one more aggregate than `narrower`
    "running": Kind(
        "SELECT k, window_start, window_end, n, total FROM "
        f"({totals(HOP % 20, f'{SUMS}, MAX(v) AS most')}) WHERE most IS NOT NULL",
        _ONE_GROUP,
    ),
    "narrower": Kind(totals(HOP % 12), _ONE_GROUP, pipeline="running"),
    "cumulate": Kind(totals(CUMULATE)),
    "session": Kind(totals(SESSION)),
    "early": Kind(totals(FIVE_MINUTES), _EARLY, is_updated=True),
    "hop early": Kind(totals(HOP % 4), _EARLY, is_updated=True),
    "late": Kind(totals(TUMBLE, source="late_readings"), _LATENESS, is_updated=True),
    "cumulate late": Kind(totals(CUMULATE, source="late_readings"), _LATENESS, is_updated=True),
    "general": Kind("SELECT k, window_start, window_end, n, total FROM made"),
    "rank": Kind(
        "SELECT k, window_start, window_end, n, total FROM (SELECT *, ROW_NUMBER() OVER (PARTITION "
        "BY window_start, window_end ORDER BY total DESC, k) AS place FROM "
        f"({totals(TUMBLE)})) WHERE place <= 3"
    ),
    "join": Kind(
        "SELECT a.k, a.window_start, a.window_end, a.n, b.most AS total FROM "
        f"({totals(TUMBLE)}) a JOIN ({totals(TUMBLE, 'MAX(v) AS most')}) b ON a.k = b.k "
        "AND a.window_start = b.window_start AND a.window_end = b.window_end"
    ),
    "versions": Kind(
        "SELECT a.k, b.ts AS window_start, a.ts AS window_end, a.v AS n, b.v AS total "
        "FROM readings AS a JOIN rates FOR SYSTEM_TIME AS OF a.ts AS b ON a.k = b.k"
    ),
    "fill": Kind(
        totals(TUMBLE).replace("TABLE readings", "(SELECT * FROM readings WHERE v > 900)")
        + f" FILL (n = 0, total = LOCF) TO TIMESTAMP '{FILLED_TO}'"
    ),
}


def pipeline(name: str) -> str:
    """Return the name of a kind's checkpoint."""
    return (KINDS[name].pipeline or name).replace(" ", "-")


def output(directory: Path, name: str) -> str:
    """Return the table that a kind writes."""
    columns = "k INT, window_start TIMESTAMP(3), window_end TIMESTAMP(3), n BIGINT, total BIGINT"
    path = directory / f"out-{pipeline(name)}"
    options = f"'connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet'"
    if KINDS[name].is_updated:
        options = f"'connector' = 'print', 'print-identifier' = '{name}'"
    return f"CREATE TABLE `out {name}` ({columns}) WITH ({options})"


def general(session: sqlwin.Session) -> None:
    """Create the view `made`: the rows of `tumble`, computed by `Session.windows`."""
    session.windows(
        "readings",
        keys=["k"],
        time="ts",
        window=w.tumble("1 minute"),
        function=w.WholeWindowFunction(
            lambda key, window, rows: [(len(rows), sum(row["v"] for row in rows))]
        ),
        output="n bigint, total bigint",
        name="made",
    )


@dataclass(frozen=True)
class Place:
    """Environment in which streams run.

    Attributes:
        cores: Number of cores.
        settings: Settings of Spark and of sqlwin.
    """

    cores: int
    settings: dict[str, str]

    def tables(self, directory: Path) -> str:
        """Return the tables `readings`, `late_readings` and `rates`, which has versions."""
        late = readings(directory / "late").replace("TABLE readings", "TABLE late_readings")
        rates = readings(directory / "rates").replace("TABLE readings", "TABLE rates")
        key = "PRIMARY KEY (k) NOT ENFORCED, WATERMARK"
        return readings(directory) + late + rates.replace("WATERMARK", key)

    def query(self, text: str) -> str:
        """Return a query as spelled in this environment."""
        return text


class Elsewhere(Place):
    """The same streams in another spelling, run in the directory itself."""

    def tables(self, directory: Path) -> str:
        """Return the same tables with relative paths and reordered options."""
        os.chdir(directory)
        existing = super().tables(Path())
        return (
            existing.replace("'format' = 'parquet',", "")
            .replace("'connector'", "'format' = 'PARQUET', 'connector'")
            .replace("/in'", "/in/'")
            .replace("ts - INTERVAL '5' SECOND", "`TS` - INTERVAL '5' SECONDS")
        )

    def query(self, text: str) -> str:
        """Return the query with a comment, other case of names, and lower-case functions."""
        text = text.replace("COUNT(*)", "count(*)").replace("SUM(v)", "sum(`V`)")
        text = text.replace("TABLE readings", "TABLE default_catalog.default_database.`Readings`")
        return text.replace("GROUP BY", "/* it's the same */ GROUP BY")


HERE = Place(2, {"spark.sql.shuffle.partitions": "2"})
ELSEWHERE = Elsewhere(
    3,
    {
        "spark.sql.shuffle.partitions": "5",
        "sqlwin.exchange.buckets": "30",
        "sqlwin.local.buffer-size": "1 mb",
    },
)


def main(directory: Path, names: list[str]) -> None:
    """Run the streams to their ends, or resume where an earlier run was killed."""
    place = HERE
    if names[0] == "elsewhere":
        place, names = ELSEWHERE, names[1:]
    if names[0].endswith("!"):
        plain = start.begin_with

        def begun(*args: Any) -> Any:
            plain(*args)
            kill()

        start.begin_with = begun
    settings = {
        "execution.runtime-mode": "streaming",
        "execution.checkpointing.dir": str(directory / "checkpoint"),
        "table.dml-sync": "false",
    }
    settings |= place.settings
    with sqlwin.connect(master=f"local[{place.cores}]", conf=CONF, settings=settings) as session:
        session.execute(place.tables(directory))
        general(session)
        for name in [name.removesuffix("!") for name in names]:
            kind = KINDS[name]
            chosen = {**kind.settings, "pipeline.name": pipeline(name)}
            sets = "".join(f"SET '{key}' = '{value}'; " for key, value in chosen.items())
            resets = "".join(f"RESET '{key}'; " for key in chosen)
            session.execute(
                f"{output(directory, name)}; {sets} INSERT INTO `out {name}` "
                f"{place.query(kind.query)}; {resets}"
            )
        for stream in session.streams.all():
            stream.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
