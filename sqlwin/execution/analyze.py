"""EXPLAIN ANALYZE: run a query, measure it and add the figures to its document."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.explain.analysis import analysis_text
from planner.explain.build import operator_ids
from planner.explain.document import (
    Analysis,
    Figures,
    OperatorEntry,
    QueryDocument,
    StageEntry,
    TaskRowCounts,
    Tree,
)
from planner.lowering.plan import lower
from planner.nodes.logical import Node, Sink
from runtime.errors import AnalysisError
from runtime.frames.meter import Measured, Meter
from runtime.plan.nodes import PlanNode
from runtime.spark.session import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlwin.execution.planning import Plans

# Context manager for the jobs of a plan, by the plan's number
Watched = Callable[[int], AbstractContextManager[None]]

# Operators that emit exactly as many rows as they read
_PRESERVING = ("Sort", "Exchange")


def measure(
    queries: Sequence[QueryDocument],
    physical: Sequence[Node],
    plans: Plans,
    run: Callable[[Sequence[PlanNode], Meter, Watched], Sequence[int | None]],
) -> list[QueryDocument]:
    """Return the documents of a query, or of INSERTs that run together, with measurements.

    Shared operators are counted once, in the document of the first plan that reads them.

    Args:
        queries: Documents to add measurements to.
        physical: Physical plans that the documents describe.
        plans: Planner of the session.
        run: Computes all rows from the steps of each plan, with a meter and a context for its jobs,
            and returns the number of rows written per plan, if known.

    Raises:
        SqlwinError: Spark cannot measure the query, or the run fails.
    """
    refuse_remote(plans.spark)
    meter = Meter(plans.spark)
    begun: float | None = None
    ended = [0.0] * len(queries)
    ids = [operator_ids(plan) for plan in physical]
    labels: list[dict[int, list[str]]] = []
    labeled: dict[int, list[str]] = {}
    for number, plan_ids in enumerate(ids):
        named = {node: [f"{number}.{name}" for name in names] for node, names in plan_ids.items()}
        # Count a node shared with an earlier plan under its name in that plan.
        labels.append({**named, **{node: labeled[node] for node in named if node in labeled}})
        labeled = {**named, **labeled}

    @contextmanager
    def watched(number: int) -> Iterator[None]:
        nonlocal begun
        begun = begun or time.perf_counter()
        yield
        ended[number] = time.perf_counter() - begun

    tops = [plan.input if isinstance(plan, Sink) else plan for plan in physical]
    context = (plans.catalog, plans.time_zone)
    steps = [lower(top, *context, names) for top, names in zip(tops, labels, strict=True)]
    written = run(steps, meter, watched)
    measured = meter.results()
    documents = []
    for number, query in enumerate(queries):
        prefix = f"{number}."
        mine = {
            label.removeprefix(prefix): figures
            for label, figures in measured.items()
            if label.startswith(prefix)
        }
        tree = physical_tree(query)
        mine = as_written(mine, tree, written[number])
        documents.append(with_analysis(query, run_figures(plans.spark, tree, mine, ended[number])))
    return documents


def physical_tree(query: QueryDocument) -> Tree:
    """Return the physical plan of a query, which must have one."""
    assert query.trees is not None
    return query.trees.physical


def with_analysis(query: QueryDocument, analysis: Analysis) -> QueryDocument:
    """Return the document with the measurements added, also to its text."""
    analyzed_query = replace(query, analysis=analysis)
    return replace(analyzed_query, text=f"{query.text}\n{analysis_text(analyzed_query)}")


def refuse_remote(spark: SparkSession) -> None:
    """Refuse to measure over Spark Connect.

    Raises:
        AnalysisError: `spark` is a Spark Connect session.
    """
    if is_remote(spark):
        raise AnalysisError(
            "EXPLAIN ANALYZE is not supported over Spark Connect",
            hint="use a local session or --master",
        )


def as_written(
    measured: Mapping[str, Measured], tree: Tree, written: int | None
) -> dict[str, Measured]:
    """Return the measurements with the INSERT's written rows as the top operator's row count.

    The print connector fetches its rows piece by piece, and Spark reports the query as finished
    before the first of them. Observed metrics that disagree with the rows written are therefore
    dropped.

    Args:
        measured: Measurements by operator id.
        tree: Physical plan.
        written: Rows written. None: unknown.
    """
    top = _top(tree)
    figures_by_id = dict(measured)
    if written is None or figures_by_id.get(top, Measured()).rows_out == written:
        return figures_by_id
    figures_by_id = {
        label: figures for label, figures in figures_by_id.items() if not figures.is_observed
    }
    return {**figures_by_id, top: replace(figures_by_id.get(top, Measured()), rows_out=written)}


def run_figures(
    spark: SparkSession, tree: Tree, measured: dict[str, Measured], seconds: float
) -> Analysis:
    """Return the figures of a run.

    Args:
        spark: Spark session.
        tree: Physical plan.
        measured: Measurements by operator id.
        seconds: Time from the first job to the last row.
    """
    operators = tree.by_id
    by_name = {name: _figures(measured.get(name)) for name in operators}
    _add_units(by_name, operators)
    _add_exchanges(by_name, operators)
    _add_preserved(by_name, operators)
    _add_rows_in(by_name, operators)
    return Analysis(
        seconds,
        by_name[_top(tree)].rows_out,
        by_name,
        tuple(_stages(tree, measured)),
        spark.sparkContext.uiWebUrl,
    )


def _stages(tree: Tree, measured: Mapping[str, Measured]) -> Iterator[StageEntry]:
    """Yield the stages of Python operators, merging stages with the same operators."""
    ran: dict[int, dict[str, None]] = {}
    spent: dict[int, dict[int, float]] = {}
    for name in reversed(list(tree.by_id)):
        for stage, partition, seconds in measured.get(name, Measured()).tasks:
            ran.setdefault(stage, {})[name] = None
            tasks = spent.setdefault(stage, {})
            tasks[partition] = tasks.get(partition, 0.0) + seconds
    groups: dict[tuple[str, ...], list[int]] = {}
    for stage in sorted(ran):
        groups.setdefault(tuple(ran[stage]), []).append(stage)
    places = {name: place for place, name in enumerate(reversed(list(tree.by_id)))}
    for names, stages in sorted(groups.items(), key=lambda group: places[group[0][0]]):
        seconds_of = [list(spent[stage].values()) for stage in stages]
        # Measure skew within a stage, because micro-batches differ in size.
        skews = [
            max(stage_seconds) / middle
            for stage_seconds in seconds_of
            if (middle := _middle(stage_seconds)) is not None
        ]
        every = [seconds for stage_seconds in seconds_of for seconds in stage_seconds]
        yield StageEntry(
            stages[0],
            names,
            len(every),
            sum(every),
            statistics.median(every),
            max(every),
            statistics.median(skews) if skews else None,
        )


def _middle(seconds: Sequence[float]) -> float | None:
    """Return the median time of several tasks, or None for fewer than two tasks or zero times."""
    median = statistics.median(seconds)
    return median if len(seconds) > 1 and median > 0 else None


def _top(tree: Tree) -> str:
    """Return the operator that emits the query's rows: the last one, or the input of the sink."""
    root = tree.by_id[tree.root]
    return root.inputs[0] if root.name == "Sink" else root.id


def _figures(measured: Measured | None) -> Figures:
    if measured is None:
        return Figures()
    rows = measured.task_rows_in
    return Figures(
        rows_in=measured.rows_in,
        rows_out=measured.rows_out,
        blobs_out=measured.blobs_out or None,
        bytes_out=measured.bytes_out if measured.blobs_out else None,
        seconds=measured.seconds,
        peak_memory_bytes=measured.peak_memory_bytes,
        counters=measured.counters,
        task_rows_in=TaskRowCounts(min(rows), statistics.median(rows), max(rows)) if rows else None,
    )


def _add_units(by_name: dict[str, Figures], operators: Mapping[str, OperatorEntry]) -> None:
    """Set units: partials from a local aggregate to the global one, windows above it."""
    for name in reversed(list(operators)):
        operator = operators[name]
        below = [by_name[source].unit_out for source in operator.inputs]
        if operator.name.startswith("Global"):
            by_name[name] = replace(by_name[name], unit_out="windows")
        elif "Local" in operator.name or "partials" in below:
            by_name[name] = replace(by_name[name], unit_out="partials")


def _add_exchanges(by_name: dict[str, Figures], operators: Mapping[str, OperatorEntry]) -> None:
    """Copy the figures of an exchange to the operators below it that built its blobs."""
    for name, operator in operators.items():
        if "carries" in operator.attributes and by_name[name].rows_out is None:
            below = by_name[operator.inputs[0]]
            by_name[name] = replace(
                by_name[name],
                rows_out=below.rows_out,
                blobs_out=below.blobs_out,
                bytes_out=below.bytes_out,
            )


def _set_rows_out(by_name: dict[str, Figures], name: str, rows_out: int | None) -> None:
    """Set the rows out of an operator unless they are known."""
    if by_name[name].rows_out is None:
        by_name[name] = replace(by_name[name], rows_out=rows_out)


def _add_preserved(by_name: dict[str, Figures], operators: Mapping[str, OperatorEntry]) -> None:
    """Derive missing row counts from the operators above and below.

    An operator's input is the output of the one below, and some operators keep the row count.
    """
    for name, operator in operators.items():
        taken = by_name[name].rows_in
        if taken is not None and len(operator.inputs) == 1:
            _set_rows_out(by_name, operator.inputs[0], taken)
    for name in reversed(list(operators)):
        if (source := _preserved(operators[name])) is not None:
            _set_rows_out(by_name, name, by_name[source].rows_out)
    for name in operators:
        if (source := _preserved(operators[name])) is not None:
            _set_rows_out(by_name, source, by_name[name].rows_out)


def _preserved(operator: OperatorEntry) -> str | None:
    """Return an operator's input if it passes on every row, else None."""
    plain_calc = operator.name == "Calc" and "where" not in operator.attributes
    if (operator.name in _PRESERVING or plain_calc) and len(operator.inputs) == 1:
        return operator.inputs[0]
    return None


def _add_rows_in(by_name: dict[str, Figures], operators: Mapping[str, OperatorEntry]) -> None:
    for name, operator in operators.items():
        figures = by_name[name]
        counts = [by_name[source].rows_out for source in operator.inputs]
        row_counts = [n_rows for n_rows in counts if n_rows is not None]
        if figures.rows_in is None and row_counts and len(row_counts) == len(counts):
            figures = replace(figures, rows_in=sum(row_counts))
        n_rows = figures.rows_aggregated
        if "Local" in operator.name and n_rows is not None and figures.rows_out:
            figures = replace(figures, reduction=n_rows / figures.rows_out)
        by_name[name] = figures
