"""Explain why a column stays text: the values that do not fit, their lines, and what to set."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from runtime.detection.dialect import Dialect
from runtime.detection.kinds import SHOWN_CHARACTERS, ValueKind, values_text
from runtime.detection.lines import REPEATED, SKIP_BELOW, SKIP_PREFIXES, prefix_of_cell
from runtime.detection.sample import Sample
from runtime.shown_types import shown_type

# Separator of words within one option value
BETWEEN_WORDS = "|"
# Maximum number of lines in a note
_MAX_LINES = 3


@dataclass(frozen=True)
class Given:
    """Option values that apply already.

    Attributes:
        nulls: Words that stand for NULL.
        symbols: Texts around numbers.
        prefixes: Beginnings of lines that are skipped.
    """

    nulls: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Cell:
    """Value in a line.

    Attributes:
        place: Line, and the file if there are several.
        text: The value.
        prefix: Beginning of the line up to the value. None if other values precede it, or if no
            option can hold it.
    """

    place: str
    text: str
    prefix: str | None


@dataclass(frozen=True)
class SampledTable:
    """Sampled lines with fields.

    Attributes:
        samples: Samples of the files.
        dialect: How lines are split.
        skip: Number of lines above the header.
        rows: Fields of the records.
        first: Fields of the first file's lines, including the header.
    """

    samples: Sequence[Sample]
    dialect: Dialect
    skip: int
    rows: Sequence[Sequence[str]]
    first: Sequence[Sequence[str]]

    def last_line(self) -> Sequence[str]:
        """Return the fields of the last line of the only file; empty if the sample lacks it."""
        is_seen = len(self.samples) == 1 and self.samples[0].is_whole
        return self.rows[-1] if is_seen and self.rows else ()

    def n_values(self, column: int, without: Collection[str]) -> int:
        """Return the number of values of a column, without empty ones and some others."""
        values = (row[column].strip() for row in self.rows)
        return sum(bool(value) and value not in without for value in values)

    def cells(self, column: int, texts: Collection[str]) -> Iterator[_Cell]:
        """Yield the values of a column that are one of some texts."""
        for sample in self.samples:
            lines = list(enumerate(io.StringIO(sample.text, newline=""), 1))[self.skip :]
            if comment := self.dialect.comment:
                lines = [(n, line) for n, line in lines if not line.startswith(comment)]
            reader = self.dialect.reader(line for _, line in lines)
            n_read = 0
            for row in reader:
                number, line = lines[n_read]
                n_read = reader.line_num  # type: ignore[attr-defined]  # of csv.reader
                if column < len(row) and (text := row[column].strip()) in texts:
                    file = f"{sample.path.rpartition('/')[2]}, " if len(self.samples) > 1 else ""
                    is_first = not any(cell.strip() for cell in row[:column])
                    prefix = prefix_of_cell(line, text) if is_first else None
                    yield _Cell(f"{file}line {number}", text, prefix)


def notes_on_misfits(
    names: Sequence[str],
    kinds: Sequence[ValueKind],
    given: Given,
    table: SampledTable | None,
    *,
    is_headed: bool,
) -> list[str]:
    """Return why columns stay text, with a single option value that covers all of them.

    Args:
        names: Column names.
        kinds: Kinds of the columns.
        given: Options that apply already.
        table: Lines with the values. None if they have no fields.
        is_headed: Whether the first line is a header.
    """
    lines = table.first if table is not None else ()
    first = lines[0] if lines else ()
    second = lines[1] if is_headed and len(lines) > 1 else ()
    every_symbol = [*given.symbols, *(s for kind in kinds for s in kind.symbols)]
    notes = []
    advice: list[list[str]] = [[] for _ in kinds]
    to_null: dict[int, list[str]] = {}
    to_skip: dict[int, list[_Cell]] = {}
    for i, kind in enumerate(kinds):
        if kind.symbols:
            notes.append(
                f"`{names[i]}` is STRING, because its numbers have "
                f"{values_text(kind.symbols)} around them; to read them as "
                f"{shown_type(kind.would_be)}, set 'csv.number-symbols' = "
                f"'{_words(every_symbol)}'"
            )
        name = first[i].strip() if i < len(first) else ""
        rest = [word for word in kind.misfits if word != name]
        is_below = len(kinds) > 1 and i < len(second) and rest == [second[i].strip()]
        if name in kind.misfits and is_headed:
            advice[i].append(f"set '{REPEATED}' = 'true' to skip repeated header lines")
        elif name in kind.misfits:
            advice[i].append("set 'header' = 'true' to use the first line as column names")
        elif is_below:
            advice[i].append(f"set '{SKIP_BELOW}' = '1' to skip the line below the header")
        elif table is not None and len(kinds) > 1 and all(map(_is_word, rest)):
            cells = list(table.cells(i, rest)) if rest else []
            can_quote = all(0 < len(cell.prefix or "") <= SHOWN_CHARACTERS for cell in cells)
            if 0 < len(cells) <= _MAX_LINES and can_quote:
                to_skip[i] = cells
        if rest and max(map(len, rest)) <= SHOWN_CHARACTERS:
            to_null[i] = rest
    prefixes = [*given.prefixes, *_shortest(to_skip.values())]
    for i, cells in to_skip.items():
        what = "the line" if len(cells) == 1 else "the lines"
        advice[i].append(f"set '{SKIP_PREFIXES}' = '{_words(prefixes)}' to skip {what}")
    nulls = [*given.nulls, *(word for words in to_null.values() for word in words)]
    for i, words in to_null.items():
        what = "it" if len(words) == 1 else "them"
        advice[i].append(f"set 'csv.null-literals' = '{_words(nulls)}' to read {what} as NULL")
    for i, kind in enumerate(kinds):
        if kind.misfits:
            ways = f"; {', or '.join(advice[i])}" if advice[i] else ""
            notes.append(f"{_reason(names[i], kind, table, i, given.nulls)}{ways}")
    return notes


def _reason(
    name: str, kind: ValueKind, table: SampledTable | None, column: int, nulls: Sequence[str]
) -> str:
    cells = [] if table is None else list(table.cells(column, kind.misfits))
    places = [cell.place for cell in cells] if len(cells) <= _MAX_LINES else []
    if not kind.times:
        where = f" in {' and '.join(places)}" if places else ""
        return (
            f"`{name}` is STRING instead of {shown_type(kind.would_be)}, because of "
            f"{values_text(kind.misfits)}{where}"
        )
    n_others = None if table is None else table.n_values(column, {*kind.misfits, *nulls})
    where = f"{' and '.join(places)}: " if places else ""
    return f"{where}{not_times(name, kind.misfits, kind.times, n_others)}"


def not_times(name: str, misfits: Sequence[str], shown: str, n_others: int | None) -> str:
    """Return which values keep a column from being times.

    Args:
        name: Column name.
        misfits: The values.
        shown: Notation of the other values.
        n_others: Number of its other values, if known.
    """
    what = "is not a time" if len(misfits) == 1 else "are not times"
    others = (
        "the other value is"
        if n_others == 1
        else f"the other {n_others} values are"
        if n_others
        else "the other values are"
    )
    return f"{values_text(misfits)} {what}; {others} {shown}, so `{name}` is STRING"


def _is_word(text: str) -> bool:
    return not (text[0].isdigit() or text[0] in "+-.,")


def _shortest(columns: Collection[Sequence[_Cell]]) -> list[str]:
    """Return the prefixes that cover all lines, for each line the shortest."""
    by_line: dict[str, str] = {}
    for cells in columns:
        for cell in cells:
            prefix = cell.prefix or ""
            by_line[cell.place] = min(by_line.get(cell.place, prefix), prefix, key=len)
    return list(dict.fromkeys(by_line.values()))


def _words(words: Sequence[str]) -> str:
    return BETWEEN_WORDS.join(dict.fromkeys(words))
