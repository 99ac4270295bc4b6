"""Relations that `runtime.definition` computes row by row, by the definition of the semantics.

Other nodes of such a tree are relations of `runtime.spec.in_process.relations`: given rows, rows in
the query, projections, unions, ranks and joins.
"""

from __future__ import annotations

from dataclasses import dataclass

from runtime.spec.in_process.relations import AssignedRows, Rows
from runtime.spec.steps import VersionJoining
from runtime.spec.table import Column


@dataclass(frozen=True)
class RowsInWindows(AssignedRows):
    """Rows in windows of any kind, computed by the definition of the semantics."""


@dataclass(frozen=True)
class DefinedVersions(Rows):
    """Rows, each with the version of its key that holds at its time; see `VersionJoining`.

    Attributes:
        input: Rows and versions.
        versions: Columns of the input.
        columns: Columns of the result.
    """

    input: Rows
    versions: VersionJoining
    columns: tuple[str, ...]

    @property
    def inputs(self) -> tuple[Rows, ...]:
        """The relation with rows and versions."""
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
