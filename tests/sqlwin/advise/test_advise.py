"""`sqlwin advise`: effects of delays by definition, and the rows that the operators drop."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import sqlwin
from runtime.simulator.delays.aligned import CountedRows
from sqlwin.cli.app import main
from tests.runtime.connectors.kafka.broker import Broker, broker

__all__ = ["broker"]  # a fixture

START = dt.datetime(2026, 3, 1)  # noqa: DTZ001  # a wall clock
SECOND = dt.timedelta(seconds=1)
TUMBLE = "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECONDS)"
HOP = "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECONDS, INTERVAL '20' SECONDS)"
GAPS = "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECONDS, INTERVAL '5' SECONDS)"
SESSION = "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECONDS)"
CUMULATE = "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECONDS, INTERVAL '30' SECONDS)"

Trace = list[tuple[float, float, str]]  # arrival and time in seconds, key


def advise(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["advise", *arguments], catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


def script(
    directory: Path,
    trace: Trace,
    windows: str = TUMBLE,
    *,
    where: str = "",
    settings: str = "",
    type_: str = "TIMESTAMP(6)",
    start: dt.datetime = START,
) -> str:
    """Write a table with a trace and a query over it; return the name of the script."""
    columns: dict[str, Any] = {
        "ts": [start + SECOND * time for _, time, _ in trace],
        "arrived": [start + SECOND * arrival for arrival, _, _ in trace],
        "k": [key for *_, key in trace],
    }
    if "LTZ" in type_:
        columns["ts"] = pa.array(columns["ts"], pa.timestamp("us", "UTC"))
        columns["arrived"] = pa.array(columns["arrived"], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table(columns), directory / "t.parquet")
    path = directory / "q.sql"
    path.write_text(f"""
        {settings}
        CREATE TABLE t (
          ts {type_}, arrived {type_}, k STRING, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND
        ) WITH ('connector' = 'filesystem', 'path' = '{directory}/t.parquet', 'format' = 'parquet');
        SELECT k, window_start, window_end, COUNT(*) AS n FROM TABLE({windows}) {where}
        GROUP BY k, window_start, window_end;
    """)
    return str(path)


def advice(path: str, *options: str) -> dict[str, Any]:
    code, out, err = advise(path, "--arrival", "arrived", "--format", "json", *options)
    assert (code, err) == (0, ""), out
    return json.loads(out)


def delayed(random: Random, n_rows: int) -> Trace:
    """A row every second, most of them delayed by a few seconds, some by up to a minute."""
    trace = [
        (n + random.choice((0, 0.5, 2, 2, 7, random.uniform(0, 60))), n, random.choice("aabc"))
        for n in range(n_rows)
    ]
    return sorted(trace)


def test_the_shortest_delay_counts_every_row(tmp_path: Path) -> None:
    # the second row closes [0 s, 10 s) up to a delay of 2 s and a millisecond
    path = script(tmp_path, [(1, 1, "a"), (2, 12, "a"), (3, 9, "b"), (4, 13, "a")])
    found = advice(path, "--delay", "2001 ms", "--delay", "2002 ms")
    assert found["shortest"][0] == {"share": 0.0, "delay_us": 2_002_000}
    of_delay = {one["delay_us"]: one for one in found["delays"]}
    assert [of_delay[us]["rows_dropped"] for us in (0, 2_001_000, 2_002_000)] == [1, 1, 0]
    assert [of_delay[us]["windows_short"] for us in (0, 2_001_000, 2_002_000)] == [1, 1, 0]
    assert (found["rows_counted"], found["windows"]) == (4, 3)


def test_rows_that_the_query_filters_out_move_the_watermark_alone(tmp_path: Path) -> None:
    trace = [(1, 1, "a"), (2, 25, "no"), (3, 9, "no"), (4, 8, "a")]
    found = advice(script(tmp_path, trace, where="WHERE k <> 'no'"))
    assert found["rows_counted"] == 2
    assert found["delays"][0]["rows_dropped"] == 1


def test_allowed_lateness_counts(tmp_path: Path) -> None:
    trace = [(1, 1, "a"), (2, 22, "a"), (3, 9, "a")]
    lateness = "SET 'table.exec.emit.allow-lateness' = '5 s';"
    found = advice(script(tmp_path, trace, settings=lateness))
    assert found["shortest"][0]["delay_us"] == 7_002_000


@pytest.mark.parametrize("options", [(), ("--partition", "k")])
@pytest.mark.parametrize("windows", [TUMBLE, HOP, GAPS, CUMULATE])
def test_outcomes_are_those_of_the_definition(
    tmp_path: Path, windows: str, options: tuple[str, ...]
) -> None:
    trace = delayed(Random(7), 120)
    found = advice(script(tmp_path, trace, windows), "--every", "4 s", *options)
    batches: dict[int, Trace] = {}
    for row in trace:
        batches.setdefault(int(row[0] // 4), []).append(row)
    for outcome in found["delays"]:
        delay = outcome["delay_us"] / 1e6
        expected = defined(list(batches.values()), windows, delay, has_partitions=bool(options))
        assert {name: outcome[name] for name in expected} == expected


def ends_of(windows: str, time: float) -> list[float]:
    """The ends of a row's windows, by definition."""
    bounds = {
        TUMBLE: [(s, s + 10) for s in range(-60, 240, 10)],
        HOP: [(s, s + 20) for s in range(-60, 240, 5)],
        GAPS: [(s, s + 5) for s in range(-60, 240, 20)],
        CUMULATE: [(s, s + n) for s in range(-60, 240, 30) for n in (10, 20, 30)],
    }
    return sorted(end for start, end in bounds[windows] if start <= time < end)


def defined(
    batches: list[Trace], windows: str, delay: float, *, has_partitions: bool
) -> dict[str, Any]:
    """Count the rows that a stream drops and windows miss, row by row."""
    highest, dropped, waits = float("-inf"), 0, []
    of_split: dict[str, float] = {}
    reached = []
    missed: Counter[tuple[str, float]] = Counter()
    rows: Counter[tuple[str, float]] = Counter()
    for batch in batches:
        watermark = highest - delay + 0.001
        for _, time, key in batch:
            ends = ends_of(windows, time)
            rows.update((key, end) for end in ends)
            missed.update((key, end) for end in ends if end <= watermark)
            dropped += bool(ends) and ends[-1] <= watermark
        for _, time, key in batch:
            split = key if has_partitions else ""
            of_split[split] = max(time, of_split.get(split, time))
        highest = max(highest, min(of_split.values()))
        reached.append(highest)
    ends = {end for batch in batches for _, time, _ in batch for end in ends_of(windows, time)}
    for batch, highest in zip(batches, reached, strict=True):
        closed = {end for end in ends if end <= highest - delay + 0.001}
        waits += [batch[-1][0] - end for end in closed]
        ends -= closed
    short = sum(rows[window] for window in missed)
    waits.sort()
    median = waits[-(-len(waits) // 2) - 1] if waits else None
    return {
        "rows_dropped": dropped,
        "windows_short": len(missed),
        "missing_share": pytest.approx(sum(missed.values()) / short if short else 0),
        "wait_us": None if median is None else pytest.approx(median * 1e6, abs=1),
    }


@pytest.mark.parametrize("options", [(), ("--partition", "k")])
def test_sessions_change_as_their_definition_says(tmp_path: Path, options: tuple[str, ...]) -> None:
    trace = [row for row in delayed(Random(9), 200) if row[1] % 9]
    batches: dict[int, Trace] = {}
    for row in trace:
        batches.setdefault(int(row[0] // 4), []).append(row)
    found = advice(script(tmp_path, trace, SESSION), "--every", "4 s", *options)
    whole = [session for rows in by_key(trace).values() for session in cut(rows)]
    assert found["windows"] == len(whole)
    n_dropped = []
    for outcome in found["delays"]:
        delay = outcome["delay_us"] / 1e6
        emitted = sessions_of(list(batches.values()), delay, has_partitions=bool(options))
        changed = [session for session in whole if session not in emitted]
        n_dropped.append(len(trace) - sum(map(len, emitted)))
        assert outcome["rows_dropped"] == n_dropped[-1]
        assert outcome["windows_short"] == len(changed)
        share = n_dropped[-1] / sum(map(len, changed)) if changed else 0
        assert outcome["missing_share"] == pytest.approx(share)
    assert n_dropped[0] and not n_dropped[-1]
    # no shorter delay drops as few
    by_delay = {one["delay_us"]: one["rows_dropped"] for one in found["delays"]}
    for shortest in found["shortest"]:
        n_lost = int(shortest["share"] * len(trace))
        assert by_delay[shortest["delay_us"]] <= n_lost
        delay = (shortest["delay_us"] - 1_000) / 1e6
        emitted = sessions_of(list(batches.values()), delay, has_partitions=bool(options))
        assert len(trace) - sum(map(len, emitted)) > n_lost


def test_a_session_in_parts_changes_without_a_dropped_row(tmp_path: Path) -> None:
    # with 2 s, the second row ends the session of the first, which the third would have joined
    trace = [(1, 1, "a"), (2, 11, "b"), (3, 5.5, "a"), (4, 14, "b")]
    options = ("--delay", "2 s", "--delay", "6 s", "--replay")
    found = advice(script(tmp_path, trace, SESSION), *options)
    of_delay = {one["delay_us"]: one for one in found["delays"]}
    assert [of_delay[us]["rows_dropped"] for us in (0, 2_000_000, 6_000_000)] == [1, 0, 0]
    assert [of_delay[us]["windows_short"] for us in (0, 2_000_000, 6_000_000)] == [1, 1, 0]


def by_key(trace: Trace) -> dict[str, Trace]:
    rows: dict[str, Trace] = {}
    for row in trace:
        rows.setdefault(row[2], []).append(row)
    return rows


def cut(rows: Trace) -> list[set[tuple[float, float, str]]]:
    """Cut the rows of a key into sessions."""
    sessions: list[set[tuple[float, float, str]]] = []
    last = float("-inf")
    for row in sorted(rows, key=lambda row: row[1]):
        if row[1] - last > 5:
            sessions.append(set())
        sessions[-1].add(row)
        last = row[1]
    return sessions


def sessions_of(
    batches: list[Trace], delay: float, *, has_partitions: bool
) -> list[set[tuple[float, float, str]]]:
    """Return the sessions that a stream emits, row by row."""
    highest, emitted = float("-inf"), []
    of_split: dict[str, float] = {}
    open_: Trace = []
    for batch in batches:
        watermark = highest - delay
        sessions = [s for rows in by_key([*open_, *batch]).values() for s in cut(rows)]
        kept = [s for s in sessions if max(row[1] for row in s) + 5 > watermark]
        for _, time, key in batch:
            split = key if has_partitions else ""
            of_split[split] = max(time, of_split.get(split, time))
        highest = max(highest, min(of_split.values()))
        ended = [s for s in kept if max(row[1] for row in s) + 5 <= highest - delay]
        emitted += ended
        open_ = [row for s in kept if s not in ended for row in s]
    return emitted + [s for rows in by_key(open_).values() for s in cut(rows)]


def test_a_partition_that_is_behind_is_named(tmp_path: Path) -> None:
    path = script(tmp_path, sorted(slow_partition(Random(1))))
    found = advice(path, "--partition", "k")
    assert [one["partition"] for one in found["slow_partitions"]] == ["a"]
    assert 25e6 < found["slow_partitions"][0]["behind_us"] < 40e6
    # until its first row comes, the others close windows
    assert found["shortest"][0]["delay_us"] < 20_000_000
    assert advice(path)["shortest"][0]["delay_us"] > 25_000_000


def test_the_peak_of_the_state_is_of_open_slices(tmp_path: Path) -> None:
    # [0 s, 10 s) of a and b are open until 20.999 s arrives, as the delay is 11 s
    trace = [(1, 1, "a"), (2, 2, "b"), (3, 15, "a"), (4, 20.999, "a"), (5, 26, "a")]
    found = advice(script(tmp_path, trace), "--delay", "11 s")
    assert {one["delay_us"]: one["peak_partials"] for one in found["delays"]}[11_000_000] == 3


@pytest.mark.parametrize("windows", [TUMBLE, HOP, CUMULATE, SESSION])
def test_a_replay_drops_the_predicted_rows(tmp_path: Path, windows: str) -> None:
    path = script(tmp_path, delayed(Random(3), 60), windows)
    for options in ((), ("--partition", "k")):
        found = advice(path, "--every", "8 s", "--replay", *options)
        assert found["replays"]
        assert all(one["agrees"] for one in found["replays"])
        assert any(one["dropped"] for one in found["replays"])


def test_a_replay_finds_a_wrong_prediction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dropped = CountedRows.dropped
    monkeypatch.setattr(CountedRows, "dropped", lambda self, delay_us: dropped(self, delay_us)[1:])
    path = script(tmp_path, delayed(Random(3), 60))
    code, out, _ = advise(path, "--arrival", "arrived", "--every", "8 s", "--replay")
    assert code == 1
    assert "were predicted; the first row that differs is row " in out


def steady(random: Random) -> Trace:
    return [(n + random.uniform(0, 4), n, random.choice("abc")) for n in range(200)]


def bursts(random: Random) -> Trace:
    """Nothing for a minute, then all at once."""
    return [(n // 60 * 60 + 61, n + random.uniform(0, 1), "a") for n in range(240)]


def slow_partition(random: Random) -> Trace:
    """One key in four is half a minute behind."""
    return [(n + 30 * (n % 4 == 0) + random.uniform(0, 2), n, "abcd"[n % 4]) for n in range(200)]


def late_uploads(random: Random) -> Trace:
    """Some rows come an hour after their time, together."""
    return [(3_600 if random.random() < 0.1 else n, n, "a") for n in range(200)] + [
        (3_500 + n, 3_500 + n, "b") for n in range(150)
    ]


def clock_skew(random: Random) -> Trace:
    """One device's clock is 40 seconds ahead."""
    return [(n, n + 40 * (n % 5 == 0), "abcde"[n % 5]) for n in range(150)]


def day_of_replay(random: Random) -> Trace:
    """Rows of yesterday arrive again, among rows of today."""
    return [(n, n - 86_400 * (n % 3 == 0), random.choice("ab")) for n in range(120)]


TRACES = [steady, bursts, slow_partition, late_uploads, clock_skew, day_of_replay, None]


@pytest.mark.long
@pytest.mark.parametrize("windows", [TUMBLE, HOP, CUMULATE, SESSION])
@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: getattr(trace, "__name__", "delayed"))
def test_a_replay_of_each_trace_drops_the_predicted_rows(
    tmp_path: Path, trace: Any, windows: str
) -> None:
    random = Random(str(trace))
    rows = sorted(trace(random)) if trace else delayed(random, 300)
    path = script(tmp_path, rows, windows)
    for options in ((), ("--partition", "k")):
        found = advice(path, "--every", "10 s", "--replay", *options)
        assert all(one["agrees"] for one in found["replays"])


@pytest.mark.parametrize(
    "start",
    [
        dt.datetime(2026, 10, 24, 23, tzinfo=dt.UTC),
        dt.datetime(2026, 10, 25, 0, tzinfo=dt.UTC),
        dt.datetime(2026, 3, 29, 0, tzinfo=dt.UTC),
    ],
)
def test_windows_of_a_region_with_clock_changes(tmp_path: Path, start: dt.datetime) -> None:
    """Clocks in Berlin are set back from 3:00 to 2:00, and forward from 2:00 to 3:00."""
    trace = [(a * 60, t * 60, k) for a, t, k in delayed(Random(start.day), 150)]
    zone = "SET 'table.local-time-zone' = 'Europe/Berlin';"
    windows = HOP.replace("SECONDS", "MINUTES")
    path = script(tmp_path, trace, windows, settings=zone, type_="TIMESTAMP_LTZ(6)", start=start)
    found = advice(path, "--every", "10 min", "--replay", "--delay", "5 min")
    assert any(one["dropped"] for one in found["replays"])


def test_the_table_for_people(tmp_path: Path) -> None:
    trace = [(n, n, "a" if n % 4 else "bcdefghi"[n // 4 % 8]) for n in range(40)]
    trace[20] = (20, 200, "b")
    code, out, _ = advise(script(tmp_path, trace), "--arrival", "arrived", "--replay")
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == (
        "t: 40 rows in 40 micro-batches, arrived from 2026-03-01 00:00:00 to 2026-03-01 00:00:39 "
        "UTC; the query counts 40 rows in 14 windows"
    )
    assert "│ windows short of rows │ rows they miss │ results wait (median) │" in lines[1]
    assert [line for line in lines if line.startswith("3 s (now)")]
    watermark = "  WATERMARK FOR `ts` AS `ts` - INTERVAL '170.002' SECOND  -- "
    assert lines[lines.index("The shortest delays:") + 1 :] == [
        f"{watermark}no row is dropped",
        f"{watermark}at most 0.01 % of the rows are dropped",
        f"{watermark}at most 0.1 % of the rows are dropped",
        "Slices of 10 s by k: 14 partials for 40 rows, too many to be worth storing",
        "Time more than a minute after the arrival: 1 row. They make rows after them late; "
        "see 'sqlwin.watermark.max-jump'",
        "75.0% of the rows have k = a",
        "replayed: the stream drops 0 rows with a delay of 2 min 50 s 2 ms, as predicted",
        "replayed: the stream drops 19 rows with a delay of 3 s, as predicted",
    ]


@pytest.mark.parametrize(
    ("query", "options", "error"),
    [
        ("", (), "the script has no query"),
        ("SELECT ts FROM t", ("--arrival", "arrived"), "it has no windows that are aggregated"),
        ("gaps", ("--arrival", "arrived"), "the rows of its sessions have gaps of their own"),
        (
            "session",
            ("--arrival", "arrived", "--set", "table.exec.emit.allow-lateness=1 s"),
            "sessions with allowed lateness are emitted again",
        ),
        ("tumble", ("--arrival", "k"), "column `k` is string, not the time at which a row arrived"),
        ("tumble", ("--arrival", "nope"), "column `nope` does not exist"),
        ("tumble", ("--arrival", "never"), "`never`, the time of arrival, is NULL in 1 row"),
        (
            "tumble",
            ("--arrival", "arrived", "--set", "sqlwin.watermark.max-jump=1 h"),
            "'sqlwin.watermark.max-jump' holds the watermark back",
        ),
        (
            "tumble",
            ("--arrival", "arrived", "--set", "sqlwin.watermark.idle-advance=30 s"),
            "the clock of the machine advances the watermark",
        ),
        ("joined", ("--arrival", "arrived"), "it has several windows over rows of tables"),
        ("clock", ("--arrival", "arrived"), "its rows depend on the time or the watermark of a"),
        ("empty", ("--arrival", "arrived"), "t has no rows"),
        ("tumble", ("--every", "soon"), "a duration such as 10 s, 1 min or 500 ms"),
        ("tumble", ("--every", "36501 d"), "'every' is too long: 36501 d"),
        ("tumble", ("--delay", "1 s", "--delay", "9999999999 d"), "'delay' is too long: 99"),
        ("ADVISE WITH ('every' = '1 s')", (), "ADVISE requires a query"),
        ("ADVISE WITH ('Arrival' = ' ') SELECT 1", (), "option 'Arrival' of ADVISE has no value"),
        ("ADVISE WITH ('late' = '1 s') SELECT 1", (), "ADVISE has no option 'late'"),
    ],
)
def test_errors_say_what_to_change(
    tmp_path: Path, query: str, options: tuple[str, ...], error: str
) -> None:
    path = Path(script(tmp_path, [(1, 1, "a")]))
    table, tumble = path.read_text().split(";", 1)
    more = "clock AS PROCTIME()" if query == "clock" else "never AS CAST(NULL AS TIMESTAMP(3))"
    table = table.replace("k STRING", f"k STRING, {more}")
    tumble = tumble.strip().rstrip(";")
    if query == "empty":
        file = tmp_path / "t.parquet"
        pq.write_table(pq.read_table(file).slice(0, 0), file)
    queries = {
        "tumble": tumble,
        "empty": tumble,
        "session": tumble.replace(TUMBLE, "SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECONDS)"),
        "gaps": tumble.replace(
            TUMBLE,
            "SESSION(TABLE t, DESCRIPTOR(ts), CASE k WHEN 'a' THEN INTERVAL '5' SECONDS END)",
        ),
        "clock": tumble.replace("DESCRIPTOR(ts)", "DESCRIPTOR(clock)"),
        "joined": f"SELECT a.k, a.n FROM ({tumble}) AS a JOIN ({tumble}) AS b ON a.k = b.k "
        "AND a.window_start = b.window_start AND a.window_end = b.window_end",
    }
    path.write_text(f"{table};{queries.get(query, query)};")
    code, _, err = advise(str(path), *options)
    assert code
    assert error in err
    assert "Traceback" not in err


def test_the_statement_returns_the_advice_as_rows(tmp_path: Path) -> None:
    trace = [(n, n // 2, "a") for n in range(40)]
    text = Path(script(tmp_path, trace)).read_text()
    table, query, _ = text.replace("TABLE t", "TABLE `a.t`").split(";")
    with sqlwin.connect() as session:
        session.execute(f"{table}; SET 'execution.runtime-mode' = 'streaming'")
        (result,) = session.execute(f"ADVISE WITH ('Arrival' = 'arrived', 'delay' = '7 s') {query}")
        (tables,) = session.execute("SHOW TABLES")
    rows = {row.pop("delay"): row for row in result.to_arrow().to_pylist()}
    found = advice(str(tmp_path / "q.sql"), "--delay", "7 s")
    assert list(rows)[:5] == ["0 ms", "1 s", "3 s (now)", "5 s", "7 s"]
    assert [row["rows_dropped"] for row in rows.values()] == [
        one["rows_dropped"] for one in found["delays"]
    ]
    assert (rows["0 ms"]["windows_short"], rows["0 ms"]["wait_seconds"]) == (0, 10.0)
    assert result.statement_notes[-1] == (
        "Slices of 10 s by k: 2 partials for 40 rows. A materialized table of them answers all "
        "windows that consist of such slices from 5.00% of the rows"
    )
    assert tables.to_arrow().num_rows == 1


def test_a_chart_has_a_bar_per_delay(tmp_path: Path) -> None:
    path = script(tmp_path, [(1, 1, "a"), (2, 12, "a"), (3, 9, "b"), (4, 13, "a")])
    code, out, _ = advise(path, "--arrival", "arrived", "--format", "chart")
    assert code == 0
    titles = ["rows_dropped", "windows_short", "missing_share", "wait_seconds"]
    assert [line.strip() for line in out.splitlines() if line.strip() in titles] == titles


def test_the_page_has_the_table_the_lines_and_a_chart_per_figure(tmp_path: Path) -> None:
    path = script(tmp_path, [(1, 1, "<a>"), (2, 12, "<a>"), (3, 9, "b"), (4, 13, "<a>")])
    code, out, _ = advise(path, "--arrival", "arrived", "--format", "html", "--replay")
    assert code == 0
    titles = ["rows dropped", "windows short of rows", "partials in state"]
    assert [title for title in titles if f'aria-label="{title}"' in out] == titles
    assert "<td" in out and "WATERMARK FOR `ts`" in out and "as predicted" in out
    assert not re.search(r"<!--|<a>|<link|src=|url\(", out)


def test_rows_that_arrive_together_tell_nothing(tmp_path: Path) -> None:
    path = script(tmp_path, [(1, 12, "a"), (1, 1, "a")])
    code, out, _ = advise(path, "--arrival", "arrived")
    assert code == 0
    assert "2 rows in 1 micro-batch, arrived" in out
    assert "All rows arrived in one micro-batch, so no delay drops any: name the column" in out


def test_processing_time_that_no_window_reads_does_not_matter(tmp_path: Path) -> None:
    path = Path(script(tmp_path, delayed(Random(3), 60)))
    text = path.read_text().replace("k STRING,", "k STRING, clock AS PROCTIME(),")
    path.write_text(text)
    found = advice(str(path), "--every", "8 s", "--replay")
    assert any(one["dropped"] for one in found["replays"])
    assert all(one["agrees"] for one in found["replays"])
    path.write_text(text.replace("GROUP BY", "WHERE clock > TO_TIMESTAMP_LTZ(0, 3) GROUP BY"))
    code, _, err = advise(str(path), "--arrival", "arrived")
    assert code
    assert "its rows depend on the time or the watermark of a micro-batch" in err


@pytest.mark.usefixtures("commands")
def test_a_table_whose_connector_knows_no_arrival_names_the_option(tmp_path: Path) -> None:
    path = tmp_path / "q.sql"
    path.write_text("""
        CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
        WITH ('connector' = 'datagen', 'number-of-rows' = '5');
        SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))
        GROUP BY window_start, window_end;
    """)
    code, _, err = advise(str(path))
    assert code
    assert "the connector of t does not know when a row arrived" in err
    assert "--arrival COLUMN" in err


@pytest.mark.long
@pytest.mark.usefixtures("commands")
def test_files_arrive_when_they_are_modified(tmp_path: Path) -> None:
    for number, seconds in enumerate([(1, 2), (12, 13), (9, 14)]):
        path = tmp_path / "in" / f"{9 - number}.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"2026-03-01 00:00:{second:02d}\n" for second in seconds))
        os.utime(path, (START.timestamp() + 10 * number,) * 2)
    script_path = tmp_path / "q.sql"
    script_path.write_text(f"""
        CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
        WITH ('connector' = 'FileSystem', 'path' = '{tmp_path}/in', 'format' = 'csv');
        SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
        GROUP BY window_start, window_end;
    """)
    code, out, err = advise(str(script_path), "--format", "json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["rows"], found["micro_batches"]) == (6, 3)
    assert found["shortest"][0]["delay_us"] == 3_002_000


@pytest.mark.long
@pytest.mark.usefixtures("commands")
def test_messages_arrive_at_their_timestamps_in_their_partitions(
    tmp_path: Path, broker: Broker
) -> None:
    for partition, seconds in enumerate([range(40), range(0, 30, 10)]):
        times = (str(START + SECOND * second) for second in seconds)
        broker.send("advised", (f'{{"ts": "{time}"}}'.encode() for time in times), partition)
    path = tmp_path / "q.sql"
    path.write_text(f"""
        CREATE TABLE advised (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH (
          'connector' = 'kafka', 'topic' = 'advised', 'format' = 'json',
          'scan.startup.mode' = 'earliest-offset',
          'properties.bootstrap.servers' = '{broker.address}');
        SELECT window_end, COUNT(*) AS n
        FROM TABLE(TUMBLE(TABLE advised, DESCRIPTOR(ts), INTERVAL '10' SECONDS))
        GROUP BY window_start, window_end;
    """)
    code, out, err = advise(str(path), "--format", "json", "--every", "1 h")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["rows_counted"], found["windows"]) == (43, 4)
    assert found["delays"][0]["rows_dropped"] == 0
    (slow,) = found["slow_partitions"]
    assert (slow["partition"], slow["behind_us"]) == ("1", 19_000_000)
