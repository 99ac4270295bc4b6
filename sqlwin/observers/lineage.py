"""Events of OpenLineage: which tables and columns a statement reads and writes."""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import queue
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from planner.nodes.logical import Sink
from runtime.errors import MissingPackageError, SqlwinError
from runtime.spark.on_demand import without_start
from runtime.spec.table import Column
from sqlwin.execution.activity import StatementRun, StatementState
from sqlwin.observers.columns import column_sources, table_name
from sqlwin.observers.datasets import (
    DatasetPlace,
    place_of,
    sources_by_place,
    tables_of,
    without_views,
)

try:
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
        OutputDatasetFacet,
        column_lineage_dataset,
        error_message_run,
        job_type_job,
        output_statistics_output_dataset,
        processing_engine_run,
        schema_dataset,
        sql_job,
    )
    from openlineage.client.uuid import generate_new_uuid
except ImportError as error:
    raise MissingPackageError(
        f"the variables OPENLINEAGE_* need the package {error.name}",
        hint="pip install 'sqlwin[lineage]'",
    ) from error

if TYPE_CHECKING:
    from sqlwin.execution.runner import Runner

PRODUCER = "https://pypi.org/project/sqlwin"
# Seconds that the end of the process waits for events to be sent
_END_SECONDS = 5.0


class _Sender:
    """Thread that sends events one after the other, and ends with the process."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="sqlwin-lineage", daemon=True)
        self._thread.start()
        atexit.register(self._end)

    def submit(self, send: Callable[[], None]) -> None:
        """Send an event once the earlier ones are sent."""
        self._waiting.put(send)

    def flush(self, seconds: float | None = None) -> bool:
        """Wait until the events submitted so far are sent. Return whether they are."""
        sent = threading.Event()
        self.submit(sent.set)
        return sent.wait(seconds)

    def _run(self) -> None:
        while True:
            self._waiting.get()()

    def _end(self) -> None:
        if not self.flush(_END_SECONDS):
            _log.warning("OpenLineage events were not sent, because the collector does not answer")


_log = logging.getLogger("sqlwin")


@cache
def sender() -> _Sender:
    """Return the sender of the process."""
    return _Sender()


class LineageEvents:
    """Listener that emits events of queries, INSERTs and CREATE TABLE AS.

    START has the job, COMPLETE and FAIL the datasets, which only a plan tells. An INSERT from an
    unbounded stream emits RUNNING, and COMPLETE or FAIL when the stream is over.

    Args:
        runner: Runner of the session.
        client: Emits the events. None: as OpenLineage's variables describe it.
    """

    def __init__(self, runner: Runner, client: OpenLineageClient | None = None) -> None:
        self._runner = runner
        self._client = client or OpenLineageClient()
        self._namespace = os.environ.get("OPENLINEAGE_NAMESPACE", "default")
        set_producer(PRODUCER)

    def begin(self, run: StatementRun) -> None:
        """Emit START, if the statement reads or writes tables."""
        tree = _tree_of(run.record.text)
        if tree is None:
            return
        run.marks["lineage"] = tree, str(generate_new_uuid())
        self._emit(run, RunState.START, run.record.begun)

    def end(self, run: StatementRun) -> None:
        """Emit COMPLETE or FAIL, or RUNNING if a stream goes on."""
        if "lineage" not in run.marks:
            return
        ended = run.record.ended or run.record.begun
        inputs, outputs = self._datasets(run)
        if run.record.state is StatementState.FAILED:
            self._emit(run, RunState.FAIL, ended, inputs, outputs, run.record.message)
            return
        running = [
            stream
            for stream in self._runner.streams.running()
            if stream.number in run.record.streams
        ]
        if not running:
            self._emit(run, RunState.COMPLETE, ended, inputs, outputs)
            return
        self._emit(run, RunState.RUNNING, ended, inputs, outputs)

        def wait() -> None:
            message = ""
            for stream in running:
                try:
                    stream.wait()
                except SqlwinError as error:
                    message = error.message
            state = RunState.FAIL if message else RunState.COMPLETE
            now = datetime.now(UTC).timestamp()
            self._emit(run, state, now, inputs, outputs, message)

        threading.Thread(target=wait, name="sqlwin-lineage-stream", daemon=True).start()

    # -- events ------------------------------------------------------------------------------------

    def _emit(
        self,
        run: StatementRun,
        state: RunState,
        at: float,
        inputs: Sequence[InputDataset] = (),
        outputs: Sequence[OutputDataset] = (),
        message: str = "",
    ) -> None:
        tree, run_id = run.marks["lineage"]
        mask = self._runner.config.mask
        run_facets: dict[str, Any] = {
            "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
                version=_own_version(), name="sqlwin"
            )
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
            run=Run(runId=run_id, facets=run_facets),
            job=Job(self._namespace, _job_name(tree, mask.text(run.record.text)), job_facets),
            inputs=list(inputs),
            outputs=list(outputs),
            producer=PRODUCER,
        )
        sender().submit(partial(self._send, event))

    def _send(self, event: RunEvent) -> None:
        try:
            self._client.emit(event)
        except Exception as error:  # any transport's
            _log.warning("an OpenLineage event was not sent: %s", error)

    # -- datasets ----------------------------------------------------------------------------------

    def _datasets(self, run: StatementRun) -> tuple[list[InputDataset], list[OutputDataset]]:
        """Return the tables that a statement reads and writes, as far as they are known."""
        tree, _ = run.marks["lineage"]
        find = self._runner.catalog.entry
        query = without_views(_query_of(tree), find)
        tables: dict[str, list[Column]] = {}
        places: dict[str, DatasetPlace] = {}
        for table in tables_of(query):
            name = table_name(table)
            if name not in tables:
                parts = tuple(part.name for part in table.parts)
                tables[name] = self._columns_of(parts)
                places[name] = place_of(name, find(parts))
        inputs = {
            places[name]: InputDataset(
                places[name].namespace, places[name].name, facets={"schema": _schema(columns)}
            )
            for name, columns in tables.items()
        }
        target = _target_of(tree)
        if target is None:
            return list(inputs.values()), []
        parts = tuple(part.name for part in target.parts)
        place = place_of(table_name(target), find(parts))
        columns = self._columns_of(parts)
        names = _output_names(run)
        sources = sources_by_place(
            column_sources(query, names, {n: [c.name for c in cs] for n, cs in tables.items()}),
            places,
        )
        written = _listed_columns(tree) or [column.name for column in columns] or names
        fields = {
            column: column_lineage_dataset.Fields(
                inputFields=[
                    column_lineage_dataset.InputField(source.namespace, source.name, field)
                    for source, field in sources[name]
                ]
            )
            for name, column in zip(names, written, strict=False)
            if name in sources
        }
        facets: dict[str, DatasetFacet] = {"schema": _schema(columns)}
        if fields:
            facets["columnLineage"] = column_lineage_dataset.ColumnLineageDatasetFacet(fields)
        counts: dict[str, OutputDatasetFacet] = {}
        if run.record.n_rows is not None:
            counts["outputStatistics"] = (
                output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                    rowCount=run.record.n_rows
                )
            )
        output = OutputDataset(place.namespace, place.name, facets=facets, outputFacets=counts)
        return list(inputs.values()), [output]

    def _columns_of(self, name: tuple[str, ...]) -> list[Column]:
        """Return the columns of a table, none if only Spark knows them and has not started."""
        try:
            with without_start():
                return list(self._runner.columns_of(name))
        except (SqlwinError, AssertionError):
            return []


def _own_version() -> str:
    try:
        return version("sqlwin")
    except PackageNotFoundError:  # a checkout that is not installed
        return "unknown"


def _schema(columns: Sequence[Column]) -> schema_dataset.SchemaDatasetFacet:
    fields = [schema_dataset.SchemaDatasetFacetFields(c.name, c.type) for c in columns]
    return schema_dataset.SchemaDatasetFacet(fields=fields)


def _tree_of(text: str) -> exp.Expr | None:
    """Return the tree of a statement that reads or writes tables, else None."""
    try:
        tree = sqlglot.parse_one(text, read="sqlwin")
    except (SqlglotError, SqlwinError):
        return None
    if isinstance(tree, exp.Create):
        is_table = tree.kind == "TABLE" and isinstance(tree.expression, exp.Query)
        return tree if is_table else None
    return tree if isinstance(tree, exp.Query | exp.Insert) else None


def _query_of(tree: exp.Expr) -> exp.Query:
    query = tree if isinstance(tree, exp.Query) else tree.expression
    assert isinstance(query, exp.Query)
    return query


def _target_of(tree: exp.Expr) -> exp.Table | None:
    if isinstance(tree, exp.Query):
        return None
    target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    return target if isinstance(target, exp.Table) else None


def _listed_columns(tree: exp.Expr) -> list[str]:
    """Return the columns that an INSERT lists."""
    if isinstance(tree, exp.Insert) and isinstance(tree.this, exp.Schema):
        return [column.name for column in tree.this.expressions]
    return []


def _output_names(run: StatementRun) -> list[str]:
    """Return the names of a statement's columns, from its plan."""
    if not run.plans:
        return []
    root = run.plans[-1].bound
    node = root.input if isinstance(root, Sink) else root
    return [column.name for column in node.schema]


def _job_name(tree: exp.Expr, text: str) -> str:
    """Return a name that runs of the same job share."""
    target = _target_of(tree)
    if target is not None:
        kind = "insert_into" if isinstance(tree, exp.Insert) else "create_table"
        return f"sqlwin.{kind}.{table_name(target)}"
    return f"sqlwin.query.{hashlib.sha256(text.encode()).hexdigest()[:12]}"
