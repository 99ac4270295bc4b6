"""Identity of a stream: its plan and its tables as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from planner.explain.build import physical_text
from planner.nodes.physical import with_rows_by_spark
from planner.plan import Plan
from planner.streams.plan_form import form_of
from runtime.records import round_trip
from runtime.redaction import Mask
from runtime.spec.state_schema import without_options
from runtime.spec.table import TableSpec
from runtime.streaming.execute.local_stage import needs_processing_time
from runtime.streaming.identity import (
    CLOCK,
    FIRING,
    KEPT,
    PLACE,
    Identity,
    may_differ,
    without_secrets,
)
from runtime.streaming.options import StreamOptions
from sqlwin.catalog.entries import LoweredWindows, Registered, entry_name
from sqlwin.execution.lowered import LoweredStream

# Parallelism in a plan's text, which the checkpoint stores itself
_PARALLELISM = re.compile(r", (?:partitions|buckets)=\[\d+\]")
# Number of a shared part within its statement set
_NUMBER = re.compile(r", reuse_id=\[\d+\]")


# Connectors whose path is in a file system
_OF_PATHS = frozenset({"filesystem", "delta", "iceberg"})


def identity_of(
    lowered: LoweredStream,
    options: StreamOptions,
    mask: Mask,
    resolved: Callable[[str], str],
) -> Identity:
    """Return the properties that must not change if a stream is to resume from a checkpoint.

    Args:
        lowered: Lowered stream.
        options: Options of the stream. Key groups and partitions do not matter.
        mask: Mask for secrets, which may change between starts.
        resolved: Returns the absolute path for a path of a user.
    """
    by_spark = [with_rows_by_spark(plan.physical) for plan in lowered.plans]
    identity = Identity(
        plan=plan_text(lowered.plans),
        tables=described_tables(lowered.sources, resolved, [w for _, w in lowered.general_windows]),
        settings={"table.local-time-zone": lowered.time_zone, **_kinds_of_state(lowered, options)},
        operators=lowered.operators,
        form=tuple(map(form_of, by_spark)),
        sources=tuple(map(without_options, lowered.order_of_sources)),
    )
    # to compare it with the one in a checkpoint
    return without_secrets(round_trip(identity), mask)


def _kinds_of_state(lowered: LoweredStream, options: StreamOptions) -> dict[str, str]:
    """Return the enabled settings that change the content of state or the sources.

    Their durations may change between starts.
    """
    stages = lowered.local_stages
    kinds = {
        "early firing or allowed lateness": options.emits_updates and bool(stages),
        FIRING: options.fires_after_delay and bool(stages),
        CLOCK: any(
            needs_processing_time(stage, options)
            and all(source.time_type != "proctime" for source in stage.mode.sources)
            for stage in stages
        )
        or any(windows.may_be_idle(options) for _, windows in lowered.general_windows),
        **{
            f"table.exec.state.ttl of operator {number}": stage.window.state_ttl_us is not None
            for number, stage in enumerate(stages)
        },
    }
    return {name: "on" for name, is_on in kinds.items() if is_on}


def plan_text(plans: Sequence[Plan]) -> str:
    """Return the computation of a stream as text, one operator per line, INSERTs in order."""
    # The identity must not depend on whether sqlwin or Spark reads the files.
    by_spark = [replace(plan, physical=with_rows_by_spark(plan.physical)) for plan in plans]
    texts = [without_options(_PARALLELISM.sub("", physical_text(plan))) for plan in by_spark]
    if len(texts) == 1:
        return texts[0]
    numbered = enumerate(texts, start=1)
    return "\n".join(f"INSERT {i} of {len(texts)}\n{_NUMBER.sub('', t)}" for i, t in numbered)


def described_tables(
    entries: Sequence[TableSpec | Registered],
    resolved: Callable[[str], str],
    windows: Sequence[LoweredWindows],
) -> dict[str, str]:
    """Return the descriptions of a stream's tables, by name.

    Args:
        entries: Tables. Those made by `Session.windows` are in the order of `windows`.
        resolved: Returns the absolute path for a path of a user.
        windows: Windows of `Session.windows`.
    """
    tables: dict[str, str] = {}
    lowered = iter(windows)
    for entry in entries:
        name = base = without_options(".".join(entry_name(entry)))
        number = 2
        while name in tables:  # the same table with other options
            name, number = f"{base} {number}", number + 1
        tables[name] = _describe(entry, resolved)
        if isinstance(entry, Registered) and entry.made_by is not None:
            tables[name] += f"\n{KEPT}{next(lowered).state_dependencies}"
    return tables


def _describe(entry: TableSpec | Registered, resolved: Callable[[str], str]) -> str:
    """Describe a table in lines, omitting everything that may change between starts."""
    if isinstance(entry, Registered):
        lines = [f"{f.name} {f.dataType.simpleString()}" for f in entry.dataframe.schema]
        return "\n".join(lines if entry.made_by is None else [entry.made_by.describe(), *lines])
    lines = [f"connector {entry.connector}"]
    lines += [
        f"column {c.name} {c.type or ''} {c.computed or ''} {c.metadata or ''}".rstrip()
        for c in entry.columns
    ]
    if entry.watermark is not None:
        lines.append(f"WATERMARK FOR {entry.watermark.column} AS {entry.watermark.expression}")
    path = entry.option_map.get("path")
    if path is not None and entry.connector.lower() in _OF_PATHS:
        # After a change of directory, a relative path means another place.
        lines.append(f"{PLACE}{resolved(path)}")
    lines += [f"'{k}' = '{v}'" for k, v in entry.options if not may_differ(k)]
    for part in entry.parts:
        lines += [f"{part.name}: {line}" for line in _describe(part, resolved).splitlines()]
    return "\n".join(lines)
