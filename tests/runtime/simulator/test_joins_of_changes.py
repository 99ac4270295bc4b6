"""Joins of windows over results that change: emitted when the windows close, as they then are."""

from __future__ import annotations

import pytest

from planner.streams.refusals import StreamRefusal
from runtime.simulator.check import disagreement
from runtime.simulator.compare import difference, rows_of
from tests.runtime.simulator.queries import stream
from tests.runtime.simulator.test_changelog import CHANGELOG, changes
from tests.runtime.simulator.test_changing_results import CHANGING, SETTINGS
from tests.runtime.simulator.test_first_rows import rows_in_time

ROWS = "SELECT k, v, ts FROM t"
_REMAINING = f"SELECT v % 2 AS k, v, ts FROM {CHANGELOG}"
SIDES = {
    **{name: (CHANGING[name], ROWS) for name in CHANGING},
    "last rows and groups": (CHANGING["last rows"], CHANGING["groups"]),
    "a changelog": (_REMAINING, _REMAINING),
}
TYPES = ("", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI")


def windows_over(rows: str) -> str:
    return (
        "SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE("
        f"({rows}), DESCRIPTOR(ts), INTERVAL '5' SECONDS)) GROUP BY window_start, window_end, k"
    )


def join_of(left: str, right: str, type_: str) -> str:
    b = "" if "SEMI" in type_ or "ANTI" in type_ else ", b.k AS bk, b.n AS bn, b.s AS bs"
    return (
        f"SELECT a.k AS ak, a.n AS an, a.s AS sa{b} FROM ({windows_over(left)}) AS a {type_} JOIN "
        f"({windows_over(right)}) AS b ON a.window_start = b.window_start AND "
        "a.window_end = b.window_end AND a.k = b.k AND a.n <= b.n"
    )


def joined(left: list[dict], right: list[dict], type_: str) -> list[dict]:
    """Return the join of two lists of windows by definition."""

    def match(a: dict, b: dict) -> bool:
        is_same = a["k"] is not None and (a["window_end"], a["k"]) == (b["window_end"], b["k"])
        return is_same and a["n"] <= b["n"]

    def row(a: dict | None, b: dict | None) -> dict:
        a_row = {"ak": "k", "an": "n", "sa": "s"}
        b_row = {"bk": "k", "bn": "n", "bs": "s"}
        return {
            **{name: a[of] if a else None for name, of in a_row.items()},
            **{name: b[of] if b else None for name, of in b_row.items()},
        }

    if type_ in ("LEFT SEMI", "LEFT ANTI"):
        is_kept = type_ == "LEFT SEMI"
        kept = [a for a in left if any(match(a, b) for b in right) == is_kept]
        return [{"ak": a["k"], "an": a["n"], "sa": a["s"]} for a in kept]
    result = [row(a, b) for a in left for b in right if match(a, b)]
    if type_ in ("LEFT", "FULL"):
        result += [row(a, None) for a in left if not any(match(a, b) for b in right)]
    if type_ in ("RIGHT", "FULL"):
        result += [row(None, b) for b in right if not any(match(a, b) for a in left)]
    return result


@pytest.mark.variants(2)
@pytest.mark.parametrize("name", SIDES)
@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("seed", range(2))
def test_a_join_has_the_windows_that_close_in_a_micro_batch(name, type_, seed):
    given = changes(seed, 30) if name == "a changelog" else rows_in_time(seed)
    of = stream(join_of(*SIDES[name], type_), given)
    history = of.history(seed)
    sides = [stream(windows_over(side), given).run(history).batches for side in SIDES[name]]
    for output, left, right in zip(of.run(history).batches, *sides, strict=True):
        expected = joined(rows_of([left.rows]), rows_of([right.rows]), type_)
        assert difference(expected, rows_of([output.rows])) is None
    assert disagreement(of, history, of.batch_rows(of.order), seed) is None


@pytest.mark.parametrize("settings", [name for name in SETTINGS if name != "once"])
@pytest.mark.parametrize("name", ["last rows", "last rows and groups"])
def test_a_join_of_windows_that_are_emitted_again_is_refused(name, settings):
    sql = join_of(*SIDES[name], "LEFT")
    with pytest.raises(StreamRefusal, match="results of windows cannot be grouped or joined") as e:
        stream(sql, rows_in_time(0), settings=SETTINGS[settings])
    assert e.value.position is not None and e.value.position.offset >= sql.index("JOIN")
    assert "RESET 'table.exec.emit" in e.value.hint


@pytest.mark.parametrize("name", CHANGING)
def test_a_join_of_results_that_change_without_a_window_is_refused(name):
    sql = f"SELECT a.k, b.v FROM ({CHANGING[name]}) AS a JOIN ({CHANGING[name]}) AS b ON a.k = b.k"
    with pytest.raises(StreamRefusal, match="a join of two streams would store all rows"):
        stream(sql, rows_in_time(0))
