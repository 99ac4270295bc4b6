"""Functions of PostgreSQL that sqlwin names differently, or whose name means something else."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from planner.sql.render import quote_string
from sqlwin.server.postgres.literals import interval_literal, literal, months_and_micros
from sqlwin.server.postgres.operators import field, in_zone
from sqlwin.server.postgres.patterns import (
    formatted_time,
    java_pattern,
    java_replacement,
    reading_pattern,
)
from sqlwin.server.postgres.types import (
    FLOATS,
    INTEGERS,
    NUMBERS,
    TIMES,
    UNKNOWN,
    TypeName,
    regtype,
)
from sqlwin.server.postgres.writer import ClientWriter, shown

_Arguments = Sequence[exp.Expr]
# Writes a call; None keeps it, because the meaning is the same
_Function = Callable[[ClientWriter, exp.Anonymous, _Arguments], str | None]

# Calls that differ in name or shape only: `{0}` is the first argument. By name and number of
# arguments.
TEMPLATES: dict[tuple[str, int], str] = {
    ("array_length", 2): "NULLIF(SIZE({0}), 0)",
    ("array_position", 2): "NULLIF(ARRAY_POSITION({0}, {1}), 0)",
    ("array_to_string", 2): "ARRAY_JOIN({0}, {1})",
    ("array_to_string", 3): "ARRAY_JOIN({0}, {1}, {2})",
    ("array_cat", 2): "CONCAT({0}, {1})",
    ("clock_timestamp", 0): "NOW()",
    ("statement_timestamp", 0): "NOW()",
    ("transaction_timestamp", 0): "NOW()",
    ("div", 2): "({0} DIV {1})",
    ("gen_random_uuid", 0): "UUID()",
    ("log", 1): "LOG10({0})",
    ("ltrim", 2): "TRIM(LEADING {1} FROM {0})",
    ("rtrim", 2): "TRIM(TRAILING {1} FROM {0})",
    ("make_timestamp", 6): "MAKE_TIMESTAMP_NTZ({0}, {1}, {2}, {3}, {4}, {5})",
    ("make_timestamptz", 6): "MAKE_TIMESTAMP_LTZ({0}, {1}, {2}, {3}, {4}, {5})",
    ("make_timestamptz", 7): "MAKE_TIMESTAMP_LTZ({0}, {1}, {2}, {3}, {4}, {5}, {6})",
    ("starts_with", 2): "STARTSWITH({0}, {1})",
    ("strpos", 2): "INSTR({0}, {1})",
    ("string_to_array", 2): "SPLIT({0}, CONCAT('\\\\Q', {1}, '\\\\E'))",
    ("to_hex", 1): "LOWER(HEX({0}))",
    ("unnest", 1): "EXPLODE({0})",
    ("initcap", 1): (
        "ARRAY_JOIN(TRANSFORM(REGEXP_EXTRACT_ALL(LOWER({0}), "
        "'[\\\\p{{L}}\\\\p{{N}}]+|[^\\\\p{{L}}\\\\p{{N}}]+', 0), "
        "`w$` -> CONCAT(UPPER(LEFT(`w$`, 1)), SUBSTRING(`w$`, 2))), '')"
    ),
}
# Functions that sqlwin cannot compute, and what to do instead
_REFUSED = {
    "age": "an interval with months and days has no type here: subtract the times",
    "json_build_object": "use TO_JSON(NAMED_STRUCT(...))",
    "jsonb_build_object": "use TO_JSON(NAMED_STRUCT(...))",
    "regexp_match": "use REGEXP_EXTRACT",
    "regexp_matches": "use REGEXP_EXTRACT_ALL",
    "to_number": "cast the text to numeric",
}
# Elements of an array that is aggregated with NULLs
_COLLECTED = "NULLIF(TRANSFORM({0}, `v$` -> `v$`.v), ARRAY())"


def call(writer: ClientWriter, node: exp.Anonymous) -> str | None:
    """Write a call."""
    if not isinstance(node.this, str):
        return None
    name, arguments = node.this.lower(), node.expressions
    if name in _REFUSED:
        writer.refuse(node, f"the server has no function {name}", _REFUSED[name], "42883")
    template = TEMPLATES.get((name, len(arguments)))
    if template is not None:
        return template.format(*map(writer.sql, arguments))
    function = _FUNCTIONS.get(name)
    return None if function is None else function(writer, node, arguments)


def _text(node: exp.Expr) -> str | None:
    return node.name if isinstance(node, exp.Literal) and node.is_string else None


def _constant(writer: ClientWriter, node: exp.Anonymous, argument: exp.Expr, what: str) -> str:
    text = _text(argument)
    if text is None:
        writer.refuse(node, f"the {what} of {node.name} must be a string literal")
    return text


# -- texts -----------------------------------------------------------------------------------------


def _concat(writer: ClientWriter, node: exp.Anonymous, arguments: _Arguments) -> str | None:
    """Skip NULLs."""
    kinds = [writer.types.of(argument) or "" for argument in arguments]
    if any(kind.startswith("array<") for kind in kinds):
        return None
    return f"CONCAT_WS('', {', '.join(map(writer.sql, arguments))})"


def _left_or_right(writer: ClientWriter, node: exp.Anonymous, arguments: _Arguments) -> str | None:
    """Leave out characters at the other end for a negative number."""
    if len(arguments) != 2 or isinstance(arguments[1], exp.Literal):
        return None
    text, n = map(writer.sql, arguments)
    return f"{node.name}({text}, IF({n} < 0, GREATEST(LENGTH({text}) + {n}, 0), {n}))"


def _substring(writer: ClientWriter, node: exp.Anonymous, arguments: _Arguments) -> str | None:
    """Count positions before the first character."""
    if len(arguments) not in (2, 3):
        return None
    if _text(arguments[1]) is not None:
        writer.refuse(node, "use SUBSTRING(text FROM pattern) for a pattern")
    if isinstance(arguments[1], exp.Literal) and arguments[1].name != "0":
        return None
    text, start, *length = map(writer.sql, arguments)
    if not length:
        return f"SUBSTRING({text}, GREATEST({start}, 1))"
    size = f"GREATEST({length[0]} + LEAST({start}, 1) - 1, 0)"
    return f"SUBSTRING({text}, GREATEST({start}, 1), {size})"


def _regexp_replace(writer: ClientWriter, node: exp.Anonymous, arguments: _Arguments) -> str | None:
    """Replace the first match, or all with the flag g."""
    if len(arguments) not in (3, 4):
        writer.refuse(node, f"the server has no {node.name} with {len(arguments)} arguments")
    pattern = java_pattern(_constant(writer, node, arguments[1], "pattern"))
    replacement = java_replacement(_constant(writer, node, arguments[2], "replacement"))
    flags = _constant(writer, node, arguments[3], "flags") if len(arguments) > 3 else ""
    if set(flags) - set("gi"):
        writer.refuse(node, f"the server does not read the flags '{flags}' of {node.name}")
    options = "(?i)" if "i" in flags else ""
    text = writer.sql(arguments[0])
    if "g" not in flags:
        if any(char.isdigit() for char in pattern.replace("\\\\", "").split("\\", 1)[-1][:1]):
            writer.refuse(node, f"the server reads no back references in the pattern '{pattern}'")
        # `$1` becomes the text before the match
        shifted, at = "", 0
        while at < len(replacement):
            char, following = replacement[at], replacement[at + 1 : at + 2]
            if char == "\\":
                shifted, at = shifted + char + following, at + 2
            elif char == "$" and following == "0":
                shifted, at = shifted + "$2", at + 2
            elif char == "$":
                shifted, at = f"{shifted}${int(following) + 2}", at + 2
            else:
                shifted, at = shifted + char, at + 1
        pattern, replacement = f"\\A([\\s\\S]*?)({pattern})", f"$1{shifted}"
    return f"REGEXP_REPLACE({text}, {quote_string(options + pattern)}, {quote_string(replacement)})"


def _decode(writer: ClientWriter, node: exp.Anonymous, arguments: _Arguments) -> str | None:
    kind = _text(arguments[1]) if len(arguments) == 2 else None
    function = {"hex": "UNHEX", "base64": "UNBASE64"}.get((kind or "").lower())
    return None if function is None else f"{function}({writer.sql(arguments[0])})"


def _encode(writer: ClientWriter, node: exp.Anonymous, arguments: _Arguments) -> str | None:
    kind = _text(arguments[1]) if len(arguments) == 2 else None
    template = {"hex": "LOWER(HEX({}))", "base64": "BASE64({})"}.get((kind or "").lower())
    return None if template is None else template.format(writer.sql(arguments[0]))


# -- numbers ---------------------------------------------------------------------------------------


def _round(writer: ClientWriter, node: exp.Anonymous, arguments: _Arguments) -> str | None:
    """Round halves of a double to the even neighbour."""
    if len(arguments) != 1 or writer.types.of(arguments[0]) in (*INTEGERS, "decimal"):
        return None
    kind = writer.type_of(arguments[0], "round")
    return f"RINT({writer.sql(arguments[0])})" if kind in FLOATS else None


def _trunc(writer: ClientWriter, node: exp.Anonymous, arguments: _Arguments) -> str | None:
    """Drop digits. With a text, sqlwin's function of dates."""
    if len(arguments) == 2 and _text(arguments[1]) is not None:
        return None
    value = writer.sql(arguments[0])
    if len(arguments) == 1:
        return f"(SIGN({value}) * FLOOR(ABS({value})))"
    digits = arguments[1]
    if not (isinstance(digits, exp.Literal) and digits.is_int):
        writer.refuse(node, "the digits of trunc must be a number literal")
    size = 10 ** int(digits.name)
    return f"(SIGN({value}) * FLOOR(ABS({value}) * {size}) / {size})"


# -- times -----------------------------------------------------------------------------------------


def _date_part(writer: ClientWriter, node: exp.Anonymous, arguments: _Arguments) -> str | None:
    if len(arguments) != 2:
        return None
    name = _constant(writer, node, arguments[0], "field")
    text = field(writer, node, name, arguments[1])
    if text is None:
        text = f"EXTRACT({name.upper()} FROM {writer.sql(arguments[1])})"
    return f"CAST({text} AS DOUBLE)"


def _to_char(writer: ClientWriter, node: exp.Anonymous, arguments: _Arguments) -> str | None:
    kind = writer.type_of(arguments[0], "to_char")
    if kind in NUMBERS or kind not in (*TIMES, UNKNOWN):
        writer.refuse(node, "the server's to_char takes a time", "cast a number to text")
    if kind == UNKNOWN:
        writer.refuse(node, "to_char needs the type of its first argument", "cast it")
    pattern = _constant(writer, node, arguments[1], "pattern")
    return formatted_time(writer.sql(arguments[0]), pattern)


def _to_timestamp(writer: ClientWriter, node: exp.Anonymous, arguments: _Arguments) -> str | None:
    if len(arguments) == 1:
        kind = writer.types.of(arguments[0])
        if kind in ("string", UNKNOWN, *TIMES):
            return None  # sqlwin's function; PostgreSQL takes seconds only
        return f"TIMESTAMP_SECONDS({writer.sql(arguments[0])})"
    pattern = reading_pattern("to_timestamp", _constant(writer, node, arguments[1], "pattern"))
    return f"TO_TIMESTAMP_LTZ({writer.sql(arguments[0])}, {quote_string(pattern)})"


def _to_date(writer: ClientWriter, node: exp.Anonymous, arguments: _Arguments) -> str | None:
    if len(arguments) != 2:
        return None
    pattern = reading_pattern("to_date", _constant(writer, node, arguments[1], "pattern"))
    return f"TO_DATE({writer.sql(arguments[0])}, {quote_string(pattern)})"


def _date_bin(writer: ClientWriter, node: exp.Anonymous, arguments: _Arguments) -> str | None:
    if len(arguments) != 3:
        return None
    stride, time, origin = arguments
    value = stride.this if isinstance(stride, exp.Interval | exp.Cast) else stride
    text = _text(value)
    if text is None:
        writer.refuse(node, "the stride of date_bin must be an interval literal")
    unit = stride.args.get("unit")
    months, micros = months_and_micros(f"{text} {unit.name}" if unit is not None else text)
    if months or micros <= 0:
        writer.refuse(node, "the stride of date_bin must be positive and without months")
    kind = writer.type_of(time, "date_bin")
    target = "TIMESTAMP_NTZ" if kind == "timestamp_ntz" else "TIMESTAMP_LTZ"
    start = f"CAST({writer.sql(origin)} AS {target})"
    if (fixed := _text(origin)) is not None:
        name = "timestamp" if kind == "timestamp_ntz" else "timestamptz"
        start = literal(fixed, TypeName(name)) or start
    moved = f"TIMESTAMPDIFF(MICROSECOND, {start}, CAST({writer.sql(time)} AS {target}))"
    whole = f"CAST(FLOOR({moved} / {micros}BD) AS BIGINT) * {micros}"
    return f"TIMESTAMPADD(MICROSECOND, {whole}, {start})"


def _date_trunc(writer: ClientWriter, node: exp.Anonymous, arguments: _Arguments) -> str | None:
    if len(arguments) == 2 and writer.types.of(arguments[1]) == "date":
        unit, time = map(writer.sql, arguments)
        return f"DATE_TRUNC({unit}, CAST({time} AS TIMESTAMP_LTZ))"
    if len(arguments) != 3:
        return None
    writer.refuse(node, "the server's date_trunc takes no zone", "use AT TIME ZONE")


def _timezone(writer: ClientWriter, node: exp.Anonymous, arguments: _Arguments) -> str | None:
    return in_zone(writer, arguments[1], arguments[0]) if len(arguments) == 2 else None


def _make_interval(writer: ClientWriter, node: exp.Anonymous, arguments: _Arguments) -> str | None:
    parts: dict[str, str] = {}
    for argument in arguments:
        if not isinstance(argument, exp.Kwarg | exp.PropertyEQ):
            writer.refuse(node, "the arguments of make_interval need names")
        parts[argument.this.name.lower()] = writer.sql(argument.expression)
    months = [
        f"({parts.pop(key)}) * {n}" for key, n in (("years", 12), ("months", 1)) if key in parts
    ]
    if months and parts:
        writer.refuse(node, "an interval has months, or days and shorter units")
    if months:
        return f"MAKE_YM_INTERVAL(0, {' + '.join(months)})"
    days = " + ".join(
        f"({parts.pop(key)}) * {n}" for key, n in (("weeks", 7), ("days", 1)) if key in parts
    )
    rest = ", ".join(parts.pop(key, "0") for key in ("hours", "mins", "secs"))
    return f"MAKE_DT_INTERVAL({days or 0}, {rest})"


# -- aggregates and types --------------------------------------------------------------------------


def _string_agg(writer: ClientWriter, node: exp.Anonymous, arguments: _Arguments) -> str | None:
    """Write `string_agg(DISTINCT x, ',' ORDER BY x)`."""
    *values, last = arguments
    order = ""
    if isinstance(last, exp.Order):
        order = f" WITHIN GROUP (ORDER BY {', '.join(map(writer.sql, last.expressions))})"
        last = last.this
    if isinstance(last, exp.Distinct):
        # PostgreSQL sorts the values to find equal ones
        order = order or f" WITHIN GROUP (ORDER BY {writer.sql(last.expressions[0])})"
        return f"LISTAGG(DISTINCT {', '.join(map(writer.sql, last.expressions))}){order}"
    return f"LISTAGG({', '.join(map(writer.sql, [*values, last]))}){order}"


def _array_agg(writer: ClientWriter, node: exp.Anonymous, arguments: _Arguments) -> str | None:
    """Collect NULLs, too, in an order."""
    if isinstance(node.parent, exp.Filter | exp.Window | exp.WithinGroup):
        writer.refuse(node, "the server's array_agg has no FILTER and no OVER")
    (value,) = arguments
    if isinstance(value, exp.Distinct):
        each = writer.sql(value.expressions[0])
        return _COLLECTED.format(f"SORT_ARRAY(COLLECT_LIST(DISTINCT NAMED_STRUCT('v', {each})))")
    if not isinstance(value, exp.Order):
        return _COLLECTED.format(f"COLLECT_LIST(NAMED_STRUCT('v', {writer.sql(value)}))")
    directions = {bool(item.args.get("desc")) for item in value.expressions}
    if len(directions) > 1:
        writer.refuse(node, "the order of array_agg must have one direction")
    keys = "".join(
        f"'k{place}', {writer.sql(item.this)}, " for place, item in enumerate(value.expressions)
    )
    rows = f"COLLECT_LIST(NAMED_STRUCT({keys}'v', {writer.sql(value.this)}))"
    ascending = "FALSE" if directions == {True} else "TRUE"
    return _COLLECTED.format(f"SORT_ARRAY({rows}, {ascending})")


def _pg_typeof(writer: ClientWriter, node: exp.Anonymous, arguments: _Arguments) -> str | None:
    (value,) = arguments
    name = regtype(writer.type_of(value, "pg_typeof"))
    if name is None:
        writer.refuse(node, f"the type of {shown(value)} has no name in PostgreSQL")
    return quote_string(name)


def _generate_series(
    writer: ClientWriter, node: exp.Anonymous, arguments: _Arguments
) -> str | None:
    return f"EXPLODE({series(writer, node)})"


def series(writer: ClientWriter, node: exp.Anonymous) -> str:
    """Return the items of generate_series as an array."""
    if len(node.expressions) not in (2, 3):
        writer.refuse(node, "generate_series takes a start, an end and a step")
    start, end, *step = map(writer.sql, node.expressions)
    kind = writer.types.of(node.expressions[0])
    if kind == "date":
        start, end = f"CAST({start} AS TIMESTAMP_LTZ)", f"CAST({end} AS TIMESTAMP_LTZ)"
    by = step[0] if step else "1"
    last = node.expressions[-1]
    if step and isinstance(last, exp.Literal) and last.is_string:
        by = interval_literal(last.name)
    if kind in (*TIMES, UNKNOWN):
        condition = f"{start} <= {end}"
    else:
        condition = f"({by}) > 0 AND {start} <= {end} OR ({by}) < 0 AND {start} >= {end}"
        condition = f"{start} <= {end}" if not step else condition
    return f"IF({condition}, SEQUENCE({start}, {end}, {by}), ARRAY())"


_FUNCTIONS: dict[str, _Function] = {
    "array_agg": _array_agg,
    "concat": _concat,
    "date_bin": _date_bin,
    "date_part": _date_part,
    "date_trunc": _date_trunc,
    "decode": _decode,
    "encode": _encode,
    "generate_series": _generate_series,
    "left": _left_or_right,
    "make_interval": _make_interval,
    "pg_typeof": _pg_typeof,
    "regexp_replace": _regexp_replace,
    "right": _left_or_right,
    "round": _round,
    "string_agg": _string_agg,
    "substr": _substring,
    "substring": _substring,
    "timezone": _timezone,
    "to_char": _to_char,
    "to_date": _to_date,
    "to_timestamp": _to_timestamp,
    "trunc": _trunc,
}
