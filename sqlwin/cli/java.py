"""Prediction whether a command needs Java, made before its statements are planned."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sqlwin.console.scripts import Script

_STATEMENT = re.compile(
    r"\(|(create|select|insert|values|with|explain|set|reset|show|describe|desc|drop|use)\b", re.I
)
# Parts of statements that need Spark: materialized tables, Spark's tables and listings, ANALYZE,
# streams
_SPARKS = re.compile(
    r"\bcreate\s+materialized\s+table\b|\btable\s+(if\s+not\s+exists\s+)?[\w.`]+\s+using\b"
    r"|^\s*analyze\b|\bmonitor-interval\b|'(kafka|datagen|nexmark|socket|delta|iceberg)'|\bstreaming\b"
    r"|\bshow\s+(databases|schemas|catalogs|columns|partitions)\b",
    re.I | re.S,
)
_WINDOWS = re.compile(r"\b(tumble|hop|cumulate|session|gap_fill|materialized)\s*[(\s]", re.I)
_JOIN = re.compile(r"\bjoin\b", re.I)
_TABLE_AS = re.compile(
    r"create\s+(or\s+replace\s+)?table\b.*\bas\s+(select|with|values)\b", re.I | re.S
)
_COMMENT = re.compile(r"--[^\n]*")
_TEXT = re.compile(r"'[^']*'|`[^`]*`|\"[^\"]*\"")
_CALL = re.compile(r"(?<!\bas )\b([a-z_]\w*)\s*\(", re.I)
# Words except aggregates that may precede a parenthesis in queries computed in this process
_COMPUTED = frozenset(
    """
    tumble hop cumulate session descriptor table from_changelog to_changelog read_csv read_json
    read_parquet
    tumble_start tumble_end tumble_rowtime hop_start hop_end hop_rowtime
    session_start session_end session_rowtime
    abs coalesce equal_null if ifnull isnotnull isnull mod negative nullif round sqrt nvl nvl2
    timestamp_micros timestamp_millis timestamp_seconds cast greatest least grouping grouping_id
    ceil ceiling character_length char_length concat concat_ws contains date_format day dayofmonth
    dayofweek dayofyear endswith extract floor hour lcase len length lower ltrim minute month
    quarter replace reverse rtrim second shiftright startswith substr substring trim ucase upper
    weekday weekofyear year raise_error
    row_number rank dense_rank
    all and as between by case char cube decimal distinct else filter from having in interval is
    join like not on options or order over partition select sets then rollup union using values
    varchar watermark when where with
    """.split()
)


def may_need_no_spark(scripts: Sequence[Script], spark: dict[str, Any]) -> bool:
    """Return whether scripts look as if this process could run them without Java.

    Spark starts on demand in either case. A wrong guess costs a second.

    Args:
        scripts: Scripts to run.
        spark: Values of `with_spark_options`.
    """
    if spark["master"] or spark["remote"]:
        return False
    texts = [_COMMENT.sub("", script.text) for script in scripts]
    statements = [part.strip() for text in texts for part in text.split(";") if part.strip()]
    if not all(_STATEMENT.match(part) and not _SPARKS.search(part) for part in statements):
        return False
    if any(name == "sqlwin.materialized.dir" for name, _ in spark["settings"]):
        return True
    return all(map(_may_be_computed, statements))


def _may_be_computed(statement: str) -> bool:
    """Return whether a statement calls only functions that can be computed in this process."""
    is_definition = statement[:6].lower() == "create" and " view" not in statement[:40].lower()
    if is_definition and not _TABLE_AS.match(statement):
        return True  # types and options, no calls
    plain = _TEXT.sub("''", statement)
    if _JOIN.search(plain) and not _WINDOWS.search(plain):
        return False
    others = {call.lower() for call in _CALL.findall(plain)} - _COMPUTED
    return not others or others <= _computed_aggregates()


def _computed_aggregates() -> set[str]:
    # importing the functions takes a quarter of the time of a short command
    from runtime.functions.aggregates import AGGREGATES
    from runtime.functions.aggregates.function import Percentile, Texts

    return {
        name.lower()
        for name, function in AGGREGATES.items()
        if not isinstance(function.form, Percentile | Texts)
    }
