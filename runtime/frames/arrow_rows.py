"""Rows of a query, and such as Python workers have as Arrow before they pass the JVM.

What takes them from there spares three ways between a worker and the JVM: the rows into it, and,
where a worker is to have them again, out of it and back as bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from runtime.frames.blobs import ROWS_DDL, Emit, emitted_blobs, serialized, without_emitted

T = TypeVar("T")

# What a stage does in a task: Arrow batches in, Arrow batches out
_Stage = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class ArrowRows:
    """Rows that the last Python stage of a query makes.

    Attributes:
        input: what Spark hands to the tasks of the stage. Tasks of the local stage emit, through
            what is given here, the windows that they have all rows of; None: they emit none.
        make: what a task makes of that: batches of the schema.
        schema: the columns of the rows; two may have one name. Instants are of UTC.
        make_whole: what a task of the local stage makes of all partials of such windows; None: no
            such windows are known of.
    """

    input: Callable[[Emit | None], DataFrame]
    make: _Stage
    schema: pa.Schema
    make_whole: Emit | None = None

    def renamed(self, names: Sequence[str]) -> ArrowRows:
        """The same rows with other names of columns."""
        fields = zip(self.schema, names, strict=True)
        schema = pa.schema([field.with_name(name) for field, name in fields])

        def renaming(
            make: Callable[[T], Iterator[pa.RecordBatch]],
        ) -> Callable[[T], Iterator[pa.RecordBatch]]:
            def make_renamed(source: T) -> Iterator[pa.RecordBatch]:
                for batch in make(source):
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

            return make_renamed

        whole = None if self.make_whole is None else renaming(self.make_whole)
        return replace(self, make=renaming(self.make), schema=schema, make_whole=whole)

    def then(self, stage: _Stage, ddl: str) -> DataFrame:
        """What `stage` makes of the rows of each task, in the same task: rows of `ddl`, few ones.

        Those of windows that the local stage emits go through the exchange in place of partials.
        """
        make, make_whole = self.make, self.make_whole
        if make_whole is None:
            return self._behind_exchange(stage, ddl)

        def emit(partials: pa.Table) -> Iterator[pa.RecordBatch]:
            return emitted_blobs(stage(make_whole(partials)))

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            emitted: list[pa.RecordBatch] = []
            yield from stage(make(without_emitted(batches, emitted)))
            yield from emitted

        return self.input(emit).mapInArrow(run, ddl)

    def blobs(self) -> DataFrame:
        """The rows as `runtime.frames.blobs.row_blobs` has those of a DataFrame."""
        # emitted before the exchange, the rows would go through it, which are more than partials
        return self._behind_exchange(serialized, ROWS_DDL)

    def _behind_exchange(self, stage: _Stage, ddl: str) -> DataFrame:
        make = self.make

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from stage(make(batches))

        return self.input(None).mapInArrow(run, ddl)


@dataclass(frozen=True)
class BatchRows:
    """The rows of a query that runs as a batch. Nothing runs yet.

    Attributes:
        spark: the session.
        schema: their columns, as Spark has them.
        make: makes the DataFrame of them, which takes Spark some ten milliseconds.
        arrow: the same rows as workers have them; None where Spark makes them.
    """

    spark: SparkSession
    schema: StructType
    make: Callable[[], DataFrame]
    arrow: ArrowRows | None = None

    @classmethod
    def of(cls, dataframe: DataFrame) -> BatchRows:
        """Those of a DataFrame."""
        return cls(dataframe.sparkSession, dataframe.schema, lambda: dataframe)

    @cached_property
    def dataframe(self) -> DataFrame:
        """The rows as Spark has them."""
        return self.make()

    def renamed(self, names: Sequence[str]) -> BatchRows:
        """The same rows with other names of columns."""
        if self.schema.names == list(names):
            return self
        pairs = zip(self.schema.fields, names, strict=True)
        schema = StructType([StructField(name, f.dataType, f.nullable) for f, name in pairs])
        arrow = None if self.arrow is None else self.arrow.renamed(names)
        return BatchRows(self.spark, schema, lambda: self.dataframe.toDF(*names), arrow)
