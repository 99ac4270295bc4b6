"""An advice as tables and lines of SQL for people, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from rich.console import Console

from runtime.names import quote_name
from runtime.spec.figures import count_text, seconds_text, wall_clock_text
from runtime.windows.intervals import render_duration
from sqlwin.advise.advice import SHARES, Advice, Replay
from sqlwin.display.table import print_table

_COLUMNS = (
    *("delay", "rows dropped", "windows short of rows", "rows they miss"),
    *("results wait (median)", "(99 %)", "partials in state"),
)
_SECOND_US = 1_000_000


def print_advice(advice: Advice, replays: Sequence[Replay], console: Console) -> None:
    """Print an advice for people."""
    arrivals, counted = advice.arrivals, advice.counted
    first, last = (wall_clock_text(int(arrivals.arrived_us[place])) for place in (0, -1))
    console.print(
        f"{arrivals.table}: {count_text(arrivals.rows.num_rows, 'rows')} in "
        f"{count_text(len(arrivals.arrived_us), 'micro-batches')}, arrived from {first} to {last} "
        f"UTC; the query counts {count_text(len(counted.number), 'rows')} in "
        f"{count_text(counted.n_windows, 'windows')}",
        soft_wrap=True,
    )
    print_table(_COLUMNS, [_table(advice)], console, null="", max_rows=None)
    for line in _lines(advice):
        console.print(line, soft_wrap=True)
    for one in replays:
        console.print(_replay_text(one), soft_wrap=True)


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


def _table(advice: Advice) -> pa.RecordBatch:
    counted = advice.counted
    rows = [
        (
            render_duration(outcome.delay_us) + " (now)" * (outcome.delay_us == advice.current_us),
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


def _replay_text(one: Replay) -> str:
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
