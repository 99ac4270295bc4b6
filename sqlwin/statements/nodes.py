"""Parsed statements, a frozen class per kind.

Every statement holds its `text` with the values of its parameters, the `offset` of the text in the
script, and its tokens. Positions in a statement's tokens and tree, and in errors about it, are
relative to the start of its own text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from planner.sql.nodes import TableOptions
from runtime.names import quote_name
from runtime.spec.table import TableColumn, Watermark

Name = tuple[str, ...]


# Flink's names for the initial catalog and database
DEFAULTS = ("default_catalog", "default_database")


@dataclass(frozen=True)
class Statement:
    """Base class of statements."""

    text: str
    offset: int
    tokens: tuple[Token, ...] = field(default=(), kw_only=True, repr=False, compare=False)


@dataclass(frozen=True)
class SparkStatement(Statement):
    """A statement that is passed to Spark unchanged."""

    @property
    def spark_text(self) -> str:
        """Text to send to Spark."""
        return self.text


@dataclass(frozen=True)
class Use(SparkStatement):
    """USE [CATALOG | DATABASE] name.

    Attributes:
        kind: `CATALOG`, `DATABASE`, or None if omitted.
        name: Name of the catalog or database, in parts.
    """

    kind: str | None
    name: Name

    @property
    def spark_text(self) -> str:
        """Text to send to Spark, which spells USE CATALOG differently.

        Flink's names for the initial catalog and database are mapped to Spark's.
        """
        lower_name = tuple(part.lower() for part in self.name)
        if self.kind == "CATALOG" and lower_name == DEFAULTS[:1]:
            return "SET CATALOG spark_catalog"
        if self.kind != "CATALOG" and lower_name in (DEFAULTS, DEFAULTS[1:]):
            return "USE spark_catalog.default"
        name = quote_name(*self.name)
        if self.kind == "CATALOG":
            return f"SET CATALOG {name}"
        return f"USE DATABASE {name}" if self.kind else f"USE {name}"

    @property
    def is_initial(self) -> bool:
        """Whether it names the catalog or database of a new session."""
        lower_name = tuple(part.lower() for part in self.name)
        if self.kind == "CATALOG":
            return lower_name in (DEFAULTS[:1], ("spark_catalog",))
        initial = (DEFAULTS, DEFAULTS[1:], ("default",), ("spark_catalog", "default"))
        return lower_name in initial


@dataclass(frozen=True)
class Query(Statement):
    """A query.

    Attributes:
        ast: Tree of the query.
    """

    ast: exp.Query


@dataclass(frozen=True)
class Insert(Statement):
    """INSERT INTO or INSERT OVERWRITE.

    Attributes:
        name: Name of the table, in parts.
        columns: Listed columns, if any.
        overwrite: Whether existing rows are replaced.
        partition: `PARTITION (...)` in Spark's syntax, or "".
        static: Name and Spark SQL value of each static partition column.
        ast: Query whose rows are inserted.
        query_text: Text of the query.
        options: Table options overridden by this statement.
    """

    name: Name
    columns: tuple[str, ...]
    overwrite: bool
    partition: str
    ast: exp.Query
    query_text: str
    options: TableOptions | None = None
    static: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class StatementSet(Statement):
    """Several INSERTs that run together."""

    inserts: tuple[Insert, ...]


@dataclass(frozen=True, kw_only=True)
class Create(Statement):
    """CREATE of a table or view.

    Attributes:
        name: Name, in parts.
        comment: Text of COMMENT, if any.
        if_not_exists: Whether to keep an existing table or view.
        or_replace: Whether to replace an existing table or view.
        temporary: Whether it is CREATE TEMPORARY.
    """

    name: Name
    comment: str | None = None
    if_not_exists: bool = False
    or_replace: bool = False
    temporary: bool = False


@dataclass(frozen=True, kw_only=True)
class CreateTable(Create):
    """CREATE TABLE ... WITH (...).

    Attributes:
        columns: Columns, with types and expressions in Spark's spelling.
        options: Options in WITH, in order, including the connector.
        partitioned_by: Names of the partition columns.
        primary_key: Names of the primary key columns.
        watermark: WATERMARK FOR, if any.
        expressions: Trees of the computed columns and of the watermark, by their text. Without
            source positions.
        like: Table of a LIKE clause, in parts.
        like_excluding: Features that LIKE excludes: CONSTRAINTS, DISTRIBUTION, GENERATED, METADATA,
            OPTIONS, PARTITIONS, WATERMARKS.
        like_overwriting: Features that this table may override: GENERATED, OPTIONS, WATERMARKS.
        as_query: Query of CREATE TABLE AS.
    """

    columns: tuple[TableColumn, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    partitioned_by: tuple[str, ...] = ()
    primary_key: tuple[str, ...] = ()
    watermark: Watermark | None = None
    expressions: Mapping[str, exp.Expr] = field(default_factory=dict, compare=False, repr=False)
    like: Name | None = None
    like_excluding: frozenset[str] = frozenset()
    like_overwriting: frozenset[str] = frozenset({"OPTIONS"})
    as_query: exp.Query | None = None


@dataclass(frozen=True, kw_only=True)
class CreateView(Create):
    """CREATE VIEW.

    Attributes:
        columns: Column names of the view, if listed.
        ast: Tree of the query. Positions are relative to the statement, not to the query.
        query_text: Text of the query.
    """

    columns: tuple[str, ...]
    ast: exp.Query
    query_text: str


@dataclass(frozen=True, kw_only=True)
class CreateMaterializedTable(Create):
    """CREATE MATERIALIZED TABLE: creates and fills a table or, without AS, opens an existing one.

    Attributes:
        ast: Tree of the query. None to open an existing table.
        query_text: Text of the query.
        options: Options in WITH, in order.
        partitioned_by: Names of the partition columns.
        freshness: `INTERVAL '1' MINUTE`, if specified.
        refresh_mode: FULL or CONTINUOUS, if specified.
    """

    ast: exp.Query | None = None
    query_text: str = ""
    options: tuple[tuple[str, str], ...] = ()
    partitioned_by: tuple[str, ...] = ()
    freshness: str | None = None
    refresh_mode: str | None = None


@dataclass(frozen=True)
class AlterMaterializedTable(Statement):
    """ALTER MATERIALIZED TABLE. `action` is REFRESH, SUSPEND or RESUME."""

    name: Name
    action: str


@dataclass(frozen=True, kw_only=True)
class AlterTable(Statement):
    """ALTER TABLE ... SET, RESET or RENAME TO.

    Attributes:
        name: Name, in parts.
        if_exists: Whether a missing table is ignored.
        set: Options to set, with their values.
        reset: Names of options to remove.
        new_name: New name, or None.
    """

    name: Name
    if_exists: bool = False
    set: tuple[tuple[str, str], ...] = ()
    reset: tuple[str, ...] = ()
    new_name: Name | None = None


@dataclass(frozen=True)
class Drop(Statement):
    """DROP. `kind` is `TABLE`, `VIEW` or `MATERIALIZED TABLE`."""

    kind: str
    name: Name
    if_exists: bool = False
    temporary: bool = False


@dataclass(frozen=True)
class ShowNames(Statement):
    """SHOW TABLES, VIEWS, FUNCTIONS or MATERIALIZED TABLES (`kind`), with a LIKE pattern."""

    kind: str
    like: str | None = None


@dataclass(frozen=True)
class ShowStreams(Statement):
    """SHOW STREAMS, or Flink's SHOW JOBS."""


@dataclass(frozen=True)
class ShowState(Statement):
    """SHOW STATE OF 'dir': the state of a stream's operators in its checkpoint."""

    directory: str


@dataclass(frozen=True)
class StopStream(Statement):
    """STOP STREAM, or Flink's STOP JOB, with the number or name of a stream."""

    name: str


@dataclass(frozen=True)
class ShowCreateTable(Statement):
    """SHOW CREATE TABLE or SHOW CREATE VIEW. `options` follow a file path."""

    name: Name
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Describe(Statement):
    """DESCRIBE [EXTENDED] of a table or view. `options` follow a file path."""

    name: Name
    is_extended: bool = False
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Advise(Statement):
    """ADVISE: which delay the watermark of a query's table should have.

    Attributes:
        ast: Tree of the query.
        options: How its rows arrived, and what to try.
    """

    ast: exp.Query
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Summarize(Statement):
    """SUMMARIZE of a table, of files by path, or of a query. `ast` returns the rows."""

    ast: exp.Query


@dataclass(frozen=True)
class Set(Statement):
    """SET of a key. Without a value it shows the key, without a key all settings."""

    key: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class Reset(Statement):
    """RESET of one key or all."""

    key: str | None = None


@dataclass(frozen=True)
class Explain(Statement):
    """EXPLAIN.

    Attributes:
        statement: Statement to explain. Its text is a part of this one's.
        details: Additional sections, such as `ESTIMATED_COST`, in upper case.
    """

    statement: Statement
    details: tuple[str, ...] = ()
