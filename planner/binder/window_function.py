"""The arguments of a window table function, looked up among the columns of its data."""

from __future__ import annotations

from planner.catalog import Schema, column_named
from planner.nodes.logical import NamedExpr, Node, Project, WindowColumns
from planner.sql.build import column, is_timestamp
from planner.sql.nodes import WINDOW_COLUMNS, WindowFunction, position_of
from runtime.errors import AnalysisError, nearest
from runtime.spec.table import Column


def time_column(function: WindowFunction, schema: Schema, sql: str) -> Column:
    """The column of a window function's DESCRIPTOR, a TIMESTAMP; else an AnalysisError."""
    descriptor = function.args["timecol"]
    found = column_named(schema, descriptor.name)
    times = [f"`{c.name}`" for c in schema if is_timestamp(c.type)]
    hint = "columns of that type: " + ", ".join(times) if times else None
    if found is None:
        close = nearest(descriptor.name, [c.name for c in schema])
        raise AnalysisError(
            f"column `{descriptor.name}` does not exist in the data of {function.kind}",
            position=position_of(descriptor, sql),
            sql=sql,
            hint=f"did you mean `{close}`?" if close else hint,
        )
    if not is_timestamp(found.type):
        raise AnalysisError(
            f"{function.kind} needs a TIMESTAMP or TIMESTAMP_LTZ column to put windows on, "
            f"but `{found.name}` is {found.type.upper()}",
            position=position_of(descriptor, sql),
            sql=sql,
            hint=hint or "make one in a subquery: CAST(... AS TIMESTAMP)",
        )
    return found


def partition_columns(function: WindowFunction, schema: Schema, sql: str) -> tuple[str, ...]:
    """The columns of PARTITION BY, by their names in the data."""
    names = []
    for key in function.args.get("partition") or []:
        found = column_named(schema, key.name)
        if found is None:
            close = nearest(key.name, [c.name for c in schema])
            raise AnalysisError(
                f"column `{key.name}` in PARTITION BY does not exist in the data of "
                f"{function.kind}",
                position=position_of(key, sql),
                sql=sql,
                hint=f"did you mean `{close}`?" if close else None,
            )
        names.append(found.name)
    return tuple(dict.fromkeys(names))


def refuse_window_columns(function: WindowFunction, schema: Schema, sql: str) -> None:
    """An AnalysisError where the data already has a column that the window adds."""
    taken = [name for name in WINDOW_COLUMNS if column_named(schema, name)]
    if taken:
        raise AnalysisError(
            f"the data of {function.kind} already has a column `{taken[0]}`",
            position=position_of(function.args["data"], sql) or position_of(function.this, sql),
            sql=sql,
            hint=f"rename it in a subquery: SELECT {taken[0]} AS inner_{taken[0]}, ...",
        )


def renamed_columns(
    function: WindowFunction, source: Node, time: Column, sql: str
) -> tuple[Node, WindowColumns, Column]:
    """The data under the names of `AS t(a, b, ..., ws, we, wt)`."""
    alias = function.args["alias"]
    names = [c.name for c in alias.columns]
    if len(names) != len(source.schema) + 3:
        raise AnalysisError(
            f"{function.kind} yields {len(source.schema) + 3} columns, but the alias names "
            f"{len(names)}",
            position=position_of(alias, sql),
            sql=sql,
            hint="the data's columns come first, then window_start, window_end, window_time",
        )
    renamed = tuple(
        Column(name, c.type, c.nullable) for name, c in zip(names, source.schema, strict=False)
    )
    items = tuple(
        NamedExpr(new.name, column(old.name))
        for new, old in zip(renamed, source.schema, strict=True)
    )
    time = renamed[[c.name for c in source.schema].index(time.name)]
    return Project(renamed, source, items), WindowColumns(*names[-3:]), time
