"""Splits of a hybrid table, as the local stage of a stream reads them.

A split of the first table is `["first", LIMIT, SPLIT]`: a split of that table, and the limit of the
watermark while its range is read. A split of the second is `["then", SPLIT]`.

    listed-files/<number of the table>/history.json    the plan of the first table
    listed-files/<number of the table>/first-*/        a copy of the first table, see `copies`
    listed-files/<number of the table>/then/           records of the second table, if it has any
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from runtime.connectors.hybrid.copies import CopySource, remove_copies, write_copy
from runtime.connectors.hybrid.files import HistoryReader
from runtime.connectors.hybrid.history import (
    HistoryPart,
    HistoryPlan,
    history_parts,
    plan_history,
    read_times,
)
from runtime.connectors.hybrid.overlap import Overlap, only_counting
from runtime.connectors.hybrid.parts import Parts
from runtime.connectors.hybrid.source import FIRST, split_texts
from runtime.connectors.unread_rows import unread_splits
from runtime.errors import ExecutionError
from runtime.files import is_local_path
from runtime.frames.file_jobs import row_group_selector
from runtime.frames.scan_source import store_of_scan
from runtime.options.checks import option_values
from runtime.options.formats import format_of
from runtime.records import from_text, to_text
from runtime.refusal import Refused
from runtime.spark.files import files_at
from runtime.spec.source import WATERMARK_SPLIT, SplitReader, SplitSource, SplitStream
from runtime.spec.table import Column

_PLAN = "history.json"
_VERSION = 3


@dataclass(frozen=True)
class HybridReader(SplitReader):
    """Reader of the splits of both tables in a task; see `SplitReader`.

    Attributes:
        first: Reads splits of the first table.
        then: Reads splits of the second table, with time and key if there is an overlap.
        columns: Columns to return.
        overlap: Overlap of both tables. None if all rows count.
    """

    first: SplitReader
    then: SplitReader
    columns: tuple[Column, ...]
    overlap: Overlap | None

    @property
    def undecoded_ddl(self) -> str | None:
        """Columns of the second table's rows that are left to Spark."""
        return self.then.undecoded_ddl

    def read(self, splits: Sequence[str], dictionaries: frozenset[str]) -> Iterator[pa.RecordBatch]:
        """Read splits one after the other.

        Raises:
            ExecutionError: A split cannot be read.
        """
        names = [column.name for column in self.columns]
        for text in splits:
            part, *_, split = json.loads(text)
            if part == FIRST:
                yield from self.first.read([split], dictionaries)
                continue
            for batch in self.then.read([split], dictionaries):
                if self.overlap is None or WATERMARK_SPLIT in batch.schema.names:
                    yield batch
                else:
                    yield self.overlap.rows_that_count(batch).select(names)

    def watermark_split(self, split: str) -> int | None:
        """Return the watermark split of the second table; the first table is read as a whole."""
        part, *_, text = json.loads(split)
        return None if part == FIRST else self.then.watermark_split(text)

    def watermark_limit_us(self, split: str) -> int | None:
        """Return the time that rows of later ranges may have."""
        part, limit, *_ = json.loads(split)
        return limit if part == FIRST else None


@dataclass(frozen=True)
class FirstTable:
    """The first table, from which a stream plans its history.

    Attributes:
        parts: Its parts.
        is_copy: Whether they are of a copy in the checkpoint, see `copies`.
        then_options: Further options of the second table, at whose offsets it starts.
    """

    parts: list[HistoryPart]
    is_copy: bool
    then_options: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class HybridSplits(SplitSource):
    """Splits of a hybrid table: see `SplitSource`.

    Attributes:
        spark: Spark session.
        parts: Both tables.
        history: Plan of the first table, once the stream has one.
        together: All hybrid tables of the stream, this one included. Empty if it is the only one.
    """

    spark: SparkSession
    parts: Parts
    history: HistoryPlan | None = None
    together: tuple[HybridSplits, ...] = ()
    # the first table, once it is read
    made: list[FirstTable] = field(default_factory=list, compare=False, repr=False)

    def read_with(self, sources: Sequence[SplitSource]) -> HybridSplits:
        """Return the same table, whose history is read at the pace of the others."""
        hybrid = tuple(source for source in sources if isinstance(source, HybridSplits))
        return replace(self, together=hybrid)

    def reader(self, columns: Sequence[Column], *, is_stream: bool) -> HybridReader:
        """Return the reader of both tables for tasks."""
        assert self.history is not None, "only streams have splits, after `stream`"
        parts, history = self.parts, self.history
        wanted, overlap = tuple(columns), None
        if history.from_us is not None and history.newest_us is not None:
            wanted = parts.with_key(columns)
            overlap = Overlap(
                parts.time,
                parts.key,
                history.from_us,
                history.newest_us,
                history.overlap,
                self._history_reader(parts.with_key(()), history.origin, history.is_copy),
            )
        return HybridReader(
            self._history_reader(columns, history.origin, history.is_copy),
            parts.then_without_monitor.splits(self.spark).reader(wanted, is_stream=True),
            tuple(columns),
            overlap,
        )

    def stream(self, directory: str | None) -> SplitStream:
        """Return the splits as they arrive; the first run of a stream plans the first table.

        Raises:
            ExecutionError: A file of the first table cannot be read.
        """
        if directory is None:
            unread = unread_splits(self.spark, self.parts.spec.name)
            # no task reads the table, so any reader will do
            return unread._replace(source=replace(self, history=HistoryPlan((), is_copy=True)))
        history = self._plan(directory)
        then = self.parts.then_from(history.from_us).with_options(dict(history.then_options))
        offsets = then.splits(self.spark).offsets(f"{directory}/then")
        texts = split_texts(self.spark, history.ranges, offsets)
        return SplitStream(texts, source=replace(self, history=history))

    def with_decoded(self, rows: DataFrame, column: str, columns: Sequence[Column]) -> DataFrame:
        """Let Spark decode rows of the second table: see `SplitSource.with_decoded`."""
        assert self.history is not None, "only streams have splits, after `stream`"
        then = self.parts.then.splits(self.spark)
        if self.history.from_us is None:
            return then.with_decoded(rows, column, columns)
        decoded = then.with_decoded(rows, column, self.parts.with_key(columns))
        overlap = self.reader(columns, is_stream=True).overlap
        assert overlap is not None
        names = [c.name for c in columns]
        names += [name for name in decoded.columns if name.startswith("$")]
        return only_counting(decoded, overlap).select(*(f"`{name}`" for name in names))

    def _history_reader(
        self, columns: Sequence[Column], origin: str, is_copy: bool
    ) -> HistoryReader:
        """Return the reader of the first table.

        Args:
            columns: Columns to read.
            origin: Path of one of its files.
            is_copy: Whether these are of a copy.

        Raises:
            Refused: Tasks do not read these text files as Spark does.
        """
        spec, text = self.parts.first.spec, None
        is_lake = spec.connector.lower() != "filesystem"
        if not (is_copy or is_lake) and format_of(option_values(spec)) != "parquet":
            text = self.parts.first.splits(self.spark).reader(columns, is_stream=True)
        store = None if is_local_path(origin) else store_of_scan(self.spark, origin)
        return HistoryReader(text, tuple(columns), store)

    def _plan(self, directory: str) -> HistoryPlan:
        """Return the plan in the checkpoint; make it if the stream is new."""
        files, path = files_at(self.spark, directory), f"{directory}/{_PLAN}"
        if files.exists(path):
            try:
                return from_text(HistoryPlan, files.read_text(path), _VERSION)
            except ValueError as error:
                raise ExecutionError(f"cannot resume from {path}: {error}") from error
        files.make_directory(directory)
        remove_copies(self.spark, directory)
        parts, first = self.parts, self._first_table(directory)
        others = [
            (other._first_table(directory).parts, other.parts.range_bytes)
            for other in self.together
            if other.parts != parts
        ]
        n_tasks = self.spark.sparkContext.defaultParallelism
        history = plan_history(first.parts, parts.range_bytes, n_tasks, parts.overlap_us, others)
        history = replace(history, is_copy=first.is_copy, then_options=first.then_options)
        files.write_text(path, to_text(history, _VERSION))
        return history

    def _first_table(self, directory: str) -> FirstTable:
        """Return the first table; tables that one stream reads together make it once."""
        own = next((other for other in self.together if other.parts == self.parts), self)
        if not own.made:
            own.made.append(own._read_first_table(directory))
        return own.made[0]

    def _read_first_table(self, directory: str) -> FirstTable:
        parts = self.parts
        task_bytes = max(parts.range_bytes // self.spark.sparkContext.defaultParallelism, 1)
        try:
            parts = parts.at_stored_offsets(self.spark)
            source, _ = parts.scans(self.spark, (parts.time,))
            if is_copy := isinstance(source, CopySource):
                source = write_copy(
                    self.spark, parts.first, parts.columns, parts.time, directory, task_bytes
                )
            origin = source.files[0].path if source.files else ""
            reader = self._history_reader([parts.time], origin, is_copy)
        except Refused as refused:
            raise ExecutionError(f"table `{parts.spec.name}`: {refused}") from refused
        rows = history_parts(
            source,
            parts.time,
            task_bytes,
            partial(read_times, self.spark, reader, parts.time),
            reader.store,
            row_group_selector(self.spark),
        )
        own = self.parts.then.spec.options
        further = tuple(option for option in parts.then.spec.options if option not in own)
        return FirstTable(rows, is_copy, further)
