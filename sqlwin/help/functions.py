"""Help on functions: signature, meaning, a picture, an example. Imports little."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runtime.errors import CatalogError, nearest
from runtime.functions.aggregates import AGGREGATES as MERGED
from runtime.functions.aggregates.function import MergedFunction, TakesBack
from runtime.windows import FUNCTIONS as KINDS
from runtime.windows import Window
from runtime.windows.arguments import WindowKind
from sqlwin.help.pictures import aggregate_picture, picture


@dataclass(frozen=True)
class FunctionHelp:
    """A function.

    Attributes:
        name: Name in upper case.
        signature: Signature with parameters.
        summary: Description in a few words.
        text: Description in sentences.
        example: Example query.
        picture: Windows over time, drawn in characters. For an aggregate, with its results.
    """

    name: str
    signature: str
    summary: str
    text: str
    example: str
    picture: str


_COLUMNS = """\
Each row gets window_start, window_end (exclusive) and window_time (window_end - 1 ms).
To aggregate, GROUP BY window_start, window_end. Without GROUP BY, a row is emitted once for
each of its windows. Arguments can be named, in any order: {named}. Rows
whose time is NULL belong to no window."""

# Example of a named argument, by whether the windows are rows of a table
_NAMED = {False: "SIZE => INTERVAL '1' HOUR", True: "BOUNDS => TABLE campaigns"}

_QUERY = """\
SELECT window_start, window_end, COUNT(*) AS n
FROM TABLE({call})
GROUP BY window_start, window_end;"""


def _window(kind: WindowKind[Window]) -> FunctionHelp:
    data = "TABLE bids PARTITION BY item" if kind.has_partition else "TABLE bids"
    return FunctionHelp(
        kind.name,
        kind.usage,
        kind.summary,
        f"{kind.text}\n{_COLUMNS.format(named=_NAMED[kind.has_bounds])}",
        _QUERY.format(call=f"{kind.name}({data}, DESCRIPTOR(ts), {kind.example})"),
        picture(kind),
    )


_GAP_FILL = """\
Each key gets rows from its first to its last window, or between FROM and TO. The time of an
added row is the start of its window. FILL => (price = LOCF, n = 0) gives values to columns:
LOCF, LINEAR, a constant; others are NULL. KEYS => (SELECT item FROM items) adds keys without
rows. After GROUP BY, the clause FILL does the same for windows."""
_GAPS = """\
        10:00     10:05     10:10     10:15
        ├─────────┼─────────┼─────────┼─────────
rows    1                             4
LOCF    1         1         1         4
LINEAR  1         2         3         4"""

_CHANGELOG = """\
The table that the rows of another one describe, each with an operation code: the insertions that
no deletion removes. op names the column with the codes, by default op.
op_mapping maps codes to INSERT, UPDATE_BEFORE, UPDATE_AFTER and DELETE; without it, these are
the codes. An unknown code is an error; error_handling => 'SKIP' skips the row. On a stream,
TUMBLE, HOP and CUMULATE read the table, from a view or a subquery, and emit each window once.
GROUP BY without a window corrects its groups."""
_CHANGES = """\
op              item  price        item  price
INSERT          pen   2            pen   3
INSERT          cup   5      ───>
UPDATE_BEFORE   pen   2
UPDATE_AFTER    pen   3
DELETE          cup   5"""

_TO_CHANGELOG = """\
The changes of a table as rows that are only added, so that a stream may write a table that changes
into files, append-only topics and lakes. op names the column with the code of a change, by default
op. op_mapping maps the kinds INSERT, UPDATE_BEFORE, UPDATE_AFTER and DELETE to codes, several kinds
as 'INSERT, UPDATE_AFTER'; other kinds are left out. Without it, the codes are the kinds. In a
batch, and over rows that stay, every row is an INSERT."""
_TO_CHANGES = """\
micro-batch  item  price                      op             item   n
1            pen   2                          INSERT         pen    1
1            cup   5     COUNT(*) AS n        INSERT         cup    1
2            pen   4     GROUP BY item  ───>  UPDATE_BEFORE  pen    1
                                              UPDATE_AFTER   pen    2"""

WINDOWS: Mapping[str, FunctionHelp] = {
    function.name: function
    for function in (
        *map(_window, KINDS.values()),
        FunctionHelp(
            "GAP_FILL",
            "GAP_FILL(TABLE data [PARTITION BY keys], DESCRIPTOR(timecol), step [, FILL => ...] "
            "[, FROM => ...] [, TO => ...] [, KEYS => ...])",
            "rows of a table, and a row for each window of the step that has none",
            _GAP_FILL,
            "SELECT * FROM TABLE(GAP_FILL(TABLE bids PARTITION BY item, DESCRIPTOR(ts),\n"
            "  INTERVAL '5' MINUTES, FILL => (price = LOCF)));",
            _GAPS,
        ),
        FunctionHelp(
            "FROM_CHANGELOG",
            "FROM_CHANGELOG(input => TABLE changes [PARTITION BY keys] [, op => DESCRIPTOR(op)] "
            "[, op_mapping => MAP['codes', 'kind', ...]] [, error_handling => 'FAIL' or 'SKIP'])",
            "the table that rows with an operation code describe",
            _CHANGELOG,
            "SELECT item, price FROM FROM_CHANGELOG(\n"
            "  input => (SELECT *, 'c' AS op FROM bids),\n"
            "  op_mapping => MAP['c, r', 'INSERT', 'd', 'DELETE']);",
            _CHANGES,
        ),
        FunctionHelp(
            "TO_CHANGELOG",
            "TO_CHANGELOG(input => TABLE data [PARTITION BY keys] [, op => DESCRIPTOR(op)] "
            "[, op_mapping => MAP['kinds', 'code', ...]])",
            "the changes of a table as rows, with their kind as a column",
            _TO_CHANGELOG,
            "SELECT * FROM TO_CHANGELOG(\n"
            "  input => (SELECT item, COUNT(*) AS n FROM bids GROUP BY item),\n"
            "  op_mapping => MAP['INSERT, UPDATE_AFTER', 'u', 'DELETE', 'd']);",
            _TO_CHANGES,
        ),
    )
}


_AGGREGATED = """\
SELECT window_start, window_end, item, {call} AS value
FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTES))
GROUP BY window_start, window_end, item;"""


_TAKES_BACK = {
    TakesBack.VALUES: "",
    TakesBack.SUBTRACTED: "Over FROM_CHANGELOG, a stream subtracts deleted rows.",
    TakesBack.SUBTRACTED_IF_EXACT: "Over FROM_CHANGELOG, a stream subtracts deleted integers.",
}


def _aggregate(function: MergedFunction) -> FunctionHelp:
    return FunctionHelp(
        function.name,
        function.signature,
        function.summary,
        "\n".join(filter(None, (function.text, _TAKES_BACK[function.takes_back]))),
        _AGGREGATED.format(call=function.call(function.example)),
        aggregate_picture(function),
    )


# Aggregates that are merged from slices. For Spark's other aggregates, rows are copied into their
# windows.
AGGREGATES: dict[str, FunctionHelp] = {
    name: _aggregate(function) for name, function in MERGED.items()
}

_PROPERTIES = {
    "START": "start of the window of GROUP BY",
    "END": "end of the window of GROUP BY (exclusive)",
    "ROWTIME": "time of the window's results: its end - 1 ms",
    "PROCTIME": "time at which the window of GROUP BY is emitted",
}
_GROUPED = """\
SELECT {name}(ts, {lengths}) AS t, COUNT(*) AS n
FROM bids
GROUP BY {kind}(ts, {lengths});"""

# Functions for TUMBLE, HOP and SESSION in GROUP BY, the style of Flink before 1.13
GROUP_WINDOWS: dict[str, FunctionHelp] = {
    f"{kind.name}_{prop}": FunctionHelp(
        f"{kind.name}_{prop}",
        f"{kind.name}_{prop}(timecol, {', '.join(kind.lengths)})",
        summary,
        f"Use it with GROUP BY {kind.name}(timecol, {', '.join(kind.lengths)}) and the same "
        "arguments. This is the\nstyle of Flink before 1.13, which runs as the table function.",
        _GROUPED.format(name=f"{kind.name}_{prop}", kind=kind.name, lengths=kind.example),
        WINDOWS[kind.name].picture,
    )
    for kind in KINDS.values()
    if kind.is_group_window
    for prop, summary in _PROPERTIES.items()
}

FUNCTIONS: Mapping[str, FunctionHelp] = {**WINDOWS, **AGGREGATES, **GROUP_WINDOWS}


def describe_function(name: str) -> str:
    """Return signature, meaning, picture and example of a function. Case does not matter.

    Raises:
        CatalogError: The name is not in `FUNCTIONS`.
    """
    function = FUNCTIONS.get(name.strip().rstrip("()").upper())
    if function is None:
        close = nearest(name.upper(), FUNCTIONS)
        raise CatalogError(
            f"no help for function {name.upper()}",
            hint=f"did you mean {close}?"
            if close
            else "for Spark functions, use `DESCRIBE FUNCTION name`",
        )
    summary = function.summary[:1].upper() + function.summary[1:] + "."
    parts = [
        function.signature,
        "  " + "\n  ".join([summary, *function.text.splitlines()]).rstrip(),
    ]
    parts.append("  " + function.picture.replace("\n", "\n  "))
    parts.append("Example:\n  " + function.example.replace("\n", "\n  "))
    return "\n\n".join(parts)


def list_functions() -> str:
    """Return all functions with their summaries, one per line."""
    width = max(map(len, FUNCTIONS))
    lines: list[str] = []
    for title, functions in (
        ("Window functions (in FROM):", WINDOWS),
        ("Aggregates that are merged from slices:", AGGREGATES),
        (
            "For TUMBLE, HOP and SESSION in GROUP BY, the style of Flink before 1.13:",
            GROUP_WINDOWS,
        ),
    ):
        lines += [
            title,
            *(f"  {n:<{width}}  {function.summary}" for n, function in functions.items()),
            "",
        ]
    lines += ["All other Spark functions work too: DESCRIBE FUNCTION name describes them."]
    return "\n".join(lines)
