"""Events of OpenLineage: tables, columns, rows and bytes that statements read and write."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from planner.nodes.logical import Sink
from runtime.errors import SqlwinError, packages_of
from runtime.spark.files import store_at
from runtime.spark.on_demand import without_start
from runtime.spec.table import Column
from sqlwin.catalog.entries import Name
from sqlwin.execution.activity import StatementRun, StatementState
from sqlwin.execution.streams.handle import Stream
from sqlwin.observers.column_sources import column_sources, table_name
from sqlwin.observers.datasets import (
    LOCAL,
    DatasetPlace,
    place_of,
    place_of_path,
    read_path_of,
    sources_by_place,
    tables_of,
    without_views,
    written_path_of,
)
from sqlwin.observers.file_sizes import FileStates, data_files, stored_data_files
from sqlwin.observers.jobs import Flow, LineageJob, job_of
from sqlwin.observers.sender import log, sender

with packages_of("lineage", "OPENLINEAGE_* in the environment"):
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import (
        InputDataset,
        Job,
        OutputDataset,
        Run,
        RunEvent,
        RunState,
        set_producer,
    )
    from openlineage.client.facet_v2 import (
        DatasetFacet,
        RunFacet,
        column_lineage_dataset,
        error_message_run,
        job_type_job,
        processing_engine_run,
        schema_dataset,
        sql_job,
    )
    from openlineage.client.uuid import generate_new_uuid

    from sqlwin.observers.stream_events import (
        MICRO_BATCHES,
        ReadTable,
        StreamEvents,
        WrittenTable,
        rows_written,
    )

if TYPE_CHECKING:
    from sqlwin.control import SessionControl

PRODUCER = "https://pypi.org/project/sqlwin"
# Minimum seconds between two events of a stream
EVENT_SECONDS = 1.0


@dataclass(frozen=True)
class _Mark:
    """Data of a statement from its first to its last event.

    Attributes:
        job: The statement's queries.
        run_id: Identifies the run.
        files: Data files of the written tables before the statement, by path.
    """

    job: LineageJob
    run_id: str
    files: dict[str, FileStates | None] = field(default_factory=dict)


class LineageEvents:
    """Listener that emits events of queries, INSERTs, statement sets, CREATE ... AS and REFRESH.

    START has the job, COMPLETE and FAIL the datasets, which need a plan. A stream emits RUNNING
    when it has started and after its micro-batches, and COMPLETE or FAIL when it is over.

    Args:
        control: The session.
        client: Emits the events. None: as OpenLineage's variables describe it.
        event_seconds: Minimum seconds between two events of a stream. Micro-batches in between
            share an event.
    """

    def __init__(
        self,
        control: SessionControl,
        client: OpenLineageClient | None = None,
        event_seconds: float = EVENT_SECONDS,
    ) -> None:
        self._control = control
        self._client = client or OpenLineageClient()
        self._namespace = os.environ.get("OPENLINEAGE_NAMESPACE", "default")
        self._event_seconds = event_seconds
        set_producer(PRODUCER)

    def begin(self, run: StatementRun) -> None:
        """Emit START, if the statement reads or writes tables."""
        job = job_of(run.record.text, self._control.entry)
        if job is None:
            return
        mark = _Mark(job, str(generate_new_uuid()))
        run.marks["lineage"] = mark
        self._emit(run, RunState.START, run.record.begun)
        for flow in job.flows:
            if path := self._written_path(flow):
                mark.files[path] = self._files(path)

    def end(self, run: StatementRun) -> None:
        """Emit COMPLETE or FAIL, or follow the statement's streams."""
        if "lineage" not in run.marks:
            return
        ended = run.record.ended or run.record.begun
        reads, tables = self._datasets(run)
        inputs = [table.dataset for table in reads]
        if run.record.state is StatementState.FAILED:
            written = [table.dataset for table in tables]
            self._emit(run, RunState.FAIL, ended, inputs, written, message=run.record.message)
            return
        streams = [s for s in self._control.streams.all() if s.number in run.record.streams]
        if streams:
            sender().follow(partial(self._follow, run, streams, inputs, tables))
            return
        job: LineageJob = run.marks["lineage"].job
        n_read = 0 if run.scan_counts is None else run.scan_counts.rows_read()
        if job.counts_read:
            n_read = run.record.n_rows or 0
        # Spark does not count, and its counts do not distinguish several tables
        n_rows = n_read if n_read and len(reads) == 1 else None
        inputs = [table.with_statistics(n_rows) for table in reads]
        n_rows = run.record.n_rows if len(tables) == 1 and not job.counts_read else None
        written = [table.with_statistics(n_rows) for table in tables]
        self._emit(run, RunState.COMPLETE, ended, inputs, written)

    def _follow(
        self,
        run: StatementRun,
        streams: Sequence[Stream],
        inputs: Sequence[InputDataset],
        tables: Sequence[WrittenTable],
    ) -> None:
        """Emit the events of a statement's streams until they are over."""
        mask = self._control.mask.text
        written = [table.dataset for table in tables]
        self._emit(run, RunState.RUNNING, run.record.ended or run.record.begun, inputs, written)
        running = [StreamEvents(stream, inputs, tables, mask) for stream in streams]
        message = ""
        while running:
            seconds = self._event_seconds / len(running)
            for events in list(running):
                is_over, failure = events.wait(seconds)
                message = message or failure
                if (event := events.take()) is not None:
                    facets = {MICRO_BATCHES: event.facet}
                    self._emit(run, RunState.RUNNING, event.at, event.inputs, event.outputs, facets)
                if is_over:
                    running.remove(events)
        written = [table.with_statistics(_rows_of_all(streams, table.name)) for table in tables]
        state = RunState.FAIL if message else RunState.COMPLETE
        self._emit(run, state, datetime.now(UTC).timestamp(), inputs, written, message=message)

    # -- events ------------------------------------------------------------------------------------

    def _emit(
        self,
        run: StatementRun,
        state: RunState,
        at: float,
        inputs: Sequence[InputDataset] = (),
        outputs: Sequence[OutputDataset] = (),
        facets: Mapping[str, RunFacet] | None = None,
        *,
        message: str = "",
    ) -> None:
        mark: _Mark = run.marks["lineage"]
        mask = self._control.mask
        run_facets: dict[str, RunFacet] = {
            "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
                version=_own_version(), name="sqlwin"
            ),
            **(facets or {}),
        }
        if message:
            run_facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                message=mask.text(message), programmingLanguage="SQL"
            )
        job_facets: dict[str, Any] = {
            "sql": sql_job.SQLJobFacet(query=mask.text(run.record.text), dialect="sqlwin"),
            "jobType": job_type_job.JobTypeJobFacet(
                processingType="STREAMING" if run.record.streams else "BATCH",
                integration="SQLWIN",
                jobType="QUERY",
            ),
        }
        event = RunEvent(
            eventType=state,
            eventTime=datetime.fromtimestamp(at, UTC).isoformat(),
            run=Run(runId=mark.run_id, facets=run_facets),
            job=Job(self._namespace, mark.job.name, job_facets),
            inputs=list(inputs),
            outputs=list(outputs),
            producer=PRODUCER,
        )
        sender().submit(partial(self._send, event))

    def _send(self, event: RunEvent) -> None:
        try:
            self._client.emit(event)
        except Exception as error:  # any transport's
            log.warning("an OpenLineage event was not sent: %s", error)

    # -- datasets ----------------------------------------------------------------------------------

    def _datasets(self, run: StatementRun) -> tuple[list[ReadTable], list[WrittenTable]]:
        """Return the tables that a statement reads and writes, as far as they are known."""
        mark: _Mark = run.marks["lineage"]
        find = self._control.entry
        reads: dict[DatasetPlace, ReadTable] = {}
        written: list[WrittenTable] = []
        for flow in mark.job.flows:
            query = without_views(flow.query, find)
            tables: dict[str, list[Column]] = {}
            places: dict[str, DatasetPlace] = {}
            for table in tables_of(query):
                name = table_name(table)
                if name not in tables:
                    parts = tuple(part.name for part in table.parts)
                    tables[name] = self._columns_of(parts)
                    place = places[name] = place_of(name, find(parts))
                    dataset = InputDataset(
                        place.namespace, place.name, facets={"schema": _schema(tables[name])}
                    )
                    path = read_path_of(name, find(parts))
                    reads[place] = ReadTable(dataset, path, self._files)
            if flow.target is not None:
                names = _output_names(run, flow)
                columns = {name: [c.name for c in table] for name, table in tables.items()}
                sources = sources_by_place(column_sources(query, names, columns), places)
                path = self._written_path(flow)
                output = self._output(flow, flow.target, names, sources)
                before = mark.files.get(path, {})
                name = ".".join(flow.target)
                written.append(WrittenTable(name, output, path, before, self._files))
        return list(reads.values()), written

    def _output(
        self,
        flow: Flow,
        target: Name,
        names: Sequence[str],
        sources: Mapping[str, list[tuple[DatasetPlace, str]]],
    ) -> OutputDataset:
        """Return a written table with its schema and the sources of its columns.

        Args:
            flow: The query whose rows are written.
            target: Name of the table.
            names: Columns of the query.
            sources: Sources of these columns.
        """
        place = place_of(".".join(target), self._control.entry(target))
        columns = self._columns_of(target)
        columns_written = flow.columns or [column.name for column in columns] or names
        fields = {
            column: column_lineage_dataset.Fields(
                inputFields=[
                    column_lineage_dataset.InputField(source.namespace, source.name, field_name)
                    for source, field_name in sources[name]
                ]
            )
            for name, column in zip(names, columns_written, strict=False)
            if name in sources
        }
        facets: dict[str, DatasetFacet] = {"schema": _schema(columns)}
        if fields:
            facets["columnLineage"] = column_lineage_dataset.ColumnLineageDatasetFacet(fields)
        return OutputDataset(place.namespace, place.name, facets=facets)

    def _files(self, path: str) -> FileStates | None:
        """List data files, None if their store is unknown before Spark starts or does not answer.

        Args:
            path: Path on this machine, or URI of another file system.
        """
        place = place_of_path(path)
        if place.namespace == LOCAL:
            return data_files(place.name)
        try:
            with without_start():
                store = store_at(self._control.spark, path)
            return None if store is None else stored_data_files(store, path)
        except (SqlwinError, AssertionError, OSError) as error:
            log.info("the files of %s are not counted: %s", path, error)
            return None

    def _written_path(self, flow: Flow) -> str:
        """Return the directory that a query writes, as a path or URI, or ""."""
        if flow.target is None:
            return ""
        return flow.path or written_path_of(self._control.entry(flow.target))

    def _columns_of(self, name: Name) -> list[Column]:
        """Return the columns of a table, none if only Spark knows them and has not started."""
        try:
            with without_start():
                return list(self._control.columns(name))
        except (SqlwinError, AssertionError):
            return []


def _rows_of_all(streams: Sequence[Stream], table: str) -> int | None:
    """Return the rows that streams have written to a table, None if a sink does not count."""
    counts = [
        rows_written(stream, table)
        for stream in streams
        if not stream.setup.inserts or table in stream.setup.inserts
    ]
    return None if None in counts else sum(count or 0 for count in counts)


def _own_version() -> str:
    try:
        return version("sqlwin")
    except PackageNotFoundError:  # a checkout that is not installed
        return "unknown"


def _schema(columns: Sequence[Column]) -> schema_dataset.SchemaDatasetFacet:
    fields = [schema_dataset.SchemaDatasetFacetFields(c.name, c.type) for c in columns]
    return schema_dataset.SchemaDatasetFacet(fields=fields)


def _output_names(run: StatementRun, flow: Flow) -> list[str]:
    """Return the names of a query's columns, from its plan or its text."""
    plans = [plan for plan in run.plans if plan.sql in flow.text]
    if not plans:
        return list(flow.query.named_selects)
    root = plans[-1].bound
    node = root.input if isinstance(root, Sink) else root
    return [column.name for column in node.schema]
