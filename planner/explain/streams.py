"""EXPLAIN of a stream: the state of its window operators and the watermarks they follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.explain.window_texts import window_text
from planner.materialized.form import time_text
from planner.nodes.logical import INTERVAL_COLUMNS
from planner.streams.slice_store import reason_of_store
from runtime.plan.arrow_rows import JoinedRows, RankedRows
from runtime.plan.local import SplitScan, StreamLocalStep
from runtime.plan.nodes import PlanNode
from runtime.plan.streams import (
    EmissionMode,
    SliceStoreKind,
    SplitRowsStep,
    StreamFillStep,
    StreamRankStep,
    StreamRegroupStep,
    StreamSharedStep,
    StreamStep,
    StreamVersionStep,
    StreamWindowStep,
    WholeWindowsStep,
    watermarked_rows,
)
from runtime.windows import AlignedWindow, Window
from runtime.windows.intervals import render_duration


@dataclass(frozen=True)
class Firing:
    """Emissions of a window in addition to the one at its end.

    Attributes:
        is_early: Whether windows are emitted before their end.
        is_late: Whether windows are emitted again for late rows.
    """

    is_early: bool = False
    is_late: bool = False


_AT_THE_END = Firing()


def explain_stream(
    step: PlanNode, key_groups: int, watermark_policy: str, firing: Firing = _AT_THE_END
) -> str:
    """Return the section of EXPLAIN about a stream.

    Args:
        step: Steps of the query.
        key_groups: Number of key groups of the state.
        watermark_policy: `min` or `max` of the sources' watermarks.
        firing: When windows are emitted.
    """
    lines = ["== Stream =="]
    operators = list(_operators(step))
    if not operators:
        lines.append("no window operator: rows are emitted as they arrive, without state")
    for rows in watermarked_rows(step):
        lines.append(
            f"CURRENT_WATERMARK: watermark of {rows.name} before the micro-batch; NULL until the "
            "first watermark"
        )
    for operator in operators:
        if isinstance(operator, StreamWindowStep):
            lines += _lines(operator, key_groups, watermark_policy, firing)
        else:
            is_updated = firing.is_early or firing.is_late
            stateless = _STATELESS_UPDATES if is_updated else _STATELESS
            lines += [_head(operator), f"  {stateless}"]
            if isinstance(operator, JoinedRows) and _is_within_interval(operator):
                lines.append("  a join within an interval: each pair of rows is in one window")
    return "\n".join(lines) + "\n"


def explain_shared(
    step: StreamSharedStep, number: int, key_groups: int, watermark_policy: str
) -> str:
    """Return the section of EXPLAIN about a stream shared by several INSERTs.

    Args:
        step: The shared window operator.
        number: Number of the shared exchange in the plans.
        key_groups: As in `explain_stream`.
        watermark_policy: As in `explain_stream`.
    """
    local = step.input
    names = ", ".join(reader.name for reader in step.readers)
    assert local.window.has_slices
    width = render_duration(local.window.slice_width_us)
    lines = [
        "== Stream ==",
        f"SharedWindowOperator(reuse_id=[{number}], inserts=[{names}]):",
        "  one stream for all INSERTs: it reads the source once and stores each slice once",
        _watermark(local, watermark_policy),
        _key_groups(local, key_groups),
        f"  state: one partial per key and live slice of {width}, merged into wider slices once "
        f"only wider windows need it: {_state_columns(local)}",
        "  a window is emitted when the watermark reaches its end",
    ]
    for reader in step.readers:
        window = reader.aggregation.window
        text = window_text(window, f"time_col=[{local.time_column}]")
        lines.append(f"  {reader.name}: {text}: {_late(window, local.mode.late_rows)}")
        assert window.has_slices
        lines.append(f"    {_slice_store(reader.store, window)}")
        read = state_read_text(window, reader.store, _AT_THE_END)
        if read is None and window.slice_width_us > local.window.slice_width_us:
            read = "all its slices"
        if read is not None:
            lines.append(f"    state read per window: {read}")
    return "\n".join(lines) + "\n"


def explain_reader(number: int, first: str) -> str:
    """Return the section of EXPLAIN about an INSERT whose stream is explained elsewhere.

    Args:
        number: Number of the shared exchange in the plans.
        first: The INSERT that it was explained with.
    """
    return f"== Stream ==\nshares the stream of INSERT INTO {first} (reuse_id=[{number}])\n"


def _operators(plan: PlanNode) -> Iterator[StreamStep]:
    """Yield the window operators of a plan in data flow order."""
    for below in plan.inputs:
        yield from _operators(below)
    if isinstance(plan, StreamStep):
        yield plan


def _is_within_interval(step: JoinedRows) -> bool:
    return any(left == INTERVAL_COLUMNS.end for left, _ in step.window_keys)


def _head(step: WholeWindowsStep) -> str:
    match step:
        case StreamRegroupStep():
            return f"WindowRegroup(groupBy=[{', '.join(step.aggregation.keys)}]):"
        case RankedRows():
            ranks = f"{step.function} {step.ranks[0]} to {step.ranks[1]}"
            return f"WindowRank(partitionBy=[{', '.join(step.by)}], ranks=[{ranks}]):"
        case JoinedRows():
            equal = ", ".join(f"{left} = {right}" for left, right in step.keys)
            return f"WindowJoin(joinType=[{step.join_type}], on=[{equal}]):"


_STATELESS = "no state: all results of a window arrive in one micro-batch"
_STATELESS_UPDATES = (
    "no state: a window that has changed arrives whole, as it was emitted and as it is now; ranked "
    "rows that are gone are -D, new ones +I"
)


def _lines(step: StreamWindowStep, key_groups: int, policy: str, firing: Firing) -> Iterator[str]:
    local = step.input
    window = window_text(local.window, f"time_col=[{local.time_column}]")
    if isinstance(step, StreamFillStep):
        yield from _lines_of_fill(step, key_groups, policy)
        return
    if isinstance(step, StreamVersionStep):
        yield from _lines_of_versions(step, key_groups, policy)
        return
    if isinstance(step, StreamRankStep):
        yield from _lines_of_first_rows(step, key_groups, policy)
        return
    yield f"StreamWindowOperator(number=[{step.number}], window=[{window}]):"
    if local.window.closes:
        yield _watermark(local, policy)
    if _is_on_processing_time(local):
        late, followed = "no row is late", "processing time"
    else:
        late, followed = _late(local.window, local.mode.late_rows), "the watermark"
    yield _key_groups(local, key_groups)
    is_updated = step.emission is not EmissionMode.ONCE
    results = ", and its emitted results" if is_updated else ""
    state = local.window.state_text(results)
    may_split = not local.window.has_slices and step.aggregation.remaining is not None
    if may_split:
        state = (
            "one partial per key and time in open sessions, because a deletion may split "
            f"them{results}"
        )
    yield f"  state: {state}: {_state_columns(local)}"
    yield from _counted(local)
    if local.window.has_slices:
        yield f"  {_slice_store(step.store, local.window)}"
    if (read := state_read_text(local.window, step.store, firing)) is not None:
        yield f"  state read per window: {read}"
    if local.mode.first is not None:
        rank = f"rows with {local.mode.first.function} above {local.mode.first.last} in their slice"
        yield f"  dropped while reading: {rank}"
    if not local.window.closes:
        due = ", or when early firing is due" if step.emission is EmissionMode.AGAIN else ""
        yield f"  groups that change are emitted after each micro-batch{due}; {late}"
        yield _time_to_live(local.window)
        return
    yield f"  a window is emitted when {followed} reaches its end; {late}"
    if is_updated and not local.window.has_slices:
        changes = "grown, merged or split" if may_split else "grown or merged"
        yield (
            f"  emitted again: a session that has {changes} is -D, and +I with its new "
            "bounds; one with other values is -U and +U"
        )


def _lines_of_fill(step: StreamFillStep, key_groups: int, policy: str) -> Iterator[str]:
    """Yield the lines of the operator that adds windows without rows."""
    local, filling = step.input, step.filling
    keep = render_duration(filling.keep_us)
    window = window_text(filling.window, f"win_end=[{step.aggregation.window_end}]")
    yield f"StreamFillOperator(number=[{step.number}], window=[{window}]):"
    yield _watermark(local, policy)
    yield _key_groups(local, key_groups)
    since = " or after FROM" if filling.from_us is not None else ""
    yield f"  state: one row per key, for {keep} after its last window with rows{since}"
    yield "  a window without rows is emitted when the watermark reaches its end"
    if filling.from_us is not None:
        first = time_text(filling.from_us)
        yield (
            f"  windows from {first} on are emitted with the first row of a key, if it is at most "
            f"{keep} later"
        )
    if filling.to_us is not None:
        yield f"  no window that ends after {time_text(filling.to_us)} is added"


def _lines_of_versions(step: StreamVersionStep, key_groups: int, policy: str) -> Iterator[str]:
    """Yield the lines of the operator that joins rows with the versions of their times."""
    local, versions = step.input, step.versions
    keys = ", ".join(versions.keys)
    yield f"StreamVersionJoinOperator(number=[{step.number}], on=[{keys}]):"
    yield _watermark(local, policy)
    yield _key_groups(local, key_groups)
    yield "  state: the last version of each key before the watermark"
    if versions.is_deleted is not None:
        yield "  a deletion (a message without a value) ends the last version of its key"
    yield "  rows and later versions wait in the operator below until the watermark passes them"


def _lines_of_first_rows(step: StreamRankStep, key_groups: int, policy: str) -> Iterator[str]:
    """Yield the lines of the operator that keeps the first rows of each key."""
    local, first = step.input, step.first
    keys = ", ".join(first.by)
    ranks = f"{first.function} {step.first_rank} to {first.last}"
    yield f"StreamRankOperator(number=[{step.number}], partitionBy=[{keys}], ranks=[{ranks}]):"
    if local.window.has_slices and local.window.closes:
        yield _watermark(local, policy)
        yield _key_groups(local, key_groups)
        ttl = "" if step.ttl_us is None else f", for {render_duration(step.ttl_us)} after its row"
        yield f"  state: each key{ttl}, with its first row until the watermark has passed it"
        wait = render_duration(local.window.slice_width_us)
        late = _late(local.window, local.mode.late_rows)
        yield f"  a row is emitted once, at most {wait} after the watermark has passed it; {late}"
        return
    yield _key_groups(local, key_groups)
    if step.aggregation.remaining is not None:
        yield "  state: all rows of each key, because any of them may be deleted"
    else:
        rows = "the first row" if first.last == 1 else f"the first {first.last} rows"
        yield f"  state: {rows} of each key"
    yield "  rows are emitted after each micro-batch that changes them; no row is late"
    yield _time_to_live(local.window)


def _time_to_live(window: Window) -> str:
    """Return how long the state of a key without a window stays."""
    if window.state_ttl_us is None:
        return "  state time-to-live: none, every key stays (table.exec.state.ttl, STATE_TTL)"
    ttl = render_duration(window.state_ttl_us)
    return (
        f"  state time-to-live: {ttl} of processing time after the last change of a key; then its "
        "result stays in the table, its next row begins anew and deletions of earlier rows are "
        "ignored, so results may differ from those over all rows"
    )


def _is_on_processing_time(local: StreamLocalStep) -> bool:
    return any(source.time_type == "proctime" for source in local.mode.sources)


def _watermark(local: StreamLocalStep, policy: str) -> str:
    if _is_on_processing_time(local):
        return "  watermark: processing time"
    names = ", ".join(source.name for source in local.mode.sources)
    of_several = {"min": "minimum of ", "max": "maximum of "}[policy]
    origin = of_several if len(local.mode.sources) > 1 else "from "
    line = f"  watermark: {origin}{names}; never decreases{_idle_advance(local)}"
    for table, path in _parts_read(local).items():
        line += f"\n  {table} reads {path}"
    return line


def _parts_read(local: StreamLocalStep) -> dict[str, str]:
    """Return where the tables that a stage reads have their parts, for tables that have any."""
    if local.mode.is_cascade:
        return {}
    sources = [node.source for node in local.walk() if isinstance(node, SplitRowsStep)]
    if isinstance(local.source, SplitScan):
        sources.append(local.source.source)
    return {source.table.name: source.path for source in sources if source.table.parts}


def _idle_advance(local: StreamLocalStep) -> str:
    """Return when a watermark advances without rows; empty if never."""
    sources = local.mode.sources
    waits = [source.idle_advance_us for source in sources if source.idle_advance_us is not None]
    if len(waits) < len(sources):
        return ""
    silences = " and ".join(
        f"{source.name} has had no row for {render_duration(wait)}"
        for source, wait in zip(sources, waits, strict=True)
    )
    return f"; advances with the clock once {silences}"


def _key_groups(local: StreamLocalStep, key_groups: int) -> str:
    if local.mode.whole_by == () or (local.mode.first is not None and not local.mode.first.by):
        return "  key groups: 1, because all rows of a window are ranked together"
    first, by = local.mode.first, local.mode.by
    of_rows = local.keys if first is None else first.by
    if not local.window.has_slices:
        of_rows = local.window.partition
    keys = local.mode.whole_by or (of_rows if by is None else by)
    if not keys:
        return "  key groups: 1, because the query has no keys"
    return f"  key groups: {key_groups}, by {', '.join(keys)}"


def _state_columns(local: StreamLocalStep) -> str:
    columns = [column for partial in local.source.partials for column in partial.columns]
    return ", ".join([*local.keys, local.slice_end, *columns])


def _counted(local: StreamLocalStep) -> Iterator[str]:
    """Yield a line about the aggregates that keep their values."""
    calls: dict[str, list[str]] = {}
    for partial in local.source.partials:
        if partial.into.counts_text:
            calls.setdefault(partial.into.counts_text, []).append(partial.text)
    for text, counted in calls.items():
        yield f"  counts of values: {', '.join(counted)}: {text}"


def _slice_store(store: SliceStoreKind, window: AlignedWindow) -> str:
    return f"slice store: {store.value}, because {reason_of_store(store, window)}"


def state_read_text(window: Window, store: SliceStoreKind, firing: Firing) -> str | None:
    """Return the state read to emit a window; None for one slice or session per key."""
    if not window.has_slices or window.slices_per_window == 1:
        return None
    if window.grows:
        if store is SliceStoreKind.RUNNING_TOTALS:
            return (
                "the running total and the last step; for late rows, all steps since theirs; "
                "with few rows, the total of the closed steps and all later steps"
            )
        return "the running total and the last step"
    if store is not SliceStoreKind.RUNNING_AGGREGATES:
        return "all its slices"
    read = "three partials per key, from running aggregates; with few rows, all its slices"
    if firing.is_late:
        read += "; the same for late rows, all its slices for very late ones"
    if firing.is_early:
        read += "; for early results, all slices of the windows with new rows, read together"
    return read


def _late(window: Window, target: str | None) -> str:
    fate = "dropped and counted" if target is None else f"counted and written to {target}"
    return window.late_text(fate)
