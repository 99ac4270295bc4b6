"""GROUPING SETS, CUBE and ROLLUP: from the clause to sets of keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, combinations, product
from math import prod

from sqlglot import exp

from planner.aggregates.calls import canonical
from planner.sql.build import (
    bare_column,
    column,
    function_call,
    is_number_literal,
    literal,
    to_sql,
)
from planner.sql.nodes import TextSpan, span_of
from runtime.errors import AnalysisError

# Names the id of a grouping set, as in Flink; no column of a user's begins with a dollar sign
GROUPING_ID = "$e"

# A row is copied once for each; CUBE of 12 columns is 4,096
_MOST_SETS = 2**14

_GROUPINGS = (exp.GroupingSets, exp.Cube, exp.Rollup)
# In Hive's form they are clauses behind the keys
_HIVE_CLAUSES = ("grouping_sets", "cube", "rollup")

_Set = tuple[exp.Expr, ...]


def item_place(key: exp.Expr) -> int | None:
    """The place in the select list, from 1, that a key of GROUP BY names by its number."""
    is_place = is_number_literal(key) and key.name.isdecimal()
    return int(key.name) or None if is_place else None


@dataclass(frozen=True)
class Groupings:
    """What a GROUP BY with several groupings says.

    Attributes:
        keys: the distinct keys, in order of appearance.
        sets: for each grouping the positions of its keys in `keys`.
        place: where the keys of GROUPING SETS, CUBE and ROLLUP stand.
    """

    keys: tuple[exp.Expr, ...]
    sets: tuple[frozenset[int], ...]
    place: TextSpan | None = None

    def ids(self, positions: tuple[int, ...]) -> tuple[int, ...]:
        """The id of each grouping: a bit for each key at `positions` that it leaves out.

        The first key is the highest bit, as GROUPING_ID has it. Groupings that are written twice
        are kept apart by higher bits.
        """
        seen: dict[int, int] = {}
        ids = []
        for kept in self.sets:
            id_ = 0
            for position in positions:
                id_ = 2 * id_ + (position not in kept)
            again = seen[id_] = seen.get(id_, -1) + 1
            ids.append(id_ + (again << len(positions)))
        return tuple(ids)


def has_groupings(group: exp.Group) -> bool:
    """Whether a GROUP BY groups rows several times."""
    is_plain = all(not isinstance(key, _GROUPINGS) for key in group.expressions)
    return not is_plain or any(group.args.get(clause) for clause in _HIVE_CLAUSES)


def groupings_of(group: exp.Group, resolve: Callable[[exp.Expr], exp.Expr]) -> Groupings:
    """The groupings of a GROUP BY, each key as `resolve` makes it.

    Elements side by side multiply. In Hive's form, `GROUP BY a, b GROUPING SETS ((a), (b))` or
    `GROUP BY a, b WITH ROLLUP`, the keys only say what the sets are about.
    """
    hive = list(chain(*(group.args.get(clause) or [] for clause in _HIVE_CLAUSES)))
    if hive:
        parts = [_with_keys(clause, group.expressions) for clause in hive]
    else:
        parts = list(group.expressions)
    number = prod(map(_number_of_sets, parts))
    if number > _MOST_SETS:
        raise AnalysisError(
            f"GROUP BY stands for {number:,} groupings, and {_MOST_SETS:,} are the most",
            subjects=("CUBE", "GROUPING SETS", "ROLLUP", "GROUP BY"),
            hint="name the ones that are needed: GROUPING SETS ((a, b), (a), ())",
        )
    sets = [tuple(chain(*chosen)) for chosen in product(*(_sets(part) for part in parts))]
    leaves = list(chain(*map(_leaves, parts)))
    order: dict[str, tuple[int, exp.Expr]] = {}
    # by identity: a key of a CUBE is one tree that stands in half of the sets
    positions: dict[int, int] = {}
    for key in [*group.expressions, *leaves] if hive else leaves:
        resolved = resolve(key)
        positions[id(key)], _ = order.setdefault(canonical(resolved), (len(order), resolved))
    kept = tuple(frozenset(positions[id(key)] for key in keys) for keys in sets)
    place = span_of(*group.find_all(*_GROUPINGS))
    return Groupings(tuple(expr for _, expr in order.values()), kept, place)


def _with_keys(clause: exp.Expr, keys: list[exp.Expr]) -> exp.Expr:
    """WITH ROLLUP and WITH CUBE name no keys of their own."""
    if clause.expressions:
        return clause
    return type(clause)(expressions=[key.copy() for key in keys])


def _composite(expr: exp.Expr) -> _Set:
    """`(a, b)` as its parts; anything else as itself."""
    if isinstance(expr, exp.Tuple):
        return tuple(expr.expressions)
    return (expr.unnest(),)


def _number_of_sets(expr: exp.Expr) -> int:
    """How many groupings one element of GROUP BY stands for."""
    if isinstance(expr, exp.GroupingSets):
        return sum(map(_number_of_sets, expr.expressions))
    if isinstance(expr, exp.Rollup):
        return len(expr.expressions) + 1
    return 2 ** len(expr.expressions) if isinstance(expr, exp.Cube) else 1


def _sets(expr: exp.Expr) -> list[_Set]:
    """The groupings that one element of GROUP BY stands for."""
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
    """The keys that an element names, in order."""
    if isinstance(expr, _GROUPINGS):
        return list(chain(*map(_leaves, expr.expressions)))
    return list(_composite(expr))


def as_two_sets(groupings: Groupings) -> exp.Group:
    """A GROUP BY of the same keys that stands for two groupings: all keys, and those in every one.

    To Spark's analyser it is the same: it has the same names, types, and keys that can be NULL. It
    takes as long for it as the groupings are many.
    """
    always = frozenset.intersection(*groupings.sets)
    everything = frozenset(range(len(groupings.keys)))
    sets = [
        exp.Tuple(expressions=[groupings.keys[position].copy() for position in sorted(kept)])
        for kept in dict.fromkeys((everything, always))
    ]
    return exp.Group(expressions=[exp.GroupingSets(expressions=sets)])


def check_grouping_calls(select: exp.Select, groupings: Groupings) -> None:
    """GROUPING and GROUPING_ID ask about keys.

    Raises:
        AnalysisError: one asks about something else; without a place.
    """
    items = [item.unalias() for item in select.expressions]
    aliases = {i.alias.lower(): i.this for i in select.expressions if isinstance(i, exp.Alias)}
    keys = list(groupings.keys)
    for key in groupings.keys:  # GROUP BY 1 and GROUP BY alias mean the select list's expression
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
            # a field of a struct looks like a column of a table
            is_name = isinstance(arg, exp.Column) and arg.name.lower() in names
            if not (is_name or canonical(arg) in texts or _without_table(arg) in texts):
                asked = arg.name if isinstance(arg, exp.Column) else to_sql(arg)
                listed = ", ".join(to_sql(key) for key in groupings.keys)
                raise AnalysisError(
                    f"`{to_sql(call)}` asks about `{asked}`, which is not among the group keys",
                    subjects=(to_sql(call), asked),
                    hint=f"the keys are {listed}",
                )


def _without_table(arg: exp.Expr) -> str | None:
    """The canonical text of a field of a struct whose column is qualified, without the table."""
    if not isinstance(arg, exp.Column) or len(arg.parts) < 3:
        return None
    field = arg.copy()
    for outermost in ("catalog", "db", "table"):
        if field.args.get(outermost) is not None:
            field.set(outermost, None)
            return canonical(field)
    return None


def spell_out_grouping_ids(select: exp.Select, groupings: Groupings) -> None:
    """GROUPING_ID(a, b) as a sum of GROUPING(a) and GROUPING(b), in the tree itself.

    Spark wants all the keys in GROUPING_ID, in order, and means all of them where there are none;
    Flink takes any.
    """
    for call in list(select.find_all(exp.Anonymous)):
        if call.name.upper() != "GROUPING_ID":
            continue
        total: exp.Expr = exp.Cast(this=literal(0), to=exp.DataType.build("bigint"))
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
    """GROUPING of the key at `position` among the `n_keys` that the id has bits for."""
    shifted = function_call("SHIFTRIGHT", column(GROUPING_ID), literal(n_keys - 1 - position))
    bit = exp.Mod(this=shifted, expression=literal(2))
    return exp.Cast(this=bit, to=exp.DataType.build("tinyint"))


def never_grouped_away() -> exp.Expr:
    """GROUPING of a key that is in every grouping."""
    return exp.Cast(this=literal(0), to=exp.DataType.build("tinyint"))
