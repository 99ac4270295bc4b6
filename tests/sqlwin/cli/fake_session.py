"""A session without Spark, and the command line on top of it.

Its statements, separated by semicolons: `rows N`, `values`, `ok`, `insert`, `plan`, `wrong`,
`crash`, `bug`, `job` (rows that end when jobs are cancelled), `hang` (rows that do not), `stream`,
`stubborn` (a stream that does not stop), `grouped` (a stream with keys), `windows`, `wide N`,
`listing N` (rows about the session), and the SHOW and DESCRIBE statements that completion uses.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from planner.explain.document import QueryDocument
from runtime.errors import AnalysisError, ExecutionError, Position, SetupError
from runtime.spec.table import Column
from sqlwin.execution.explain import is_preparation
from sqlwin.execution.streams.registry import Streams
from sqlwin.result import (
    ExplainResult,
    InsertResult,
    MessageResult,
    OpenStream,
    Result,
    RowsResult,
    StreamedRows,
    TableResult,
)
from sqlwin.statements.parameters import bind_parameters, check_parameters
from sqlwin.statements.split import SqlScript, read_script
from tests.observing import wait_until

VALUES = pa.record_batch(
    [
        pa.array([1357017300000000, None], pa.timestamp("us")),
        pa.array(["NULL", None]),
        pa.array([1.0, float("nan")]),
    ],
    names=["window_start", "name", "price"],
)
OTHER_PRICE = VALUES.set_column(2, "price", pa.array([42.5, float("nan")]))

WINDOWS = pa.record_batch(
    [
        pa.array([1357017300000000 + i * 3_600_000_000 for i in range(8)], pa.timestamp("us")),
        pa.array([3, 5, 9, 4, 2, 6, 7, 1]),
    ],
    names=["window_end", "n"],
)


@dataclass(frozen=True)
class FakeRows:
    """One batch, then the end of the rows, endless waiting, or an error when jobs are cancelled."""

    batch: pa.RecordBatch
    hangs: bool = False
    until_cancelled: threading.Event | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(name, "string") for name in self.batch.schema.names)

    @property
    def schema(self) -> pa.Schema:
        return self.batch.schema

    def batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        yield self.batch.slice(0, limit)
        if self.hangs and "FAKE_SAYS_HANGING" in os.environ:
            print("hanging", file=sys.stderr, flush=True)
        if self.hangs:
            _hang()
        if self.until_cancelled is not None:
            self.until_cancelled.wait()
            raise ExecutionError("the jobs were cancelled")

    def dataframe(self) -> Any:
        raise AssertionError("there is no Spark here")


@dataclass(frozen=True)
class FakeStreamRows(StreamedRows):
    """The same values in every batch, until the user interrupts.

    With keys, the price changes in the fifth batch. A stubborn one does not end then.
    """

    is_stubborn: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        return FakeRows(VALUES).columns

    @property
    def kind_place(self) -> None:
        return None

    def batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        yield VALUES.slice(0, limit)
        limit = sys.maxsize if limit is None else limit
        left = limit - min(limit, VALUES.num_rows)
        n_batches = 1
        try:
            while not self.opened.take_interrupt():
                # long enough for the screen to be drawn
                time.sleep(0.1)
                n_batches += 1
                has_changed = self.opened.keys is not None and n_batches >= 5
                yield (OTHER_PRICE if has_changed else VALUES).slice(0, left)
                left -= min(left, VALUES.num_rows)
        finally:
            if self.is_stubborn:
                _hang()


def _hang() -> None:
    """Run until an exception is raised in this thread."""
    while True:
        time.sleep(0.01)


# Results of SHOW TABLES, SHOW FUNCTIONS and DESCRIBE
TABLES = {
    "bids": [("ts", "TIMESTAMP"), ("item", "STRING"), ("price", "DOUBLE")],
    "my table": [("a b", "INT")],
}
FUNCTIONS = ["abs", "concat_ws", "upper"]


class FakeSession:
    def __init__(self, **options: Any) -> None:
        if (go_on := os.environ.get("FAKE_START_AFTER")) is not None:
            wait_until(Path(go_on).exists)
        if "FAKE_START_ERROR" in os.environ:
            raise SetupError(os.environ["FAKE_START_ERROR"], hint="install it")
        self.options = options
        self.executed: list[str] = []
        self.interrupts = 0
        self.cancelled = threading.Event()
        self.closed = False
        self.streams = Streams()
        self.take_interrupt: Callable[[], bool] = lambda: False
        self._runner = SimpleNamespace(explanations=self, rows_scanned=0)
        self._scripts = SimpleNamespace(run=self._run_script, documents=self._query_documents)
        self.spark = SimpleNamespace(
            interruptAll=self._interrupt,
            interruptTag=lambda tag: self._interrupt(),
            addTag=lambda tag: None,
            clearTags=lambda: None,
        )

    _has_spark = True

    def _at_start_of_spark(self, waiting: object, action: Callable[[Any], None]) -> None:
        action(self.spark)

    def _interrupt(self) -> None:
        self.interrupts += 1
        self.cancelled.set()
        print("jobs cancelled", file=sys.stderr)

    def _run_script(
        self,
        script: str | SqlScript,
        file: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        ignores_unused: bool = False,
        guard: None = None,
    ) -> Iterator[Result]:
        source = read_script(script) if isinstance(script, str) else script
        check_parameters(source, params, ignores_unused=ignores_unused)
        for text in (bind_parameters(part, params).text for part in source.statements):
            self.executed.append(text)
            yield self._execute(text, source.text, file)

    def execute(
        self, script: str, file: str | None = None, *, params: dict[str, object] | None = None
    ) -> list[Result]:
        if script == "SHOW TABLES":
            return [_table("table name", *TABLES)]
        if script == "SHOW FUNCTIONS":
            return [_table("function name", *FUNCTIONS)]
        if script.startswith("DESCRIBE "):
            return [_describe(script.removeprefix("DESCRIBE ").strip("`"))]
        self.executed.append(script)
        return [ExplainResult(script, f"Spark's plan of {script}")]

    def _query_documents(
        self,
        script: SqlScript,
        file: str | None,
        *,
        analyze: bool,
        params: Mapping[str, object] | None,
        ignores_unused: bool,
    ) -> tuple[QueryDocument, ...]:
        (part,) = script.statements
        sql = bind_parameters(part, params).text
        if "nope" in sql:
            position = Position.at(script.text, part.offset + sql.index("nope"), 4)
            raise AnalysisError("no column nope", position=position, sql=script.text, file=file)
        if sql.startswith(("SELECT", "INSERT")):
            return (QueryDocument(sql, f"{'Run' if analyze else 'Plan'} of {sql}\n"),)
        if not is_preparation(part.tokens):
            return (QueryDocument(sql, f"Spark's plan of {sql}"),)
        self.executed.append(sql)
        return ()

    def _execute(self, text: str, script: str, file: str | None) -> Result:
        word, _, rest = text.partition(" ")
        if word in ("SHOW", "DESCRIBE") and text != "SHOW nothing":
            return self.execute(text)[0]
        if word == "windows":
            return RowsResult(text, FakeRows(WINDOWS))
        if word == "wide":
            names = [f"column_number_{i}" for i in range(int(rest))]
            row = [pa.array([f"value {i}"]) for i in range(int(rest))]
            return RowsResult(text, FakeRows(pa.record_batch(row, names=names)))
        if word == "listing":
            names = [f"column_number_{i}" for i in range(int(rest))]
            row = [pa.array([f"value {i}"]) for i in range(int(rest))]
            return TableResult(text, pa.table(row, names=names))
        if word == "rows":
            numbers = pa.array(range(int(rest)), pa.int64())
            return RowsResult(text, FakeRows(pa.record_batch([numbers], names=["n"])))
        if word == "values":
            return RowsResult(text, FakeRows(VALUES))
        if word in ("stream", "stubborn", "grouped"):
            keys = ("name",) if word == "grouped" else None
            opened = OpenStream(
                _no_start,
                is_bounded=False,
                status=lambda: "watermark 12:00",
                notes=lambda: (),
                take_interrupt=self.take_interrupt,
                keys=keys,
            )
            frame: Any = None
            return RowsResult(text, FakeStreamRows(frame, opened, is_stubborn=word == "stubborn"))
        if word == "insert":
            return InsertResult(text, "12 rows inserted", 12, statement_notes=("ordered by a",))
        if word == "plan":
            return ExplainResult(text, "Scan\n  Filter")
        if word == "job":
            self.cancelled.clear()
            return RowsResult(text, FakeRows(VALUES, until_cancelled=self.cancelled))
        if word == "hang":
            return RowsResult(text, FakeRows(VALUES, hangs=True))
        if word == "wrong":
            position = Position.at(script, script.index(text), len(text))
            raise AnalysisError(
                "no column nope", position=position, sql=script, hint="Columns: a, b.", file=file
            )
        if word == "crash":
            raise ExecutionError("division by zero")
        if word == "bug":
            raise RuntimeError("surprise\nwith more lines")
        return MessageResult(text, "OK")

    def ui(self, port: int | None = None) -> SimpleNamespace:
        return SimpleNamespace(url=f"http://127.0.0.1:{4050 if port is None else port}/?token=t")

    def _close_page(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def _no_start(take: object) -> str:
    raise AssertionError("rows come without a start")


def _table(name: str, *values: str) -> Result:
    return TableResult("", pa.table({name: pa.array(values)}))


def _describe(table: str) -> Result:
    columns = zip(*TABLES[table], strict=True)
    return TableResult("", pa.table([pa.array(c) for c in columns], names=["name", "type"]))


if __name__ == "__main__":
    import sqlwin
    from runtime.spark import session as spark_session
    from sqlwin.cli.app import main

    # no Spark here, and no Java
    sqlwin.connect = FakeSession  # type: ignore[attr-defined, assignment]
    spark_session.begin_java = lambda *_: None  # type: ignore[assignment]
    main()
