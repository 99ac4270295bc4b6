"""Identity of a stream across restarts, as its checkpoint records it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from runtime.redaction import Mask
from runtime.refusal import refuse
from runtime.spec.state_schema import OperatorSchema, RowOrigin, normalise_form, normalise_sql
from runtime.streaming.changes import ResumedOperator, may_change, resume_operator

# Watermark with a constant delay, in the description of a table
_CONSTANT_DELAY = re.compile(
    r"(watermark for (`[^`]+`|\S+))(?: as \2)?"
    r"(?: - interval '[\d.]+' (?:week|day|hour|minute|second|millisecond|microsecond))?$"
)
# Start of an option in the description of a table
_OPTION_STARTS = re.compile(r"\n(?='[^'\n]*' = ')")
_OPTION = re.compile(r"'([^'\n]*)' = '(.*)'", re.DOTALL)
# Table options that may change from one start to the next
_FREE_OPTIONS = frozenset(
    "max-files-per-trigger maxfilespertrigger max-bytes-per-trigger maxbytespertrigger "
    "source.monitor-interval rows-per-second rows-per-batch scan.parallelism maxoffsetspertrigger "
    "minpartitions number-of-rows late-rows skip-change-commits "
    "sqlwin.watermark.idle-advance".split()
)
# Prefix of the options of caches, which may change too
_LOOKUP = "lookup."
# Properties of Kafka clients that determine which messages are read
_KAFKA_THAT_COUNT = frozenset(
    "properties.isolation.level kafka.isolation.level properties.auto.offset.reset".split()
)
# Options whose values are case-insensitive
_WORDS = frozenset({"format", "value.format", "key.format"})
# Formats whose column names are case-insensitive
_ANY_CASE = frozenset({"parquet", "orc"})
# Prefix in a table's description: its full location
PLACE = "at "
# Prefix in a table's description: properties that the state of Python windows depends on
KEPT = "keeps "
_PATH = "path"
# Generated names of DataFrames that windows were put on, numbered in order of use
_GIVEN = re.compile(r"(?<![\w`])dataframe_\d+\b", re.IGNORECASE)
_TIME_ZONE = "table.local-time-zone"
# Names of UTC. Which of them a machine uses depends on its setup.
_UTC = frozenset(
    "utc etc/utc uct etc/uct z zulu etc/zulu universal etc/universal +00:00 "
    # Names that Java uses if the machine has no time zone
    "gmt etc/gmt gmt0 etc/gmt0 greenwich etc/greenwich".split()
)
# Setting that is present if windows are emitted more than once
_UPDATES = "early firing or allowed lateness"
# Setting that is present if the query reads the clock, which its sources are numbered with
CLOCK = "idle timeout or firing after a delay"
# Setting that is present if windows are emitted after a delay. Older versions recorded CLOCK alone.
FIRING = "firing after a delay"


@dataclass(frozen=True)
class Identity:
    """Identity of a stream across restarts.

    Attributes:
        plan: Plan, one operator per line.
        tables: Descriptions of the tables that it reads, by name.
        settings: Settings that its state depends on.
        operators: Stored state of its window operators.
        form: Plans as JSON values, one per INSERT; see `planner.streams.plan_form`.
        sources: Names of the streams in the order in which Spark numbers them.
    """

    plan: str
    tables: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    operators: tuple[OperatorSchema, ...] = ()
    form: tuple[Any, ...] = ()
    sources: tuple[str, ...] = ()


def without_secrets(identity: Identity, mask: Mask) -> Identity:
    """Return an identity without secret options, and with secrets in other options masked."""
    tables = {name: _without_secrets(text, mask) for name, text in identity.tables.items()}
    return replace(identity, tables=tables)


def _without_secrets(table: str, mask: Mask) -> str:
    result = []
    # a value may span several lines
    for part in _OPTION_STARTS.split(table):
        option = _OPTION.fullmatch(part)
        if option is None:
            lines = part.split("\n")
            result += [mask.text(line) if line.startswith(PLACE) else line for line in lines]
        elif not mask.is_secret(option[1]):
            result.append(f"'{option[1]}' = '{mask.text(option[2])}'")
    return "\n".join(result)


def difference(old: Identity, new: Identity) -> tuple[ResumedOperator, ...]:
    """Compare identities: return how the operators of a checkpoint resume, by number.

    Args:
        old: Identity in the checkpoint.
        new: Identity of the stream.

    Raises:
        Refused: A change is not allowed.
    """
    old, new = _renumber_dataframes(old), _renumber_dataframes(new)
    for name in sorted({*old.settings, *new.settings}):
        was, is_ = old.settings.get(name), new.settings.get(name)
        if (
            # `runtime.streaming.spark_part.clock` adds the clock, and an unused one stays
            name == CLOCK
            or (name == FIRING and is_ is not None and CLOCK in old.settings)
            or (name == _TIME_ZONE and _are_utc(was, is_))
        ):
            continue
        if was != is_:
            refuse(f"'{name}' has changed from '{was or 'off'}' to '{is_ or 'off'}'")
    before, after = (
        {n.lower(): (n, t) for n, t in identity.tables.items()} for identity in (old, new)
    )
    for name in sorted({*before, *after}):
        # the plan describes a removed or added table better
        if name not in before or name not in after:
            continue
        change = _table_change(before[name][1], after[name][1])
        if change is not None:
            refuse(f"table `{after[name][0]}` has changed: {change}")
    if len(new.form) > 1 or not new.operators or _UPDATES in new.settings:
        # emitted results are stored as well, by the names of their columns
        is_same = normalise_form(old.form) == normalise_form(new.form)
        outcome = _resume_operators(old, new) if is_same else ()
    else:
        is_same = True
        outcome = _resume_operators(old, new)
    if not is_same:
        if old.plan == new.plan:
            refuse("its plan has changed")
        refuse(f"its plan has changed: {_first_change(old.plan, new.plan)}")
    if before.keys() != after.keys():
        refuse(f"it read {', '.join(old.tables)}, but now reads {', '.join(new.tables)}")
    orders = [[name.lower() for name in identity.sources] for identity in (old, new)]
    if orders[0] != orders[1]:
        was, is_ = (", ".join(identity.sources) for identity in (old, new))
        refuse(f"the order of its sources has changed from {was} to {is_}")
    return outcome


def _are_utc(*zones: str | None) -> bool:
    return all(zone is not None and zone.lower() in _UTC for zone in zones)


def _resume_operators(old: Identity, new: Identity) -> tuple[ResumedOperator, ...]:
    if len(old.operators) != len(new.operators):
        refuse(f"it had {_operators(old)}, but now has {_operators(new)}")
    pairs = zip(old.operators, new.operators, strict=True)
    return tuple(resume_operator(number, *pair) for number, pair in enumerate(pairs))


def _operators(identity: Identity) -> str:
    number = len(identity.operators)
    return f"{number} window operator{'s' * (number != 1)}"


def change_hint(old: Identity) -> str:
    """Return a hint on what may change in a stream, and what to do otherwise.

    Args:
        old: Identity in the checkpoint.
    """
    start_over = "start over with another 'execution.checkpointing.dir'"
    is_free = len(old.form) == 1 and _UPDATES not in old.settings
    if not (is_free and old.operators):
        return f"undo the change to resume, or {start_over}"
    return f"{may_change(old.operators)}; undo other changes to resume, or {start_over}"


def _renumber_dataframes(identity: Identity) -> Identity:
    """Renumber generated names of DataFrames from 1."""
    names = [name for name in identity.tables if _GIVEN.fullmatch(name)]
    numbers = {name.lower(): f"dataframe_{n}" for n, name in enumerate(names, start=1)}
    if all(name == number for name, number in numbers.items()):
        return identity

    def rename(value: Any) -> Any:
        if isinstance(value, str):
            return _GIVEN.sub(lambda match: numbers.get(match[0].lower(), match[0]), value)
        if isinstance(value, Mapping):
            return {rename(key): rename(item) for key, item in value.items()}
        return [rename(item) for item in value] if isinstance(value, list | tuple) else value

    def rename_rows(rows: RowOrigin) -> RowOrigin:
        return RowOrigin(rename(rows.base), tuple(rename(rows.where)), rename(rows.first))

    return replace(
        identity,
        plan=rename(identity.plan),
        tables=rename(identity.tables),
        operators=tuple(
            replace(operator, rows=rename_rows(operator.rows)) for operator in identity.operators
        ),
        form=tuple(rename(identity.form)),
        sources=tuple(rename(identity.sources)),
    )


@dataclass(frozen=True)
class _TableIdentity:
    """Parsed description of a table.

    Attributes:
        lines: Lines that are not options: connector, columns, watermark.
        options: Options that matter, by lower-case name.
        place: Full location. None if the table has none.
        window_properties: Properties that the state of Python windows depends on. Empty without
            such windows.
    """

    lines: tuple[str, ...]
    options: Mapping[str, str]
    place: str | None
    window_properties: Mapping[str, Any]


def _table_change(before: str, after: str) -> str | None:
    """Describe a change of a table that is not allowed, or return None."""
    old, new = _table(before), _table(after)
    names = sorted({*old.options, *new.options})
    for name in [name for name in names if old.options.get(name) != new.options.get(name)]:
        was, is_ = (table.options.get(name) for table in (old, new))
        if name == _PATH and old.place is not None and old.place == new.place:
            continue
        texts = [None if value is None else f"'{name}' = '{value}'" for value in (was, is_)]
        return _change(*texts)
    if old.place != new.place:
        return _change(f"'{_PATH}' in {old.place}", f"'{_PATH}' in {new.place}")
    old_properties, new_properties = (
        normalise_form(old.window_properties),
        normalise_form(new.window_properties),
    )
    for name in sorted({*old_properties, *new_properties}):
        if old_properties.get(name) != new_properties.get(name):
            texts = [
                _short(json.dumps(properties.get(name)))
                for properties in (old_properties, new_properties)
            ]
            return f"its {name} changed from `{texts[0]}` to `{texts[1]}`"
    spelled = [_normalized_lines(table) for table in (old, new)]
    if spelled[0] == spelled[1]:
        return None
    if sorted(spelled[0]) == sorted(spelled[1]):
        return "the order of its columns"
    removed_options = [
        line
        for line, spelling in zip(old.lines, spelled[0], strict=True)
        if spelling not in spelled[1]
    ]
    come = [
        line
        for line, spelling in zip(new.lines, spelled[1], strict=True)
        if spelling not in spelled[0]
    ]
    return _change(next(iter(removed_options), None), next(iter(come), None))


def _table(text: str) -> _TableIdentity:
    lines: list[str] = []
    options: dict[str, str] = {}
    place: str | None = None
    properties: Mapping[str, Any] = {}
    # a value may span several lines
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
        properties = json.loads(lines.pop().removeprefix(KEPT))
    return _TableIdentity(tuple(lines), options, place, properties)


def _normalized_lines(table: _TableIdentity) -> list[str]:
    """Return the lines in a normalised spelling."""
    any_case = table.options.get("format") in _ANY_CASE
    spelled_lines = []
    for line in table.lines:
        word, _, rest = line.partition(" ")
        name, _, definition = rest.partition(" ")
        if word == "WATERMARK":
            # a constant delay may change
            spelled_lines.append(_CONSTANT_DELAY.sub(r"\1", normalise_sql(line)))
        elif word == "connector" or any_case:
            spelled_lines.append(normalise_sql(line))
        else:
            spelled_lines.append(f"{word} {name} {normalise_sql(definition)}")
    return spelled_lines


def may_differ(option: str) -> bool:
    """Return whether an option of a table that a stream reads does not affect its rows."""
    name = option.lower()
    return name in _FREE_OPTIONS or (
        name.startswith((_LOOKUP, "properties.", "kafka.")) and name not in _KAFKA_THAT_COUNT
    )


def _first_change(before: str, after: str) -> str:
    old, new = [[line.strip(" +-:|,") for line in text.splitlines()] for text in (before, after)]
    removed = next((line for line in old if line not in new), None)
    come = next((line for line in new if line not in old), None)
    if removed is None and come is None:
        return "the order of its parts"
    return _change(removed, come)


def _change(removed: str | None, added: str | None) -> str:
    if removed is None or added is None:
        what, line = ("left out", removed) if added is None else ("added", added)
        return f"{what} `{_short(line or '')}`"
    return f"`{_short(removed)}` changed to `{_short(added)}`"


def _short(line: str, most: int = 160) -> str:
    return line if len(line) <= most else line[: most - 1] + "…"
