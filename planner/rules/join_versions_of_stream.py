"""Join the rows of a stream with the versions of another stream in a window operator."""

from __future__ import annotations

from functools import partial

from planner.aggregates.calls import count_of_copies
from planner.aggregates.functions import plan_aggregate
from planner.aggregates.phases import two_phases
from planner.aggregates.shared_partials import share_partials
from planner.nodes.logical import (
    COPIES,
    VERSION_COLUMNS,
    NamedExpr,
    Node,
    Project,
    VersionJoin,
    WindowKey,
    columns_of,
    plain_items,
    repeated,
)
from planner.nodes.physical import OnePhaseWindowAggregate, StreamVersionJoin
from planner.nodes.window_columns import window_properties
from planner.optimizer import Options
from planner.sql.build import last_time_before
from planner.streams.tables import arrives_at_once
from runtime.spec.table import Column

_AT = "$at"


def join_versions_of_stream(node: Node, options: Options) -> Node | None:
    """Join rows and versions in an operator that keeps the last version of each key.

    Fires on a temporal join whose rows and versions have waited for the watermark. They are the
    keys of an aggregation, with a count, in the windows in which they waited.

    Example:
        >>> before_after(
        ...     "join_versions_of_stream",
        ...     "SELECT r.fare, c.fare AS c FROM rides AS r "
        ...     "JOIN rides FOR SYSTEM_TIME AS OF r.ts AS c ON r.city = c.city",
        ... )
        before:
        VersionJoin(on=[city = city0], select=[city, fare, city0, fare0, $is_version])
        +- WindowRows(select=[$time, $is_version, $key0, city, fare, city0, fare0, $wait_start,
             $wait_end, $wait_time], copies=[$copies])
           +- Calc(select=[$time, $is_version, $key0, city, fare, city0, fare0, $wait_start,
                $wait_end, $wait_time, $copies$0 AS $copies])
              +- GlobalWindowAggregate(groupBy=[$time, $is_version, $key0, city, fare, city0,
                   fare0], window=[TUMBLE(slice_end=[$slice_end], size=[1 s])], select=[$time,
                   $is_version, $key0, city, fare, city0, fare0, COUNT($copies$0), start('w$) AS
                   $wait_start, end('w$) AS $wait_end, time('w$) AS $wait_time])
                 +- Exchange(distribution=[hash[$time, $is_version, $key0, city, fare, city0,
                      fare0]], carries=[Arrow blobs])
                    +- LocalWindowAggregate(groupBy=[$time, $is_version, $key0, city, fare,
                         city0, fare0], window=[TUMBLE(time_col=[$time], size=[1 s])],
                         select=[$time, $is_version, $key0, city, fare, city0, fare0, COUNT(*)
                         AS $copies$0, slice_end('w$) AS $slice_end])
                       +- SparkSql(sql=[SELECT `ts` AS `$time`, FALSE AS `$is_version`, `city`
                            AS `$key0`, `city` AS `city`, `fare` AS `fare`, CAST(NULL AS STRING)
                            AS `city0`, CAST(NULL AS BIGINT) AS `fare0` FROM input#0 UNION ALL
                            SELECT `ts` AS `$time`, TRUE AS `$is_version`, `city` AS `$key0`,
                            CAST(NULL AS STRING) AS `city`, CAST(NULL AS BIGINT) AS `fare`,
                            `city` AS `city0`, `fare` AS `fare0` FROM input#1 WHERE NOT `city`
                            IS NULL])
                          :- SparkSql(sql=[SELECT * FROM rides AS r])
                          +- SparkSql(sql=[SELECT * FROM rides AS c])
        after:
        Calc(select=[city, fare, city0, fare0, $is_version])
        +- WindowRows(select=[$time, $is_version, $key0, city, fare, city0, fare0, $wait_start,
             $wait_end], copies=[$copies])
           +- Calc(select=[$time, $is_version, $key0, city, fare, city0, fare0, $wait_start,
                $wait_end, $copies$0 AS $copies])
              +- GlobalWindowAggregate(groupBy=[$time, $is_version, $key0, city, fare, city0,
                   fare0], window=[TUMBLE(slice_end=[$slice_end], size=[1 s])], select=[$time,
                   $is_version, $key0, city, fare, city0, fare0, COUNT($copies$0), start('w$) AS
                   $wait_start, end('w$) AS $wait_end], versions=[city0, fare0])
                 +- Exchange(distribution=[hash[$key0]], carries=[Arrow blobs])
                    +- LocalWindowAggregate(groupBy=[$time, $is_version, $key0, city, fare,
                         city0, fare0], window=[TUMBLE(time_col=[$at], size=[1 s])],
                         select=[$time, $is_version, $key0, city, fare, city0, fare0, COUNT(*)
                         AS $copies$0, slice_end('w$) AS $slice_end])
                       +- Calc(select=[$time, $is_version, $key0, city, fare, city0, fare0,
                            $wait_end - INTERVAL '0.001' SECOND AS $at])
                          +- WindowRows(select=[$time, $is_version, $key0, city, fare, city0,
                               fare0, $wait_start, $wait_end, $wait_time], copies=[$copies])
                             +- Calc(select=[$time, $is_version, $key0, city, fare, city0,
                                  fare0, $wait_start, $wait_end, $wait_time, $copies$0 AS
                                  $copies])
                                +- GlobalWindowAggregate(groupBy=[$time, $is_version, $key0,
                                     city, fare, city0, fare0],
                                     window=[TUMBLE(slice_end=[$slice_end], size=[1 s])],
                                     select=[$time, $is_version, $key0, city, fare, city0,
                                     fare0, COUNT($copies$0), start('w$) AS $wait_start,
                                     end('w$) AS $wait_end, time('w$) AS $wait_time])
                                   +- Exchange(distribution=[hash[$time, $is_version, $key0,
                                        city, fare, city0, fare0]], carries=[Arrow blobs])
                                      +- LocalWindowAggregate(groupBy=[$time, $is_version,
                                           $key0, city, fare, city0, fare0],
                                           window=[TUMBLE(time_col=[$time], size=[1 s])],
                                           select=[$time, $is_version, $key0, city, fare, city0,
                                           fare0, COUNT(*) AS $copies$0, slice_end('w$) AS
                                           $slice_end])
                                         +- SparkSql(sql=[SELECT `ts` AS `$time`, FALSE AS
                                              `$is_version`, `city` AS `$key0`, `city` AS
                                              `city`, `fare` AS `fare`, CAST(NULL AS STRING) AS
                                              `city0`, CAST(NULL AS BIGINT) AS `fare0` FROM
                                              input#0 UNION ALL SELECT `ts` AS `$time`, TRUE AS
                                              `$is_version`, `city` AS `$key0`, CAST(NULL AS
                                              STRING) AS `city`, CAST(NULL AS BIGINT) AS `fare`,
                                              `city` AS `city0`, `fare` AS `fare0` FROM input#1
                                              WHERE NOT `city` IS NULL])
                                            :- SparkSql(sql=[SELECT * FROM rides AS r])
                                            +- SparkSql(sql=[SELECT * FROM rides AS c])
    """
    if not isinstance(node, VersionJoin) or not arrives_at_once(node.input, options.catalog):
        return None
    attached = window_properties(node.input)
    assert attached is not None, "rows wait in windows"
    windows = {VERSION_COLUMNS.start, VERSION_COLUMNS.end, VERSION_COLUMNS.time}
    rows = tuple(c for c in node.input.schema if c.name not in windows)
    items = plain_items(rows)
    time = Column(_AT, "timestamp_ntz", False)
    timed = Project(
        (*rows, time), node.input, (*items, NamedExpr(_AT, last_time_before(VERSION_COLUMNS.end)))
    )
    call = count_of_copies(node.versions.time)
    bounds = (VERSION_COLUMNS.start, VERSION_COLUMNS.end)
    one_phase = OnePhaseWindowAggregate(
        (
            *rows,
            *(Column(name, "timestamp_ntz", False) for name in bounds),
            Column(COPIES, "bigint", False),
        ),
        timed,
        attached.spec,
        _AT,
        "timestamp_ntz",
        items,
        tuple(WindowKey(name, role) for name, role in zip(bounds, ("start", "end"), strict=True)),
        (call,),
        place=node.place,
    )
    keys = tuple(c.name for c in rows)
    plans = share_partials((plan_aggregate(call),))
    merged = partial(StreamVersionJoin, versions=node.versions)
    joined = two_phases(one_phase, keys, plans, node.versions.keys, merged)
    return columns_of(repeated(joined, node.place), node.schema)
