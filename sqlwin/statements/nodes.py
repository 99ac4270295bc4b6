"""What statements say, one frozen description a kind.

Every statement knows its `text` and the `offset` of that text in the script it came from. Places
in a statement's tree, and in errors about it, count from the start of its own text.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from planner.sql.nodes import TableOptions
from runtime.names import quoted
from runtime.spec.table import TableColumn, Watermark

Name = tuple[str, ...]


# What Flink calls the catalog and the database that a session starts with
DEFAULTS = ("default_catalog", "default_database")


@dataclass(frozen=True)
class Statement:
    """One statement."""

    text: str
    offset: int


@dataclass(frozen=True)
class SparkStatement(Statement):
    """A statement that Spark takes, and judges, as it stands."""

    @property
    def spark_text(self) -> str:
        """What to send to Spark."""
        return self.text


@dataclass(frozen=True)
class Use(SparkStatement):
    """USE [CATALOG | DATABASE] name.

    Attributes:
        kind: `CATALOG`, `DATABASE`, or None where it is not said.
        name: what is to be used, in parts.
    """

    kind: str | None
    name: Name

    @property
    def spark_text(self) -> str:
        """What to send to Spark, which spells USE CATALOG another way.

        The catalog and the database that Flink starts with are those that Spark starts with.
        """
        folded = tuple(part.lower() for part in self.name)
        if self.kind == "CATALOG" and folded == DEFAULTS[:1]:
            return "SET CATALOG spark_catalog"
        if self.kind != "CATALOG" and folded in (DEFAULTS, DEFAULTS[1:]):
            return "USE spark_catalog.default"
        name = quoted(*self.name)
        if self.kind == "CATALOG":
            return f"SET CATALOG {name}"
        return f"USE DATABASE {name}" if self.kind else f"USE {name}"


@dataclass(frozen=True)
class Query(Statement):
    """A query.

    Attributes:
        ast: its tree.
    """

    ast: exp.Query


@dataclass(frozen=True)
class Insert(Statement):
    """INSERT INTO or INSERT OVERWRITE.

    Attributes:
        name: the table, in parts.
        columns: the columns that are listed, if any.
        overwrite: whether rows that are there go.
        partition: `PARTITION (...)` as Spark reads it, or an empty string.
        static: name and Spark SQL of the columns that have a value there.
        ast: the query whose rows are inserted.
        options: what is to be other than the table's options here, if anything is.
    """

    name: Name
    columns: tuple[str, ...]
    overwrite: bool
    partition: str
    ast: exp.Query
    options: TableOptions | None = None
    static: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class StatementSet(Statement):
    """Several INSERT that run as one."""

    inserts: tuple[Insert, ...]


@dataclass(frozen=True, kw_only=True)
class Create(Statement):
    """CREATE of a table or view.

    Attributes:
        name: its name, in parts.
        comment: COMMENT, if there is one.
        if_not_exists: whether one that is there is left alone.
        or_replace: whether one that is there goes.
        temporary: CREATE TEMPORARY.
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
        columns: types and expressions in Spark's spelling.
        options: what stands in WITH, in order, the connector among them.
        partitioned_by: names of columns.
        primary_key: names of columns.
        watermark: WATERMARK FOR, if there is one.
        like: the table of a LIKE clause, in parts.
        like_excluding: what LIKE does not take over: of CONSTRAINTS, DISTRIBUTION, GENERATED,
            METADATA, OPTIONS, PARTITIONS and WATERMARKS.
        like_overwriting: what may be there in both, and is then this table's: of GENERATED,
            OPTIONS and WATERMARKS.
        as_query: the query of CREATE TABLE AS.
    """

    columns: tuple[TableColumn, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    partitioned_by: tuple[str, ...] = ()
    primary_key: tuple[str, ...] = ()
    watermark: Watermark | None = None
    like: Name | None = None
    like_excluding: frozenset[str] = frozenset()
    like_overwriting: frozenset[str] = frozenset({"OPTIONS"})
    as_query: exp.Query | None = None


@dataclass(frozen=True, kw_only=True)
class CreateView(Create):
    """CREATE VIEW.

    Attributes:
        columns: the names it gives to its columns, if any.
        ast: its query; places in it count from the start of the statement, not of the query.
        query_text: its query as written.
    """

    columns: tuple[str, ...]
    ast: exp.Query
    query_text: str


@dataclass(frozen=True, kw_only=True)
class CreateMaterializedTable(Create):
    """CREATE MATERIALIZED TABLE: makes and fills one, or without AS opens one that is there.

    Attributes:
        ast: its query; None: it is opened.
        query_text: its query as written.
        options: what stands in WITH, in order.
        partitioned_by: names of columns.
        freshness: `INTERVAL '1' MINUTE`, if it is said.
        refresh_mode: FULL or CONTINUOUS, if it is said.
    """

    ast: exp.Query | None = None
    query_text: str = ""
    options: tuple[tuple[str, str], ...] = ()
    partitioned_by: tuple[str, ...] = ()
    freshness: str | None = None
    refresh_mode: str | None = None


@dataclass(frozen=True)
class AlterMaterializedTable(Statement):
    """ALTER MATERIALIZED TABLE: `action` is REFRESH, SUSPEND or RESUME."""

    name: Name
    action: str


@dataclass(frozen=True)
class Drop(Statement):
    """DROP: `kind` is `TABLE`, `VIEW` or `MATERIALIZED TABLE`."""

    kind: str
    name: Name
    if_exists: bool = False
    temporary: bool = False


@dataclass(frozen=True)
class ShowNames(Statement):
    """SHOW TABLES, VIEWS, FUNCTIONS or MATERIALIZED TABLES (`kind`), with the pattern of LIKE."""

    kind: str
    like: str | None = None


@dataclass(frozen=True)
class ShowStreams(Statement):
    """SHOW STREAMS; Flink's SHOW JOBS is the same."""


@dataclass(frozen=True)
class ShowState(Statement):
    """SHOW STATE OF 'dir': what the operators of a stream keep in its checkpoint."""

    directory: str


@dataclass(frozen=True)
class StopStream(Statement):
    """STOP STREAM, with the number or the name of a stream; Flink's STOP JOB is the same."""

    name: str


@dataclass(frozen=True)
class ShowCreateTable(Statement):
    """SHOW CREATE TABLE or SHOW CREATE VIEW; `options` stand behind the path of files."""

    name: Name
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Describe(Statement):
    """DESCRIBE [EXTENDED] a table or view; `options` stand behind the path of files."""

    name: Name
    is_extended: bool = False
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Summarize(Statement):
    """SUMMARIZE a table, files by their path, or a query: `ast` gives the rows."""

    ast: exp.Query


@dataclass(frozen=True)
class Set(Statement):
    """SET: a value for a key; without value, asks for it; without key, asks for all."""

    key: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class Reset(Statement):
    """RESET: a key, or all."""

    key: str | None = None


@dataclass(frozen=True)
class Explain(Statement):
    """EXPLAIN.

    Attributes:
        statement: what is to be explained; its text is a part of this one's.
        details: what is asked for besides, such as `ESTIMATED_COST`, in upper case.
    """

    statement: Statement
    details: tuple[str, ...] = ()
