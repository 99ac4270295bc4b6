"""Partials of the local stage as the Arrow scan computes them, or the reason why it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.aggregates.partial_calls import partial_calls
from planner.aggregates.recipes import AggregatePlan
from planner.arrow.calls import refuse
from planner.arrow.expressions import to_arrow_expression
from planner.arrow.scan_rows import RowsOfScan, rows_of_scan
from planner.arrow.types import decimal_digits
from planner.catalog import Catalog, Schema
from planner.nodes.logical import NamedExpr, Node
from planner.sql.build import column
from runtime.spec.aggregates import CollectRegisters, Merge, MergeOp, Summaries, UserDefined
from runtime.spec.expressions import Call, ColumnRef, Constant, Expression, column_refs
from runtime.spec.local import PartialColumns
from runtime.spec.table import Column

_NUMBERS = frozenset("tinyint smallint int bigint float double".split())
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
    partials = arrow_partials(plans, rows.schema, time_zone)
    if isinstance(partials, str):
        refuse(partials)
    over_files = tuple(
        replace(
            partial,
            args=tuple(map(rows.over_files, partial.args)),
            condition=None if partial.condition is None else rows.over_files(partial.condition),
        )
        for partial in partials
    )
    return LocalExpressions(rows, found, over_files, time)


def arrow_partials(
    plans: tuple[AggregatePlan, ...], schema: Schema, time_zone: str
) -> tuple[PartialColumns[Expression], ...] | str:
    """The partials of all accumulators over the columns of `schema`, each once.

    Args:
        plans: the aggregates in two phases.
        schema: the columns of the scanned table.
        time_zone: the session's, for timestamps written as text.

    Returns:
        One description for each accumulator, in order, but only one for all that read the same
        set of values; or the reason why Catalyst has to do it.
    """
    found = []
    for call in partial_calls(plans):
        built = _arrow_partial(call, schema, time_zone)
        if isinstance(built, str):
            return built
        found.append(built)
    return tuple(found)


def _arrow_partial(
    call: PartialColumns[exp.Expr], schema: Schema, time_zone: str
) -> PartialColumns[Expression] | str:
    into = call.into
    if isinstance(into, UserDefined | Summaries):
        return f"{call.text} is not computed by the scan"
    translated: list[Expression] = []
    for arg in call.args:
        expression = to_arrow_expression(arg, schema, time_zone)
        if isinstance(expression, str):
            return expression
        translated.append(expression)
    where: Expression | None = None
    if call.condition is not None:
        reached = to_arrow_expression(call.condition, schema, time_zone)
        if isinstance(reached, str):
            return reached
        where = reached
    if isinstance(into, CollectRegisters):
        if not _is_hashed(translated[0].type):
            return f"{call.text} of {translated[0].type} is not computed by the scan"
        translated = [Call("register", (translated[0], Constant(into.precision, "int")), "int")]
    if into == Merge(into.columns, MergeOp.SUM) and not _is_number(translated[0].type):
        return f"{call.text} of this type is not computed by the scan"
    return PartialColumns(into, tuple(translated), where, call.text)


def _is_number(type_: str) -> bool:
    return type_ in _NUMBERS or type_.startswith("decimal")


def _is_hashed(type_: str) -> bool:
    """Whether the scan hashes values as Spark does: decimals only where they fit 64 bits."""
    digits = decimal_digits(type_)
    return digits is None or digits[0] <= _MOST_LONG_DIGITS
