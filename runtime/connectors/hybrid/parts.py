"""The two tables of a hybrid table: which may be its parts, and how they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from runtime.connectors.connector import Table
from runtime.connectors.hybrid.copies import CopySource, check_copy
from runtime.connectors.hybrid.stored_offsets import (
    STORED_OFFSETS,
    at_stored_offsets,
    check_tables,
)
from runtime.errors import CatalogError, nearest
from runtime.options.checks import (
    MONITOR_INTERVAL,
    bad_option,
    bytes_of,
    duration_us,
    option_values,
)
from runtime.options.formats import change_format, format_of
from runtime.refusal import Refusal, Refused, refuse, tried
from runtime.scan.files import NO_FILES
from runtime.spec.source import SplitTable
from runtime.spec.table import Column, TableColumn, TableSpec
from runtime.spec.text import FileSource, TextSource

# Value of 'overlap': the second table starts where its own options say
ALLOW = "allow"
_RANGE_BYTES = 256 << 20
# Connectors of the second table whose position has a place in the offset of the hybrid table
_THEN = ("filesystem", "kafka")
_TIMES = ("timestamp_ntz", "timestamp")
# How far the clocks of time zones are ahead of UTC at most
_MAX_ZONE_US = 14 * 3_600_000_000
# Types whose values tasks cannot compare as keys
_NO_KEYS = ("ARRAY", "MAP", "STRUCT", "ROW", "VARIANT", "INTERVAL")


@dataclass(frozen=True)
class Parts:
    """Parts of a hybrid table.

    Attributes:
        spec: The hybrid table.
        first: Bounded table.
        then: Table that continues it.
    """

    spec: TableSpec
    first: Table
    then: Table

    @property
    def columns(self) -> tuple[Column, ...]:
        """Physical columns with Spark types."""
        return tuple(Column(c.name, c.common_type or "") for c in self.spec.physical_columns)

    @property
    def time(self) -> Column:
        """Time column: the column of the watermark."""
        watermark = self.spec.watermark
        assert watermark is not None, "check_parts() has seen to it"
        return self.column(watermark.column)

    @property
    def overlap_us(self) -> int | None:
        """Time before the newest row of the first from which the second counts. None: always."""
        text = option_values(self.spec)["overlap"]
        return None if text.lower() in (ALLOW, STORED_OFFSETS) else duration_us(text)

    @property
    def has_stored_offsets(self) -> bool:
        """Whether the second table starts at the offsets stored with the version of the first."""
        return option_values(self.spec)["overlap"].lower() == STORED_OFFSETS

    def at_stored_offsets(self, spark: SparkSession) -> Parts:
        """Return the parts at one version of the first table, if its offsets start the second.

        Raises:
            ExecutionError: The version has no offsets, or cannot be read.
        """
        if not self.has_stored_offsets:
            return self
        first, then = at_stored_offsets(spark, self.first, self.then)
        return replace(self, first=first, then=then)

    @property
    def key(self) -> tuple[Column, ...]:
        """Columns that identify a row within the overlap."""
        return tuple(map(self.column, _key_names(self.spec)))

    @property
    def range_bytes(self) -> int:
        """Bytes of the first that a micro-batch reads at least."""
        text = option_values(self.spec).get("first.range-size")
        return (None if text is None else bytes_of(text)) or _RANGE_BYTES

    def column(self, name: str) -> Column:
        """Return a column by name, ignoring case."""
        return next(c for c in self.columns if c.name.lower() == name.lower())

    def with_key(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Return columns and those that tell whether a row of the overlap counts."""
        if self.overlap_us is None:
            return tuple(columns)
        return tuple(dict.fromkeys((*columns, self.time, *self.key)))

    def scans(
        self, spark: SparkSession, columns: Sequence[Column]
    ) -> tuple[FileSource | CopySource, FileSource | SplitTable]:
        """Return what tasks read of the first and of the second table.

        Of the first table, these are all columns.

        Raises:
            Refused: Tasks cannot read one of them.
        """
        columns = self.with_key(columns)
        with _about(self.first):
            source = self._first_source(spark, columns)
        with _about(self.then):
            if _has_lines(self.then.spec):
                return source, self.then_without_monitor.scan(spark, columns, ())
            return source, self.then.stream_scan(spark, columns)

    def _first_source(
        self, spark: SparkSession, columns: tuple[Column, ...]
    ) -> FileSource | CopySource:
        """Return the files of the first table, or its copy if tasks do not read these files."""
        files = tried(self._first_files, spark)
        if not isinstance(files, Refusal):
            return files
        if files.reason == NO_FILES:
            refuse(files.reason)
        check_copy(spark, self.first, columns, files.reason)
        return CopySource(self.first.spec.connector, files.reason)

    def _first_files(self, spark: SparkSession) -> FileSource:
        source = self.first.scan(spark, self.columns, ())
        if isinstance(source, SplitTable):
            refuse("it is not a table of files")
        if source.others:
            refuse("only Spark reads some of its files")
        if isinstance(source, TextSource) and source.partition_columns:
            refuse("its files of text are partitioned")
        return source

    @property
    def then_without_monitor(self) -> Table:
        """The second table as tasks read it: its offsets list its files, if it has any."""
        spec = self.then.spec
        if not _has_lines(spec):
            return self.then
        options = tuple(option for option in spec.options if option[0].lower() != MONITOR_INTERVAL)
        return replace(self.then, spec=replace(spec, options=options))

    def then_from(self, at_us: int | None) -> Table:
        """Return the second table, read from a time on unless its options say where to start.

        Without a time, the first table has no row with one, so the topic is read from its start.
        Messages have instants. A TIMESTAMP may be on the clock of any time zone, so the topic is
        read from the first instant at which one has this time; the overlap drops older rows.
        """
        spec = self.then.spec
        if (
            self.overlap_us is None
            or spec.connector.lower() != "kafka"
            or "scan.startup.mode" in option_values(spec)
        ):
            return self.then
        if at_us is None:
            earliest = ("scan.startup.mode", "earliest-offset")
            return replace(self.then, spec=replace(spec, options=(*spec.options, earliest)))
        if self.time.type == "timestamp_ntz":
            at_us -= _MAX_ZONE_US
        start = {
            "scan.startup.mode": "timestamp",
            "scan.startup.timestamp-millis": str(max(at_us // 1000, 0)),
        }
        return replace(self.then, spec=replace(spec, options=(*spec.options, *start.items())))


def _has_lines(spec: TableSpec) -> bool:
    """Return whether a table has files of CSV or JSON."""
    is_text = format_of(option_values(spec)) in ("csv", "json")
    return spec.connector.lower() == "filesystem" and is_text


@contextmanager
def _about(part: Table) -> Iterator[None]:
    """Within the block, let reasons of refusals name a part."""
    try:
        yield
    except Refused as refused:
        refuse(f"{part.spec.name}: {refused.refusal.reason}")


def _key_names(spec: TableSpec) -> tuple[str, ...]:
    text = option_values(spec).get("overlap.key", "")
    return tuple(name.strip() for name in text.split(";") if name.strip()) or spec.primary_key


def check_parts(parts: Parts) -> None:
    """Check that two tables can be the parts of a hybrid table, without looking at data.

    Raises:
        CatalogError: One cannot.
    """
    spec, first, then = parts.spec, parts.first, parts.then
    if spec.partitioned_by:
        raise CatalogError(
            f"table `{spec.name}` is partitioned, but stores no rows itself",
            subjects=(spec.name,),
            hint="leave out PARTITIONED BY, or declare it for the tables that it reads",
        )
    if first.is_unbounded:
        raise _wrong_part(spec, "first", first, "it is unbounded", "name a bounded table")
    if then.spec.connector.lower() not in _THEN:
        reason = f"connector '{then.spec.connector}' cannot continue a table"
        raise _wrong_part(spec, "then", then, reason, f"use {' or '.join(_THEN)}")
    for option, part in (("first", first), ("then", then)):
        if (changes := change_format(part.spec)) is not None:
            reason = f"messages of format '{changes}' are changes of rows"
            raise _wrong_part(spec, option, part, reason, "name a table whose rows stay")
        part.check()
        if part.spec.columns:
            _check_same_columns(spec, option, part.spec)
    _check_time(spec)
    if parts.has_stored_offsets:
        check_tables(spec, first.spec, then.spec)
        return
    if parts.overlap_us is None:
        if then.spec.connector.lower() == "kafka" and not _has_start(then.spec):
            raise bad_option(
                spec,
                f"'overlap' = '{ALLOW}' does not say where `{then.spec.name}` starts",
                f"set 'scan.startup.mode' of `{then.spec.name}`, or 'overlap' to a duration",
            )
        return
    names = _key_names(spec)
    if not names:
        raise bad_option(
            spec,
            "'overlap' needs a key to drop the rows that both tables have",
            f"set 'overlap.key', declare a PRIMARY KEY, or set 'overlap' = '{ALLOW}'",
        )
    existing = {c.name.lower(): c for c in spec.physical_columns}
    for name in names:
        if name.lower() not in existing:
            close = nearest(name, [c.name for c in existing.values()])
            raise bad_option(
                spec,
                f"the key of the overlap names column `{name}`, which does not exist",
                f"did you mean `{close}`?" if close else None,
            )
        column = existing[name.lower()]
        if _type(column).startswith(_NO_KEYS):
            raise bad_option(
                spec,
                f"the key of the overlap cannot have column `{name}` of type "
                f"{column.written or _type(column)}",
                "name columns of other types",
            )


def _has_start(spec: TableSpec) -> bool:
    values = option_values(spec)
    return "scan.startup.mode" in values or "properties.auto.offset.reset" in values


def _check_time(spec: TableSpec) -> None:
    """Check that the watermark is on a time that both tables store."""
    if spec.watermark is None:
        raise CatalogError(
            f"table `{spec.name}` has no watermark: the first table is read in order of time",
            subjects=(spec.name,),
            hint="declare WATERMARK FOR its time column",
        )
    name = spec.watermark.column
    column = next((c for c in spec.physical_columns if c.name.lower() == name.lower()), None)
    if column is None or column.common_type not in _TIMES:
        raise CatalogError(
            f"table `{spec.name}`: the watermark must be on a TIMESTAMP column that both tables "
            f"store, not on `{name}`",
            subjects=(name, spec.name),
        )


def _check_same_columns(spec: TableSpec, option: str, part: TableSpec) -> None:
    """Check that a part has the columns of the table, with the same types."""
    stored = {c.name.lower(): c for c in part.physical_columns}
    for column in spec.physical_columns:
        other = stored.pop(column.name.lower(), None)
        if other is None:
            what = f"has no column `{column.name}`"
        elif _type(other) != _type(column):
            what = f"has `{column.name}` as {other.written or _type(other)}, not "
            what += column.written or _type(column)
        else:
            continue
        raise _other_columns(spec, option, part, what, column.name)
    for name in stored:
        what = f"has another column `{stored[name].name}`"
        raise _other_columns(spec, option, part, what, stored[name].name)


def _type(column: TableColumn) -> str:
    return (column.common_type or column.type or "").upper()


def _other_columns(
    spec: TableSpec, option: str, part: TableSpec, what: str, column: str
) -> CatalogError:
    return CatalogError(
        f"table `{spec.name}`: `{part.name}`, its '{option}', {what}",
        subjects=(column, part.name, spec.name),
        hint="declare the same columns in all three tables",
    )


def _wrong_part(spec: TableSpec, option: str, part: Table, reason: str, hint: str) -> CatalogError:
    return bad_option(
        spec, f"`{part.spec.name}` cannot be '{option}': {reason}", hint, (part.spec.name,)
    )
