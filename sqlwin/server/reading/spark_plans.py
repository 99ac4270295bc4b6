"""Spark's analysed plan of a client's query, judged before any of its tasks run.

The plan shows all that the query computes and reads, even if Spark understands the statement
differently from the judges of its tree and text.

Uses private APIs, checked with Spark 4.3: `DataFrame._jdf` for the plan, and fields of its nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from runtime.errors import ReadOnlyError
from runtime.frames.views import is_step
from sqlwin.server.reading.errors import refusal
from sqlwin.server.reading.java_nodes import JavaNodes
from sqlwin.server.reading.relations import ReadableRelations
from sqlwin.server.reading.spark_classes import (
    ANALYSED_EXPRESSIONS,
    ANALYSED_OPERATORS,
    CATALYST,
    EXPRESSIONS,
    OPERATORS,
    USER_FUNCTIONS,
    classes,
    function_classes,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOGICAL = f"{CATALYST}plans.logical"
_VIEW = f"{_LOGICAL}.View"
# Python stages, which only sqlwin adds; their expressions are its own function
_STAGES = classes(_LOGICAL, "MapInArrow TransformWithStateInPySpark")
_ALL_OPERATORS = OPERATORS | ANALYSED_OPERATORS | _STAGES
# Tables of Spark's catalogs: where each names its table
_FILES = "org.apache.spark.sql.execution.datasources.LogicalRelation"
_HIVE = f"{CATALYST}catalog.HiveTableRelation"
_CONNECTOR = "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation"


class SparkPlans:
    """Judge of analysed plans.

    Args:
        spark: Spark session.
        relations: Judge of the names of tables and views.
        user_functions: See `sqlwin.server.reading.trees.check_tree`.
    """

    def __init__(
        self,
        spark: SparkSession,
        relations: ReadableRelations,
        user_functions: Callable[[], frozenset[str]],
    ) -> None:
        self._relations = relations
        self._user_functions = user_functions
        self._java = java = JavaNodes(spark)
        self.expressions = function_classes(java)
        self._expressions = self.expressions | EXPRESSIONS | ANALYSED_EXPRESSIONS
        self._is_view = java.is_instance(_VIEW)
        self._is_stage = [java.is_instance(stage) for stage in _STAGES]
        plan, node = f"{CATALYST}plans.QueryPlan", f"{CATALYST}trees.TreeNode"
        self._expressions_of = java.method(plan, "expressions")
        self._subqueries_of = java.method(plan, "subqueries")
        self._children_of = java.method(node, "children")

    def refusals(self, plan: Any) -> dict[str, ReadOnlyError]:
        """Return the parts of an analysed plan that are not allowed, by their text, with errors."""
        found: dict[str, ReadOnlyError] = {}
        pending = [plan]
        expressions = self._java.list_of(None)
        while pending:
            level = self._java.list_of(pending.pop())
            while level.nonEmpty():
                for place, name in enumerate(self._java.class_names(level)):
                    if name == _VIEW and is_step(_name_of(level.apply(place).desc())[-1]):
                        pending.append(level.apply(place).child())  # a part of the query
                    elif name not in _ALL_OPERATORS:
                        found |= self._check_operator(level.apply(place), name)
                level = level.filterNot(self._is_view)
                below = level.flatMap(self._children_of)
                for is_stage in self._is_stage:
                    level = level.filterNot(is_stage)
                expressions = expressions.concat(level.flatMap(self._expressions_of))
                level = below.concat(level.flatMap(self._subqueries_of))
        return found | self._check_expressions(expressions)

    def refusals_of(self, rows: DataFrame) -> dict[str, ReadOnlyError]:
        """Return `refusals` of the plan of rows, in which the rows of a command replace it."""
        return self.refusals(rows._jdf.queryExecution().commandExecuted())

    def _check_operator(self, node: Any, name: str) -> dict[str, ReadOnlyError]:
        text, table = name, None
        if name == _VIEW:
            table = _name_of(node.desc())
        elif name == _FILES and node.catalogTable().isDefined():
            table = _name_of(node.catalogTable().get())
        elif name == _HIVE:
            table = _name_of(node.tableMeta())
        elif name == _CONNECTOR and node.identifier().isDefined() and node.catalog().isDefined():
            identifier = node.identifier().get()
            table = (node.catalog().get().name(), *identifier.namespace(), identifier.name())
        if table is None:
            text = str(node.simpleString(100)) if name == _FILES else name
            return {text: _refused_operator()}
        try:
            self._relations.check_view(table)
        except ReadOnlyError as error:
            return {".".join(table): error}
        return {}

    def _check_expressions(self, level: Any) -> dict[str, ReadOnlyError]:
        found: dict[str, ReadOnlyError] = {}
        while level.nonEmpty():
            names = self._java.class_names(level)
            if not self._expressions.issuperset(names):
                for place, name in enumerate(names):
                    if name not in self._expressions:
                        found |= self._check_call(level.apply(place), name)
            level = level.flatMap(self._children_of)
        return found

    def _check_call(self, expression: Any, name: str) -> dict[str, ReadOnlyError]:
        if name in USER_FUNCTIONS:
            called = str(expression.name())
            if called.lower() in self._user_functions():
                return {}
        else:
            called = str(expression.prettyName())
        return {str(expression.sql()): refusal(f"cannot call {called}()", subject=called)}


def _name_of(table: Any) -> tuple[str, ...]:
    """Return the name of a table or view that Spark's catalog describes."""
    parts = table.identifier().nameParts()
    return tuple(parts.apply(place) for place in range(parts.size()))


def _refused_operator() -> ReadOnlyError:
    return refusal("cannot execute a clause that only Spark knows")
