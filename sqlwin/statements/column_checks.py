"""Checks of column names in CREATE TABLE clauses, and types of its expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from planner.sql.nodes import KeywordCall
from runtime.errors import nearest
from runtime.shown_types import shown_type
from runtime.spec.table import TableColumn, Watermark
from sqlwin.parser.parser import to_spark

# Function that returns the tree of an expression's text. Callers must not modify the tree.
TreeOf = Callable[[str], exp.Expr]


def has_no_physical_columns(columns: Sequence[TableColumn]) -> bool:
    """Return whether CREATE TABLE declares only computed and metadata columns, or none."""
    return all(column.computed or column.metadata for column in columns)


@dataclass(frozen=True)
class NameFault:
    """Error about a column that a clause of CREATE TABLE names.

    Attributes:
        message: Error message.
        use: Position in `uses` of the clause and name.
        hint: Suggested correction.
    """

    message: str
    use: int
    hint: str | None = None


def fault_in_names(
    columns: Sequence[TableColumn],
    uses: Sequence[tuple[str, str]],
    watermark: Watermark | None,
    tree_of: TreeOf,
) -> NameFault | None:
    """Return an error about column names in the clauses of a CREATE TABLE, or None.

    Args:
        columns: All columns of the table.
        uses: Clauses and the columns that they name, ending with the watermark.
        watermark: The watermark.
        tree_of: Function that returns the trees of the table's expressions.
    """
    names = [column.name for column in columns]
    lower_names = {name.lower() for name in names}
    for use, (clause, name) in enumerate(uses):
        if name.lower() not in lower_names:
            close = nearest(name, names)
            available = f"available columns: {', '.join(names)}" if names else None
            return NameFault(
                f"{clause} refers to `{name}`, which is not a column of the table",
                use,
                f"did you mean {close}?" if close else available,
            )
    if watermark is None:
        return None
    return _fault_in_watermark(columns, watermark, len(uses) - 1, tree_of)


def _fault_in_watermark(
    table_columns: Sequence[TableColumn], watermark: Watermark, use: int, tree_of: TreeOf
) -> NameFault | None:
    """Return an error about a watermark with an unknown column or without a time type, or None."""
    columns = {column.name.lower(): column for column in table_columns}
    tree = tree_of(watermark.expression)
    for column in tree.find_all(exp.Column):
        if not column.table and column.name.lower() not in columns:
            close = nearest(column.name, [other.name for other in table_columns])
            return NameFault(
                f"the watermark of `{watermark.column}` refers to `{column.name}`, which is not a "
                "column of the table",
                use,
                f"did you mean {close}?" if close else None,
            )
    time = exp.column(watermark.column, quoted=True)
    for part, text in ((time, watermark.column), (tree, watermark.expression)):
        type_ = inferred_type(part, columns, tree_of)
        if type_ is not None and not type_.upper().startswith("TIMESTAMP"):
            return NameFault(
                f"a watermark must be a TIMESTAMP, but `{text.strip('`')}` is {shown_type(type_)}",
                use,
                "declare it TIMESTAMP(3) or TIMESTAMP_LTZ(3), or use a computed column: ts AS "
                f"TO_TIMESTAMP({text})"
                if isinstance(part, exp.Column)
                else f"for example {watermark.column} - INTERVAL '5' SECOND",
            )
    return None


# Functions that return a string and are often mistaken for times
_TEXT_FUNCTIONS = frozenset(
    "CONCAT DATE_FORMAT FROM_UNIXTIME LCASE LOWER SUBSTR SUBSTRING TRIM UCASE UPPER".split()
)


def inferred_type(
    expr: exp.Expr, columns: Mapping[str, TableColumn], tree_of: TreeOf
) -> str | None:
    """Return the type of an expression over a table's columns if it is obvious, else None.

    Spark's analyser would take as long as the rest of CREATE TABLE.

    Args:
        expr: The expression.
        columns: Columns of the table, by lower-case name.
        tree_of: Function that returns the trees of the computed columns.
    """
    expr = expr.unnest()
    match expr:
        case exp.Column() if not expr.table and expr.name.lower() in columns:
            column = columns[expr.name.lower()]
            if column.computed is None:
                return column.type
            others = {name: other for name, other in columns.items() if other is not column}
            return inferred_type(tree_of(column.computed), others, tree_of)
        case exp.Cast():
            return to_spark(expr.to)
        case exp.Literal():
            return "STRING" if expr.is_string else "INT"
        case exp.Add() | exp.Sub():
            sides = (expr.this, expr.expression)
            lengths = [isinstance(side.unnest(), exp.Interval) for side in sides]
            if sum(lengths) == 1:
                return inferred_type(sides[lengths.index(False)], columns, tree_of)
            types = {inferred_type(side, columns, tree_of) for side in sides}
            return "BIGINT" if types <= {"INT", "BIGINT"} else None
        case exp.Div():
            return "DOUBLE"
        case exp.Mul() | exp.IntDiv() | exp.Mod() if not expr.find(exp.Interval):
            return "BIGINT"
        case exp.Predicate() | exp.Connector() | exp.Not() | exp.Boolean():
            return "BOOLEAN"
        case exp.DPipe():
            return "STRING"
        case exp.Anonymous() | KeywordCall() if expr.name.upper() in _TEXT_FUNCTIONS:
            return "STRING"
    return None
