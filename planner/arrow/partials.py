"""Partials of the local stage as Arrow scan expressions, where the scan can compute them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from planner.aggregates.partial_calls import partial_calls
from planner.arrow.scan_rows import RowsOfScan, rows_of_scan
from planner.catalog import Catalog, Schema
from planner.nodes.aggregate_plans import AggregatePlan
from planner.nodes.logical import NamedExpr, Node
from planner.scalars.decimals import decimal_digits
from planner.scalars.types import is_numeric
from planner.sql.build import column
from runtime.plan.local import PartialColumns
from runtime.refusal import refuse
from runtime.shown_types import shown_type
from runtime.spec.aggregates import Merge, MergeOp
from runtime.spec.expressions import Call, ColumnRef, Constant, Expression, column_refs
from runtime.spec.table import Column

_MAX_LONG_DIGITS = 18


@dataclass(frozen=True)
class LocalExpressions:
    """Expressions that a local window aggregate evaluates over the columns of a table.

    Attributes:
        rows: Input rows and their conditions.
        keys: Name and expression of each group key.
        partials: Partials of the accumulators.
        time: The time column.
    """

    rows: RowsOfScan
    keys: tuple[tuple[str, Expression], ...]
    partials: tuple[PartialColumns[Expression], ...]
    time: Expression

    @property
    def read(self) -> tuple[Expression, ...]:
        """All expressions."""
        expressions = [*self.rows.filters, *(key for _, key in self.keys), self.time]
        for partial in self.partials:
            expressions += [*partial.args, *([partial.condition] if partial.condition else [])]
        return tuple(expressions)

    @property
    def columns(self) -> Schema:
        """File columns, or fields of them, that the expressions read, in the table's order."""
        places = {name: place for place, name in enumerate(self.rows.of_table)}

        def order(ref: ColumnRef) -> tuple[int, str]:
            return places[ref.name.partition(".")[0].lower()], ref.name

        refs = {reference for expression in self.read for reference in column_refs(expression)}
        return tuple(Column(ref.name, ref.type) for ref in sorted(refs, key=order))


def local_expressions(
    node: Node,
    keys: Sequence[NamedExpr],
    plans: tuple[AggregatePlan, ...],
    time_column: str,
    catalog: Catalog,
    time_zone: str,
) -> LocalExpressions:
    """Return the expressions of a local window aggregate over the rows of `node`.

    Args:
        node: Input of the aggregate.
        keys: The group keys.
        plans: Two-phase forms of the aggregates.
        time_column: Time column of the windows.
        catalog: Catalog, for computed columns.
        time_zone: The session's time zone.

    Raises:
        Refused: Arrow cannot evaluate an expression. The message says why.
    """
    rows = rows_of_scan(node, catalog, time_zone)
    expressions = tuple((key.name, rows.expression(key.expr)) for key in keys)
    time = rows.expression(column(time_column))
    return LocalExpressions(rows, expressions, arrow_partials(plans, rows), time)


def arrow_partials(
    plans: tuple[AggregatePlan, ...], rows: RowsOfScan
) -> tuple[PartialColumns[Expression], ...]:
    """Return the partials of all accumulators over `rows`, like `partial_calls`.

    Raises:
        Refused: Only Catalyst can compute a partial. The message says why.
    """
    return tuple(_arrow_partial(call, rows) for call in partial_calls(plans))


def _arrow_partial(call: PartialColumns[exp.Expr], rows: RowsOfScan) -> PartialColumns[Expression]:
    into = call.into
    if not into.is_scanned:
        refuse(f"{call.text} is not supported by the scan")
    args = tuple(map(rows.expression, call.args))
    condition = None if call.condition is None else rows.expression(call.condition)
    if into.hash_bits is not None:
        if not _is_hashed(args[0].type):
            refuse(f"{call.text} of {shown_type(args[0].type)} is not supported by the scan")
        args = (Call("register", (args[0], Constant(into.hash_bits, "int")), "int"),)
    if into == Merge(into.columns, MergeOp.SUM) and not is_numeric(args[0].type):
        refuse(f"{call.text} of this type is not supported by the scan")
    return PartialColumns(into, args, condition, call.text)


def _is_hashed(type_: str) -> bool:
    """Return whether the scan hashes a type as Spark does. Decimals must fit into 64 bits."""
    digits = decimal_digits(type_)
    return digits is None or digits[0] <= _MAX_LONG_DIGITS
