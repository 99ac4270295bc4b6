"""EXPLAIN ANALYZE: a query is run and measured, and the figures put into its document."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from planner.explain.analysis import analysis_text
from planner.explain.document import operator_ids
from planner.lowering.batch import lower
from planner.nodes.logical import Node, Sink
from runtime.batch.execute import ExecutionOptions, dataframe
from runtime.errors import AnalysisError
from runtime.frames.meter import Measured, Meter
from runtime.spark.nodes import SparkNode, amount, most
from runtime.spark.session import is_remote
from runtime.spark.status import SparkFigures, StageFigures, Watch
from runtime.spec.steps import Step

Json = dict[str, Any]
Watched = Callable[[int], AbstractContextManager[None]]

# Operators that give as many rows as they take
_PRESERVING = ("Sort", "Exchange")
# How Spark calls nodes that read rows; `Range` is what schedules the Arrow scan
_SPARK_SCANS = ("Scan ", "BatchScan ", "LocalTableScan", "InMemoryTableScan")
_SPARK_AGGREGATES = ("HashAggregate", "ObjectHashAggregate", "SortAggregate")
_AGGREGATES = ("HashAggregate", "WindowAggregate", "LocalWindowAggregate")


def analyzed(
    query: Json,
    physical: Node,
    spark: SparkSession,
    options: ExecutionOptions,
    run: Callable[[DataFrame], object],
) -> Json:
    """The document of a query with the figures of a run.

    Args:
        query: the document, as `planner.explain.document.query_document` made it.
        physical: the physical plan that it tells of.
        spark: the session.
        options: how the plan is spread over tasks.
        run: computes all rows.

    Raises:
        SqlwinError: Spark cannot measure it, or the run fails.
    """
    refuse_remote(spark)
    labels = operator_ids(physical)
    meter, watch = Meter(spark), Watch(spark)
    top = physical.input if isinstance(physical, Sink) else physical
    frame = dataframe(spark, lower(top, labels), replace(options, meter=meter))
    if frame.isStreaming:
        raise AnalysisError(
            "EXPLAIN ANALYZE cannot measure a DataFrame that is a stream but for sqlwin",
            hint="declare it with a watermark: session.register(name, dataframe, watermark=...)",
        )
    begun = time.perf_counter()
    with watch.running():
        run(frame)
    seconds = time.perf_counter() - begun
    return _with_analysis(
        query, analysis_document(query, meter.results(), watch.figures(), seconds)
    )


def analyzed_together(
    queries: Sequence[Json],
    physical: Sequence[Node],
    spark: SparkSession,
    run: Callable[[Sequence[Step], Meter, Watched], object],
) -> list[Json]:
    """The documents of INSERTs that run together, with the figures of a run.

    What several share is counted once, and told in the document of the first one that reads it.

    Args:
        queries: the documents.
        physical: the physical plans that they tell of.
        spark: the session.
        run: writes all rows: from the steps of each INSERT, measured, with their jobs watched.

    Raises:
        SqlwinError: Spark cannot measure it, or the run fails.
    """
    refuse_remote(spark)
    meter, watches = Meter(spark), [Watch(spark) for _ in queries]
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
        with watches[number].running():
            yield
        ended[number] = time.perf_counter() - begun

    tops = [plan.input if isinstance(plan, Sink) else plan for plan in physical]
    steps = [lower(top, each) for top, each in zip(tops, labels, strict=True)]
    begun = time.perf_counter()
    run(steps, meter, watched)
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
        analysis = analysis_document(query, mine, figures, ended[number])
        documents.append(_with_analysis(query, analysis))
    return documents


def _labelled(figures: SparkFigures, prefix: str) -> SparkFigures:
    """The nodes with the ids of one plan; those that are another plan's have none."""

    def own(label: str) -> str:
        return label.removeprefix(prefix) if label.startswith(prefix) else ""

    nodes = [replace(n, label=own(n.label), feeds=own(n.feeds)) for n in figures.nodes]
    stages = [replace(s, labels=frozenset(map(own, s.labels)) - {""}) for s in figures.stages]
    return SparkFigures(tuple(nodes), tuple(stages))


def _with_analysis(query: Json, analysis: Json) -> Json:
    found = {**query, "analysis": analysis}
    found["text"] = query["text"] + "\n" + analysis_text(found)
    return found


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


def without_results(frame: DataFrame) -> None:
    """Compute all rows and throw them away."""
    frame.write.format("noop").mode("overwrite").save()


def analysis_document(
    query: Json,
    measured: dict[str, Measured],
    spark: SparkFigures,
    seconds: float,
    *,
    is_stream: bool = False,
) -> Json:
    """What goes under `analysis` in the document of a query.

    Args:
        query: the document of the query.
        measured: what was counted, by id of the operator.
        spark: what Spark measured.
        seconds: how long the run took, from the first job to the last row.
        is_stream: whether it reads what sqlwin adds to a stream too.
    """
    operators = {each["id"]: each for each in query["trees"]["physical"]["operators"]}
    found = {each: _figures(measured.get(each)) for each in operators}
    _add_units(found, operators)
    _add_exchanges(found, operators)
    if not is_stream:
        _add_scans(found, operators, spark)
    _add_spark_operators(found, operators, spark)
    _add_preserved(found, operators)
    for name, figures in found.items():
        _add_rows_in(name, figures, found, operators)
    tree = list(operators.values())
    stages = [
        _stage(stage) | {"operators": list(stage_operators(stage, measured, spark, found, tree))}
        for stage in spark.stages
    ]
    root = found[_top(query)]
    return {
        "seconds": seconds,
        "rows_out": root["rows_out"],
        "operators": found,
        "stages": stages,
        "spark_operators": [_spark_node(node, operators) for node in spark.nodes],
        "stream": None,
    }


def stage_operators(
    stage: StageFigures,
    measured: Mapping[str, Measured],
    spark: SparkFigures,
    found: dict[str, Json],
    tree: Sequence[Json],
) -> tuple[str, ...]:
    """The operators that ran in a stage, as far as Spark tells, in the order of the data.

    Args:
        stage: the stage.
        measured: what was counted, by id of the operator.
        spark: what Spark measured.
        found: the figures of operators.
        tree: the operators, from the top.
    """
    operators = {each["id"]: each for each in tree}
    groups = {node.label for node in spark.nodes}
    ran = {label for label, each in measured.items() if stage.id in each.stages}
    for label in stage.labels & operators.keys():
        ran |= set(_in_group(label, operators, groups, found))
    return tuple(name for name in reversed(operators) if name in ran)


def _top(query: Json) -> str:
    """The operator whose rows are the query's: the last one, or the one below the sink."""
    tree = query["trees"]["physical"]
    operators = {each["id"]: each for each in tree["operators"]}
    root = operators[tree["root"]]
    return str(root["inputs"][0] if root["name"] == "Sink" else root["id"])


def _figures(measured: Measured | None) -> Json:
    found: Json = {
        "rows_in": None,
        "rows_out": None,
        "unit_out": "rows",
        "reduction": None,
        "blobs_out": None,
        "bytes_out": None,
        "seconds": None,
        "seconds_with_input": False,
        "peak_memory_bytes": None,
        "peak_memory_of": None,
        "counters": {},
        "task_rows_in": None,
    }
    if measured is None:
        return found
    found |= {
        "rows_in": measured.rows_in,
        "rows_out": measured.rows_out,
        "seconds": measured.seconds,
        "peak_memory_bytes": measured.peak_memory_bytes,
        "peak_memory_of": "worker" if measured.peak_memory_bytes else None,
        "counters": measured.counters,
    }
    if measured.blobs_out:
        found |= {"blobs_out": measured.blobs_out, "bytes_out": measured.bytes_out}
    if measured.task_rows_in:
        rows = measured.task_rows_in
        found["task_rows_in"] = {
            "min": min(rows),
            "median": statistics.median(rows),
            "max": max(rows),
        }
    return found


def _add_units(found: dict[str, Json], operators: dict[str, Json]) -> None:
    """Partials from a local aggregate up to the global one, whatever stands between them."""
    for name in reversed(operators):
        operator = operators[name]
        below = [found[source]["unit_out"] for source in operator["inputs"]]
        if operator["name"].startswith("Global"):
            unit = "windows"
        else:
            unit = "partials" if "Local" in operator["name"] or "partials" in below else "rows"
        found[name]["unit_out"] = unit


def _add_exchanges(found: dict[str, Json], operators: dict[str, Json]) -> None:
    """An exchange below which the blobs are made already hands them on."""
    for name, operator in operators.items():
        if "carries" in operator["attributes"] and found[name]["rows_out"] is None:
            (source,) = operator["inputs"]
            below = found[source]
            same = ("rows_out", "blobs_out", "bytes_out")
            found[name] |= {key: below[key] for key in same}


def _add_scans(found: dict[str, Json], operators: dict[str, Json], spark: SparkFigures) -> None:
    """Rows that tables gave, where Spark read them."""
    ours = [name for name, each in operators.items() if each["name"] == "TableSourceScan"]
    theirs = [node for node in spark.nodes if node.name.startswith(_SPARK_SCANS)]
    if len(ours) == len(theirs):
        for name, node in zip(ours, theirs, strict=True):
            if found[name]["rows_out"] is None:
                found[name]["rows_out"] = node.rows_out


def _add_spark_operators(
    found: dict[str, Json], operators: dict[str, Json], spark: SparkFigures
) -> None:
    """Time and memory of aggregates and sorts that Spark carries out."""
    groups: dict[str, list[SparkNode]] = {}
    for node in spark.nodes:
        groups.setdefault(node.label, []).append(node)
    for label in groups.keys() & operators.keys():
        ours = [operators[name] for name in _in_group(label, operators, set(groups), found)]
        _add_aggregates(found, ours, groups[label])
        sorts = [each["id"] for each in ours if each["name"] == "Sort"]
        theirs = [node for node in groups[label] if node.name == "Sort"]
        if len(sorts) == len(theirs):
            for name, node in zip(sorts, theirs, strict=True):
                _add_spark_time(found[name], [node], "sort time", with_input=False)


def _in_group(
    label: str, operators: dict[str, Json], groups: set[str], found: dict[str, Json]
) -> Iterator[str]:
    """An operator whose rows were observed, and those below it that Spark ran together with it."""
    yield label
    for source in operators[label]["inputs"]:
        if source not in groups and found[source]["seconds"] is None:
            yield from _in_group(source, operators, groups, found)


def _add_aggregates(
    found: dict[str, Json], operators: Sequence[Json], nodes: Sequence[SparkNode]
) -> None:
    """Figures of aggregates, of which Spark makes a partial and a final one each."""
    ours = [each["id"] for each in operators if each["name"] in _AGGREGATES]
    theirs = [node for node in nodes if node.name in _SPARK_AGGREGATES]
    if ours and len(theirs) == 2 * len(ours):
        for i, name in enumerate(ours):
            pair = theirs[2 * i : 2 * i + 2]
            # Spark's clock runs while an aggregate takes its input
            _add_spark_time(found[name], pair, "time in aggregation build", with_input=True)


def _add_spark_time(
    figures: Json, nodes: Sequence[SparkNode], metric: str, *, with_input: bool
) -> None:
    figures["seconds"] = sum(amount(node.metrics.get(metric)) for node in nodes)
    figures["seconds_with_input"] = with_input
    peak = max(int(most(node.metrics.get("peak memory"))) for node in nodes)
    if peak:
        figures |= {"peak_memory_bytes": peak, "peak_memory_of": "jvm"}


def _add_preserved(found: dict[str, Json], operators: dict[str, Json]) -> None:
    """What counts its input tells of the operator below; what hands on every row, of both ends."""
    for name, operator in operators.items():
        taken = found[name]["rows_in"]
        if taken is not None and len(operator["inputs"]) == 1:
            (below,) = operator["inputs"]
            if found[below]["rows_out"] is None:
                found[below]["rows_out"] = taken
    for name in reversed(operators):
        source = _preserved(operators[name])
        if source is not None and found[name]["rows_out"] is None:
            found[name]["rows_out"] = found[source]["rows_out"]
    for name in operators:
        source = _preserved(operators[name])
        if source is not None and found[source]["rows_out"] is None:
            found[source]["rows_out"] = found[name]["rows_out"]


def _preserved(operator: Json) -> str | None:
    """The input of an operator that hands on every row."""
    plain_calc = operator["name"] == "Calc" and "where" not in operator["attributes"]
    if (operator["name"] in _PRESERVING or plain_calc) and len(operator["inputs"]) == 1:
        return str(operator["inputs"][0])
    return None


def _add_rows_in(
    name: str, figures: Json, found: dict[str, Json], operators: dict[str, Json]
) -> None:
    inputs = [found[source]["rows_out"] for source in operators[name]["inputs"]]
    if figures["rows_in"] is None and inputs and None not in inputs:
        figures["rows_in"] = sum(inputs)
    rows_in, rows_out = figures["rows_in"], figures["rows_out"]
    if "Local" in operators[name]["name"] and rows_in is not None and rows_out:
        figures["reduction"] = rows_in / rows_out


def _stage(stage: StageFigures) -> Json:
    seconds = stage.task_seconds
    return {
        "id": stage.id,
        "operators": [],
        "tasks": len(seconds),
        "seconds": sum(seconds),
        "median_seconds": statistics.median(seconds) if seconds else None,
        "slowest_seconds": max(seconds, default=None),
        "skew": stage.skew,
        "input_bytes": stage.input_bytes,
        "shuffle_read_bytes": stage.shuffle_read_bytes,
        "shuffle_write_bytes": stage.shuffle_write_bytes,
        "spilled_bytes": stage.spilled_bytes,
        "peak_memory_bytes": stage.peak_memory_bytes,
    }


def _operator_of(node: SparkNode, operators: dict[str, Json]) -> str | None:
    """The operator that a node is part of: what feeds a stage of Python is the one below that."""
    if node.label in operators:
        return node.label
    below = operators[node.feeds]["inputs"] if node.feeds in operators else []
    return str(below[0]) if len(below) == 1 else None


def _spark_node(node: SparkNode, operators: dict[str, Json]) -> Json:
    metrics = {name: " ".join(text.split()) for name, text in sorted(node.metrics.items())}
    return {
        "name": node.name.strip(),
        "operator": _operator_of(node, operators),
        "in_loop": node.in_loop,
        "rows_out": node.rows_out,
        "seconds": node.seconds,
        "memory_bytes": node.memory_bytes,
        "spilled_bytes": node.spilled_bytes,
        "metrics": metrics,
    }
