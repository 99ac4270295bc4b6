"""Flink's semantics for functions and operators that Spark defines differently.

Applies only under `sqlwin.strict-flink`; docs/coming-from-flink.md lists each of them. This module
handles calls that can be rewritten from their text. `planner.sql.flink_types` handles those that
depend on argument types.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.sql.build import (
    case_when,
    cast_as,
    conjunction,
    function_call,
    is_not_null,
    is_number_literal,
    literal,
    operand,
    replace_call,
    with_wrappers,
)
from planner.sql.nodes import KeywordCall
from planner.sql.render import RAW, RAW_VALUE

# Returns the replacement of a call, or None to keep it
_Call = Callable[[exp.Anonymous], exp.Expr | None]

# Set by the parser in `meta` of a type: a TIMESTAMP without an explicit zone
BARE_TIMESTAMP = "bare_timestamp"
# Set by the parser in `meta` of a type: (CHAR or VARCHAR, its length)
LENGTH = "length"

# Lambda variable with a name that no column has
_ELEMENT = "element$"


def rewrite_meanings(tree: exp.Expr) -> bool:
    """Rewrite, in place, calls and literals whose text determines Flink's semantics.

    Args:
        tree: A query or an expression. If the root is such a call, it must have a parent.

    Returns:
        Whether anything was rewritten.
    """
    has_any = _without_escapes(tree)
    nodes = tree.find_all(exp.Anonymous, KeywordCall, exp.Cast)
    for node in reversed(list(nodes)):  # inner nodes first, because arguments are copied
        new: exp.Expr | None = None
        old: exp.Expr = node
        if isinstance(node, exp.Anonymous) and isinstance(node.this, str):
            rewrite = _CALLS.get(node.name.upper())
            old = with_wrappers(node) if rewrite is _array_agg else node
            new = rewrite(node) if rewrite is not None else None
        elif isinstance(node, KeywordCall):
            new = _keyword_call(node)
        elif isinstance(node, exp.Cast) and node.to.meta.get(BARE_TIMESTAMP):
            node.to.set("this", exp.DType.TIMESTAMPNTZ)
            has_any = True
        if new is not None:
            has_any = True
            new.meta.update({key: value for key, value in old.meta.items() if key != RAW})
            replace_call(old, new)
    return has_any


def _without_escapes(tree: exp.Expr) -> bool:
    """Make backslashes in strings literal characters, as in Flink."""
    has_any = False
    for text in tree.find_all(exp.Literal):
        raw = str(text.meta.get(RAW, ""))
        if text.is_string and raw.startswith("'") and "\\" in raw:
            text.set("this", raw[1:-1].replace("''", "'"))
            text.meta.pop(RAW_VALUE, None)
            text.meta.pop(RAW)
            has_any = True
    return has_any


# -- calls that are rewritten from their text -----------------------------------------------------


def _greatest_or_least(call: exp.Anonymous) -> exp.Expr | None:
    """Return NULL if any argument is NULL."""
    condition = conjunction(is_not_null(operand(arg)) for arg in call.expressions)
    return None if condition is None else case_when(condition, call.copy())


def _regexp_extract(call: exp.Anonymous) -> exp.Expr | None:
    """Return the whole match by default, and NULL without a match."""
    if len(call.expressions) not in (2, 3):
        return None
    text, pattern, *group = call.expressions
    extract = function_call(call.name, text, pattern, *(group or [literal(0)]))
    return case_when(function_call("REGEXP_LIKE", text, pattern), extract)


def _regexp_replace(call: exp.Anonymous) -> exp.Expr | None:
    """Take `$1` and backslashes in the replacement literally."""
    if len(call.expressions) != 3:
        return None
    text, pattern, new = call.expressions
    if isinstance(new, exp.Literal) and new.is_string:
        plain = new.name.replace("\\", "\\\\").replace("$", "\\$")
        if plain == new.name:
            return None
        return function_call(call.name, text, pattern, literal(plain))
    new = function_call("REPLACE", new, literal("\\"), literal("\\\\"))
    new = function_call("REPLACE", new, literal("$"), literal("\\$"))
    return function_call(call.name, text, pattern, new)


def _trim_side(call: exp.Anonymous) -> exp.Expr | None:
    """Take the text as first argument. In Spark the characters come first."""
    if len(call.expressions) != 2:
        return None
    return function_call(call.name, *reversed(call.expressions))


def _str_to_map(call: exp.Anonymous) -> exp.Expr | None:
    """Separate keys and values by `=` by default. Spark uses `:`."""
    n_given = len(call.expressions)
    if n_given not in (1, 2):
        return None
    return function_call(call.name, *call.expressions, *[literal(","), literal("=")][n_given - 1 :])


def _split(call: exp.Anonymous) -> exp.Expr | None:
    """Take the delimiter literally. In Spark it is a pattern."""
    if len(call.expressions) != 2:
        return None
    text, delimiter = call.expressions
    pattern: exp.Expr = function_call("CONCAT", literal("\\Q"), delimiter, literal("\\E"))
    if not (isinstance(delimiter, exp.Literal) and delimiter.name):
        is_empty = exp.EQ(this=operand(delimiter), expression=literal(""))
        pattern = case_when(is_empty, literal(""), pattern)
    return function_call(call.name, text, pattern)


def _elt(call: exp.Anonymous) -> exp.Expr | None:
    """Return NULL beyond the last argument."""
    index, *values = call.expressions
    between = exp.Between(this=operand(index), low=literal(1), high=literal(len(values)))
    return case_when(between, call.copy())


def _pad(call: exp.Anonymous) -> exp.Expr | None:
    """Return NULL for a negative length or an empty padding text."""
    if len(call.expressions) != 3:
        return None
    _, length, pad = call.expressions
    parts: list[exp.Expr] = []
    if not is_number_literal(length):
        parts.append(exp.GTE(this=operand(length), expression=literal(0)))
    if not (isinstance(pad, exp.Literal) and pad.name):
        parts.append(exp.NEQ(this=operand(pad), expression=literal("")))
    condition = conjunction(parts)
    return None if condition is None else case_when(condition, call.copy())


def _logarithm(call: exp.Anonymous) -> exp.Expr | None:
    """Return -Infinity for 0 and NaN for negative numbers. Spark returns NULL."""
    if not 1 <= len(call.expressions) <= (2 if call.name.upper() == "LOG" else 1):
        return None
    value = call.expressions[-1]
    if is_number_literal(value) and value.name.strip("0."):
        return None
    below = exp.LT(this=operand(value), expression=literal(0))
    zero = exp.EQ(this=operand(value), expression=literal(0))
    ifs = [
        exp.If(this=below, true=cast_as(literal("NaN"), "double")),
        exp.If(this=zero, true=cast_as(literal("-Infinity"), "double")),
    ]
    return exp.Case(ifs=ifs, default=call.copy())


def _initcap(call: exp.Anonymous) -> exp.Expr | None:
    """Treat runs of letters and digits as words. Spark separates words by blanks only."""
    if len(call.expressions) != 1:
        return None
    word = exp.Column(this=_element())
    first = function_call("UPPER", function_call("LEFT", word, literal(1)))
    rest = function_call("LOWER", function_call("SUBSTRING", word, literal(2)))
    is_word = function_call("REGEXP_LIKE", word, literal("^[0-9A-Za-z]"))
    spelt = case_when(is_word, function_call("CONCAT", first, rest), word.copy())
    pattern = literal("[0-9A-Za-z]+|[^0-9A-Za-z]+")
    words = function_call("REGEXP_EXTRACT_ALL", call.expressions[0], pattern, literal(0))
    return function_call(
        "ARRAY_JOIN", function_call("TRANSFORM", words, _lambda(spelt)), literal("")
    )


def _element() -> exp.Identifier:
    return exp.Identifier(this=_ELEMENT, quoted=True)


def _lambda(value: exp.Expr) -> exp.Expr:
    return exp.Lambda(this=value, expressions=[_element()])


def _array_contains(call: exp.Anonymous) -> exp.Expr | None:
    """Treat NULL like any other value and return FALSE if absent. Spark may return NULL."""
    if len(call.expressions) != 2:
        return None
    array, value = call.expressions
    same = exp.NullSafeEQ(this=exp.Column(this=_element()), expression=operand(value))
    return function_call("EXISTS", array, _lambda(same))


def _array_remove(call: exp.Anonymous) -> exp.Expr | None:
    """Allow NULL as the element to remove."""
    if len(call.expressions) != 2:
        return None
    array, value = call.expressions
    same = exp.NullSafeEQ(this=exp.Column(this=_element()), expression=operand(value))
    return function_call("FILTER", array, _lambda(exp.Not(this=exp.Paren(this=same))))


def _array_sort(call: exp.Anonymous) -> exp.Expr | None:
    """Sort NULLs first. Spark sorts them last."""
    array, *flags = call.expressions
    if len(flags) < 2:
        return function_call("SORT_ARRAY", array, *flags)
    if len(flags) > 2 or not all(isinstance(flag, exp.Boolean) for flag in flags):
        return None
    is_ascending, has_nulls_first = (bool(flag.this) for flag in flags)
    if is_ascending is has_nulls_first:
        return function_call("SORT_ARRAY", array, flags[0])
    ascending = function_call("ARRAY_SORT", array)
    return ascending if is_ascending else function_call("REVERSE", ascending)


def _array_agg(call: exp.Anonymous) -> exp.Expr | None:
    """Include NULLs, which Spark only collects inside structs, and return NULL without rows."""
    if len(call.expressions) != 1:
        return None
    (value,) = call.expressions
    is_distinct = isinstance(value, exp.Distinct)
    item = value.expressions[0] if isinstance(value, exp.Distinct) else value
    outer = with_wrappers(call)
    if any(isinstance(node, exp.IgnoreNulls) for node in (item, *outer.find_all(exp.IgnoreNulls))):
        return None
    item = item.this if isinstance(item, exp.RespectNulls) else item
    struct: exp.Expr = function_call("NAMED_STRUCT", literal("v"), item)
    call.set("this", "COLLECT_LIST")
    call.set("expressions", [exp.Distinct(expressions=[struct]) if is_distinct else struct])
    collected = outer.copy().transform(
        lambda node: node.this if isinstance(node, exp.RespectNulls) else node
    )
    field = exp.Dot(this=exp.Column(this=_element()), expression=exp.to_identifier("v"))
    values = function_call("TRANSFORM", collected, _lambda(field))
    has_rows = exp.GT(this=function_call("SIZE", collected), expression=literal(0))
    return case_when(has_rows, values)


def _unix_timestamp(call: exp.Anonymous) -> exp.Expr | None:
    """Ignore text after the seconds, and return the minimum BIGINT without a time."""
    if len(call.expressions) != 1:
        return None
    text = call.expressions[0]
    pattern = literal(r"^\s*\d+-\d+-\d+ \d+:\d+:\d+")
    seconds = exp.TryCast(
        this=function_call("REGEXP_EXTRACT", text, pattern, literal(0)),
        to=exp.DataType(this=exp.DType.TIMESTAMPLTZ),
        safe=True,
    )
    least = cast_as(literal(str(-(2**63))), "bigint")
    no_time = case_when(is_not_null(operand(text)), least)
    return function_call("COALESCE", cast_as(seconds, "bigint"), no_time)


def _first_or_last(call: exp.Anonymous) -> exp.Expr | None:
    """Ignore NULLs."""
    if len(call.expressions) != 1 or isinstance(
        call.expressions[0], exp.IgnoreNulls | exp.RespectNulls
    ):
        return None
    parent = call.parent
    parent = parent.parent if isinstance(parent, exp.Filter) else parent
    if isinstance(parent, exp.IgnoreNulls | exp.RespectNulls):
        return None
    return function_call(call.name, call.expressions[0], exp.true())


def _rename_to(name: str) -> _Call:
    return lambda call: function_call(name, *call.expressions)


_CALLS: dict[str, _Call] = {
    "ARRAY_AGG": _array_agg,
    "ARRAY_CONTAINS": _array_contains,
    "ARRAY_REMOVE": _array_remove,
    "ARRAY_SORT": _array_sort,
    "ELT": _elt,
    "GREATEST": _greatest_or_least,
    "INITCAP": _initcap,
    "LEAST": _greatest_or_least,
    "LPAD": _pad,
    "LTRIM": _trim_side,
    "PARSE_URL": _rename_to("TRY_PARSE_URL"),
    "REGEXP_EXTRACT": _regexp_extract,
    "REGEXP_REPLACE": _regexp_replace,
    "RPAD": _pad,
    "RTRIM": _trim_side,
    "SPLIT": _split,
    "STR_TO_MAP": _str_to_map,
    "UNIX_TIMESTAMP": _unix_timestamp,
    "URL_DECODE": _rename_to("TRY_URL_DECODE"),
    **dict.fromkeys(("FIRST_VALUE", "LAST_VALUE"), _first_or_last),
    **dict.fromkeys(("LN", "LOG", "LOG10", "LOG2"), _logarithm),
}


def _keyword_call(call: KeywordCall) -> exp.Expr | None:
    name, args = call.name.upper(), call.expressions
    if name == "EXTRACT" and args[0].name.upper() in ("SECOND", "SECONDS"):
        # whole seconds
        second = function_call("SECOND", args[1])
        return cast_as(second, "bigint")
    if name == "OVERLAY" and len(args) >= 3:
        length = function_call("CHAR_LENGTH", args[0])
        inside = exp.Between(this=operand(args[2]), low=literal(1), high=length)
        return case_when(inside, call.copy(), args[0].copy())
    return None
