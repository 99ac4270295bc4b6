"""A table of a connector, as CREATE TABLE describes it."""

from __future__ import annotations

from dataclasses import dataclass, field

# The option of a table, of whatever connector, with the side output for its late rows
LATE_ROWS = "late-rows"


@dataclass(frozen=True)
class Column:
    """A column of a table. `type` is Spark's DDL spelling, such as `decimal(10,2)`."""

    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True)
class TableColumn:
    """A column in CREATE TABLE.

    `computed` is a Spark SQL expression over the physical columns; `metadata` the key of a
    connector's metadata column. A physical column has neither.
    """

    name: str
    type: str | None
    nullable: bool = True
    comment: str | None = None
    computed: str | None = None
    metadata: str | None = None


@dataclass(frozen=True)
class Watermark:
    """WATERMARK FOR `column` AS `expression` (Spark SQL text)."""

    column: str
    expression: str


@dataclass(frozen=True)
class TableSpec:
    """A table of a connector: everything that CREATE TABLE said.

    An empty `columns` means: take the schema that the files or the source bring.

    `kept` is what a table holds whose rows are in this process, see
    `runtime.connectors.registry.keeping_rows`; it is no part of what was said.
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
    kept: object = field(default=None, compare=False, repr=False)

    @property
    def late_rows(self) -> str | None:
        """The table that rows go to which come too late for their windows; None: nowhere."""
        said = next((value for name, value in self.options if name.lower() == LATE_ROWS), "drop")
        return None if said.lower() == "drop" else said

    @property
    def option_map(self) -> dict[str, str]:
        """The WITH options, `connector` left out."""
        return dict(self.options)
