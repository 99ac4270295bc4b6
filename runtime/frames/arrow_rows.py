"""Result rows of a query that Python workers hold as Arrow, before they enter the JVM.

A consumer in the same task saves up to three copies: into the JVM and, for Python consumers, out of
the JVM and back in as bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from runtime.frames.blobs import Emit, without_emitted, wrap_emitted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

T = TypeVar("T")

# Code that a stage runs in a task: Arrow batches in, Arrow batches out
Stage = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class ArrowRows:
    """Rows produced by the last Python stage of a query.

    Attributes:
        input: Returns Spark's input for the stage. With a function, local-stage tasks use it to
            emit windows whose rows they hold completely. With None they emit nothing.
        make: Turns the input of a task into batches of the schema.
        schema: Columns of the rows, possibly with duplicate names. Instants are in UTC.
        make_whole: Turns all partials of a window into rows within the local stage. None if no
            window is known to be complete there.
    """

    input: Callable[[Emit | None], DataFrame]
    make: Stage
    schema: pa.Schema
    make_whole: Emit | None = None

    def rename(self, names: Sequence[str]) -> ArrowRows:
        """Return the same rows with renamed columns."""
        fields = zip(self.schema, names, strict=True)
        schema = pa.schema([field.with_name(name) for field, name in fields])

        def renaming(
            make: Callable[[T], Iterator[pa.RecordBatch]],
        ) -> Callable[[T], Iterator[pa.RecordBatch]]:
            def make_renamed(source: T) -> Iterator[pa.RecordBatch]:
                for batch in make(source):
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

            return make_renamed

        make_whole = None if self.make_whole is None else renaming(self.make_whole)
        return replace(self, make=renaming(self.make), schema=schema, make_whole=make_whole)

    def then(self, stage: Stage, ddl: str, last: Stage | None = None) -> DataFrame:
        """Run `stage` on the rows of each task, in the same task.

        It should return few rows of `ddl`.

        For windows that the local stage emits, the results pass the exchange instead of partials.

        Args:
            stage: Stage to run, possibly several times in a task.
            ddl: Columns of its rows.
            last: Stage to run once per partition of the result, on all rows that `stage` returned.
        """
        make, make_whole = self.make, self.make_whole
        if make_whole is None:
            return self.behind_exchange(stage if last is None else _chain(stage, last), ddl)

        def emit(partials: pa.Table) -> Iterator[pa.RecordBatch]:
            return wrap_emitted(stage(make_whole(partials)))

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            emitted: list[pa.RecordBatch] = []
            yield from stage(make(without_emitted(batches, emitted)))
            yield from emitted

        return self.input(emit).mapInArrow(run if last is None else _chain(run, last), ddl)

    def behind_exchange(self, stage: Stage, ddl: str) -> DataFrame:
        """Run `stage` in each task behind the exchange, which computes all rows.

        It may return many rows of `ddl`: if the local stage emitted them, they would all pass
        through the exchange, and they are more than partials.
        """
        return self.input(None).mapInArrow(_chain(self.make, stage), ddl)


def _chain(first: Stage, second: Stage) -> Stage:
    """Return a stage that runs the second one on the rows of the first."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from second(first(batches))

    return run


@dataclass(frozen=True)
class ProcessRows:
    """Rows that this process computes without Spark.

    Attributes:
        schema: Columns of the rows. Instants are in UTC.
        batches: Computes the rows.
    """

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]

    def rename(self, names: Sequence[str]) -> ProcessRows:
        """Return the same rows with renamed columns."""
        fields = zip(self.schema, names, strict=True)
        schema = pa.schema([field.with_name(name) for field, name in fields])

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in self.batches():
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

        return ProcessRows(schema, batches)


@dataclass(frozen=True)
class BatchRows:
    """Rows of a batch query that has not started yet.

    Attributes:
        spark: Spark session.
        schema: Spark schema of the rows.
        make: Creates the DataFrame, which takes Spark some ten milliseconds.
        arrow: The same rows as Python workers hold them. None if Spark computes them.
        in_process: The same rows computed in this process. None if Spark computes them.
        are_ordered: Whether the query orders them.
    """

    spark: SparkSession
    schema: StructType
    make: Callable[[], DataFrame]
    arrow: ArrowRows | None = None
    in_process: ProcessRows | None = None
    are_ordered: bool = False

    @property
    def are_arrow(self) -> bool:
        """Whether the rows need not pass through the JVM."""
        return self.arrow is not None or self.in_process is not None

    @classmethod
    def of(cls, dataframe: DataFrame) -> BatchRows:
        """Return the rows of a DataFrame."""
        return cls(dataframe.sparkSession, dataframe.schema, lambda: dataframe)

    @cached_property
    def dataframe(self) -> DataFrame:
        """The rows as a DataFrame."""
        return self.make()

    def rename(self, names: Sequence[str]) -> BatchRows:
        """Return the same rows with renamed columns."""
        if self.schema.names == list(names):
            return self
        from pyspark.sql.types import StructField, StructType

        pairs = zip(self.schema.fields, names, strict=True)
        schema = StructType([StructField(name, f.dataType, f.nullable) for f, name in pairs])
        arrow = None if self.arrow is None else self.arrow.rename(names)
        in_process = None if self.in_process is None else self.in_process.rename(names)
        return BatchRows(self.spark, schema, lambda: self.dataframe.toDF(*names), arrow, in_process)
