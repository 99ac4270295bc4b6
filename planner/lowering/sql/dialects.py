"""Dialects of the targets, with a layout in which an expression takes one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.clickhouse import ClickHouse
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.postgres import Postgres
from sqlglot.dialects.spark import Spark
from sqlglot.generator import Generator
from sqlglot.generators.clickhouse import ClickHouseGenerator
from sqlglot.generators.duckdb import DuckDBGenerator
from sqlglot.generators.postgres import PostgresGenerator
from sqlglot.generators.spark import SparkGenerator


class _Layout(Generator):
    """Layout of expressions."""

    def paren_sql(self, expression: exp.Paren) -> str:
        """Write parentheses on the line of their contents."""
        return f"({self.sql(expression, 'this')})"

    def filter_sql(self, expression: exp.Filter) -> str:
        """Write FILTER on one line."""
        condition = self.sql(expression.expression, "this")
        return f"{self.sql(expression, 'this')} FILTER (WHERE {condition})"

    def not_sql(self, expression: exp.Not) -> str:
        """Write `IS NOT NULL`."""
        inner = expression.this
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            return f"{self.sql(inner, 'this')} IS NOT NULL"
        return super().not_sql(expression)


class DuckDbText(DuckDB):
    """DuckDB."""

    class Generator(_Layout, DuckDBGenerator):
        """Generator with the layout."""


class PostgresText(Postgres):
    """PostgreSQL."""

    class Generator(_Layout, PostgresGenerator):
        """Generator with the layout."""

        TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[..., str]]] = {
            **PostgresGenerator.TRANSFORMS,
            # cuts off the fraction of a quotient of integers
            exp.IntDiv: lambda self, node: self.binary(node, "/"),
        }

        def div_sql(self, expression: exp.Div) -> str:
            """Write `/` of doubles and decimals."""
            return self.binary(expression, "/")


class ClickHouseText(ClickHouse):
    """ClickHouse, whose columns are Nullable."""

    class Generator(_Layout, ClickHouseGenerator):
        """Generator with types that fail on overflow and take NULL."""

        TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[..., str]]] = {
            **ClickHouseGenerator.TRANSFORMS,
            exp.IntDiv: lambda self, node: self.func("intDiv", node.this, node.expression),
            exp.BitwiseAnd: lambda self, node: self.func("bitAnd", node.this, node.expression),
            exp.BitwiseOr: lambda self, node: self.func("bitOr", node.this, node.expression),
            exp.BitwiseXor: lambda self, node: self.func("bitXor", node.this, node.expression),
        }

        def datatype_sql(self, expression: exp.DataType) -> str:
            """Write a type with NULL, which an array cannot be."""
            if expression.this == exp.DType.ARRAY:
                (item,) = expression.expressions
                return f"Array({self._plain_type(item)})"
            return f"Nullable({self._plain_type(expression)})"

        def _plain_type(self, expression: exp.DataType) -> str:
            if expression.this == exp.DType.DECIMAL:
                digits = ", ".join(self.sql(part) for part in expression.expressions)
                return f"Decimal({digits})"
            return _CLICKHOUSE_TYPES[expression.this]

        def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
            """Write a cast. One to an integer wraps, unless it is accurate."""
            value, type_ = expression.this, self.sql(expression.to)
            number = value.this if isinstance(value, exp.Neg) else value
            is_literal = isinstance(number, exp.Literal | exp.Null)
            if "Int" in type_ and not is_literal:
                return self.func("accurateCast", value, exp.Literal.string(type_))
            return f"CAST({self.sql(value)} AS {type_})"


_CLICKHOUSE_TYPES = {
    exp.DType.TINYINT: "Int8",
    exp.DType.SMALLINT: "Int16",
    exp.DType.INT: "Int32",
    exp.DType.BIGINT: "Int64",
    exp.DType.FLOAT: "Float32",
    exp.DType.DOUBLE: "Float64",
    exp.DType.TEXT: "String",
    exp.DType.BOOLEAN: "Bool",
    exp.DType.DATE: "Date32",
    exp.DType.TIMESTAMPNTZ: "DateTime64(6)",
    exp.DType.TIMESTAMPTZ: "DateTime64(6, 'UTC')",
}


class DataFusionText(PostgresText):
    """DataFusion, which is near PostgreSQL."""

    class Generator(PostgresText.Generator):
        """Generator with DataFusion's names of types."""

        TYPE_MAPPING: ClassVar[dict[exp.DType, str]] = {
            **PostgresGenerator.TYPE_MAPPING,
            exp.DType.TINYINT: "TINYINT",
            # TIMESTAMP has nanoseconds
            exp.DType.TIMESTAMPNTZ: "TIMESTAMP(6)",
        }

        def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
            """Write a cast to an instant, whose zone would be the one of the session."""
            if expression.to.this == exp.DType.TIMESTAMPTZ:
                type_ = exp.Literal.string('Timestamp(Microsecond, Some("UTC"))')
                return self.func("ARROW_CAST", expression.this, type_)
            return super().cast_sql(expression, safe_prefix)


class SparkText(Spark):
    """Spark."""

    class Generator(_Layout, SparkGenerator):
        """Generator with the layout."""


DIALECTS: dict[str, type[Dialect]] = {
    "clickhouse": ClickHouseText,
    "datafusion": DataFusionText,
    "duckdb": DuckDbText,
    "postgres": PostgresText,
    "spark": SparkText,
}
