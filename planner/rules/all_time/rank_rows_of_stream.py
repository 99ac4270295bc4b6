"""Rank the rows of a stream without a window, in an operator that keeps the first rows."""

from __future__ import annotations

from dataclasses import replace

from planner.nodes.logical import (
    COPIES,
    NamedExpr,
    Node,
    Project,
    WindowDeduplicate,
    WindowRank,
    WindowRows,
)
from planner.nodes.physical import Exchange, GlobalWindowAggregate, StreamRank, attributes
from planner.nodes.properties import selection_below
from planner.optimizer import Options
from planner.sql.build import cast_as, column
from planner.streams.ranked_rows import first_rows_of, path_to_rows, ranking
from runtime.refusal import Refusal
from runtime.spec.expressions import RankOrder
from runtime.spec.table import IS_DELETED


def rank_rows_of_stream(node: Node, options: Options) -> Node | Refusal | None:
    """Keep the first rows of each key in the state of one operator.

    Fires on a Top-N and a deduplication of a stream without a window, unless ranking or partition
    columns are computed after buffering. Rows are exchanged by the keys, and the operator emits the
    first ones. If rows may be deleted, it keeps all. ROW_NUMBER ranks equal rows by their other
    columns, so that the result does not depend on the order in which rows arrive.

    Example:
        >>> before_after(
        ...     "rank_rows_of_stream",
        ...     "SELECT city, fare FROM ("
        ...     "SELECT *, ROW_NUMBER() OVER (PARTITION BY city ORDER BY ts) AS r FROM rides) "
        ...     "WHERE r = 1",
        ... )
        before:
        Deduplicate(keep=[FirstRow], partitionKeys=[city], orderKey=[ts], order=[ROWTIME])
        +- Exchange(distribution=[hash[city]])
           +- Calc(select=[ts, city, fare])
              +- WindowRows(select=[ts, city, fare, $first_start, $first_end], copies=[$copies])
                 +- Calc(select=[ts, city, fare, $first_start, $first_end, $copies$0 AS
                      $copies])
                    +- GlobalWindowAggregate(groupBy=[ts, city, fare],
                         window=[TUMBLE(slice_end=[$slice_end], size=[1 s])], select=[ts,
                         city, fare, COUNT($copies$0), start('w$) AS $first_start, end('w$) AS
                         $first_end])
                       +- Exchange(distribution=[hash[ts, city, fare]], carries=[Arrow blobs])
                          +- LocalWindowAggregate(groupBy=[ts, city, fare],
                               window=[TUMBLE(time_col=[ts], size=[1 s])], select=[ts, city,
                               fare, COUNT(*) AS $copies$0, slice_end('w$) AS $slice_end])
                             +- SparkSql(sql=[SELECT * FROM rides])
        after:
        Calc(select=[ts, city, fare, CAST($copies AS INT) AS r])
        +- Calc(select=[ts, city, fare, $first_start, $first_end, $copies$0 AS $copies])
           +- GlobalWindowAggregate(groupBy=[ts, city, fare],
                window=[TUMBLE(slice_end=[$slice_end], size=[1 s])], select=[ts, city, fare,
                COUNT($copies$0), start('w$) AS $first_start, end('w$) AS $first_end],
                rankType=[ROW_NUMBER], rankRange=[rankStart=1, rankEnd=1])
              +- Exchange(distribution=[hash[city]], carries=[Arrow blobs])
                 +- LocalWindowAggregate(groupBy=[ts, city, fare],
                      window=[TUMBLE(time_col=[ts], size=[1 s])], keeps=[ROW_NUMBER() OVER
                      (PARTITION BY $slice_end, city ORDER BY ts, fare) <= 1], select=[ts, city,
                      fare, COUNT(*) AS $copies$0, slice_end('w$) AS $slice_end])
                    +- SparkSql(sql=[SELECT * FROM rides])
    """
    if not isinstance(node, WindowRank | WindowDeduplicate) or node.window_columns:
        return None
    path = path_to_rows(node.input)
    if path is None:
        return None
    first = first_rows_of(node, path)
    if isinstance(first, Refusal):
        return first
    if first.function == "ROW_NUMBER":
        named = {*first.by, *(part.column for part in first.order)}
        keys = [key.name for key in path.local.keys if key.name not in named]
        ties = tuple(RankOrder(key, is_descending=False, nulls_first=True) for key in keys)
        has_deleted = IS_DELETED in keys and not path.has_changes
        is_deleted = IS_DELETED if has_deleted else None
        first = replace(first, order=(*first.order, *ties), is_deleted=is_deleted)
    place = next(i for i, below in enumerate(path.nodes) if isinstance(below, WindowRows))
    *_, finished, merged, exchange = path.nodes[place + 1 :]
    assert isinstance(merged, GlobalWindowAggregate) and isinstance(exchange, Exchange)
    # a row that is not among the first may be among them once others are deleted
    selects = {"by": first.by} if path.has_changes else {"first": first}
    exchange = replace(exchange, input=replace(path.local, **selects), keys=first.by)
    of_merged = {**attributes(merged, GlobalWindowAggregate), "input": exchange}
    ttl_us = node.ttl_us if merged.window.closes else None
    ranked = StreamRank(**of_merged, first=first, first_rank=ranking(node)[1], ttl_us=ttl_us)
    rows = finished.with_inputs(ranked)
    *columns, rank = node.schema
    above = path.nodes[:place]
    items = [NamedExpr(c.name, column(_origin(c.name, above))) for c in columns]
    items.append(NamedExpr(rank.name, cast_as(column(COPIES), rank.type)))
    return Project(node.schema, rows, tuple(items))


def _origin(name: str, nodes: tuple[Node, ...]) -> str:
    """Return the name of a column below nodes that only select columns."""
    for node in nodes:
        selection = selection_below(node)
        assert selection is not None, "the path has selections only"
        name = selection[1][name.lower()]
    return name
