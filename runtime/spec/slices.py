"""Slices kept as a table: what a materialized table holds, and what a query reads of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from runtime.spec.aggregates import (
    Accumulator,
    CollectRegisters,
    CollectRows,
    CollectSet,
    Merge,
    MergeMoments,
    MergeOp,
    Pick,
)
from runtime.spec.scan import ScanFile, ScanSource
from runtime.spec.windows import CalendarTumble, Tumble

# The column with the end of a row's slice, as the local stage has it: BIGINT microseconds on the
# wall clock of the windows
SLICE_END = "slice_end"

# Behind the name of a materialized table: the rows that were inserted, of which it keeps slices
_INSERTED = "__inserted_rows"

# Slices are the windows of a TUMBLE
SliceGrid = Tumble | CalendarTumble

_GRIDS: dict[str, type[SliceGrid]] = {"fixed": Tumble, "calendar": CalendarTumble}
# Accumulators whose partials can be kept
KEPT_ACCUMULATORS = (Merge, MergeMoments, Pick, CollectSet, CollectRegisters, CollectRows)


@dataclass(frozen=True)
class SliceKey:
    """A key of kept slices.

    Attributes:
        name: its column in the table of slices.
        text: what it is, over the base table's columns; see `LocalForm`.
        type: Spark's type, in DDL spelling.
    """

    name: str
    text: str
    type: str


@dataclass(frozen=True)
class SlicePartial:
    """The partial columns of an accumulator in kept slices.

    Attributes:
        text: what is aggregated, over the base table's columns.
        into: how they merge; its columns are those of the table of slices.
        types: Spark's types of the columns, in DDL spelling.
    """

    text: str
    into: Accumulator
    types: tuple[str, ...]


@dataclass(frozen=True)
class LocalForm:
    """What the slices of a materialized table are: rows of which table, aggregated how.

    Texts are Spark SQL over the base table's columns, written in one way: views and projections are
    folded in, names are in lower case, casts are explicit. Equal texts mean the same.

    Attributes:
        base: the base table's name.
        time: the text of the time column.
        time_type: `timestamp_ntz` or `timestamp`.
        time_zone: the session time zone that the texts or slices depend on; empty: on none.
        grid: the slices.
        keys: the keys.
        partials: the partial columns.
        conditions: the texts of conditions that all rows meet, sorted.
    """

    base: str
    time: str
    time_type: str
    time_zone: str
    grid: SliceGrid
    keys: tuple[SliceKey, ...]
    partials: tuple[SlicePartial, ...]
    conditions: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table of slices, in order."""
        kept = (name for partial in self.partials for name in partial.into.columns)
        return (*(key.name for key in self.keys), SLICE_END, *kept)


@dataclass(frozen=True)
class Tier:
    """Old slices that were merged to wide ones.

    Attributes:
        width_us: how wide they are, microseconds.
        until_us: the end of the last one of them.
    """

    width_us: int
    until_us: int


@dataclass(frozen=True)
class Reached:
    """What has become of old slices.

    Attributes:
        tiers: those that were merged, from the finest on: each ends earlier than the one before.
        since_us: slices that end here or before were dropped; None: none were.
    """

    tiers: tuple[Tier, ...] = ()
    since_us: int | None = None

    def __bool__(self) -> bool:
        """Whether any are not as they were made."""
        return bool(self.tiers) or self.since_us is not None


# Slices are as they were made
UNTOUCHED = Reached()


@dataclass(frozen=True)
class SliceTable:
    """A materialized table at one version of its table of slices.

    Attributes:
        name: what it is called.
        path: where its table of slices is.
        version: the version.
        form: what the slices are.
        is_inserted: whether its rows come by INSERT, and not with the files of the base table.
        reached: what has become of old slices.
    """

    name: str
    path: str
    version: int
    form: LocalForm
    is_inserted: bool = False
    reached: Reached = UNTOUCHED


@dataclass(frozen=True)
class SliceFiles:
    """What is to be read of a materialized table.

    Attributes:
        files: its data files, less those that are ruled out.
        n_rows: their rows.
        n_bytes: their bytes.
        tail: files of the base table that are not in it, to be read beside it; None: there are none
            or they are not wanted.
        tail_files: how many there are.
    """

    files: tuple[ScanFile, ...]
    n_rows: int
    n_bytes: int
    tail: ScanSource | None = None
    tail_files: int = 0


def inserted_rows(name: str) -> str:
    """What queries call the rows that were inserted into a materialized table."""
    return f"{name.replace('.', '_')}{_INSERTED}"


def table_of_rows(table: str) -> str:
    """The materialized table that a table's rows were inserted into."""
    return table.removesuffix(_INSERTED)


def is_inserted_rows(table: str) -> bool:
    """Whether a table stands for rows that were inserted, of which slices alone are kept."""
    return table.endswith(_INSERTED)


def form_to_json(form: LocalForm) -> dict[str, Any]:
    """A form as what JSON can hold."""
    kind = "calendar" if isinstance(form.grid, CalendarTumble) else "fixed"
    partials = [
        {"text": each.text, "types": list(each.types), "into": _accumulator_to_json(each.into)}
        for each in form.partials
    ]
    return {
        **{name: getattr(form, name) for name in ("base", "time", "time_type", "time_zone")},
        "grid": {"kind": kind, **asdict(form.grid)},
        "keys": [asdict(key) for key in form.keys],
        "partials": partials,
        "conditions": list(form.conditions),
    }


def form_from_json(found: Mapping[str, Any]) -> LocalForm:
    """The form that `form_to_json` wrote.

    Raises:
        KeyError, TypeError, ValueError: it is not such a one.
    """
    grid = dict(found["grid"])
    return LocalForm(
        found["base"],
        found["time"],
        found["time_type"],
        found["time_zone"],
        _GRIDS[grid.pop("kind")](**grid),
        tuple(SliceKey(**key) for key in found["keys"]),
        tuple(
            SlicePartial(each["text"], _accumulator_from_json(each["into"]), tuple(each["types"]))
            for each in found["partials"]
        ),
        tuple(found["conditions"]),
    )


def _accumulator_to_json(into: Accumulator) -> dict[str, Any]:
    own = {each.name: getattr(into, each.name) for each in fields(into)}
    return {"kind": type(into).__name__, **own, "columns": list(into.columns)}


def _accumulator_from_json(found: Mapping[str, Any]) -> Accumulator:
    own = dict(found)
    kinds: dict[str, type[Accumulator]] = {kind.__name__: kind for kind in KEPT_ACCUMULATORS}
    kind = kinds[own.pop("kind")]
    own["columns"] = tuple(own["columns"])
    if "op" in own:
        own["op"] = MergeOp(own["op"])
    return kind(**own)
