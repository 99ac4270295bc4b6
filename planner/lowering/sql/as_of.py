"""As-of joins on a target: its own join, or both sides sorted together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from planner.lowering.sql.refusals import refuse_part
from planner.lowering.sql.relations import Ctes, Source, over, rows_before, select, union_all
from planner.lowering.sql.text import (
    OPERATORS,
    all_of,
    binary,
    call,
    case,
    cast,
    is_flat,
    not_null,
    number,
)
from planner.nodes.aggregate_plans import TIME
from runtime.plan.arrow_rows import AsOfRows

# 1 for rows of the left side, else 0; number of right rows up to a row
_IS_LEFT, _MATCH = "$is_left", "$match"


def join_as_of(
    ctes: Ctes,
    node: AsOfRows,
    sides: tuple[Source, Source],
    types: Mapping[str, str],
) -> exp.Select:
    """Return the rows of an as-of join.

    Args:
        ctes: CTEs of the text.
        node: The join.
        sides: Its sides, whose columns have the names of the plan.
        types: Types of their columns.

    Raises:
        NotPortable: The target has no such rows.
    """
    return _AsOfWriter(ctes, node, sides, types).write()


def _key_names(n_keys: int) -> list[str]:
    return [f"$key{number}" for number in range(n_keys)]


class _AsOfWriter:
    """Writer of one as-of join. Arguments are as in `join_as_of`."""

    def __init__(
        self, ctes: Ctes, node: AsOfRows, sides: tuple[Source, Source], types: Mapping[str, str]
    ) -> None:
        self.ctes, self.target, self.matching = ctes, ctes.target, node.matching
        self.keeps_all, self.sides, self.types = node.keeps_all, sides, types
        self.left, self.right = (ctes.items(*side.columns) for side in sides)

    def write(self) -> exp.Select:
        """Return the rows."""
        if not self.target.has_as_of_joins:
            is_left = binary(exp.EQ, self.ctes.names.column(_IS_LEFT), 1)
            return self._within_limits(self._picked(), is_left)
        joined = self._joined()
        if not self.matching.limits:
            return joined
        return self._within_limits(self.ctes.add("nearest", joined), None)

    def _within_limits(self, picked: exp.Table, is_left: exp.Expr | None) -> exp.Select:
        """Return the left rows, with the right rows that are within the limits."""
        conditions = [self._holds(*parts) for parts in self.matching.comparisons[1:]]
        if not self.keeps_all:
            if is_left is not None:
                conditions = [binary(exp.GT, self.ctes.names.column(_MATCH), 0), *conditions]
            whole = all_of(part for part in (is_left, *conditions) if part is not None)
            return select([*self.left, *self.right], picked, whole)
        within = all_of(conditions)
        right = [
            col if within is None else self.ctes.named(self._only_if(within, col, name), name)
            for col, name in zip(self.right, self.sides[1].columns, strict=True)
        ]
        return select([*self.left, *right], picked, is_left)

    def _only_if(self, condition: exp.Expr, column: exp.Expr, name: str) -> exp.Expr:
        return self.target.typed(case([(condition, column)]), self.types[name])

    def _holds(self, left: str, sign: str, right: str) -> exp.Expr:
        """Return a comparison of times."""
        compared = [
            self.target.compared(self.ctes.names.column(name), self.types[name])
            for name in (left, right)
        ]
        return binary(OPERATORS[sign], *compared)

    def _grouped(self, names: Sequence[str]) -> list[exp.Expr]:
        return [
            self.target.grouped(self.ctes.names.column(name), self.types[name]) for name in names
        ]

    # -- the target's own join -----------------------------------------------------------------

    def _joined(self) -> exp.Select:
        pairs = zip(*(self._grouped(keys) for keys in self._keys()), strict=True)
        conditions = [binary(exp.EQ, *pair) for pair in pairs]
        conditions.append(self._holds(*self.matching.comparisons[0]))
        query = select([*self.left, *self.right], self.sides[0].name)
        join = exp.Join(
            this=self.sides[1].name.copy(),
            on=all_of(conditions),
            method="ASOF",
            side="LEFT" if self.keeps_all else None,
        )
        query.set("joins", [join])
        return query

    def _keys(self) -> tuple[list[str], list[str]]:
        """Return the keys of each side."""
        return [left for left, _ in self.matching.keys], [right for _, right in self.matching.keys]

    # -- both sides sorted together ------------------------------------------------------------

    def _picked(self) -> exp.Table:
        """Add both sides, with the right row that each row picks."""
        is_left, match = self.ctes.items(_IS_LEFT, _MATCH)
        keys = self.ctes.items(*_key_names(len(self.matching.keys)))
        both = self.ctes.add(
            "both_sides",
            union_all([self._rows(0), self._rows(1)]),
        )
        times = self.ctes.items(*(f"{TIME}{number}" for number in range(len(self._times(0)))))
        order = [
            *(
                exp.Ordered(this=time, desc=not self.matching.is_before, nulls_first=True)
                for time in times
            ),
            exp.Ordered(this=is_left.copy(), desc=not self.matching.is_inclusive),
        ]
        one = case([(binary(exp.EQ, is_left, 0), number(1))])
        partition = keys or self.target.partition_of_all(times[0])
        count = over(call("COUNT", one), partition, order, rows_before(None))
        rows = [*self.left, *self.right, is_left, *keys]
        counted = self.ctes.add(
            "numbered_sides",
            select([*rows, self.ctes.named(count, _MATCH)], both),
            "match is the number of rows of the right side up to a row",
        )
        # of the rows with one number, one is of the right side
        values = [
            self.ctes.named(self._first(col, name, [*keys, match]), name)
            for col, name in zip(self.right, self.sides[1].columns, strict=True)
        ]
        return self.ctes.add("nearest", select([*self.left, *values, is_left, match], counted))

    def _first(self, col: exp.Expr, name: str, by: Sequence[exp.Expr]) -> exp.Expr:
        """Return the value of the row of the right side among the rows of one number."""
        first = over(call("FIRST_VALUE", col), by, self.ctes.items(_IS_LEFT))
        return self.target.typed(first, self.types[name])

    def _times(self, side: int) -> list[exp.Expr]:
        """Return the keys that order the rows of a side."""
        name = self.matching.times[side]
        return self.target.sort_keys(self.ctes.names.column(name), self.types[name])

    def _rows(self, place: int) -> exp.Select:
        """Return the rows of a side, with NULL in the columns of the other one."""
        items = [
            column if side is self.sides[place] else self._null(name)
            for side in self.sides
            for column, name in zip(self.ctes.items(*side.columns), side.columns, strict=True)
        ]
        names = self._keys()[place]
        compared = [
            *zip(self._grouped(names), _key_names(len(names)), strict=True),
            *((time, f"{TIME}{number}") for number, time in enumerate(self._times(place))),
            (number(1 - place), _IS_LEFT),
        ]
        extra = [self.ctes.named(value, name) for value, name in compared]
        have = [not_null(col) for col in self.ctes.items(*names, self.matching.times[place])]
        has_all = all_of(have) if place else None
        return select([*items, *extra], self.sides[place].name, has_all)

    def _null(self, name: str) -> exp.Expr:
        if not is_flat(self.types[name]):
            refuse_part(f"as-of joins of {self.types[name].upper()} are not compiled", name)
        return self.ctes.named(cast(exp.Null(), self.types[name]), name)
