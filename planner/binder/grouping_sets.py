"""Parse GROUPING SETS, CUBE and ROLLUP into sets of keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, combinations, product
from math import prod

from sqlglot import exp

from planner.aggregates.calls import canonical
from planner.sql.build import (
    bare_column,
    cast_as,
    column,
    function_call,
    is_number_literal,
    literal,
    to_sql,
)
from planner.sql.nodes import TextSpan, span_of
from runtime.errors import AnalysisError

# Column with the id of a grouping set, as in Flink. User columns never begin with a dollar sign.
GROUPING_ID = "$e"

# A row is copied once per set. CUBE of 12 columns has 4,096.
_MAX_SETS = 2**14

_GROUPINGS = (exp.GroupingSets, exp.Cube, exp.Rollup)
# Hive writes these clauses after the keys
_HIVE_CLAUSES = ("grouping_sets", "cube", "rollup")

_Set = tuple[exp.Expr, ...]


def item_place(key: exp.Expr) -> int | None:
    """Return the 1-based position in the select list that a numeric GROUP BY key refers to."""
    is_place = is_number_literal(key) and key.name.isdecimal()
    return int(key.name) or None if is_place else None


@dataclass(frozen=True)
class Groupings:
    """Content of a GROUP BY with several groupings.

    Attributes:
        keys: Distinct keys in order of appearance.
        sets: For each grouping, the positions of its keys in `keys`.
        place: Source position of the keys of GROUPING SETS, CUBE and ROLLUP.
    """

    keys: tuple[exp.Expr, ...]
    sets: tuple[frozenset[int], ...]
    place: TextSpan | None = None

    def ids(self, positions: tuple[int, ...]) -> tuple[int, ...]:
        """Return the id of each grouping, with a bit for each key at `positions` that it omits.

        The first key is the highest bit, as in GROUPING_ID. Higher bits distinguish groupings that
        occur twice.
        """
        seen: dict[int, int] = {}
        ids = []
        for grouping in self.sets:
            id_ = 0
            for position in positions:
                id_ = 2 * id_ + (position not in grouping)
            again = seen[id_] = seen.get(id_, -1) + 1
            ids.append(id_ + (again << len(positions)))
        return tuple(ids)


def has_groupings(group: exp.Group) -> bool:
    """Return whether a GROUP BY has several groupings."""
    is_plain = all(not isinstance(key, _GROUPINGS) for key in group.expressions)
    return not is_plain or any(group.args.get(clause) for clause in _HIVE_CLAUSES)


def groupings_of(group: exp.Group, resolve: Callable[[exp.Expr], exp.Expr]) -> Groupings:
    """Return the groupings of a GROUP BY, with each key transformed by `resolve`.

    Several elements form their cross product. In Hive's syntax, `GROUP BY a, b GROUPING SETS ((a),
    (b))` or `GROUP BY a, b WITH ROLLUP`, the keys before the clause are not a grouping of their
    own.
    """
    hive = list(chain(*(group.args.get(clause) or [] for clause in _HIVE_CLAUSES)))
    if hive:
        parts = [_add_keys(clause, group.expressions) for clause in hive]
    else:
        parts = list(group.expressions)
    number = prod(map(_number_of_sets, parts))
    if number > _MAX_SETS:
        raise AnalysisError(
            f"GROUP BY expands to {number:,} grouping sets, but the maximum is {_MAX_SETS:,}",
            subjects=("CUBE", "GROUPING SETS", "ROLLUP", "GROUP BY"),
            hint="list only the grouping sets that you need: GROUPING SETS ((a, b), (a), ())",
        )
    sets = [tuple(chain(*chosen)) for chosen in product(*(_sets(part) for part in parts))]
    leaves = list(chain(*map(_leaves, parts)))
    order: dict[str, tuple[int, exp.Expr]] = {}
    # By identity: half of the sets of a CUBE contain the same key tree.
    positions: dict[int, int] = {}
    for key in [*group.expressions, *leaves] if hive else leaves:
        resolved = resolve(key)
        positions[id(key)], _ = order.setdefault(canonical(resolved), (len(order), resolved))
    sets_of_positions = tuple(frozenset(positions[id(key)] for key in keys) for keys in sets)
    place = span_of(*group.find_all(*_GROUPINGS))
    return Groupings(tuple(expr for _, expr in order.values()), sets_of_positions, place)


def _add_keys(clause: exp.Expr, keys: list[exp.Expr]) -> exp.Expr:
    """Add the keys to WITH ROLLUP and WITH CUBE, which do not list them."""
    if clause.expressions:
        return clause
    return type(clause)(expressions=[key.copy() for key in keys])


def _composite(expr: exp.Expr) -> _Set:
    """Return the parts of `(a, b)`, or a single expression as a set."""
    if isinstance(expr, exp.Tuple):
        return tuple(expr.expressions)
    return (expr.unnest(),)


def _number_of_sets(expr: exp.Expr) -> int:
    """Return the number of groupings that one element of GROUP BY expands to."""
    if isinstance(expr, exp.GroupingSets):
        return sum(map(_number_of_sets, expr.expressions))
    if isinstance(expr, exp.Rollup):
        return len(expr.expressions) + 1
    return 2 ** len(expr.expressions) if isinstance(expr, exp.Cube) else 1


def _sets(expr: exp.Expr) -> list[_Set]:
    """Return the groupings that one element of GROUP BY expands to."""
    if isinstance(expr, exp.GroupingSets):
        return list(chain(*map(_sets, expr.expressions)))
    parts = [_composite(part) for part in expr.expressions]
    if isinstance(expr, exp.Rollup):
        return [tuple(chain(*parts[:n])) for n in range(len(parts), -1, -1)]
    if isinstance(expr, exp.Cube):
        sizes = range(len(parts), -1, -1)
        return [tuple(chain(*some)) for n in sizes for some in combinations(parts, n)]
    return [_composite(expr)]


def _leaves(expr: exp.Expr) -> list[exp.Expr]:
    """Return the keys in an element, in order."""
    if isinstance(expr, _GROUPINGS):
        return list(chain(*map(_leaves, expr.expressions)))
    return list(_composite(expr))


def two_grouping_sets(groupings: Groupings) -> exp.Group:
    """Return a GROUP BY of the same keys with two groupings: all keys, and the keys in every set.

    Spark's analyser derives the same names, types and nullability from it, but its run time grows
    with the number of groupings.
    """
    always = frozenset.intersection(*groupings.sets)
    everything = frozenset(range(len(groupings.keys)))
    sets = [
        exp.Tuple(expressions=[groupings.keys[position].copy() for position in sorted(positions)])
        for positions in dict.fromkeys((everything, always))
    ]
    return exp.Group(expressions=[exp.GroupingSets(expressions=sets)])


def check_grouping_calls(select: exp.Select, groupings: Groupings) -> None:
    """Check that GROUPING and GROUPING_ID refer to keys.

    Raises:
        AnalysisError: An argument is not a key. The error has no position.
    """
    items = [item.unalias() for item in select.expressions]
    aliases = {i.alias.lower(): i.this for i in select.expressions if isinstance(i, exp.Alias)}
    keys = list(groupings.keys)
    # ordinals and aliases in GROUP BY refer to the select list's expression
    for key in groupings.keys:
        place = item_place(key)
        if place is not None and place <= len(items):
            keys.append(items[place - 1])
        elif (alias := aliases.get((bare_column(key) or "").lower())) is not None:
            keys.append(alias)
    names = {(bare_column(key) or "").lower() for key in keys} | aliases.keys()
    texts = {canonical(key) for key in keys}
    for call in select.find_all(exp.Anonymous):
        if call.name.upper() not in ("GROUPING", "GROUPING_ID"):
            continue
        for arg in call.expressions:
            # A struct field parses like a qualified column.
            is_name = isinstance(arg, exp.Column) and arg.name.lower() in names
            if not (is_name or canonical(arg) in texts or _without_table(arg) in texts):
                argument = arg.name if isinstance(arg, exp.Column) else to_sql(arg)
                key_names = ", ".join(to_sql(key) for key in groupings.keys)
                raise AnalysisError(
                    f"the argument `{argument}` of `{to_sql(call)}` is not a group key",
                    subjects=(to_sql(call), argument),
                    hint=f"group keys: {key_names}",
                )


def _without_table(arg: exp.Expr) -> str | None:
    """Return the canonical text, without the table, of a field of a qualified struct column."""
    if not isinstance(arg, exp.Column) or len(arg.parts) < 3:
        return None
    field = arg.copy()
    for outermost in ("catalog", "db", "table"):
        if field.args.get(outermost) is not None:
            field.set(outermost, None)
            return canonical(field)
    return None


def spell_out_grouping_ids(select: exp.Select, groupings: Groupings) -> None:
    """Rewrite, in place, GROUPING_ID(a, b) as a sum of GROUPING(a) and GROUPING(b).

    Spark requires all keys in order, or none to mean all of them; Flink accepts any keys.
    """
    for call in list(select.find_all(exp.Anonymous)):
        if call.name.upper() != "GROUPING_ID":
            continue
        total: exp.Expr = cast_as(literal(0), "bigint")
        for arg in call.expressions or groupings.keys:
            bit = function_call("GROUPING", arg)
            total = exp.Add(
                this=exp.Paren(this=exp.Mul(this=exp.Paren(this=total), expression=literal(2))),
                expression=bit,
            )
        new: exp.Expr = exp.Paren(this=total)
        if call.parent is select:
            name = exp.Identifier(this=to_sql(call).lower(), quoted=True)
            new = exp.Alias(this=new, alias=name)
        call.replace(new)


def grouping_bit(position: int, n_keys: int) -> exp.Expr:
    """Return GROUPING of the key at `position`, for a grouping id with `n_keys` bits."""
    shifted = function_call("SHIFTRIGHT", column(GROUPING_ID), literal(n_keys - 1 - position))
    bit = exp.Mod(this=shifted, expression=literal(2))
    return cast_as(bit, "tinyint")


def never_grouped_away() -> exp.Expr:
    """Return GROUPING of a key that is in all groupings."""
    return cast_as(literal(0), "tinyint")
