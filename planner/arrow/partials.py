"""Partials of the local stage as the Arrow scan computes them, or the reason why it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from planner.aggregates.partial_calls import partial_calls
from planner.arrow.calls import refuse
from planner.arrow.scan_rows import RowsOfScan, rows_of_scan
from planner.arrow.types import decimal_digits, is_numeric
from planner.catalog import Catalog, Schema
from planner.nodes.aggregate_plans import AggregatePlan
from planner.nodes.logical import NamedExpr, Node
from planner.sql.build import column
from runtime.spec.aggregates import CollectRegisters, Merge, MergeOp, Summaries, UserDefined
from runtime.spec.expressions import Call, ColumnRef, Constant, Expression, column_refs
from runtime.spec.local import PartialColumns
from runtime.spec.table import Column

_MOST_LONG_DIGITS = 18


@dataclass(frozen=True)
class LocalExpressions:
    """What a local window aggregate evaluates, over the columns of a table.

    Attributes:
        rows: the rows that it aggregates, and their conditions.
        keys: name and expression of each group key.
        partials: the partials of its accumulators.
        time: the time column.
    """

    rows: RowsOfScan
    keys: tuple[tuple[str, Expression], ...]
    partials: tuple[PartialColumns[Expression], ...]
    time: Expression

    @property
    def read(self) -> tuple[Expression, ...]:
        """All expressions."""
        found = [*self.rows.filters, *(key for _, key in self.keys), self.time]
        for partial in self.partials:
            found += [*partial.args, *([partial.condition] if partial.condition else [])]
        return tuple(found)

    @property
    def columns(self) -> Schema:
        """The columns of the files that they read, or fields of them, in the table's order."""
        places = {name: place for place, name in enumerate(self.rows.of_table)}

        def order(ref: ColumnRef) -> tuple[int, str]:
            return places[ref.name.partition(".")[0].lower()], ref.name

        found = {each for expression in self.read for each in column_refs(expression)}
        return tuple(Column(ref.name, ref.type) for ref in sorted(found, key=order))


def local_expressions(
    node: Node,
    keys: Sequence[NamedExpr],
    plans: tuple[AggregatePlan, ...],
    time_column: str,
    catalog: Catalog,
    time_zone: str,
) -> LocalExpressions:
    """What a local window aggregate evaluates of the rows of `node`.

    Args:
        node: its input.
        keys: the group keys.
        plans: the aggregates in two phases.
        time_column: the column that windows are on.
        catalog: knows computed columns.
        time_zone: the session's.

    Raises:
        NotEvaluated: Arrow does not evaluate it; the text says why.
    """
    rows = rows_of_scan(node, catalog, time_zone)
    found = tuple((key.name, rows.expression(key.expr)) for key in keys)
    time = rows.expression(column(time_column))
    return LocalExpressions(rows, found, arrow_partials(plans, rows), time)


def arrow_partials(
    plans: tuple[AggregatePlan, ...], rows: RowsOfScan
) -> tuple[PartialColumns[Expression], ...]:
    """The partials of all accumulators over some rows, as `partial_calls` has them.

    Raises:
        NotEvaluated: Catalyst has to compute one; the text says why.
    """
    return tuple(_arrow_partial(call, rows) for call in partial_calls(plans))


def _arrow_partial(call: PartialColumns[exp.Expr], rows: RowsOfScan) -> PartialColumns[Expression]:
    into = call.into
    if isinstance(into, UserDefined | Summaries):
        refuse(f"{call.text} is not computed by the scan")
    args = tuple(map(rows.expression, call.args))
    condition = None if call.condition is None else rows.expression(call.condition)
    if isinstance(into, CollectRegisters):
        if not _is_hashed(args[0].type):
            refuse(f"{call.text} of {args[0].type} is not computed by the scan")
        args = (Call("register", (args[0], Constant(into.precision, "int")), "int"),)
    if into == Merge(into.columns, MergeOp.SUM) and not is_numeric(args[0].type):
        refuse(f"{call.text} of this type is not computed by the scan")
    return PartialColumns(into, args, condition, call.text)


def _is_hashed(type_: str) -> bool:
    """Whether the scan hashes values as Spark does: decimals only where they fit 64 bits."""
    digits = decimal_digits(type_)
    return digits is None or digits[0] <= _MOST_LONG_DIGITS
