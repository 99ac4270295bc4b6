"""Windows in EXPLAIN: their text, their parameters and the cost of each one in a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from planner.explain.document import WindowEntry
from planner.nodes.logical import AttachedWindow, Expand, Node, RangeRows, WindowTableFunction
from planner.nodes.physical import (
    GlobalWindowAggregate,
    OnePhaseWindowAggregate,
    SharedExchange,
    SharedSlices,
)
from runtime.windows import Window
from runtime.windows.intervals import render_duration


def window_text(window: Window, source: str) -> str:
    """Return a window as Flink prints it: `HOP(time_col=[ts], size=[10 min], slide=[5 min])`."""
    if not window.closes:
        return window.function
    texts = [source, *window.parameter_texts()]
    if window.partition:
        texts.append(f"partition keys=[{', '.join(window.partition)}]")
    return f"{window.function}({', '.join(texts)})"


def window_parameters(window: Window) -> dict[str, int]:
    """Return the non-zero parameters of a window in microseconds, under EXPLAIN's names."""
    return {name: length.us for name, length in window.parameters.items() if length.us}


def months_parameters(window: Window) -> dict[str, int]:
    """Return the non-zero parameters of a calendar window in months."""
    return {name: length.months for name, length in window.parameters.items() if length.months}


def attached_text(window: AttachedWindow) -> str:
    """Return the windows that rows carry as text.

    For example `TUMBLE(win_start=[window_start], win_end=[...], size=[10 min])`.
    """
    shown = [("win_start", window.start), ("win_end", window.end)]
    if window.start is None and window.end is None:
        shown = [("win_time", window.time)]
    texts = [f"{key}=[{name}]" for key, name in shown if name is not None]
    return window_text(window.spec, ", ".join(texts))


# -- cost of the windows of a plan: slices, copies, exchanged data --------------------------------


def window_entries(plan: Node, ids: Mapping[int, Sequence[str]]) -> Iterator[WindowEntry]:
    """Yield the windows of a physical plan, from the top.

    The local stage of an aggregate has the same window as its global stage and is not listed again.

    Args:
        plan: The plan.
        ids: Operator ids of each node by `id(node)`.
    """
    yield from _entries(plan, None, ids)


def _entries(
    node: Node, above: Window | None, ids: Mapping[int, Sequence[str]]
) -> Iterator[WindowEntry]:
    if isinstance(node, SharedExchange):
        # The local stage assigns rows to slices, not to windows.
        for child in _local(node).inputs:
            yield from _entries(child, None, ids)
        return
    window: Window | None = getattr(node, "window", None)
    if window is not None and window != above:
        yield _entry(node, window, ids[id(node)][0])
    for child in node.inputs:
        yield from _entries(child, window if window is not None else above, ids)


def _entry(node: Node, window: Window, operator: str) -> WindowEntry:
    time_column = getattr(node, "time_column", None)
    widths, lines, copies = window.slice_widths_us, tuple[str, ...](), None
    if isinstance(node, GlobalWindowAggregate):
        time_column = getattr(_local(node.input), "time_column", None)
        lines = tuple(_slices(node))
    elif isinstance(node, OnePhaseWindowAggregate | WindowTableFunction | RangeRows):
        text = window_text(window, f"time_col=[{time_column}]")
        widths, lines = (), (f"{text}: {window.copies_text()}",)
        copies = window.windows_per_row
    return WindowEntry(
        operator,
        window.function,
        window_parameters(window),
        months_parameters(window),
        time_column,
        getattr(node, "time_type", None),
        widths,
        window.slices_per_window if widths else None,
        copies,
        lines,
    )


def _local(exchange: Node) -> Node:
    """Return the local stage below an exchange."""
    node = exchange.inputs[0]
    while isinstance(node, SharedExchange | Expand):
        node = node.input
    return node


def _slices(node: GlobalWindowAggregate) -> Iterator[str]:
    window, local = node.window, node.input.inputs[0]
    yield f"{window_text(window, f'slice_end=[{node.slice_end}]')}:"
    for line in window.slice_lines():
        yield f"  {line}"
    if isinstance(local, SharedExchange):
        yield f"  {_sharing(node.input, local)}"
    columns = ", ".join(c.name for c in node.input.schema)
    yield f"  the exchange carries one row per key and non-empty {window.piece}: {columns}"
    for line in window.note_lines(node.keys):
        yield f"  {line}"


def _sharing(reader: Node, shared: SharedExchange) -> str:
    assert isinstance(reader, SharedSlices)
    level = shared.levels[reader.level]
    if level.source is None:
        return f"other windows read the same slices (reuse_id=[{shared.number}])"
    finer = render_duration(shared.levels[level.source].width_us)
    return f"the slices are merged from slices of {finer} (reuse_id=[{shared.number}])"
