"""Compares the results of records with the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import duckdb

import sqlwin
from tests.oracle import same_rows
from tests.slt.definitions import sql_of
from tests.slt.script import Record, fill
from tests.slt.values import row_text

QueryRows = list[tuple[Any, ...]]
# Number of the micro-batch, from 1, and the rows that it emitted
Emitted = list[tuple[int, QueryRows]]


@dataclass(frozen=True)
class Answer:
    """The rows that a query returned or emitted, and the notes of its statement."""

    emitted: Emitted
    notes: tuple[str, ...] = ()


def check_rows(
    record: Record, answer: Answer, n_batches: int, duck: duckdb.DuckDBPyConnection
) -> None:
    """Compare the rows of a query with the file or the oracle.

    Args:
        record: The record.
        answer: Its rows and notes.
        n_batches: Number of micro-batches that read rows. Later ones are the end of the input.
        duck: The oracle.

    Raises:
        AssertionError: The rows differ.
    """
    ours, theirs = sql_of(record)
    if record.kind == "oracle":
        wanted = duck.execute(theirs).fetchall()
        assert wanted, "the oracle has no rows: the record shows nothing"
        same_rows([row for _, rows in answer.emitted for row in rows], wanted)
        return
    wanted_texts = (fill(record).below or "").splitlines()
    texts = texts_of(record, answer, n_batches)
    assert texts == wanted_texts, "\n".join([ours, "wanted:", *wanted_texts, "got:", *texts])


def texts_of(record: Record, answer: Answer, n_batches: int) -> list[str]:
    """Return the rows of a `query` or `stream` record as lines, and the notes that it lists."""
    if record.kind == "stream":
        return list(_by_micro_batch(answer.emitted, n_batches))
    texts = [row_text(row) for _, rows in answer.emitted for row in rows]
    notes = [f"-- {note}" for note in answer.notes] if "notes" in record.flags else []
    return [*(texts if "ordered" in record.flags else sorted(texts)), *notes]


def _by_micro_batch(emitted: Emitted, n_batches: int) -> Iterator[str]:
    """Yield the rows of each micro-batch that emitted some, below a line with its number."""
    for number, rows in emitted:
        if rows:
            yield "-- end" if number > n_batches else f"-- {number}"
            yield from sorted(map(row_text, rows))


def check_plan(session: sqlwin.Session, record: Record) -> None:
    """Check that EXPLAIN shows the operators of a record.

    Raises:
        AssertionError: One is missing.
    """
    plan = session.explain(sql_of(record)[0]).partition("== Optimized Physical Plan ==")[2]
    missing = [name for name in record.operators if f" {name}(" not in plan.replace("\n", "\n ")]
    assert not missing, f"no {missing} in\n{plan}"


def has_words(report: str, words: str) -> bool:
    """Return whether a report names the place and has the words, in any case."""
    place, _, rest = words.partition(" ")
    if ":" in place and place.replace(":", "").isdigit():
        line, column = place.split(":")
        if f"line {line}, column {column}\n" not in report:
            return False
        words = rest
    return all(phrase.strip().lower() in report.lower() for phrase in words.split(";"))
