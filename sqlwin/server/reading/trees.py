"""Expressions and functions in the tree of a client's statement."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.sql.nodes import (
    TABLE_OPTIONS,
    FillClause,
    FillItem,
    KeywordCall,
    MultiUnitInterval,
    UserAggregateCall,
    WindowFunctionCall,
)
from runtime.errors import nearest
from runtime.functions.aggregates import AGGREGATES
from sqlwin.catalog.spark.function_names import OF_VALUES, REACHING_OUT
from sqlwin.parser.hints import SPARK_HINTS
from sqlwin.parser.signatures import SIGNATURES
from sqlwin.server.reading.errors import refusal
from sqlwin.server.reading.relations import ReadableRelations

# Nodes that are parts of a query, or compute with values
_NODES = frozenset(
    {
        *(FillClause, FillItem, KeywordCall, MultiUnitInterval, UserAggregateCall),
        WindowFunctionCall,
        # parts of a query
        *(exp.Select, exp.From, exp.Join, exp.Where, exp.Group, exp.Having, exp.Qualify),
        *(exp.Order, exp.Ordered, exp.Sort, exp.Cluster, exp.Distribute, exp.Limit, exp.Offset),
        *(exp.Fetch, exp.LimitOptions, exp.Distinct, exp.With, exp.CTE, exp.Subquery, exp.Values),
        *(exp.Union, exp.Except, exp.Intersect, exp.Table, exp.TableAlias, exp.TableSample),
        *(exp.Lateral, exp.Unnest, exp.Pivot, exp.PivotAlias, exp.UnpivotColumns, exp.Version),
        *(exp.Cube, exp.Rollup, exp.GroupingSets, exp.Hint, exp.Window),
        *(exp.WindowSpec, exp.Alias, exp.Aliases, exp.Star, exp.Column, exp.Identifier, exp.Dot),
        # literals and types
        *(exp.Literal, exp.Boolean, exp.Null, exp.HexString, exp.BitString, exp.RawString),
        *(exp.Interval, exp.IntervalSpan, exp.Var, exp.DataType, exp.DataTypeParam, exp.ColumnDef),
        *(exp.Placeholder, exp.Tuple, exp.Paren, exp.Array, exp.Struct, exp.PropertyEQ, exp.Kwarg),
        # operators
        *(exp.And, exp.Or, exp.Xor, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE),
        *(exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.In, exp.Between, exp.Like, exp.ILike),
        *(
            exp.RegexpLike,
            exp.SimilarTo,
            exp.Escape,
            exp.Any,
            exp.All,
            exp.Exists,
            exp.Add,
            exp.Sub,
            exp.Mul,
        ),
        *(exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.DPipe, exp.Concat, exp.BitwiseAnd),
        *(exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.BitwiseLeftShift),
        *(exp.BitwiseRightShift, exp.Bracket, exp.Slice, exp.Case, exp.If, exp.Cast, exp.TryCast),
        *(exp.Collate, exp.AtTimeZone, exp.Lambda, exp.Filter, exp.WithinGroup, exp.IgnoreNulls),
        *(
            exp.RespectNulls,
            exp.JSONExtract,
            exp.JSONExtractScalar,
            exp.JSONPath,
            exp.JSONPathRoot,
            exp.JSONPathKey,
        ),
        *(exp.JSONPathSubscript, exp.Anonymous),
        # functions without parentheses
        *(exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentUser, exp.SessionUser),
        exp.Localtimestamp,
    }
)
# Functions of Flink and of the parser that `planner.sql` translates to those of Spark
_TRANSLATED = frozenset(
    "convert_tz current_row_timestamp current_watermark json_exists json_object json_query "
    "json_string json_value localtimestamp proctime row split_index table timestampadd "
    "timestampdiff try_cast unnest week".split()
)
_WINDOWS = frozenset(
    f"{name}{ending}".lower()
    for name in SIGNATURES
    for ending in ("", "_start", "_end", "_rowtime", "_proctime")
)
_AGGREGATES = frozenset(map(str.lower, AGGREGATES))
FUNCTIONS = OF_VALUES | _TRANSLATED | _WINDOWS | _AGGREGATES


def check_tree(
    tree: exp.Expr, relations: ReadableRelations, user_functions: Callable[[], frozenset[str]]
) -> None:
    """Check the tree of a query.

    Args:
        tree: The tree.
        relations: Judge of its tables and files.
        user_functions: Function that returns the names of functions that users have registered.

    Raises:
        ReadOnlyError: A part of it is not allowed.
    """
    for node in tree.walk():
        if type(node) not in _NODES:
            raise refusal(f"cannot evaluate {node.key.upper()}", subject=node.name or None)
        if isinstance(node, exp.Anonymous | KeywordCall) and not isinstance(node.parent, exp.Hint):
            check_function(_qualified_name(node), user_functions)
        if isinstance(node, exp.Hint):
            _check_hint(node)
        if isinstance(node, exp.Table):
            if isinstance(node.this, exp.Identifier):
                relations.check(tuple(part.name for part in node.parts))
            if (options := node.meta.get(TABLE_OPTIONS)) is not None:
                relations.check_options(options.pairs)


def check_function(name: str, user_functions: Callable[[], frozenset[str]]) -> None:
    """Check a function.

    Args:
        name: Its name, with dots if it is qualified.
        user_functions: See `check_tree`.

    Raises:
        ReadOnlyError: Clients may not call it.
    """
    lower_name = name.lower()
    if lower_name in FUNCTIONS or lower_name in user_functions():
        return
    if lower_name in REACHING_OUT:
        raise refusal(f"cannot call {name}()", subject=name)
    close = nearest(lower_name, FUNCTIONS)
    raise refusal(
        f"cannot call {name}(), which is not a known function",
        subject=name,
        hint=f"did you mean {close}?" if close else "SHOW FUNCTIONS lists all functions",
    )


def _qualified_name(call: exp.Expr) -> str:
    """Return the name of a call, with the qualifiers before it."""
    name, node = call.name, call
    while isinstance(node.parent, exp.Dot) and node is node.parent.expression:
        node = node.parent
        name = f"{node.this.sql()}.{name}"
    return name


def _check_hint(hint: exp.Hint) -> None:
    for item in hint.expressions:
        if item.name.upper() not in SPARK_HINTS:
            raise refusal(f"cannot follow the hint {item.name}", subject=item.name)
