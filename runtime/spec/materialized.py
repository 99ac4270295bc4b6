"""Materialized tables: the form of their slices, and the files that a query reads."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.spec.aggregates import (
    CollectRegisters,
    CollectRows,
    CollectSet,
    Merge,
    MergeMoments,
    Pick,
)
from runtime.spec.scan import ScanFile, ScanSource
from runtime.windows.tumble import SliceGrid

# Slice end column, as in the local stage: BIGINT microseconds on the wall clock of the windows
SLICE_END = "slice_end"

# Suffix of the table that stands for the rows inserted into a materialized table
_INSERTED = "__inserted_rows"

# Accumulators whose partials can be materialized
MaterializedAccumulator = Merge | MergeMoments | Pick | CollectSet | CollectRegisters | CollectRows


@dataclass(frozen=True)
class SliceKey:
    """Key of materialized slices.

    Attributes:
        name: Column in the table of slices.
        text: Expression over the base table's columns, see `LocalForm`.
        type: Spark type, in DDL spelling.
    """

    name: str
    text: str
    type: str


@dataclass(frozen=True)
class SlicePartial:
    """Partial columns of an accumulator in materialized slices.

    Attributes:
        text: Aggregate over the base table's columns.
        into: Accumulator; its columns are those in the table of slices.
        types: Spark types of the columns, in DDL spelling.
    """

    text: str
    into: MaterializedAccumulator
    types: tuple[str, ...]


@dataclass(frozen=True)
class LocalForm:
    """Definition of a materialized table's slices: base table, keys, aggregates.

    Texts are Spark SQL over the base table's columns in canonical form: views and projections are
    inlined, names are in lower case, casts are explicit. Equal texts have equal meaning.

    Attributes:
        base: Name of the base table.
        time: Expression of the time column.
        time_type: `timestamp_ntz` or `timestamp`.
        time_zone: Session time zone that the texts or slices depend on; empty if they depend on
            none.
        grid: Slices.
        keys: Keys.
        partials: Partial columns.
        conditions: Conditions that all rows meet, sorted.
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
        """Columns of the table of slices, in order."""
        partial_columns = (name for partial in self.partials for name in partial.into.columns)
        return (*(key.name for key in self.keys), SLICE_END, *partial_columns)


@dataclass(frozen=True)
class Tier:
    """Old slices that were merged to wider ones.

    Attributes:
        width_us: Width of the wider slices.
        until_us: End of the last one.
    """

    width_us: int
    until_us: int


@dataclass(frozen=True)
class Reached:
    """Retention and merging of old slices so far.

    Attributes:
        tiers: Merged slices, from fine to coarse; each tier ends before the previous one.
        since_us: Slices that end at or before this time were dropped; None if none were.
    """

    tiers: tuple[Tier, ...] = ()
    since_us: int | None = None

    def __bool__(self) -> bool:
        """Return whether any slices were merged or dropped."""
        return bool(self.tiers) or self.since_us is not None


# No slices were merged or dropped.
UNTOUCHED = Reached()


@dataclass(frozen=True)
class SliceTable:
    """Materialized table at one version of its table of slices.

    Attributes:
        name: Table name.
        path: Directory of the table of slices.
        version: Version number.
        form: Definition of the slices.
        is_inserted: Whether rows come by INSERT instead of files of a base table.
        reached: Old slices merged or dropped.
    """

    name: str
    path: str
    version: int
    form: LocalForm
    is_inserted: bool = False
    reached: Reached = UNTOUCHED


@dataclass(frozen=True)
class SliceFiles:
    """Files to read from a materialized table.

    Attributes:
        files: Data files that filters do not rule out.
        n_rows: Number of rows in them.
        tail: Base table files that the slices do not cover yet, to be read as well. None if such
            files do not exist or the query excludes them.
        tail_files: Number of base table files not covered yet.
    """

    files: tuple[ScanFile, ...]
    n_rows: int
    tail: ScanSource | None = None
    tail_files: int = 0


def inserted_rows(name: str) -> str:
    """Return the name under which queries refer to the rows inserted into a materialized table."""
    return f"{name.replace('.', '_')}{_INSERTED}"


def table_of_rows(table: str) -> str:
    """Return the materialized table whose inserted rows have this name."""
    return table.removesuffix(_INSERTED)


def is_inserted_rows(table: str) -> bool:
    """Return whether a name means inserted rows. Only their slices are stored."""
    return table.endswith(_INSERTED)
