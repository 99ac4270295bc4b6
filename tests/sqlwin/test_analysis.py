"""What Spark measured of its own nodes, put down to operators."""

from __future__ import annotations

from typing import Any

from planner.explain_analysis import analysis_text
from runtime.batch.meter import Measured
from runtime.spark_status import SparkFigures, SparkNode, StageFigures, _labels, _nodes
from sqlwin.analysis import analysis_document

PLAN = {
    "p0": "Sort",
    "p1": "Calc",
    "p2": "GlobalWindowAggregate",
    "p3": "SharedSlices",
    "p4": "Exchange",
    "p5": "LocalWindowAggregate",
    "p6": "TableSourceScan",
}


def query() -> dict[str, Any]:
    """A chain of operators."""
    names = list(PLAN.items())
    operators = [
        {"id": each, "name": name, "inputs": [b for b, _ in names[i + 1 : i + 2]], "attributes": {}}
        for i, (each, name) in enumerate(names)
    ]
    return {"trees": {"physical": {"root": "p0", "operators": operators}}, "analysis": None}


def figures(*nodes: SparkNode) -> dict[str, Any]:
    measured = {
        "p0": Measured(rows_out=7),
        "p1": Measured(rows_out=7),
        "p2": Measured(9, 7, seconds=0.5, peak_memory_bytes=100 << 20),
        "p4": Measured(12, 12, seconds=0.25, peak_memory_bytes=90 << 20),
        "p5": Measured(rows_out=12),
    }
    return analysis_document(query(), measured, SparkFigures(nodes, ()), 1.0)


def spread(total: str) -> str:
    """A metric of several tasks, as Spark prints it."""
    return (
        f"total (min, med, max (stageId: taskId))\n{total} (1 ms, 1 ms, 2 ms (stage 3.0: task 4))"
    )


SORT = SparkNode("Sort", "Sort [n]", {"sort time": "30 ms", "peak memory": spread("2.0 MiB")}, "p0")
AGGREGATES = [
    SparkNode(
        "HashAggregate",
        "HashAggregate(keys=[k])",
        {"time in aggregation build": spread("1.5 s"), "peak memory": spread("256.0 KiB")},
        "p5",
    )
] * 2


def test_a_sort_of_spark_has_the_time_it_sorted_for_and_what_it_held() -> None:
    [sort] = [figures(SORT)["operators"]["p0"]]
    assert (sort["seconds"], sort["seconds_with_input"]) == (0.03, False)
    assert (sort["peak_memory_bytes"], sort["peak_memory_of"]) == (2 << 20, "jvm")


def test_an_aggregate_of_spark_has_both_halves_and_a_clock_that_ran_while_its_input_came() -> None:
    found = figures(SORT, *AGGREGATES)["operators"]
    local = found["p5"]
    assert (local["seconds"], local["seconds_with_input"]) == (3.0, True)
    assert (local["peak_memory_bytes"], local["peak_memory_of"]) == (256 << 10, "jvm")
    assert found["p2"]["peak_memory_of"] == "worker"
    assert found["p1"]["seconds"] is found["p1"]["peak_memory_of"] is None


def test_sorts_that_spark_adds_elsewhere_are_nobodys() -> None:
    inside = SparkNode("Sort", "Sort [bucket]", {"sort time": "5 s"}, "")
    two = [SORT, SparkNode("Sort", "Sort [x]", {"sort time": "5 s"}, "p0")]
    assert figures(inside)["operators"]["p0"]["seconds"] is None
    assert figures(*two)["operators"]["p0"]["seconds"] is None


def test_what_an_operator_counts_as_its_input_tells_of_the_one_below() -> None:
    found = figures()["operators"]
    assert found["p3"]["rows_out"] == 9
    assert found["p3"]["rows_in"] == 12


def test_the_text_says_whose_clock_and_whose_memory_it_is() -> None:
    explained = query()
    explained["analysis"] = figures(SORT, *AGGREGATES)
    lines = [" ".join(line.split()) for line in analysis_text(explained).splitlines()]
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


class Store(Java):
    """Spark's records: a plan, and the scopes of its stages."""

    def __init__(self, nodes: Sequence, edges: Sequence, stages: dict[int, Java]) -> None:
        super().__init__()
        self.planGraph = lambda _: Java(allNodes=nodes, edges=edges)
        self.executionMetrics = lambda _: {}
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
    edges = [Java(fromId=i + 1, toId=i) for i in range(len(plain) - 2)]
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
    nodes = list(_nodes(store, 1))
    assert [node.label for node in nodes[:7]] == ["p0", "p0", "1.p2", "1.p2", "", "", ""]
    assert [node.label for node in nodes[7:]] == ["p0", "1.p2", ""]
    assert _labels(store, 1, nodes) == set()
    assert _labels(store, 2, nodes) == {"p0", "1.p2"}
    assert _labels(store, 3, nodes) == set(), "there are two nodes of that name"


def test_a_stage_lists_all_operators_that_it_carried_out() -> None:
    stage = StageFigures(3, (1.0, 3.0), 0, 0, 0, 0, 0, frozenset({"p0", "p5"}))
    measured = {"p2": Measured(9, 7, seconds=0.5, stages=(3,)), "p5": Measured(rows_out=12)}
    explained = query()
    explained["analysis"] = analysis_document(
        explained, measured, SparkFigures((SORT, *AGGREGATES), (stage,)), 1.0
    )
    [found] = explained["analysis"]["stages"]
    # p1 and p6 were not counted apart from p0 and p5
    assert found["operators"] == ["p6", "p5", "p2", "p1", "p0"]
    assert (
        analysis_text(explained)
        .rstrip()
        .endswith("TableSourceScan, LocalWindowAggregate, GlobalWindowAggregate, Calc, Sort")
    )
