"""What Spark measured of its own nodes, put down to operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from planner.explain.analysis import analysis_text
from planner.explain.document import Analysis, OperatorEntry, QueryDocument, Tree, Trees
from runtime.frames.meter import Measured
from runtime.spark.nodes import SparkNode, added_up, plan_nodes, that_ran
from runtime.spark.status import SparkFigures, StageFigures, labels_of_stage, stage_figures
from sqlwin.execution.analyze import as_written, run_figures
from sqlwin.execution.streams.analyze import nodes_of_query

PLAN = {
    "p0": "Sort",
    "p1": "Calc",
    "p2": "GlobalWindowAggregate",
    "p3": "SharedSlices",
    "p4": "Exchange",
    "p5": "LocalWindowAggregate",
    "p6": "TableSourceScan",
}


def tree() -> Tree:
    """A chain of operators."""
    names = list(PLAN.items())
    operators = [
        OperatorEntry(each, name, inputs=tuple(below for below, _ in names[i + 1 : i + 2]))
        for i, (each, name) in enumerate(names)
    ]
    return Tree("p0", tuple(operators))


def analysis(*nodes: SparkNode) -> Analysis:
    measured = {
        "p0": Measured(rows_out=7),
        "p1": Measured(rows_out=7),
        "p2": Measured(9, 7, seconds=0.5, peak_memory_bytes=100 << 20),
        "p4": Measured(12, 12, seconds=0.25, peak_memory_bytes=90 << 20),
        "p5": Measured(rows_out=12),
    }
    return run_figures(tree(), measured, SparkFigures(nodes, ()), 1.0)


def text_of(analysis: Analysis) -> str:
    trees = Trees(tree(), tree(), tree())
    return analysis_text(QueryDocument("SELECT 1", "", trees=trees, analysis=analysis))


def spread(total: str, most: str = "1 ms") -> str:
    """A metric of several tasks, as Spark prints it."""
    head = "total (min, med, max (stageId: taskId))"
    return f"{head}\n{total} (0.0 B, 1.0 B, {most} (stage 3.0: task 4))"


SORT = SparkNode(
    "Sort", "Sort [n]", {"sort time": "30 ms", "peak memory": spread("3.0 MiB", "2.0 MiB")}, "p0"
)
AGGREGATES = [
    SparkNode(
        "HashAggregate",
        "HashAggregate(keys=[k])",
        {
            "time in aggregation build": spread("1.5 s"),
            "peak memory": spread("1.0 MiB", "256.0 KiB"),
        },
        "p5",
    )
] * 2


def test_a_sort_of_spark_has_the_time_it_sorted_for_and_what_it_held() -> None:
    sort = analysis(SORT).operators["p0"]
    assert (sort.seconds, sort.seconds_with_input) == (0.03, False)
    assert (sort.peak_memory_bytes, sort.peak_memory_of) == (2 << 20, "jvm")


def test_an_aggregate_of_spark_has_both_halves_and_a_clock_that_ran_while_its_input_came() -> None:
    found = analysis(SORT, *AGGREGATES).operators
    local = found["p5"]
    assert (local.seconds, local.seconds_with_input) == (3.0, True)
    assert (local.peak_memory_bytes, local.peak_memory_of) == (256 << 10, "jvm")
    assert found["p2"].peak_memory_of == "worker"
    assert found["p1"].seconds is found["p1"].peak_memory_of is None


def test_sorts_that_spark_adds_elsewhere_are_nobodys() -> None:
    inside = SparkNode("Sort", "Sort [bucket]", {"sort time": "5 s"}, "")
    two = [SORT, SparkNode("Sort", "Sort [x]", {"sort time": "5 s"}, "p0")]
    assert analysis(inside).operators["p0"].seconds is None
    assert analysis(*two).operators["p0"].seconds is None


def test_what_an_operator_counts_as_its_input_tells_of_the_one_below() -> None:
    found = analysis().operators
    assert found["p3"].rows_out == 9
    assert found["p3"].rows_in == 12


def test_rows_that_are_left_out_are_not_aggregated() -> None:
    left_out = {"rows_filtered_out": 60, "rows_without_time": 10}
    scanned = {**left_out, "rows_scanned": 100}

    def local(rows_in: int, counters: dict[str, int]) -> Analysis:
        measured = {"p5": Measured(rows_in, 15, counters=counters)}
        return run_figures(tree(), measured, SparkFigures((), ()), 1.0)

    found = local(100, scanned)
    assert found.operators["p5"].reduction == 2.0
    assert "LocalWindowAggregate: 30 rows became 15 partials, 2.0 rows a partial" in text_of(found)
    # rows of a stream are counted behind its filters
    assert local(40, left_out).operators["p5"].reduction == 2.0


def test_what_spark_observed_of_rows_that_were_fetched_bit_by_bit_does_not_count() -> None:
    top = "p0"
    measured = {top: Measured(rows_out=0, is_observed=True), "p5": Measured(7, 7)}
    assert as_written(measured, tree(), 3) == {top: Measured(rows_out=3), "p5": Measured(7, 7)}
    for written in (0, None):
        assert as_written(measured, tree(), written) == measured


def test_the_text_says_whose_clock_and_whose_memory_it_is() -> None:
    text = text_of(analysis(SORT, *AGGREGATES))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert any(line.startswith("Sort ") and line.endswith(" 30 ms 2.0 MiB JVM") for line in lines)
    assert any(line.endswith(" 3.00 s* 256.0 KiB JVM") for line in lines)
    assert any(line.endswith(" 500 ms 100.0 MiB") for line in lines)
    assert "* Spark's clock, which also runs while the input of the operator is computed" in lines


class Java:
    """An object of the JVM, with methods that give what is known."""

    def __init__(self, **values: Any) -> None:
        for name, value in values.items():
            setattr(self, name, lambda value=value: value)


class Sequence:
    def __init__(self, *items: Any) -> None:
        self.items = items

    def size(self) -> int:
        return len(self.items)

    def apply(self, i: int) -> Any:
        return self.items[i]

    def mkString(self, separator: str) -> str:
        return separator.join(map(str, self.items))


class Store(Java):
    """Spark's records: a plan, and the scopes of its stages."""

    def __init__(self, nodes: Sequence, edges: Sequence, stages: dict[int, Java]) -> None:
        super().__init__()
        self.planGraph = lambda _: Java(allNodes=nodes, edges=edges)
        self.executionMetrics = lambda _: Sequence("7 -> 1,234", "8 -> " + spread("1.5 s"))
        self.operationGraphForStage = lambda stage: Java(rootCluster=stages[stage])


def scope(name: str, *inside: Java) -> Java:
    return Java(name=name, childClusters=Sequence(*inside))


def test_nodes_and_stages_belong_to_the_operators_that_are_observed_above_them() -> None:
    observed = "CollectMetrics {}-" + "0" * 32 + ", [count(1) AS rows#1L]"
    names = [
        ("CollectMetrics", observed.format("p0")),
        ("Sort", "Sort [n]"),
        ("CollectMetrics", observed.format("1.p2")),
        ("Project", "Project [a]"),
        ("MapInArrow", "MapInArrow run(a)"),
        ("Sort", "Sort [bucket]"),
        ("Union", "Union"),
    ]
    plain = [
        Java(id=i, name=name, desc=text, metrics=Sequence()) for i, (name, text) in enumerate(names)
    ]
    edges = [f"SparkPlanGraphEdge({i + 1},{i})" for i in range(len(plain) - 2)]
    loops = [
        Java(id=i, name=f"WholeStageCodegen ({i})", desc="", metrics=Sequence(), nodes=Sequence(n))
        for i, n in ((10, plain[1]), (11, plain[3]), (12, plain[5]))
    ]
    stages = {
        1: scope("Stage 1", scope("Exchange", scope("WholeStageCodegen (12)"))),
        2: scope("Stage 2", scope("WholeStageCodegen (10)"), scope("WholeStageCodegen (11)\n")),
        3: scope("Stage 3", scope("Sort")),
    }
    store = Store(Sequence(*plain, *loops), Sequence(*edges), stages)
    nodes = plan_nodes(store, 1)
    assert [(node.name.split()[0], node.label, node.in_loop) for node in nodes] == [
        ("CollectMetrics", "p0", False),
        ("WholeStageCodegen", "p0", False),
        ("Sort", "p0", True),
        ("CollectMetrics", "1.p2", False),
        ("WholeStageCodegen", "1.p2", False),
        ("Project", "1.p2", True),
        ("MapInArrow", "", False),
        ("WholeStageCodegen", "", False),
        ("Sort", "", True),
        ("Union", "", False),
    ]
    assert labels_of_stage(store, 1, nodes) == set()
    assert labels_of_stage(store, 2, nodes) == {"p0", "1.p2"}
    assert labels_of_stage(store, 3, nodes) == set(), "there are two nodes of that name"


class Missing(Py4JJavaError):
    def __init__(self, name: str) -> None:
        self.java_exception = Java(getClass=Java(getName=name))


def test_a_stage_that_spark_has_forgotten_has_no_figures() -> None:
    def gone(name: str) -> Callable[[int], Any]:
        def ask(_: int) -> Any:
            raise Missing(name)

        return ask

    store = Java()
    store.operationGraphForStage = gone("java.util.NoSuchElementException")
    store.lastStageAttempt = gone("java.util.NoSuchElementException")
    assert labels_of_stage(store, 1, []) == set()
    assert stage_figures(store, 1, frozenset()) is None
    store.lastStageAttempt = gone("java.lang.IllegalStateException")
    with pytest.raises(Missing):
        stage_figures(store, 1, frozenset())


def test_nodes_of_a_micro_batch_have_the_metrics_that_spark_prints_and_an_operator() -> None:
    metrics = Sequence(
        "SQLPlanMetric(number of output rows,7,sum)",
        "SQLPlanMetric(time to build hash map,8,timing)",
        "SQLPlanMetric(spill size,9,size)",
    )
    observed = Java(id=0, name="CollectMetrics", desc="CollectMetrics sqlwin.rows.p5, [count(1)]")
    observed.metrics = lambda: Sequence()
    join = Java(id=1, name="ShuffledHashJoin", desc="ShuffledHashJoin [a]", metrics=metrics)
    transform = Java(id=2, name="TransformWithStateInPySpark", desc="", metrics=Sequence())
    below = Java(id=3, name="Sort", desc="Sort [key_group]", metrics=Sequence())
    stage = "MapInArrow measured_p5($keep#1, $source#2)#5, [key_group#6]"
    local = Java(id=4, name="MapInArrow", desc=stage, metrics=Sequence())
    scan = Java(id=5, name="MicroBatchScan", desc="MicroBatchScan[id#1]", metrics=Sequence())
    edges = [f"SparkPlanGraphEdge({i + 1},{i})" for i in range(5)]
    nodes = Sequence(observed, join, transform, below, local, scan)
    found = plan_nodes(Store(nodes, Sequence(*edges), {}), 1)
    assert [node.label for node in found] == ["p5", "p5", "", "", "", ""]
    assert [node.feeds for node in found] == ["", "", "", "", "", "p5"]
    assert (found[1].rows_out, found[1].seconds, found[1].spilled_bytes) == (1234, 1.5, None)


def test_nodes_of_micro_batches_add_up_however_spark_planned_them() -> None:
    def loop(seconds: str, *inside: SparkNode) -> list[SparkNode]:
        return [SparkNode("WholeStageCodegen (1)", "", {"duration": seconds}, "p1"), *inside]

    def join(rows: str, peak: str) -> SparkNode:
        metrics = {
            "number of output rows": rows,
            "data size of build side": spread("9.0 MiB", peak),
        }
        return SparkNode("ShuffledHashJoin", "", metrics, "p1", in_loop=True)

    project = SparkNode("Project", "", {}, "p1", in_loop=True)
    scan = SparkNode("Scan json ", "", {"number of output rows": "1"}, "p1")
    first = [*loop("900 ms", project, join("1,200", "2.0 MiB")), *loop("1 ms", project)]
    second = [*loop("1.1 s", project, join("34", "3.0 MiB")), scan, *loop("2 ms", project)]
    found = added_up([first, second])
    names = [node.name.split()[0] for node in found]
    assert names == [
        "WholeStageCodegen", "Project", "ShuffledHashJoin", "Scan", "WholeStageCodegen", "Project",
    ]  # fmt: skip
    assert found[2].rows_out == 1234
    assert found[2].memory_bytes == 3 << 20, "the most of any task"
    assert found[0].seconds == pytest.approx(2.0)
    assert found[4].seconds == pytest.approx(0.003)
    assert found[3] == scan


def test_what_spark_planned_again_and_did_not_run_is_left_out() -> None:
    def plan(seconds: str, rows: str) -> list[SparkNode]:
        return [
            SparkNode("WholeStageCodegen (1)", "", {"duration": seconds}, "p5"),
            SparkNode("Project", "", {}, "p5", in_loop=True),
            SparkNode("Filter", "", {"number of output rows": rows}, "p5", in_loop=True),
            SparkNode("Scan parquet", "", {"number of output rows": rows}, "p5"),
        ]

    union = SparkNode("Union", "", {}, "p5")
    assert that_ran([*plan("1.5 s", "7"), union, *plan("0 ms", "0")]) == [
        *plan("1.5 s", "7"),
        union,
    ]
    assert that_ran(plan("0 ms", "0")) == plan("0 ms", "0"), "an empty table was read all the same"
    empty = [*plan("1.5 s", "7"), *plan("3 ms", "0")[:3]]
    assert that_ran(empty) == empty


def test_sources_that_only_sqlwin_reads_are_left_out() -> None:
    own = "Project [false AS $keep#1, -1 AS $source#2, coalesce(watermark_us#3L, 0) AS $watermark]"
    loop = SparkNode("WholeStageCodegen (1)", "", {"duration": "1 s"})
    project = SparkNode("Project", "Project [a#1]", {}, in_loop=True)
    scan = SparkNode("MicroBatchScan", "MicroBatchScan[a#1] (Python)", {})
    nodes = [
        SparkNode("Union", "Union", {}),
        loop,
        project,
        scan,
        loop,
        SparkNode("Project", own, {}, in_loop=True),
        SparkNode("Scan json ", "FileScan json [watermark_us#3L] Batched: false", {}),
    ]
    assert list(nodes_of_query(nodes)) == [loop, project, scan]


def test_the_text_shows_what_spark_ran_of_each_operator() -> None:
    nodes = [
        SparkNode("CollectMetrics", "", {}, "p1"),
        SparkNode("WholeStageCodegen (3)", "", {"duration": "1.5 s"}, "p1"),
        SparkNode("Project", "", {}, "p1", in_loop=True),
        SparkNode("BroadcastHashJoin", "", {"number of output rows": "7"}, "p1", in_loop=True),
        SparkNode("MapInArrow", "", {"time to run Python workers": "5 s"}, ""),
        SparkNode("Union", "", {}, "p5"),
        SparkNode("Scan parquet", "", {"number of output rows": "12"}, feeds="p5"),
    ]
    text = text_of(analysis(*nodes))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    head = lines.index("Spark's operators rows out time memory part of")
    assert lines[head + 1 : head + 6] == [
        "WholeStageCodegen 1.50 s Calc",
        "Project Calc",
        "BroadcastHashJoin 7 Calc",
        "Scan parquet 12 TableSourceScan",
        "",
    ]
    assert "\n  BroadcastHashJoin " in text
    assert "its clock runs from" in text


def test_a_stage_lists_all_operators_that_it_carried_out() -> None:
    stage = StageFigures(3, (1.0, 3.0), 0, 0, 0, 0, 0, frozenset({"p0", "p5"}))
    measured = {"p2": Measured(9, 7, seconds=0.5, stages=(3,)), "p5": Measured(rows_out=12)}
    found = run_figures(tree(), measured, SparkFigures((SORT, *AGGREGATES), (stage,)), 1.0)
    # p1 and p6 were not counted apart from p0 and p5
    assert found.stages[0].operators == ("p6", "p5", "p2", "p1", "p0")
    assert (
        text_of(found)
        .rstrip()
        .endswith("TableSourceScan, LocalWindowAggregate, GlobalWindowAggregate, Calc, Sort")
    )


def test_what_sqlwin_counts_stays_where_spark_measured_nothing() -> None:
    found = analysis()
    assert (found.rows_out, found.stages, found.spark_operators) == (7, (), ())
    assert found.operators["p2"].rows_in == 9
