"""What ranks rows, as the runtime has it."""

from __future__ import annotations

from sqlglot import exp

from planner.sql.build import to_sql
from runtime.spec.stream import RankOrder


def rank_order(name: str, ordered: exp.Ordered) -> RankOrder:
    """The order by a column, as Spark reads it.

    NULLs are the smallest values unless the text says where they are.

    Args:
        name: the column.
        ordered: the item of ORDER BY.
    """
    is_descending = bool(ordered.args.get("desc"))
    text = to_sql(ordered).upper()
    nulls_first = not is_descending
    if text.endswith("NULLS FIRST") or text.endswith("NULLS LAST"):
        nulls_first = text.endswith("NULLS FIRST")
    return RankOrder(name, is_descending, nulls_first)
