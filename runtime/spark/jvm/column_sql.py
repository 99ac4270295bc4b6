"""SQL of PySpark's Columns, from the tree that Spark keeps for each.

Spark's own text of a Column is for people: it drops DISTINCT and the types of literals. Uses
private APIs, checked with Spark 4.3: `Column._jc`, its `node()` and the classes of `ColumnNode`,
and `ColumnNodeToExpressionConverter`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runtime.errors import AnalysisError
from runtime.names import quote_name
from runtime.spark.private import missing_api_errors

if TYPE_CHECKING:
    from pyspark.sql import Column

_INFIX = frozenset("+ - * / % = == <=> < <= > >= & | ^ and or div like ilike rlike".split())
_PREFIX = {"negative": "-", "positive": "+", "not": "NOT ", "!": "NOT ", "~": "~"}
_SUFFIX = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}
# Names that SQL reads without quotes
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class ColumnSql:
    """A Column as SQL.

    Attributes:
        sql: Expression, without the alias.
        name: Alias, or None.
        column: Name of the column if the Column is one, else None.
    """

    sql: str
    name: str | None
    column: str | None


def column_sql(column: Column) -> ColumnSql:
    """Return a Column as SQL.

    Raises:
        AnalysisError: SQL cannot express the Column, or it belongs to Spark Connect.
    """
    if not hasattr(column, "_jc"):
        raise AnalysisError(
            "Columns of Spark Connect cannot be used here",
            hint="pass SQL, for example agg(total='SUM(price)')",
        )
    try:
        java_column: Any = column._jc
        node = java_column.node()
        name = None
        if _kind(node) == "Alias":
            (name, *more) = _items(node.name())
            if more:
                raise AnalysisError(
                    f"a Column may have one alias, but got {', '.join([name, *more])}"
                )
            node = node.child()
        if _kind(node) == "SqlExpression":  # may have an alias
            return ColumnSql(str(node.expression()), name, None)
        parts = _name_parts(node)
        plain = parts[0] if parts is not None and len(parts) == 1 else None
        return ColumnSql(_Tree(column).sql(node), name, plain)
    except missing_api_errors() as error:
        raise AnalysisError(f"the Column {_text(column)} has no SQL in this Spark") from error


class _Tree:
    """Reader of the tree of one Column."""

    def __init__(self, column: Column) -> None:
        self._column = column
        self._nodes: dict[str, Callable[[Any], str]] = {
            "Literal": self._literal,
            "UnresolvedStar": self._star,
            "UnresolvedFunction": self._function,
            "SqlExpression": lambda node: f"({node.expression()})",
            "Cast": self._cast,
            "CaseWhenOtherwise": self._case,
            "UnresolvedExtractValue": self._part,
            "LambdaFunction": self._lambda,
            "UnresolvedNamedLambdaVariable": lambda node: quote_name(str(node.name())),
        }

    def sql(self, node: Any) -> str:
        """Return a node as SQL, in parentheses if an operator could bind to a part of it.

        Raises:
            AnalysisError: SQL has no such node.
        """
        if (parts := _name_parts(node)) is not None:
            return quote_name(*parts)
        kind = _kind(node)
        if (read := self._nodes.get(kind)) is not None:
            return read(node)
        text = _text(self._column)
        if kind == "Alias":
            raise AnalysisError(
                f"the Column {text} has an alias inside an expression",
                hint="give the alias to the whole Column",
            )
        if kind == "Window":
            raise AnalysisError(
                f"the Column {text} has OVER, which cannot be part of an aggregate",
                hint="apply OVER to the DataFrame of results",
            )
        if kind == "SortOrder":
            raise AnalysisError(f"the Column {text} is an order, not a value")
        if kind == "ExpressionColumnNode":
            match = re.search(r"(\w+)\(columnnodeexpression", text)
            function = match[1] if match else "f"
            raise AnalysisError(
                f"the Column calls the Python function {function}, which SQL cannot express",
                hint=f"register it with spark.udf.register('{function}', ...), and call it with "
                f"F.call_udf('{function}', ...)",
            )
        raise AnalysisError(
            f"the Column {text} has no SQL",
            hint="pass SQL, or F.expr('...')",
        )

    def _literal(self, node: Any) -> str:
        from pyspark import SparkContext

        context = SparkContext._active_spark_context
        assert context is not None and context._jvm is not None
        converters: Any = context._jvm.org.apache.spark.sql.classic
        converter = getattr(converters, "ColumnNodeToExpressionConverter$").__getattr__("MODULE$")
        literal = converter.apply(node)
        if literal.dataType().typeName() == "timestamp" and literal.value() is not None:
            instant = context._jvm.java.time.Instant.ofEpochSecond(0)
            plus = instant.plus(literal.value(), context._jvm.java.time.temporal.ChronoUnit.MICROS)
            text = plus.toString().replace("T", " ").replace("Z", "+00:00")
            return f"TIMESTAMP_LTZ '{text}'"
        return str(literal.sql())

    def _star(self, node: Any) -> str:
        if node.unparsedTarget().isDefined():
            raise AnalysisError(f"the Column {_text(self._column)} has the columns of one relation")
        return "*"

    def _function(self, node: Any) -> str:
        name, nodes = str(node.functionName()), _items(node.arguments())
        args = [self.sql(arg) for arg in nodes]
        key = name.lower()
        if key == "in" and args:
            return f"({args[0]} IN ({', '.join(args[1:])}))"
        if key in _INFIX and len(args) == 2:
            return f"({args[0]} {key.upper()} {args[1]})"
        if key in _PREFIX and len(args) == 1:
            return f"({_PREFIX[key]}{args[0]})"
        if key in _SUFFIX and len(args) == 1:
            return f"({args[0]} {_SUFFIX[key]})"
        if not _PLAIN_NAME.fullmatch(name):
            raise AnalysisError(f"the Column {_text(self._column)} has no SQL: {name}")
        distinct = "DISTINCT " if node.isDistinct() else ""
        return f"{name}({distinct}{', '.join(args)})"

    def _cast(self, node: Any) -> str:
        mode = node.evalMode()
        is_try = mode.isDefined() and _kind(mode.get()).startswith("Try")
        function = "TRY_CAST" if is_try else "CAST"
        type_ = re.sub(r"\bTIMESTAMP\b(?!_)", "TIMESTAMP_LTZ", str(node.dataType().sql()))
        return f"{function}({self.sql(node.child())} AS {type_})"

    def _case(self, node: Any) -> str:
        branches = [
            f"WHEN {self.sql(branch._1())} THEN {self.sql(branch._2())}"
            for branch in _items(node.branches())
        ]
        if node.otherwise().isDefined():
            branches.append(f"ELSE {self.sql(node.otherwise().get())}")
        return f"CASE {' '.join(branches)} END"

    def _part(self, node: Any) -> str:
        return f"{self.sql(node.child())}[{self.sql(node.extraction())}]"

    def _lambda(self, node: Any) -> str:
        names = [self.sql(argument) for argument in _items(node.arguments())]
        return f"({', '.join(names)}) -> {self.sql(node.function())}"


def _name_parts(node: Any) -> Sequence[str] | None:
    """Return the parts of the name if a node is a column, as in F.col("k") or df["k"]."""
    if _kind(node) == "UnresolvedAttribute":
        return _items(node.nameParts())
    if _kind(node) == "ExpressionColumnNode":
        expression = node.expression()
        if _kind(expression) == "AttributeReference":
            return [str(expression.name())]
    return None


def _text(column: Column) -> str:
    """Return Spark's text of a Column."""
    return str(column).removeprefix("Column<'").removesuffix("'>")


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _items(sequence: Any) -> Sequence[Any]:
    return [sequence.apply(i) for i in range(sequence.size())]
