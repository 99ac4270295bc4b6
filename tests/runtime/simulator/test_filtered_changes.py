"""Filters above results of a stream that change: each change is one of the filtered results."""

from __future__ import annotations

import pytest

from runtime.simulator.check import SimulatedStream, disagreement
from runtime.simulator.compare import rows_of
from runtime.simulator.histories import StreamHistory
from runtime.spec.stream import ROW_KIND
from tests.runtime.simulator.queries import stream
from tests.runtime.simulator.test_all_time import difference_after_a_micro_batch, rows
from tests.runtime.simulator.test_first_rows import rows_in_time
from tests.runtime.simulator.test_histories import EARLY

_COUNTED = "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k"
_WINDOWS = (
    "SELECT k, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), "
    "INTERVAL '5' SECONDS)) GROUP BY k, window_start, window_end"
)
# Queries whose first columns identify a row, their number, and the settings
QUERIES = {
    "having": (f"{_COUNTED} HAVING COUNT(*) % 2 = 1", 1, ()),
    "filtered twice": (f"SELECT k, n + 1 AS m FROM ({_COUNTED} HAVING MAX(v) > 1) WHERE n < 4", 1, ()),
    "a total": ("SELECT 1 AS one, COUNT(*) AS n FROM t HAVING COUNT(*) % 3 > 0", 1, ()),
    "last rows": (
        "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC, v, d) AS r "
        "FROM t) WHERE r = 1 AND v > 1",
        1,
        (),
    ),
    "groups of groups": (f"SELECT n, COUNT(*) AS c FROM ({_COUNTED}) GROUP BY n HAVING COUNT(*) = 1", 1, ()),
    "early windows": (f"{_WINDOWS} HAVING COUNT(*) % 2 = 1", 2, EARLY),
    "groups of early windows": (f"SELECT n, COUNT(*) AS c FROM ({_WINDOWS}) GROUP BY n", 1, EARLY),
}  # fmt: skip


def table_of(of: SimulatedStream, history: StreamHistory, n_keys: int) -> dict[str, dict]:
    """Return the table that changes describe. Each must be a change of the table so far."""
    table: dict[str, dict] = {}
    for output in of.run(history).batches:
        before = None  # the row of a -U, whose +U must follow
        for row in rows_of([output.rows]):
            kind, key = row.pop(ROW_KIND), str([*row.values()][:n_keys])
            assert (before is not None) == (kind == "+U")
            assert (key in table) == (kind != "+I")
            if kind in ("-U", "-D"):
                assert str(table[key]) == str(row)
            before = key if kind == "-U" else None
            if kind == "-D":
                del table[key]
            elif kind in ("+I", "+U"):
                table[key] = row
        assert before is None
    return table


@pytest.mark.variants(2)
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", range(3))
def test_each_change_is_one_of_the_filtered_results(name, seed):
    sql, n_keys, settings = QUERIES[name]
    of = stream(sql, rows_in_time(seed) if settings else rows(seed, 24), settings=settings)
    history = of.history(seed)
    table = table_of(of, history, n_keys)
    if not settings:
        assert len(table) == len(of.batch_rows(of.order))
        assert difference_after_a_micro_batch(of, history) is None
    assert disagreement(of, history, of.batch_rows(of.order), seed) is None


def test_kinds_of_a_count_between_two_limits():
    given = [(i * 100, "a", 1, 0.5) for i in range(5)]
    of = stream(f"{_COUNTED} HAVING COUNT(*) BETWEEN 2 AND 4", given)
    outcome = of.run(of.every_row)
    kinds = [[row[ROW_KIND] for row in rows_of([output.rows])] for output in outcome.batches]
    assert kinds == [[], ["+I"], ["-U", "+U"], ["-U", "+U"], ["-D"], []]
