"""Plans of SQL over streams, for tests."""

from __future__ import annotations

from planner.catalog import StreamTable
from planner.lowering.stream.steps import lower_stream
from runtime.spec.table import Watermark
from runtime.streaming.options import StreamOptions
from sqlwin.catalog.entries import Registered
from sqlwin.catalog.streams import StreamReading
from sqlwin.execution.runner import Runner
from sqlwin.statements.parse import parse_statement


class Streams:
    """Tables that are read as streams."""

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

    def step(self, sql, **options):
        """Return the steps of a query."""
        self._runner.catalog.start_statement(StreamReading())
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
