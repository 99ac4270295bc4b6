"""Connectors: where tables come from. One file a connector; all are listed here.

`print` and `blackhole` only take rows; their options are checked here like those of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from runtime.connectors import kafka, memory, sink_only, socket
from runtime.connectors import spark as external
from runtime.connectors.columns import add_computed
from runtime.connectors.filesystem import read as filesystem
from runtime.connectors.filesystem import stream as filesystem_stream
from runtime.connectors.generated import datagen, nexmark
from runtime.connectors.options import bad_option
from runtime.errors import CatalogError, nearest
from runtime.spec.table import LATE_ROWS, TableSpec

__all__ = [
    "CONNECTORS",
    "Connector",
    "has_end",
    "idle_options",
    "is_unbounded",
    "read_stream",
    "read_table",
    "validate_table",
]

Validate = Callable[[TableSpec], None]
Read = Callable[[SparkSession, TableSpec], DataFrame]


@dataclass(frozen=True)
class Connector:
    """How tables of one connector are checked and read.

    Attributes:
        validate: checks what CREATE TABLE said.
        read: the rows there are; None if it cannot be read, or not at rest.
        stream: the rows as they come; None if it cannot be read so.
        is_unbounded: whether a table is read without end unless told otherwise.
        has_end: whether a table that is not unbounded can be read as a stream that ends.
        idle_options: names of options, in lower case, that are let pass and change nothing.
    """

    validate: Validate
    read: Read | None = None
    stream: Read | None = None
    is_unbounded: Callable[[TableSpec], bool] = lambda spec: False
    has_end: bool = False
    idle_options: frozenset[str] = frozenset()


CONNECTORS: Mapping[str, Connector] = {
    "filesystem": Connector(
        filesystem.validate,
        filesystem.read,
        filesystem_stream.stream,
        filesystem_stream.is_unbounded,
        has_end=True,
        idle_options=filesystem.IDLE_OPTIONS,
    ),
    "datagen": Connector(
        datagen.validate, datagen.read, datagen.stream, datagen.is_unbounded, has_end=True
    ),
    "kafka": Connector(
        kafka.validate,
        kafka.read,
        kafka.stream,
        kafka.is_unbounded,
        idle_options=kafka.IDLE_OPTIONS,
    ),
    "socket": Connector(socket.validate, None, socket.stream, lambda spec: True),
    "spark": Connector(external.validate, external.read, external.stream, external.is_unbounded),
    "nexmark": Connector(
        nexmark.validate, nexmark.read, nexmark.stream, nexmark.is_unbounded, has_end=True
    ),
    "memory": Connector(memory.validate, memory.read),
    "print": Connector(sink_only.validate_print, idle_options=sink_only.IDLE_OPTIONS),
    "blackhole": Connector(sink_only.validate_blackhole),
}


def validate_table(spec: TableSpec) -> None:
    """Check what CREATE TABLE said, without looking at data.

    Raises:
        CatalogError: the connector, an option, or a column is wrong; the message names it and
            what is nearest to it.
    """
    _connector(spec).validate(_own_options(spec))


def idle_options(spec: TableSpec) -> tuple[str, ...]:
    """The options of a table that are let pass and change nothing, as they are written."""
    idle = _connector(spec).idle_options
    return tuple(name for name, _ in spec.options if name.lower() in idle)


def read_table(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """The table as a DataFrame with the declared columns in their order, computed ones included.

    Raises:
        CatalogError: the table is declared wrongly, or its data has other columns.
        ExecutionError: the data is not there or cannot be read.
    """
    connector = _connector(spec)
    spec = _own_options(spec)
    connector.validate(spec)
    if connector.read is None and connector.stream is not None:
        raise CatalogError(
            f"table `{spec.name}` has no end: connector '{spec.connector}' is read as a stream",
            subjects=(f"'{spec.connector}'", spec.name),
            hint="SET 'execution.runtime-mode' = 'automatic'",
        )
    if connector.read is None:
        raise _only_takes_rows(spec)
    return add_computed(connector.read(spark, spec), spec)


def read_stream(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """The table as a streaming DataFrame with the columns that `read_table` gives.

    Raises:
        CatalogError: the table is declared wrongly, its data has other columns, or it cannot be
            read as a stream.
        ExecutionError: the data is not there or cannot be read.
        SetupError: a package of Spark's is missing.
    """
    connector = _connector(spec)
    spec = _own_options(spec)
    connector.validate(spec)
    if connector.stream is None:
        raise _only_takes_rows(spec)
    return add_computed(connector.stream(spark, spec), spec)


def is_unbounded(spec: TableSpec) -> bool:
    """Whether the table is read without end, unless a run is told to be a batch."""
    return _connector(spec).is_unbounded(spec)


def has_end(spec: TableSpec) -> bool:
    """Whether the table can be read as a stream that ends."""
    return _connector(spec).has_end and not is_unbounded(spec)


def _own_options(spec: TableSpec) -> TableSpec:
    """The table without the option that is no matter of its connector."""
    if _connector(spec).stream is None:
        return spec
    said = [value for name, value in spec.options if name.lower() == LATE_ROWS]
    if len(said) > 1:
        raise bad_option(spec, f"option '{LATE_ROWS}' is given twice", subjects=(f"'{LATE_ROWS}'",))
    if said and not said[0].strip():
        raise bad_option(
            spec,
            f"option '{LATE_ROWS}' is empty",
            "it must be drop or the name of a table",
            subjects=(f"'{LATE_ROWS}'",),
        )
    return replace(spec, options=tuple(o for o in spec.options if o[0].lower() != LATE_ROWS))


def _only_takes_rows(spec: TableSpec) -> CatalogError:
    return CatalogError(
        f"table `{spec.name}` cannot be read: connector '{spec.connector}' only takes rows",
        subjects=(f"'{spec.connector}'", spec.name),
        hint="INSERT INTO writes to it",
    )


def _connector(spec: TableSpec) -> Connector:
    found = CONNECTORS.get(spec.connector.lower())
    if found is None:
        meant = nearest(spec.connector, CONNECTORS)
        raise CatalogError(
            f"table `{spec.name}`: there is no connector '{spec.connector}'",
            subjects=(f"'{spec.connector}'", spec.name),
            hint=f"did you mean '{meant}'?" if meant else f"there are {', '.join(CONNECTORS)}",
        )
    return found
