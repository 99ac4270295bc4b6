"""Relations that `runtime.definition` computes row by row, by the definition of the semantics.

Other nodes of such a tree are relations of `runtime.plan.arrow_rows`: given rows, rows in
the query, projections, unions, ranks and joins.
"""

from __future__ import annotations

from dataclasses import dataclass

from runtime.plan.nodes import PlanNode
from runtime.spec.filling import VersionJoining
from runtime.spec.table import Column


@dataclass(frozen=True)
class DefinedVersions(PlanNode):
    """Rows, each with the version of its key that holds at its time; see `VersionJoining`.

    Attributes:
        input: Rows and versions.
        versions: Columns of the input.
        columns: Columns of the result.
    """

    input: PlanNode
    versions: VersionJoining
    columns: tuple[str, ...]


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
class DefinedGroups(PlanNode):
    """GROUP BY: one row per combination of keys, with the results of the calls.

    Attributes:
        input: Relation with the keys and the columns that the calls read.
        keys: Keys.
        calls: Calls.
    """

    input: PlanNode
    keys: tuple[str, ...]
    calls: tuple[DefinedCall, ...]
