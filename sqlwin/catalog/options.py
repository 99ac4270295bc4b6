"""Table options overridden by a query, and notes on hints."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.sql.nodes import LEFT_OUT_HINTS, STATE_TTL, TABLE_OPTIONS, path_of_files
from planner.sql.render import quote_string
from runtime.connectors.registry import open_table
from runtime.errors import AnalysisError, CatalogError, nearest
from runtime.options.formats import SCAN_CHANGES
from runtime.redaction import Mask
from runtime.spec.table import TableSpec
from sqlwin.catalog.change_messages import check_table
from sqlwin.parser.hints import FLINK_HINTS, SPARK_HINTS

# Names and values
Options = tuple[tuple[str, str], ...]


def options_refused(name: Sequence[str]) -> AnalysisError:
    """Return the error for an OPTIONS hint after a name that is not a table of the session."""
    return AnalysisError(
        f"OPTIONS cannot be used with `{'.'.join(name)}`, which is not a table of "
        "CREATE TABLE ... WITH",
        subjects=(".".join(name),),
        hint="remove the OPTIONS hint",
    )


def with_options(spec: TableSpec, options: Sequence[tuple[str, str]]) -> TableSpec:
    """Return a table with some options changed or added.

    Raises:
        CatalogError: An option does not exist, or a value is invalid.
    """
    overridden = {key.lower() for key, _ in options}
    for fixed in ("connector", SCAN_CHANGES, *open_table(spec).part_options):
        if fixed in overridden:
            raise CatalogError(
                f"table `{spec.name}`: a query cannot change '{fixed}'",
                subjects=(f"'{fixed}'", spec.name),
                hint=f"create another table with CREATE TABLE ... WITH ('{fixed}' = ...) LIKE ...",
            )
    unchanged = tuple(option for option in spec.options if option[0].lower() not in overridden)
    changed = replace(spec, options=(*unchanged, *options))
    check_table(changed)
    return changed


@dataclass(frozen=True)
class ChangedTable:
    """A session table with options overridden by a statement.

    Attributes:
        spec: The table, under a name that contains the options.
        view: Name under which Spark reads it.
        base: Name under which Spark reads the original table.
        options: Options that the statement overrides.
    """

    spec: TableSpec
    view: str
    base: str
    options: Options


class ChangedTables:
    """Tables of a session with options overridden by statements.

    They live as long as the original table, because later statements may use the same options.
    """

    def __init__(self) -> None:
        # by the name with the options, and by Spark's name
        self._by_name: dict[str, ChangedTable] = {}
        self._key = secrets.token_bytes(16)

    def add(
        self, spec: TableSpec, view: str, options: Sequence[tuple[str, str]], mask: Mask
    ) -> ChangedTable:
        """Register a variant of a table with other options. Spark reads the table as `view`.

        Values that the mask hides are not part of its name.

        Raises:
            CatalogError: An option does not exist, or a value is invalid.
        """
        changed = with_options(spec, options)
        pairs = _pairs(options)
        # as shown in plans and errors
        shown = _pairs([(key, mask.value(key, value)) for key, value in options])
        name = f"{spec.name} /*+ OPTIONS({shown}) */"
        # View names are visible too: a keyed hash keeps secrets from being guessed.
        key = self._key if shown != pairs else b""
        digest = hashlib.blake2b(pairs.encode(), key=key, digest_size=6).hexdigest()
        view_name = f"{view}__options_{digest}"
        other = self._by_name.get(name.lower())
        if other is not None and other.view != view_name:
            # equal except for masked values
            name = f"{spec.name} /*+ OPTIONS({shown}, {digest}) */"
        table = ChangedTable(replace(changed, name=name), view_name, view, tuple(options))
        # Spark's SQL text refers to the view.
        self._by_name |= {name.lower(): table, table.view: table}
        return table

    def add_changes(self, spec: TableSpec, view: str, *, is_bounded: bool) -> ChangedTable:
        """Register the changes of a table's rows.

        Args:
            spec: Table whose rows change.
            view: Name under which Spark reads it without the options of a statement.
            is_bounded: Whether the changes end with those that exist now.
        """
        changes = open_table(spec).changes(is_bounded=is_bounded)
        assert changes is not None, "the table has changes"
        open_table(changes).check()
        return self._add_rows(changes, spec.name, view, f"CHANGES{' SO FAR' if is_bounded else ''}")

    def add_messages(self, messages: TableSpec, view: str) -> ChangedTable:
        """Register the messages of a table of changes. `view` is as in `add_changes`."""
        return self._add_rows(messages, messages.name, view, "MESSAGES")

    def _add_rows(self, rows: TableSpec, name: str, base: str, word: str) -> ChangedTable:
        variant = self.find(name)
        view, options = (base, ()) if variant is None else (variant.view, variant.options)
        name = f"{name} /*+ {word} */"
        view_name = f"{view}__{word.lower().replace(' ', '_')}"
        table = ChangedTable(replace(rows, name=name), view_name, base, options)
        self._by_name |= {name.lower(): table, table.view: table}
        return table

    def find(self, name: str) -> ChangedTable | None:
        """Return the variant with this name (including options) or view, or None."""
        return self._by_name.get(name.lower())

    def has_view(self, name: str) -> bool:
        """Return whether Spark reads a variant under this name."""
        table = self.find(name)
        return table is not None and table.view == name.lower()

    def forget(self, view: str) -> list[str]:
        """Remove the variants of the table `view` and return Spark's names for them."""
        forgotten = [name for name, changed in self._by_name.items() if changed.base == view]
        views = {self._by_name.pop(name).view for name in forgotten}
        return sorted(views)


def _pairs(options: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{quote_string(key)} = {quote_string(value)}" for key, value in options)


def idle_notes(spec: TableSpec, among: Collection[str] | None = None) -> tuple[str, ...]:
    """Return a note about options that are accepted for Flink's scripts but have no effect.

    Args:
        spec: The table.
        among: Options to check. None for all options of the table.
    """
    names = [
        f"'{name}'" for name in open_table(spec).idle_options if among is None or name in among
    ]
    if not names:
        return ()
    are = "is a Flink option and has" if len(names) == 1 else "are Flink options and have"
    return (f"table `{spec.name}`: {', '.join(names)} {are} no effect",)


def hint_notes(
    query: exp.Expr,
    table_named: Callable[[tuple[str, ...]], object],
    *,
    has_state_ttl: bool = False,
) -> tuple[str, ...]:
    """Return notes about the hints of a statement that have no effect.

    Args:
        query: The parsed query.
        table_named: Function that looks up a table or view of the session.
        has_state_ttl: Whether the query has state whose time-to-live STATE_TTL sets.
    """
    left_out: dict[str, None] = {}
    notes: list[str] = []
    for node in query.walk():
        left_out |= dict.fromkeys(node.meta.get(LEFT_OUT_HINTS, ()))
        if not isinstance(node, exp.Table) or TABLE_OPTIONS not in node.meta:
            continue
        if path_of_files(node.name) is not None:
            continue  # notes about files were added when the files were inspected
        spec = table_named(tuple(part.name for part in node.parts))
        if isinstance(spec, TableSpec):
            pairs = node.meta[TABLE_OPTIONS].pairs
            notes += idle_notes(with_options(spec, pairs), [key for key, _ in pairs])
    if has_state_ttl:
        left_out.pop(STATE_TTL.upper(), None)
    flinks = [name for name in left_out if name in FLINK_HINTS]
    if flinks:
        are = "is a Flink hint and has" if len(flinks) == 1 else "are Flink hints and have"
        notes.append(f"{', '.join(flinks)} {are} no effect")
    for name in left_out:
        if name not in FLINK_HINTS:
            close = nearest(name, SPARK_HINTS)
            meant = f"; did you mean {close}?" if close else ""
            notes.append(f"unknown hint {name} is ignored{meant}")
    return tuple(dict.fromkeys(notes))
