"""What the planner hands to the runtime for streams, beside what `runtime.spec` has.

Rows of a stream carry, beside their own columns, the watermark in band, under the names below. So
a row that a filter drops, and a row that only tells how far an operator has got, still tells it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.spec import Step, Window, WindowAggregation

if TYPE_CHECKING:
    from runtime.user_aggregates import Aggregate

# FALSE in a row that brings nothing but its watermark; all its other columns may be NULL.
KEEP = "$keep"
# INT: the source whose watermark a row has.
SOURCE = "$source"
# BIGINT microseconds: the row's watermark on the clock of its source; NULL where there is none.
WATERMARK = "$watermark"
# BIGINT microseconds on the windows' clock; NULL in a row without a time.
TIME = "$time_us"
# The kind of change of a result that can be put out again: +I, -U, +U.
ROW_KIND = "$row_kind"


@dataclass(frozen=True)
class StreamSource:
    """A source of watermarks.

    Attributes:
        name: the table, for messages.
        time_type: `timestamp`, if its watermarks are instants; `timestamp_ntz`, if they are on the
            wall clock; `proctime`, if its rows' time is the clock's when they are processed.
    """

    name: str
    time_type: str


@dataclass(frozen=True)
class StreamPartial:
    """The partial columns of one accumulator, aggregated from rows.

    Attributes:
        function: as in `runtime.spec.ArrowPartial`.
        args: Spark SQL of the arguments.
        condition: Spark SQL of the FILTER; rows where it is not TRUE do not take part.
        columns: the names of the partial columns.
        user: the aggregate itself, where `function` is `user`.
    """

    function: str
    args: tuple[str, ...]
    condition: str | None
    columns: tuple[str, ...]
    user: Aggregate | None = None


@dataclass(frozen=True)
class StreamLocalStep:
    """Rows of a micro-batch to partials and to watermarks.

    Attributes:
        input: rows with KEEP, SOURCE and WATERMARK beside their own columns.
        sources: the sources, by the number that SOURCE has.
        window: the window.
        time_column: the column that windows are computed on.
        time_type: `timestamp_ntz` or `timestamp`.
        keys: name and Spark SQL of each group key.
        partials: the accumulators' partial columns.
        slice_end: the name of the slice end column.
        time_zone: the zone on whose wall clock the windows of instants are.
        is_cascade: whether the input is another window operator, whose rows tell the watermark.
    """

    input: Step
    sources: tuple[StreamSource, ...]
    window: Window
    time_column: str
    time_type: str
    keys: tuple[tuple[str, str], ...]
    partials: tuple[StreamPartial, ...]
    slice_end: str
    time_zone: str
    is_cascade: bool = False


@dataclass(frozen=True)
class StreamWindowStep:
    """The window operator: partials into state, windows out as the watermark passes their ends.

    Its rows are keys, window start and end, merged columns, and KEEP, SOURCE, WATERMARK; with
    KEEP = FALSE one row a key group and micro-batch that tells the operator's watermark.

    Attributes:
        input: the local stage.
        aggregation: what is merged.
        number: tells the operators of a query apart, from 0 in the order of the data's way.
    """

    input: StreamLocalStep
    aggregation: WindowAggregation
    number: int
