"""What a window operator of a stream keeps, in words that outlive a release.

Written into the checkpoint as JSON. It says what is in the state: which keys and accumulators under
which names of columns, on which slices, and of which rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from runtime.spec.aggregates import (
    Accumulator,
    CollectRegisters,
    CollectRows,
    CollectSet,
    Merge,
    MergeMoments,
    Pick,
    Summaries,
    UserDefined,
)
from runtime.spec.windows import (
    CalendarCumulate,
    CalendarHop,
    CalendarTumble,
    Cumulate,
    Hop,
    SessionWindow,
    Tumble,
    Window,
    window_kind,
)

_WINDOWS = {
    ("TUMBLE", False): Tumble,
    ("HOP", False): Hop,
    ("CUMULATE", False): Cumulate,
    ("SESSION", False): SessionWindow,
    ("TUMBLE", True): CalendarTumble,
    ("HOP", True): CalendarHop,
    ("CUMULATE", True): CalendarCumulate,
}

# As they stand in the names of tables and of their views
_OPTIONS = re.compile(
    r" /\*\+ OPTIONS\(.*?\) \*/|__options_[0-9a-f]{12}", re.DOTALL | re.IGNORECASE
)

# A literal of SQL, which stays as it is where the rest of a text is compared in any spelling
_LITERAL = re.compile(r"('(?:[^'\\]|\\.|'')*')", re.DOTALL)
_SPELLINGS = (
    (re.compile(r"`([a-z_][a-z0-9_]*)`"), r"\1"),
    # the catalog and database that names are in where nothing else is said
    (re.compile(r"(?<![\w.])(?:default_catalog\.)?default_database\.(?=\w)"), ""),
    # a name that says itself again
    (re.compile(r"(?<![\w.`$])(\w+) as \1(?![\w`$.])"), r"\1"),
    # the unit of an interval, behind its literal, is said in both numbers
    (
        re.compile(r"^ (microsecond|millisecond|second|minute|hour|day|week|month|year)s\b"),
        r" \1",
    ),
)

# What columns of state are called, in what JSON has of an operator
_NAMES = frozenset({"name", "columns", "slice_end"})

# Of an operator and its accumulators what is compared apart, or not at all
_UNSAID = frozenset({"name", "type", "types"})

# How many tasks and buckets work on the rows of an exchange, which is no part of what is computed
PARALLELISM = frozenset({"partitions", "buckets"})


@dataclass(frozen=True)
class KeptKey:
    """A key column of the state.

    Attributes:
        name: the column.
        expr: what it is made of, as Spark SQL over the rows.
        type: Spark's type.
    """

    name: str
    expr: str
    type: str


@dataclass(frozen=True)
class KeptAccumulator:
    """An accumulator in the state.

    Attributes:
        columns: its columns.
        kind: what it is and how it merges, see `accumulator_kind`.
        args: what it aggregates, as Spark SQL over the rows.
        condition: the FILTER of it; None: there is none.
        name: the aggregate in SQL, for whoever looks at the state.
        source: the column that its own is computed from where state has none yet, as a DOUBLE;
            None: all state has its own.
        type: Spark's type of what it holds, or what a state of its own is; empty: not said.
    """

    columns: tuple[str, ...]
    kind: str
    args: tuple[str, ...]
    condition: str | None
    name: str
    source: str | None = None
    type: str = ""

    @property
    def meaning(self) -> tuple[str, tuple[str, ...], str | None]:
        """What it holds, whatever its columns are called and however SQL spells it."""
        condition = None if self.condition is None else folded(self.condition)
        return self.kind, tuple(map(folded, self.args)), condition

    @property
    def fields(self) -> tuple[str, ...]:
        """What its columns are called among themselves, where there are several."""
        if len(self.columns) == 1:
            return ("",)
        if self.kind in ("first", "last"):
            return ("order", "value")
        return tuple(column.rpartition("$")[2] for column in self.columns)


@dataclass(frozen=True)
class KeptReader:
    """One of several window aggregations that read one state.

    Attributes:
        name: the table that its windows go to.
        window: the window, as `window_fields` has it.
        slices: the widest slices of one width that its own are made of, likewise.
    """

    name: str
    window: Mapping[str, Any]
    slices: Mapping[str, Any]


@dataclass(frozen=True)
class KeptOperator:
    """What a window operator keeps.

    Attributes:
        window: the window, as `window_fields` has it; of several readers the slices.
        time: name and type of the column that windows are on.
        slice_end: the column with the end of a slice.
        keys: the key columns.
        accumulators: the accumulators.
        readers: the window aggregations that read it, where there are several.
        rows: what its rows are: of which tables, under which conditions.
        generation: how often windows or accumulators have changed since the stream began.
        types: Spark's types of the columns that come in; empty: not said.
    """

    window: Mapping[str, Any]
    time: tuple[str, str]
    slice_end: str
    keys: tuple[KeptKey, ...]
    accumulators: tuple[KeptAccumulator, ...]
    readers: tuple[KeptReader, ...] = ()
    rows: Mapping[str, Any] = field(default_factory=dict)
    generation: int = 0
    types: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The same, as JSON has it."""
        return asdict(self)


def operator_of(fields: Mapping[str, Any]) -> KeptOperator:
    """What `KeptOperator.as_json` wrote.

    Raises:
        KeyError, TypeError, ValueError: it is something else.
    """
    name, type_ = fields["time"]
    return KeptOperator(
        dict(fields["window"]),
        (name, type_),
        fields["slice_end"],
        tuple(KeptKey(**key) for key in fields["keys"]),
        tuple(
            KeptAccumulator(
                **{**each, "columns": tuple(each["columns"]), "args": tuple(each["args"])}
            )
            for each in fields["accumulators"]
        ),
        tuple(
            KeptReader(each["name"], dict(each["window"]), dict(each["slices"]))
            for each in fields["readers"]
        ),
        dict(fields["rows"]),
        fields["generation"],
        dict(fields["types"]),
    )


def window_fields(window: Window) -> dict[str, Any]:
    """A window as JSON has it: its function, and its lengths by their names."""
    return {"function": window_kind(window), **asdict(window)}


def window_of_fields(fields: Mapping[str, Any]) -> Window:
    """The window that `window_fields` has written.

    Raises:
        KeyError, TypeError: it is something else.
    """
    lengths = {name: _hashable(value) for name, value in fields.items() if name != "function"}
    window: Window = _WINDOWS[fields["function"], "size_months" in lengths](**lengths)
    return window


def accumulator_kind(accumulator: Accumulator) -> str:
    """What an accumulator in state is, and how it merges: `sum`, `set`, `registers 9`."""
    match accumulator:
        case Merge():
            return accumulator.op.value
        case MergeMoments():
            return "moments"
        case Pick():
            return "last" if accumulator.is_last else "first"
        case CollectSet():
            return "set"
        case CollectRegisters():
            return f"registers {accumulator.precision}"
        case CollectRows():
            return "texts by time"
        case Summaries():
            return f"summaries {accumulator.accuracy}"
        case UserDefined():
            return "user-defined"
    raise AssertionError(f"no state is of {type(accumulator).__name__}")


def _hashable(value: Any) -> Any:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return tuple(value) if is_list else value


def without_options(text: str) -> str:
    """A text, or the name of a table, without the options that a statement gives to tables.

    Those that make other rows are said of the tables themselves.
    """
    return _OPTIONS.sub("", text)


def folded(text: str) -> str:
    """A text of SQL in one of its spellings: names in any case, in backticks or not.

    Comments are left out, literals stay. Layout is none of its matters, for such texts are written
    from trees.
    """
    parts = _LITERAL.split(text)
    if any("/*" in part for part in parts[::2]):
        # a quote in a comment begins no literal
        parts = _LITERAL.split(_without_comments(text))
    for number in range(0, len(parts), 2):
        part = parts[number].lower()
        for pattern, other in _SPELLINGS:
            part = pattern.sub(other, part)
        parts[number] = part
    return "".join(parts).strip()


def _without_comments(text: str) -> str:
    """A text of SQL without comments, such as hints are."""
    found, place = [], 0
    while (start := text.find("/*", place)) >= 0:
        literal = _LITERAL.search(text, place)
        if literal is not None and literal.start() < start:
            found.append(text[place : literal.end()])
            place = literal.end()
            continue
        found.append(text[place:start].rstrip())
        end = text.find("*/", start + 2)
        place = len(text) if end < 0 else end + 2
    return "".join([*found, text[place:]])


def folded_form(form: Any) -> Any:
    """What is computed, as JSON has it, with its texts in one of their spellings.

    The names of columns stay. Names and types that are compared apart, or are only shown, go.
    """
    if isinstance(form, list | tuple):
        return [folded_form(each) for each in form]
    if not isinstance(form, Mapping):
        return folded(form) if isinstance(form, str) else form
    left_out = _UNSAID if "kind" in form or "generation" in form else frozenset[str]()
    found = {
        name: value if name in _NAMES else folded_form(value)
        for name, value in form.items()
        if name not in left_out
    }
    if isinstance(conditions := found.get("where"), list):
        found["where"] = sorted(conditions)
    return found
