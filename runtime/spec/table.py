"""Definition of a connector table, from CREATE TABLE."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import time
from typing import TypeAlias

# Table option of all connectors: the side output for late rows
LATE_ROWS = "late-rows"
# Additional columns of a late rows table: the watermark that a row missed, and the table that the
# results go to, or `select`
MISSED = "missed_watermark"
LATE_FOR = "late_for"
# Table option of all connectors, and setting: time without rows of all sources after which the
# watermark advances with the clock
IDLE_ADVANCE = "sqlwin.watermark.idle-advance"
# Table option of all connectors: how a bounded table that is joined to a stream is cached; and
# options of the cache
LOOKUP_CACHE = "lookup.cache"
RELOAD_STRATEGY = "lookup.full-cache.reload-strategy"
RELOAD_INTERVAL = "lookup.full-cache.periodic-reload.interval"
RELOAD_SCHEDULE = "lookup.full-cache.periodic-reload.schedule-mode"
RELOAD_TIME = "lookup.full-cache.timed-reload.iso-time"
RELOAD_DAYS = "lookup.full-cache.timed-reload.interval-in-days"
LOOKUP_OPTIONS = (
    LOOKUP_CACHE,
    RELOAD_STRATEGY,
    RELOAD_INTERVAL,
    RELOAD_SCHEDULE,
    RELOAD_TIME,
    RELOAD_DAYS,
)
# Table options that belong to the stream, not to the connector
OPTIONS_OF_STREAMS = (LATE_ROWS, IDLE_ADVANCE, *LOOKUP_OPTIONS)
# Columns of a table of changes: BIGINT, the order of a key's changes; BOOLEAN, whether a change
# deletes the row; INT, the split of the change
CHANGE_ORDER, IS_DELETED, CHANGE_SPLIT = "$order", "$is_deleted", "$split"
CHANGE_COLUMNS = (CHANGE_ORDER, IS_DELETED, CHANGE_SPLIT)
# Types known without a call to Java, which takes half a millisecond per type
_COMMON_TYPES = {
    **{
        name.upper(): name
        for name in "boolean tinyint smallint int bigint float double string binary date "
        "timestamp timestamp_ntz".split()
    },
    "INTEGER": "int",
    "TIMESTAMP_LTZ": "timestamp",
}
_DECIMAL = re.compile(r"DECIMAL(?:\(\s*([1-9]|[12]\d|3[0-8])\s*(?:,\s*(\d|[12]\d|3[0-8])\s*)?\))?")
_TEXT = re.compile(r"(?:VAR)?CHAR\(\s*[1-9]\d*\s*\)")
_PROCTIME = re.compile(r"PROCTIME\s*\(\s*\)", re.IGNORECASE)


@dataclass(frozen=True)
class PeriodicReload:
    """A cached table is read again `interval_us` microseconds after its last reading.

    `text` is the interval as the user wrote it.
    """

    interval_us: int
    text: str


@dataclass(frozen=True)
class TimedReload:
    """A cached table is read again at a time of day, every `days` days.

    `at` has no zone if it is in the session's time zone. `text` is the time as the user wrote it.
    """

    at: time
    days: int
    text: str


Reload: TypeAlias = PeriodicReload | TimedReload


@dataclass(frozen=True)
class Column:
    """Column of a table. `type` is Spark's DDL spelling, such as `decimal(10,2)`."""

    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True)
class TableColumn:
    """Column in CREATE TABLE.

    `computed` is a Spark SQL expression over the physical columns; `metadata` the key of a
    connector's metadata column. A physical column has neither. `written` is the type in Flink's
    words, or the expression as the user wrote it, for people to read.
    """

    name: str
    type: str | None
    nullable: bool = True
    comment: str | None = None
    computed: str | None = None
    metadata: str | None = None
    is_virtual: bool = field(default=False, compare=False)
    written: str | None = field(default=None, compare=False, repr=False)

    @property
    def common_type(self) -> str | None:
        """Spark's name of the type with which the column is read. None if only Spark knows it.

        CHAR(n) and VARCHAR(n) are strings.
        """
        text = (self.type or "").upper()
        if (decimal := _DECIMAL.fullmatch(text)) is not None:
            return f"decimal({decimal[1] or 10},{decimal[2] or 0})"
        return "string" if _TEXT.fullmatch(text) else _COMMON_TYPES.get(text)


@dataclass(frozen=True)
class Watermark:
    """WATERMARK FOR `column` AS `expression` in Spark SQL; `written` is the text of the user."""

    column: str
    expression: str
    written: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class TableSpec:
    """Table of a connector, as defined by CREATE TABLE.

    Empty `columns` means: use the schema of the files or the source.

    `storage` identifies the storage of a table whose rows are in this process, see
    `runtime.connectors.connector.Table.with_storage`. `parts` are the definitions of the tables
    that a table reads, see `Table.part_options`. Neither comes from the statement.
    """

    name: str
    connector: str
    columns: tuple[TableColumn, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    partitioned_by: tuple[str, ...] = ()
    primary_key: tuple[str, ...] = ()
    watermark: Watermark | None = None
    comment: str | None = None
    temporary: bool = False
    storage: str = field(default="", compare=False, repr=False)
    parts: tuple[TableSpec, ...] = field(default=(), compare=False, repr=False)

    @property
    def physical_columns(self) -> tuple[TableColumn, ...]:
        """Declared columns that the source provides: neither computed nor metadata."""
        return tuple(c for c in self.columns if c.computed is None and c.metadata is None)

    @property
    def proctime_columns(self) -> frozenset[str]:
        """Names, in lower case, of the columns declared AS PROCTIME()."""
        return frozenset(
            c.name.lower()
            for c in self.columns
            if c.computed is not None and _PROCTIME.fullmatch(c.computed.strip())
        )

    @property
    def late_rows(self) -> str | None:
        """Table that receives the late rows; None: they are dropped."""
        target = next((value for name, value in self.options if name.lower() == LATE_ROWS), "drop")
        return None if target.lower() == "drop" else target

    @property
    def idle_advance(self) -> str | None:
        """Value of the option IDLE_ADVANCE. None if the table does not have it."""
        return next((v for name, v in self.options if name.lower() == IDLE_ADVANCE), None)

    @property
    def option_map(self) -> dict[str, str]:
        """The WITH options except `connector`."""
        return dict(self.options)
