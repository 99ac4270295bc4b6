"""Ranks without a window on a stream: after each micro-batch as in batch, and below windows."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from runtime.refusal import Refusal
from runtime.simulator.changed_query import ChangedStream
from runtime.simulator.check import disagreement
from runtime.simulator.compare import difference
from runtime.streaming.operators.ranks import RankOperator
from sqlwin.testing.simulated import resume, stream_over
from tests.runtime.simulator.queries import rows_table, simulated, stream
from tests.runtime.simulator.test_all_time import difference_after_a_micro_batch, rows

_TOP = (
    "SELECT {} FROM (SELECT *, {} OVER ({} ORDER BY {}) AS rn FROM t WHERE v IS NOT NULL) WHERE {}"
)
_BY = "PARTITION BY k"
CHANGING = {
    "last row": _TOP.format("k, v, d", "ROW_NUMBER()", _BY, "ts DESC", "rn = 1"),
    "first row by another column": "SELECT k, v, ts FROM t "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, d) = 1",
    "top 3": _TOP.format("k, d", "ROW_NUMBER()", _BY, "d DESC", "rn <= 3"),
    "second and third": _TOP.format("k, v, rn", "ROW_NUMBER()", _BY, "v, d", "rn BETWEEN 2 AND 3"),
    "ranks with ties": _TOP.format("k, v, rn", "RANK()", _BY, "v", "rn <= 2"),
    "dense ranks": _TOP.format("k, d, rn", "DENSE_RANK()", _BY, "v", "rn = 2"),
    "top of all rows": _TOP.format("k, v", "ROW_NUMBER()", "", "v DESC, ts", "rn <= 4"),
    "computed keys": _TOP.format("v, d", "ROW_NUMBER()", "PARTITION BY v % 2", "-d", "rn = 1"),
    "filtered later": "WITH l AS (SELECT k, v, ts FROM t WHERE v > 0 "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) = 1) "
    "SELECT k, v + 1 AS w FROM l WHERE v > 1",
}
_FIRST = "(SELECT k, v, d, ts FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY {} ORDER BY ts) = 1)"
ONCE = {
    "first row": _TOP.format("*", "ROW_NUMBER()", "PARTITION BY k, v", "ts", "rn = 1"),
    "tumble": "SELECT k, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE("
    f"{_FIRST.format('k, d')}, DESCRIPTOR(ts), INTERVAL '5' SECONDS)) "
    "GROUP BY k, window_start, window_end",
    "session": "SELECT k, window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION("
    f"{_FIRST.format('v, d')} PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' SECONDS)) "
    "GROUP BY k, window_start, window_end",
    "top of a window": "SELECT k, v, window_end FROM TABLE(HOP("
    f"{_FIRST.format('v, d')}, DESCRIPTOR(ts), INTERVAL '2' SECONDS, INTERVAL '6' SECONDS)) "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v, ts, k) <= 2",
}


def rows_in_time(seed: int) -> list[tuple]:
    """Return random rows that arrive at most two seconds late, which is the watermark's delay."""
    source = random.Random(seed)
    return sorted(rows(seed, 30), key=lambda row: row[0] + source.randrange(2000))


@pytest.mark.variants(3)
@pytest.mark.parametrize("name", CHANGING)
@pytest.mark.parametrize("seed", range(3))
def test_after_each_micro_batch_the_sink_has_the_first_rows_of_batch(name, seed):
    of = stream(CHANGING[name], rows(seed, 20))
    history = of.history(seed)
    assert difference_after_a_micro_batch(of, history) is None
    assert disagreement(of, history, of.batch_rows(of.order), seed) is None


@pytest.mark.variants(2)
@pytest.mark.parametrize("name", ONCE)
@pytest.mark.parametrize("seed", range(3))
def test_first_rows_by_time_are_emitted_once_and_counted_in_windows(name, seed):
    of = stream(ONCE[name], rows_in_time(seed))
    assert disagreement(of, of.history(seed), of.batch_rows(of.order), seed) is None


@pytest.mark.variants(2)
@pytest.mark.parametrize("name", ONCE)
@pytest.mark.parametrize("seed", range(2))
def test_keys_are_forgotten_after_the_ttl(name, seed):
    ttl = (("table.exec.state.ttl", "3 s"),)
    of, forever = (stream(ONCE[name], rows_in_time(seed), settings=s) for s in (ttl, ()))
    expected = of.batch_rows(of.order)
    assert disagreement(of, of.history(seed), expected, seed) is None
    assert difference(expected, forever.batch_rows(of.order)) is not None


@pytest.mark.parametrize("name", ["top 3", "ranks with ties", "first row", "session"])
def test_first_rows_of_batch_are_those_of_the_definition(name):
    of = stream({**CHANGING, **ONCE}[name], [(i * 700, "ab"[i % 2], i % 5, i) for i in range(12)])
    defined = of.defined(of.order)
    assert not defined.ties
    assert difference(defined.rows, of.batch_rows(of.order)) is None


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", ONCE)
def test_late_rows_are_dropped_and_hide_no_row(name):
    given = [
        *rows_in_time(4),
        (0, "late", 99, 0.5),
        (30_000, "a", 1, 1.0),
        (31_000, "late", 99, 0.5),
    ]
    late = len(given) - 3
    of = stream(ONCE[name], given)
    of = replace(of, shape=replace(of.shape, late=frozenset({late})))
    expected = of.batch_rows([row for row in of.order if row != late])
    assert disagreement(of, of.history(4), expected, 4) is None


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ("ORDER BY v, d) = 2", None),
        ("ORDER BY v, d) <= 3", "its plan has changed"),
        ("ORDER BY v DESC, d) <= 2", "its plan has changed"),
        ("ORDER BY ts) = 1", "has changed from 'on' to 'off'"),
    ],
)
def test_a_stream_resumes_only_with_the_same_first_rows(other, reason):
    sql = "SELECT k, v, d FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k {}"
    before, after = (simulated(sql.format(part)) for part in ("ORDER BY v, d) <= 2", other))
    given = {"t": rows_table(rows(1, 20))}
    changed = resume(before, after, stream_over(before, given), given)
    if reason is not None:
        assert isinstance(changed, Refusal)
        assert reason in changed.reason
        return
    assert isinstance(changed, ChangedStream)
    assert changed.first_disagreement(range(3)) is None


def _forget(operator: RankOperator, passed: pa.Table) -> pa.Table:
    return passed.slice(0, 0)


def test_a_key_that_is_forgotten_is_found(monkeypatch):
    monkeypatch.setattr(RankOperator, "_seen", _forget)
    of = stream(ONCE["tumble"], [(1000 * i, "a", 1, 1.0) for i in range(20)])
    assert disagreement(of, of.every_row, of.batch_rows(of.order), 0) is not None
