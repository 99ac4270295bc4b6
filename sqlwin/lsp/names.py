"""Tables and views of a script: their places, new names, and an outline."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from runtime.names import quote_name
from sqlwin.lsp.scripts import CheckedScript, CheckedStatement
from sqlwin.parser.base import STRINGS
from sqlwin.statements import nodes

# Words before the name of the table that a statement is about
_BEFORE_NAME = ("DESC", "DESCRIBE", "EXISTS", "INTO", "OVERWRITE", "TABLE", "VIEW")
_MAX_CHARACTERS = 60


@dataclass(frozen=True)
class Symbol:
    """A statement of a script's outline. `end` is exclusive."""

    name: str
    detail: str
    is_definition: bool
    start: int
    end: int


def symbols(checked: CheckedScript) -> list[Symbol]:
    """Return the statements, those that create something under its name."""
    listed = []
    for statement in checked.statements:
        part, parsed = statement.part, statement.parsed
        line = " ".join(part.text.split())
        if isinstance(parsed, nodes.Create):
            name, detail = ".".join(parsed.name), " ".join(line.split()[:2]).upper()
        else:
            name, detail = line[:_MAX_CHARACTERS], ""
        is_definition = isinstance(parsed, nodes.Create)
        end = part.offset + len(part.text)
        listed.append(Symbol(name, detail, is_definition, part.offset, end))
    return listed


def references_at(checked: CheckedScript, offset: int) -> list[tuple[int, int]]:
    """Return the ranges of the table or view at an offset in all statements, in order."""
    places = [place for part in checked.statements for place in _tables(part)]
    at = next((name for name, start, end in places if start <= offset <= end), None)
    return sorted({(start, end) for name, start, end in places if name == at})


def rename_at(checked: CheckedScript, offset: int, new: str) -> list[tuple[int, int, str]] | None:
    """Return replacements that rename the table or view at an offset.

    Returns:
        Start, exclusive end and new text of each place. None if the script does not create the
        table or view, or if a place of its name cannot be understood.
    """
    ranges = references_at(checked, offset)
    if not ranges:
        return None
    name = checked.text[slice(*ranges[0])].strip("`").lower()
    created = [s.parsed.name for s in checked.statements if isinstance(s.parsed, nodes.Create)]
    if (name,) not in [tuple(part.lower() for part in own) for own in created]:
        return None
    for statement in checked.statements:
        known = {token.start for token, _ in _identifiers(statement)}
        for token in statement.part.tokens:
            start = statement.part.offset + token.start
            is_table = any(start == first for first, _ in ranges)
            if _is_named(token, name) and not (is_table or token.start in known):
                return None
    text = new if new.isidentifier() and new.isascii() else quote_name(new.strip("`"))
    return [(start, end, text) for start, end in ranges]


def _is_named(token: Token, name: str) -> bool:
    return token.token_type not in STRINGS and token.text.strip("`").lower() == name


def _tables(statement: CheckedStatement) -> Iterator[tuple[str, int, int]]:
    """Yield name, start and exclusive end of each name of a table or view."""
    part = statement.part

    def place(token: Token) -> tuple[str, int, int]:
        name = token.text.strip("`").lower()
        return name, part.offset + token.start, part.offset + token.end + 1

    own = {name for inner in _parts(statement.parsed) for name in _name_of(inner)}
    for before, token in zip(part.tokens, part.tokens[1:], strict=False):
        if before.text.upper() in _BEFORE_NAME and token.text.strip("`").lower() in own:
            yield place(token)
    for token, is_table in _identifiers(statement):
        if is_table:
            yield place(token)


def _name_of(node: object) -> tuple[str, ...]:
    """Return the name of the table or view that a statement is about, if it has one part."""
    name = getattr(node, "name", None) if isinstance(node, nodes.Statement) else None
    return (name[0].lower(),) if isinstance(name, tuple) and len(name) == 1 else ()


def _identifiers(statement: CheckedStatement) -> Iterator[tuple[Token, bool]]:
    """Yield the names in the trees of a statement, and whether each names a table or view."""
    tokens = {(token.line, token.col): token for token in statement.part.tokens}
    for tree in _parts(statement.parsed):
        if not isinstance(tree, exp.Expr):
            continue
        hidden = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
        aliases = hidden | {
            node.alias.lower() for node in tree.find_all(exp.Table, exp.Subquery) if node.alias
        }
        for identifier in tree.find_all(exp.Identifier):
            meta = identifier.meta
            token = tokens.get((meta.get("line", 0), meta.get("col", 0)))
            parent, name = identifier.parent, identifier.name.lower()
            is_table = (
                isinstance(parent, exp.Table)
                and parent.this is identifier
                and not parent.db
                and name not in hidden
            )
            is_qualifier = (
                isinstance(parent, exp.Column)
                and parent.args.get("table") is identifier
                and name not in aliases
            )
            if token is not None:
                yield token, is_table or is_qualifier


def _parts(node: object) -> Iterator[nodes.Statement | exp.Expr]:
    """Yield a statement, the statements in it, and their trees."""
    if isinstance(node, exp.Expr):
        yield node
    elif isinstance(node, tuple):
        for item in node:
            yield from _parts(item)
    elif isinstance(node, nodes.Statement):
        yield node
        for field in dataclasses.fields(node):
            yield from _parts(getattr(node, field.name))
