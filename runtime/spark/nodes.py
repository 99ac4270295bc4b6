"""The nodes of plans that Spark ran, with its metrics of them.

Private APIs, seen in Spark 4.3: `SQLAppStatusStore.executionMetrics` and `planGraph`, and Scala's
texts of `SQLPlanMetric` and `SparkPlanGraphEdge`. `runtime.spark.status` guards the calls; a metric
whose text is another one is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

# What counts the rows of an operator, named as `runtime.frames.meter` and `runtime.streaming` do it
_OBSERVED = re.compile(r"CollectMetrics (?:sqlwin\.rows\.([\w.]+)|([\w.]+)-[0-9a-f]{32}),")
# A stage of Python that is measured, named as `runtime.frames.meter` does it
_STAGE = re.compile(r"\w+ measured_([\w.]+)\(")
_LOOP = "WholeStageCodegen"
_PYTHON = re.compile("Arrow|Pandas|Python|PySpark")
# Scala's text of the metrics of a node, of edges, and of (number of a metric -> value)
_METRIC = re.compile(r"SQLPlanMetric\(([^\x01]*),(\d+),\w+\)")
_EDGE = re.compile(r"SparkPlanGraphEdge\((\d+),(\d+)\)")
_VALUE = re.compile(r"(\d+) -> ([^\x01]*)")
# (least, median, most (stage 3.0: task 7))
_SPREAD = re.compile(r"\([^,()]*, [^,()]*, ([^,()]*?) *\(")
_SEPARATOR = "\x01"

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_UNITS: dict[str, float] = {**_SECONDS, **_BYTES, "": 1.0}
# The clocks of nodes: those that there are add up
_CLOCKS = (
    "duration",
    "sort time",
    "time in aggregation build",
    "time to build hash map",
    "time to collect",
    "time to build",
    "time to broadcast",
    "time to run Python workers",
    "scan time",
)
_MEMORY = ("peak memory", "data size of build side")
# What is no sum: the most that any task held
_PEAKS = (*_MEMORY, "memory used by state")


@dataclass(frozen=True)
class SparkNode:
    """A node of a plan that Spark ran.

    Attributes:
        name: Spark's name of it.
        description: Spark's text of it.
        metrics: its metrics, by name, as Spark prints them.
        label: the operator that it is part of: the one whose rows are observed next above it, with
            no Python stage in between. Empty if there is none.
        in_loop: whether it is compiled into the loop that stands before it.
        feeds: where there is no label: the operator whose stage of Python takes its rows.
    """

    name: str
    description: str
    metrics: dict[str, str]
    label: str = ""
    in_loop: bool = False
    feeds: str = ""

    @property
    def is_loop(self) -> bool:
        """Whether it is a loop into which Spark compiled nodes; they follow it."""
        return self.name.startswith(_LOOP)

    @property
    def rows_out(self) -> int | None:
        """How many rows it gave, if it counts them."""
        return self._whole("number of output rows")

    @property
    def seconds(self) -> float | None:
        """The sum of its clocks, if it has any; a loop's runs from its beginning to its end."""
        found = [amount(self.metrics[name]) for name in _CLOCKS if name in self.metrics]
        return sum(found) if found else None

    @property
    def memory_bytes(self) -> int | None:
        """The most memory that it held in a task, if known."""
        # what an Exchange calls data size goes to disk
        names = (*_MEMORY, "data size") if self.name.startswith("Broadcast") else _MEMORY
        found = [most(self.metrics[name]) for name in names if name in self.metrics]
        return round(max(found)) if found else None

    @property
    def spilled_bytes(self) -> int | None:
        """Bytes that went to disk for lack of memory, if known."""
        return self._whole("spill size")

    def _whole(self, name: str) -> int | None:
        return round(amount(self.metrics[name])) if name in self.metrics else None


def amount(text: str | None) -> float:
    """A metric in rows, bytes or seconds.

    Args:
        text: as Spark prints it: `1,234`, `1.5 s`, or `total (min, med, max ...)` and a line more
            that begins with the total. None: 0.
    """
    if text is None:
        return 0.0
    number, _, unit = text.split("\n")[-1].split("(")[0].strip().partition(" ")
    return float(number.replace(",", "") or 0) * _UNITS.get(unit.strip(), 0.0)


def most(text: str | None) -> float:
    """What a metric is in the task where it is the largest; its amount if that is unknown."""
    spread = _SPREAD.search((text or "").split("\n")[-1])
    return amount(spread[1]) if spread else amount(text)


def has_figures(store: Any, execution_id: int) -> bool:
    """Whether an execution ran anything: Spark lists a micro-batch twice, once as a whole."""
    return not store.executionMetrics(execution_id).isEmpty()


def plan_nodes(store: Any, execution_id: int) -> list[SparkNode]:
    """The nodes of an execution, from the top; a loop stands before what is compiled into it.

    Args:
        store: Spark's store of what ran in SQL.
        execution_id: Spark's number.
    """
    # One text for many values: each call into the JVM has its price
    values = dict(_VALUE.findall(store.executionMetrics(execution_id).mkString(_SEPARATOR)))
    graph = store.planGraph(execution_id)
    nodes = {int(node.id()): node for node in listed(graph.allNodes())}
    edges = _EDGE.findall(str(graph.edges().mkString(_SEPARATOR)))
    above = {int(source): int(target) for source, target in edges}
    names = {each: str(node.name()) for each, node in nodes.items()}
    texts = {each: str(node.desc()) for each, node in nodes.items()}
    loops = {
        each: [int(inside.id()) for inside in listed(node.nodes())]
        for each, node in nodes.items()
        if names[each].startswith(_LOOP)
    }
    loop_of = {inside: loop for loop, found in loops.items() for inside in found}

    def place(node_id: int | None) -> tuple[str, str]:
        """The label of a node, and what it feeds."""
        first = node_id
        while node_id is not None:
            if observed := _OBSERVED.match(texts[node_id]):
                return observed[1] or observed[2], ""
            if _PYTHON.search(names[node_id]):
                stage = _STAGE.match(texts[node_id]) if node_id != first else None
                return "", stage[1] if stage else ""
            node_id = above.get(node_id)
        return "", ""

    def made(node_id: int, within: int | None, in_loop: bool) -> SparkNode:
        metrics = {
            name: values[number]
            for name, number in _METRIC.findall(nodes[node_id].metrics().mkString(_SEPARATOR))
            if number in values
        }
        label, feeds = place(within)
        return SparkNode(names[node_id], texts[node_id], metrics, label, in_loop, feeds)

    found: list[SparkNode] = []
    begun: set[int] = set()
    for node_id in nodes:
        loop = loop_of.get(node_id, node_id)
        if loop in begun:
            continue
        begun.add(loop)
        inside = loops.get(loop, [])
        # a loop's nodes are connected, it is not
        found.append(made(loop, next(iter(inside), None) if loop in loops else loop, False))
        found += [made(each, each, True) for each in inside]
    return found


def that_ran(nodes: Sequence[SparkNode]) -> list[SparkNode]:
    """The nodes without those that Spark planned once more and had no need to run.

    The plan of what reads cached rows has the plan that made them below it.
    """

    def is_measured(node: SparkNode) -> bool:
        return any(amount(text) > 0 for text in node.metrics.values())

    def kind(node: SparkNode) -> tuple[str, str, str]:
        return node.label, node.feeds, _LOOP if node.is_loop else node.name

    measured = {kind(node) for node in nodes if is_measured(node)}
    found: list[SparkNode] = []
    is_loop_idle = False
    for node in nodes:
        is_idle = bool(node.metrics) and not is_measured(node) and kind(node) in measured
        if node.is_loop:
            is_loop_idle = is_idle
        if not (is_loop_idle if node.in_loop else is_idle):
            found.append(node)
    return found


def added_up(plans: Iterable[Sequence[SparkNode]]) -> list[SparkNode]:
    """The nodes of a plan that ran again and again, with the figures of all runs.

    Spark plans each micro-batch anew: what is empty in one has other nodes. Nodes are the same if
    they have the same name, belong to the same operator, and are compiled into loops of the same
    nodes.
    """
    order: list[_Key] = []
    found: dict[_Key, SparkNode] = {}
    for plan in plans:
        place = 0
        for key, node in zip(_keys(plan), plan, strict=True):
            if key in found:
                metrics = _sums(found[key].metrics, node.metrics)
                found[key] = replace(found[key], metrics=metrics)
                place = order.index(key) + 1
            else:
                found[key] = node
                order.insert(place, key)
                place += 1
    return [found[key] for key in order]


_Key = tuple[str, str, tuple[str, ...], int]


def _keys(plan: Sequence[SparkNode]) -> Iterator[_Key]:
    """What the nodes of a plan differ in, also from one planning to the next."""
    seen: Counter[tuple[str, str, tuple[str, ...]]] = Counter()
    loop: tuple[str, ...] = ()
    for i, node in enumerate(plan):
        if not node.in_loop:
            loop = ()
        if node.is_loop:
            rest = plan[i + 1 :]
            n_inside = next((n for n, each in enumerate(rest) if not each.in_loop), len(rest))
            loop = tuple(each.name for each in rest[:n_inside])
        name = _LOOP if node.is_loop else node.name
        key = node.label or node.feeds, name, loop
        seen[key] += 1
        yield *key, seen[key]


def _sums(first: dict[str, str], second: dict[str, str]) -> dict[str, str]:
    both = {name: _sum(name, first[name], second[name]) for name in first if name in second}
    return {**first, **second, **both}


def _sum(name: str, *texts: str) -> str:
    total = max(map(most, texts)) if name in _PEAKS else sum(map(amount, texts))
    unit = texts[0].split("\n")[-1].split("(")[0].strip().partition(" ")[2]
    if unit in _SECONDS:
        return f"{total * 1000:.0f} ms"
    return f"{total:.1f} B" if unit in _BYTES else f"{total:,.0f}"


def listed(sequence: Any) -> Iterator[Any]:
    """The items of a Scala sequence."""
    for i in range(sequence.size()):
        yield sequence.apply(i)
