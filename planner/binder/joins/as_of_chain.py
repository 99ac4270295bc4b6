"""Nest as-of joins and joins that follow each other, so that each has one relation on its left.

FROM a JOIN LATERAL (...) AS b ON TRUE JOIN c ON a.k = c.k
FROM (SELECT ... FROM a JOIN LATERAL (...) AS b ON TRUE) AS pairs JOIN c ON pairs.k = c.k
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

from sqlglot import exp

from planner.catalog import Schema
from planner.sql.build import alias, column, select_all_from, select_items, star_leaves_out
from planner.sql.parts import own_clauses

# Clauses in which a name of the select list takes precedence over a column
_AFTER = ("order", "having", "qualify")
# Function that returns the columns of a query, or None if they are unknown
SchemaOf = Callable[[exp.Query], Schema | None]


@dataclass(frozen=True)
class _Names:
    """Columns of the relations of a FROM clause, by names in lower case.

    Attributes:
        relations: Names of the columns of each relation.
        pairs: Name of the nested relation, which replaces the first two.
        nested: Its column for each column of a relation in it.
    """

    relations: Mapping[str, Mapping[str, str]]
    pairs: str
    nested: Mapping[tuple[str, str], str]

    def renamed(self, col: exp.Column) -> exp.Column | None:
        """Return a column after the nesting. None if no relation or several have it."""
        name, table = col.name.lower(), col.table.lower()
        owners = [owner for owner, names in self.relations.items() if name in names]
        if table:
            owners = [owner for owner in owners if owner == table]
        if len(owners) != 1 or len(col.parts) > 2:
            return None
        new = self.nested.get((owners[0], name))
        made = column(col.name, owners[0]) if new is None else column(new, self.pairs)
        made.this.meta.update(col.this.meta)
        return made


def nest_first(query: exp.Select, schema_of: SchemaOf) -> exp.Select | None:
    """Return a SELECT whose first two relations are one. None if a name in it is not certain.

    Args:
        query: A SELECT from a relation, and several LATERAL subqueries or other relations.
        schema_of: Function that returns the columns of a query, or None if they are unknown.
    """
    result = query.copy()
    first, *others = result.args["joins"]
    names = _names(result, schema_of)
    clauses = [part for part in own_clauses(result) if part.arg_key != "joins"]
    if names is None or any(part.find(exp.Query) for part in clauses):
        return None
    items = _items(result, names)
    if items is None:
        return None
    result.set("expressions", items)
    if not _rename_clauses(result, names):
        return None
    if not all(_rename_join(join, names, schema_of) for join in others):
        return None
    columns = [alias(column(name, table), new) for (table, name), new in names.nested.items()]
    pairs = select_items(columns, result.args["from_"].this.copy())
    pairs.set("joins", [first])
    name = exp.TableAlias(this=exp.to_identifier(names.pairs))
    result.set("from_", exp.From(this=exp.Subquery(this=pairs, alias=name)))
    result.set("joins", others)
    return result


def _inner(join: exp.Join) -> exp.Select | None:
    """Return the SELECT of a LATERAL subquery, None for another relation."""
    if not isinstance(join.this, exp.Lateral):
        return None
    inner = join.this.this.this
    assert isinstance(inner, exp.Select)
    return inner


def _names(query: exp.Select, schema_of: SchemaOf) -> _Names | None:
    """Return the names of all columns, None if they are not unique in their relations."""
    source = query.args["from_"].this
    rows = [(source.alias_or_name, select_all_from(source.copy()))]
    for join in query.args["joins"]:
        inner = _inner(join)
        if inner is None:
            rows.append((join.this.alias_or_name, select_all_from(join.this.copy())))
            continue
        # the only relation has all columns of `t.*`
        items = [
            exp.Star() if item.is_star and star_leaves_out(item) == frozenset() else item.copy()
            for item in inner.expressions
        ]
        rows.append((join.this.alias, select_items(items, inner.args["from_"].this.copy())))
    relations: dict[str, dict[str, str]] = {}
    for name, read in rows:
        schema = schema_of(read) or ()
        columns = {c.name.lower(): c.name for c in schema}
        if not name or not columns or name.lower() in relations or len(columns) < len(schema):
            return None
        relations[name.lower()] = columns
    nested: dict[tuple[str, str], str] = {}
    for table in list(relations)[:2]:
        for name, new in relations[table].items():
            taken = {other.lower() for other in nested.values()}
            nested[table, name] = _unused(new, taken | (relations[table].keys() - {name}))
    return _Names(relations, _unused("pairs", relations.keys()), nested)


def _unused(name: str, taken: Set[str]) -> str:
    unused, number = name, 0
    while unused.lower() in taken:
        unused, number = f"{name}{number}", number + 1
    return unused


def _items(query: exp.Select, names: _Names) -> list[exp.Expr] | None:
    """Return the select list without stars, None for a star with modifiers."""
    items: list[exp.Expr] = []
    for item in query.expressions:
        if not item.is_star:
            items.append(alias(item, item.name) if isinstance(item, exp.Column) else item)
            continue
        if star_leaves_out(item) is None:
            return None
        star = item.this if isinstance(item, exp.Column) else item
        left_out = {
            (part.table.lower() if isinstance(part, exp.Column) else "", part.name.lower())
            for part in star.args.get("except_") or ()
        }
        table = item.table.lower() if isinstance(item, exp.Column) else ""
        items += [
            alias(column(name, owner), shown)
            for owner, columns in names.relations.items()
            for name, shown in columns.items()
            if table in ("", owner) and not {("", name), (owner, name)} & left_out
        ]
    return items


def _rename_clauses(query: exp.Select, names: _Names) -> bool:
    """Let all clauses read the nested relation, in place. False if one cannot."""
    aliases = {item.alias.lower() for item in query.expressions if isinstance(item, exp.Alias)}
    for part in own_clauses(query):
        if part.arg_key == "joins":
            continue
        is_unnamed = part.arg_key == "expressions" and not isinstance(part, exp.Alias)
        for col in list(part.find_all(exp.Column)):
            if part.arg_key in _AFTER and not col.table and col.name.lower() in aliases:
                continue
            new = names.renamed(col)
            # Spark names an expression by its text
            if new is None or (is_unnamed and new.name.lower() != col.name.lower()):
                return False
            col.replace(new)
    return True


def _rename_join(join: exp.Join, names: _Names, schema_of: SchemaOf) -> bool:
    """Let a join read the nested relation, in place. False if it cannot."""
    inner = _inner(join)
    if inner is not None:
        return _rename_lateral(inner, names, schema_of)
    for col in list(join.args["on"].find_all(exp.Column)) if join.args.get("on") else ():
        new = names.renamed(col)
        if new is None:
            return False
        col.replace(new)
    return True


def _rename_lateral(inner: exp.Select, names: _Names, schema_of: SchemaOf) -> bool:
    """Let a LATERAL subquery read the nested relation, in place. False if it cannot."""
    source = inner.args["from_"].this
    own_name = source.alias_or_name.lower()
    own = {c.name.lower() for c in schema_of(select_all_from(source.copy())) or ()}
    for part in own_clauses(inner):
        for col in list(part.find_all(exp.Column)):
            is_own = col.table.lower() == own_name or (not col.table and col.name.lower() in own)
            if is_own or col.is_star:
                continue
            new = names.renamed(col)
            if new is None:
                return False
            col.replace(new)
    return True
