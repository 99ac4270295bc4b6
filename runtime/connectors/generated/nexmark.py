"""Connector 'nexmark': persons, auctions and bids of the benchmark, computed by event number.

Columns, in any selection and order: `event_type` (0 person, 1 auction, 2 bid), and the rows
`person`, `auction` and `bid`, all NULL except the one for the event type. Only declared fields of a
row are computed. Without declared columns the table has all of them.

Options (`options.known.NEXMARK`) are Flink's for its nexmark connector, and `base-time`, `seed`
and `rows-per-batch`. Unbounded events arrive at their rate.
"""

from __future__ import annotations

import datetime as dt

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from runtime.connectors.connector import Table
from runtime.connectors.declarations import check_columns
from runtime.connectors.declared_columns import declared_type
from runtime.connectors.generated.generators import timestamp_of
from runtime.connectors.generated.nexmark_events import Market, fields, numbered_events
from runtime.connectors.generated.row_numbers import Pace, bounded_row_numbers, row_numbers
from runtime.errors import CatalogError, nearest
from runtime.names import quote_name
from runtime.options.checks import bad_option, check_options, option_values, wrong_value
from runtime.options.known import NEXMARK
from runtime.shown_types import shown_type
from runtime.spark.versions.casts import type_from_ddl
from runtime.spec.table import TableSpec

_RATE, _ROWS_PER_BATCH = "10000", "100000"
_BASE_TIME = "2015-07-15 00:00:00"
_KINDS = ("person", "auction", "bid")
_TIMES = ("dateTime", "expires")
# Options by the fields of a Market
_OF_MARKET = {
    "seed": "seed",
    "first-event.rate": "rate",
    "person.proportion": "persons",
    "auction.proportion": "auctions",
    "bid.proportion": "bids",
    "bid.hot-ratio.auctions": "hot_auctions",
    "bid.hot-ratio.bidders": "hot_bidders",
    "auction.hot-ratio.sellers": "hot_sellers",
    "person.avg-size": "person_bytes",
    "auction.avg-size": "auction_bytes",
    "bid.avg-size": "bid_bytes",
}
_SCHEMA = {
    "event_type": "INT",
    "person": "STRUCT<id: BIGINT, name: STRING, emailAddress: STRING, creditCard: STRING,"
    " city: STRING, state: STRING, dateTime: TIMESTAMP_NTZ, extra: STRING>",
    "auction": "STRUCT<id: BIGINT, itemName: STRING, description: STRING, initialBid: BIGINT,"
    " reserve: BIGINT, dateTime: TIMESTAMP_NTZ, expires: TIMESTAMP_NTZ, seller: BIGINT,"
    " category: BIGINT, extra: STRING>",
    "bid": "STRUCT<auction: BIGINT, bidder: BIGINT, price: BIGINT, channel: STRING,"
    " url: STRING, dateTime: TIMESTAMP_NTZ, extra: STRING>",
}


def _n_events(spec: TableSpec) -> int | None:
    return int(option_values(spec).get("events.num", "0")) or None


def _events(numbers: DataFrame, spec: TableSpec) -> DataFrame:
    market = _market(spec)
    declared = {c.name: declared_type(spec, c) for c in spec.physical_columns}
    columns = declared or {name: type_from_ddl(type_) for name, type_ in _SCHEMA.items()}
    sql = fields(market)
    selected = []
    for name, type_ in columns.items():
        kind = name.lower()
        if kind == "event_type":
            value = f"CAST(event_type AS {type_.simpleString()})"
        else:
            value = _row(spec, name, type_, dict(sql[kind]))
            value = f"IF(event_type = {_KINDS.index(kind)}, {value}, NULL)"
        selected.append(f"{value} AS {quote_name(name)}")
    return numbered_events(numbers, market).selectExpr(*selected)


def _row(spec: TableSpec, column: str, type_: DataType, sql_of_fields: dict[str, str]) -> str:
    if not isinstance(type_, StructType):
        fields_of = ", ".join(sql_of_fields)
        raise CatalogError(
            f"column `{column}` of table `{spec.name}` is "
            f"{shown_type(type_.simpleString())}, but must be a ROW",
            subjects=(column, spec.name),
            hint=f"connector 'nexmark' generates a ROW of {fields_of}",
        )
    names = {name.lower(): name for name in sql_of_fields}
    parts = []
    for field in type_.fields:
        name = names.get(field.name.lower())
        if name is None:
            raise _unknown_error(
                spec, f"field `{column}.{field.name}`", field.name, list(sql_of_fields)
            )
        value = (
            timestamp_of(sql_of_fields[name], field.dataType)
            if name in _TIMES
            else sql_of_fields[name]
        )
        text = field.name.replace("'", "\\'")
        parts.append(f"'{text}', CAST({value} AS {field.dataType.simpleString()})")
    return f"named_struct({', '.join(parts)})"


def _market(spec: TableSpec) -> Market:
    values = option_values(spec)
    settings = {field: int(values[name]) for name, field in _OF_MARKET.items() if name in values}
    return Market(_base_us(spec, values), **settings)


def _base_us(spec: TableSpec, values: dict[str, str]) -> int:
    text = values.get("base-time", _BASE_TIME)
    try:
        time = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        time = None
    if time is None or time.tzinfo is not None:
        hint = f"it must be a timestamp such as '{_BASE_TIME}'"
        raise wrong_value(spec, "base-time", text, hint)
    return (time - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)  # noqa: DTZ001  # wall-clock arithmetic


def _unknown_error(spec: TableSpec, what: str, name: str, valid_names: list[str]) -> CatalogError:
    suggestion = nearest(name, valid_names)
    return CatalogError(
        f"connector 'nexmark' does not generate {what} of table `{spec.name}`",
        subjects=("'nexmark'", spec.name),
        hint=f"did you mean `{suggestion}`?"
        if suggestion
        else f"available: {', '.join(valid_names)}",
    )


class NexmarkTable(Table):
    """Table of events."""

    options = NEXMARK
    can_stream_bounded = True

    def validate(self) -> None:
        """Check options and columns of a nexmark table as far as possible without Spark.

        Raises:
            CatalogError: An option or a column is wrong.
        """
        check_columns(self.spec)
        for column in self.spec.physical_columns:
            if column.name.lower() not in _SCHEMA:
                raise _unknown_error(
                    self.spec, f"column `{column.name}`", column.name, list(_SCHEMA)
                )
        check_options(self.spec, NEXMARK)
        values = option_values(self.spec)
        first = values.get("first-event.rate", _RATE)
        if int(values.get("next-event.rate", first)) != int(first):
            raise bad_option(
                self.spec,
                f"option 'next-event.rate' is {values['next-event.rate']}, but "
                f"'first-event.rate' is {first}",
                "set both to the same rate: events are evenly spaced",
            )
        _base_us(self.spec, values)

    @property
    def is_unbounded(self) -> bool:
        """Whether the events are unbounded."""
        return _n_events(self.spec) is None

    @property
    def is_read_by_workers(self) -> bool:
        """Spark SQL generates the events of a batch."""
        return False

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the events with the declared physical columns.

        Raises:
            CatalogError: The events are unbounded, or a column has a field or a type that events
                lack.
        """
        n_events = _n_events(self.spec)
        if n_events is None:
            raise bad_option(
                self.spec,
                "option 'events.num' is missing, and unbounded events require a stream",
                "add 'events.num' = '100000' for a bounded table, or SET "
                "'execution.runtime-mode' = 'automatic' to stream it",
            )
        return _events(bounded_row_numbers(spark, self.spec, n_events), self.spec)

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the events as a stream: at their rate if unbounded, or else in fixed-size batches.

        Raises:
            CatalogError: A column has a field or a type that events lack.
        """
        values = option_values(self.spec)
        n_events = _n_events(self.spec)
        pace = Pace(
            per_second=int(values.get("first-event.rate", _RATE)) if n_events is None else None,
            per_batch=int(values.get("rows-per-batch", _ROWS_PER_BATCH)),
            n_rows=n_events,
        )
        return _events(row_numbers(spark, self.spec, pace), self.spec)
