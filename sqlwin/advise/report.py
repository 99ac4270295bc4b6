"""An advice as tables and lines of SQL for people, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from rich.console import Console

from runtime.names import quote_name
from runtime.simulator.delays.aligned import CountedRows
from runtime.spec.figures import count_text, seconds_text, wall_clock_text
from runtime.windows.intervals import render_duration
from sqlwin.advise.advice import SHARES, Advice, Replay
from sqlwin.display.table import print_table

_COLUMNS = (
    *("delay", "rows dropped", "windows short of rows", "rows they miss"),
    *("results wait (median)", "(99 %)", "partials in state"),
)
_SECOND_US = 1_000_000
# Rows of a partial from which slices are worth storing
_WORTH_STORING = 4
# Columns of ADVISE
_RESULT = pa.schema(
    [
        ("delay", pa.string()),
        ("rows_dropped", pa.int64()),
        ("windows_short", pa.int64()),
        ("missing_share", pa.float64()),
        ("wait_seconds", pa.float64()),
        ("wait_99_seconds", pa.float64()),
        ("peak_partials", pa.int64()),
    ]
)


def print_advice(advice: Advice, replays: Sequence[Replay], console: Console) -> None:
    """Print an advice for people."""
    console.print(_heading(advice), soft_wrap=True)
    print_table(_COLUMNS, [advice_table(advice)], console, null="", max_rows=None)
    for line in _lines(advice):
        console.print(line, soft_wrap=True)
    for one in replays:
        console.print(replay_text(one), soft_wrap=True)


def advice_result(advice: Advice) -> tuple[pa.Table, tuple[str, ...]]:
    """Return an advice as rows with numbers, one per delay, and lines for people."""
    rows = [
        {
            "delay": _delay(outcome.delay_us, advice),
            "rows_dropped": outcome.n_dropped,
            "windows_short": outcome.n_short,
            "missing_share": outcome.missing_share,
            "wait_seconds": outcome.waits_us and outcome.waits_us[0] / _SECOND_US,
            "wait_99_seconds": outcome.waits_us and outcome.waits_us[1] / _SECOND_US,
            "peak_partials": outcome.peak_partials,
        }
        for outcome in advice.outcomes
    ]
    return pa.Table.from_pylist(rows, _RESULT), (_heading(advice), *_lines(advice))


def advice_as_json(advice: Advice, replays: Sequence[Replay]) -> dict[str, object]:
    """Return an advice with times in microseconds, for `json.dumps`."""
    arrivals, counted = advice.arrivals, advice.counted
    return {
        "table": arrivals.table,
        "rows": arrivals.rows.num_rows,
        "micro_batches": len(arrivals.arrived_us),
        "rows_counted": len(counted.number),
        "windows": counted.n_windows,
        "delay_us": advice.current_us,
        "shortest": [
            {"share": share, "delay_us": delay_us}
            for share, delay_us in zip(SHARES, advice.shortest_us, strict=True)
        ],
        "delays": [
            {
                "delay_us": outcome.delay_us,
                "rows_dropped": outcome.n_dropped,
                "windows_short": outcome.n_short,
                "missing_share": outcome.missing_share,
                "wait_us": None if outcome.waits_us is None else outcome.waits_us[0],
                "wait_99_us": None if outcome.waits_us is None else outcome.waits_us[1],
                "peak_partials": outcome.peak_partials,
            }
            for outcome in advice.outcomes
        ],
        "rows_ahead": counted.n_ahead,
        "slow_partitions": [
            {"partition": str(split), "behind_us": median_us, "behind_most_us": most_us}
            for split, median_us, most_us in advice.slow_partitions
        ],
        "large_keys": [
            {"key": {name: str(value) for name, value in key.items()}, "share": share}
            for key, share in advice.large_keys
        ],
        "replays": [
            {
                "delay_us": one.delay_us,
                "predicted": len(one.predicted),
                "dropped": len(one.dropped),
                "agrees": one.agrees,
            }
            for one in replays
        ],
    }


def _heading(advice: Advice) -> str:
    arrivals, counted = advice.arrivals, advice.counted
    first, last = (wall_clock_text(int(arrivals.arrived_us[place])) for place in (0, -1))
    return (
        f"{arrivals.table}: {count_text(arrivals.rows.num_rows, 'rows')} in "
        f"{_batches(len(arrivals.arrived_us))}, arrived from {first} to {last} "
        f"UTC; the query counts {count_text(len(counted.number), 'rows')} in "
        f"{count_text(counted.n_windows, 'windows')}"
    )


def _delay(delay_us: int, advice: Advice) -> str:
    return render_duration(delay_us) + " (now)" * (delay_us == advice.current_us)


def advice_table(advice: Advice) -> pa.RecordBatch:
    """Return an advice as a table of texts, a row per delay."""
    counted = advice.counted
    rows = [
        (
            _delay(outcome.delay_us, advice),
            _part(outcome.n_dropped, len(counted.number)),
            _part(outcome.n_short, counted.n_windows),
            f"{outcome.missing_share:.2%}" if outcome.n_short else None,
            *((None, None) if outcome.waits_us is None else map(_wait, outcome.waits_us)),
            f"{outcome.peak_partials:,}",
        )
        for outcome in advice.outcomes
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, pa.string()) for column in zip(*rows, strict=True)], names=_COLUMNS
    )


def _lines(advice: Advice) -> Iterator[str]:
    """Yield the shortest delays as SQL, rows with future times, and large group keys."""
    time = quote_name(advice.arrivals.time)
    yield "The shortest delays:"
    for share, delay_us in zip(SHARES, advice.shortest_us, strict=True):
        what = f"at most {share * 100:g} % of the rows are" if share else "no row is"
        seconds = f"{delay_us // _SECOND_US}.{delay_us % _SECOND_US // 1_000:03d}"
        interval = f"INTERVAL '{seconds.removesuffix('.000')}' SECOND"
        yield f"  WATERMARK FOR {time} AS {time} - {interval}  -- {what} dropped"
    if len(advice.arrivals.arrived_us) == 1:
        yield (
            "All rows arrived in one micro-batch, so no delay drops any: name the column with the "
            "time at which they arrived, or choose a shorter time between micro-batches"
        )
    if isinstance(advice.counted, CountedRows):
        yield _slices(advice.counted)
    if advice.counted.n_ahead:
        n_ahead = count_text(advice.counted.n_ahead, "rows")
        yield (
            f"Time more than a minute after the arrival: {n_ahead}. They make rows after "
            "them late; see 'sqlwin.watermark.max-jump'"
        )
    for split, median_us, most_us in advice.slow_partitions:
        yield (
            f"Partition {split} holds the watermark back: it is {_wait(median_us)} behind the "
            f"furthest one (median), at most {_wait(most_us)}"
        )
    for key, share in advice.large_keys:
        values = ", ".join(f"{name} = {value}" for name, value in key.items())
        yield f"{share:.1%} of the rows have {values}"


def _slices(counted: CountedRows) -> str:
    """Return whether the slices are worth storing."""
    n_rows, n_partials = len(counted.number), counted.n_partials
    keys = f" by {', '.join(counted.keys)}" if counted.keys else ""
    text = (
        f"Slices of {counted.slices}{keys}: {count_text(n_partials, 'partials')} for "
        f"{count_text(n_rows, 'rows')}"
    )
    if n_rows < _WORTH_STORING * n_partials:
        return f"{text}, too many to be worth storing"
    return (
        f"{text}. A materialized table of them answers all windows that consist of such slices "
        f"from {n_partials / n_rows:.2%} of the rows"
    )


def _batches(number: int) -> str:
    return "1 micro-batch" if number == 1 else f"{number:,} micro-batches"


def replay_text(one: Replay) -> str:
    """Return whether a stream drops the rows that were predicted."""
    delay = render_duration(one.delay_us)
    dropped = f"the stream drops {count_text(len(one.dropped), 'rows')} with a delay of {delay}"
    if one.agrees:
        return f"replayed: {dropped}, as predicted"
    missing = sorted(set(one.predicted) ^ set(one.dropped))
    return (
        f"replayed: {dropped}, and {len(one.predicted):,} were predicted; the first row that "
        f"differs is row {missing[0] + 1} in the order of arrival"
    )


def _part(number: int, of: int) -> str:
    return f"{number:,} ({number / of:.2%})" if number else "0"


def _wait(us: int) -> str:
    return f"{'-' * (us < 0)}{seconds_text(abs(us) / _SECOND_US)}"
