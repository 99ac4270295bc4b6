"""Connectors: where tables come from. One file a connector; all are listed here.

`print` and `blackhole` only take rows; their options are checked here like those of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from runtime.errors import CatalogError
from runtime.nearest import nearest
from runtime.sources import datagen, external, filesystem, sink_only
from runtime.sources.columns import add_computed
from runtime.spec import TableSpec

__all__ = ["CONNECTORS", "Connector", "read_table", "validate_table"]


@dataclass(frozen=True)
class Connector:
    """How tables of one connector are checked and read; `read` is None if they cannot be."""

    validate: Callable[[TableSpec], None]
    read: Callable[[SparkSession, TableSpec], DataFrame] | None


CONNECTORS: Mapping[str, Connector] = {
    "filesystem": Connector(filesystem.validate, filesystem.read),
    "datagen": Connector(datagen.validate, datagen.read),
    "spark": Connector(external.validate, external.read),
    "print": Connector(sink_only.validate_print, None),
    "blackhole": Connector(sink_only.validate_blackhole, None),
}


def validate_table(spec: TableSpec) -> None:
    """Check what CREATE TABLE said, without looking at data.

    Raises:
        CatalogError: the connector, an option, or a column is wrong; the message names it and
            what is nearest to it.
    """
    _connector(spec).validate(spec)


def read_table(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """The table as a DataFrame with the declared columns in their order, computed ones included.

    Raises:
        CatalogError: the table is declared wrongly, or its data has other columns.
        ExecutionError: the data is not there or cannot be read.
    """
    connector = _connector(spec)
    connector.validate(spec)
    if connector.read is None:
        raise CatalogError(
            f"table `{spec.name}` cannot be read: connector '{spec.connector}' only takes rows",
            hint="INSERT INTO writes to it",
        )
    return add_computed(connector.read(spark, spec), spec)


def _connector(spec: TableSpec) -> Connector:
    found = CONNECTORS.get(spec.connector.lower())
    if found is None:
        meant = nearest(spec.connector, CONNECTORS)
        raise CatalogError(
            f"table `{spec.name}`: there is no connector '{spec.connector}'",
            hint=f"did you mean '{meant}'?" if meant else f"there are {', '.join(CONNECTORS)}",
        )
    return found
