"""Parse log lines into columns with a regular expression with named groups, or a named format."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

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

# Returns the values of a line by name, or None if the line does not match
LineParser = Callable[[str], Mapping[str, str | None] | None]


def line_parser(pattern: str) -> LineParser:
    r"""Return a function that parses lines.

    Args:
        pattern: Regular expression with named groups, or `common`, `combined` or `logfmt`.

    Example:
        >>> line_parser(r"(?<level>\w+): (?<text>.*)")("INFO: ready")
        {'level': 'INFO', 'text': 'ready'}
    """
    if pattern == LOGFMT:
        return _logfmt
    compiled = compile_pattern(pattern)
    is_named = pattern in _NAMED

    def parse(line: str) -> Mapping[str, str | None] | None:
        match = compiled.search(line)
        if match is None:
            return None
        values = match.groupdict()
        # servers write - for a missing value
        return {k: None if v == "-" else v for k, v in values.items()} if is_named else values

    return parse


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in Python or Java syntax, or the pattern of a named format.

    Raises:
        re.error: The pattern is invalid.
    """
    return re.compile(_JAVA_GROUP.sub("(?P<", _NAMED.get(pattern, pattern)))


def group_names(pattern: str) -> tuple[str, ...] | None:
    """Return the column names in order, or None if the lines themselves name them."""
    if pattern == LOGFMT:
        return None
    groups = compile_pattern(pattern).groupindex
    return tuple(sorted(groups, key=lambda name: groups[name]))


def pattern_error(pattern: str) -> str | None:
    """Return a description of valid patterns if the pattern is invalid, or else None."""
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
        # a key without a value is a flag
        values[pair["key"]] = "true" if text is None else text
    return values if "=" in line else None


# Lines of logs with a time first
_LOG = re.compile(
    r"(?P<open>\[?)\d{4}[-/]\d\d[-/]\d\d(?P<between>[T ])\d\d:\d\d:\d\d(?:[.,]\d+)?"
    r"(?:Z|[+-]\d\d:?\d\d)?(?P<close>\]?) \S"
)
# Minimum share of lines that a pattern must match
_FITTING = 0.5


def log_pattern(lines: Sequence[str]) -> str | None:
    r"""Return the pattern for `read_text` that splits lines of a log, or None for other lines.

    Example:
        >>> log_pattern(["[2026-01-01 10:00:00,123] [main] INFO started"])
        '^\\[(?<time>[^\\]]+)\\] \\[(?<thread>[^\\]]+)\\] +(?<level>[A-Z]+) +(?<message>.*)'
    """
    lines = [line for line in lines if line.strip()]
    return next((p for p in _candidates(lines) if _matches(p, lines)), None) if lines else None


def _candidates(lines: Sequence[str]) -> Iterator[str]:
    yield from reversed(_NAMED)
    first = next((match for line in lines if (match := _LOG.match(line))), None)
    if first is not None:
        is_bracketed = bool(first["open"] and first["close"])
        time = r"\[(?<time>[^\]]+)\]" if is_bracketed else r"(?<time>\S+ \S+)"
        if not is_bracketed and first["between"] == "T":
            time = r"(?<time>\S+)"
        yield rf"^{time} \[(?<thread>[^\]]+)\] +(?<level>[A-Z]+) +(?<message>.*)"
        yield rf"^{time} \[?(?<level>[A-Z]+)\]?:? +(?<message>.*)"
        yield rf"^{time} (?<message>.*)"


def _matches(pattern: str, lines: Sequence[str]) -> bool:
    parse = line_parser(pattern)
    return sum(parse(line) is not None for line in lines) >= _FITTING * len(lines)


def columns_of_lines(
    pattern: str, lines: Sequence[str]
) -> tuple[list[str], list[list[str]], list[str]]:
    """Return column names, their values, and the lines that do not match.

    Args:
        pattern: See `line_parser`.
        lines: Non-blank lines of a sample.
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
