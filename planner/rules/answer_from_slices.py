"""Answer a local window aggregate from the slices of a materialized table."""

from __future__ import annotations

from sqlglot import exp

from planner.arrow.partials import LocalExpressions, local_expressions
from planner.materialized.derive import Derivation, derive_from_slices
from planner.nodes.logical import Expand, Node, SqlQuery, TableScan
from planner.nodes.physical import (
    LocalWindowAggregate,
    SliceScan,
    attributes,
)
from planner.optimizer import Options
from planner.streams.tables import streams_of
from runtime.plan.local import FileScan, SliceRows
from runtime.refusal import Refusal, Refused, refuse
from runtime.spec.expressions import ColumnRef, column_refs
from runtime.spec.materialized import SLICE_END, LocalForm, SliceTable, is_inserted_rows
from runtime.spec.scan import ScanSource
from runtime.spec.table import Column


def answer_from_slices(node: Node, options: Options) -> Node | Refusal | None:
    """Read the slices of a materialized table instead of the rows of its base table.

    Fires on a local window aggregate over the base table of a materialized table, if

    - the windows consist of whole stored slices;
    - group keys and conditions can be computed from the stored keys; conditions may also bound the
      time column at slice boundaries;
    - all partials are stored or can be derived from stored ones.

    Files of the base table that the slices do not cover yet are read in addition, unless
    `sqlwin.materialized.stale-read` is `allow`.

    Example:
        >>> before_after(
        ...     "answer_from_slices",
        ...     "SELECT city, window_end, SUM(fare) AS s "
        ...     "FROM TABLE(HOP(TABLE trips, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '1' DAY)) "
        ...     "GROUP BY city, window_start, window_end",
        ... )
        before:
        LocalWindowAggregate(groupBy=[city], window=[HOP(time_col=[ts], size=[1 d], slide=[1 h])],
          select=[city, SUM(fare) AS s$0, slice_end('w$) AS $slice_end])
        +- TableSourceScan(table=[trips], connector=[filesystem], fields=[ts, city, fare])
        after:
        SliceScan(table=[hourly], version=[7], slices=[1 h], rows=[1,000], groupBy=[city],
          window=[HOP(time_col=[ts], size=[1 d], slide=[1 h])], select=[city, SUM(fare) AS s$0,
          slice_end('w$) AS $slice_end])
    """
    # A scan that reads files was considered before it was built.
    if type(node) is not LocalWindowAggregate:
        return None
    catalog = options.catalog
    names = _tables(node)
    opened = [table for name in names for table in catalog.slice_tables(name)]
    tables = [table for table in opened if not isinstance(table, Refusal)]
    # Rows copied for grouping sets are expanded later, above the aggregate.
    is_expanded = any(isinstance(below, Expand) for below in node.walk_up())
    if not opened or is_expanded or streams_of(node.input, catalog):
        return None
    if not options.rewrites_to_slices and not any(map(is_inserted_rows, names)):
        return Refusal("sqlwin.materialized.rewrite is false")
    try:
        expressions = local_expressions(
            node.input, node.keys, node.plans, node.time_column, catalog, options.time_zone
        )
    except Refused as refused:
        return refused.refusal.of(", ".join(table.name for table in tables) or "slices")
    base = ".".join(expressions.rows.table).lower()
    answers: list[SliceScan] = []
    refusals = [table for table in opened if isinstance(table, Refusal)]
    for table in tables:
        try:
            answers.append(_answer(table, base, node, expressions, options))
        except Refused as refused:
            refusals.append(refused.refusal.of(table.name))
    if answers:
        return min(answers, key=lambda scan: sum(source.n_rows for source in scan.sources))
    return Refusal("; ".join(map(str, refusals)))


def _tables(node: Node) -> list[str]:
    """Return the distinct lower-case names of the tables below a node."""
    tables: dict[str, None] = {}
    for below in node.walk_up():
        if isinstance(below, TableScan):
            tables[below.table.lower()] = None
        elif isinstance(below, SqlQuery):
            for table in below.query.find_all(exp.Table):
                tables[".".join(part.name for part in table.parts).lower()] = None
    return list(tables)


def _answer(
    table: SliceTable,
    base: str,
    node: LocalWindowAggregate,
    expressions: LocalExpressions,
    options: Options,
) -> SliceScan:
    """Answer the node from one table.

    Raises:
        Refused: The table cannot answer it.
    """
    refusal = dict(options.refused_slices).get(table.name)
    if refusal is not None:
        raise Refused(refusal)
    if table.form.base != base:
        refuse(f"its base table is {table.form.base}")
    if table.is_inserted and not is_inserted_rows(table.form.base) and not options.reads_stale:
        refuse(
            f"its rows come from INSERT and may differ from {table.form.base}: SET "
            "'sqlwin.materialized.stale-read' = 'allow' to use them"
        )
    derivation = derive_from_slices(table.form, node, expressions, options.time_zone)
    files = options.catalog.slice_files(table, derivation.range_us, expressions.columns)
    tail = None
    if files.tail is not None and not options.reads_stale:
        tail = FileScan(
            expressions.keys,
            expressions.partials,
            expressions.time,
            options.time_zone,
            expressions.rows.filters,
            files.tail,
        )
    read = [*derivation.filters, *(key for _, key in derivation.keys), _END]
    read += [arg for partial in derivation.partials for arg in partial.args]
    columns = {ref.name: ref.type for expression in read for ref in column_refs(expression)}
    order = [Column(name, columns[name]) for name in table.form.columns if name in columns]
    source = ScanSource(table.path, files.files, tuple(order), n_rows=files.n_rows)
    rows = SliceRows(
        derivation.keys,
        derivation.partials,
        source,
        derivation.filters,
        tail,
        are_apart=_stay_apart(table.form, node, derivation),
    )
    return SliceScan(
        **attributes(node, LocalWindowAggregate),
        table=table,
        rows=rows,
        conditions=expressions.rows.conditions,
        tail_files=0 if tail is None else files.tail_files,
    )


def _stay_apart(form: LocalForm, node: LocalWindowAggregate, derivation: Derivation) -> bool:
    """Return whether no two stored slices merge into one."""
    grid, window = form.grid, node.window
    if grid.is_calendar or not window.has_slices or window.is_calendar:
        return False
    read = {key.name for _, key in derivation.keys if isinstance(key, ColumnRef)}
    is_as_wide = window.slice_width_us == grid.slice_width_us
    return is_as_wide and read.issuperset(key.name for key in form.keys)


_END = ColumnRef(SLICE_END, "bigint")
