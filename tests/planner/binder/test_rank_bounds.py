"""Rank bounds of random conditions keep all rows that the condition keeps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planner.binder.rank_bounds import rank_bounds
from planner.sql.build import conjuncts
from sqlwin.parser.parser import parse_query

NUMBERS = st.integers(0, 6)
LEAVES = st.one_of(
    st.builds("rn {} {}".format, st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]), NUMBERS),
    st.builds("{} {} t.rn".format, NUMBERS, st.sampled_from(["<", "<=", ">", ">=", "=", "<>"])),
    st.builds("rn BETWEEN {} AND {}".format, NUMBERS, NUMBERS),
    st.builds("rn IN ({}, {})".format, NUMBERS, NUMBERS),
    st.sampled_from(["v > 0", "rn = v"]),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=6,
)


def holds(condition: str, rn: int, v: int) -> bool:
    """Evaluate a condition for a row in Python, whose syntax is almost that of SQL."""
    text = condition.replace("t.rn", "rn").replace("<>", "!=").replace(" = ", " == ")
    for sql, python in (("NOT", "not"), ("AND", "and"), ("OR", "or"), (" IN ", " in ")):
        text = text.replace(sql, python)
    while " BETWEEN " in text:
        before, _, rest = text.partition("rn BETWEEN ")
        low, _, high = rest.partition(" and ")
        digits = high[:1]
        text = f"{before}({low} <= rn <= {digits}){high[1:]}"
    return bool(eval(text, {"rn": rn, "v": v}))


@given(CONDITIONS)
def test_rank_bounds_keep_the_rows_of_the_condition(condition: str) -> None:
    where = parse_query(f"SELECT * FROM t WHERE {condition}").args["where"]
    parts = [rank_bounds(part, "rn", "t") for part in conjuncts(where)]
    for rn in range(1, 9):
        is_within = all(b.first <= rn and (b.last is None or rn <= b.last) for b in parts)
        result = {holds(condition, rn, v) for v in range(-1, 8)}
        assert is_within or result == {False}
        if all(b.is_all for b in parts):
            assert result == {is_within}
