"""Spark's own tree of a client's text, judged before Spark analyses it.

Spark's analyser already acts: it reads files to find their columns, and runs EXECUTE IMMEDIATE. So
the tree is judged as the parser returns it, with names in place of functions and tables.

Uses private APIs, checked with Spark 4.3: `SparkSession._jsparkSession` for Spark's parser, and
`SparkContext._gateway`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaObject, is_instance_of

from runtime.errors import ReadOnlyError
from runtime.spark.errors import translate_spark_errors
from sqlwin.server.reading.errors import refusal
from sqlwin.server.reading.relations import ReadableRelations
from sqlwin.server.reading.trees import check_function

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CATALYST = "org.apache.spark.sql.catalyst."
_COMMANDS = "org.apache.spark.sql.execution.command."


def _classes(package: str, names: str) -> frozenset[str]:
    return frozenset(f"{package}.{name}" for name in names.split())


# Nodes with the name of a table, a view or a function
_TABLES = _classes(
    f"{_CATALYST}analysis", "UnresolvedRelation UnresolvedTable UnresolvedTableOrView"
)
_FUNCTION = f"{_CATALYST}analysis.UnresolvedFunction"
_GENERATOR = f"{_CATALYST}analysis.UnresolvedGenerator"
_TABLE_FUNCTION = f"{_CATALYST}analysis.UnresolvedTableValuedFunction"
# Nodes that are parts of a query, compute with values, or list what the session has
_NODES = (
    _TABLES
    | {_FUNCTION, _GENERATOR, _TABLE_FUNCTION}
    | _classes(
        f"{_CATALYST}analysis",
        """
        CurrentNamespace$ MultiAlias RelationTimeTravel UnresolvedAlias UnresolvedAttribute
        UnresolvedExtractValue UnresolvedFunctionName UnresolvedHaving UnresolvedInlineTable
        UnresolvedNamespace UnresolvedOrdinal UnresolvedRegex UnresolvedStar
        UnresolvedStarExceptOrReplace UnresolvedSubqueryColumnAliases UnresolvedTVFAliases
        """,
    )
    | _classes(
        f"{_CATALYST}plans.logical",
        """
        Aggregate Distinct Except Filter Generate GlobalLimit Intersect Join LateralJoin LocalLimit
        LocalRelation Offset OneRowRelation Pivot Project RepartitionByExpression Sample Sort
        SubqueryAlias Union Unpivot UnresolvedHint UnresolvedWith WithWindowDefinition
        DescribeColumn DescribeFunction DescribeNamespace DescribeRelation ShowColumns
        ShowCreateTable ShowFunctions ShowPartitions ShowTableProperties ShowTables
        ShowTablesExtended ShowViews
        """,
    )
    | _classes(
        f"{_CATALYST}expressions",
        """
        Add Alias And AttributeReference BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast
        Coalesce Collate Concat CreateNamedStruct CreateStruct Cube CurrentDate CurrentRow$
        CurrentTime CurrentTimestamp CurrentUser Divide EqualNullSafe EqualTo Exists
        FunctionTableSubqueryArgumentExpression GreaterThan GreaterThanOrEqual GroupingSets If ILike
        In InSubquery IntegralDivide IsNotNull IsNotUnknown$$anon$2 IsNull IsUnknown$$anon$1
        LambdaFunction LateralSubquery LessThan LessThanOrEqual Like LikeAll LikeAny ListQuery
        Literal Localtime LocalTimestamp Multiply NamedArgumentExpression Not NotLikeAll NotLikeAny
        Or Overlay PipeExpression PipeOperator RLike Remainder Rollup ScalarSubquery
        SemiStructuredExtract ShiftLeft ShiftRight ShiftRightUnsigned SortOrder
        SpecifiedWindowFrame StringLocate StringTrim StringTrimLeft StringTrimRight Substring
        Subtract TimestampAdd TimestampDiff UnaryMinus UnaryPositive UnboundedFollowing$
        UnboundedPreceding$ UnresolvedCollation UnresolvedNamedLambdaVariable
        UnresolvedWindowExpression UnspecifiedFrame$ WindowExpression WindowSpecDefinition
        """,
    )
    | _classes(
        f"{_CATALYST}expressions.aggregate", "AggregateExpression AnyValue First Last Max Min"
    )
    | _classes(
        _COMMANDS.rstrip("."),
        """
        DescribeQueryCommand ExplainCommand ShowCatalogsCommand ShowCurrentNamespaceCommand
        ShowNamespacesCommand
        """,
    )
)
# Packages of values without nodes inside
_VALUES = (
    "java.lang.",
    "java.math.",
    "java.util.UUID",
    "scala.Enumeration",
    "org.apache.spark.sql.types.",
    "org.apache.spark.unsafe.types.",
    f"{_CATALYST}expressions.GenericInternalRow",
)
_OPTIONS = "org.apache.spark.sql.util.CaseInsensitiveStringMap"
# Nodes of clauses that are refused, for messages
_CLAUSES = {
    "ExpressionWithUnresolvedIdentifier": "IDENTIFIER(...)",
    "PlanWithUnresolvedIdentifier": "IDENTIFIER(...)",
    "InsertIntoDir": "INSERT",
    "InsertIntoStatement": "INSERT",
    "ScriptTransformation": "TRANSFORM",
    "CaseInsensitiveStringMap": "WITH (...) after a table",
    "UnresolvedExecuteImmediate": "EXECUTE IMMEDIATE",
}
# What a Java object is, by the first of these classes that it is an instance of
_KINDS = {
    f"{_CATALYST}trees.TreeNode": "node",
    "scala.collection.Iterable": "items",
    "scala.Product": "fields",
}


def check_spark_text(
    spark: SparkSession,
    text: str,
    relations: ReadableRelations,
    user_functions: Callable[[], frozenset[str]],
) -> None:
    """Parse a text as Spark does, and check its tree.

    Args:
        spark: Spark session that will run the text.
        text: A statement.
        relations: Judge of its tables.
        user_functions: See `sqlwin.server.reading.trees.check_tree`.

    Raises:
        ReadOnlyError: A part of it is not allowed.
        SqlwinError: Spark cannot parse it.
    """
    with translate_spark_errors():
        tree = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
    for node, name in _Tree(spark).nodes(tree):
        if name not in _NODES:
            raise _refused_node(name)
        if name in _TABLES:
            relations.check(tuple(_items(node.multipartIdentifier())))
        elif name == _FUNCTION:
            check_function(".".join(_items(node.nameParts())), user_functions)
        elif name == _TABLE_FUNCTION:
            check_function(".".join(_items(node.name())), user_functions)
        elif name == _GENERATOR:
            check_function(node.name().unquotedString(), user_functions)


class _Tree:
    """Walk over all fields of the nodes of a tree in Java."""

    def __init__(self, spark: SparkSession) -> None:
        self._gateway = spark.sparkContext._gateway
        self._kinds: dict[str, str] = {}

    def nodes(self, root: Any) -> Iterator[tuple[Any, str]]:
        """Yield each node below a Java object, and the name of its class.

        Raises:
            ReadOnlyError: It contains an object that cannot be understood.
        """
        pending = [root]
        while pending:
            each = pending.pop()
            if not isinstance(each, JavaObject):
                continue  # a text, a number or bytes
            name = str(each.getClass().getName())
            kind = self._kind(each, name)
            if kind == "node":
                yield each, name
            if kind == "items":
                pending += _items(each)
            elif kind:
                pending += [each.productElement(i) for i in range(each.productArity())]
            elif not self._is_value(each, name):
                raise _refused_node(name)

    def _kind(self, each: Any, name: str) -> str:
        if name not in self._kinds:
            kinds = (kind for of, kind in _KINDS.items() if is_instance_of(self._gateway, each, of))
            self._kinds[name] = next(kinds, "")
        return self._kinds[name]

    def _is_value(self, each: Any, name: str) -> bool:
        if name == _OPTIONS:
            return bool(each.isEmpty())
        return name.startswith(_VALUES)


def _items(sequence: Any) -> list[Any]:
    """Return the items of a Scala collection."""
    iterator = sequence.iterator()
    items = []
    while iterator.hasNext():
        items.append(iterator.next())
    return items


def _refused_node(name: str) -> ReadOnlyError:
    simple = name.rpartition(".")[2]
    return refusal(f"cannot execute {_CLAUSES.get(simple, 'a clause that only Spark knows')}")
