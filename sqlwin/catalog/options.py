"""Options that a query gives to a table in place of those of CREATE TABLE, and notes on hints."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.sql.nodes import LEFT_OUT_HINTS, TABLE_OPTIONS, path_of_files
from planner.sql.render import quote_string
from runtime.connectors.registry import idle_options, validate_table
from runtime.errors import CatalogError, nearest
from runtime.redaction import Mask
from runtime.spec.table import TableSpec
from sqlwin.parser.hints import FLINK_HINTS, SPARK_HINTS


def with_options(spec: TableSpec, options: Sequence[tuple[str, str]]) -> TableSpec:
    """A table with some of its options changed, and some added.

    Raises:
        CatalogError: there is no such option, or a value is wrong.
    """
    given = {key.lower() for key, _ in options}
    if "connector" in given:
        raise CatalogError(
            f"table `{spec.name}`: 'connector' is not changed by a query",
            subjects=("'connector'", spec.name),
            hint="CREATE TABLE ... WITH ('connector' = ...) LIKE makes another table",
        )
    kept = tuple(option for option in spec.options if option[0].lower() not in given)
    changed = replace(spec, options=(*kept, *options))
    validate_table(changed)
    return changed


@dataclass(frozen=True)
class ChangedTable:
    """A session table as a statement reads it that gives it other options.

    Attributes:
        spec: the table, under a name that has the options.
        view: the name by which Spark knows it.
        base: the name by which Spark knows the table as it was created.
    """

    spec: TableSpec
    view: str
    base: str


class ChangedTables:
    """Tables of a session with the options that statements gave to them.

    They are kept for as long as the table itself: a later statement may give it the same ones.
    """

    def __init__(self) -> None:
        # by the name with the options, and by the name that Spark knows
        self._by_name: dict[str, ChangedTable] = {}
        self._key = secrets.token_bytes(16)

    def add(
        self, spec: TableSpec, view: str, options: Sequence[tuple[str, str]], mask: Mask
    ) -> ChangedTable:
        """Keep a table, which Spark knows by `view`, with other options.

        What the mask has for secret of them is not in its name.

        Raises:
            CatalogError: there is no such option, or a value is wrong.
        """
        changed = with_options(spec, options)
        pairs = _pairs(options)
        # as plans and errors show it
        shown = _pairs([(key, mask.value(key, value)) for key, value in options])
        name = f"{spec.name} /*+ OPTIONS({shown}) */"
        # the name of a view is shown too, so that secrets cannot be guessed from it
        key = self._key if shown != pairs else b""
        digest = hashlib.blake2b(pairs.encode(), key=key, digest_size=6).hexdigest()
        view_name = f"{view}__options_{digest}"
        other = self._by_name.get(name.lower())
        if other is not None and other.view != view_name:
            # the same but for what is masked
            name = f"{spec.name} /*+ OPTIONS({shown}, {digest}) */"
        found = ChangedTable(replace(changed, name=name), view_name, view)
        # a text of Spark's names the view
        self._by_name |= {name.lower(): found, found.view: found}
        return found

    def named(self, name: str) -> ChangedTable | None:
        """The one of a name that has the options, or of a view, in any case; None: none is."""
        return self._by_name.get(name.lower())

    def has_view(self, name: str) -> bool:
        """Whether Spark knows one of them by this name."""
        found = self.named(name)
        return found is not None and found.view == name.lower()

    def forget(self, view: str) -> list[str]:
        """Forget those of a table that Spark knows by `view`; the names by which it knows them."""
        forgotten = [name for name, changed in self._by_name.items() if changed.base == view]
        found = {self._by_name.pop(name).view for name in forgotten}
        return sorted(found)


def _pairs(options: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{quote_string(key)} = {quote_string(value)}" for key, value in options)


def idle_notes(spec: TableSpec, among: Collection[str] | None = None) -> tuple[str, ...]:
    """One note for all options that are let pass, so that Flink's scripts run, and do nothing.

    Args:
        spec: the table.
        among: the options to look at; None for all of the table.
    """
    idle = idle_options(spec)
    names = [f"'{name}'" for name in idle if among is None or name in among]
    if not names:
        return ()
    are = (
        "is an option of Flink's and has" if len(names) == 1 else "are options of Flink's and have"
    )
    return (f"table `{spec.name}`: {', '.join(names)} {are} no effect here",)


def hint_notes(
    query: exp.Expr, table_named: Callable[[tuple[str, ...]], object]
) -> tuple[str, ...]:
    """Notes on the hints of a statement that change nothing.

    Args:
        query: the statement's query, as it was read.
        table_named: the session's table or view of a name.
    """
    left_out: dict[str, None] = {}
    notes: list[str] = []
    for node in query.walk():
        left_out |= dict.fromkeys(node.meta.get(LEFT_OUT_HINTS, ()))
        if not isinstance(node, exp.Table) or TABLE_OPTIONS not in node.meta:
            continue
        if path_of_files(node.name) is not None:
            continue  # what there is to say of files was said when they were looked at
        spec = table_named(tuple(part.name for part in node.parts))
        if isinstance(spec, TableSpec):
            pairs = node.meta[TABLE_OPTIONS].pairs
            notes += idle_notes(with_options(spec, pairs), [key for key, _ in pairs])
    flinks = [name for name in left_out if name in FLINK_HINTS]
    if flinks:
        are = "is a hint" if len(flinks) == 1 else "are hints"
        notes.append(f"{', '.join(flinks)} {are} of Flink's runtime, without effect here")
    for name in left_out:
        if name not in FLINK_HINTS:
            close = nearest(name, SPARK_HINTS)
            meant = f"; did you mean {close}?" if close else ""
            notes.append(f"there is no hint {name}, so it has no effect{meant}")
    return tuple(dict.fromkeys(notes))
