"""Detect the columns of JSON files: one object per line, or an array of objects."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runtime.detection.doubtful_times import doubtful_times, month_note
from runtime.detection.epochs import epoch_format, whole_times_note, years_of
from runtime.detection.json_text import NestedTooDeepError, load_json, load_json_at
from runtime.detection.kinds import NULL_WORDS, habits_of, values_text
from runtime.detection.misfits import BETWEEN_WORDS, not_times
from runtime.detection.sample import Sample
from runtime.detection.times import ISO, month_pattern, time_format
from runtime.errors import CatalogError, ExecutionError
from runtime.names import quote_name
from runtime.spec.table import TableColumn

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_LONGS = range(-(2**63), 2**63)
# An object with more fields than this is a MAP: its field names are data
_MAX_FIELDS = 200
# Maximum nesting; deeper values become STRING columns that hold JSON
_MAX_LEVELS = 50
_LEAVE_OUT = (
    "set 'json.ignore-parse-errors' = 'true' to skip such lines, in a CREATE TABLE with columns"
)


@dataclass
class _SeenValues:
    """Sampled values of one field."""

    kinds: set[str] = field(default_factory=set)
    numbers: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    fields: dict[str, _SeenValues] = field(default_factory=dict)
    items: _SeenValues | None = None

    def add(self, value: Any, level: int = 0) -> None:
        """Add a value nested in `level` arrays and objects."""
        if level == _MAX_LEVELS and isinstance(value, list | dict):
            self.kinds.add("string")
            return
        match value:
            case None:
                return
            case bool():
                self.kinds.add("boolean")
            case int():
                self.kinds.add("bigint" if value in _LONGS else "decimal(38,0)")
                self.numbers.append(value)
            case float():
                self.kinds.add("double")
                self.numbers.append(value)
            case str():
                self.kinds.add("string")
                self.texts.append(value)
            case list():
                self.kinds.add("array")
                self.items = self.items or _SeenValues()
                for item in value:
                    self.items.add(item, level + 1)
            case dict():
                self.kinds.add("struct")
                for name, inner in value.items():
                    self.fields.setdefault(name, _SeenValues()).add(inner, level + 1)

    def type(self) -> str:
        """Return the Spark type of the values; STRING if their types differ."""
        if self.kinds == {"bigint", "double"}:
            return "DOUBLE"
        if len(self.kinds) != 1:
            return "STRING"
        (kind,) = self.kinds
        if kind == "array":
            return f"ARRAY<{self.items.type() if self.items is not None else 'STRING'}>"
        if kind == "struct":
            if not self.fields:
                return "STRING"
            types = [(name, seen.type()) for name, seen in self.fields.items()]
            if len(types) > _MAX_FIELDS:
                shared = {type_ for _, type_ in types}
                return f"MAP<STRING, {shared.pop() if len(shared) == 1 else 'STRING'}>"
            inner = ", ".join(f"{quote_name(name)}: {type_}" for name, type_ in types)
            return f"STRUCT<{inner}>"
        return kind.upper()


@dataclass(frozen=True)
class Objects:
    """Result of detecting JSON: columns, table options in addition to declared ones, and notes."""

    columns: tuple[TableColumn, ...]
    options: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def find_fields(samples: Sequence[Sample], declared: Mapping[str, str]) -> Objects:
    """Detect the columns and options of JSON files.

    Args:
        samples: Samples of the files.
        declared: Declared options under Spark's names.

    Raises:
        ExecutionError: One of the first lines is not a JSON object, or no line is.
    """
    top = _SeenValues()
    options: dict[str, str] = {}
    is_whole_file = declared.get("multiLine", "").lower() == "true"
    if "multiLine" not in declared and any(map(_spans_lines, samples)):
        options["multiLine"] = "true"
        is_whole_file = True
    if samples[0].encoding and "encoding" not in declared:
        options["encoding"] = samples[0].encoding
        if samples[0].encoding == "UTF-16" and not is_whole_file:
            raise ExecutionError(
                f"{samples[0].path} is UTF-16, but JSON lines must be UTF-8",
                subjects=(samples[0].path,),
                hint=f"convert the file: iconv -f UTF-16 -t UTF-8 {samples[0].path} > NEW",
            )
    records = declared.get("records", "")
    if "records" not in declared and is_whole_file and (name := records_field(samples[0].text)):
        records = options["json.records"] = name
    for sample in samples:
        if records:
            options |= {} if "multiLine" in declared else {"multiLine": "true"}
            objects: Iterator[Any] = _field_objects(sample, records)
        else:
            objects = _values(sample) if is_whole_file else _lines(sample)
        try:
            for object_ in objects:
                top.add(object_)
        except NestedTooDeepError as error:
            raise ExecutionError(
                f"{sample.path} {error}",
                subjects=(sample.path,),
                hint="reduce the nesting in the file",
            ) from error
    first = samples[0]
    if not top.fields and not first.is_whole:
        raise ExecutionError(
            f"the first object of {first.path} is longer than {len(first.text):,} "
            "characters, so columns cannot be inferred",
            subjects=(first.path,),
            hint="declare format and columns in CREATE TABLE",
        )
    if not top.fields:
        raise ExecutionError(
            f"{samples[0].path} contains no JSON object, so columns cannot be inferred",
            subjects=(samples[0].path,),
            hint="declare the columns in CREATE TABLE",
        )
    _check_names(top.fields, samples[0].path)
    columns, notes, words = [], [], set[str]()
    if "json.records" in options:
        notes.append(f"the rows are the objects in field {records!r}: 'json.records' = '{records}'")
    texts = [[t for t in values.texts if t] for values in top.fields.values()]
    day_first = habits_of(texts).day_first
    null_words = NULL_WORDS
    if "nulls" in declared:
        null_words = frozenset(declared["nulls"].split(BETWEEN_WORDS))
    years = set[int]()
    for name, values in top.fields.items():
        type_, pattern, note, nulls = _column(name, values, day_first, null_words)
        years |= years_of(values.texts) if type_.startswith(("TIMESTAMP", "DATE")) else set()
        columns.append(TableColumn(name, type_))
        words |= nulls
        if pattern:
            options[f"fields.{name}.format"] = pattern
        if note:
            notes.append(note)
    for column in columns:
        if column.type == "BIGINT":
            whole = [int(n) for n in dict.fromkeys(top.fields[column.name].numbers)]
            if note := whole_times_note(column.name, whole, years):
                notes.append(note)
    if words:
        options["json.null-literals"] = BETWEEN_WORDS.join(sorted(words))
    return Objects(tuple(columns), tuple(options.items()), tuple(notes))


def _check_names(names: Iterable[str], path: str) -> None:
    """Check that field names are distinct in SQL, which ignores case."""
    by_folded: dict[str, str] = {}
    for name in names:
        other = by_folded.setdefault(name.lower(), name)
        if other != name:
            raise CatalogError(
                f"{path} has the fields `{other}` and `{name}`, which differ in case only",
                subjects=(path,),
                hint="declare one of them as a column in CREATE TABLE to read that one",
            )


def _column(
    name: str, values: _SeenValues, day_first: bool | None, null_words: Collection[str]
) -> tuple[str, str, str, set[str]]:
    """Return type and pattern of a field, a note, and its words for NULL."""
    if values.kinds <= {"bigint", "double"} and values.numbers:
        unit = epoch_format(name, values.numbers)
        return ("TIMESTAMP", unit, "", set()) if unit else (values.type(), "", "", set())
    bare = [text for text in values.texts if text and text not in null_words]
    words = set(values.texts).intersection(null_words)
    others = values.kinds - {"string"}
    if words and not bare and others and others <= {"bigint", "double"}:
        return "DOUBLE" if "double" in others else "BIGINT", "", "", words
    if bare and others and others <= {"bigint", "double"}:
        return "STRING", "", _note_on_mixture(name, values.numbers, bare, day_first), set()
    if values.kinds != {"string"} or not bare:
        return values.type(), "", "", set()
    times = time_format(bare, day_first)
    if times is None:
        return "STRING", "", _note_on_texts(name, bare, words, day_first), set()
    if times.ambiguous is not None:
        note = (
            f"`{name}` is STRING, because its times may be {times.pattern} or "
            f"{times.ambiguous}; set 'fields.{name}.format' = '{times.pattern}' or "
            f"'{times.ambiguous}'"
        )
        return "STRING", "", note, set()
    return times.type.upper(), "" if times.pattern == ISO else times.pattern, "", words


def _note_on_texts(
    name: str, texts: Sequence[str], nulls: Collection[str], day_first: bool | None
) -> str:
    """Return why a field stays STRING although most of its texts are times; empty for others."""
    if (month := month_pattern(texts)) is not None:
        return month_note(name, month)
    times = doubtful_times(name, texts, day_first)
    if times is None or not times.misfits:
        return "" if times is None else times.note
    n_others = sum(text not in times.misfits for text in texts)
    words = BETWEEN_WORDS.join(dict.fromkeys([*sorted(nulls), *times.misfits]))
    what = "it" if len(times.misfits) == 1 else "them"
    return (
        f"{not_times(name, times.misfits, times.shown, n_others)}; set 'json.null-literals' = "
        f"'{words}' to read {what} as NULL"
    )


def _note_on_mixture(
    name: str, numbers: Sequence[float], texts: Sequence[str], day_first: bool | None
) -> str:
    """Return why a field with numbers and texts is STRING, and what reads it."""
    column, n_all = quote_name(name), len(numbers) + len(texts)
    reason = (
        f"`{name}` is STRING, because {len(numbers)} of its {n_all} values "
        f"{'is a number' if len(numbers) == 1 else 'are numbers'} and the others are texts"
    )
    whole = [str(number) for number in numbers if isinstance(number, int)]
    times = doubtful_times(name, [*texts, *whole], day_first)
    if times is not None and times.note:
        return times.note
    if all(map(_is_plain_number, texts)):
        return f"{reason}; use CAST({column} AS DOUBLE)"
    if len(numbers) >= len(texts):
        return f"{reason}: {values_text(texts)}; use TRY_CAST({column} AS DOUBLE) for the numbers"
    return reason


def _is_plain_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def _spans_lines(sample: Sample) -> bool:
    """Return whether a text is not one object per line: an array, or an object that spans lines."""
    text = sample.text.lstrip()
    if not text or text[0] == "[":
        return bool(text)
    first = text.splitlines()[0]
    if len(text.splitlines()) == 1 and records_field(text):
        return True
    try:
        load_json(first)
    except NestedTooDeepError:
        return False
    except ValueError:
        return first.rstrip() in ("{", "[") or not first.rstrip().endswith("}")
    return False


def records_field(text: str) -> str | None:
    """Return the only field of a single object whose value is an array of objects.

    None without exactly one such field, or if the text holds more than one object.
    """
    try:
        fields = list(_fields(text))
    except NestedTooDeepError:
        return None
    if not fields or fields[-1] is None:
        return None  # the object is followed by more, or it is not an object
    arrays = [name for name, value in fields if name and _is_array_of_objects(value)]  # type: ignore[misc]
    return arrays[0] if len(arrays) == 1 else None


def _is_array_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, dict) for v in value)


def _fields(text: str) -> Iterator[tuple[str, Any] | None]:
    """Yield the fields of an object, the last one maybe truncated; None if more text follows it."""
    at = len(text) - len(text.lstrip())
    if text[at : at + 1] != "{":
        return
    while True:
        at = _after_blanks(text, at + 1)
        try:
            name, at = load_json_at(text, at)
        except ValueError:
            return
        at = _after_blanks(text, at)
        if text[at : at + 1] != ":":
            return
        at = _after_blanks(text, at + 1)
        try:
            value, at = load_json_at(text, at)
        except ValueError:
            if text[at : at + 1] == "[":
                yield str(name), list(_objects(text, at))
            return
        yield str(name), value
        at = _after_blanks(text, at)
        if text[at : at + 1] == "}" and text[at + 1 :].strip():
            yield None
        if text[at : at + 1] != ",":
            return


def _after_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _field_objects(sample: Sample, name: str) -> Iterator[Any]:
    """Yield the objects in a field of a single object, which may be truncated."""
    for field_ in _fields(sample.text):
        if field_ is not None and field_[0] == name and isinstance(field_[1], list):
            yield from (value for value in field_[1] if isinstance(value, dict))


def _place_in_line(error: ValueError) -> str:
    """Return the column of a JSON error and its cause, which refer to a line as a whole text."""
    if not isinstance(error, json.JSONDecodeError):
        return ""
    cause = error.msg.removesuffix(" starting at")
    return f" (column {error.colno}: {cause[:1].lower()}{cause[1:]})"


def _lines(sample: Sample) -> Iterator[Any]:
    for number, line in enumerate(sample.text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = load_json(line)
        except NestedTooDeepError as error:
            raise ExecutionError(
                f"{sample.path}, line {number} {error}", subjects=(sample.path,), hint=_LEAVE_OUT
            ) from error
        except ValueError as error:
            raise ExecutionError(
                f"{sample.path}, line {number}: {line.strip()[:60]!r} is not valid JSON"
                f"{_place_in_line(error)}",
                subjects=(sample.path,),
                hint=_LEAVE_OUT,
            ) from error
        if isinstance(value, dict):
            yield value


def _values(sample: Sample) -> Iterator[Any]:
    """Yield the objects of a text that may be truncated."""
    yield from _objects(sample.text, 0)


def _objects(text: str, at: int) -> Iterator[Any]:
    """Yield the objects of an array or a text from a position, as far as it parses."""
    while True:
        while at < len(text) and text[at] in " \t\r\n,[":
            at += 1
        try:
            value, at = load_json_at(text, at)
        except NestedTooDeepError:
            raise
        except ValueError:
            return
        if isinstance(value, dict):
            yield value
