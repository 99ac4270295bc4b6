"""The nodes that sqlwin's SQL adds to sqlglot's, and where a node stands in the text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from runtime.errors import AnalysisError, ErrorKind, Position

WINDOW_COLUMNS = ("window_start", "window_end", "window_time")

# The same behind GROUP BY TUMBLE(...): names that no column of a user's has
GROUP_WINDOW_COLUMNS = ("w$start", "w$end", "w$rowtime")


# In `meta` of a window function: what it is written with that Flink does not read
LENIENCIES = "leniencies"
# In the `meta` of a query what stands behind it that Flink does not read, as a Leniency
BEHIND = "behind"

# In `meta` of a table: the `TableOptions` behind its name
TABLE_OPTIONS = "table_options"

_STATE = re.compile(r"STATE\((-|\d+), (-|\d+), '(.*)'\)", re.DOTALL)

# In `meta` of a table: what its columns are called by where it has no alias, if not by its name
COLUMN_PREFIX = "column_prefix"

# In `meta` of a SELECT: names of hints that it is written with and Spark does not read
LEFT_OUT_HINTS = "left_out_hints"


@dataclass(frozen=True)
class Leniency:
    """A spelling that sqlwin reads and Flink refuses.

    `start` and `end` are inclusive character offsets; `hint` says what Flink reads.
    """

    message: str
    start: int
    end: int
    hint: str | None


@dataclass(frozen=True)
class TableOptions:
    """`/*+ OPTIONS('key' = 'value') */` behind the name of a table: its options in this place.

    `start` and `end` are inclusive character offsets in the text of the statement.
    """

    pairs: tuple[tuple[str, str], ...]
    start: int
    end: int


def name_of_files(path: str) -> str:
    """The name of the table that is the files at a path: the path in quotes, as it is written.

    Example:
        >>> name_of_files("logs/*.parquet")
        "'logs/*.parquet'"
    """
    return f"'{path}'"


def path_of_files(name: str) -> str | None:
    """The path of the files that a name stands for; None for the name of another table."""
    is_path = len(name) > 2 and name[0] == name[-1] == "'"
    return name[1:-1] if is_path else None


@dataclass(frozen=True)
class StateTable:
    """`TABLE(STATE('dir', operator => 0, version => 12))`: what an operator of a stream keeps.

    Attributes:
        directory: that of the checkpoint.
        operator: the number of the operator; None: the only one.
        version: the number of the micro-batch after which; None: the last one.
    """

    directory: str
    operator: int | None = None
    version: int | None = None


def name_of_state(state: StateTable) -> str:
    """The name of the table that a state is.

    Example:
        >>> name_of_state(StateTable("ck/t", version=12))
        "STATE(-, 12, 'ck/t')"
    """
    operator, version = ("-" if n is None else n for n in (state.operator, state.version))
    return f"STATE({operator}, {version}, '{state.directory}')"


def state_of_name(name: str) -> StateTable | None:
    """The state that a name stands for; None for the name of another table."""
    found = _STATE.fullmatch(name)
    if found is None:
        return None
    operator, version = (None if n == "-" else int(n) for n in found.groups()[:2])
    return StateTable(found[3], operator, version)


def name_of_columns(table: exp.Table) -> str:
    """What stands before the columns of a table that has no alias, as in `f.price`."""
    return str(table.meta.get(COLUMN_PREFIX) or table.name)


class WindowFunctionCall(exp.Expression, exp.UDTF):
    """`TABLE(HOP(TABLE data, DESCRIPTOR(timecol), slide, size, offset))` in a FROM clause.

    Arguments:
        this: the function's name as an `exp.Var`: TUMBLE, HOP, CUMULATE or SESSION.
        data: an `exp.Table` or an `exp.Subquery` without alias of its own.
        timecol: an `exp.Identifier`.
        size, slide, step, gap, offset, emitonlyonupdate: the expressions as written.
        partition: the columns of a PARTITION BY inside SESSION, a list.
        alias: an `exp.TableAlias`, with or without column names.
        names: three identifiers, if the window columns have other names than the usual ones.

    Source positions are kept in `meta`, as sqlglot does for identifiers: `line`, `col` (of the
    last character), `start`, `end` (inclusive character offsets); on this node, on each argument.
    """

    arg_types = {
        "this": True,
        "data": True,
        "timecol": True,
        "size": False,
        "slide": False,
        "step": False,
        "gap": False,
        "offset": False,
        "emitonlyonupdate": False,
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
        """TUMBLE, HOP, CUMULATE or SESSION."""
        return str(self.this.name).upper()


class UserAggregateCall(exp.Anonymous):
    """`weighted_mean(price, volume)`: a call of a user-defined aggregate function.

    Arguments:
        this: the function's name, as written.
        expressions: its arguments.
        aggregate: the `runtime.spec.UserAggregate`.
    """

    arg_types = {"this": True, "expressions": False, "aggregate": True}


class KeywordCall(exp.Expression, exp.Func):
    """`EXTRACT(DAY FROM ts)`, `TRIM(BOTH 'x' FROM a)`: words stand between the arguments.

    Arguments:
        this: the function's name, as written.
        expressions: its arguments; units of time are an `exp.Var`.
        words: the words before each of `expressions`, empty strings for none.
    """

    arg_types = {"this": True, "expressions": True, "words": True}

    @property
    def name(self) -> str:
        """The function's name, as written."""
        return str(self.this)


class MultiUnitInterval(exp.Expression):
    """`INTERVAL '1' DAY '2' HOURS`: one literal of several units.

    Arguments:
        expressions: an `exp.Interval` for each unit.
    """

    arg_types = {"expressions": True}


@dataclass(frozen=True)
class TextSpan:
    """Characters of a statement's text, by their inclusive offsets."""

    start: int
    end: int


def span_of(*nodes: exp.Expr | None) -> TextSpan | None:
    """From the first to the last character known of the nodes' parts; None if none is known."""
    spans = [
        (part.meta["start"], part.meta["end"])
        for node in nodes
        if node is not None
        for part in node.walk()
        if "start" in part.meta and "end" in part.meta
    ]
    return joined_spans(TextSpan(start, end) for start, end in spans)


def joined_spans(spans: Iterable[TextSpan | None]) -> TextSpan | None:
    """From the first to the last character of some spans; None if there is none."""
    known = [span for span in spans if span is not None]
    if not known:
        return None
    return TextSpan(min(span.start for span in known), max(span.end for span in known))


def placed_like(new: exp.Expr, old: exp.Expr) -> exp.Expr:
    """`new`, which stands for what `old` says in the text, at the place of `old`."""
    if (span := span_of(old)) is not None:
        new.meta.update(start=span.start, end=span.end)
    return new


def position_of(node: exp.Expr | None, sql: str) -> Position | None:
    """Where `node` stands in `sql`: from the first to the last character known of its parts."""
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
    """An error at the first of some nodes that has a place in the text `sql`."""
    positions = (position_of(place, sql) for place in places)
    position = next((found for found in positions if found is not None), None)
    return AnalysisError(
        message, position=position, sql=sql, hint=hint, kind=kind, subjects=subjects
    )
