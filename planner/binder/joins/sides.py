"""The two sides of a window join: their column names and the join keys."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from planner.nodes.joins import WindowJoin
from planner.nodes.logical import AttachedWindow, Node, columns_of, is_identified
from planner.nodes.window_columns import rename_windows
from planner.sql.build import column, conjunction, function_call
from planner.sql.nodes import TextSpan, merge_spans
from runtime.refusal import refuse

# These joins return only the left side's columns
_LEFT_ALONE = ("LeftSemi", "LeftAnti")


@dataclass(frozen=True)
class Side:
    """A relation of a FROM clause: its node, its name and the windows of its rows, if any."""

    node: Node
    name: str
    attached: AttachedWindow | None = None


class Sides:
    """The two sides of a join, with unique column names.

    Args:
        left: The left side.
        right: The right side.
        join_type: Join type, as in `WindowJoin`.
        using: Lower-case names of columns that both sides share and the join merges.
    """

    def __init__(
        self, left: Side, right: Side, join_type: str, using: tuple[str, ...] = ()
    ) -> None:
        self.left, self.right, self.join_type, self.using = left, right, join_type, using
        self.left_names = {c.name.lower(): c.name for c in left.node.schema}
        taken = set(self.left_names)
        self.right_names: dict[str, str] = {}
        for c in right.node.schema:
            name, number = c.name, 0
            others = {other.name.lower() for other in right.node.schema} - {c.name.lower()}
            while name.lower() in taken or (name != c.name and name.lower() in others):
                name, number = f"{c.name}{number}", number + 1
            taken.add(name.lower())
            self.right_names[c.name.lower()] = name

    @property
    def names(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the new names of both sides' columns by lower-case old name."""
        return self.left_names, self.right_names

    def equalities(self) -> list[exp.Expr]:
        """Return the equalities that USING implies."""
        return [
            exp.EQ(this=column(self.left_names[name]), expression=column(self.right_names[name]))
            for name in self.using
        ]

    def using_column(self, name: str) -> exp.Expr:
        """Return the column that USING merges from both sides."""
        left, right = column(self.left_names[name]), column(self.right_names[name])
        if self.join_type == "FullOuter":
            return function_call("COALESCE", left, right)
        return right if self.join_type == "RightOuter" else left

    def all_columns(self) -> list[exp.Expr]:
        """Return the columns of `*`: first the USING columns, then the others of each side."""
        names = (self.left_names,) if self.join_type in _LEFT_ALONE else self.names
        others = [new for side in names for old, new in side.items() if old not in self.using]
        return [*map(self.using_column, self.using), *map(column, others)]

    def resolve(self, expr: exp.Expr) -> exp.Expr | None:
        """Rewrite an expression over both sides' new names, or return None for other columns."""
        result: exp.Expr = exp.Paren(this=expr.copy())
        for col in list(result.find_all(exp.Column)):
            new = None if col.is_star else self.column(col)
            if new is None:
                return None
            col.replace(new)
        return result.unnest()

    def column(self, col: exp.Column) -> exp.Expr | None:
        """Return a column under its new name. Fields of a struct stay fields."""
        first, *fields = col.parts
        owners = [
            names
            for side, names in zip((self.left, self.right), self.names, strict=True)
            if fields and first.name.lower() == side.name.lower()
        ]
        if owners:
            first, *fields = fields
        name = first.name.lower()
        if not owners and name in self.using:
            new = self.using_column(name)
        else:
            owners = owners or [names for names in self.names if name in names]
            if len(owners) != 1 or name not in owners[0]:
                return None
            new = column(owners[0][name])
        for node in new.find_all(exp.Column):
            node.this.meta.update(col.parts[-1].meta)
        return exp.Dot.build([new, *(part.copy() for part in fields)]) if fields else new

    def join(self, parts: list[exp.Expr], spans: list[TextSpan | None]) -> WindowJoin:
        """Build the join node for these conditions, whose source positions are `spans`.

        Raises:
            Refused: The conditions do not join windows.
        """
        left_window, right_window = self.left.attached, self.right.attached
        assert left_window is not None and right_window is not None, "both sides carry windows"
        right_window = rename_windows(right_window, self.right_names.items())
        assert right_window is not None, "all columns are passed on"
        windows, keys, key_places, rest = [], [], [], []
        for part, span in zip(parts, spans, strict=True):
            pair = self._pair(part)
            if pair is None:
                rest.append(part)
                continue
            roles = left_window.role_of(pair[0]), right_window.role_of(pair[1])
            if roles[0] is not None and roles[0] == roles[1]:
                windows.append((roles[0], pair))
            else:
                keys.append(pair)
                key_places.append(span)
        if not is_identified(left_window.spec, [role for role, _ in windows]):
            ends = left_window.end or left_window.start or "window_end"
            reason = f"ON does not compare {ends} of both sides"
            if self.using:
                reason = f"USING does not contain {ends}"
            refuse(reason, "Spark joins all rows")
        left, right = self.left.node, self.renamed_right()
        semi = self.join_type in _LEFT_ALONE
        outer_left = self.join_type in ("RightOuter", "FullOuter")
        outer_right = self.join_type in ("LeftOuter", "FullOuter")
        schema = tuple(replace(c, nullable=c.nullable or outer_left) for c in left.schema)
        if not semi:
            schema += tuple(replace(c, nullable=c.nullable or outer_right) for c in right.schema)
        return WindowJoin(
            schema,
            left,
            right,
            self.join_type,
            left_window,
            right_window,
            tuple(pair for _, pair in windows),
            tuple(keys),
            conjunction(rest),
            key_places=tuple(key_places),
            place=merge_spans(spans),
        )

    def _pair(self, part: exp.Expr) -> tuple[str, str] | None:
        """Return the column names of `l = r` or `r = l`, left side first."""
        if not isinstance(part, exp.EQ):
            return None
        names = [
            side.name if isinstance(side, exp.Column) and not side.table else None
            for side in (part.this.unnest(), part.expression.unnest())
        ]
        for a, b in (names, names[::-1]):
            if a in self.left_names.values() and b in self.right_names.values():
                return str(a), str(b)
        return None

    def renamed_right(self) -> Node:
        """Return the right side with the new names of its columns."""
        node = self.right.node
        new = tuple(replace(c, name=self.right_names[c.name.lower()]) for c in node.schema)
        return node if new == node.schema else columns_of(node, new, (c.name for c in node.schema))
