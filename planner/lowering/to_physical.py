"""Logical nodes to physical ones; how many phases an aggregate takes is a rule's business."""

from __future__ import annotations

from planner.nodes.logical import Node, WindowAggregate
from planner.nodes.physical import OnePhaseWindowAggregate


def to_physical(node: Node) -> Node:
    """The physical plan: window aggregates in one phase, everything else as it is."""
    inputs = tuple(to_physical(child) for child in node.inputs)
    if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
        node = node.with_inputs(*inputs)
    if isinstance(node, WindowAggregate):
        return OnePhaseWindowAggregate(
            node.schema,
            node.input,
            node.window,
            node.time_column,
            node.time_type,
            node.keys,
            node.window_keys,
            node.calls,
            place=node.place,
            time_place=node.time_place,
        )
    return node
