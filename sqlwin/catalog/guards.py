"""Statements of Spark's that cannot be about a table that the session keeps."""

from __future__ import annotations

from itertools import takewhile

from sqlglot.tokenizer_core import TokenType

from runtime.errors import CatalogError, Position, SqlSyntaxError
from runtime.spec.table import TableSpec
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.parser.parser import tokenize

# How statements begin that change a table, up to its name
_CHANGES = (
    *(("ALTER", kind) for kind in ("TABLE", "VIEW")),
    ("TRUNCATE", "TABLE"),
    ("ANALYZE", "TABLE"),
    ("DELETE", "FROM"),
    ("MERGE", "INTO"),
    ("UPDATE",),
)


def refuse_kept_table(catalog: SessionCatalog, text: str) -> None:
    """Refuse to hand Spark a statement that changes a table or view of this session.

    To Spark it is a temporary view, so that it would say something else, or change the view and
    not the table.

    Raises:
        CatalogError: it is about one of the catalog's tables.
    """
    try:
        tokens = tokenize(text)
    except SqlSyntaxError:
        return
    upper = [token.text.upper() for token in tokens]
    for change in _CHANGES:
        if tuple(upper[: len(change)]) != change:
            continue
        places = range(len(change), len(tokens), 2)
        n_dots = sum(1 for _ in takewhile(lambda i: upper[i + 1 : i + 2] == ["."], places))
        parts = tokens[len(change) : len(change) + 2 * n_dots + 1]
        entry = catalog.entry(tuple(part.text for part in parts[::2])) if parts else None
        if entry is None or parts[0].token_type == TokenType.STRING:
            return
        is_table = isinstance(entry, TableSpec)
        kind = "table of CREATE TABLE ... WITH" if is_table else "view of this session"
        verb = " ".join(change)
        first, last = parts[0], parts[-1]
        raise CatalogError(
            f"{verb} is Spark's, and `{text[first.start : last.end + 1]}` is a {kind}",
            position=Position.at(text, first.start, last.end - first.start + 1),
            sql=text,
            hint=f"CREATE OR REPLACE {'TABLE' if is_table else 'VIEW'} makes it anew",
        )
