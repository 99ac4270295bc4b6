"""Events of a running stream: micro-batches, watermark and offsets as a facet of OpenLineage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import attr
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    InputDatasetFacet,
    RunFacet,
    input_statistics_input_dataset,
    output_statistics_output_dataset,
)

from runtime.errors import SqlwinError
from runtime.scan.stores import kind_of
from runtime.spec.figures import timestamp_text
from sqlwin.execution.streams.handle import Stream
from sqlwin.observers.file_sizes import FilesSize, FileStates, ListFiles, data_files, size_of

# Name of the facet; OpenLineage asks for a prefix
MICRO_BATCHES = "sqlwin_microBatches"


@attr.define
class MicroBatchesRunFacet(RunFacet):
    """Micro-batches of a stream since its previous event.

    The names are in camel case, as in OpenLineage. The schema is RunFacet's, which allows any
    field.

    Attributes:
        stream: Name of the stream.
        firstBatch: Number of the first micro-batch.
        lastBatch: Number of the last micro-batch.
        seconds: Total duration.
        rowsRead: Rows read from all sources.
        lateRows: Late rows since the start of the run.
        stateRows: Partials in state.
        stateBytes: Size of the partials.
        offsets: Each source with its offset after the last micro-batch, as Spark writes them.
        watermark: Watermark of the operator that is furthest behind, in UTC. None before the first
            row.
    """

    stream: str
    firstBatch: int
    lastBatch: int
    seconds: float
    rowsRead: int
    lateRows: int
    stateRows: int
    stateBytes: int
    offsets: list[dict[str, str]]
    watermark: str | None = None


@dataclass(frozen=True)
class ReadTable:
    """A table that a statement reads.

    Attributes:
        dataset: Its dataset, without statistics.
        path: Path or URI of its files, perhaps a pattern. Empty if there are none.
        list_files: Lists the files.
    """

    dataset: InputDataset
    path: str
    list_files: ListFiles = data_files

    def with_statistics(self, n_rows: int | None) -> InputDataset:
        """Return the dataset with the rows read, and the size of its files."""
        files = self.list_files(self.path) if self.path else None
        return with_input_statistics(
            self.dataset, n_rows, None if files is None else size_of(files)
        )


@dataclass(frozen=True)
class WrittenTable:
    """A table that a statement writes.

    Attributes:
        name: Name in the statement.
        dataset: Its dataset, without statistics.
        path: Directory of its files, as a path or URI. Empty if there is none.
        before: Its data files before the statement. None if they could not be listed.
        list_files: Lists the files.
    """

    name: str
    dataset: OutputDataset
    path: str
    before: FileStates | None
    list_files: ListFiles = data_files

    def with_statistics(self, n_rows: int | None) -> OutputDataset:
        """Return the dataset with row count and the size of files written by the statement."""
        is_listed = bool(self.path) and self.before is not None
        files = self.list_files(self.path) if is_listed else None
        size = None if files is None else size_of(files, self.before)
        return with_output_statistics(self.dataset, n_rows, size)


@dataclass(frozen=True)
class StreamEvent:
    """An event about the micro-batches since the previous one.

    Attributes:
        at: End of the last micro-batch, in seconds since 1970.
        facet: The micro-batches.
        inputs: Tables read, with the rows of these micro-batches.
        outputs: Tables written, with the rows and bytes of these micro-batches.
    """

    at: float
    facet: MicroBatchesRunFacet
    inputs: list[InputDataset]
    outputs: list[OutputDataset]


class StreamEvents:
    """Events of a stream, which know what the previous one has reported.

    Args:
        stream: The stream.
        inputs: Tables that its statement reads.
        tables: Tables that its statement writes.
        mask: Hides secrets in texts.
    """

    def __init__(
        self,
        stream: Stream,
        inputs: Sequence[InputDataset],
        tables: Sequence[WrittenTable],
        mask: Callable[[str], str],
    ) -> None:
        self._stream = stream
        self._inputs = inputs
        names = stream.setup.inserts
        self._tables = [table for table in tables if not names or table.name in names]
        self._mask = mask
        self._last_batch = -1
        self._rows: dict[str, int | None] = {}
        # a listing of an object store per event would take too many requests
        self._files = {
            table.name: table.before or {}
            for table in self._tables
            if table.path and kind_of(table.path) is None
        }

    def wait(self, seconds: float) -> tuple[bool, str]:
        """Wait for the end of the stream. Return whether it is over, and its error or ""."""
        try:
            is_over = self._stream.wait(seconds)
        except SqlwinError as error:
            is_over, message = True, error.message
        else:
            message = ""
        if is_over:
            self._stream.history.pull_last(self._stream.query)
        return is_over, message

    def take(self) -> StreamEvent | None:
        """Return an event about the micro-batches since the previous one, None without any."""
        points, sources = self._stream.history.batches_after(self._last_batch)
        if not points:
            return None
        last = points[-1]
        self._last_batch = last.batch
        rows_read = sum(point.rows_in for point in points)
        facet = MicroBatchesRunFacet(
            stream=self._mask(self._stream.setup.name),
            firstBatch=points[0].batch,
            lastBatch=last.batch,
            seconds=round(sum(point.seconds for point in points), 3),
            rowsRead=rows_read,
            lateRows=last.late,
            stateRows=last.state_rows,
            stateBytes=last.state_bytes,
            watermark=None
            if last.watermark_us is None
            else f"{timestamp_text(last.watermark_us, 'T')}Z",
            offsets=[
                {"source": self._mask(source.description), "offset": source.end_offset}
                for source in sources
            ],
        )
        inputs = list(self._inputs)
        if len(inputs) == 1:
            inputs = [with_input_statistics(inputs[0], rows_read, None)]
        return StreamEvent(last.at, facet, inputs, [self._written(t) for t in self._tables])

    def _written(self, table: WrittenTable) -> OutputDataset:
        """Return a table with the rows and bytes written since the previous event."""
        before, now = self._rows.get(table.name, 0), rows_written(self._stream, table.name)
        self._rows[table.name] = now
        n_rows = None if before is None or now is None else now - before
        size = None
        if table.name in self._files:
            files = data_files(table.path)
            size = size_of(files, self._files[table.name])
            self._files[table.name] = files
        return with_output_statistics(table.dataset, n_rows, size)


def rows_written(stream: Stream, table: str) -> int | None:
    """Return the rows that a stream has written to a table, None if the sink does not count."""
    inserts = stream.setup.inserts
    if not inserts:
        return stream.run.n_rows
    counts = [
        count for name, count in zip(inserts, stream.run.written, strict=False) if name == table
    ]
    return None if None in counts else sum(count or 0 for count in counts)


def with_input_statistics(
    dataset: InputDataset, n_rows: int | None, size: FilesSize | None
) -> InputDataset:
    """Return a dataset with the rows and bytes read, without a facet if none is known."""
    if n_rows is None and size is None:
        return dataset
    facets: dict[str, InputDatasetFacet] = {
        "inputStatistics": input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
            rowCount=n_rows,
            size=None if size is None else size.n_bytes,
            fileCount=None if size is None else size.n_files,
        )
    }
    return attr.evolve(dataset, inputFacets=facets)


def with_output_statistics(
    dataset: OutputDataset, n_rows: int | None, size: FilesSize | None
) -> OutputDataset:
    """Return a dataset with the rows and bytes written, without a facet if none is known."""
    if n_rows is None and size is None:
        return dataset
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=n_rows,
        size=None if size is None else size.n_bytes,
        fileCount=None if size is None else size.n_files,
    )
    return attr.evolve(dataset, outputFacets={"outputStatistics": statistics})
