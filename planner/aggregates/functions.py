"""Aggregate calls: how Spark SQL pre-aggregates them in a slice and how partials merge.

The form of a function (`runtime.functions.aggregates`) decides. A function that is not listed there
cannot be merged from partials. It runs in one phase, over rows copied into their windows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NotRequired, TypedDict

from sqlglot import exp

from planner.aggregates.approximate import (
    approx_count_distinct,
    approx_percentile,
    number,
)
from planner.aggregates.intervals import from_microseconds, is_day_interval, to_microseconds
from planner.aggregates.recipes import call_of, with_filter
from planner.aggregates.texts import values_by_time
from planner.nodes.aggregate_plans import AggregatePlan, Partial
from planner.nodes.logical import AggregateCall
from planner.sql.build import (
    INTEGERS,
    case_when,
    cast_as,
    column,
    conjunction,
    function_call,
    is_flat_type,
    is_not_null,
    literal,
    named_struct,
)
from planner.sql.nodes import UserAggregateCall
from runtime.functions.aggregates import AGGREGATES
from runtime.functions.aggregates.counted import from_counts
from runtime.functions.aggregates.function import (
    FromValues,
    Mean,
    Merged,
    MergedFunction,
    Percentile,
    Picked,
    Registers,
    Spread,
    Takes,
    Texts,
    WithDistinct,
)
from runtime.refusal import refuse
from runtime.shown_types import shown_type
from runtime.spec.aggregates import (
    Average,
    Distinct,
    Merge,
    MergeMoments,
    MergeOp,
    Pick,
    ResultOfValues,
    UserDefined,
)
from runtime.spec.sum_types import sum_type, sum_type_of_average
from runtime.spec.table import Column
from runtime.spec.user_aggregates import UserAggregate

# Every aggregate in Spark 4.x's function registry, so that they are recognised as aggregates.
SPARK_AGGREGATES = frozenset(
    """
    any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
    approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg
    bitmap_or_agg bool_and bool_or collect_list collect_set collect_union corr count count_if
    count_min_sketch covar_pop covar_samp every first first_value histogram_numeric hll_sketch_agg
    hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float
    kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kurtosis last last_value
    listagg max max_by mean measure median min min_by mode percentile percentile_approx
    percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2
    regr_slope regr_sxx regr_sxy regr_syy skewness some std stddev stddev_pop stddev_samp
    string_agg sum theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum
    tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double
    tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer var_pop var_samp
    variance
    """.upper().split()
)

# Types that the forms of functions take
_TAKES: dict[Takes, Callable[[str], bool]] = {
    Takes.ANY: lambda _: True,
    Takes.FLAT: is_flat_type,
    Takes.NUMBERS: lambda type_: _is_summable(type_),
    Takes.INTEGERS: lambda type_: type_ in INTEGERS,
}


def pick_of(name: str) -> Picked | None:
    """Return how a function picks a value from the rows in order; None for other functions."""
    function = AGGREGATES.get(name)
    form = None if function is None else function.form
    return form if isinstance(form, Picked) else None


def texts_of(name: str) -> Texts | None:
    """Return how a function lists values by time; None for other functions."""
    function = AGGREGATES.get(name)
    form = None if function is None else function.form
    return form if isinstance(form, Texts) else None


def args_to_type(call: AggregateCall) -> tuple[exp.Expr, ...]:
    """Return the arguments whose types are needed and do not follow from the call's type."""
    function = AGGREGATES.get(call.function)
    if function is not None and isinstance(function.form, Registers):
        return call.args[:1]
    if pick_of(call.function) is not None and len(call.args) == 2:
        return call.args
    has_star = any(arg.find(exp.Star) for arg in call.args)
    return call.args if call.distinct and not has_star else ()


def is_aggregate(call: exp.Expr) -> bool:
    """Return whether a function call is a Spark aggregate or a user-defined one."""
    if isinstance(call, UserAggregateCall):
        return True
    name = call.name.upper() if isinstance(call, exp.Anonymous) else ""
    return name in SPARK_AGGREGATES or name in AGGREGATES


def plan_aggregate(call: AggregateCall) -> AggregatePlan:
    """Return the two-phase form of `call`.

    Raises:
        Refused: The call has no two-phase form.
    """
    if call.user is not None:
        return _user(call, call.user)
    if is_day_interval(call.type) or any(map(is_day_interval, call.arg_types)):
        return _plan_intervals(call)
    return _plan(call)


def _plan_intervals(call: AggregateCall) -> AggregatePlan:
    """Return the form, in microseconds, of a call with an interval argument or result."""
    types = call.arg_types or (call.type,)
    is_interval = [is_day_interval(type_) for type_ in types]
    is_interval += [False] * (len(call.args) - len(is_interval))
    # AVG divides the interval, as Spark does.
    is_divided = call.function in ("AVG", "MEAN")
    has_number = is_day_interval(call.type) and not is_divided
    plan = _plan(
        replace(
            call,
            args=tuple(
                to_microseconds(arg) if is_one else arg
                for arg, is_one in zip(call.args, is_interval, strict=True)
            ),
            arg_types=tuple("bigint" if is_day_interval(t) else t for t in call.arg_types),
            type="bigint" if has_number else call.type,
        )
    )
    finish = from_microseconds(plan.finish, call.type) if has_number else plan.finish
    return replace(plan, call=call, finish=finish)


def _plan(call: AggregateCall) -> AggregatePlan:
    name = call.function
    function = AGGREGATES.get(name)
    with_distinct = WithDistinct.SAME if function is None else function.distinct
    is_of_set = call.distinct and with_distinct is WithDistinct.OF_SET
    if function is None or (call.distinct and with_distinct is WithDistinct.REFUSED):
        distinct = "(DISTINCT)" if call.distinct else ""
        reason = f"{name}{distinct} cannot be merged from partials"
        if texts_of(name.partition(" ")[0]) is not None:
            reason += ", except LISTAGG(x, ','), which lists by time"
        refuse(reason)
    if call.change is not None:
        return _counted(call, function)
    match function.form:
        case Merged(op) if is_of_set:
            return _count_distinct(call) if op is MergeOp.COUNT else _sum_distinct(call)
        case Mean() if is_of_set:
            return _average_distinct(call)
        case Merged() as form:
            return _single(call, form)
        case Mean():
            return _average(call)
        case Spread() as form:
            return _moments(call, form)
        case Picked():
            return _pick(call)
        case Registers():
            return approx_count_distinct(call)
        case Percentile():
            return approx_percentile(call)
        case FromValues() as form:
            return _from_values(call, form)
        case Texts() as form:
            return values_by_time(call, form)


def _check_type(call: AggregateCall, has_accumulator: bool) -> None:
    if not has_accumulator:
        refuse(f"{call.function} of {shown_type(call.type)} cannot be merged from partials")


def _double(value: exp.Expr) -> exp.Expr:
    return cast_as(value.copy(), "double")


def _single(call: AggregateCall, form: Merged) -> AggregatePlan:
    """Plan an aggregate that is its own partial and is merged by one accumulator."""
    _check_type(call, _TAKES[form.takes](call.type))
    name = f"{call.name}$0"
    partial = Partial(name, call_of(form.partial or call.function, call, *call.args))
    return AggregatePlan(call, (partial,), (Merge((name,), form.op),), column(name))


def _average(call: AggregateCall) -> AggregatePlan:
    """Plan AVG as SUM and COUNT. Like Spark, use doubles unless the argument is a decimal."""
    _check_type(call, _has_average(call.type))
    (value,) = call.args
    total, count = f"{call.name}$sum", f"{call.name}$count"
    is_cast = call.type == "double" and call.arg_types != ("double",)
    summed = _double(value) if is_cast else value
    return AggregatePlan(
        call,
        (
            Partial(total, call_of("SUM", call, summed)),
            Partial(count, call_of("COUNT", call, value)),
        ),
        (Merge((total,), MergeOp.SUM), Merge((count,), MergeOp.COUNT)),
        **_quotient(call, total, count),
    )


def _has_average(type_: str) -> bool:
    return type_ == "double" or type_.startswith("decimal") or is_day_interval(type_)


class _Quotient(TypedDict):
    """How a plan divides a sum by a count: fields of `AggregatePlan`."""

    finish: exp.Expr
    averages: NotRequired[tuple[Average, ...]]


def _quotient(call: AggregateCall, total: str, count: str) -> _Quotient:
    """Return how to divide the sum column by the count column, with the type of `call`."""
    if call.type.startswith("decimal"):
        output = Column(f"{call.name}$average", call.type)
        return {"finish": column(output.name), "averages": (Average(total, count, output),)}
    is_enough = exp.GT(this=column(count), expression=literal(0))
    if is_day_interval(call.type):
        interval = from_microseconds(column(total), call.type)
        return {"finish": case_when(is_enough, exp.Div(this=interval, expression=column(count)))}
    divided = exp.Div(this=column(total), expression=column(count))
    return {"finish": case_when(is_enough, _double(divided))}


def _count_distinct(call: AggregateCall) -> AggregatePlan:
    """Plan COUNT(DISTINCT) of one or more values. Rows with a NULL among them do not count."""
    values = _value_set(call)
    count = _distinct(MergeOp.COUNT, call, values, "bigint")
    return AggregatePlan(call, (values,), (count,), column(f"{call.name}$count"))


def _sum_distinct(call: AggregateCall) -> AggregatePlan:
    """Plan SUM(DISTINCT), which adds each distinct value once."""
    values = _number_set(call)
    total = _distinct(MergeOp.SUM, call, values, call.type)
    return AggregatePlan(call, (values,), (total,), column(f"{call.name}$sum"))


def _average_distinct(call: AggregateCall) -> AggregatePlan:
    """Plan AVG(DISTINCT) as SUM and COUNT of one set of values."""
    values = _number_set(call)
    type_ = "bigint" if is_day_interval(call.type) else "double"
    if call.type.startswith("decimal"):
        type_ = sum_type(call.arg_types[0])
    total = _distinct(MergeOp.SUM, call, values, type_)
    count = _distinct(MergeOp.COUNT, call, values, "bigint")
    quotient = _quotient(call, f"{call.name}$sum", f"{call.name}$count")
    return AggregatePlan(call, (values,), (total, count), **quotient)


def _distinct(op: MergeOp, call: AggregateCall, values: Partial, type_: str) -> Distinct:
    return Distinct((values.name,), Column(f"{call.name}${op}", type_), op)


def _number_set(call: AggregateCall) -> Partial:
    """Collect the distinct numbers of a slice.

    Types other than integers and decimals become DOUBLE.
    """
    if not (_is_summable(call.type) or _has_average(call.type)):
        refuse(
            f"{call.function}(DISTINCT) of {shown_type(call.type)} cannot be merged from partials"
        )
    if call.type == "double" and not all(map(_is_exact_or_double, call.arg_types)):
        # Cast before removing duplicates, as Spark does: '1' and '1.0' are the same number.
        args = tuple(_double(arg) for arg in call.args)
        call = replace(call, args=args, arg_types=("double",))
    return _value_set(call)


def _is_exact_or_double(type_: str) -> bool:
    return type_ in INTEGERS or type_ == "double"


def _value_set(call: AggregateCall) -> Partial:
    """Collect the distinct non-NULL values of a slice; several arguments become structs."""
    if not call.arg_types:
        refuse(f"{call.text} cannot be merged from partials")
    for type_ in call.arg_types:
        if not is_flat_type(type_):
            refuse(f"{call.function}(DISTINCT) of {type_} cannot be merged from partials")
    value, condition = call.args[0], call.condition
    if len(call.args) > 1:
        value = named_struct(**{f"v{i}": arg for i, arg in enumerate(call.args)})
        present = [is_not_null(_operand(arg)) for arg in call.args]
        condition = conjunction([*present, condition])
    return Partial(f"{call.name}$set", with_filter(function_call("COLLECT_SET", value), condition))


def _operand(expr: exp.Expr) -> exp.Expr:
    """Wrap the expression in parentheses unless it is a column."""
    return expr.copy() if isinstance(expr, exp.Column) else exp.Paren(this=expr.copy())


def _user(call: AggregateCall, aggregate: UserAggregate) -> AggregatePlan:
    """Plan a user-defined aggregate. Its partial columns are the fields of its state."""
    if call.distinct:
        refuse(f"{call.function}(DISTINCT) cannot be merged from partials")
    fields = tuple(f"{call.name}${field}" for field in aggregate.state)
    partial = Partial(f"{call.name}$0", call_of(aggregate.name, call, *call.args), fields)
    output = Column(f"{call.name}$value", aggregate.returns)
    accumulator = UserDefined(fields, output, aggregate.function)
    return AggregatePlan(call, (partial,), (accumulator,), column(output.name))


def _moments(call: AggregateCall, form: Spread) -> AggregatePlan:
    """Plan VAR and STDDEV from count, mean and M2."""
    (value,) = call.args
    _check_type(call, call.type == "double")
    names = tuple(f"{call.name}${part}" for part in ("count", "mean", "m2"))
    x = _double(value)
    # Spark merges (count, mean, M2) with the same formula but exposes only the final value.
    m2 = exp.Mul(this=call_of("VAR_POP", call, x), expression=call_of("COUNT", call, x))
    partials = (
        Partial(names[0], call_of("COUNT", call, x)),
        Partial(names[1], call_of("AVG", call, x)),
        Partial(names[2], m2),
    )
    count: exp.Expr = column(names[0])
    if form.less:
        count = exp.Paren(this=exp.Sub(this=count, expression=literal(form.less)))
    variance: exp.Expr = exp.Div(this=column(names[2]), expression=count)
    if form.is_root:
        variance = function_call("SQRT", variance)
    enough = exp.GT(this=column(names[0]), expression=literal(form.less))
    return AggregatePlan(call, partials, (MergeMoments(names),), case_when(enough, variance))


def _from_values(call: AggregateCall, form: FromValues) -> AggregatePlan:
    """Plan a function of all values of a window from the values of its slices."""
    has_type = call.type == form.returns if form.returns else _TAKES[form.takes](call.type)
    if len(call.args) != 1 + form.has_percentage or not has_type:
        refuse(f"{call.text} cannot be merged from partials")
    numbers = [number(arg) for arg in call.args[1:]]
    constants = tuple(n for n in numbers if n is not None and 0 <= n <= 1)
    if len(constants) < len(numbers):
        refuse(f"{call.text} can only be merged with a constant percentage from 0 to 1")
    value = cast_as(call.args[0].copy(), form.values) if form.values else call.args[0]
    if call.change is not None:
        value = named_struct(value=value, weight=call.change)
    partial = Partial(f"{call.name}$values", call_of("COLLECT_LIST", call, value))
    output = Column(f"{call.name}$result", call.type)
    is_distinct = call.distinct and AGGREGATES[call.function].distinct is WithDistinct.OF_SET
    result = ResultOfValues(
        (partial.name,), output, call.function, constants, call.is_descending, is_distinct
    )
    return AggregatePlan(call, (partial,), (result,), column(output.name))


def _counted(call: AggregateCall, function: MergedFunction) -> AggregatePlan:
    """Plan a function over changes from the counts of its values."""
    if isinstance(function.form, Mean):
        return _counted_average(call)
    form = from_counts(function.form)
    if form is None:
        is_sketch = isinstance(function.form, Registers | Percentile)
        cannot = "is a sketch, which cannot" if is_sketch else "cannot"
        refuse(f"{call.text} {cannot} take back deleted rows")
    value, *others = call.args
    conditions = [call.condition]
    if isinstance(function.form, Picked):
        if call.order is None and not others:
            refuse(f"{call.function} has no defined order")
        order = others.pop() if call.order is None else column(call.order)
        value, conditions = named_struct(v0=order, v1=value), [is_not_null(order), *conditions]
    elif call.distinct and others:
        conditions += [is_not_null(_operand(arg)) for arg in call.args]
        value, others = named_struct(**{f"v{i}": arg for i, arg in enumerate(call.args)}), []
    elif form.takes is Takes.NUMBERS and call.type == "double" and not form.values:
        value = _double(value)
    for type_ in call.arg_types:
        if not is_flat_type(type_):
            refuse(f"{call.function} of {shown_type(type_)} cannot be merged from partials")
    condition = conjunction(conditions)
    plan = _from_values(replace(call, args=(value, *others), condition=condition), form)
    if isinstance(function.form, Merged) and function.form.op is MergeOp.COUNT:
        plan = replace(plan, finish=function_call("COALESCE", plan.finish, literal(0)))
    return replace(plan, call=call)


def _counted_average(call: AggregateCall) -> AggregatePlan:
    """Plan AVG over changes as SUM and COUNT of one list of values with their counts."""
    _check_type(call, _has_average(call.type))
    type_ = "bigint" if is_day_interval(call.type) else "double"
    if call.type.startswith("decimal"):
        type_ = sum_type_of_average(call.type)
    value = _double(call.args[0]) if type_ == "double" else call.args[0]
    total, count = (
        _counted(
            replace(call, name=f"{call.name}${name}", function=name, args=(value,), type=result),
            AGGREGATES[name],
        )
        for name, result in (("SUM", type_), ("COUNT", "bigint"))
    )
    (sums,), (counts,) = (part.accumulators[0].output_columns for part in (total, count))
    return AggregatePlan(
        call,
        (*total.partials, *count.partials),
        (*total.accumulators, *count.accumulators),
        **_quotient(call, sums, counts),
    )


def _pick(call: AggregateCall) -> AggregatePlan:
    """Plan the value of the first or last row; the value breaks ties.

    MIN_BY and MAX_BY take the order as an argument and skip rows where it is NULL. The FIRST and
    LAST family orders by the row's time.
    """
    if call.order is None and len(call.args) != 2:
        refuse(f"{call.function} has no defined order")
    _check_type(call, is_flat_type(call.type))
    for type_ in call.arg_types:
        if not is_flat_type(type_):
            refuse(f"{call.function} by {type_} cannot be merged from partials")
    names = (f"{call.name}$order", f"{call.name}$value")
    partial = Partial(f"{call.name}$0", pick_struct(call), names)
    pick = pick_of(call.function)
    assert pick is not None
    return AggregatePlan(call, (partial,), (Pick(names, pick.is_last),), column(names[1]))


def pick_struct(call: AggregateCall) -> exp.Expr:
    """Return the first or last struct of order `o` and value `v`, skipping NULL orders."""
    pick = pick_of(call.function)
    assert pick is not None
    order = call.args[1] if call.order is None else column(call.order)
    extreme = function_call("MAX" if pick.is_last else "MIN", named_struct(o=order, v=call.args[0]))
    condition = is_not_null(order)
    if call.condition is not None:
        condition = exp.And(this=exp.Paren(this=call.condition.copy()), expression=condition)
    return with_filter(extreme, condition)


def _is_summable(type_: str) -> bool:
    return type_ in ("bigint", "double") or type_.startswith("decimal")
