"""TO_CHANGELOG on a stream: the changes of a table as rows, which describe it."""

from __future__ import annotations

from collections import Counter

import pytest

from runtime.simulator.check import SimulatedStream, disagreement
from runtime.simulator.compare import Difference, difference, rows_of
from runtime.simulator.histories import StreamHistory
from runtime.spec.stream import ROW_KIND
from sqlwin.execution.streams.sinks import replaces_rows
from tests.runtime.simulator.queries import WINDOWS, simulated, stream
from tests.runtime.simulator.test_all_time import difference_after_a_micro_batch, rows
from tests.runtime.simulator.test_changelog import CHANGELOG, changes
from tests.runtime.simulator.test_changing_results import LAST, SETTINGS, _lost
from tests.runtime.simulator.test_first_rows import rows_in_time

_COUNTED = "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k"
TABLES = {
    "groups": _COUNTED,
    "filtered groups": f"SELECT n, k FROM ({_COUNTED} HAVING COUNT(*) % 2 = 1) WHERE n < 6",
    "a total": "SELECT COUNT(*) AS n, MAX(d) AS m FROM t",
    "rollup": "SELECT k, v, COUNT(*) AS n FROM t GROUP BY ROLLUP (k, v)",
    "distinct rows": "SELECT DISTINCT k, v FROM t",
    "last rows": f"SELECT v + 1 AS w, k, d FROM ({LAST})",
    "top 2": "SELECT k, v, rn FROM (SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k "
    "ORDER BY v DESC, d) AS rn FROM t) WHERE rn <= 2",
    "a union": f"SELECT k, n FROM ({_COUNTED}) UNION ALL SELECT k, v FROM t WHERE v > 1",
    "groups of groups": f"SELECT n, COUNT(*) AS c FROM ({_COUNTED}) GROUP BY n",
    "rows that stay": "SELECT k, v FROM t WHERE v > 0",
}
_FINAL = ("windows", "once")
_ADDED = {"INSERT", "UPDATE_AFTER"}
_WINDOWS = (
    "SELECT window_end, k, COUNT(*) AS n, SUM(v) AS s FROM TABLE({}) "
    "GROUP BY window_start, window_end, k"
)


def changes_of(table: str, arguments: str = "") -> str:
    """Return a query of the changes of a table."""
    return f"SELECT * FROM TO_CHANGELOG(input => ({table}){arguments})"


def described(emitted: list[dict]) -> list[dict]:
    """Return the table that changes describe. Each removes a row that is there."""
    table: Counter[tuple] = Counter()
    for row in emitted:
        # a NaN equals itself here
        key = tuple((name, repr(value), value) for name, value in row.items() if name != "op")
        shown = tuple((name, text) for name, text, _ in key)
        table[shown] += 1 if row["op"] in _ADDED else -1
        assert table[shown] >= 0
    values = {
        tuple((name, repr(value)) for name, value in row.items() if name != "op"): row
        for row in emitted
    }
    return [
        {name: value for name, value in values[key].items() if name != "op"}
        for key in table.elements()
    ]


def difference_of_changes(of: SimulatedStream, history: StreamHistory) -> Difference | None:
    """Return how the described table differs from batch after the first such micro-batch."""
    outcome = of.run(history)
    read, emitted = [], []
    for planned, output in zip(outcome.planned, outcome.batches, strict=True):
        read += [arrival.row for arrival in planned.rows]
        assert ROW_KIND not in output.rows.column_names
        emitted += rows_of([output.rows])
        inserted = of.batch_rows(read) if read else []
        assert all(row.pop("op") == "INSERT" for row in inserted)
        found = difference(inserted, described(emitted))
        if found is not None:
            return found
    return None


@pytest.mark.variants(3)
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("seed", range(3))
def test_changes_describe_the_table_after_each_micro_batch(name, seed):
    of = stream(changes_of(TABLES[name]), rows(seed))
    assert difference_of_changes(of, of.history(seed)) is None


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", ["groups", "last rows", "top 2", "rollup"])
@pytest.mark.parametrize("seed", range(2))
def test_codes_are_the_kinds_of_the_results(name, seed):
    kinds = "'INSERT', '+I', 'UPDATE_BEFORE', '-U', 'UPDATE_AFTER', '+U', 'DELETE', '-D'"
    of = stream(changes_of(TABLES[name], f", op_mapping => MAP[{kinds}]"), rows(seed))
    below = stream(TABLES[name], rows(seed))
    history = of.history(seed)
    for output, results in zip(of.run(history).batches, below.run(history).batches, strict=True):
        given = [{"op": r.pop(ROW_KIND, None), **r} for r in rows_of([results.rows])]
        assert difference(given, rows_of([output.rows])) is None


@pytest.mark.parametrize("seed", range(2))
def test_kinds_without_a_code_are_left_out(seed):
    mapping = ", op_mapping => MAP['INSERT, UPDATE_AFTER', 'u']"
    every = stream(changes_of(_COUNTED), rows(seed))
    some = stream(changes_of(_COUNTED, mapping), rows(seed))
    history = every.history(seed)
    emitted, left = (rows_of(o.rows for o in of.run(history).batches) for of in (every, some))
    new = [{**row, "op": "u"} for row in emitted if row["op"] in _ADDED]
    assert difference(new, left) is None
    assert len(new) < len(emitted)


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("seed", range(3))
def test_from_changelog_gives_the_table_again(name, seed):
    of = stream(changes_of(TABLES[name]), rows(seed, 8))
    columns = ", ".join(of.batch_table([0]).column_names[1:])
    grouped = f"SELECT {columns}, COUNT(*) AS copies FROM {{}} GROUP BY {columns}"
    again = stream(
        grouped.format(f"FROM_CHANGELOG(input => ({changes_of(TABLES[name])}))"), rows(seed, 8)
    )
    table = stream(grouped.format(f"({TABLES[name]})"), rows(seed, 8))
    history = again.history(seed)
    assert difference_after_a_micro_batch(again, history) is None
    expected = table.batch_rows(table.order)
    assert disagreement(again, history, expected, seed) is None


@pytest.mark.variants(1)
@pytest.mark.parametrize("seed", range(3))
def test_changes_of_a_table_given_by_changes_pass_with_their_kinds(seed):
    given = changes(seed, 20)
    of = stream(changes_of(f"SELECT v, d FROM {CHANGELOG} WHERE v > 0"), list(given))
    names = {"c": "INSERT", "r": "INSERT", "ub": "UPDATE_BEFORE", "ua": "UPDATE_AFTER"}
    expected = [{"op": names.get(code, "DELETE"), "v": v, "d": d} for _, code, v, d in given if v]
    emitted = rows_of(output.rows for output in of.run(of.history(seed)).batches)
    assert difference(expected, emitted) is None


@pytest.mark.variants(1)
@pytest.mark.parametrize("window", ["tumble", "hop", "session"])
@pytest.mark.parametrize("settings", ["early", "late"])
@pytest.mark.parametrize("seed", range(2))
def test_changes_of_windows_describe_their_last_results(window, settings, seed):
    table = _WINDOWS.format(WINDOWS[window])
    given = rows(seed, 20) if settings == "late" else rows_in_time(seed)
    of = stream(changes_of(table), given, settings=SETTINGS[settings])
    outcome = of.run(of.history(seed))
    emitted = rows_of(output.rows for output in outcome.batches)
    assert all(ROW_KIND not in row for row in emitted)
    below = stream(table, given)
    assert difference(below.batch_rows(below.order), described(emitted)) is None


@pytest.mark.parametrize("settings", ["once", "early"])
@pytest.mark.parametrize("name", ["groups", "windows"])
def test_changes_as_rows_replace_no_rows_of_a_sink(name, settings):
    table = {"groups": _COUNTED, "windows": _WINDOWS.format(WINDOWS["tumble"])}[name]
    for sql, replaces in ((changes_of(table), False), (table, (name, settings) != _FINAL)):
        query = simulated(sql, settings=SETTINGS[settings])
        assert replaces_rows(query.lowered, query.options) == replaces


@pytest.mark.variants(1)
@pytest.mark.parametrize("seed", range(2))
def test_windows_hold_the_changes_with_their_times(seed):
    below = "SELECT k, v, ts FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) = 1"
    given = rows_in_time(seed)
    of = stream(
        f"SELECT window_end, op, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE("
        f"({changes_of(below)}), DESCRIPTOR(ts), INTERVAL '5' SECONDS)) "
        "GROUP BY window_start, window_end, op",
        given,
    )
    plain = stream(changes_of(below), given)
    emitted = rows_of(o.rows for o in plain.run(plain.every_row).batches)
    on_time = Counter(row["op"] for row in emitted)
    outcome = of.run(of.every_row)
    counted: Counter[str] = Counter()
    for row in rows_of(output.rows for output in outcome.batches):
        counted[row["op"]] += row["n"]
    late = sum(on_time.values()) - sum(counted.values())
    assert late == sum(output.n_late for output in outcome.batches)
    assert all(counted[op] <= n for op, n in on_time.items())
    assert counted["INSERT"] == on_time["INSERT"]


def test_a_lost_row_before_an_update_is_found(monkeypatch):
    from runtime.streaming.operators import ranks

    monkeypatch.setattr(ranks, "updates", _lost)
    of = stream(changes_of(TABLES["last rows"]), rows(1))
    assert difference_of_changes(of, of.every_row) is not None
