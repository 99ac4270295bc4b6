"""Rows of a query as the columns of a table that an INSERT writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.arrow.scan_rows import Made, make_column, required
from planner.catalog import Schema
from planner.lowering.relation import Relation
from planner.scalars.calls import cast
from planner.scalars.types import VOID
from runtime.refusal import Refusal, refuse
from runtime.shown_types import shown_type
from runtime.spec.expressions import Constant
from runtime.spec.table import Column


@dataclass(frozen=True)
class TargetColumn:
    """A column of the table and its value.

    Attributes:
        name: Name in the table.
        type: Spark type in the table. None: the type of the value.
        value: Number of the query's column, an expression without columns, or None for NULL.
    """

    name: str
    type: str | None
    value: int | exp.Expr | None


# Function that returns the columns to write for the columns of the query
Target = Callable[[Schema], Sequence[TargetColumn]]


def write_columns(
    relation: Relation, schema: Schema, target: Target, zone: str
) -> tuple[Relation, Schema]:
    """Return a query's rows as the columns of a table, cast as Spark casts them, and their schema.

    Args:
        relation: Rows of the query.
        schema: Columns of the query.
        target: Returns the columns of the table.
        zone: The session's time zone.

    Raises:
        Refused: Only Spark can compute a column. The message says why.
        SqlwinError: `target` refuses the columns of the query.
    """
    names = [column.name.lower() for column in schema]
    if len(set(names)) < len(names):
        refuse("two columns have the same name")
    made: dict[str, Made] = {}
    columns: list[Column] = []
    for column in target(schema):
        value: Made
        if column.value is None:
            value, nullable = Constant(None, VOID), True
        elif isinstance(column.value, int):
            source = schema[column.value]
            value, nullable = relation.scan.columns[names[column.value]], source.nullable
            if not isinstance(value, Refusal) and value.type != source.type:
                refuse(f"{source.name} is {shown_type(source.type)}, which only Spark can produce")
        else:
            value, nullable = make_column(column.value, relation.scan, False), True
        expression = required(value)
        if column.type is not None:
            expression = cast(expression, column.type, zone)
        made[column.name.lower()] = expression
        columns.append(Column(column.name, expression.type, nullable))
    if len(made) < len(columns):
        refuse("two columns have the same name")
    scan = replace(relation.scan, schema=tuple(columns), columns=made)
    return replace(relation, scan=scan), tuple(columns)
