"""Windows in EXPLAIN: their text, their parameters and the cost of each one in a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from planner.explain.document import WindowEntry
from planner.nodes.logical import AttachedWindow, Expand, Node, WindowTableFunction
from planner.nodes.physical import (
    GlobalWindowAggregate,
    OnePhaseWindowAggregate,
    SharedExchange,
    SharedSlices,
)
from planner.sql.intervals import render_duration, render_months
from runtime.spec.windows import (
    DAY_US,
    CalendarCumulate,
    CalendarHop,
    CalendarTumble,
    CalendarWindow,
    Cumulate,
    Hop,
    SessionWindow,
    Window,
    window_kind,
)


def window_text(window: Window, source: str) -> str:
    """Return a window as Flink prints it: `HOP(time_col=[ts], size=[10 min], slide=[5 min])`."""
    months = {k: render_months(v) for k, v in months_parameters(window).items()}
    lengths = {k: render_duration(v) for k, v in window_parameters(window).items()}
    offset = " ".join(texts.pop("offset") for texts in (months, lengths) if "offset" in texts)
    shown_parameters = {**months, **lengths, **({"offset": offset} if offset else {})}
    texts = [source, *(f"{name}=[{text}]" for name, text in shown_parameters.items())]
    if isinstance(window, SessionWindow) and window.partition:
        texts.append(f"partition keys=[{', '.join(window.partition)}]")
    return f"{window_kind(window)}({', '.join(texts)})"


def window_parameters(window: Window) -> dict[str, int]:
    """Return the non-zero parameters of a window in microseconds, under EXPLAIN's names."""
    return _parameters(window, "us")


def months_parameters(window: Window) -> dict[str, int]:
    """Return the non-zero parameters of a calendar window in months."""
    return _parameters(window, "months")


def _parameters(window: Window, unit: str) -> dict[str, int]:
    size = "max_size" if isinstance(window, Cumulate | CalendarCumulate) else "size"
    names = {"size": size, "slide": "slide", "step": "step", "gap": "gap", "offset": "offset"}
    values = {shown: getattr(window, f"{name}_{unit}", 0) for name, shown in names.items()}
    return {name: value for name, value in values.items() if value}


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
    widths, lines, copies = slice_widths_us(window), tuple[str, ...](), None
    if isinstance(node, GlobalWindowAggregate):
        time_column = getattr(_local(node.input), "time_column", None)
        lines = tuple(_slices(node))
    elif isinstance(node, OnePhaseWindowAggregate | WindowTableFunction):
        text = window_text(window, f"time_col=[{time_column}]")
        widths, lines, copies = (), (f"{text}: {_copies_text(window)}",), _copies(window)
    return WindowEntry(
        operator,
        window_kind(window),
        window_parameters(window),
        months_parameters(window),
        time_column,
        getattr(node, "time_type", None),
        widths,
        getattr(window, "slices_per_window", None) if widths else None,
        copies,
        lines,
    )


def _local(exchange: Node) -> Node:
    """Return the local stage below an exchange."""
    node = exchange.inputs[0]
    while isinstance(node, SharedExchange | Expand):
        node = node.input
    return node


def slice_widths_us(window: Window) -> tuple[int, ...]:
    """Return a window's slice widths in cyclic order.

    HOP has two if its size is not a multiple of its slide.
    """
    if isinstance(window, Hop) and window.size_us % window.slide_us:
        rest = window.size_us % window.slide_us
        return tuple(sorted((rest, window.slide_us - rest), reverse=True))
    if isinstance(window, CalendarWindow):
        return ()
    width: int | None = getattr(window, "slice_width_us", None)
    return () if width is None else (width,)


def _calendar_width(window: CalendarWindow) -> str:
    """Return the uneven slice widths of a calendar window as text."""
    if isinstance(window, CalendarTumble):
        return render_months(window.size_months)
    if isinstance(window, CalendarCumulate):
        if window.step_us:
            is_even = DAY_US % window.step_us == 0
            less = "" if is_even else ", or less for the last slice of a window"
            return render_duration(window.step_us) + less
        return render_months(window.step_months)
    widths = slice_widths_us(Hop(window.slide_months, window.size_months))
    return " and ".join(map(render_months, widths)) + (", alternating" if len(widths) > 1 else "")


def _slices(node: GlobalWindowAggregate) -> Iterator[str]:
    window, local = node.window, node.input.inputs[0]
    if isinstance(window, SessionWindow):
        yield from _session_pieces(node, window)
        return
    widths, count = slice_widths_us(window), str(window.slices_per_window)
    width = " and ".join(render_duration(w) for w in widths)
    if len(widths) > 1:
        width += ", alternating"
    if isinstance(window, CalendarWindow):
        width = _calendar_width(window)
    yield f"{window_text(window, f'slice_end=[{node.slice_end}]')}:"
    yield f"  slice width: {width}"
    plural = "slice" if count == "1" else "slices"
    up_to = "up to " if isinstance(window, Cumulate | CalendarCumulate) else ""
    yield f"  a window consists of {up_to}{count} {plural}; each row is aggregated once"
    if isinstance(local, SharedExchange):
        yield f"  {_sharing(node.input, local)}"
    columns = ", ".join(c.name for c in node.input.schema)
    yield f"  the exchange carries one row per key and non-empty slice: {columns}"
    if isinstance(window, Hop) and window.slide_us > window.size_us:
        yield (
            "  advice: the slide is longer than the size, so rows between windows are in no "
            "window; the slide argument comes before the size"
        )


def _session_pieces(node: GlobalWindowAggregate, window: SessionWindow) -> Iterator[str]:
    yield f"{window_text(window, f'slice_end=[{node.slice_end}]')}:"
    yield (
        f"  rows of one key are first aggregated in pieces of {render_duration(window.gap_us)}, "
        "the gap; each row is aggregated once"
    )
    yield "  sessions are merged from these pieces, by the times of their first and last rows"
    columns = ", ".join(c.name for c in node.input.schema)
    yield f"  the exchange carries one row per key and non-empty piece: {columns}"
    others = [key for key in node.keys if key not in window.partition]
    if others:
        yield (
            f"  sessions span all rows{_partition_text(window)}; within a session, rows are "
            f"grouped by {', '.join(others)}"
        )


def _partition_text(window: SessionWindow) -> str:
    return f" of one {', '.join(window.partition)}" if window.partition else ""


def _sharing(reader: Node, shared: SharedExchange) -> str:
    assert isinstance(reader, SharedSlices)
    level = shared.levels[reader.level]
    if level.source is None:
        return f"other windows read the same slices (reuse_id=[{shared.number}])"
    finer = render_duration(shared.levels[level.source].width_us)
    return f"the slices are merged from slices of {finer} (reuse_id=[{shared.number}])"


def _copies(window: Window) -> int:
    if isinstance(window, SessionWindow):
        return 1
    if isinstance(window, Hop):
        return -(-window.size_us // window.slide_us)
    if isinstance(window, CalendarHop):
        return -(-window.size_months // window.slide_months)
    return window.slices_per_window


def _copies_text(window: Window) -> str:
    if isinstance(window, SessionWindow):
        return (
            f"each row is in one session; one task sorts the rows{_partition_text(window)} by time"
        )
    count = _copies(window)
    if count == 1:
        return "each row is in at most one window"
    return f"each row is copied into up to {count:,} windows"
