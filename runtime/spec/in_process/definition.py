"""Relations that `runtime.definition` computes row by row, by the definition of the semantics.

Other nodes of such a tree are relations of `runtime.spec.in_process.relations`: given rows, rows in
the query, projections, unions, ranks and joins.
"""

from __future__ import annotations

from dataclasses import dataclass

from runtime.spec.in_process.relations import Rows
from runtime.spec.table import Column
from runtime.spec.windows import Window


@dataclass(frozen=True)
class RowsInWindows(Rows):
    """Each row once per window that contains it; rows without a time are dropped.

    Adds three columns: start and end of the window as TIMESTAMP_NTZ, and its end minus a
    millisecond.

    Attributes:
        input: Relation.
        window: Window.
        time_column: Time column.
        time_type: `timestamp_ntz` or `timestamp`.
        time_zone: Session time zone, for the wall clock on which a `timestamp` is in windows.
        names: Names of the added columns.
    """

    input: Rows
    window: Window
    time_column: str
    time_type: str
    time_zone: str
    names: tuple[str, str, str]

    @property
    def inputs(self) -> tuple[Rows, ...]:
        """The relation whose rows are in windows."""
        return (self.input,)


@dataclass(frozen=True)
class DefinedCall:
    """An aggregate call over the rows of a group.

    Attributes:
        column: Result column.
        function: Name of the function in upper case.
        args: Columns with the arguments. Empty for COUNT(*).
        condition: Column with the condition of FILTER. None: all rows.
        order: Column by which FIRST and LAST choose a row. None for other functions.
        is_distinct: Whether equal arguments count once.
    """

    column: Column
    function: str
    args: tuple[str, ...]
    condition: str | None
    order: str | None
    is_distinct: bool


@dataclass(frozen=True)
class DefinedGroups(Rows):
    """GROUP BY: one row per combination of keys, with the results of the calls.

    Attributes:
        input: Relation with the keys and the columns that the calls read.
        keys: Keys.
        calls: Calls.
    """

    input: Rows
    keys: tuple[str, ...]
    calls: tuple[DefinedCall, ...]

    @property
    def inputs(self) -> tuple[Rows, ...]:
        """The relation that is grouped."""
        return (self.input,)


# Aggregates that `runtime.definition.aggregates` computes
DEFINED_AGGREGATES = frozenset(
    """
    ANY ANY_VALUE AVG BIT_AND BIT_OR BIT_XOR BOOL_AND BOOL_OR COUNT COUNT_IF EVERY FIRST FIRST_VALUE
    LAST LAST_VALUE MAX MAX_BY MEAN MIN MIN_BY SOME STDDEV STDDEV_POP STDDEV_SAMP SUM VARIANCE
    VAR_POP VAR_SAMP
    """.split()
)
