"""SESSION over a changelog: after each micro-batch the sink has the sessions of the rows."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict

import pytest

from runtime.simulator.check import disagreement
from runtime.simulator.compare import difference, final_rows, rows_of
from runtime.simulator.histories import Arrival, Batch, StreamHistory
from runtime.spec.stream import ROW_KIND
from runtime.streaming.operators.changed_sessions import UpdatedChangedSessionOperator
from tests.runtime.simulator.queries import START, stream
from tests.runtime.simulator.test_changelog import CHANGELOG, Change, changes, remaining_rows

Session = tuple[int | None, dt.datetime, dt.datetime, list[tuple]]  # g, bounds, rows

_EARLY, _LATE = "table.exec.emit.early-fire.", "table.exec.emit.late-fire."
_LATENESS = (("table.exec.emit.allow-lateness", "5 s"),)


def _rule(name: str, **when: str) -> tuple[tuple[str, str], ...]:
    """Return the settings of early or late firing."""
    return ((f"{name}enabled", "true"), *((f"{name}{key}", value) for key, value in when.items()))


SETTINGS = {
    "once": (),
    "early": _rule(_EARLY, delay="0 s"),
    "early after a delay": _rule(_EARLY, delay="5 s"),
    "lateness": _LATENESS,
    "early and lateness": (*_LATENESS, *_rule(_EARLY, delay="0 s")),
    "late after a delay": (*_LATENESS, *_rule(_LATE, delay="5 s")),
    "both after some rows": (*_LATENESS, *_rule(_EARLY, rows="4"), *_rule(_LATE, rows="3")),
}
# Gaps as SQL, and in seconds by v
GAPS = {
    "one gap": ("INTERVAL '3' SECONDS", {}),
    "gap per row": (
        "CASE WHEN v = 1 OR v IS NULL THEN INTERVAL '2' SECONDS WHEN v = 2 THEN "
        "INTERVAL '6' SECONDS ELSE INTERVAL '3' SECONDS END",
        {1: 2, None: 2, 2: 6},
    ),
}


def sessions_of(rows: list[Change], gaps: dict[int | None, int]) -> list[Session]:
    """Return the sessions of the rows that remain, by definition. The partitions are v % 2."""
    sessions: list[Session] = []
    open_: dict[int | None, Session] = {}
    for time, v, d in sorted(remaining_rows(rows), key=lambda row: row[0]):
        g = None if v is None else v % 2
        start = START + dt.timedelta(milliseconds=time)
        end = start + dt.timedelta(seconds=gaps.get(v, 3))
        before = open_.get(g)
        if before is not None and start <= before[2]:
            open_[g] = (g, before[1], max(before[2], end), [*before[3], (v, d)])
            sessions[sessions.index(before)] = open_[g]
        else:
            open_[g] = (g, start, end, [(v, d)])
            sessions.append(open_[g])
    return sessions


def results_of(sessions: list[Session], *, by_value: bool) -> list[dict]:
    """Return the rows of the query for some sessions."""
    results = []
    for g, start, end, rows in sessions:
        groups = defaultdict(list)
        for v, d in rows:
            groups[v if by_value else None].append((v, d))
        for key, of in groups.items():
            values = [v for v, _ in of if v is not None]
            results.append(
                {
                    "g": g,
                    **({"v": key} if by_value else {}),
                    "window_start": start,
                    "window_end": end,
                    "n": len(of),
                    "s": sum(values) if values else None,
                    "m": max((d for _, d in of if d is not None), default=None),
                }
            )
    return results


def has_early_deletion(rows: list[Change]) -> bool:
    """Return whether a deletion has arrived before its insertion."""
    counts: Counter[tuple] = Counter()
    for time, code, v, d in rows:
        counts[time, v, d] += 1 if code in ("c", "r", "ua") else -1
    return any(number < 0 for number in counts.values())


def check(settings: str, gap: str, seed: int, *, by_value: bool) -> None:
    """Compare the sink with the sessions of the rows after each micro-batch of a history."""
    gap_sql, gaps = GAPS[gap]
    keys = "g, v" if by_value else "g"
    sql = (
        f"SELECT {keys}, window_start, window_end, COUNT(*) AS n, SUM(v) AS s, MAX(d) AS m "
        f"FROM TABLE(SESSION((SELECT v % 2 AS g, v, d, ts FROM {CHANGELOG}) PARTITION BY g, "
        f"DESCRIPTOR(ts), {gap_sql})) GROUP BY {keys}, window_start, window_end"
    )
    given = changes(seed, 30)
    # a row at the watermark may extend a session that ends there
    of = stream(sql, given, delay="2.5", settings=SETTINGS[settings])
    history = of.history(seed)
    outcome = of.run(history)
    read, emitted = [], []
    for planned, output in zip(outcome.planned, outcome.batches, strict=True):
        read += [given[arrival.row] for arrival in planned.rows]
        emitted += rows_of([output.rows])
        assert output.n_late == 0
        assert output.needless is None
        if has_early_deletion(read) or settings not in ("early", "early and lateness", "lateness"):
            continue
        sessions = sessions_of(read, gaps)
        if settings == "lateness" and not planned.has_ended:
            sessions = ended(sessions, output.watermark_us)
        mismatch = difference(results_of(sessions, by_value=by_value), final_rows(emitted))
        if settings == "lateness" and mismatch is not None:
            # such a result stays until the session that it has become part of ends
            now = sessions_of(read, gaps)
            others = [session for session in now if session not in sessions]
            assert mismatch.missing == ()
            assert all(any(touches(row, s) for s in others) for row in mismatch.unexpected)
        else:
            assert mismatch is None
    final = results_of(sessions_of(given, gaps), by_value=by_value)
    assert difference(final, of.batch_rows(of.order)) is None
    assert disagreement(of, history, final, seed) is None


def ended(sessions: list[Session], watermark_us: int | None) -> list[Session]:
    """Return the sessions that the watermark has passed."""
    first = dt.datetime(1970, 1, 1)  # noqa: DTZ001
    passed = -1 if watermark_us is None else watermark_us
    return [s for s in sessions if (s[2] - first) // dt.timedelta(microseconds=1) <= passed]


def touches(row: dict, session: Session) -> bool:
    """Return whether a result and a session have times in common."""
    g, start, end, _ = session
    return row["g"] == g and row["window_start"] <= end and start <= row["window_end"]


@pytest.mark.variants(3)
@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("seed", range(3))
def test_sessions_of_changes_are_those_of_the_rows(settings, gap, seed):
    check(settings, gap, seed, by_value=seed == 1)


_LATE_ROWS = [(0, "c", 1, 1.0), (20_000, "c", 2, 1.0), (0, "d", 1, 1.0), (30_000, "c", 2, 2.0)]


def kinds_of(*batches: tuple[int, list[int]], settings: str) -> list[list[tuple[str, int]]]:
    """Return the kinds of the changes, with the second in which each session begins.

    Args:
        batches: Processing times in seconds, and numbers of _LATE_ROWS that arrive.
        settings: Name of SETTINGS.
    """
    sql = (
        f"SELECT window_start, COUNT(*) AS n FROM TABLE(SESSION((SELECT v, ts FROM {CHANGELOG}) "
        "PARTITION BY v, DESCRIPTOR(ts), INTERVAL '3' SECONDS)) GROUP BY v, window_start, window_end"
    )
    lateness = ("table.exec.emit.allow-lateness", "30 s")
    of = stream(sql, _LATE_ROWS, settings=(*SETTINGS[settings], lateness))
    steps = [
        Batch(tuple(map(Arrival, rows)), clock_us=clock * 1_000_000) for clock, rows in batches
    ]
    end = Batch((), steps[-1].clock_us, has_ended=True)
    outcome = of.run(StreamHistory((*steps, end)))
    second = dt.timedelta(seconds=1)
    return [
        [(row[ROW_KIND], (row["window_start"] - START) // second) for row in rows_of([output.rows])]
        for output in outcome.batches
    ]


def test_a_session_without_rows_is_deleted():
    assert kinds_of((0, [0, 1]), (1, [2]), (9, [3]), settings="lateness") == [
        [("+I", 0)],
        [("-D", 0)],
        [("+I", 20)],
        [("+I", 30)],
    ]


def test_a_session_without_rows_is_deleted_when_late_results_are_due():
    batches = ((0, [0, 1]), (1, [2]), (9, [3]))
    assert kinds_of(*batches, settings="late after a delay") == [
        [("+I", 0)],
        [],
        [("-D", 0), ("+I", 20)],
        [("+I", 30)],
    ]


def test_a_deletion_that_is_forgotten_before_late_results_are_due_is_found(monkeypatch):
    keep = UpdatedChangedSessionOperator._keep

    def forget(self, partials, *, is_changed):
        keep(self, self._spec.columns.without_zeros(partials), is_changed=is_changed)

    monkeypatch.setattr(UpdatedChangedSessionOperator, "_keep", forget)
    with pytest.raises(AssertionError):
        test_a_session_without_rows_is_deleted_when_late_results_are_due()
