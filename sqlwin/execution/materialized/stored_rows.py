"""Window aggregation that a materialized table stores, or the reason why it cannot be stored."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from planner.arrow.partials import LocalExpressions, local_expressions
from planner.materialized.form import local_form, stored_columns
from planner.nodes.joins import WindowJoin
from planner.nodes.logical import Expand, WindowDeduplicate, WindowRank
from planner.nodes.physical import (
    LocalWindowAggregate,
    OnePhaseWindowAggregate,
    ScanLocalWindowAggregate,
    SharedExchange,
)
from planner.plan import Plan
from planner.sql.build import alias, identifier, relation
from runtime.errors import AnalysisError, SqlwinError
from runtime.materialized.build import BaseRows
from runtime.materialized.refresh import PlannedRows
from runtime.plan.local import ArrowBuffer, FileScan, LocalStep
from runtime.refusal import Refused
from runtime.spec.materialized import SLICE_END, LocalForm
from runtime.spec.scan import ScanSource
from sqlwin.catalog.entries import Name
from sqlwin.catalog.materialized import tables_of
from sqlwin.execution.planning import Plans

# Nondeterministic functions: a slice would store only one of their values
_NONDETERMINISTIC = re.compile(
    r"\b(RAND|RANDN|RANDOM|SHUFFLE|UUID|NOW|CURRENT_TIMESTAMP|CURRENT_DATE|CURRENT_TIME|"
    r"LOCALTIMESTAMP|LOCALTIME|PROCTIME|CURRENT_ROW_TIMESTAMP|INPUT_FILE_NAME|"
    r"MONOTONICALLY_INCREASING_ID|SPARK_PARTITION_ID)\b",
    re.IGNORECASE,
)
# A refresh reads the rows, never slices
READS_SLICES = frozenset({"answer_from_slices"})
# An INSERT accepts rows from any table that Spark reads
_READS_FILES = frozenset({"push_local_aggregate_into_scan"})


def plan_file_rows(plans: Plans, name: Name, query: exp.Query, text: str) -> PlannedRows:
    """Plan a definition over the files that exist now.

    Raises:
        AnalysisError: The query cannot be materialized.
    """
    refuse_nondeterministic(text)
    plan = plans.plan(query, text, without=READS_SLICES)
    if plans.is_stream(plan):
        raise AnalysisError(
            f"`{'.'.join(name)}` would read a stream, but REFRESH_MODE = FULL reads files",
            subjects=tuple(".".join(name_parts) for name_parts in tables_of(query)),
            hint="use REFRESH_MODE = CONTINUOUS and INSERT INTO it, or SET "
            "'execution.runtime-mode' = 'batch' if its table is bounded",
        )
    node, form, expressions = _stored_aggregation(plans, plan)
    scan = node.scan if isinstance(node, ScanLocalWindowAggregate) else None
    if not isinstance(scan, FileScan) or not isinstance(scan.files, ScanSource):
        refused = [e for e in plan.trace.entries if e.rule == "push_local_aggregate_into_scan"]
        reason = next(
            (e.reason for e in refused if e.reason), "the Arrow scan cannot read the table"
        )
        raise _cannot_store(reason, tuple(".".join(name_parts) for name_parts in tables_of(query)))
    step = LocalStep(
        scan, ArrowBuffer(), form.grid, node.time_column, node.time_type, node.slice_end
    )
    return PlannedRows(form, BaseRows(step, _columns(node, form, expressions)))


def plan_inserted_rows(plans: Plans, query: exp.Query, text: str) -> tuple[PlannedRows, exp.Query]:
    """Plan the rows to store from a table that Spark reads, as a batch or as a stream.

    The second value is a query for the required columns of the table.

    Raises:
        AnalysisError: The query cannot be materialized.
    """
    refuse_nondeterministic(text)
    plan = plans.plan(query, text, without=READS_SLICES | _READS_FILES)
    node, form, expressions = _stored_aggregation(plans, plan)
    table = ".".join(expressions.rows.table)
    scan = FileScan(
        expressions.keys,
        expressions.partials,
        expressions.time,
        plans.time_zone,
        expressions.rows.filters,
        ScanSource(table, (), expressions.columns),
    )
    step = LocalStep(
        scan, ArrowBuffer(), form.grid, node.time_column, node.time_type, node.slice_end
    )
    items = [alias(_column(column.name), column.name) for column in expressions.columns]
    rows = exp.Select(expressions=items, from_=exp.From(this=relation(*expressions.rows.table)))
    return PlannedRows(form, BaseRows(step, _columns(node, form, expressions))), rows


def refuse_nondeterministic(text: str) -> None:
    """Refuse a query with a nondeterministic function.

    Raises:
        AnalysisError: The query has one.
    """
    call = _NONDETERMINISTIC.search(_without_strings(text))
    if call is not None:
        raise AnalysisError(
            f"{call[1].upper()} returns another value on each call, so slices cannot store it",
            subjects=(call[0],),
            hint="use a column instead",
        )


def _stored_aggregation(
    plans: Plans, plan: Plan
) -> tuple[LocalWindowAggregate, LocalForm, LocalExpressions]:
    node = _local_aggregate(plan)
    try:
        form = local_form(node, plans.catalog, plans.time_zone)
    except Refused as refused:
        reason = refused.refusal.reason
        words = _words(reason) if node.window.has_slices else (node.window.function,)
        raise _cannot_store(reason, words) from refused
    expressions = local_expressions(
        node.input, node.keys, node.plans, node.time_column, plans.catalog, plans.time_zone
    )
    return node, form, expressions


def _columns(
    node: LocalWindowAggregate, form: LocalForm, expressions: LocalExpressions
) -> dict[str, str]:
    """Return the local stage's column for each stored column."""
    return {stored: local for local, stored in stored_columns(expressions, form)} | {
        SLICE_END: node.slice_end
    }


def _column(name: str) -> exp.Expr:
    """Return a column or a field of a column."""
    first, *fields = map(identifier, name.split("."))
    column = exp.Column(this=first)
    return exp.Dot.build([column, *fields]) if fields else column


def _local_aggregate(plan: Plan) -> LocalWindowAggregate:
    """Return the only window aggregate of a plan, before its exchange.

    Raises:
        AnalysisError: The plan has none or several, or an operator above needs all rows at once.
    """
    nodes = list(plan.physical.walk())
    for kind, what, words in (
        (WindowRank, "ranks the rows of each window", ("ROW_NUMBER",)),
        (WindowDeduplicate, "keeps one row per window", ("ROW_NUMBER",)),
        (WindowJoin, "joins windows", ("JOIN",)),
        (Expand, "uses GROUPING SETS, ROLLUP or CUBE", ("GROUPING SETS", "ROLLUP", "CUBE")),
    ):
        if any(isinstance(node, kind) for node in nodes):
            raise _cannot_store(
                f"it {what}",
                words,
                "store only the window aggregation, and do this in the query over it",
            )
    if any(isinstance(node, OnePhaseWindowAggregate) for node in nodes):
        reason = refusal(plan, "split_window_aggregate", "its aggregates cannot be merged")
        raise _cannot_store(reason, _words(reason))
    aggregates = [node for node in nodes if isinstance(node, LocalWindowAggregate)]
    if any(isinstance(node, SharedExchange) for node in nodes) or len(aggregates) > 1:
        raise _cannot_store("it has several window aggregations", ("UNION", "JOIN", "SELECT"))
    if not aggregates:
        raise _cannot_store(
            "it has no window aggregation",
            ("SELECT",),
            "GROUP BY window_start, window_end over TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), ...))",
        )
    return aggregates[0]


def refusal(plan: Plan, rule: str, otherwise: str) -> str:
    """Return why a rule did not apply, or `otherwise`."""
    reasons = (entry.reason for entry in plan.trace.entries if entry.rule == rule)
    return next((reason for reason in reasons if reason), otherwise)


def _cannot_store(reason: str, words: Sequence[str], hint: str | None = None) -> SqlwinError:
    return AnalysisError(
        f"the query cannot be stored as slices: {reason}", subjects=(*words,), hint=hint
    )


def _words(reason: str) -> tuple[str, ...]:
    """Return the words of the query that a reason may start with, longest first."""
    start = reason.partition(" ")[0]
    return (start, start.partition("(")[0])


def _without_strings(text: str) -> str:
    return re.sub(r"'[^']*'|`[^`]*`|--[^\n]*", lambda match: " " * len(match[0]), text)
