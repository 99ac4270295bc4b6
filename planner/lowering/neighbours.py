"""LAG and LEAD: values of earlier and later rows, for SQL of other engines."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from planner.aggregates.calls import canonical
from planner.lowering.clauses import Item
from planner.lowering.relation import Relation, RelationLowering
from planner.scalars.inference import is_neighbour
from planner.sql.build import bare_column, column, has_only
from planner.streams.ranked_rows import rank_order
from runtime.plan.arrow_rows import Neighbour, NeighbourRows
from runtime.refusal import refuse
from runtime.spec.expressions import Constant, Expression
from runtime.spec.table import Column


def neighbours(
    lowering: RelationLowering, below: Relation, items: list[Item], orders: list[exp.Expr]
) -> tuple[Relation, list[Item], list[exp.Expr]]:
    """Return rows with the results of LAG and LEAD, and the clauses that read them.

    Arguments are as in `SelectLowering.with_neighbours`.

    Raises:
        Refused: A function cannot be computed, or is another one with OVER.
    """
    clauses = [*(item.expr for item in items), *orders]
    windows = {canonical(over): over for part in clauses for over in part.find_all(exp.Window)}
    if not windows:
        return below, items, orders
    rows = _Computed(below)
    made = {
        text: _neighbour(over, f"$neighbour{number}", rows)
        for number, (text, over) in enumerate(windows.items())
    }

    def above(clause: exp.Expr) -> exp.Expr:
        def read(node: exp.Expr) -> exp.Expr:
            return column(made[canonical(node)].column) if isinstance(node, exp.Window) else node

        return clause.copy().transform(read)

    read = [above(clause) for clause in clauses]
    names = {neighbour.column for neighbour in made.values()}
    for ref in (ref for clause in read for ref in clause.find_all(exp.Column)):
        if ref.name not in names:
            rows.name_of(ref)
    schema = [Column(name, value.type) for name, value in rows.columns.items()]
    schema += [Column(neighbour.column, neighbour.type) for neighbour in made.values()]
    projected = lowering.project(below, (), tuple(rows.columns.items()))
    whole = NeighbourRows(projected, tuple(made.values()))
    pairs = zip(items, read, strict=False)
    read_items = [replace(item, expr=expr) for item, expr in pairs]
    return lowering.relation_of(whole, tuple(schema)), read_items, read[len(items) :]


class _Computed:
    """Columns that are computed before their neighbours are read.

    Args:
        below: Rows that they are computed from.

    Attributes:
        below: Rows.
        columns: Expressions by name.
    """

    def __init__(self, below: Relation) -> None:
        self.below = below
        self.columns: dict[str, Expression] = {}

    def name_of(self, expr: exp.Expr) -> str:
        """Compute an expression, and return the name of its column."""
        value = self.below.scan.expression(expr, has_tables=False)
        plain = bare_column(expr)
        for name, other in self.columns.items():
            if other == value and (plain is None or plain.lower() == name.lower()):
                return name
        name = f"$over{len(self.columns)}" if plain is None else plain
        self.columns[name] = value
        return name


def _neighbour(over: exp.Window, name: str, rows: _Computed) -> Neighbour:
    call, order = over.this, over.args.get("order")
    function = call.name.upper()
    if not is_neighbour(over) or not has_only(over, {"this", "partition_by", "order", "over"}):
        refuse(f"{function or 'a function'} with OVER is not compiled")
    if not isinstance(order, exp.Order):
        refuse(f"{function} without ORDER BY is not compiled")
    value, *more = call.expressions
    value_column = rows.name_of(value)
    type_ = rows.columns[value_column].type
    default = Constant(None, type_)
    if len(more) > 1:
        given = rows.below.scan.expression(more[1], has_tables=False)
        if not isinstance(given, Constant) or given.type != type_:
            refuse(f"{function} with a default that is not a literal of its type is not compiled")
        default = given
    return Neighbour(
        name,
        type_,
        function,
        value_column,
        int(more[0].name) if more else 1,
        default,
        tuple(rows.name_of(key) for key in over.args.get("partition_by") or ()),
        tuple(rank_order(rows.name_of(part.this), part) for part in order.expressions),
    )
