"""Files that tasks write and the Iceberg snapshots that commit them, without Spark."""

import pickle

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.transforms import IdentityTransform

from runtime.connectors.lake.iceberg.write import commit_files, last_batch
from runtime.writing.files import NewFiles, file_task
from tests.runtime.connectors.lake.delta.test_snapshot import as_set, compare
from tests.runtime.connectors.lake.iceberg.test_snapshot import (
    TYPES,
    catalog,
    create_table,
    rows_of,
    scan_table,
)

__all__ = ["catalog"]


def put(table, rows, partitions=(), overwrite=False, properties=None):
    sort = [(name, "ascending") for name in partitions]
    rows = rows.take(pc.sort_indices(rows, sort)) if sort else rows
    directory = table.location().removeprefix("file://") + "/data"
    schema = schema_to_pyarrow(table.schema())
    files = NewFiles(directory, schema, tuple(partitions), mark="mark", keeps=True)
    task = file_task(files)
    written = [
        pickle.loads(cell)
        for batch in task(rows.to_batches(5))
        for cell in batch["file"].to_pylist()
    ]
    properties = properties or {}
    commit_files(table.transaction(), written, table, overwrite=overwrite, properties=properties)
    table.refresh()


@pytest.mark.variants(3)
@pytest.mark.parametrize("partitions", [[], ["i"], ["d", "s"], ["b"], ["n"]], ids="_".join)
def test_pyiceberg_reads_the_rows_that_were_written(catalog, partitions):
    table = create_table(catalog, *((name, IdentityTransform()) for name in partitions))
    for start in (0, 12):
        put(table, rows_of(12, start), partitions)
    expected = as_set(rows_of(12).to_pylist() + rows_of(12, 12).to_pylist(), TYPES)
    assert as_set(table.scan().to_arrow().to_pylist(), TYPES) == expected
    assert as_set(scan_table(table, list(TYPES))[1], TYPES) == expected
    assert len(table.snapshots()) == 2
    assert len(scan_table(table, ["k"], [compare("<", "k", 0)])[0].files) == 0


@pytest.mark.parametrize(
    ("partitions", "left"), [([], [20, 21, 22, 23]), (["i"], [1, 4, 7, 10, 20, 21, 22, 23])]
)
def test_overwriting_replaces_all_or_the_partitions_that_get_rows(catalog, partitions, left):
    table = create_table(catalog, *((name, IdentityTransform()) for name in partitions))
    put(table, rows_of(12), partitions)
    new = rows_of(4, 20)
    new = new.set_column(4, "i", pa.array([0, 2, 0, 2], pa.int32()))
    put(table, new, partitions, overwrite=True)
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == left
    assert len(table.snapshots()) == 2


def test_a_snapshot_says_which_micro_batch_it_has(catalog):
    table = create_table(catalog)
    assert last_batch(table, "w") == -1
    for batch in (0, 1):
        put(table, rows_of(2), properties={"sqlwin.writer": "w", "sqlwin.micro-batch": str(batch)})
    put(table, rows_of(2))
    assert last_batch(table, "w") == 1
    assert last_batch(table, "another") == -1
