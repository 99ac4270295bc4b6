"""State schema of a streaming window operator, as the checkpoint records it.

It describes the state: keys and accumulators with their column
names, the slices, and the rows that they aggregate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runtime.windows import AlignedWindow, Window
from runtime.windows.tumble import Tumble

# As these characters occur in the names of tables and of their views
_OPTIONS = re.compile(
    r" /\*\+ (?:OPTIONS\(.*?\)|CHANGES) \*/|__options_[0-9a-f]{12}", re.DOTALL | re.IGNORECASE
)

# A SQL literal. Literals are compared exactly, the rest of a text in any spelling.
_LITERAL = re.compile(r"('(?:[^'\\]|\\.|'')*')", re.DOTALL)
_SPELLINGS = (
    (re.compile(r"`([a-z_][a-z0-9_]*)`"), r"\1"),
    # the default catalog and database
    (re.compile(r"(?<![\w.])(?:default_catalog\.)?default_database\.(?=\w)"), ""),
    # an alias equal to its name
    (re.compile(r"(?<![\w.`$])(\w+) as \1(?![\w`$.])"), r"\1"),
    # an interval unit after its literal: singular and plural are equivalent
    (
        re.compile(r"^ (microsecond|millisecond|second|minute|hour|day|week|month|year)s\b"),
        r" \1",
    ),
)

# JSON fields that hold names of state columns
_NAMES = frozenset({"name", "columns", "slice_end"})

# JSON fields of an operator and its accumulators that are compared separately, or not at all
_UNSAID = frozenset({"name", "type", "types"})

# JSON fields for the parallelism of an exchange, which does not affect the result
PARALLELISM = frozenset({"partitions", "buckets"})


@dataclass(frozen=True)
class StateKey:
    """Key column of the state.

    Attributes:
        name: Column name.
        expr: Spark SQL expression over the rows.
        type: Spark type.
    """

    name: str
    expr: str
    type: str


@dataclass(frozen=True)
class StateAccumulator:
    """Accumulator in the state.

    Attributes:
        columns: Column names.
        kind: Kind, which determines how it merges, see `Accumulator.kind`.
        args: Arguments, as Spark SQL over the rows.
        condition: FILTER condition, or None.
        name: Aggregate in SQL, for users who inspect the state.
        source: Column from which it is computed, as a DOUBLE, in state that does not have it yet.
            None if all state has it.
        type: Spark type of the value, or description of a custom state; empty if not recorded.
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
        """Kind, arguments and filter, independent of column names and of the SQL's spelling."""
        condition = None if self.condition is None else normalise_sql(self.condition)
        return self.kind, tuple(map(normalise_sql, self.args)), condition

    @property
    def fields(self) -> tuple[str, ...]:
        """Suffixes of its columns, where there are several."""
        if len(self.columns) == 1:
            return ("",)
        if self.kind in ("first", "last"):
            return ("order", "value")
        return tuple(column.rpartition("$")[2] for column in self.columns)


@dataclass(frozen=True)
class StateReader:
    """One of several window aggregations that share a state.

    Attributes:
        name: Table that receives its windows.
        window: Window.
        slices: The widest slices of one width that divide its own.
    """

    name: str
    window: AlignedWindow
    slices: Tumble


@dataclass(frozen=True)
class RowOrigin:
    """Origin of an operator's rows.

    Attributes:
        base: Source of the rows, as a JSON value; see `planner.streams.plan_form`.
        where: Conditions that all rows meet, sorted.
        first: Ranks that rows have in their slice, as a JSON value. None if all rows are included.
    """

    base: Any = None
    where: tuple[str, ...] = ()
    first: Any = None

    @property
    def normalized(self) -> tuple[Any, list[str], Any]:
        """Origin in the spelling in which it is compared."""
        return (
            normalise_form(self.base),
            sorted(map(normalise_sql, self.where)),
            normalise_form(self.first),
        )


@dataclass(frozen=True)
class OperatorSchema:
    """State schema of a window operator.

    Attributes:
        window: Window; with several readers, the slices.
        time: Name and type of the time column.
        slice_end: Slice end column.
        keys: Key columns.
        accumulators: Accumulators.
        readers: Window aggregations that share the state, if there are several.
        rows: Origin of the rows.
        generation: Number of changes of windows or accumulators since the stream began.
        types: Spark types of the input columns; empty if not recorded.
    """

    window: Window
    time: tuple[str, str]
    slice_end: str
    keys: tuple[StateKey, ...]
    accumulators: tuple[StateAccumulator, ...]
    readers: tuple[StateReader, ...] = ()
    rows: RowOrigin = RowOrigin()
    generation: int = 0
    types: Mapping[str, str] = field(default_factory=dict)


def without_options(text: str) -> str:
    """Remove the table options of a statement from a text or table name.

    Options that change the rows are recorded for the tables themselves.
    """
    return _OPTIONS.sub("", text)


def normalise_sql(text: str) -> str:
    """Normalise SQL for comparison: the case of names, backticks, default qualifiers.

    Comments are removed, literals are unchanged. Whitespace is not normalised because the text is
    generated.
    """
    parts = _LITERAL.split(text)
    if any("/*" in part for part in parts[::2]):
        # a quote in a comment does not begin a literal
        parts = _LITERAL.split(_without_comments(text))
    for number in range(0, len(parts), 2):
        part = parts[number].lower()
        for pattern, other in _SPELLINGS:
            part = pattern.sub(other, part)
        parts[number] = part
    return "".join(parts).strip()


def _without_comments(text: str) -> str:
    """Remove comments, including hints, from SQL."""
    parts, place = [], 0
    while (start := text.find("/*", place)) >= 0:
        literal = _LITERAL.search(text, place)
        if literal is not None and literal.start() < start:
            parts.append(text[place : literal.end()])
            place = literal.end()
            continue
        parts.append(text[place:start].rstrip())
        end = text.find("*/", start + 2)
        place = len(text) if end < 0 else end + 2
    return "".join([*parts, text[place:]])


def _numbered(form: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a query whose relations have numbers that depend on nothing outside it."""
    sql, relations = form["sql"], {}
    for number, name in enumerate(sorted(form["relations"], key=form["sql"].find)):
        sql = sql.replace(name, f"__input_{number}__")
        relations[f"__input_{number}__"] = form["relations"][name]
    return {**form, "sql": sql, "relations": relations}


def normalise_form(form: Any) -> Any:
    """Normalise the SQL texts in a JSON form.

    Column names are unchanged. Names and types that are compared separately, or are only shown, are
    removed. Relations are numbered in the order in which their query reads them.
    """
    if isinstance(form, list | tuple):
        return [normalise_form(part) for part in form]
    if not isinstance(form, Mapping):
        return normalise_sql(form) if isinstance(form, str) else form
    if "relations" in form:
        form = _numbered(form)
    left_out = _UNSAID if "kind" in form or "generation" in form else frozenset[str]()
    if form.get("node") == "WindowRows":
        left_out = frozenset({"copies"})  # in older records
    folded_fields = {
        name: value if name in _NAMES else normalise_form(value)
        for name, value in form.items()
        if name not in left_out
    }
    if isinstance(conditions := folded_fields.get("where"), list):
        folded_fields["where"] = sorted(conditions)
    return folded_fields
