"""Aggregates on a target: partials of slices, their merge, and results; types of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.lowering.sql.expressions import TargetExpressions
from planner.lowering.sql.names import TextNames
from planner.lowering.sql.refusals import refuse_part
from planner.lowering.sql.relations import over
from planner.lowering.sql.target import PickedRow, Target
from planner.lowering.sql.text import (
    aggregate,
    all_of,
    and_not_null,
    binary,
    call,
    case,
    cast,
    not_null,
)
from planner.nodes.aggregate_plans import SLICE_END
from planner.scalars.decimals import decimal_digits
from runtime.plan.arrow_rows import (
    GivenRows,
    InlineRows,
    NeighbourRows,
    ProjectedRows,
    RankedRows,
    WindowedRows,
    local_rows,
)
from runtime.plan.exchange import MergedWindows
from runtime.plan.local import PartialColumns
from runtime.plan.nodes import PlanNode
from runtime.shown_types import shown_type
from runtime.spec.aggregates import (
    Accumulator,
    Average,
    CollectRegisters,
    CollectRows,
    CollectSet,
    Distinct,
    ListAgg,
    Merge,
    MergeMoments,
    MergeOp,
    Pick,
    WindowAggregation,
)
from runtime.spec.expressions import Expression

Partial = PartialColumns[Expression]

_CENTER = "$center"


@dataclass(frozen=True)
class MergedColumn:
    """A merge of partials into one column of windows.

    Attributes:
        name: Name of the column in the plan.
        of_slices: Aggregate over the partials of the slices in a window.
        of_one: Result if the window is a single slice.
    """

    name: str
    of_slices: exp.Expr
    of_one: exp.Expr


def total_of(op: MergeOp, value: exp.Expr, type_: str, target: Target) -> exp.Expr:
    """Return the aggregate that merges partials of COUNT or SUM, which have this type."""
    # no table has enough rows that their number overflows
    return call("SUM", value) if op == MergeOp.COUNT else target.sum(value, type_)


def partials_of(
    partials: Sequence[Partial], accumulators: Sequence[Accumulator]
) -> tuple[Partial, ...]:
    """Return the partials of slices in a text: one text per LISTAGG, not a list of rows for all."""
    return tuple(
        own
        for part in partials
        for own in (_texts(part, accumulators) if isinstance(part.into, CollectRows) else [part])
    )


def _texts(partial: Partial, accumulators: Sequence[Accumulator]) -> list[Partial]:
    return [
        replace(partial, into=replace(reader, columns=(reader.output.name,)))
        for reader in accumulators
        if isinstance(reader, ListAgg) and reader.columns == partial.columns
    ]


def partials_of_rows(partial: Partial, rows: TargetExpressions) -> list[exp.Expr]:
    """Return the aggregates of rows that fill the columns of a partial.

    Raises:
        NotPortable: The target has no such aggregate.
    """
    if isinstance(partial.into, CollectRegisters):
        refuse_part(
            f"{partial.text} is an estimate from Spark's hashes, which {rows.target.title} does "
            "not merge",
            partial.text,
            "use COUNT(DISTINCT)",
        )
    condition = None if partial.condition is None else rows.write(partial.condition)
    args = [rows.write(arg) for arg in partial.args]
    types = [arg.type for arg in partial.args]
    match partial.into:
        case Merge(op=MergeOp.COUNT):
            count = exp.Anonymous(this="COUNT", expressions=[_counted(args)])
            return [rows.target.counted(aggregate(count, condition))]
        case Merge(op=MergeOp.SUM):
            (type_,) = partial.into.partial_types(types).values()
            value = cast(args[0], "double") if types[0] == "float" else args[0]
            total = aggregate(rows.target.sum(value, types[0]), condition)
            return [rows.target.checked_sum(total, type_)]
        case Merge(op=op):
            found = rows.target.merge(op, args[0], types[0], condition)
            return [rows.target.typed(found, types[0])]
        case MergeMoments():
            value = args[0] if types[0] == "double" else cast(args[0], "double")
            return _moments_of_rows(value, condition, rows.target)
        case Pick(is_last=is_last):
            return _picked(is_last, args, types, rows.target, condition)
        case ListAgg(separator=str(separator), is_unique=False):
            keys = [
                key
                for arg, type_ in zip(args, types, strict=True)
                for key in rows.target.sort_keys(arg, type_)
            ]
            return [rows.target.joined_texts(args[1], keys, separator, condition)]
        case ListAgg(is_unique=True):
            # calls with DISTINCT and without may share a partial, which has the text of one
            refuse_part(
                f"LISTAGG(DISTINCT) is not merged from slices on {rows.target.title}",
                "LISTAGG(DISTINCT",
            )
        case CollectSet():
            values = [rows.target.grouped(*pair) for pair in zip(args, types, strict=True)]
            for value in values:
                condition = and_not_null(condition, value)
            value = values[0] if len(values) == 1 else rows.target.struct(values)
            return [aggregate(rows.target.distinct_list(value), condition)]
    refuse_part(_no_aggregate(partial, rows.target), partial.text)


def _counted(args: Sequence[exp.Expr]) -> exp.Expr:
    if len(args) < 2:
        return args[0] if args else exp.Star()
    condition = all_of(not_null(arg) for arg in args)
    assert condition is not None
    return case([(condition, exp.Literal.number(1))])


def _moments_of_rows(value: exp.Expr, condition: exp.Expr | None, target: Target) -> list[exp.Expr]:
    """Return count, mean and M2, the sum of the squared distances from the mean."""
    count = target.counted(aggregate(call("COUNT", value), condition))
    mean = aggregate(call("AVG", value), condition)
    squares = binary(exp.Mul, target.variance(value, condition), cast(count, "double"))
    return [count, mean, squares]


def _picked(
    is_last: bool,
    columns: Sequence[exp.Expr],
    types: Sequence[str],
    target: Target,
    condition: exp.Expr | None = None,
) -> list[exp.Expr]:
    """Return the first or last order of rows or partials, and its value; the value breaks ties."""
    (order, value), (type_of_order, type_) = columns, types
    op = MergeOp.MAX if is_last else MergeOp.MIN
    extreme = target.merge(op, order, type_of_order, condition)
    value = target.stored(value, type_)
    keys = [*target.sort_keys(order, type_of_order), *target.sort_keys(value, type_)]
    has_order = and_not_null(condition, order)
    picked = target.pick(PickedRow(value, list(dict.fromkeys(keys)), has_order, is_last))
    return [target.typed(extreme, type_of_order), target.typed(picked, type_)]


def centers(
    accumulators: Sequence[Accumulator], partition: Sequence[exp.Expr], names: TextNames
) -> dict[str, exp.Expr]:
    """Return the means of the values in windows, over the slices of all windows.

    `merges_of` measures distances from them, as in the formula of Chan, Golub and LeVeque: a sum of
    squares would lose the digits of a small variance of large values.

    Args:
        accumulators: Merges of slices into windows.
        partition: Columns that the slices of a window have in common.
        names: Names of the text.

    Returns:
        Expressions by the name of the column that `merges_of` reads.
    """
    found = {}
    for part in accumulators:
        if isinstance(part, MergeMoments):
            count, mean, _ = map(names.column, part.columns)
            weight = cast(count, "double")
            totals = (call("SUM", binary(exp.Mul, weight, mean)), call("SUM", weight))
            center = binary(exp.Div, *(over(total, partition) for total in totals))
            found[part.columns[1] + _CENTER] = center
    return found


def _no_aggregate(partial: Partial, target: Target) -> str:
    text = partial.text or partial.into.name
    return f"{text} is not merged from slices on {target.title}"


def merges_of(
    accumulator: Accumulator, types: Mapping[str, str], names: TextNames, target: Target
) -> list[MergedColumn]:
    """Return the merge of an accumulator.

    Args:
        accumulator: Accumulator.
        types: Types of the partial columns.
        names: Names of the text.
        target: Engine.

    Raises:
        NotPortable: The target has no such merge.
    """
    first = accumulator.columns[0]
    column = names.column(first)
    item = types.get(first, "").removeprefix("array<").removesuffix(">")
    item = "string" if item.startswith("struct<") else item
    match accumulator:
        case Merge(op=MergeOp.COUNT | MergeOp.SUM as op):
            added = total_of(op, column, types[first], target)
            total = target.checked_sum(added, types[first])
            return [MergedColumn(first, total, column)]
        case Merge(op=op):
            merged = target.typed(target.merge(op, column, types[first]), types[first])
            return [MergedColumn(first, merged, column)]
        case MergeMoments():
            return _merged_moments(accumulator, names, target)
        case Pick(is_last=is_last, columns=(_, value)):
            columns = [names.column(part) for part in accumulator.columns]
            of_types = [types[part] for part in accumulator.columns]
            _, picked = _picked(is_last, columns, of_types, target)
            return [MergedColumn(value, picked, names.column(value))]
        case ListAgg(output=output, separator=str(separator)):
            # slices are ordered by time, so their texts are joined in that order
            text, order = names.column(output.name), names.column(SLICE_END)
            return [MergedColumn(output.name, target.joined_texts(text, [order], separator), text)]
        case Distinct(op=MergeOp.COUNT):
            counts = (target.count_of_union(column, item, is_merged=part) for part in (True, False))
            return [MergedColumn(accumulator.output.name, *counts)]
        case Distinct(op=MergeOp.SUM) if accumulator.output.type != "double":
            type_ = accumulator.output.type
            sums = [
                target.sum_of_union(column, item, type_, is_merged=part) for part in (True, False)
            ]
            if sums[0] is not None and sums[1] is not None:
                return [MergedColumn(accumulator.output.name, sums[0], sums[1])]
    function, _, _ = accumulator.name.partition("_DISTINCT")
    words = f"{function}(DISTINCT" if accumulator.name.endswith("_DISTINCT") else ""
    refuse_part(
        f"{f'{words})' if words else accumulator.name} is not merged from slices on {target.title}",
        words,
    )


def _merged_moments(
    accumulator: MergeMoments, names: TextNames, target: Target
) -> list[MergedColumn]:
    """Return the merges of count and M2. No result needs the mean."""
    count, mean, m2 = map(names.column, accumulator.columns)
    total = target.checked_sum(total_of(MergeOp.COUNT, count, "bigint", target), "bigint")
    distance = exp.Paren(this=binary(exp.Sub, mean, names.column(accumulator.columns[1] + _CENTER)))
    squares = binary(exp.Mul, binary(exp.Mul, cast(count, "double"), distance), distance)
    return [
        MergedColumn(accumulator.columns[0], total, count),
        MergedColumn(accumulator.columns[2], call("SUM", binary(exp.Add, m2, squares)), m2),
    ]


def averages(
    aggregation: WindowAggregation, types: Mapping[str, str], names: TextNames, target: Target
) -> dict[str, exp.Expr]:
    """Return the averages of decimals, over the columns of merged windows.

    Raises:
        NotPortable: The target cannot round them like Spark.
    """
    return {
        average.output.name: _average(average, types, names, target)
        for average in aggregation.averages
    }


def _average(
    average: Average, types: Mapping[str, str], names: TextNames, target: Target
) -> exp.Expr:
    digits, of_sum = (decimal_digits(t) for t in (average.output.type, types[average.total]))
    total, count = names.column(average.total), names.column(average.count)
    quotient = None
    if digits is not None and of_sum is not None and of_sum[1] <= digits[1]:
        quotient = target.rounded_quotient(total, of_sum[1], count, digits[1], average.output.type)
    if quotient is None:
        refuse_part(
            f"AVG of {shown_type(types[average.total])} is rounded differently on {target.title}",
            "AVG(",
            "cast the argument to DOUBLE",
        )
    return quotient


def types_of_partial(part: Partial) -> dict[str, str]:
    """Return the Spark types of a partial's columns, by name."""
    if isinstance(part.into, ListAgg):
        return {part.into.output.name: part.into.output.type}
    types = part.into.partial_types([arg.type for arg in part.args])
    return dict(zip(part.columns, types.values(), strict=True))


def column_types(node: PlanNode) -> dict[str, str]:
    """Return the Spark types of a node's columns, by their names in the plan."""
    match node:
        case GivenRows() | InlineRows():
            return {column.name: column.type for column in node.columns}
        case ProjectedRows():
            return {name: value.type for name, value in node.projection.columns}
        case MergedWindows():
            scan = local_rows(node).source
            types = {name: key.type for name, key in scan.keys}
            for part in scan.partials:
                types |= types_of_partial(part)
            return types | {column.name: column.type for column in node.aggregation.results}
    types = {name: type_ for part in node.inputs for name, type_ in column_types(part).items()}
    match node:
        case RankedRows():
            types[node.column] = "int"
        case NeighbourRows():
            types |= {neighbour.column: neighbour.type for neighbour in node.neighbours}
        case WindowedRows():
            types |= dict.fromkeys(node.names, "timestamp_ntz")
    return types
