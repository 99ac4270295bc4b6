"""Lines of logs as columns: a regular expression with named groups, or a format by its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

_REQUEST = (
    r'"(?P<request>(?P<method>[A-Z]+) (?P<path>[^\s"]+)(?: (?P<protocol>[^\s"]+))?'
    r'|(?:[^"\\]|\\.)*)"'
)
_COMMON = (
    r"^(?P<host>\S+) (?P<ident>\S+) (?P<user>.+?) \[(?P<time>[^\]]+)\] "
    rf"{_REQUEST} (?P<status>\d{{3}}|-) (?P<bytes>\d+|-)"
)
_TEXT = r'"(?P<{}>(?:[^"\\]|\\.)*)"'
_NAMED = {
    "common": _COMMON,
    "combined": f"{_COMMON} {_TEXT.format('referer')} {_TEXT.format('agent')}",
}
LOGFMT = "logfmt"
NAMES = (*_NAMED, LOGFMT)
# Java, DuckDB and .NET write (?<name>...)
_JAVA_GROUP = re.compile(r"\(\?<(?![=!])")
_PAIR = re.compile(r'(?P<key>[^\s="]+)(?:=(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s"]*)))?')
_ESCAPED = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}

# The values of a line by their names; None: it is no such line
LineParser = Callable[[str], Mapping[str, str | None] | None]


def line_parser(pattern: str) -> LineParser:
    r"""Return the function that takes lines apart.

    Args:
        pattern: a regular expression with named groups, `common`, `combined` or `logfmt`.

    Example:
        >>> line_parser(r"(?<level>\w+): (?<text>.*)")("INFO: ready")
        {'level': 'INFO', 'text': 'ready'}
    """
    if pattern == LOGFMT:
        return _logfmt
    compiled = compiled_pattern(pattern)
    is_named = pattern in _NAMED

    def parse(line: str) -> Mapping[str, str | None] | None:
        found = compiled.search(line)
        if found is None:
            return None
        values = found.groupdict()
        # servers write - where there is nothing
        return {k: None if v == "-" else v for k, v in values.items()} if is_named else values

    return parse


def compiled_pattern(pattern: str) -> re.Pattern[str]:
    """A regular expression in Python's or Java's spelling, or the one of a format's name.

    Raises:
        re.error: it is none.
    """
    return re.compile(_JAVA_GROUP.sub("(?P<", _NAMED.get(pattern, pattern)))


def group_names(pattern: str) -> tuple[str, ...] | None:
    """The columns of lines in their order; None: the lines themselves name them."""
    if pattern == LOGFMT:
        return None
    groups = compiled_pattern(pattern).groupindex
    return tuple(sorted(groups, key=lambda name: groups[name]))


def pattern_error(pattern: str) -> str | None:
    """What a pattern has to be; None: it is that."""
    expected = f"a regular expression with named groups such as (?<name>...), or {', '.join(NAMES)}"
    try:
        return None if group_names(pattern) != () else expected
    except re.error as error:
        return f"{expected} ({error})"


def _logfmt(line: str) -> Mapping[str, str | None] | None:
    values: dict[str, str | None] = {}
    for pair in _PAIR.finditer(line):
        text = pair["bare"]
        if pair["quoted"] is not None:
            text = _ESCAPED.sub(lambda e: _ESCAPES.get(e[1], e[1]), pair["quoted"])
        # a key alone is a flag
        values[pair["key"]] = "true" if text is None else text
    return values if "=" in line else None


def columns_of_lines(
    pattern: str, lines: Sequence[str]
) -> tuple[list[str], list[list[str]], list[str]]:
    """The names of columns, their values, and the lines that do not fit.

    Args:
        pattern: see `line_parser`.
        lines: of a sample, without blank ones.
    """
    parse = line_parser(pattern)
    names = dict.fromkeys(group_names(pattern) or ())
    rows, others = [], []
    for line in lines:
        row = parse(line)
        if row is None:
            others.append(line)
            continue
        rows.append(row)
        names |= dict.fromkeys(row)
    return list(names), [[r.get(name) or "" for r in rows] for name in names], others
