"""Operators and clauses of PostgreSQL that sqlwin spells or means differently."""

from __future__ import annotations

from sqlglot import exp

from planner.sql.nodes import KeywordCall, span_of
from planner.sql.render import quote_string
from sqlwin.server.postgres.casts import items_of
from sqlwin.server.postgres.literals import micros_literal, months_and_micros
from sqlwin.server.postgres.patterns import java_pattern
from sqlwin.server.postgres.reader import IGNORES_CASE, IS_NEGATED, PLACES_NULLS
from sqlwin.server.postgres.types import INTEGERS, TIMES, UNKNOWN
from sqlwin.server.postgres.writer import ClientWriter, shown

_EPOCHS = {
    "timestamp": "TIMESTAMP_LTZ '1970-01-01 00:00:00Z'",
    "timestamp_ntz": "TIMESTAMP_NTZ '1970-01-01 00:00:00'",
}
# Fields of EXTRACT that sqlwin lacks or numbers differently: `{}` is the time
_FIELDS = {
    "DOW": "(DAYOFWEEK({}) - 1)",
    "ISODOW": "(WEEKDAY({}) + 1)",
    "DOY": "DAYOFYEAR({})",
    "ISOYEAR": "EXTRACT(YEAROFWEEK FROM {})",
    "DECADE": "CAST(FLOOR(YEAR({}) / 10) AS INT)",
    "CENTURY": "CAST(CEIL(YEAR({}) / 100) AS INT)",
    "MILLENNIUM": "CAST(CEIL(YEAR({}) / 1000) AS INT)",
    "MILLISECOND": "(EXTRACT(SECOND FROM {}) * 1000)",
    "MICROSECOND": "CAST(EXTRACT(SECOND FROM {}) * 1000000 AS BIGINT)",
}
_SAME_FIELDS = frozenset("YEAR QUARTER MONTH WEEK DAY HOUR MINUTE SECOND".split())
_ALIASES = {"MSEC": "MILLISECOND", "USEC": "MICROSECOND", "SEC": "SECOND", "MIN": "MINUTE"}
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip


def power(writer: ClientWriter, node: exp.Pow) -> str:
    """Write `a ^ b`."""
    return f"POWER({writer.sql(node.this)}, {writer.sql(node.expression)})"


def division(writer: ClientWriter, node: exp.Div) -> str | None:
    """Divide whole numbers as whole numbers."""
    left = writer.types.of(node.this)
    right = writer.types.of(node.expression)
    if left in ("decimal", "float", "double") or right in ("decimal", "float", "double"):
        return None
    if "interval" in (left, right) or node.find_ancestor(exp.Lambda) is not None:
        return None  # PostgreSQL has no functions of functions
    left = writer.type_of(node.this, "the division")
    right = writer.type_of(node.expression, "the division")
    kinds = {left, right} - {UNKNOWN}
    if not kinds or not kinds <= set(INTEGERS):
        return None
    text = f"{_operand(writer, node.this)} DIV {_operand(writer, node.expression)}"
    return f"({text})" if "bigint" in kinds else f"CAST({text} AS INT)"


def _operand(writer: ClientWriter, node: exp.Expr) -> str:
    text = writer.sql(node)
    is_plain = isinstance(
        node, exp.Column | exp.Literal | exp.Paren | exp.Anonymous | exp.Cast | exp.Interval
    )
    return text if is_plain else f"({text})"


def subtraction(writer: ClientWriter, node: exp.Sub) -> str | None:
    """Return days for two dates, and take the months and days of an interval one by one."""
    if writer.types.of(node.this) == writer.types.of(node.expression) == "date":
        return f"DATEDIFF({writer.sql(node.this)}, {writer.sql(node.expression)})"
    return _with_interval(writer, node, "-")


def addition(writer: ClientWriter, node: exp.Add) -> str | None:
    """Add the months and days of an interval one by one."""
    return _with_interval(writer, node, "+")


def _with_interval(writer: ClientWriter, node: exp.Binary, sign: str) -> str | None:
    """Write a time plus or minus an interval: a date becomes a timestamp."""
    left, right = node.this, node.expression
    kinds = [writer.types.of(operand) for operand in (left, right)]
    parts = _months_and_days(right, sign)
    has_date = sorted(map(str, kinds)) == ["date", "interval"]
    if parts is None and not has_date:
        return None
    texts = [_operand(writer, left), parts or _operand(writer, right)]
    if has_date:
        place = kinds.index("date")
        texts[place] = f"CAST({texts[place]} AS TIMESTAMP_NTZ)"
    return f"({texts[0]} {sign} {texts[1]})"


def _months_and_days(value: exp.Expr, sign: str) -> str | None:
    """Return an interval of months and days as two intervals, None for another value."""
    text = value.this if isinstance(value, exp.Interval | exp.Cast) else None
    if not (isinstance(text, exp.Literal) and text.is_string) or value.args.get("unit"):
        return None
    if isinstance(value, exp.Cast) and value.to.this != exp.DType.INTERVAL:
        return None
    months, micros = months_and_micros(text.name)
    if not (months and micros):
        return None
    return f"INTERVAL '{months}' MONTH {sign} {micros_literal(micros)}"


def pattern_match(writer: ClientWriter, node: exp.RegexpLike) -> str | None:
    """Write `a ~ pattern`."""
    if IGNORES_CASE not in node.meta:
        return None
    pattern = node.expression
    if isinstance(pattern, exp.Literal) and pattern.is_string:
        text = java_pattern(pattern.name)
        shown_pattern = quote_string(f"(?i){text}" if node.meta[IGNORES_CASE] else text)
    else:
        shown_pattern = writer.sql(pattern)
        if node.meta[IGNORES_CASE]:
            shown_pattern = f"CONCAT('(?i)', {shown_pattern})"
    result = f"REGEXP_LIKE({writer.sql(node.this)}, {shown_pattern})"
    return f"(NOT {result})" if node.meta[IS_NEGATED] else result


def quantified(node: exp.Expr) -> tuple[bool, exp.Expr] | None:
    """Return whether a comparison is with ANY rather than ALL, and with which array or query.

    None for another comparison.
    """
    right = node.args.get("expression")
    array: exp.Expr | None = None
    if isinstance(right, exp.Any | exp.All):
        word, array = right.key.upper(), right.this
    elif isinstance(right, exp.Anonymous) and len(right.expressions) == 1:
        word, array = right.name.upper(), right.expressions[0]
    if array is None or word not in ("ANY", "SOME", "ALL"):
        return None
    while isinstance(array, exp.Paren | exp.Subquery) and not isinstance(array.this, exp.Values):
        array = array.this
    return word != "ALL", array


def comparison(writer: ClientWriter, node: exp.Binary) -> str | None:
    """Write a comparison with ANY or ALL of an array."""
    found = quantified(node)
    if found is None:
        return None
    (is_any, array), operator = found, _COMPARISONS[type(node)]
    value = _operand(writer, node.this)
    is_membership = (operator, is_any) in (("=", True), ("<>", False))
    negation = "" if is_any else "NOT "
    if isinstance(array, exp.Query):
        if not is_membership:
            writer.refuse(node, f"the server compares {operator} ANY and ALL with arrays only")
        return f"({value} {negation}IN ({writer.sql(array)}))"
    items = items_of(writer, array)
    if is_membership and items is not None:
        joined = ", ".join(items)
        return f"({value} {negation}IN ({joined}))" if items else ("FALSE" if is_any else "TRUE")
    inner = array.this if isinstance(array, exp.Cast) else array
    if is_membership and isinstance(inner, exp.Placeholder):
        number = writer.sql(inner)
        # `$1?` is whether the list has items: IN needs one
        if is_any:
            return f"({value} IN ({number}) AND {number}?)"
        return f"({value} NOT IN ({number}) OR NOT {number}?)"
    text = writer.sql(array)
    if is_membership:
        return f"{negation}ARRAY_CONTAINS({text}, {value})"
    function = "EXISTS" if is_any else "FORALL"
    return f"{function}({text}, `item$` -> {value} {operator} `item$`)"


def field(writer: ClientWriter, node: exp.Expr, name: str, time: exp.Expr) -> str | None:
    """Write EXTRACT of a field, None if sqlwin means the same."""
    upper = name.upper()
    upper = _ALIASES.get(upper.rstrip("S"), upper)
    upper = upper.removesuffix("S") if upper.removesuffix("S") in _FIELDS else upper
    if upper == "EPOCH":
        return _epoch(writer, time)
    kind = writer.types.of(time)
    text = writer.sql(time)
    if kind == "interval":
        return None
    if kind == UNKNOWN:
        text = f"CAST({text} AS TIMESTAMP_NTZ)"
    if upper in _FIELDS:
        return _FIELDS[upper].format(text)
    singular = upper.removesuffix("S")
    if singular not in _SAME_FIELDS:
        writer.refuse(node, f"the server cannot extract {name}")
    return f"EXTRACT({singular} FROM {text})"


def _epoch(writer: ClientWriter, time: exp.Expr) -> str:
    kind, text = writer.type_of(time, "the epoch"), writer.sql(time)
    if kind == "interval":
        start = _EPOCHS["timestamp_ntz"]
        kind, text = "timestamp_ntz", f"{start} + {_operand(writer, time)}"
    if kind in ("date", UNKNOWN):
        kind, text = "timestamp_ntz", f"CAST({text} AS TIMESTAMP_NTZ)"
    if kind not in _EPOCHS:
        writer.refuse(time, f"{shown(time)} is not a time")
    micros = f"TIMESTAMPDIFF(MICROSECOND, {_EPOCHS[kind]}, {text})"
    return f"(CAST({micros} AS DECIMAL(20, 0)) / 1000000)"


def keyword_call(writer: ClientWriter, node: KeywordCall) -> str | None:
    """Write EXTRACT(field FROM time) and SUBSTRING(text FROM pattern)."""
    name, arguments = node.name.upper(), node.expressions
    if name == "EXTRACT":
        return field(writer, node, arguments[0].name, arguments[1])
    if name in ("SUBSTRING", "SUBSTR"):
        start = arguments[1]
        if isinstance(start, exp.Literal) and start.is_string and len(arguments) == 2:
            pattern = java_pattern(start.name)
            group = 1 if "(" in pattern.replace("\\(", "").replace("(?", "") else 0
            text = f"{writer.sql(arguments[0])}, {quote_string(pattern)}"
            return f"CASE WHEN REGEXP_LIKE({text}) THEN REGEXP_EXTRACT({text}, {group}) END"
    return None


def at_time_zone(writer: ClientWriter, node: exp.AtTimeZone) -> str:
    """Write `time AT TIME ZONE zone`: an instant to a wall clock, a wall clock to an instant."""
    return in_zone(writer, node.this, node.args["zone"])


def in_zone(writer: ClientWriter, time: exp.Expr, zone: exp.Expr) -> str:
    """Return a time in a zone, see `at_time_zone`."""
    kind = writer.type_of(time, "AT TIME ZONE")
    name = writer.sql(zone)
    if isinstance(zone, exp.Literal) and zone.name[:1] in "+-":
        # PostgreSQL counts these hours to the west
        name = quote_string(("-" if zone.name[0] == "+" else "+") + zone.name[1:])
    if kind == "timestamp_ntz":
        moved = f"CONVERT_TIMEZONE({name}, CURRENT_TIMEZONE(), {writer.sql(time)})"
        return f"CAST({moved} AS TIMESTAMP_LTZ)"
    if kind not in (*TIMES, UNKNOWN):
        writer.refuse(time, f"{shown(time)} is not a time")
    instant = f"CAST(CAST({writer.sql(time)} AS TIMESTAMP_LTZ) AS TIMESTAMP_NTZ)"
    return f"CONVERT_TIMEZONE(CURRENT_TIMEZONE(), {name}, {instant})"


def json_path(writer: ClientWriter, node: exp.Binary) -> str:
    """Write `json ->> key` and `json #>> path`."""
    keys = items_of(writer, node.expression) if isinstance(node, exp.JSONBExtractScalar) else None
    if keys is None:
        return writer.unchanged(node)
    names = [key.strip("'") for key in keys]
    path = "".join(f"[{name}]" if name.isdigit() else f"['{name}']" for name in names)
    return f"GET_JSON_OBJECT({writer.sql(node.this)}, {quote_string('$' + path)})"


def item(writer: ClientWriter, node: exp.Bracket) -> str | None:
    """Write `array[1]`, the first item. PostgreSQL takes no index of a call."""
    if isinstance(node.this, exp.Func) and not isinstance(node.this, exp.Array):
        return None
    if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
        writer.refuse(node, "the server has no slices of arrays")
    index = node.expressions[0]
    if isinstance(index, exp.Literal) and index.is_string:
        return None  # an entry of a map
    kind = writer.types.of(node.this)
    if kind is not None and kind.startswith("map<"):
        return None
    if kind is None or not kind.startswith("array<"):
        writer.refuse(
            node,
            f"the type of {shown(node.this)}, on which its index depends, is not known",
            "use ELEMENT_AT(array, n)",
        )
    return f"TRY_ELEMENT_AT({writer.sql(node.this)}, {writer.sql(index)})"


def query(writer: ClientWriter, node: exp.Query) -> str | None:
    """Write OFFSET after LIMIT."""
    limit, offset = node.args.get("limit"), node.args.get("offset")
    starts = [span_of(part) for part in (limit, offset)]
    if starts[0] is None or starts[1] is None or starts[0].start < starts[1].start:
        return None
    return writer.unchanged(node)


def select(writer: ClientWriter, node: exp.Select) -> str | None:
    """Write a SELECT with DISTINCT ON, or with OFFSET before LIMIT."""
    distinct = distinct_on(writer, node)
    return query(writer, node) if distinct is None else distinct


def ordered(writer: ClientWriter, node: exp.Ordered) -> str | None:
    """Sort NULLs as the largest values."""
    is_of_query = node.parent is not None and isinstance(node.parent.parent, exp.Query)
    if node.meta.get(PLACES_NULLS, True) or not is_of_query:
        return None
    direction = " DESC NULLS FIRST" if node.args.get("desc") else " NULLS LAST"
    return f"{writer.sql(node.this)}{direction}"


def distinct_on(writer: ClientWriter, node: exp.Select) -> str | None:
    """Write DISTINCT ON: the first row of each group in the order of the query."""
    distinct = node.args.get("distinct")
    on = distinct.args.get("on") if distinct is not None else None
    if on is None:
        return None
    keys = [writer.sql(key) for key in (on.expressions if isinstance(on, exp.Tuple) else [on])]
    order = node.args.get("order")
    items = order.expressions if order is not None else []
    limits = [node.args.get(key) for key in ("limit", "offset")]
    with_ = node.args.get("with_")
    selected, names = [], []
    for place, each in enumerate(node.selects):
        star = each.this if isinstance(each, exp.Column) else each
        if isinstance(star, exp.Star):
            selected.append(writer.sql(each))
            continue
        name = each.alias_or_name or f"column{place + 1}"
        names.append(name)
        quoted = exp.to_identifier(name, quoted=True).sql("spark")
        value = writer.sql(each.this if isinstance(each, exp.Alias) else each)
        selected.append(f"{value} AS {quoted}")
    has_star = len(names) < len(node.selects)
    orders = []
    hidden = [f"`order$${place}`" for place in range(len(items))]
    by_alias = {
        each.alias.lower(): each.this for each in node.selects if isinstance(each, exp.Alias)
    }
    for place, each in enumerate(items):
        key: exp.Expr = each.this
        if isinstance(key, exp.Literal) and key.is_int:
            key = node.selects[int(key.name) - 1].unalias()
        elif isinstance(key, exp.Column) and not key.table:
            key = by_alias.get(key.name.lower(), key)
        ending = " DESC" if each.args.get("desc") else ""
        first = each.args["nulls_first"] if each.meta[PLACES_NULLS] else each.args.get("desc")
        ending += " NULLS FIRST" if first else " NULLS LAST"
        orders.append((writer.sql(key), ending))
        selected.append(f"{orders[-1][0]} AS {hidden[place]}")
    within = ", ".join(value + ending for value, ending in orders) or keys[0]
    selected.append(
        f"ROW_NUMBER() OVER (PARTITION BY {', '.join(keys)} ORDER BY {within}) AS `row$`"
    )
    after = {key: node.args.pop(key, None) for key in ("order", "limit", "offset")}
    body = writer.query_modifiers(node, f"SELECT {', '.join(selected)}", writer.sql(node, "from_"))
    node.args.update({key: part for key, part in after.items() if part is not None})
    shown_names = ", ".join(exp.to_identifier(name, quoted=True).sql("spark") for name in names)
    if has_star:
        shown_names = f"* EXCEPT ({', '.join([*hidden, '`row$`'])})"
    text = f"SELECT {shown_names} FROM ({body}) AS `rows$` WHERE `row$` = 1"
    if orders:
        outer = (name + ending for name, (_, ending) in zip(hidden, orders, strict=True))
        text += f" ORDER BY {', '.join(outer)}"
    text += "".join(writer.sql(part) for part in limits if part is not None)
    return text if with_ is None else f"{writer.sql(with_)} {text}"
