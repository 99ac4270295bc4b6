"""Window table functions outside an aggregation: copy each row once per window it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.frames.wall_clock import timestamp_ntz_sql, wall_clock_us_sql
from runtime.names import quote_name
from runtime.plan.arrow_rows import WindowedRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def expand(spark: SparkSession, step: WindowedRows, source: str) -> DataFrame:
    """Return the relation `source` with the window columns."""
    sql, helpers = _expand_sql(step, source)
    # Spark 3.5 has no SELECT * EXCEPT
    return spark.sql(sql).drop(*helpers)


def _expand_sql(step: WindowedRows, source: str) -> tuple[str, list[str]]:
    """Return Spark SQL that adds the window columns, and the names of columns to drop."""
    time_us = wall_clock_us_sql(step.time_column, step.time_type)
    end = quote_name("$window_end_us")
    rows = f"SELECT *, {time_us} AS {quote_name('$time_us')} FROM {source}"
    rows += f" WHERE {quote_name(step.time_column)} IS NOT NULL"
    start = quote_name("$window_start_us")
    helpers = ["$time_us", "$window_end_us"]
    if not step.window.has_slices:
        window = step.window
        by = ", ".join(map(quote_name, window.partition))
        time = quote_name("$time_us")
        last = time
        if window.row_length is not None:
            last = f"{time} + {quote_name(window.row_length)}"
            helpers.append(window.row_length)
        expanded = _session_bounds_sql(window.gap_us, by, f"({rows})", (time, last), start, end)
        helpers += ["$window_start_us", "$begins"]
    elif step.window.tiles:
        assigner = step.window.assigner()
        start = f"({assigner.window_start_sql(end)})"
        expanded = (
            f"SELECT *, {assigner.slice_end_sql(quote_name('$time_us'))} AS {end} FROM ({rows})"
        )
    else:
        assigner = step.window.assigner()
        start = f"({assigner.window_start_sql(end)})"
        ends = assigner.window_ends_sql(quote_name("$time_us"))
        expanded = f"SELECT *, EXPLODE({ends}) AS {end} FROM ({rows})"
    window_end = timestamp_ntz_sql(end)
    names = [quote_name(name) for name in step.names]
    window_time = f"{window_end} - INTERVAL '0.001' SECOND"
    sql = (
        "SELECT *, "
        f"{timestamp_ntz_sql(f'({start})')} AS {names[0]}, {window_end} AS {names[1]}, "
        f"CAST({window_time} AS {step.time_type}) AS {names[2]} "
        f"FROM ({expanded})"
    )
    return sql, helpers


def _session_bounds_sql(
    gap_us: int, partition: str, source: str, times: tuple[str, str], start: str, end: str
) -> str:
    """Return Spark SQL that adds the bounds of each row's session, and `$begins`, to a relation.

        gap 10, rows at      0    7      18     28                 45
                             [----|----------)  [------------------)
                                                18 and 28 lie exactly the gap apart: one session

    A session starts at its first row and ends the gap after its last, in int64 microseconds on the
    wall clock of the windows. A single sort by partition and time serves all window functions in
    it.

    Args:
        gap_us: Gap.
        partition: Columns of PARTITION BY as SQL; may be empty.
        source: Relation: a name or a query in parentheses.
        times: BIGINT column of times, and expression of the time up to which a row reaches; both
            are never NULL.
        start: Name of the added BIGINT column with the first time of the session.
        end: Name of the added BIGINT column with the last time of the session plus the gap.
    """
    by = f"PARTITION BY {partition} " if partition else ""
    of_session = f"PARTITION BY {partition}, {start}" if partition else f"PARTITION BY {start}"
    time_us, last_us = times
    before = (
        f"MAX({last_us}) OVER ({by}ORDER BY {time_us} ROWS BETWEEN UNBOUNDED PRECEDING "
        "AND 1 PRECEDING)"
        if last_us != time_us
        else f"LAG({time_us}) OVER ({by}ORDER BY {time_us})"
    )
    begins = (
        f"SELECT *, CASE WHEN {time_us} - {before} <= {gap_us}L THEN NULL "
        f"ELSE {time_us} END AS `$begins` FROM {source}"
    )
    # Times ascend, so the maximum start so far is the start of the current session.
    started = (
        f"SELECT *, MAX(`$begins`) OVER ({by}ORDER BY {time_us} "
        f"ROWS UNBOUNDED PRECEDING) AS {start} FROM ({begins})"
    )
    last = f"MAX({last_us}) OVER ({of_session})"
    return f"SELECT *, {last} + {gap_us}L AS {end} FROM ({started})"
