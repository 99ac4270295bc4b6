"""Rows per CPU second of windows over rows that are updated, next to rows that are only added.

The operators run in this process, without Spark: TUMBLE of a minute, with micro-batches of 20,000
changes. An update is two changes, the row before it and the row after it. Rates count changes.

python -m tests.bench.changes
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence

from runtime.simulator.histories import Arrival, Batch, StreamHistory
from tests.runtime.simulator.queries import stream

PER_BATCH = 20_000
KEYS = 1_000
CODES = "MAP['c', 'INSERT', 'ub', 'UPDATE_BEFORE', 'ua', 'UPDATE_AFTER']"
CHANGES = f"FROM_CHANGELOG(input => TABLE t, op => DESCRIPTOR(k), op_mapping => {CODES})"
AGGREGATES = {
    "COUNT, SUM": "COUNT(*) AS n, SUM(v) AS s",
    "MAX, AVG of doubles": "MAX(d) AS m, AVG(d) AS a",
}
Row = tuple[int, str, int, float]


def rows_of(n: int, updated: float) -> list[Row]:
    """Return changes: times in ms, code, v (the group is v % KEYS), d.

    Args:
        n: Number of changes.
        updated: Share of changes that begin an update of a row of the last ten seconds.
    """
    draw = random.Random(1)
    rows: list[Row] = []
    recent: list[Row] = []
    while len(rows) < n:
        new = (len(rows) * 10, "c", draw.randrange(1 << 20), draw.randrange(1_000) / 4)
        if recent and draw.random() < updated:
            place = draw.randrange(len(recent))
            time_ms, _, v, d = recent[place]
            after = (time_ms, "ua", v, d + 1)
            rows += [(time_ms, "ub", v, d), after]
            recent[place] = after
            continue
        rows.append(new)
        recent = [*recent[-999:], new]
    return rows


def query(source: str, items: str) -> str:
    """Return the aggregates of windows by group."""
    rows = f"(SELECT ts, v, d, v % {KEYS} AS g FROM {source})"
    window = f"TABLE(TUMBLE({rows}, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
    return f"SELECT window_end, g, {items} FROM {window} GROUP BY window_start, window_end, g"


def changes_per_second(sql: str, rows: Sequence[Row]) -> float:
    """Return the changes per CPU second of a stream, without planning."""
    of = stream(sql, list(rows))
    order = list(of.order)
    batches = [
        Batch(tuple(map(Arrival, order[first : first + PER_BATCH])), of.shape.clock_us)
        for first in range(0, len(order), PER_BATCH)
    ]
    end = Batch((), of.shape.clock_us, has_ended=True)
    history = StreamHistory((*batches, end), batch_rows=PER_BATCH)
    begun = time.process_time()
    of.run(history)
    return len(rows) / (time.process_time() - begun)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=3, help="runs, the best one counts")
    options = parser.parse_args()
    inputs = {
        "added rows": ("t", 0.0),
        "changes, none an update": (CHANGES, 0.0),
        "changes, 10 % updates": (CHANGES, 0.1),
    }
    print(f"{'changes per CPU second':<28}" + "".join(f"{name:>22}" for name in AGGREGATES))
    for name, (source, updated) in inputs.items():
        rows = rows_of(options.changes, updated)
        rates = [
            max(changes_per_second(query(source, items), rows) for _ in range(options.runs))
            for items in AGGREGATES.values()
        ]
        print(f"{name:<28}" + "".join(f"{rate:>22,.0f}" for rate in rates))


if __name__ == "__main__":
    main()
