"""Specs of window operators, from the steps and options of a stream."""

from __future__ import annotations

import secrets
from dataclasses import replace

from runtime.local.streaming.stage import ROW_COUNT, LocalPlan
from runtime.plan.local import Streaming
from runtime.plan.streams import (
    EmissionMode,
    StreamFillStep,
    StreamRankStep,
    StreamRowsStep,
    StreamVersionStep,
    StreamWindowStep,
)
from runtime.spec.aggregates import Accumulator, WindowAggregation
from runtime.spec.expressions import FirstRows
from runtime.spec.filling import GapFilling, VersionJoining
from runtime.streaming.changes import StateNames
from runtime.streaming.operators.base import KeyGroupSpec, OperatorRun
from runtime.streaming.operators.expiry import CHANGED
from runtime.streaming.operators.fill import FillSpec
from runtime.streaming.operators.firing import FireRule, UpdateRules
from runtime.streaming.operators.ranks import RankSpec
from runtime.streaming.operators.session import SessionSpec
from runtime.streaming.operators.versions import VersionSpec
from runtime.streaming.operators.window import WindowSpec
from runtime.streaming.options import StreamOptions
from runtime.streaming.slices.levels import one_reader
from runtime.streaming.state.partial_columns import StateColumns
from runtime.streaming.watermarks import WatermarkRules, idle_advance


def operator_spec(
    step: StreamWindowStep, plan: LocalPlan, options: StreamOptions
) -> SessionSpec | FillSpec | VersionSpec | RankSpec | WindowSpec:
    """Return the spec of a window operator.

    Args:
        step: Operator.
        plan: Plan of its local stage.
        options: Options of the stream.
    """
    local = step.input
    # all columns are named as in state; results are matched by position
    names = options.names_of(step.number)
    aggregation = _with_state_names(step.aggregation, names)
    partials = tuple(_rename_columns(accumulator, names) for accumulator in merged_partials(plan))
    by = tuple(map(names.of, plan.hashed_columns))
    common = common_spec(local.mode, options, step.number, by)
    is_processing_time = any(source.time_type == "proctime" for source in local.mode.sources)
    updates = _update_rules(step, options)
    columns = StateColumns(aggregation.keys, aggregation.slice_end, partials, names.sources)
    drops_zeros = aggregation.remaining is not None
    if not aggregation.window.has_slices:
        columns = replace(columns, drops_zeros=drops_zeros)
        return SessionSpec(aggregation, columns, common, is_processing_time, updates)
    if isinstance(step, StreamFillStep):
        filling = _filling_with_state_names(step.filling, names)
        return FillSpec(filling, aggregation, columns, common, local.mode.time_zone)
    if isinstance(step, StreamVersionStep):
        versions = _versions_with_state_names(step.versions, names)
        return VersionSpec(versions, aggregation, columns, common)
    if isinstance(step, StreamRankStep):
        first = _first_with_state_names(step.first, names)
        columns = replace(columns, drops_zeros=drops_zeros)
        window = aggregation.window
        ttl_us = step.ttl_us if window.closes else window.state_ttl_us
        return RankSpec(first, step.first_rank, aggregation, columns, common, ttl_us)
    if aggregation.window.state_ttl_us is not None:
        partials = (*partials, CHANGED)
    return WindowSpec(
        one_reader(aggregation, partials, names.sources, step.store),
        common,
        updates,
        is_processing_time,
        names.generation,
        local.mode.emits_untimed,
    )


def _update_rules(step: StreamWindowStep, options: StreamOptions) -> UpdateRules | None:
    """Return when an operator emits windows again. None if it emits each window once."""
    if step.emission is EmissionMode.ONCE:
        return None
    if not step.aggregation.window.closes:
        # emitted early only: without a setting, and for another operator, with each micro-batch
        is_last = step.emission is EmissionMode.AGAIN
        early = options.early_fire if is_last else None
        return UpdateRules(0, early or FireRule(delay_us=0), None)
    return UpdateRules(
        options.allowed_lateness_us,
        options.early_fire,
        options.late_fire,
        is_whole=step.input.mode.whole_by is not None,
    )


def common_spec(
    step: Streaming | StreamRowsStep, options: StreamOptions, number: int, by: tuple[str, ...]
) -> KeyGroupSpec:
    """Return the spec shared by all operators.

    Args:
        step: Step that produces the operator's messages.
        options: Options of the stream.
        number: Number of the operator in the query.
        by: Columns that are hashed into key groups.
    """
    return KeyGroupSpec(
        len(step.sources),
        operator_run(step, options),
        secrets.token_hex(4),
        options.owner_of(number),
        by,
        options.thresholds,
        tuple((run.first_batch, run.operators[number]) for run in options.runs),
    )


def operator_run(step: Streaming | StreamRowsStep, options: StreamOptions) -> OperatorRun:
    """Return how a run computes the watermark of an operator.

    Args:
        step: Step that produces the operator's messages.
        options: Options of the stream.
    """
    is_bare = step.is_cascade
    if isinstance(step, Streaming):
        # processing time is never idle and never jumps
        is_bare |= any(source.time_type == "proctime" for source in step.sources)
    rules = WatermarkRules(
        options.watermark_policy,
        None if is_bare else options.idle_timeout_us,
        None if is_bare else options.max_jump_us,
        () if is_bare else idle_advance(step.sources),
        step.time_zone,
    )
    return OperatorRun(rules, tuple(source.delay_us for source in step.sources))


def merged_partials(plan: LocalPlan) -> tuple[Accumulator, ...]:
    """Return the accumulators of a local stage except the row count."""
    return tuple(
        accumulator
        for accumulator in plan.buffer.accumulators
        if accumulator.columns != (ROW_COUNT,)
    )


def _with_state_names(aggregation: WindowAggregation, names: StateNames) -> WindowAggregation:
    """Return an aggregation whose columns are named as in state."""
    window = aggregation.window
    window = window.with_partition(tuple(map(names.of, window.partition)))
    parts = aggregation.accumulators
    accumulators = tuple(_rename_columns(part, names) for part in parts)
    merged = {
        before: after
        for old, new in zip(parts, accumulators, strict=True)
        for before, after in zip(old.output_columns, new.output_columns, strict=True)
    }
    return replace(
        aggregation,
        window=window,
        keys=tuple(map(names.of, aggregation.keys)),
        slice_end=names.of(aggregation.slice_end),
        accumulators=accumulators,
        averages=tuple(
            replace(part, total=merged[part.total], count=merged[part.count])
            for part in aggregation.averages
        ),
        remaining=None if aggregation.remaining is None else merged[aggregation.remaining],
    )


def _filling_with_state_names(filling: GapFilling, names: StateNames) -> GapFilling:
    """Return a gap filling whose columns are named as in state."""
    return replace(
        filling,
        keys=tuple(map(names.of, filling.keys)),
        end=names.of(filling.end),
        fillers=tuple((names.of(name), filler) for name, filler in filling.fillers),
        order=None if filling.order is None else names.of(filling.order),
    )


def _versions_with_state_names(versions: VersionJoining, names: StateNames) -> VersionJoining:
    """Return a temporal join whose columns are named as in state."""
    return VersionJoining(
        tuple(map(names.of, versions.keys)),
        names.of(versions.time),
        names.of(versions.is_version),
        tuple(map(names.of, versions.columns)),
        None if versions.is_deleted is None else names.of(versions.is_deleted),
    )


def _first_with_state_names(first: FirstRows, names: StateNames) -> FirstRows:
    """Return first rows whose columns are named as in state."""
    order = tuple(replace(part, column=names.of(part.column)) for part in first.order)
    is_deleted = None if first.is_deleted is None else names.of(first.is_deleted)
    by = tuple(map(names.of, first.by))
    return replace(first, by=by, order=order, is_deleted=is_deleted)


def _rename_columns(accumulator: Accumulator, names: StateNames) -> Accumulator:
    return replace(accumulator, columns=tuple(map(names.of, accumulator.columns)))
