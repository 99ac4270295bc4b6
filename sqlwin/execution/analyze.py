"""EXPLAIN ANALYZE: a query is run and measured, and the figures put into its document."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from pyspark.sql import SparkSession

from planner.explain.analysis import analysis_text
from planner.explain.build import operator_ids
from planner.explain.document import (
    Analysis,
    Figures,
    OperatorEntry,
    QueryDocument,
    StageEntry,
    TaskRows,
    Tree,
)
from planner.lowering.batch import lower
from planner.nodes.logical import Node, Sink
from runtime.errors import AnalysisError
from runtime.frames.meter import Measured, Meter
from runtime.spark.session import is_remote
from runtime.spec.steps import Step

# What the jobs of a plan, by its number, run in
Watched = Callable[[int], AbstractContextManager[None]]

# Operators that give as many rows as they take
_PRESERVING = ("Sort", "Exchange")


def analyzed(
    queries: Sequence[QueryDocument],
    physical: Sequence[Node],
    spark: SparkSession,
    run: Callable[[Sequence[Step], Meter, Watched], Sequence[int | None]],
) -> list[QueryDocument]:
    """The documents of a query, or of INSERTs that run together, with the figures of a run.

    What several share is counted once, and shown in the document of the first one that reads it.

    Args:
        queries: the documents.
        physical: the physical plans that they describe.
        spark: the session.
        run: computes all rows: from the steps of each plan, measured, with their jobs watched; says
            of each how many were written, where that is known.

    Raises:
        SqlwinError: Spark cannot measure it, or the run fails.
    """
    refuse_remote(spark)
    meter = Meter(spark)
    begun: float | None = None
    ended = [0.0] * len(queries)
    ids = [operator_ids(plan) for plan in physical]
    labels: list[dict[int, list[str]]] = []
    known: dict[int, list[str]] = {}
    for number, own in enumerate(ids):
        named = {node: [f"{number}.{each}" for each in found] for node, found in own.items()}
        # A node that an earlier plan has too is counted under the name that it has there
        labels.append({**named, **{node: known[node] for node in named if node in known}})
        known = {**named, **known}

    @contextmanager
    def watched(number: int) -> Iterator[None]:
        nonlocal begun
        begun = begun or time.perf_counter()
        yield
        ended[number] = time.perf_counter() - begun

    tops = [plan.input if isinstance(plan, Sink) else plan for plan in physical]
    steps = [lower(top, each) for top, each in zip(tops, labels, strict=True)]
    written = run(steps, meter, watched)
    measured = meter.results()
    documents = []
    for number, query in enumerate(queries):
        prefix = f"{number}."
        mine = {
            label.removeprefix(prefix): found
            for label, found in measured.items()
            if label.startswith(prefix)
        }
        tree = physical_tree(query)
        mine = as_written(mine, tree, written[number])
        documents.append(with_analysis(query, run_figures(spark, tree, mine, ended[number])))
    return documents


def physical_tree(query: QueryDocument) -> Tree:
    """The plan that runs, of a query that has one."""
    assert query.trees is not None
    return query.trees.physical


def with_analysis(query: QueryDocument, analysis: Analysis) -> QueryDocument:
    """The document with what a run measured, in its text too."""
    found = replace(query, analysis=analysis)
    return replace(found, text=f"{query.text}\n{analysis_text(found)}")


def refuse_remote(spark: SparkSession) -> None:
    """Say that nothing can be measured over Spark Connect.

    Raises:
        AnalysisError: it is such a session.
    """
    if is_remote(spark):
        raise AnalysisError(
            "EXPLAIN ANALYZE counts with Spark's accumulators, which Spark Connect does not have",
            hint="run it on an embedded session or with --master",
        )


def as_written(
    measured: Mapping[str, Measured], tree: Tree, written: int | None
) -> dict[str, Measured]:
    """What was counted, with as many rows at the top as an INSERT has written.

    A table of print fetches its rows bit by bit. To Spark the query has ended before the first of
    them, and so has all that it observes: where that is not what was written, it is left out.

    Args:
        measured: what was counted, by id of the operator.
        tree: the physical plan.
        written: how many rows were written; None: that is not known.
    """
    top = _top(tree)
    found = dict(measured)
    if written is None or found.get(top, Measured()).rows_out == written:
        return found
    found = {label: each for label, each in found.items() if not each.is_observed}
    return {**found, top: replace(found.get(top, Measured()), rows_out=written)}


def run_figures(
    spark: SparkSession, tree: Tree, measured: dict[str, Measured], seconds: float
) -> Analysis:
    """What a run measured.

    Args:
        spark: the session.
        tree: the physical plan.
        measured: what was counted, by id of the operator.
        seconds: how long the run took, from the first job to the last row.
    """
    operators = tree.by_id
    found = {name: _figures(measured.get(name)) for name in operators}
    _add_units(found, operators)
    _add_exchanges(found, operators)
    _add_preserved(found, operators)
    _add_rows_in(found, operators)
    return Analysis(
        seconds,
        found[_top(tree)].rows_out,
        found,
        tuple(_stages(tree, measured)),
        spark.sparkContext.uiWebUrl,
    )


def _stages(tree: Tree, measured: Mapping[str, Measured]) -> Iterator[StageEntry]:
    """The stages in which Python operators ran; those with the same operators as one."""
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
        # within a stage: a micro-batch that brings more rows than another is not skew
        skews = [max(own) / middle for own in seconds_of if (middle := _middle(own)) is not None]
        every = [seconds for own in seconds_of for seconds in own]
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
    """The median of several tasks; None where there are not two, or they took no time."""
    found = statistics.median(seconds)
    return found if len(seconds) > 1 and found > 0 else None


def _top(tree: Tree) -> str:
    """The operator whose rows are the query's: the last one, or the one below the sink."""
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
        task_rows_in=TaskRows(min(rows), statistics.median(rows), max(rows)) if rows else None,
    )


def _add_units(found: dict[str, Figures], operators: Mapping[str, OperatorEntry]) -> None:
    """Partials from a local aggregate up to the global one, whatever stands between them."""
    for name in reversed(list(operators)):
        operator = operators[name]
        below = [found[source].unit_out for source in operator.inputs]
        if operator.name.startswith("Global"):
            found[name] = replace(found[name], unit_out="windows")
        elif "Local" in operator.name or "partials" in below:
            found[name] = replace(found[name], unit_out="partials")


def _add_exchanges(found: dict[str, Figures], operators: Mapping[str, OperatorEntry]) -> None:
    """An exchange below which the blobs are made already hands them on."""
    for name, operator in operators.items():
        if "carries" in operator.attributes and found[name].rows_out is None:
            below = found[operator.inputs[0]]
            found[name] = replace(
                found[name],
                rows_out=below.rows_out,
                blobs_out=below.blobs_out,
                bytes_out=below.bytes_out,
            )


def _set_rows_out(found: dict[str, Figures], name: str, rows_out: int | None) -> None:
    """What an operator gave, if that is not known yet."""
    if found[name].rows_out is None:
        found[name] = replace(found[name], rows_out=rows_out)


def _add_preserved(found: dict[str, Figures], operators: Mapping[str, OperatorEntry]) -> None:
    """Rows taken are what the operator below gave; some operators keep the number."""
    for name, operator in operators.items():
        taken = found[name].rows_in
        if taken is not None and len(operator.inputs) == 1:
            _set_rows_out(found, operator.inputs[0], taken)
    for name in reversed(list(operators)):
        if (source := _preserved(operators[name])) is not None:
            _set_rows_out(found, name, found[source].rows_out)
    for name in operators:
        if (source := _preserved(operators[name])) is not None:
            _set_rows_out(found, source, found[name].rows_out)


def _preserved(operator: OperatorEntry) -> str | None:
    """The input of an operator that hands on every row."""
    plain_calc = operator.name == "Calc" and "where" not in operator.attributes
    if (operator.name in _PRESERVING or plain_calc) and len(operator.inputs) == 1:
        return operator.inputs[0]
    return None


def _add_rows_in(found: dict[str, Figures], operators: Mapping[str, OperatorEntry]) -> None:
    for name, operator in operators.items():
        figures = found[name]
        given = [found[source].rows_out for source in operator.inputs]
        known = [n_rows for n_rows in given if n_rows is not None]
        if figures.rows_in is None and known and len(known) == len(given):
            figures = replace(figures, rows_in=sum(known))
        n_rows = figures.rows_aggregated
        if "Local" in operator.name and n_rows is not None and figures.rows_out:
            figures = replace(figures, reduction=n_rows / figures.rows_out)
        found[name] = figures
