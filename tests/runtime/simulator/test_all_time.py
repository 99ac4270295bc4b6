"""GROUP BY without a window and SELECT DISTINCT on a stream: after each micro-batch as in batch."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest

from runtime.simulator.check import SimulatedStream, disagreement
from runtime.simulator.compare import Difference, difference, final_rows, rows_of
from runtime.simulator.histories import StreamHistory
from tests.runtime.simulator.queries import stream
from tests.runtime.simulator.test_changelog import (
    AGGREGATES,
    CHANGELOG,
    Change,
    changes,
    remaining_rows,
)

QUERIES = {
    "groups": "SELECT k, COUNT(*) AS n, SUM(v) AS s, MIN(v) AS lo, MAX(d) AS hi, AVG(d) AS a "
    "FROM t GROUP BY k",
    "a group that no longer passes": "SELECT k, COUNT(*) AS n FROM t GROUP BY k "
    "HAVING COUNT(*) % 2 = 1",
    "a total": "SELECT COUNT(*) AS n, SUM(v) AS s FROM t",
    "distinct and filtered": "SELECT v % 3 AS g, COUNT(*) FILTER (WHERE d > 1) AS n, "
    "COUNT(DISTINCT k) AS x, SUM(DISTINCT v) AS y FROM t WHERE v IS NOT NULL GROUP BY v % 3",
    "two keys": "SELECT k, v, STDDEV(d) AS e, MIN_BY(d, ts) AS b FROM t GROUP BY k, v",
    "grouping sets": "SELECT k, v, COUNT(*) AS n FROM t GROUP BY ROLLUP (k, v)",
    "within a query": "WITH a AS (SELECT k, COUNT(*) AS n FROM (SELECT * FROM t WHERE v > 0) "
    "GROUP BY 1) SELECT k, n + 1 AS m FROM a WHERE n > 1",
    "a union": "SELECT k, COUNT(*) AS n FROM (SELECT k, v FROM t UNION ALL "
    "SELECT k, v FROM t WHERE v > 1) GROUP BY k",
    "distinct rows": "SELECT DISTINCT k, v FROM t",
    "all columns": "SELECT DISTINCT * FROM (SELECT k, d FROM t) WHERE d > 0",
}


def rows(seed: int, n: int = 14) -> list[tuple]:
    """Return random rows with NULLs, NaN and both zeros, in any order of time."""
    source = random.Random(seed)
    keys, values = [None, "a", "b", ""], [None, 0, 1, 2, 5]
    doubles = [None, -0.0, 0.0, 0.5, 1.5, float("nan")]
    return [
        (source.randrange(40) * 500, *map(source.choice, (keys, values, doubles))) for _ in range(n)
    ]


def difference_after_a_micro_batch(
    of: SimulatedStream, history: StreamHistory
) -> Difference | None:
    """Return how the sink differs from batch after the first micro-batch where it does, or None."""
    outcome = of.run(history)
    read: list[int] = []
    emitted = []
    for planned, output in zip(outcome.planned, outcome.batches, strict=True):
        read += [arrival.row for arrival in planned.rows]
        emitted.append(output.rows)
        found = difference(of.batch_rows(read), final_rows(rows_of(emitted))) if read else None
        if found is not None:
            return found
    return None


@pytest.mark.variants(3)
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", range(3))
def test_after_each_micro_batch_the_sink_has_the_rows_of_batch(name, seed):
    of = stream(QUERIES[name], rows(seed))
    history = of.history(seed)
    assert difference_after_a_micro_batch(of, history) is None
    assert disagreement(of, history, of.batch_rows(of.order), seed) is None


@pytest.mark.variants(1)
@pytest.mark.parametrize("seed", range(3))
def test_texts_of_a_group_are_in_order_of_time(seed):
    given = [*rows(seed), (None, "c", 1, 0.5)]
    of = stream(
        "SELECT g, LISTAGG(k, '-') AS l, STRING_AGG(DISTINCT k) FILTER (WHERE v > 0) AS d "
        "FROM (SELECT v % 2 AS g, k, v, ts AS at FROM t) GROUP BY g",
        given,
    )
    outcome = of.run(of.history(seed))
    read, emitted = [], []
    for planned, output in zip(outcome.planned, outcome.batches, strict=True):
        read += [given[arrival.row] for arrival in planned.rows]
        emitted.append(output.rows)
        texts = defaultdict(list)
        # a row without a time comes first
        ordered = sorted(read, key=lambda row: (-1 if row[0] is None else row[0], row[1] or ""))
        for _, k, v, _ in ordered:
            texts[None if v is None else v % 2].append((k, v))
        expected = []
        for g, pairs in texts.items():
            every = [k for k, _ in pairs if k is not None]
            some = dict.fromkeys(k for k, v in pairs if k is not None and v)
            joined = "-".join(every) if every else None
            expected.append({"g": g, "l": joined, "d": "".join(some) if some else None})
        assert difference(expected, final_rows(rows_of(emitted))) is None


def test_groups_of_batch_are_those_of_the_definition():
    of = stream(QUERIES["groups"], rows(5))
    assert difference(of.defined(of.order).rows, of.batch_rows(of.order)) is None


def test_a_micro_batch_gives_one_correction_per_key():
    of = stream(QUERIES["groups"], rows(1))
    for output in of.run(of.history(1)).batches:
        emitted = rows_of([output.rows])
        after = [row["k"] for row in emitted if row["$row_kind"] in ("+I", "+U")]
        assert len(after) == len(set(after))
        assert all(row["$row_kind"] != "-D" for row in emitted)


_CALLS = ", ".join(f"{call} AS a{number}" for number, call in enumerate(AGGREGATES))
CHANGES = {
    "groups": f"SELECT g, {_CALLS} FROM (SELECT *, v % 2 AS g FROM {CHANGELOG}) GROUP BY g",
    "rollup": f"SELECT v, COUNT(*) AS n FROM {CHANGELOG} GROUP BY ROLLUP (v)",
    "distinct": f"SELECT DISTINCT v, d FROM {CHANGELOG}",
    "having": f"WITH w AS (SELECT * FROM {CHANGELOG} WHERE d > 0) SELECT v, COUNT(*) AS n FROM w "
    "GROUP BY v HAVING COUNT(*) > 1",
    "top 2": "SELECT g, v, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY v DESC) "
    f"AS rn FROM (SELECT *, v % 2 AS g FROM {CHANGELOG} WHERE v IS NOT NULL)) WHERE rn <= 2",
}


def groups_of(rows: list[Change], name: str) -> list[dict]:
    """Return the rows of a query of CHANGES, by definition."""
    left = remaining_rows(rows)
    if name == "distinct":
        return [{"v": v, "d": d} for v, d in {(v, d) for _, v, d in left}]
    if name == "rollup":
        counts = Counter(v for _, v, _ in left)
        return [{"v": v, "n": n} for v, n in [*counts.items(), (None, len(left))] if n]
    if name == "having":
        counts = Counter(v for _, v, d in left if d is not None and d > 0)
        return [{"v": v, "n": n} for v, n in counts.items() if n > 1]
    if name == "top 2":
        values = sorted((v for _, v, _ in left if v is not None), reverse=True)
        first = {g: [v for v in values if v % 2 == g][:2] for g in range(2)}
        return [
            {"g": g, "v": v, "rn": n} for g, of_g in first.items() for n, v in enumerate(of_g, 1)
        ]
    groups = defaultdict(list)
    for _, v, d in left:
        groups[None if v is None else v % 2].append((v, d))
    definitions = [*enumerate(AGGREGATES.values())]
    return [
        {"g": g, **{f"a{n}": defined(*zip(*of, strict=True)) for n, defined in definitions}}
        for g, of in groups.items()
    ]


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("seed", range(3))
def test_groups_of_changes_are_those_of_the_rows_that_remain(name, seed):
    given = changes(seed, 24)
    of = stream(CHANGES[name], list(given))
    history = of.history(seed)
    outcome = of.run(history)
    read, emitted = [], []
    for planned, output in zip(outcome.planned, outcome.batches, strict=True):
        read += [given[arrival.row] for arrival in planned.rows]
        emitted.append(output.rows)
        assert difference(groups_of(read, name), final_rows(rows_of(emitted))) is None
    assert disagreement(of, history, groups_of(given, name), seed) is None


def test_a_lost_deletion_is_found():
    given = changes(3, 30)
    lost = next(place for place, row in enumerate(given) if row[1] == "d")
    of = stream(CHANGES["groups"], given[:lost] + given[lost + 1 :])
    final = final_rows(rows_of(output.rows for output in of.run(of.history(1)).batches))
    assert difference(groups_of(given, "groups"), final) is not None
