"""What a stream computes, as its checkpoint says it, and whether another one is the same."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from runtime.redaction import Mask
from runtime.spec.identity import KeptOperator
from runtime.streaming.changes import Resumed, may_change, resumed

# Of what a table is
_OPTION_STARTS = re.compile(r"\n(?='[^'\n]*' = ')")
_OPTION = re.compile(r"'([^'\n]*)' = '(.*)'", re.DOTALL)
# Options of tables that may change from one start to the next
_FREE_OPTIONS = frozenset(
    "max-files-per-trigger maxfilespertrigger max-bytes-per-trigger maxbytespertrigger "
    "source.monitor-interval rows-per-second rows-per-batch scan.parallelism maxoffsetspertrigger "
    "minpartitions number-of-rows late-rows kafka.client skip-change-commits".split()
)
# Of the properties of Kafka's clients those by which other messages are read
_KAFKA_THAT_COUNT = frozenset(
    "properties.isolation.level kafka.isolation.level properties.auto.offset.reset".split()
)
_TIME_ZONE = "table.local-time-zone"
# Names of one zone; which of them a machine has is how it was set up
_UTC = frozenset("utc etc/utc uct etc/uct z zulu etc/zulu universal etc/universal +00:00".split())
# The setting that is on where windows are emitted more than once
_UPDATES = "early firing or allowed lateness"


@dataclass(frozen=True)
class Identity:
    """What makes a stream the same after a restart.

    Attributes:
        plan: what is computed, one operator a line.
        tables: what the tables that it reads are, by name.
        settings: settings that its state depends on.
        operators: what its window operators keep; none where an older sqlwin did not say.
        form: what is computed, as JSON has it, see `planner.streams.identity`; of several INSERTs
            one each; None: an older sqlwin wrote its text alone.
    """

    plan: str
    tables: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    operators: tuple[KeptOperator, ...] = ()
    form: tuple[Any, ...] | None = None


def without_secrets(identity: Identity, mask: Mask) -> Identity:
    """An identity without the options that look secret, and with none in the others."""
    tables = {name: _without_secrets(text, mask) for name, text in identity.tables.items()}
    return replace(identity, tables=tables)


def _without_secrets(table: str, mask: Mask) -> str:
    kept = []
    # a value may have several lines
    for part in _OPTION_STARTS.split(table):
        option = _OPTION.fullmatch(part)
        if option is None:
            kept.append(part)
        elif not mask.is_secret(option[1]):
            kept.append(f"'{option[1]}' = '{mask.text(option[2])}'")
    return "\n".join(kept)


def difference(old: Identity, new: Identity) -> str | tuple[Resumed, ...]:
    """What is in the way of going on with a checkpoint, or how the operators go on.

    Args:
        old: what the checkpoint says.
        new: what the stream computes.

    Returns:
        What has changed that may not, in a few words; or the operators by number, none where the
        checkpoint does not say what they keep, and nothing has changed.
    """
    for name in sorted({*old.settings, *new.settings}):
        was, is_ = old.settings.get(name), new.settings.get(name)
        if was != is_ and not (name == _TIME_ZONE and _are_utc(was, is_)):
            return f"'{name}' was '{was or 'off'}' and is '{is_ or 'off'}'"
    before, after = ({n: _that_count(t) for n, t in each.tables.items()} for each in (old, new))
    for name in sorted({*before, *after}):
        # of a table that is gone or new the plan says it better
        if name in before and name in after and before[name] != after[name]:
            return f"table `{name}` has changed: {_first_change(before[name], after[name])}"
    found: str | tuple[Resumed, ...] = ()
    if old.form is None or new.form is None:
        is_same = old.plan == new.plan
    elif len(new.form) > 1 or not new.operators or _UPDATES in new.settings:
        # results that were emitted are kept too, by the names of their columns
        is_same = old.form == new.form
        found = _resumed(old, new) if is_same else ()
    else:
        is_same = True
        found = _resumed(old, new)
    if isinstance(found, str):
        return found
    if not is_same:
        if old.plan == new.plan:
            return "its plan has changed"
        return f"its plan has changed: {_first_change(old.plan, new.plan)}"
    if before != after:
        return f"it read {', '.join(before)}, now {', '.join(after)}"
    return found


def _are_utc(*zones: str | None) -> bool:
    return all(zone is not None and zone.lower() in _UTC for zone in zones)


def _resumed(old: Identity, new: Identity) -> str | tuple[Resumed, ...]:
    if len(old.operators) != len(new.operators):
        return f"it had {_operators(old)}, now {_operators(new)}"
    found = []
    for number, pair in enumerate(zip(old.operators, new.operators, strict=True)):
        each = resumed(number, *pair)
        if isinstance(each, str):
            return each
        found.append(each)
    return tuple(found)


def _operators(identity: Identity) -> str:
    number = len(identity.operators)
    return f"{number} window operator{'s' * (number != 1)}"


def resume_hint(old: Identity) -> str:
    """What may change of a stream, and what to do about what may not.

    Args:
        old: what its checkpoint says.
    """
    anew = "start anew in another 'execution.checkpointing.dir'"
    is_free = old.form is not None and len(old.form) == 1 and _UPDATES not in old.settings
    if not (is_free and old.operators):
        return f"undo it to resume, or {anew}"
    return f"{may_change(old.operators)}; undo the rest to resume, or {anew}"


def _that_count(table: str) -> str:
    """What a table is, without the options that may change from one start to the next."""
    kept = []
    for part in _OPTION_STARTS.split(table):
        option = _OPTION.fullmatch(part)
        if option is None or not may_differ(option[1]):
            kept.append(part)
    return "\n".join(kept)


def may_differ(option: str) -> bool:
    """Whether an option of a table that a stream reads changes no row of it."""
    name = option.lower()
    return name in _FREE_OPTIONS or (
        name.startswith(("properties.", "kafka.")) and name not in _KAFKA_THAT_COUNT
    )


def _first_change(before: str, after: str) -> str:
    old, new = [[line.strip(" +-:|,") for line in text.splitlines()] for text in (before, after)]
    gone = next((line for line in old if line not in new), None)
    come = next((line for line in new if line not in old), None)
    if gone is None or come is None:
        what, line = ("left out", gone) if come is None else ("added", come)
        return f"{what} `{_short(line or '')}`"
    return f"`{_short(gone)}` has become `{_short(come)}`"


def _short(line: str, most: int = 160) -> str:
    return line if len(line) <= most else line[: most - 1] + "…"
