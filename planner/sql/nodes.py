"""Nodes that sqlwin adds to sqlglot's, and source positions of nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from runtime.errors import AnalysisError, ErrorKind, Position, SqlwinError

WINDOW_COLUMNS = ("window_start", "window_end", "window_time")

# Window columns of GROUP BY TUMBLE(...), with names that user columns never have
GROUP_WINDOW_COLUMNS = ("w$start", "w$end", "w$rowtime")


# Function that reads the rows of a table as changes of another one
CHANGELOG = "FROM_CHANGELOG"
TO_CHANGELOG = "TO_CHANGELOG"
CHANGELOGS = (CHANGELOG, TO_CHANGELOG)

# In `meta` of a window function: its spellings that Flink rejects
LENIENCIES = "leniencies"
# In `meta` of a query: the clause after it that Flink rejects, as a Leniency
BEHIND = "behind"

# In `meta` of a table: the `TableOptions` after its name
TABLE_OPTIONS = "table_options"

_STATE = re.compile(r"STATE\((-|\d+), (-|\d+), '(.*)'\)", re.DOTALL)

# In `meta` of a table without an alias: the qualifier of its columns, if it is not the table's name
COLUMN_PREFIX = "column_prefix"

# In `meta` of an expression that replaces a call: the call as written
WRITTEN = "written"

# In `meta` of a SELECT: names of its hints that Spark does not know
LEFT_OUT_HINTS = "left_out_hints"

# In `meta` of a SELECT: time-to-live of its state in microseconds, of STATE_TTL. 0 means forever.
STATE_TTL = "state_ttl"


@dataclass(frozen=True)
class Leniency:
    """A spelling that sqlwin accepts and Flink rejects.

    `start` and `end` are inclusive character offsets. `hint` shows the spelling that Flink accepts.
    """

    message: str
    start: int
    end: int
    hint: str | None


@dataclass(frozen=True)
class TableOptions:
    """`/*+ OPTIONS('key' = 'value') */` after a table name: options for this reference.

    `start` and `end` are inclusive character offsets in the statement's text.
    """

    pairs: tuple[tuple[str, str], ...]
    start: int
    end: int


def name_of_files(path: str) -> str:
    """Return the table name that represents the files at a path: the path in quotes.

    Example:
        >>> name_of_files("logs/*.parquet")
        "'logs/*.parquet'"
    """
    return f"'{path}'"


def path_of_files(name: str) -> str | None:
    """Return the path of the files that a name represents, or None for any other table."""
    is_path = len(name) > 2 and name[0] == name[-1] == "'"
    return name[1:-1] if is_path else None


@dataclass(frozen=True)
class StateTable:
    """`TABLE(STATE('dir', operator => 0, version => 12))`: the state of a stream's operator.

    Attributes:
        directory: Checkpoint directory.
        operator: Number of the operator. None if there is only one.
        version: Number of the micro-batch after which to read the state. None for the last one.
    """

    directory: str
    operator: int | None = None
    version: int | None = None


def name_of_state(state: StateTable) -> str:
    """Return the table name that represents a state.

    Example:
        >>> name_of_state(StateTable("ck/t", version=12))
        "STATE(-, 12, 'ck/t')"
    """
    operator, version = ("-" if n is None else n for n in (state.operator, state.version))
    return f"STATE({operator}, {version}, '{state.directory}')"


def state_of_name(name: str) -> StateTable | None:
    """Return the state that a name represents, or None for any other table."""
    match = _STATE.fullmatch(name)
    if match is None:
        return None
    operator, version = (None if n == "-" else int(n) for n in match.groups()[:2])
    return StateTable(match[3], operator, version)


def name_of_columns(table: exp.Table) -> str:
    """Return the qualifier of the columns of a table without alias, as in `f.price`."""
    return str(table.meta.get(COLUMN_PREFIX) or table.name)


class WindowFunctionCall(exp.Expression, exp.UDTF):
    """`TABLE(HOP(TABLE data, DESCRIPTOR(timecol), slide, size, offset))` in a FROM clause.

    Arguments:
        this: Name of the function as an `exp.Var`: TUMBLE, HOP, CUMULATE, SESSION, RANGES,
            GAP_FILL, FROM_CHANGELOG or TO_CHANGELOG.
        data: An `exp.Table` or an `exp.Subquery` without an alias.
        timecol: An `exp.Identifier`. CHANGELOGS have none.
        size, slide, step, gap, offset, emitonlyonupdate: Expressions as written.
        bounds: Table of RANGES, as `data`.
        boundcols: Two `exp.Identifier` in an `exp.Tuple`.
        fill, from, to, keys: Arguments of GAP_FILL: items as an `exp.Tuple`, two times, a query.
        op, op_mapping, error_handling: Arguments of CHANGELOGS: an `exp.Identifier`, texts in
            pairs as an `exp.Tuple`, a text.
        primary_key: Columns of the PRIMARY KEY of the table that FROM_CHANGELOG gives, as a list of
            `exp.Identifier`, if a table declares one.
        partition: Columns of PARTITION BY inside SESSION, GAP_FILL and CHANGELOGS, as a list.
        alias: An `exp.TableAlias`, with or without column names.
        names: Three identifiers if the window columns are renamed.

    Source positions are in `meta` of this node and of each argument, as sqlglot does for
    identifiers: `line`, `col` (of the last character), `start`, `end` (inclusive character
    offsets).
    """

    arg_types = {
        "this": True,
        "data": True,
        "timecol": False,
        "size": False,
        "slide": False,
        "step": False,
        "gap": False,
        "offset": False,
        "emitonlyonupdate": False,
        "bounds": False,
        "boundcols": False,
        "fill": False,
        "from": False,
        "to": False,
        "keys": False,
        "op": False,
        "op_mapping": False,
        "error_handling": False,
        "primary_key": False,
        "partition": False,
        "alias": False,
        "names": False,
        "joins": False,
        "laterals": False,
        "pivots": False,
        "sample": False,
    }

    @property
    def kind(self) -> str:
        """TUMBLE, HOP, CUMULATE, SESSION, RANGES, GAP_FILL, FROM_CHANGELOG or TO_CHANGELOG."""
        return str(self.this.name).upper()


class FillItem(exp.Expression):
    """`price = LOCF` in a FILL clause.

    Arguments:
        this: Identifier of the column. None: all columns that no other item names.
        expression: An `exp.Var` LOCF or LINEAR, or the value as an expression.
    """

    arg_types = {"this": False, "expression": True}


class FillClause(exp.Expression):
    """`FILL (n = 0, price = LOCF) FROM ... TO ... KEYS (SELECT ...)` after GROUP BY.

    It is the argument `fill` of the `exp.Group`.

    Arguments:
        expressions: Items.
        start: Time after FROM.
        end: Time after TO.
        keys: Query after KEYS, an `exp.Subquery`.
    """

    arg_types = {"expressions": True, "start": False, "end": False, "keys": False}


class UserAggregateCall(exp.Anonymous):
    """`weighted_mean(price, volume)`: a call of a user-defined aggregate function.

    Arguments:
        this: Function name, as written.
        expressions: The arguments.
        aggregate: The `runtime.spec.UserAggregate`.
    """

    arg_types = {"this": True, "expressions": False, "aggregate": True}


class KeywordCall(exp.Expression, exp.Func):
    """A call with keywords, such as `EXTRACT(DAY FROM ts)` or `TRIM(BOTH 'x' FROM a)`.

    Arguments:
        this: Function name, as written.
        expressions: The arguments. Units of time are an `exp.Var`.
        words: Keywords before each of `expressions`, "" for none.
    """

    arg_types = {"this": True, "expressions": True, "words": True}

    @property
    def name(self) -> str:
        """Function name, as written."""
        return str(self.this)


class FlinkCall(exp.Expression, exp.Func):
    """A call of a function of Flink's that Spark computes by another expression.

    Failures are NULL. `planner.sql.json_functions.spark` has the expression of Spark.

    Arguments:
        this: JSON_VALUE, JSON_EXISTS, JSON_QUERY or SPLIT_INDEX.
        expressions: The arguments. Paths and separators are literals.
        returns: Spark type of the result.
        wrapper: When JSON_QUERY puts brackets around the value: never, conditional or always.
    """

    arg_types = {"this": True, "expressions": True, "returns": True, "wrapper": False}

    @property
    def name(self) -> str:
        """Function name in upper case."""
        return str(self.this)

    @property
    def returns(self) -> str:
        """Spark type of the result."""
        return str(self.args["returns"])


class MultiUnitInterval(exp.Expression):
    """`INTERVAL '1' DAY '2' HOURS`: a literal with several units.

    Arguments:
        expressions: An `exp.Interval` per unit.
    """

    arg_types = {"expressions": True}


@dataclass(frozen=True)
class TextSpan:
    """Range of a statement's text, as inclusive character offsets."""

    start: int
    end: int


def span_of(*nodes: exp.Expr | None) -> TextSpan | None:
    """Return the span from the first to the last known position in the nodes, or None."""
    spans = [
        (part.meta["start"], part.meta["end"])
        for node in nodes
        if node is not None
        for part in node.walk()
        if "start" in part.meta and "end" in part.meta
    ]
    return merge_spans(TextSpan(start, end) for start, end in spans)


def merge_spans(spans: Iterable[TextSpan | None]) -> TextSpan | None:
    """Return the span from the first to the last character of some spans, or None."""
    present = [span for span in spans if span is not None]
    if not present:
        return None
    return TextSpan(min(span.start for span in present), max(span.end for span in present))


def copy_place(new: exp.Expr, old: exp.Expr) -> exp.Expr:
    """Give `new` the source position of `old`, which it replaces, and return it."""
    if (span := span_of(old)) is not None:
        new.meta.update(start=span.start, end=span.end)
    return new


def position_of(node: exp.Expr | None, sql: str) -> Position | None:
    """Return the position of `node` in `sql`, from its first to its last known character."""
    span = span_of(node)
    return None if span is None else Position.at(sql, span.start, span.end - span.start + 1)


def error_at(
    sql: str,
    message: str,
    *places: exp.Expr | None,
    hint: str | None = None,
    kind: ErrorKind | None = None,
    subjects: tuple[str, ...] = (),
) -> AnalysisError:
    """Return an error at the first of `places` that has a position in `sql`."""
    positions = (position_of(node, sql) for node in places)
    position = next((place for place in positions if place is not None), None)
    return AnalysisError(
        message, position=position, sql=sql, hint=hint, kind=kind, subjects=subjects
    )


class PlacedError(AnalysisError):
    """An error raised where only the span of its subject is known, not the text.

    Args:
        error: Error without a position.
        span: Span of its subject in the text of the statement, or of a view.
    """

    def __init__(self, error: SqlwinError, span: TextSpan | None) -> None:
        super().__init__(error.message, hint=error.hint, kind=error.kind, subjects=error.subjects)
        self._span = span

    def place_in(self, sql: str) -> None:
        """Set the position if the span has the subject's name in `sql`."""
        if self._span is None or self.subject is None:
            return
        text = sql[self._span.start : self._span.end + 1]
        if text.replace("`", "").lower() == self.subject.replace("`", "").lower():
            self.position, self.sql = Position.at(sql, self._span.start, len(text)), sql
