"""What Spark measured of its own nodes, put down to operators."""

from __future__ import annotations

from typing import Any

from planner.explain_analysis import analysis_text
from runtime.batch.meter import Measured
from runtime.spark_status import SparkFigures, SparkNode, _nodes
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


def test_nodes_belong_to_the_operator_that_is_observed_above_them() -> None:
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
    nodes = [
        Java(id=i, name=name, desc=text, metrics=Sequence()) for i, (name, text) in enumerate(names)
    ]
    edges = [Java(fromId=i + 1, toId=i) for i in range(len(nodes) - 2)]
    store = Java(executionMetrics=None)
    store.planGraph = lambda _: Java(allNodes=Sequence(*nodes), edges=Sequence(*edges))
    store.executionMetrics = lambda _: {}
    labels = [node.label for node in _nodes(store, 1)]
    assert labels == ["p0", "p0", "1.p2", "1.p2", "", "", ""]
