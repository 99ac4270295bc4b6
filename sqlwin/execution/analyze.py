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
    SparkOperator,
    StageEntry,
    TaskRows,
    Tree,
)
from planner.lowering.batch import lower
from planner.nodes.logical import Node, Sink
from runtime.errors import AnalysisError
from runtime.frames.meter import Measured, Meter
from runtime.spark.nodes import SparkNode, amount, most
from runtime.spark.session import is_remote
from runtime.spark.status import SparkFigures, StageFigures, Watch
from runtime.spec.steps import Step

# What the jobs of a plan, by its number, run in
Watched = Callable[[int], AbstractContextManager[None]]

# Operators that give as many rows as they take
_PRESERVING = ("Sort", "Exchange")
# How Spark calls nodes that read rows; `Range` is what schedules the Arrow scan
_SPARK_SCANS = ("Scan ", "BatchScan ", "LocalTableScan", "InMemoryTableScan")
_SPARK_AGGREGATES = ("HashAggregate", "ObjectHashAggregate", "SortAggregate")
_AGGREGATES = ("HashAggregate", "WindowAggregate", "LocalWindowAggregate")
# A clock that runs while an aggregate takes its input
_AGGREGATION_TIME = "time in aggregation build"
# Operators, the nodes that Spark makes of each (a partial and a final aggregate), and their clock
_TIMED = (
    (_AGGREGATES, _SPARK_AGGREGATES, 2, _AGGREGATION_TIME),
    (("Sort",), ("Sort",), 1, "sort time"),
)


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
    meter, watches = Meter(spark), [Watch(spark) for _ in queries]
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
        with watches[number].running():
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
        figures = _labelled(watches[number].figures(), prefix)
        tree = physical_tree(query)
        mine = as_written(mine, tree, written[number])
        analysis = run_figures(tree, mine, figures, ended[number])
        documents.append(with_analysis(query, analysis))
    return documents


def _labelled(figures: SparkFigures, prefix: str) -> SparkFigures:
    """The nodes with the ids of one plan; those that are another plan's have none."""

    def own(label: str) -> str:
        return label.removeprefix(prefix) if label.startswith(prefix) else ""

    nodes = [replace(n, label=own(n.label), feeds=own(n.feeds)) for n in figures.nodes]
    stages = [replace(s, labels=frozenset(map(own, s.labels)) - {""}) for s in figures.stages]
    return SparkFigures(tuple(nodes), tuple(stages))


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
            "EXPLAIN ANALYZE needs Spark's own figures, which Spark Connect does not hand out",
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
    tree: Tree,
    measured: dict[str, Measured],
    spark: SparkFigures,
    seconds: float,
    *,
    is_stream: bool = False,
) -> Analysis:
    """What a run measured.

    Args:
        tree: the physical plan.
        measured: what was counted, by id of the operator.
        spark: what Spark measured.
        seconds: how long the run took, from the first job to the last row.
        is_stream: whether it reads what sqlwin adds to a stream too.
    """
    operators = tree.by_id
    found = {name: _figures(measured.get(name)) for name in operators}
    _add_units(found, operators)
    _add_exchanges(found, operators)
    if not is_stream:
        _add_scans(found, operators, spark)
    _add_spark_operators(found, operators, spark)
    _add_preserved(found, operators)
    _add_rows_in(found, operators)
    return Analysis(
        seconds,
        found[_top(tree)].rows_out,
        found,
        tuple(
            stage_entry([stage], stage_operators(stage, measured, spark, found, tree))
            for stage in spark.stages
        ),
        tuple(_spark_operator(node, operators) for node in spark.nodes),
    )


def stage_operators(
    stage: StageFigures,
    measured: Mapping[str, Measured],
    spark: SparkFigures,
    found: Mapping[str, Figures],
    tree: Tree,
) -> tuple[str, ...]:
    """The operators that ran in a stage, as far as Spark says, in the order of the data."""
    operators = tree.by_id
    groups = {node.label for node in spark.nodes}
    ran = {label for label, each in measured.items() if stage.id in each.stages}
    for label in stage.labels & operators.keys():
        ran |= set(_in_group(label, operators, groups, found))
    return tuple(name for name in reversed(list(operators)) if name in ran)


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
        peak_memory_of="worker" if measured.peak_memory_bytes else None,
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


def _add_scans(
    found: dict[str, Figures], operators: Mapping[str, OperatorEntry], spark: SparkFigures
) -> None:
    """Rows that tables gave, where Spark read them."""
    ours = [name for name, each in operators.items() if each.name == "TableSourceScan"]
    theirs = [node for node in spark.nodes if node.name.startswith(_SPARK_SCANS)]
    if len(ours) == len(theirs):
        for name, node in zip(ours, theirs, strict=True):
            _set_rows_out(found, name, node.rows_out)


def _add_spark_operators(
    found: dict[str, Figures], operators: Mapping[str, OperatorEntry], spark: SparkFigures
) -> None:
    """Time and memory of aggregates and sorts that Spark carries out."""
    groups: dict[str, list[SparkNode]] = {}
    for node in spark.nodes:
        groups.setdefault(node.label, []).append(node)
    for label in groups.keys() & operators.keys():
        ours = [operators[name] for name in _in_group(label, operators, set(groups), found)]
        for own_names, names, n_nodes, metric in _TIMED:
            mine = [each.id for each in ours if each.name in own_names]
            nodes = [node for node in groups[label] if node.name in names]
            if len(nodes) == n_nodes * len(mine):
                for i, name in enumerate(mine):
                    own = nodes[n_nodes * i : n_nodes * (i + 1)]
                    found[name] = _with_spark_time(found[name], own, metric)


def _in_group(
    label: str,
    operators: Mapping[str, OperatorEntry],
    groups: set[str],
    found: Mapping[str, Figures],
) -> Iterator[str]:
    """An operator whose rows were observed, and those below it that Spark ran together with it."""
    yield label
    for source in operators[label].inputs:
        if source not in groups and found[source].seconds is None:
            yield from _in_group(source, operators, groups, found)


def _with_spark_time(figures: Figures, nodes: Sequence[SparkNode], metric: str) -> Figures:
    seconds = sum(amount(node.metrics.get(metric)) for node in nodes)
    figures = replace(figures, seconds=seconds, seconds_with_input=metric == _AGGREGATION_TIME)
    peak = max(int(most(node.metrics.get("peak memory"))) for node in nodes)
    return replace(figures, peak_memory_bytes=peak, peak_memory_of="jvm") if peak else figures


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


def stage_entry(stages: Sequence[StageFigures], operators: tuple[str, ...]) -> StageEntry:
    """A stage of the document.

    Args:
        stages: the stage; of a stream, those of several micro-batches.
        operators: ids of the operators that ran in it.
    """
    seconds = [each for stage in stages for each in stage.task_seconds]
    skews = [stage.skew for stage in stages if stage.skew is not None]
    return StageEntry(
        stages[0].id,
        operators,
        len(seconds),
        sum(seconds),
        statistics.median(seconds) if seconds else None,
        max(seconds, default=None),
        # within a micro-batch: one that brings more rows than another is not skew
        statistics.median(skews) if skews else None,
        sum(stage.input_bytes for stage in stages),
        sum(stage.shuffle_read_bytes for stage in stages),
        sum(stage.shuffle_write_bytes for stage in stages),
        sum(stage.spilled_bytes for stage in stages),
        max(stage.peak_memory_bytes for stage in stages),
    )


def _operator_of(node: SparkNode, operators: Mapping[str, OperatorEntry]) -> str | None:
    """The operator that a node is part of: what feeds a stage of Python is the one below that."""
    if node.label in operators:
        return node.label
    below = operators[node.feeds].inputs if node.feeds in operators else ()
    return below[0] if len(below) == 1 else None


def _spark_operator(node: SparkNode, operators: Mapping[str, OperatorEntry]) -> SparkOperator:
    metrics = {name: " ".join(text.split()) for name, text in sorted(node.metrics.items())}
    return SparkOperator(
        node.name.strip(),
        _operator_of(node, operators),
        node.in_loop,
        node.rows_out,
        node.seconds,
        node.memory_bytes,
        node.spilled_bytes,
        metrics,
    )
