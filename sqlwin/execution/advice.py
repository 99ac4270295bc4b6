"""EXPLAIN ADVISE: the materialized tables that would answer queries, with counts of their rows."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlglot import exp

from planner.arrow.calls import NotEvaluated
from planner.arrow.partials import local_expressions
from planner.materialized.advise import Advised, Shape, WantedSlices, advised, wanted_of
from planner.materialized.derive import derived
from planner.materialized.form import grid_text
from planner.nodes.physical import (
    LocalWindowAggregate,
    OnePhaseWindowAggregate,
    ScanLocalWindowAggregate,
    SliceScan,
)
from planner.sql.build import relation
from runtime.errors import SqlwinError
from runtime.names import quoted
from runtime.spec.scan import ScanSource
from runtime.spec.windows import Tumble
from sqlwin.catalog.entries import Name
from sqlwin.execution.planning import Plans
from sqlwin.execution.slices.kept_rows import READS_SLICES, planned_rows, refusal
from sqlwin.parser.parser import parse_query
from sqlwin.statements.nodes import (
    Advise,
    CreateMaterializedTable,
    CreateTable,
    CreateView,
    Explain,
    Insert,
    Query,
    Reset,
    Set,
    Statement,
    StatementSet,
    Use,
)
from sqlwin.statements.parse import parse_statement
from sqlwin.statements.split import split_script

# Spans of time that a sample is made of, and the fewest slices in each
_N_SPANS = 8
_LEAST_SLICES = 16


@dataclass
class _AskedQuery:
    """A query that is to be answered.

    Attributes:
        label: where it stands.
        n_rows: the rows that its scans read now.
        nodes: its window aggregations that slices may answer.
        answered_by: materialized tables that do so already.
        reasons: why what is left is not answered.
    """

    label: str
    n_rows: int = 0
    nodes: list[LocalWindowAggregate] = field(default_factory=list)
    answered_by: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _AdvisedTable:
    """A table that is advised, under its name, with the queries that it answers."""

    name: str
    advised: Advised
    queries: tuple[_AskedQuery, ...]
    n_answered: int


class Advisor:
    """Carries out one EXPLAIN ADVISE; `carry_out` runs a statement that later ones go by."""

    def __init__(self, plans: Plans, carry_out: Callable[[Statement], object]) -> None:
        self._plans = plans
        self._carry_out = carry_out
        self._samples: dict[tuple[str, ...], str | None] = {}
        self._shares: dict[tuple[str, ...], float] = {}
        self._numbers: dict[str, int] = {}
        self._views: list[Name] = []

    def advice(self, statement: Advise) -> str:
        """What is advised: statements that make materialized tables, in comments what for.

        Raises:
            SqlwinError: a file cannot be read, or a statement in it is wrong.
        """
        try:
            return self._plans.config.mask.text(self._advice(statement))
        finally:
            for name in self._views:
                self._plans.catalog.forget(name)

    def _advice(self, statement: Advise) -> str:
        asked: list[_AskedQuery] = []
        for piece in _pieces(statement):
            with piece.placed():
                found = parse_statement(piece.text)
                self._carried_out(found)
                queries = _queries(piece.label, found)
                asked += [self._asked(label, query, text) for label, query, text in queries]
        wanted: list[WantedSlices] = []
        owners: list[tuple[_AskedQuery, LocalWindowAggregate]] = []
        for each in asked:
            for node in each.nodes:
                want = wanted_of(node, self._plans.catalog, self._plans.time_zone)
                if isinstance(want, str):
                    each.reasons.append(want)
                else:
                    if not isinstance(node, ScanLocalWindowAggregate):
                        each.n_rows += self._n_rows(want)
                    wanted.append(want)
                    owners.append((each, node))
        tables, refused = advised(wanted, self._count(wanted), self._n_rows)
        for place, reason in refused.items():
            owners[place][0].reasons.append(reason)
        return self._text(asked, list(self._checked(tables, owners)))

    # -- queries -------------------------------------------------------------------------------

    def _carried_out(self, statement: Statement) -> None:
        """A statement of a file, if it defines what later ones go by and is not there yet."""
        catalog = self._plans.catalog
        match statement:
            case CreateMaterializedTable(ast=query) if query is not None:
                # not filled: a view stands for it meanwhile
                if catalog.entry(statement.name) is None:
                    view = CreateView(
                        statement.text,
                        statement.offset,
                        name=statement.name,
                        columns=(),
                        ast=query.copy(),
                        query_text=statement.query_text,
                    )
                    self._carry_out(view)
                    self._views.append(statement.name)
            case CreateTable(as_query=None) | CreateView() | CreateMaterializedTable():
                if catalog.entry(statement.name) is None:
                    self._carry_out(statement)
            case Set() | Reset() | Use():
                self._carry_out(statement)

    def _asked(self, label: str, query: exp.Query, text: str) -> _AskedQuery:
        plans, asked = self._plans, _AskedQuery(label)
        plans.start_statement()
        slices = list(plans.plan(query.copy(), text).physical.find_all(SliceScan))
        asked.answered_by += dict.fromkeys(node.table.name for node in slices)
        plan = plans.plan(query.copy(), text, without=READS_SLICES)
        if plans.is_stream(plan):
            asked.reasons.append("it is of a stream, and slices are of files")
            return asked
        found = list(plan.physical.find_all(LocalWindowAggregate))
        if any(plan.physical.find_all(OnePhaseWindowAggregate)):
            otherwise = "its aggregates do not merge"
            asked.reasons.append(refusal(plan, "split_window_aggregate", otherwise))
        elif not found:
            asked.reasons.append("it has no window aggregation")
        scans = plan.physical.find_all(ScanLocalWindowAggregate)
        asked.n_rows = sum(scan.scan.files.n_rows for scan in scans)
        if len(slices) < len(found):
            asked.nodes += found
        return asked

    # -- counts --------------------------------------------------------------------------------

    def _n_rows(self, wanted: WantedSlices) -> int:
        """The rows of a base table."""
        columns = self._plans.catalog.analyze(
            exp.select(exp.column(wanted.time)).from_(relation(*wanted.base)), {}
        )
        source = self._plans.catalog.scan_source(wanted.base, columns)
        if isinstance(source, ScanSource) and not source.others:
            return source.n_rows
        return self._number(f"SELECT COUNT(*) AS n FROM {quoted(*wanted.base)}")

    def _count(self, wanted: Sequence[WantedSlices]) -> Callable[[Shape], int]:
        """Counts the partials of a table of slices, in all rows or in a sample of them."""

        def count(shape: Shape) -> int:
            if shape.base not in self._samples:
                of_base = [each for each in wanted if each.base == shape.base]
                self._take_sample(of_base)
            found = self._number(shape.counted(self._samples[shape.base]))
            return round(found / self._shares[shape.base])

        return count

    def _take_sample(self, wanted: Sequence[WantedSlices]) -> None:
        """Choose what partials over a base table are counted in: some spans of time, or all."""
        first = wanted[0]
        n_rows, most = self._n_rows(first), int(self._plans.config.get("sqlwin.advise.sample-rows"))
        condition = None
        if n_rows > most > 0:
            condition = self._spans(first, wanted, most / n_rows)
        self._samples[first.base], self._shares[first.base] = condition, 1.0
        if condition is not None:
            sql = f"SELECT COUNT(*) AS n FROM {quoted(*first.base)} WHERE {condition}"
            n_sampled = self._number(sql)
            self._shares[first.base] = n_sampled / n_rows
            if n_sampled == 0:
                self._samples[first.base], self._shares[first.base] = None, 1.0

    def _spans(
        self, first: WantedSlices, wanted: Sequence[WantedSlices], share: float
    ) -> str | None:
        """A condition for spans of time with such a share of it; None: slices are too wide."""
        widths = [each.grid.size_us for each in wanted if isinstance(each.grid, Tumble)]
        if len(widths) < len(wanted) or any(each.time != first.time for each in wanted):
            return None
        time = f"CAST({first.time} AS TIMESTAMP)"
        sql = (
            f"SELECT MIN(UNIX_MICROS({time})) AS low, MAX(UNIX_MICROS({time})) AS high "
            f"FROM {quoted(*first.base)}"
        )
        low, high = self._row(sql)
        if low is None or high is None:
            return None
        cut = max(widths)
        length = round((high - low) * share / _N_SPANS) // cut * cut
        apart = (high - low) // _N_SPANS
        if length < _LEAST_SLICES * min(widths) or length < cut or 2 * length > apart:
            return None
        starts = [(low + place * apart) // cut * cut for place in range(_N_SPANS)]
        us = f"UNIX_MICROS({time})"
        return (
            "("
            + " OR ".join(f"({us} >= {start} AND {us} < {start + length})" for start in starts)
            + ")"
        )

    def _number(self, sql: str) -> int:
        """The number that a query gives, which is run once."""
        if sql not in self._numbers:
            self._numbers[sql] = int(self._row(sql)[0])
        return self._numbers[sql]

    def _row(self, sql: str) -> Sequence[int]:
        plans = self._plans
        plans.start_statement()
        with plans.errors_of(sql):
            plan = plans.plan(_tree(sql), sql, without=READS_SLICES)
            rows = plans.dataframe(plans.lower(plan))
            with plans.jobs_run():
                return tuple(rows.collect()[0])

    # -- answers -------------------------------------------------------------------------------

    def _checked(
        self,
        tables: Sequence[Advised],
        owners: Sequence[tuple[_AskedQuery, LocalWindowAggregate]],
    ) -> Iterator[_AdvisedTable]:
        """The tables of which the planner says that they can be kept, and what they answer."""
        catalog, zone = self._plans.catalog, self._plans.time_zone
        names: set[str] = set()
        for table in tables:
            members = [owners[place] for place in table.members]
            name = self._name(table.shape, names)
            text = table.shape.query()
            try:
                planned = planned_rows(self._plans, (name,), _tree(text), text)
            except SqlwinError as error:
                for asked, _ in members:
                    asked.reasons.append(error.message)
                continue
            queries: dict[int, _AskedQuery] = {}
            n_answered = 0
            for asked, node in members:
                try:
                    found = local_expressions(
                        node.input, node.keys, node.plans, node.time_column, catalog, zone
                    )
                except NotEvaluated as reason:
                    asked.reasons.append(str(reason))
                    continue
                answer = derived(planned.form, node, found, zone)
                if isinstance(answer, str):
                    asked.reasons.append(answer)
                else:
                    queries[id(asked)] = asked
                    n_answered += 1
            if queries:
                names.add(name)
                yield _AdvisedTable(name, table, tuple(queries.values()), n_answered)

    def _name(self, shape: Shape, taken: set[str]) -> str:
        """A name that is not taken, of table and slices."""
        words = re.sub(r"[^a-z0-9]+", "_", f"{shape.base[-1]} {grid_text(shape.grid)}".lower())
        stem = words.strip("_")
        stem = stem if stem[:1].isalpha() else f"slices_{stem}"
        name, number = stem, 2
        while name in taken or self._plans.catalog.entry((name,)) is not None:
            name, number = f"{stem}_{number}", number + 1
        return name

    def _text(self, asked: Sequence[_AskedQuery], tables: Sequence[_AdvisedTable]) -> str:
        root = str(self._plans.config.get("sqlwin.materialized.dir") or "")
        parts = [self._table_text(table, root) for table in tables]
        if not tables:
            parts.append("-- no materialized table is advised\n")
        already = [each for each in asked if each.answered_by and not each.nodes]
        if already:
            lines = [f"--   {each.label}: by {', '.join(each.answered_by)}" for each in already]
            parts.append("\n".join(["-- answered already:", *lines]) + "\n")
        left = [each for each in asked if each.reasons]
        if left:
            lines = [
                f"--   {each.label}: {'; '.join(dict.fromkeys(each.reasons))}" for each in left
            ]
            parts.append("\n".join(["-- not answered:", *lines]) + "\n")
        return "\n".join(parts)

    def _table_text(self, table: _AdvisedTable, root: str) -> str:
        shape, n_partials = table.advised.shape, table.advised.n_partials
        base = ".".join(shape.base)
        share = self._shares[shape.base]
        how = "counted" if share == 1 else f"counted on {100 * share:.2g} % of the rows"
        n_rows = sum(each.n_rows for each in table.queries)
        labels = ", ".join(each.label for each in table.queries)
        path = "" if root else f" WITH ('path' = 'slices/{table.name}')"
        return (
            f"-- {table.name}: {shape.text()}\n"
            f"--   answers {labels}\n"
            f"--   holds {n_partials:,} partials of {base}, {how}; these queries read at most "
            f"{table.n_answered * n_partials:,} of them,\n"
            f"--   and now {n_rows:,} rows\n"
            f"CREATE MATERIALIZED TABLE {table.name}{path}\nAS {shape.query()};\n"
        )


@dataclass(frozen=True)
class _Piece:
    """A statement: its text, what the report calls it, the script it is of, and where in that."""

    text: str
    label: str
    script: str
    file: str | None
    offset: int

    @contextmanager
    def placed(self) -> Iterator[None]:
        """A block whose errors say where in the script they are."""
        try:
            yield
        except SqlwinError as error:
            raise error.with_source(self.script, self.file, self.offset) from error


def _pieces(statement: Advise) -> Iterator[_Piece]:
    """The statements that there are to look at."""
    if statement.statement is not None:
        text = statement.statement.text
        yield _Piece(text, "the query", statement.text, None, statement.text.find(text))
        return
    for text, file in (*statement.scripts, *((_read(name), name) for name in statement.files)):
        with _Piece(text, "", text, file, 0).placed():
            pieces = split_script(text)
        title = "line " if file is None else f"{os.path.basename(file)}:"
        for each in pieces:
            yield _Piece(each.text, f"{title}{each.line}", text, file, each.offset)


def _read(name: str) -> str:
    try:
        with open(os.path.expanduser(name), encoding="utf-8-sig") as file:
            return file.read()
    except OSError as error:
        raise SqlwinError(
            f"cannot read {name}: {error.strerror or error}", subjects=(f"'{name}'",)
        ) from error
    except UnicodeDecodeError as error:
        raise SqlwinError(f"{name} is not UTF-8", subjects=(f"'{name}'",)) from error


def _queries(label: str, statement: Statement) -> Iterator[tuple[str, exp.Query, str]]:
    """The queries of a statement."""
    match statement:
        case Query() | Insert():
            yield label, statement.ast, statement.text
        case StatementSet():
            for place, each in enumerate(statement.inserts, 1):
                yield f"{label} ({place})", each.ast, each.text
        case CreateTable(as_query=query) | CreateMaterializedTable(ast=query) if query is not None:
            yield label, query, statement.text
        case Explain():
            yield from _queries(label, statement.statement)


def _tree(sql: str) -> exp.Query:
    query = parse_query(sql)
    assert isinstance(query, exp.Query)
    return query
