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
from sqlwin.server.reading.spark_classes import CATALYST, EXPRESSIONS, OPERATORS, classes
from sqlwin.server.reading.trees import check_function

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COMMANDS = "org.apache.spark.sql.execution.command"
# Nodes with the name of a table, a view or a function
_TABLES = classes(f"{CATALYST}analysis", "UnresolvedRelation UnresolvedTable UnresolvedTableOrView")
_FUNCTION = f"{CATALYST}analysis.UnresolvedFunction"
_GENERATOR = f"{CATALYST}analysis.UnresolvedGenerator"
_TABLE_FUNCTION = f"{CATALYST}analysis.UnresolvedTableValuedFunction"
# Nodes that are parts of a query, or list what the session has
_NODES = (
    OPERATORS
    | EXPRESSIONS
    | _TABLES
    | {_FUNCTION, _GENERATOR, _TABLE_FUNCTION}
    | classes(
        f"{CATALYST}analysis",
        """
        CurrentNamespace$ MultiAlias RelationTimeTravel UnresolvedAlias UnresolvedAttribute
        UnresolvedExtractValue UnresolvedFunctionName UnresolvedHaving UnresolvedInlineTable
        UnresolvedNamespace UnresolvedOrdinal UnresolvedRegex UnresolvedStar
        UnresolvedStarExceptOrReplace UnresolvedSubqueryColumnAliases UnresolvedTVFAliases
        """,
    )
    | classes(
        f"{CATALYST}plans.logical",
        """
        Pivot Unpivot UnresolvedHint UnresolvedWith WithWindowDefinition
        DescribeColumn DescribeFunction DescribeNamespace DescribeRelation ShowColumns
        ShowCreateTable ShowFunctions ShowPartitions ShowTableProperties ShowTables
        ShowTablesExtended ShowViews
        """,
    )
    | classes(
        f"{CATALYST}expressions",
        """
        IsNotUnknown$$anon$2 IsUnknown$$anon$1 UnresolvedCollation UnresolvedNamedLambdaVariable
        UnresolvedWindowExpression
        """,
    )
    | classes(
        _COMMANDS,
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
    f"{CATALYST}expressions.GenericInternalRow",
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
    f"{CATALYST}trees.TreeNode": "node",
    "scala.collection.Iterable": "items",
    "scala.Product": "fields",
}


def check_spark_text(
    spark: SparkSession,
    text: str,
    expressions: frozenset[str],
    relations: ReadableRelations,
    user_functions: Callable[[], frozenset[str]],
) -> None:
    """Parse a text as Spark does, and check its tree.

    Args:
        spark: Spark session that will run the text.
        text: A statement.
        expressions: Classes of the expressions that compute functions of values.
        relations: Judge of its tables.
        user_functions: See `sqlwin.server.reading.trees.check_tree`.

    Raises:
        ReadOnlyError: A part of it is not allowed.
        SqlwinError: Spark cannot parse it.
    """
    with translate_spark_errors():
        tree = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
    for node, name in _Tree(spark).nodes(tree):
        if name not in _NODES and name not in expressions:
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
