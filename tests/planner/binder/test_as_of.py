"""LATERAL with ORDER BY and LIMIT 1 becomes an as-of join; other forms are left to Spark."""

from __future__ import annotations

import pytest
from sqlglot import exp

from planner.binder.joins.as_of import join_as_of
from planner.nodes.joins import AsOfJoin
from planner.nodes.logical import Node, SqlQuery
from planner.sql.build import relation, to_sql
from runtime.spec.filling import AsOfMatching
from runtime.spec.table import Column
from sqlwin.parser.parser import parse_query

COLUMNS = {"k": "string", "ts": "timestamp_ntz", "v": "int", "d": "date"}
PICK = "SELECT r.v AS w FROM r WHERE r.k = l.k AND r.ts <= l.ts ORDER BY r.ts DESC LIMIT 1"


def node_of(query: exp.Query) -> Node | None:
    """Return a query whose items are columns, or a column minus an interval."""
    assert isinstance(query, exp.Select)
    columns: list[Column] = []
    for item in query.expressions:
        source = query.args["from_"].this
        if item.is_star and isinstance(source, exp.Subquery):
            below = node_of(source.this)
            assert below is not None
            columns += below.schema
            continue
        if item.is_star:
            columns += [Column(*pair) for pair in COLUMNS.items()]
            continue
        value = item.unalias()
        value = value.this if isinstance(value, exp.Sub) else value
        if not isinstance(value, exp.Column) or value.name not in COLUMNS:
            return None
        columns.append(Column(item.alias_or_name, COLUMNS[value.name]))
    return SqlQuery(tuple(columns), query)


def joined(sql: str) -> tuple[str, AsOfJoin | None]:
    """Return a query over its as-of join, and the join. None: it is left to Spark."""
    nodes: list[Node] = []

    def relation_of(node: Node) -> exp.Table:
        nodes.append(node)
        return relation("joined")

    query = parse_query(sql)
    assert isinstance(query, exp.Select)
    if not join_as_of(query, node_of, relation_of):
        return "", None
    (node,) = nodes
    assert isinstance(node, AsOfJoin)
    return to_sql(query).replace("`", ""), node


def test_the_sides_are_the_inputs_of_a_node_with_the_columns_that_are_read() -> None:
    text, node = joined(
        f"SELECT v, w, l.ts FROM l LEFT JOIN LATERAL ({PICK}) AS x ON TRUE WHERE w > 1"
    )
    assert text == "SELECT v AS v, w AS w, ts AS ts FROM joined WHERE w > 1"
    assert node is not None
    assert [c.name for c in node.left.schema] == ["k", "ts", "v"]
    assert [c.name for c in node.right.schema] == ["w", "$right0", "$right1"]
    assert node.join_type == "LeftOuter"
    assert node.matching == AsOfMatching(
        (("k", "$right0"),), ("ts", "$right1"), is_before=True, is_inclusive=True
    )


def test_names_of_both_sides_are_renamed_and_items_keep_theirs() -> None:
    pick = PICK.replace("r.v AS w", "*")
    text, _ = joined(f"SELECT *, x.ts, l.v + 1 FROM l JOIN LATERAL ({pick}) AS x ON TRUE")
    assert text.startswith("SELECT k AS k, ts AS ts, v AS v, d AS d, k0 AS k, ts0 AS ts, v0 AS v")
    assert text.endswith("d0 AS d, ts0 AS ts, v + 1 FROM joined")


def test_the_first_of_several_joins_is_the_left_side_of_the_second() -> None:
    pick = "JOIN LATERAL (SELECT * FROM {0} WHERE {0}.k = l.k AND {0}.ts <= {1}.ts ORDER BY {0}.ts DESC LIMIT 1) AS {0}"
    joins = f"LEFT {pick.format('r', 'l')} ON TRUE {pick.format('q', 'r')}"
    text, node = joined(f"SELECT l.*, r.v AS w, q.v + r.d AS x FROM l {joins} ORDER BY q.d, w")
    assert text == (
        "SELECT k AS k, ts AS ts, v AS v, d AS d, v0 AS w, v1 + d0 AS x FROM joined ORDER BY d1, w"
    )
    assert node is not None
    assert [c.name for c in node.left.schema] == ["k", "ts", "v", "d", "ts0", "v0", "d0"]
    (below,) = (part for part in node.left.walk() if isinstance(part, SqlQuery))
    assert "l.v AS v, l.d AS d, r.k AS k0, r.ts AS ts0" in to_sql(below.query).replace("`", "")
    assert node.matching.times[0] == "ts0"
    assert node.join_type == "Inner"

    # Spark would name the first item by its text, and v is ambiguous
    assert joined(f"SELECT r.v + 1 FROM l {joins}")[1] is None
    assert joined(f"SELECT v AS x FROM l {joins}")[1] is None


def test_a_join_before_an_as_of_join_is_its_left_side() -> None:
    pick = f"LEFT JOIN LATERAL ({PICK}) AS x ON TRUE"
    text, node = joined(f"SELECT u.v AS a, x.w AS b FROM l JOIN u ON l.k = u.k {pick}")
    assert node is not None
    assert text == "SELECT v0 AS a, w AS b FROM joined"
    (below,) = (part for part in node.left.walk() if isinstance(part, SqlQuery))
    assert "FROM l JOIN u ON l.k = u.k" in to_sql(below.query).replace("`", "")


@pytest.mark.parametrize(
    ("comparison", "order", "is_before", "is_inclusive"),
    [
        ("r.ts < l.ts", "DESC", True, False),
        ("l.ts >= r.ts", "DESC", True, True),
        ("r.ts > l.ts", "", False, False),
        ("l.ts <= r.ts", "ASC", False, True),
    ],
)
def test_comparisons_choose_the_row(
    comparison: str, order: str, is_before: bool, is_inclusive: bool
) -> None:
    pick = f"SELECT r.v FROM r WHERE r.k = l.k AND {comparison} ORDER BY r.ts {order} LIMIT 1"
    _, node = joined(f"SELECT x.v FROM l, LATERAL ({pick}) AS x")
    assert node is not None
    assert (node.matching.is_before, node.matching.is_inclusive) == (is_before, is_inclusive)
    assert node.join_type == "Inner"


def test_a_comparison_in_the_other_direction_is_a_limit() -> None:
    pick = PICK.replace("r.ts <= l.ts", "r.ts <= l.ts AND r.ts > l.ts - INTERVAL '5' SECOND")
    _, node = joined(f"SELECT x.w FROM l LEFT JOIN LATERAL ({pick}) AS x ON TRUE")
    assert node is not None
    assert node.matching.limits == (("$left2", False),)
    assert node.matching.comparisons == (("ts", ">=", "$right1"), ("$left2", "<", "$right1"))


@pytest.mark.parametrize(
    "pick",
    [
        PICK.replace("LIMIT 1", "LIMIT 2"),
        PICK.replace("LIMIT 1", ""),
        PICK.replace("DESC", ""),
        PICK.replace("r.ts DESC", "r.v DESC"),
        PICK.replace("r.ts DESC", "r.ts DESC, r.v"),
        PICK.replace("r.ts <= l.ts", "r.d <= l.ts"),
        PICK.replace("r.k = l.k", "r.v = l.k"),  # other types
        PICK.replace("r.k = l.k", "r.k <> l.k"),
        PICK.replace("r.ts <= l.ts", "r.ts <= l.ts AND r.ts < l.ts"),
        PICK.replace("r.v AS w", "r.d AS ts").replace("BY r.ts", "BY ts"),
        PICK.replace("AND r.ts <= l.ts", ""),
        PICK.replace("r.v AS w", "MAX(r.v) AS w"),
        PICK.replace("r.v AS w", "l.v AS w"),
        PICK.replace("SELECT", "SELECT DISTINCT"),
    ],
)
def test_other_subqueries_are_left_to_spark(pick: str) -> None:
    assert joined(f"SELECT l.v FROM l LEFT JOIN LATERAL ({pick}) AS x ON TRUE")[1] is None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT l.v FROM l JOIN u USING (k) LEFT JOIN LATERAL ({pick}) AS x ON TRUE",
        "SELECT l.v FROM l JOIN u ON l.k = u.k JOIN r AS q ON l.k = q.k",
        "SELECT l.v FROM l LEFT JOIN LATERAL ({pick}) AS x ON l.v = x.w",
        "SELECT x.v + 1 FROM l LEFT JOIN LATERAL (SELECT r.v FROM r WHERE r.ts < l.ts ORDER BY "
        "r.ts DESC LIMIT 1) AS x ON TRUE",
        "SELECT nothing FROM l LEFT JOIN LATERAL ({pick}) AS x ON TRUE",
        "SELECT x.nothing FROM l LEFT JOIN LATERAL ({pick}) AS x ON TRUE",
        "SELECT l.v FROM l LEFT JOIN LATERAL ({pick}) AS x(w) ON TRUE",
    ],
)
def test_other_queries_are_left_to_spark(sql: str) -> None:
    assert joined(sql.format(pick=PICK))[1] is None
