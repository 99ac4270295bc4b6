"""SQL over streams of files, for tests: the rows that a query emits in each micro-batch."""

from __future__ import annotations

import uuid
from contextlib import contextmanager

from planner.catalog import StreamTable
from planner.lowering.stream.steps import lower_stream
from runtime.batch.execute import dataframe
from runtime.spec.table import Watermark
from runtime.streaming.control_sources import ControlSources
from runtime.streaming.execute.steps import streaming_dataframe
from runtime.streaming.options import StreamOptions
from sqlwin.catalog.entries import Registered
from sqlwin.execution.runner import Runner
from sqlwin.statements.parse import parse_statement
from tests.end_to_end.stream_files import write_next


class Streams:
    """Tables of Parquet files read as streams, one file per micro-batch."""

    def __init__(self, session, directory):
        self._runner = Runner(session.spark)
        self._spark = session.spark
        self._directory = directory
        self.tables = {}
        self._runner.catalog.stream = self._stream

    def _stream(self, name):
        return self.tables.get(name[-1].lower())

    def table(self, name, schema, watermark=None, expression=None, proctime=()):
        """Create an empty stream; `watermark` is the column, `expression` the rest of the
        declaration.
        """
        path = self._directory / name
        path.mkdir()
        reader = self._spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        followed = Watermark(watermark, expression or watermark) if watermark else None
        self.tables[name] = StreamTable(name, followed, frozenset(proctime))
        entry = Registered((name,), reader.parquet(str(path)))
        self._runner.catalog.add((name,), entry, replace=True, if_not_exists=False)

    def write(self, name, table):
        """Write one more file, for one micro-batch."""
        write_next(self._directory / name, table)

    def step(self, sql, **options):
        """Return the steps of a query."""
        self._runner.catalog.start_statement("automatic")
        plan = self._runner.plans.plan(parse_statement(sql).ast, sql)
        refusals = tuple(e.refusal for e in plan.trace.entries if e.refusal)
        zone = str(self._spark.conf.get("spark.sql.session.timeZone"))
        stream_options = StreamOptions(1, 1, **options)
        return lower_stream(
            plan.physical,
            self._runner.catalog,
            zone,
            stream_options.emits_updates,
            refusals,
            has_allowed_lateness=stream_options.allowed_lateness_us > 0,
        ).rows

    @contextmanager
    def running(self, sql, checkpoint=None, **options):
        """Run a query for the duration of the block."""
        name = f"q_{uuid.uuid4().hex}"
        directory = self._directory / (checkpoint or name)
        sentinel = directory / "end"
        sentinel.mkdir(parents=True, exist_ok=True)
        partitions = int(self._spark.conf.get("spark.sql.shuffle.partitions"))
        chosen = StreamOptions(
            partitions, partitions, control_sources=ControlSources(str(sentinel)), **options
        )
        frame = streaming_dataframe(self._spark, self.step(sql, **options), chosen, dataframe)
        rows = []
        writer = frame.writeStream.foreachBatch(lambda batch, _: rows.append(_tuples(batch)))
        query = writer.option("checkpointLocation", str(directory / "spark")).start()
        try:
            yield Running(query, rows, sentinel)
        finally:
            query.stop()

    def rows(self, sql, **options):
        """Return all rows of a query over input that ends, sorted."""
        with self.running(sql, **options) as running:
            running.wait()
            running.end()
            return sorted((row for batch in running.batches for row in batch), key=str)


class Running:
    """A running query."""

    def __init__(self, query, batches, sentinel):
        self.query = query
        self.batches = batches
        self._sentinel = sentinel
        self._n_seen = 0

    def wait(self):
        """Wait until all files are read. Return the rows emitted since the last call, sorted."""
        self.query.processAllAvailable()
        new = self.batches[self._n_seen :]
        self._n_seen = len(self.batches)
        return sorted((row for batch in new for row in batch), key=str)

    def end(self):
        """End the input and return the rows emitted then, sorted."""
        (self._sentinel / "end.json").write_text('{"watermark_us": 1}\n')
        return self.wait()


def _tuples(batch):
    return [tuple(row) for row in batch.collect()]
