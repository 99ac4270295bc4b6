"""How Spark runs a batch query: with Python workers, or as one text of Spark SQL."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.lowering.plan import lower
from planner.lowering.sql.refusals import NotPortable, refuse_part
from planner.nodes.logical import Sink, SqlQuery, TableScan
from planner.plan import Plan
from planner.sql.parts import name_parts
from runtime.connectors.registry import open_table
from runtime.errors import AnalysisError, Position
from runtime.frames.scan_source import check_expression_settings
from runtime.plan.nodes import PlanNode, SqlStep
from runtime.refusal import Refused
from runtime.spark.session import is_remote
from runtime.spec.table import TableSpec
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.config.config import Config
from sqlwin.config.settings import AUTO
from sqlwin.parser.positions import locate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXECUTOR = "sqlwin.executor"
PORTABLE = "portable"

_REFUSED = f"'{EXECUTOR}' is '{PORTABLE}', which cannot run the query"
_TO_AUTO = f"SET '{EXECUTOR}' = 'auto'"
_NO_DRIVER = "Spark Connect gives no access to Spark's driver"


@dataclass(frozen=True)
class StepOnSpark:
    """A batch query as Spark runs it.

    Attributes:
        step: Step that computes the rows.
        reason: How it runs and why, for EXPLAIN. Empty: by default.
        text: Portable text of the query. Empty if Python workers compute a part, or if the query
            is Spark's own SQL.
    """

    step: PlanNode
    reason: str = ""
    text: str = ""


def is_portable(config: Config) -> bool:
    """Return whether the session runs queries as portable text only."""
    return bool(config.get(EXECUTOR) == PORTABLE)


def prefers_portable(config: Config, spark: SparkSession) -> bool:
    """Return whether a query runs as portable text if it has one."""
    executor = config.get(EXECUTOR)
    return executor == PORTABLE or (executor == AUTO and is_remote(spark))


def rules_of_others(config: Config, spark: SparkSession) -> frozenset[str]:
    """Return the rules that bind plans to executors that the session does not use."""
    if not prefers_portable(config, spark):
        return frozenset()
    from planner.lowering.sql.portable import FILE_RULES

    return FILE_RULES


def check_batch_only(config: Config, text: str, feature: str) -> None:
    """Refuse statements that never have a portable form.

    Args:
        config: Settings of the session.
        text: Text of the statement.
        feature: Name of the feature, in plural.

    Raises:
        AnalysisError: The session runs portable text only.
    """
    if is_portable(config):
        raise AnalysisError(
            f"'{EXECUTOR}' is '{PORTABLE}', which does not support {feature}",
            sql=text,
            hint=_TO_AUTO,
        )


def check_sink(config: Config, text: str, table: TableSpec) -> None:
    """Refuse a table that Python workers write.

    Args:
        config: Settings of the session.
        text: Text of the INSERT.
        table: Its table.

    Raises:
        AnalysisError: The session runs portable text only, and workers write the table.
    """
    if is_portable(config) and open_table(table).is_written_by_workers:
        raise AnalysisError(
            f"'{EXECUTOR}' is '{PORTABLE}', but Python workers write tables of connector "
            f"'{table.connector}'",
            position=locate(table.name, text),
            sql=text,
            hint=f"INSERT INTO a table of Parquet files, or {_TO_AUTO}",
        )


def step_on_spark(
    plan: Plan, spark: SparkSession, config: Config, catalog: SessionCatalog, zone: str
) -> StepOnSpark:
    """Return the step by which Spark computes a batch query.

    Args:
        plan: Plan, made without `rules_of_others`.
        spark: Spark session.
        config: Settings of the session.
        catalog: Tables of the session.
        zone: Session time zone.

    Raises:
        AnalysisError: The session runs portable text only, and the query has none.
    """
    top = plan.physical.input if isinstance(plan.physical, Sink) else plan.physical
    step = lower(top, catalog, zone)
    if not prefers_portable(config, spark):
        return StepOnSpark(step)
    is_forced = is_portable(config)
    why = f"'{EXECUTOR}' is '{PORTABLE}'" if is_forced else _NO_DRIVER
    try:
        if all(isinstance(node, SqlStep) for node in step.walk()):
            _check_tables(plan, catalog)
            return StepOnSpark(step, f"portable: Spark SQL alone, because {why}")
        # imported late because few sessions compile queries
        from planner.lowering.sql.portable import compile_plan

        check_expression_settings(spark)
        text = compile_plan(top, catalog, zone, "spark", partial(_check_table, catalog))
    except Refused as refused:
        if is_forced:
            raise refusal_error(_REFUSED, refused, plan.sql, _TO_AUTO) from refused
        reason = f"with Python workers on the server: no portable form: {refused.refusal}"
        return StepOnSpark(step, reason)
    return StepOnSpark(SqlStep(text), f"portable: one text of Spark SQL, because {why}", text)


def refusal_error(subject: str, refused: Refused, text: str, hint: str = "") -> AnalysisError:
    """Return the error for a query that has no exact form as a text.

    Args:
        subject: Start of the message.
        refused: Refusal.
        text: Text of the statement.
        hint: Hint, if the refusal has none.
    """
    start = len(text) - len(text.lstrip())
    position = Position.at(text, start, len(text.split(maxsplit=1)[0]))
    if isinstance(refused, NotPortable):
        if (place := refused.place) is not None:
            position = Position.at(text, place.start, place.end - place.start + 1)
        call = refused.part.partition("(")
        # arguments may be respelled
        whole = locate("".join(call[:2]), text) if call[0] and call[1] else None
        position = locate(refused.part, text) or whole or position
        hint = refused.hint or hint
    return AnalysisError(
        f"{subject}: {refused.refusal}", position=position, sql=text, hint=hint or None
    )


def _check_tables(plan: Plan, catalog: SessionCatalog) -> None:
    queries = [node.query for node in plan.physical.find_all(TableScan)]
    queries += [node.query for node in plan.physical.find_all(SqlQuery)]
    for query in queries:
        for table in query.find_all(exp.Table):
            _check_table(catalog, name_parts(table))


def _check_table(catalog: SessionCatalog, name: tuple[str, ...]) -> None:
    """Refuse a table that Python workers read, given its name in a plan."""
    origin = catalog.origin_of_view(name[-1])
    entry = None if origin is None else catalog.entry(origin[0])
    if isinstance(entry, TableSpec) and open_table(entry).is_read_by_workers:
        refuse_part(
            f"Python workers read table `{entry.name}`",
            ".".join(origin[0]) if origin is not None else "",
            f"copy it into Parquet files, or {_TO_AUTO}",
        )
