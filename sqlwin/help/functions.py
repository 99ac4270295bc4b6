"""Help on functions: signature, meaning, a picture, an example. Imports little."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runtime.errors import CatalogError, nearest
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
Adds window_start, window_end (exclusive) and window_time (window_end - 1 ms) to each row.
GROUP BY window_start, window_end to aggregate; without GROUP BY a row is emitted once for each
of its windows. Arguments may be named, in any order: SIZE => INTERVAL '1' HOUR. Rows whose
time is NULL are in no window."""

_QUERY = """\
SELECT window_start, window_end, COUNT(*) AS n
FROM TABLE({call})
GROUP BY window_start, window_end;"""


def _window(signature: str, summary: str, text: str, call: str, drawn: str) -> FunctionHelp:
    name, example = signature.partition("(")[0], _QUERY.format(call=call)
    return FunctionHelp(name, signature, summary, f"{text}\n{_COLUMNS}", example, drawn)


WINDOWS: Mapping[str, FunctionHelp] = {
    function.name: function
    for function in (
        _window(
            "TUMBLE(TABLE data, DESCRIPTOR(timecol), size [, offset])",
            "windows that touch and never overlap",
            "Windows of one size, one after the other: each row is in exactly one. They begin at\n"
            "multiples of the size since 1970-01-01 00:00, moved by the offset, which may be\n"
            "negative; a size in months, quarters, years or weeks makes windows of the calendar.\n"
            " A row on a boundary belongs to the later window.",
            "TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTES)",
            picture("TUMBLE", step=10, size=10, until=40),
        ),
        _window(
            "HOP(TABLE data, DESCRIPTOR(timecol), slide, size [, offset])",
            "windows that begin every slide and overlap",
            "Windows of one size that begin every slide: each row is in size / slide of them.\n"
            "The slide stands before the size, as in Flink. Any ratio of the two works: a size\n"
            "that is no multiple of the slide, and a slide that is greater than the size (rows\n"
            "between two windows are then in none).",
            "HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES)",
            picture("HOP", step=5, size=10, until=25),
        ),
        _window(
            "CUMULATE(TABLE data, DESCRIPTOR(timecol), step, size [, offset] [, emitonlyonupdate])",
            "windows that grow by the step up to the size, then begin anew",
            "Windows that begin together every size and end after one step, two steps, ... up to\n"
            "the size: running totals, such as today's count so far, every ten minutes. The size\n"
            "is a multiple of the step. EMITONLYONUPDATE => TRUE gives only the windows whose\n"
            "last step has rows.",
            "CUMULATE(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' MINUTES, INTERVAL '15' MINUTES)",
            picture("CUMULATE", step=5, size=15, until=30),
        ),
        _window(
            "SESSION(TABLE data [PARTITION BY keys], DESCRIPTOR(timecol), gap)",
            "windows that last while rows keep coming",
            "A window lasts from its first row until the gap has passed after its last one: rows\n"
            "that are at most the gap apart are in one session. With PARTITION BY each key has\n"
            "sessions of its own.",
            "SESSION(TABLE bids PARTITION BY item, DESCRIPTOR(ts), INTERVAL '5' MINUTES)",
            picture("SESSION", step=5, size=5, until=40),
        ),
    )
}


def _aggregate(signature: str, summary: str, text: str = "", like: str = "") -> FunctionHelp:
    name = signature.partition("(")[0]
    example = _AGGREGATED.format(call=like or signature)
    return FunctionHelp(name, signature, summary, text, example, aggregate_picture(name))


_AGGREGATED = """\
SELECT window_start, window_end, item, {call} AS value
FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTES))
GROUP BY window_start, window_end, item;"""

_BY_TIME = """\
By the time column of the window; among rows of one time, by value, so that the answer is
always the same. IGNORE NULLS leaves out NULLs."""

_BY_TIME_NO_NULLS = """\
By the time column of the window; among rows of one time, by value, so that the answer is
always the same. NULLs are left out, as in Flink; RESPECT NULLS keeps them."""

# Aggregates that are merged from slices; Spark's others work too, on rows that are copied into
# their windows
AGGREGATES: dict[str, FunctionHelp] = {
    function.name: function
    for function in (
        _aggregate(
            "COUNT(*)",
            "how many rows",
            "COUNT(x) counts rows in which x is not NULL, COUNT(DISTINCT x) different values.",
        ),
        _aggregate("COUNT_IF(condition)", "how many rows meet a condition", "",
                   "COUNT_IF(price > 100)"),
        _aggregate("APPROX_COUNT_DISTINCT(x [, error])", "about how many different values",
                   "Off by 5 % on the average, or by the error given, as with Spark.",
                   "APPROX_COUNT_DISTINCT(bidder)"),
        _aggregate("APPROX_PERCENTILE(x, percentage [, accuracy])",
                   "about the value below which that share of the values is",
                   "A percentage from 0 to 1, or an ARRAY of them for an ARRAY of values. The\n"
                   "rank is off by at most 1 / accuracy of the values (10000 if none is given).",
                   "APPROX_PERCENTILE(price, 0.95)"),
        _aggregate("PERCENTILE_APPROX(x, percentage [, accuracy])",
                   "another name of APPROX_PERCENTILE", "", "PERCENTILE_APPROX(price, 0.95)"),
        _aggregate("SUM(x)", "the sum",
                   "NULL if every x is. An overflow of whole numbers is an error.\n"
                   "SUM(DISTINCT x) adds each value once.", "SUM(price)"),
        _aggregate("AVG(x)", "the mean",
                   "NULL if every x is. AVG(DISTINCT x) takes each value once.", "AVG(price)"),
        _aggregate("MEAN(x)", "the mean: another name of AVG", "", "MEAN(price)"),
        _aggregate("MIN(x)", "the least value", "", "MIN(price)"),
        _aggregate("MAX(x)", "the greatest value", "", "MAX(price)"),
        _aggregate("MIN_BY(x, y)", "the x where y is least", "", "MIN_BY(bidder, price)"),
        _aggregate("MAX_BY(x, y)", "the x where y is greatest", "", "MAX_BY(bidder, price)"),
        _aggregate("FIRST_VALUE(x)", "the first x", _BY_TIME_NO_NULLS, "FIRST_VALUE(price)"),
        _aggregate("LAST_VALUE(x)", "the last x", _BY_TIME_NO_NULLS, "LAST_VALUE(price)"),
        _aggregate("FIRST(x)", "the x of the first row", _BY_TIME, "FIRST(price)"),
        _aggregate("LAST(x)", "the x of the last row", _BY_TIME, "LAST(price)"),
        _aggregate("ANY_VALUE(x)", "some x: here that of the first row", _BY_TIME,
                   "ANY_VALUE(price)"),
        _aggregate("LISTAGG(x [, separator])", "the texts in one, in the order of time",
                   "With a comma between them unless another separator is given. Texts of one\n"
                   "time stand in their own order. NULLs are left out; NULL if every x is.",
                   "LISTAGG(bidder, ', ')"),
        _aggregate("STRING_AGG(x [, separator])",
                   "the texts in one: as LISTAGG, but with nothing between them by default", "",
                   "STRING_AGG(bidder, ', ')"),
        _aggregate("VAR_POP(x)", "the variance of the values", "", "VAR_POP(price)"),
        _aggregate("VAR_SAMP(x)", "the variance of a sample (n - 1)", "NULL of a single value.",
                   "VAR_SAMP(price)"),
        _aggregate("VARIANCE(x)", "another name of VAR_SAMP", "", "VARIANCE(price)"),
        _aggregate("STDDEV_POP(x)", "the standard deviation of the values", "",
                   "STDDEV_POP(price)"),
        _aggregate("STDDEV_SAMP(x)", "the standard deviation of a sample (n - 1)",
                   "NULL of a single value.", "STDDEV_SAMP(price)"),
        _aggregate("STDDEV(x)", "another name of STDDEV_SAMP", "", "STDDEV(price)"),
        _aggregate("STD(x)", "another name of STDDEV_SAMP", "", "STD(price)"),
        _aggregate("BOOL_AND(x)", "whether every x is true", "NULLs do not count.",
                   "BOOL_AND(price > 100)"),
        _aggregate("EVERY(x)", "another name of BOOL_AND", "", "EVERY(price > 100)"),
        _aggregate("BOOL_OR(x)", "whether any x is true", "NULLs do not count.",
                   "BOOL_OR(price > 100)"),
        _aggregate("SOME(x)", "another name of BOOL_OR", "", "SOME(price > 100)"),
        _aggregate("ANY(x)", "another name of BOOL_OR", "", "ANY(price > 100)"),
        _aggregate("BIT_AND(x)", "AND of the bits of whole numbers", "", "BIT_AND(flags)"),
        _aggregate("BIT_OR(x)", "OR of the bits of whole numbers", "", "BIT_OR(flags)"),
        _aggregate("BIT_XOR(x)", "exclusive OR of the bits of whole numbers", "",
                   "BIT_XOR(flags)"),
    )
}  # fmt: skip

_PARAMETERS = {"TUMBLE": "size", "HOP": "slide, size", "SESSION": "gap"}
_PROPERTIES = {
    "START": "where the window of GROUP BY begins",
    "END": "where the window of GROUP BY ends (exclusive)",
    "ROWTIME": "the time of the window's rows: its end - 1 ms",
    "PROCTIME": "the time at which the window of GROUP BY is emitted",
}
_GROUPED = """\
SELECT {name}(ts, {lengths}) AS t, COUNT(*) AS n
FROM bids
GROUP BY {kind}(ts, {lengths});"""
_LENGTHS = {
    "TUMBLE": "INTERVAL '10' MINUTES",
    "HOP": "INTERVAL '5' MINUTES, INTERVAL '10' MINUTES",
    "SESSION": "INTERVAL '5' MINUTES",
}

# Functions for TUMBLE, HOP and SESSION in GROUP BY, the style of Flink before 1.13
GROUP_WINDOWS: dict[str, FunctionHelp] = {
    f"{kind}_{prop}": FunctionHelp(
        f"{kind}_{prop}",
        f"{kind}_{prop}(timecol, {parameters})",
        summary,
        f"Goes with GROUP BY {kind}(timecol, {parameters}), whose arguments it repeats: the style\n"
        "of Flink before 1.13, which is run as the table function.",
        _GROUPED.format(name=f"{kind}_{prop}", kind=kind, lengths=_LENGTHS[kind]),
        WINDOWS[kind].picture,
    )
    for kind, parameters in _PARAMETERS.items()
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
            f"there is no help on a function {name.upper()}",
            hint=f"did you mean {close}?"
            if close
            else "`DESCRIBE FUNCTION name` describes functions of Spark",
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
            "With TUMBLE, HOP and SESSION in GROUP BY, the style of Flink before 1.13:",
            GROUP_WINDOWS,
        ),
    ):
        lines += [
            title,
            *(f"  {n:<{width}}  {function.summary}" for n, function in functions.items()),
            "",
        ]
    lines += ["Every other function of Spark works too: DESCRIBE FUNCTION name describes it."]
    return "\n".join(lines)
