"""Rendering of trees as Spark SQL that preserves the original spelling.

sqlglot's Spark generator translates between dialects: it renames functions, rewrites literals and
replaces operators. Text for Spark must keep the meaning that the user's text has in Spark, so this
generator disables these translations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from sqlglot import exp, transforms
from sqlglot.dialects.spark import Spark
from sqlglot.generator import Generator
from sqlglot.generators.spark import SparkGenerator

from planner.sql.json_functions.spark import flink_call_sql
from planner.sql.nodes import (
    CHANGELOGS,
    FillClause,
    FillItem,
    FlinkCall,
    KeywordCall,
    MultiUnitInterval,
    UserAggregateCall,
    WindowFunctionCall,
)

# Set by the parser in `meta`: source text of a literal and its value. If a rule changes the value,
# the source text no longer applies.
RAW = "raw"
RAW_VALUE = "raw_value"

# Set in `meta` of a typed literal that the parser respells: Spark must not get the user's text
RESPELLED = "respelled"

# Set in `meta` of a negation written as `a IS NOT b`
IS_NOT = "is_not"

_QUARTER_MONTHS = 3


def quote_string(text: str) -> str:
    """Quote a text as a Spark string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def raw_text(node: exp.Expr) -> str | None:
    """Return the source text of a literal whose value is unchanged, else None."""
    raw: str | None = node.meta.get(RAW)
    return raw if raw is not None and node.meta.get(RAW_VALUE, node.this) == node.this else None


# Functions that may be called without parentheses
NO_PAREN_FUNCTIONS = (
    exp.CurrentDate,
    exp.CurrentTimestamp,
    exp.CurrentUser,
    exp.SessionUser,
    exp.Localtimestamp,
)


def _as_written(generator: Any, node: exp.Expr) -> str:
    raw = node.meta.get(RAW)
    return str(raw) if raw is not None else generator.function_fallback_sql(node)


class SparkSqlGenerator(SparkGenerator):
    """Generator that renders trees of `sqlwin.parser.parser.SqlWinQueries` as Spark 4 SQL."""

    NORMALIZE_FUNCTIONS: bool | str = False
    # Do not hoist CTEs: the same name may refer to different queries inside and outside.
    EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[type[exp.Expr]]] = set()

    TYPE_MAPPING = {
        **SparkGenerator.TYPE_MAPPING,
        exp.DType.TIMESTAMPTZ: "TIMESTAMP",
        exp.DType.TIME: "TIME",
        exp.DType.NULL: "VOID",
    }
    SUPPORTS_TEMPORAL_PRECISION = True  # TIME(3). The parser drops the precision of TIMESTAMP.

    TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[[Any, Any], str]]] = {
        **{
            node: transform
            for node, transform in SparkGenerator.TRANSFORMS.items()
            if node not in (exp.Pivot, exp.From, exp.AtTimeZone, exp.TryCast)
        },
        **{node: _as_written for node in NO_PAREN_FUNCTIONS},
        exp.BitwiseLeftShift: lambda self, node: self.binary(node, "<<"),
        exp.BitwiseRightShift: lambda self, node: self.binary(node, ">>"),
        # Spark's own transformations, except for QUALIFY, which Spark supports
        exp.Select: transforms.preprocess(
            [
                transforms.eliminate_distinct_on,
                transforms.unnest_to_explode,
                transforms.any_to_exists,
            ]
        ),
        FillClause: lambda self, node: self.fillclause_sql(node),
        FillItem: lambda self, node: self.fillitem_sql(node),
        FlinkCall: lambda self, node: self.flinkcall_sql(node),
        KeywordCall: lambda self, node: self.keywordcall_sql(node),
        MultiUnitInterval: lambda self, node: self.multiunitinterval_sql(node),
        UserAggregateCall: lambda self, node: self.anonymous_sql(node),
        WindowFunctionCall: lambda self, node: self.windowfunctioncall_sql(node),
    }

    def literal_sql(self, expression: exp.Literal) -> str:
        """Render a literal as written, or a number unchanged and a string with Spark's escapes."""
        raw = raw_text(expression)
        if raw is not None:
            return raw
        text = str(expression.this)
        return quote_string(text) if expression.is_string else text

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        """Render `10L`, `DATE '...'` or CAST, which share a node type, as written."""
        if expression.meta.get(RAW) is not None:
            return str(expression.meta[RAW])
        return Generator.cast_sql(self, expression, safe_prefix=safe_prefix)

    def trycast_sql(self, expression: exp.TryCast) -> str:
        """Render TRY_CAST, which returns NULL where CAST fails."""
        return self.cast_sql(expression, safe_prefix="TRY_")

    def datatype_sql(self, expression: exp.DataType) -> str:
        """Render a type, with the fields of a STRUCT in Spark's `name: type` format."""
        if expression.this == exp.DType.STRUCT and expression.expressions:
            return f"STRUCT<{self.expressions(expression, flat=True)}>"
        return super().datatype_sql(expression)

    def not_sql(self, expression: exp.Not) -> str:
        """Render `a IS NOT NULL` or `NOT a IS NULL` as written.

        Spark derives column names from the text.
        """
        inner = expression.this
        if expression.meta.get(IS_NOT) and isinstance(inner, exp.Is):
            return f"{self.sql(inner, 'this')} IS NOT {self.sql(inner, 'expression')}"
        return super().not_sql(expression)

    def interval_sql(self, expression: exp.Interval) -> str:
        """Render an INTERVAL literal. Spark has no QUARTER."""
        return f"INTERVAL {self._interval_part(expression)}"

    def multiunitinterval_sql(self, expression: MultiUnitInterval) -> str:
        """Render `INTERVAL 1 DAY 2 HOURS`."""
        return "INTERVAL " + " ".join(map(self._interval_part, expression.expressions))

    def _interval_part(self, interval: exp.Interval) -> str:
        value, unit = interval.this, interval.args.get("unit")
        if unit is None:
            return self.sql(value)
        name = self.sql(unit)
        if name.upper() in ("QUARTER", "QUARTERS"):
            quarters = value.this if isinstance(value, exp.Neg) else value
            try:
                months = int(quarters.name) * _QUARTER_MONTHS
            except ValueError:
                return f"{self.sql(value)} {name}"  # not a number: Spark reports the error
            sign = "-" if isinstance(value, exp.Neg) else ""
            return f"{sign}'{months}' MONTH"
        return f"{self.sql(value)} {name}"

    def keywordcall_sql(self, expression: KeywordCall) -> str:
        """Render `EXTRACT(DAY FROM ts)`."""
        parts = zip(expression.args["words"], expression.expressions, strict=True)
        texts = (f"{word} {self.sql(node)}".strip() for word, node in parts)
        arguments = "".join(text if text[0] == "," else f" {text}" for text in texts)
        return f"{expression.name}({arguments.strip()})"

    def flinkcall_sql(self, expression: FlinkCall) -> str:
        """Render a function of Flink's as the expression of Spark that computes it."""
        arguments = [self.sql(node) for node in expression.expressions]
        wrapper = expression.args.get("wrapper") or "never"
        return flink_call_sql(expression.name, arguments, expression.returns, wrapper)

    def group_sql(self, expression: exp.Group) -> str:
        """Render GROUP BY, and FILL after it."""
        fill = expression.args.get("fill")
        text = super().group_sql(expression)
        return text if fill is None else f"{text}{self.sep()}{self.sql(fill)}"

    def fillclause_sql(self, expression: FillClause) -> str:
        """Render FILL with its bounds and keys."""
        text = f"FILL ({self.expressions(expression, flat=True)})"
        for word, key in (("FROM", "start"), ("TO", "end"), ("KEYS", "keys")):
            if expression.args.get(key):
                text += f" {word} {self.sql(expression, key)}"
        return text

    def fillitem_sql(self, expression: FillItem) -> str:
        """Render an item of FILL."""
        value = self.sql(expression, "expression")
        return f"{self.sql(expression, 'this')} = {value}" if expression.this else value

    def windowfunctioncall_sql(self, expression: WindowFunctionCall) -> str:
        """Render `TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), ...)) AS a`, which only sqlwin can read."""

        def table(part: exp.Expr) -> str:
            return f"TABLE {self.sql(part)}" if isinstance(part, exp.Table) else self.sql(part)

        source = table(expression.args["data"])
        if partition := expression.args.get("partition"):
            names = ", ".join(self.sql(column) for column in partition)
            source += f" PARTITION BY ({names})" if len(partition) > 1 else f" PARTITION BY {names}"
        arguments = [source]
        if expression.args.get("timecol") is not None:
            arguments.append(f"DESCRIPTOR({self.sql(expression, 'timecol')})")
        for parameter in ("slide", "step", "size", "gap", "offset"):
            if expression.args.get(parameter) is not None:
                arguments.append(self.sql(expression, parameter))
        if (bounds := expression.args.get("bounds")) is not None:
            names = self.expressions(expression.args["boundcols"], flat=True)
            arguments += [table(bounds), f"DESCRIPTOR({names})"]
        flag = expression.args.get("emitonlyonupdate")
        if flag is not None:
            arguments.append(self.sql(flag))
        for parameter in ("fill", "from", "to", "keys"):
            if expression.args.get(parameter) is not None:
                value = expression.args[parameter]
                text = self.sql(value)
                if isinstance(value, exp.Tuple):
                    text = f"({self.expressions(value, flat=True)})"
                arguments.append(f"{parameter.upper()} => {text}")
        if expression.kind in CHANGELOGS:
            arguments = [f"input => {source}", *self._changelog_arguments(expression)]
        sample = self.sql(expression, "sample")
        alias = self.sql(expression, "alias")
        pivots = self.expressions(expression, key="pivots", sep="", flat=True)
        joins = self.expressions(expression, key="joins", sep="", flat=True)
        laterals = self.expressions(expression, key="laterals", sep="")
        call = f"TABLE({expression.kind}({', '.join(arguments)}))"
        return f"{call}{sample}{f' AS {alias}' if alias else ''}{pivots}{joins}{laterals}"

    def _changelog_arguments(self, expression: WindowFunctionCall) -> Iterator[str]:
        """Yield the optional arguments of CHANGELOGS."""
        if expression.args.get("op") is not None:
            yield f"op => DESCRIPTOR({self.sql(expression, 'op')})"
        if (mapping := expression.args.get("op_mapping")) is not None:
            yield f"op_mapping => MAP[{self.expressions(mapping, flat=True)}]"
        if expression.args.get("error_handling") is not None:
            yield f"error_handling => {self.sql(expression, 'error_handling')}"


class SparkSql(Spark):
    r"""sqlglot's Spark dialect, with a generator that preserves the original spelling.

    Example:
        >>> SparkSql().generate(exp.Literal.string("it's"))
        "'it\\'s'"
    """

    NORMALIZE_FUNCTIONS: bool | str = False

    Generator = SparkSqlGenerator
