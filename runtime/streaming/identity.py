"""What a stream computes, as its checkpoint says it, and whether another one is the same."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from runtime.redaction import Mask
from runtime.spec.kept_state import KeptOperator, folded, folded_form
from runtime.streaming.changes import Resumed, may_change, resumed

# Of what a table is
_OPTION_STARTS = re.compile(r"\n(?='[^'\n]*' = ')")
_OPTION = re.compile(r"'([^'\n]*)' = '(.*)'", re.DOTALL)
# Options of tables that may change from one start to the next
_FREE_OPTIONS = frozenset(
    "max-files-per-trigger maxfilespertrigger max-bytes-per-trigger maxbytespertrigger "
    "source.monitor-interval rows-per-second rows-per-batch scan.parallelism maxoffsetspertrigger "
    "minpartitions number-of-rows late-rows skip-change-commits".split()
)
# Of the properties of Kafka's clients those by which other messages are read
_KAFKA_THAT_COUNT = frozenset(
    "properties.isolation.level kafka.isolation.level properties.auto.offset.reset".split()
)
# Options whose values count in any case
_WORDS = frozenset({"format", "value.format", "key.format"})
# Files of which a column is found whatever the case of its name
_ANY_CASE = frozenset({"parquet", "orc"})
# Of what a table is: where it is, in full
PLACE = "at "
# and of windows of Python functions what their state depends on
KEPT = "keeps "
_PATH = "path"
# The names of DataFrames that windows were put on without one, by the order in which they came
_GIVEN = re.compile(r"(?<![\w`])dataframe_\d+\b", re.IGNORECASE)
_TIME_ZONE = "table.local-time-zone"
# Names of one zone; which of them a machine has is how it was set up
_UTC = frozenset(
    "utc etc/utc uct etc/uct z zulu etc/zulu universal etc/universal +00:00 "
    # Java's where a machine says nothing
    "gmt etc/gmt gmt0 etc/gmt0 greenwich etc/greenwich".split()
)
# The setting that is on where windows are emitted more than once
_UPDATES = "early firing or allowed lateness"


@dataclass(frozen=True)
class Identity:
    """What makes a stream the same after a restart.

    Attributes:
        plan: what is computed, one operator a line.
        tables: what the tables that it reads are, by name.
        settings: settings that its state depends on.
        operators: what its window operators keep.
        form: what is computed, as JSON has it, see `planner.streams.plan_form`; one for each of
            several INSERTs.
        sources: the names of the streams in the order in which Spark numbers them.
    """

    plan: str
    tables: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    operators: tuple[KeptOperator, ...] = ()
    form: tuple[Any, ...] = ()
    sources: tuple[str, ...] = ()


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
            lines = part.split("\n")
            kept += [mask.text(line) if line.startswith(PLACE) else line for line in lines]
        elif not mask.is_secret(option[1]):
            kept.append(f"'{option[1]}' = '{mask.text(option[2])}'")
    return "\n".join(kept)


def difference(old: Identity, new: Identity) -> str | tuple[Resumed, ...]:
    """What is in the way of going on with a checkpoint, or how the operators go on.

    Args:
        old: what the checkpoint says.
        new: what the stream computes.

    Returns:
        What has changed that may not, in a few words; or the operators by number.
    """
    old, new = _in_order(old), _in_order(new)
    for name in sorted({*old.settings, *new.settings}):
        was, is_ = old.settings.get(name), new.settings.get(name)
        if was != is_ and not (name == _TIME_ZONE and _are_utc(was, is_)):
            return f"'{name}' was '{was or 'off'}' and is '{is_ or 'off'}'"
    before, after = ({n.lower(): (n, t) for n, t in each.tables.items()} for each in (old, new))
    for name in sorted({*before, *after}):
        # of a table that is gone or new the plan says it better
        if name not in before or name not in after:
            continue
        change = _changed_table(before[name][1], after[name][1])
        if change is not None:
            return f"table `{after[name][0]}` has changed: {change}"
    found: str | tuple[Resumed, ...] = ()
    if len(new.form) > 1 or not new.operators or _UPDATES in new.settings:
        # results that were emitted are kept too, by the names of their columns
        is_same = folded_form(old.form) == folded_form(new.form)
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
    if before.keys() != after.keys():
        return f"it read {', '.join(old.tables)}, now {', '.join(new.tables)}"
    orders = [[name.lower() for name in each.sources] for each in (old, new)]
    if orders[0] != orders[1]:
        was, is_ = (", ".join(each.sources) for each in (old, new))
        return f"its sources were in the order {was}, now {is_}"
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


def change_hint(old: Identity) -> str:
    """What may change of a stream, and what to do about what may not.

    Args:
        old: what its checkpoint says.
    """
    anew = "start anew in another 'execution.checkpointing.dir'"
    is_free = len(old.form) == 1 and _UPDATES not in old.settings
    if not (is_free and old.operators):
        return f"undo it to resume, or {anew}"
    return f"{may_change(old.operators)}; undo the rest to resume, or {anew}"


def _in_order(identity: Identity) -> Identity:
    """An identity in which DataFrames without a name of their own have numbers from 1 on."""
    names = [name for name in identity.tables if _GIVEN.fullmatch(name)]
    numbers = {name.lower(): f"dataframe_{n}" for n, name in enumerate(names, start=1)}
    if all(name == number for name, number in numbers.items()):
        return identity

    def renamed(value: Any) -> Any:
        if isinstance(value, str):
            return _GIVEN.sub(lambda found: numbers.get(found[0].lower(), found[0]), value)
        if isinstance(value, Mapping):
            return {renamed(key): renamed(each) for key, each in value.items()}
        return [renamed(each) for each in value] if isinstance(value, list | tuple) else value

    return replace(
        identity,
        plan=renamed(identity.plan),
        tables=renamed(identity.tables),
        operators=tuple(replace(each, rows=renamed(each.rows)) for each in identity.operators),
        form=tuple(renamed(identity.form)),
        sources=tuple(renamed(identity.sources)),
    )


@dataclass(frozen=True)
class _TableIdentity:
    """What a table is, of what its description says.

    Attributes:
        lines: what is no option: connector, columns, watermark.
        options: the options that count, by their names in lower case.
        place: where it is in full; None: it is in no place.
        kept: what the state of windows of Python functions depends on; empty: it has none.
    """

    lines: tuple[str, ...]
    options: Mapping[str, str]
    place: str | None
    kept: Mapping[str, Any]


def _changed_table(before: str, after: str) -> str | None:
    """What has changed of a table that may not, in a few words."""
    old, new = _table(before), _table(after)
    names = sorted({*old.options, *new.options})
    for name in [name for name in names if old.options.get(name) != new.options.get(name)]:
        was, is_ = (each.options.get(name) for each in (old, new))
        if name == _PATH and old.place is not None and old.place == new.place:
            continue
        texts = [None if value is None else f"'{name}' = '{value}'" for value in (was, is_)]
        return _change(*texts)
    if old.place != new.place:
        return _change(f"'{_PATH}' in {old.place}", f"'{_PATH}' in {new.place}")
    was_kept, is_kept = folded_form(old.kept), folded_form(new.kept)
    for name in sorted({*was_kept, *is_kept}):
        if was_kept.get(name) != is_kept.get(name):
            texts = [_short(json.dumps(each.get(name))) for each in (was_kept, is_kept)]
            return f"its {name}: `{texts[0]}` has become `{texts[1]}`"
    spelled = [_spelled(each) for each in (old, new)]
    if spelled[0] == spelled[1]:
        return None
    if sorted(spelled[0]) == sorted(spelled[1]):
        return "its columns are in another order"
    gone = [
        line for line, each in zip(old.lines, spelled[0], strict=True) if each not in spelled[1]
    ]
    come = [
        line for line, each in zip(new.lines, spelled[1], strict=True) if each not in spelled[0]
    ]
    return _change(next(iter(gone), None), next(iter(come), None))


def _table(text: str) -> _TableIdentity:
    lines: list[str] = []
    options: dict[str, str] = {}
    place: str | None = None
    kept: Mapping[str, Any] = {}
    # a value may have several lines
    for part in _OPTION_STARTS.split(text):
        option = _OPTION.fullmatch(part)
        if option is None:
            lines += part.split("\n")
        elif not may_differ(option[1]):
            name = option[1].lower()
            options[name] = option[2].lower() if name in _WORDS else option[2]
    if lines and lines[-1].startswith(PLACE):
        place = lines.pop().removeprefix(PLACE)
    if lines and lines[-1].startswith(KEPT):
        kept = json.loads(lines.pop().removeprefix(KEPT))
    return _TableIdentity(tuple(lines), options, place, kept)


def _spelled(table: _TableIdentity) -> list[str]:
    """What is no option, in one of its spellings."""
    any_case = table.options.get("format") in _ANY_CASE
    found = []
    for line in table.lines:
        word, _, rest = line.partition(" ")
        name, _, said = rest.partition(" ")
        if word == "connector" or word == "WATERMARK" or any_case:
            found.append(folded(line))
        else:
            found.append(f"{word} {name} {folded(said)}")
    return found


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
    if gone is None and come is None:
        return "its parts are in another order"
    return _change(gone, come)


def _change(gone: str | None, come: str | None) -> str:
    if gone is None or come is None:
        what, line = ("left out", gone) if come is None else ("added", come)
        return f"{what} `{_short(line or '')}`"
    return f"`{_short(gone)}` has become `{_short(come)}`"


def _short(line: str, most: int = 160) -> str:
    return line if len(line) <= most else line[: most - 1] + "…"
