"""Names of columns and CTEs in the text: readable, unique, and quoted only where needed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.spark import Spark

from planner.nodes.aggregate_plans import END, SLICE_END, START, TIME

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_WORDS = {
    word.lower()
    for dialect in (DuckDB, Spark)
    for words in dialect.tokenizer_class.KEYWORDS
    for word in words.split()
}
# Reserved in PostgreSQL and no keyword of sqlglot's dialects
_WORDS |= {
    "analyse", "asymmetric", "authorization", "both", "concurrently", "current_catalog",
    "current_role", "current_schema", "deferrable", "freeze", "initially", "leading", "only",
    "placing", "session_user", "symmetric", "trailing", "user", "variadic", "verbose",
}  # fmt: skip
_INTERNAL = {SLICE_END: "slice_us", START: "start_us", END: "end_us", TIME: "time_us"}


class TextNames:
    """Names of one text.

    Args:
        columns: Columns that the user can see.
        tables: Tables that are read.
    """

    def __init__(self, columns: Iterable[str], tables: Iterable[str]) -> None:
        self._taken = {name.lower() for name in columns if "$" not in name}
        self._columns: dict[str, str] = {}
        self._relations = {name.lower() for name in tables}

    def column(self, name: str) -> exp.Column:
        """Return a column by its name in the plan."""
        return exp.Column(this=self.identifier(name))

    def identifier(self, name: str) -> exp.Identifier:
        """Return the identifier of a column. TextNames inside a plan contain a dollar sign."""
        if "$" not in name:
            return quoted(name)
        if name not in self._columns:
            plain = _INTERNAL.get(name) or name.strip("$").replace("$", "_")
            self._columns[name] = _unused(plain, self._taken)
        return quoted(self._columns[name])

    def relation(self, name: str) -> str:
        """Return an unused name for a CTE."""
        return _unused(name, self._relations)


def quoted(name: str) -> exp.Identifier:
    """Return an identifier, quoted unless it is a plain word that no dialect reserves."""
    is_plain = _PLAIN.fullmatch(name) is not None and name not in _WORDS
    return exp.Identifier(this=name, quoted=not is_plain)


def _unused(name: str, taken: set[str]) -> str:
    number, unused = 1, name
    while unused.lower() in taken:
        number += 1
        unused = f"{name}_{number}"
    taken.add(unused.lower())
    return unused
