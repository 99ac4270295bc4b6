"""Description of a stream's computation and state, which a restart compares with the new query's.

It is independent of EXPLAIN's text, which may be reworded. Projections are folded into their
readers and conditions form a set, so a rule that moves them does not change the form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from sqlglot import exp

from planner.aggregates.partial_calls import partial_calls
from planner.catalog import Catalog, Schema
from planner.nodes.aggregate_plans import AggregatePlan
from planner.nodes.logical import Filter, Node, Project, Sink, SqlQuery, TableScan
from planner.nodes.physical import (
    GlobalWindowAggregate,
    LocalWindowAggregate,
    SharedExchange,
    SharedSlices,
    StreamRank,
)
from planner.sql.build import to_sql
from planner.streams.tables import streams_of
from runtime.plan.local import PartialColumns
from runtime.spec.expressions import FirstRows
from runtime.spec.state_schema import (
    PARALLELISM,
    OperatorSchema,
    RowOrigin,
    StateAccumulator,
    StateKey,
    StateReader,
    without_options,
)
from runtime.spec.user_aggregates import UserAggregate

# Accumulators that correspond to a SQL aggregate
_PLAIN = frozenset("sum count min max bit_and bit_or bit_xor".split())
# Aggregates whose state has the type of their result
_OF_ITS_TYPE = frozenset("SUM MIN MAX FIRST_VALUE LAST_VALUE FIRST LAST".split())
# Node fields described elsewhere or irrelevant
_LEFT_OUT = PARALLELISM | frozenset(
    "schema place input time_place relations left right number reader ttl_us".split()
)

# Columns by normalised name, as expressions over the columns below
_Columns = Mapping[str, exp.Expr]
_JSON = dict[str, Any]


def operator_schemas(
    plans: Sequence[Node], names: Sequence[str], catalog: Catalog
) -> tuple[OperatorSchema, ...]:
    """Return the state that the window operators of a stream keep, by operator number.

    Args:
        plans: Physical plan over streams. Several if one stream runs several INSERTs.
        names: Target tables of the plans.
        catalog: Catalog that identifies streams.
    """
    if len(plans) == 1:
        return tuple(_state_of(local) for local in _local_stages(plans[0], catalog))
    readers = [
        next(w for w in plan.find_all(GlobalWindowAggregate) if isinstance(w.input, SharedSlices))
        for plan in plans
    ]
    shared = readers[0].input.inputs[0]
    assert isinstance(shared, SharedExchange) and isinstance(shared.input, LocalWindowAggregate)
    named = zip(names, readers, strict=True)
    return (_state_of(shared.input, tuple(_reader(name, reader) for name, reader in named)),)


def form_of(plan: Node) -> _JSON:
    """Return the computation of a plan as JSON values."""
    node = plan.input if isinstance(plan, Sink) else plan
    base, columns, conditions = _fold(node)
    named = [(column.name, columns.get(column.name.lower())) for column in node.schema]
    select = {name: _text(expr) for name, expr in named if expr is not None}
    return {**_rows(base, conditions), **({"select": select} if select else {})}


def _local_stages(plan: Node, catalog: Catalog) -> Iterator[LocalWindowAggregate]:
    """Yield the local stages of window operators in the order of their numbers."""
    for child in plan.inputs:
        yield from _local_stages(child, catalog)
    if isinstance(plan, GlobalWindowAggregate) and streams_of(plan, catalog):
        local = plan.input.inputs[0]
        if isinstance(local, LocalWindowAggregate):
            yield local


def _reader(name: str, node: GlobalWindowAggregate) -> StateReader:
    window = node.window
    assert window.has_slices and not window.is_calendar
    return StateReader(name, window, window.slice_grid)


def _state_of(local: LocalWindowAggregate, readers: tuple[StateReader, ...] = ()) -> OperatorSchema:
    base, columns, conditions = _fold(local.input)
    time = columns.get(local.time_column.lower())
    return OperatorSchema(
        local.window,
        (local.time_column if time is None else _text(time), local.time_type),
        local.slice_end,
        tuple(
            StateKey(
                key.name, _text(_substitute(key.expr, columns)), _type_of(key.name, local.schema)
            )
            for key in local.keys
        ),
        tuple(
            _accumulator(partial, local.plans, columns) for partial in partial_calls(local.plans)
        ),
        readers,
        RowOrigin(base, _conditions(conditions), _first(local.first)),
        types={column.name.lower(): column.type for column in local.input.schema},
    )


def _first(first: FirstRows | None) -> Any:
    """Return the ranks of an operator as JSON values, for rows that stay as older versions did."""
    form = _to_json(first)
    if first is not None and first.is_deleted is None:
        del form["is_deleted"]
    return form


def _accumulator(
    partial: PartialColumns[exp.Expr], plans: tuple[AggregatePlan, ...], columns: _Columns
) -> StateAccumulator:
    kind, name = partial.into.kind, partial.text
    if kind in _PLAIN:
        # AVG is computed as SUM and COUNT.
        computed = {column.name: column.expr for plan in plans for column in plan.partials}
        if (expr := computed.get(partial.columns[0])) is not None:
            name = to_sql(expr)
    if kind == "user-defined":
        kind = f"{kind} {partial.text.partition('(')[0].strip().lower()}"
    condition = partial.condition
    return StateAccumulator(
        partial.columns,
        kind,
        tuple(_text(_substitute(arg, columns)) for arg in partial.args),
        None if condition is None else _text(_substitute(condition, columns)),
        name,
        type=_state_type(partial.columns[0], plans),
    )


def _state_type(column: str, plans: tuple[AggregatePlan, ...]) -> str:
    """Return the type of an accumulator's state, or "" if its aggregate does not determine it.

    A plan may lack an accumulator: COUNT(x) after AVG(x) reads AVG's.
    """
    for plan in plans:
        if all(column not in accumulator.columns for accumulator in plan.accumulators):
            continue
        call = plan.call
        if call.user is not None:
            declared = call.user.function.state
            return ", ".join(f"{name} {type_}" for name, type_ in declared.items())
        is_alone = len(plan.accumulators) == 1
        return call.type if is_alone and call.function in _OF_ITS_TYPE else ""
    return ""


def _type_of(name: str, schema: Schema) -> str:
    return next((column.type for column in schema if column.name == name), "")


# -- rows ----------------------------------------------------------------------------------------


def _rows(base: _JSON, conditions: Sequence[exp.Expr]) -> _JSON:
    return {"from": base, "where": list(_conditions(conditions))}


def _conditions(conditions: Sequence[exp.Expr]) -> tuple[str, ...]:
    return tuple(sorted({_text(condition) for condition in conditions}))


def _fold(node: Node) -> tuple[_JSON, _Columns, list[exp.Expr]]:
    """Return the node below all filters and projections, its columns and the conditions."""
    if isinstance(node, Filter):
        base, columns, conditions = _fold(node.input)
        return (
            base,
            columns,
            [*conditions, *(_substitute(condition, columns) for condition in node.conjuncts)],
        )
    if isinstance(node, Project):
        base, columns, conditions = _fold(node.input)
        items = {item.name.lower(): _substitute(item.expr, columns) for item in node.items}
        return base, items, conditions
    return _base(node), {}, []


def _base(node: Node) -> _JSON:
    match node:
        case TableScan():
            return {"table": without_options(node.table).lower()}
        case SqlQuery():
            relations = {name: form_of(child) for name, child in node.relations}
            return {"sql": without_options(_text(node.query)), "relations": relations}
        case GlobalWindowAggregate():
            local = node.input.inputs[0]
            if isinstance(local, LocalWindowAggregate):
                state = _state_of(local)
                window = {"function": state.window.function, **asdict(state.window)}
                window.pop("ttl_us", None)  # it may change
                windows = {**asdict(state), "window": window}
                keys = [_to_json(key) for key in node.window_keys]
                form = {"windows": windows, "keys": keys}
                if isinstance(node, StreamRank) and local.first is None:
                    form["first"] = _first(node.first)  # otherwise the origin of the rows has it
                return form
    field_names = [f.name for f in fields(node) if f.name not in _LEFT_OUT]
    entries = {name: _to_json(getattr(node, name)) for name in field_names}
    below = [form_of(child) for child in node.inputs]
    return {"node": type(node).__name__, **entries, "inputs": below}


def _substitute(expr: exp.Expr, columns: _Columns) -> exp.Expr:
    """Substitute the columns of an expression."""
    if isinstance(expr, exp.Column) and not expr.table:
        return columns.get(expr.name.lower(), expr)

    def inside(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.table:
            return node
        replacement = columns.get(node.name.lower())
        if replacement is None:
            return node
        is_whole = isinstance(replacement, exp.Column | exp.Literal | exp.Func)
        return replacement.copy() if is_whole else exp.Paren(this=replacement.copy())

    return expr.copy().transform(inside, copy=False) if columns else expr


def _text(expr: exp.Expr) -> str:
    """Return an expression as SQL, independent of quotes and case in names."""
    canonical = expr.copy()
    for name in canonical.find_all(exp.Identifier):
        plain = name.name.lower()
        name.set("this", plain)
        name.set("quoted", not plain.isidentifier())
    return to_sql(canonical)


def _to_json(value: Any) -> Any:
    """Return a node's field as a JSON value."""
    if isinstance(value, exp.Expr):
        return _text(value)
    if isinstance(value, Node):
        return form_of(value)
    if isinstance(value, UserAggregate):
        return value.name
    if is_dataclass(value) and not isinstance(value, type):
        named = [f.name for f in fields(value) if f.compare and f.name != "text"]
        entries = {name: _to_json(getattr(value, name)) for name in named}
        return {"is": type(value).__name__, **entries}
    if isinstance(value, tuple | list):
        return [_to_json(item) for item in value]
    if isinstance(value, frozenset):
        return sorted(map(str, value))
    if isinstance(value, Mapping):
        return {str(key): _to_json(item) for key, item in value.items()}
    is_plain = value is None or isinstance(value, bool | int | float | str)
    return value if is_plain else type(value).__name__
