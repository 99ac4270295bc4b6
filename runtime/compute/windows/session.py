"""SESSION windows: rows of a partition that follow each other within the gap, as Spark SQL.

    gap 10, rows at      0    7      18     28                 45
                         [----|----------)  [------------------)
                                            18 and 28 lie exactly the gap apart: one session

A session begins with its first row and ends the gap after its last. All times are int64
microseconds on the wall clock of windows, which for a TIMESTAMP_LTZ column is the local wall clock.
"""

from __future__ import annotations

from runtime.names import quoted
from runtime.spec.windows import SessionWindow


def session_bounds_sql(
    window: SessionWindow, source: str, time_us: str, start: str, end: str
) -> str:
    """Spark SQL that adds the bounds of each row's session to a relation.

    One sort by partition and time serves all window functions in it.

    Args:
        window: the window.
        source: the relation, in parentheses or a name.
        time_us: the BIGINT column with the times, never NULL.
        start: the name of the new BIGINT column with the first time of the session.
        end: the name of the new BIGINT column with the last time of the session plus the gap.
    """
    partition = ", ".join(map(quoted, window.partition))
    by = f"PARTITION BY {partition} " if partition else ""
    of_session = f"PARTITION BY {partition}, {start}" if partition else f"PARTITION BY {start}"
    before = f"LAG({time_us}) OVER ({by}ORDER BY {time_us})"
    begins = (
        f"SELECT *, CASE WHEN {time_us} - {before} <= {window.gap_us}L THEN NULL "
        f"ELSE {time_us} END AS `$begins` FROM {source}"
    )
    # Times ascend, so the largest beginning so far is that of the session at hand.
    started = (
        f"SELECT * EXCEPT (`$begins`), MAX(`$begins`) OVER ({by}ORDER BY {time_us} "
        f"ROWS UNBOUNDED PRECEDING) AS {start} FROM ({begins})"
    )
    last = f"MAX({time_us}) OVER ({of_session})"
    return f"SELECT *, {last} + {window.gap_us}L AS {end} FROM ({started})"
