"""The base of plan nodes, and nodes of Spark SQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class PlanNode:
    """Base of plan nodes. A node yields rows or partials, which it computes from its inputs."""

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        """The nodes that it reads, in the order of its fields."""
        return tuple(
            node for field in fields(self) for node in _nodes_in(getattr(self, field.name))
        )

    def walk(self) -> Iterator[PlanNode]:
        """Yield this node and all below it, the topmost first."""
        ahead: list[PlanNode] = [self]
        while ahead:
            node = ahead.pop()
            yield node
            ahead += reversed(node.inputs)


def _nodes_in(value: object) -> Iterator[PlanNode]:
    if isinstance(value, PlanNode):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _nodes_in(item)


@dataclass(frozen=True)
class SqlStep(PlanNode):
    """Spark SQL over other nodes. `relations` maps names in the text to nodes."""

    sql: str
    relations: tuple[tuple[str, PlanNode], ...] = ()


@dataclass(frozen=True)
class MeasuredStep(PlanNode):
    """A step whose rows EXPLAIN ANALYZE counts, under the name `label`."""

    input: PlanNode
    label: str


@dataclass(frozen=True)
class BatchWindowsStep(PlanNode):
    """Windows of one reader of shared slices in the current micro-batch, for steps over them.

    Its rows are keys, window start and end, and merged columns.
    """

    reader: int
