"""Classes of Spark's trees that clients of a read-only server may use.

Classes of functions follow from the names of `OF_VALUES`. The lists below add what SQL has besides
functions: operators, parts of queries, and what Spark's analyser makes of both.

Uses private APIs, checked with Spark 4.3: the lists of built-in functions, and class names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sqlwin.catalog.spark.function_names import OF_VALUES
from sqlwin.server.reading.java_nodes import JavaNodes

CATALYST = "org.apache.spark.sql.catalyst."


def classes(package: str, names: str) -> frozenset[str]:
    """Return the full names of classes of a package."""
    return frozenset(f"{package}.{name}" for name in names.split())


# Relational operators that a parsed and an analysed query have
OPERATORS = classes(
    f"{CATALYST}plans.logical",
    """
    Aggregate Distinct Except Filter Generate GlobalLimit Intersect Join LateralJoin LocalLimit
    LocalRelation Offset OneRowRelation Project RepartitionByExpression Sample Sort SubqueryAlias
    Union
    """,
)
# Expressions that SQL writes without the name of a function
EXPRESSIONS = classes(
    f"{CATALYST}expressions",
    """
    Alias AttributeReference CreateStruct Cube CurrentRow$ Exists
    FunctionTableSubqueryArgumentExpression GroupingSets InSubquery LambdaFunction LateralSubquery
    LikeAll LikeAny ListQuery Literal Localtime NamedArgumentExpression NotLikeAll NotLikeAny
    PipeExpression PipeOperator Rollup ScalarSubquery SemiStructuredExtract SortOrder
    SpecifiedWindowFrame TimestampAdd TimestampDiff UnboundedFollowing$ UnboundedPreceding$
    UnspecifiedFrame$ WindowExpression WindowSpecDefinition aggregate.AggregateExpression
    """,
)
# Relational operators that only the analyser makes, or sqlwin for its own stages; the rows of a
# command that has run
ANALYSED_OPERATORS = classes(
    f"{CATALYST}plans.logical",
    """
    CTERelationDef CTERelationRef CollectMetrics CommandResult Deduplicate Expand Range Repartition
    ResolvedHint
    SQLFunctionNode UnionLoop UnionLoopRef Window WithCTE
    """,
)
# Expressions that only the analyser makes: of operators between times and intervals, of items of
# arrays, structs and maps, of functions whose arguments decide what computes them
ANALYSED_EXPRESSIONS = classes(
    f"{CATALYST}expressions",
    """
    BinaryPad BinaryPredicate CommonExpressionDef CommonExpressionRef CounterDiffWithStartTime
    DateAddInterval DateAddYMInterval DatetimeSub DirectShufflePartitionID DivideDTInterval
    DivideInterval DivideYMInterval ExtractANSIIntervalDays ExtractANSIIntervalHours
    ExtractANSIIntervalMinutes ExtractANSIIntervalMonths ExtractANSIIntervalSeconds
    ExtractANSIIntervalYears ExtractIntervalDays ExtractIntervalHours ExtractIntervalMinutes
    ExtractIntervalMonths ExtractIntervalSeconds ExtractIntervalYears GeneratorOuter GetArrayItem
    GetArrayStructFields GetMapValue GetStructField GetTimestamp HoursOfTime KnownNotNull
    KnownNullable LateralColumnAliasReference LocalTimestampNanos MakeTimestampFromDateTime
    MakeTimestampLTZNanos MakeTimestampNTZNanos MinutesOfTime MultiplyDTInterval MultiplyInterval
    MultiplyYMInterval NamedLambdaVariable NullIfResult OuterReference
    PreciseTimestampConversion ResolvedCollation RoundCeil RoundFloor SecondWithFraction
    SecondWithFractionNanos SecondsOfTime SecondsOfTimeWithFraction StringDecode
    StringInstrWithOccurrence StringLPad StringRPad StringSplitSQL SubtractDates SubtractTimes
    SubtractTimestamps TimeAddInterval TimestampAddInterval TimestampAddYMInterval TryEval
    TryMakeTimestampFromDateTime UpCast With YearOfWeek aggregate.MaxMinByK aggregate.PivotFirst
    """,
)
# Expressions that call a function of Python or Java under the name with which it is registered
USER_FUNCTIONS = classes(
    f"{CATALYST}expressions", "PythonUDAF PythonUDF PythonUDTF ScalaUDF"
) | classes("org.apache.spark.sql.execution.aggregate", "ScalaAggregator")

_BUILDER = re.compile(r"(Expression|Generator|OuterGenerator)?Builder$")


def function_classes(java: JavaNodes) -> frozenset[str]:
    """Return the classes of the expressions that compute the functions of `OF_VALUES`."""
    analysis = java.jvm.org.apache.spark.sql.catalyst.analysis
    return frozenset(
        _BUILDER.sub("", of)
        for functions in (analysis.FunctionRegistry, analysis.TableFunctionRegistry)
        for name, of in _described(java, functions.builtin())
        if name in OF_VALUES
    )


def _described(java: JavaNodes, functions: Any) -> Iterator[tuple[str, str]]:
    """Yield the name and the class of each function of a list."""
    names = functions.listFunction()
    identifier = "org.apache.spark.sql.catalyst.FunctionIdentifier"
    text = java.text_of(names, java.method(identifier, "funcName"))
    look_up = java.method_of(functions, "lookupFunction", identifier)
    information = names.flatMap(look_up)
    of = java.method("org.apache.spark.sql.catalyst.expressions.ExpressionInfo", "getClassName")
    return zip(text, java.text_of(information, of), strict=True)
