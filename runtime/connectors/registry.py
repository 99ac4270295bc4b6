"""Find and load connectors: built-in ones, and connectors of other packages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

from runtime.connectors.connector import Connector, Table
from runtime.errors import AnalysisError, CatalogError, SetupError, nearest
from runtime.options.formats import DEBEZIUM, change_format
from runtime.spec.sink import SinkMode
from runtime.spec.table import TableSpec

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# Entry points of other packages: a name, and the connector of that name
GROUP = "sqlwin.connectors"
# As entry points, but known without a search of the installed packages
BUILT_IN = {
    "filesystem": "runtime.connectors.filesystem.connector:FileTable",
    "delta": "runtime.connectors.lake.connector:DeltaTable",
    "iceberg": "runtime.connectors.lake.connector:IcebergTable",
    "datagen": "runtime.connectors.generated.datagen:DatagenTable",
    "kafka": "runtime.connectors.kafka.connector:KafkaTable",
    "upsert-kafka": "runtime.connectors.kafka.upsert:UpsertKafkaTable",
    "postgres": "runtime.connectors.postgres.connector:PostgresTable",
    "jdbc": "runtime.connectors.postgres.connector:PostgresTable",
    "hybrid": "runtime.connectors.hybrid.connector:HybridTable",
    "socket": "runtime.connectors.socket:SocketTable",
    "spark": "runtime.connectors.data_source:DataSourceTable",
    "nexmark": "runtime.connectors.generated.nexmark:NexmarkTable",
    "memory": "runtime.connectors.memory:MemoryTable",
    "print": "runtime.connectors.print:PrintTable",
    "blackhole": "runtime.connectors.blackhole:BlackholeTable",
}
# Systems with a Flink connector and a Spark data source; matches `elasticsearch-7`, too
_DATA_SOURCES = (
    *("cassandra", "doris", "elasticsearch", "hbase", "hudi", "kinesis", "kudu", "mongodb"),
    *("opensearch", "paimon", "pulsar", "starrocks"),
)


def open_table(spec: TableSpec) -> Table:
    """Return the table of a definition. The modules of a connector are imported on first use.

    Raises:
        CatalogError: No connector has that name.
        SetupError: The connector of another package cannot be loaded.
    """
    try:
        connector = load_connector(spec.connector.lower())
    except KeyError:
        raise _unknown_connector(spec) from None
    table = connector.open(spec)
    return replace(table, parts=tuple(map(open_table, spec.parts))) if spec.parts else table


def open_writable(spec: TableSpec, *, overwrite: bool) -> Table:
    """Return a table that can be written, in batch or by a stream.

    Raises:
        CatalogError: The declaration is wrong, or the connector is only a source.
        AnalysisError: The rows cannot be replaced.
    """
    table, connector = open_table(spec), spec.connector.lower()
    if (changes := change_format(spec)) is not None:
        raise CatalogError(
            f"table `{spec.name}` cannot be written: format '{changes}' is only read",
            subjects=(spec.name, f"'{changes}'"),
            hint="insert into a table of 'format' = 'json', or of 'connector' = 'upsert-kafka'",
        )
    table.check()
    if not table.can_write:
        names = (name for name in BUILT_IN if load_connector(name).can_write)
        raise CatalogError(
            f"table `{spec.name}` cannot be written: connector '{connector}' is a source only",
            subjects=(spec.name, f"'{connector}'"),
            hint=f"insert into a table of {', '.join(names)}",
        )
    if overwrite and not table.can_overwrite:
        raise AnalysisError(
            f"INSERT OVERWRITE is not supported for `{spec.name}`: connector "
            f"'{connector}' cannot replace rows",
            subjects=(spec.name,),
            hint="use INSERT INTO",
        )
    return table


def sink_names(*modes: SinkMode) -> str:
    """Return the names of the built-in connectors whose sinks have one of the modes, for a hint."""
    return ", ".join(name for name in BUILT_IN if load_connector(name).sink_mode in modes)


@cache
def load_connector(name: str) -> Connector:
    """Return the connector with a name, in lower case.

    Raises:
        KeyError: No connector has the name.
        SetupError: The connector of another package cannot be loaded.
    """
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        return cast(Connector, getattr(import_module(module), attribute))
    entry = {entry.name.lower(): entry for entry in _entry_points()}[name]
    try:
        return cast(Connector, entry.load())
    except Exception as error:
        package = "another package" if entry.dist is None else f"package {entry.dist.name}"
        raise SetupError(
            f"connector '{name}' of {package} cannot be loaded: {error}", subjects=(f"'{name}'",)
        ) from error


def _entry_points() -> Iterable[EntryPoint]:
    # the search opens the list of each installed package, which takes some ten milliseconds
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


def _unknown_connector(spec: TableSpec) -> CatalogError:
    names = [*BUILT_IN, *(entry.name for entry in _entry_points())]
    suggestion = nearest(spec.connector, names)
    hint = _replacement_for(spec.connector.lower())
    if hint is None and suggestion:
        hint = f"did you mean '{suggestion}'?"
    return CatalogError(
        f"table `{spec.name}`: unknown connector '{spec.connector}'",
        subjects=(f"'{spec.connector}'", spec.name),
        hint=hint or f"available connectors: {', '.join(names)}",
    )


def _replacement_for(connector: str) -> str | None:
    """Return the replacement for a Flink connector, or None if it is unknown."""
    if connector.endswith("-cdc"):
        return (
            "no connector reads a database's log: let Debezium write the changes to Kafka, and use "
            f"'connector' = 'kafka', 'format' = '{DEBEZIUM}'"
        )
    if connector.split("-")[0] in _DATA_SOURCES:
        return "use 'connector' = 'spark', 'format' = '...' for any data source of Spark"
    return None
