"""Where a place cannot be written to, the error says whose it is."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from runtime.connectors.writing import naming_output
from runtime.errors import ErrorKind, ExecutionError
from runtime.spark.errors import translate, why_unwritable
from runtime.spec.table import TableSpec

FULL = "Job aborted due to stage failure: java.io.IOException: No space left on device\n"
BELOW = "\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)\n"
SPILL = "\tat org.apache.spark.storage.DiskBlockObjectWriter.write(DiskBlockObjectWriter.scala:1)\n"
STATE = "\tat org.apache.spark.sql.execution.streaming.state.RocksDB.commit(RocksDB.scala:1)\n"
WRITE = (
    "\tat org.apache.spark.sql.execution.datasources.parquet.ParquetOutputWriter.write(x.scala:1)\n"
)
JOB = "\tat org.apache.spark.sql.execution.datasources.FileFormatWriter.write(x.scala:1)\n"
SPEC = TableSpec("o", "filesystem", options=(("path", "/data/out"),))


@pytest.mark.parametrize(
    ("stack", "message"),
    [
        (SPILL + WRITE + JOB, "Spark cannot write its temporary files: there is no space left"),
        (STATE, "the checkpoint cannot be written: there is no space left on the device"),
        (WRITE + JOB, "there is no space left on the device"),
        ("", "there is no space left on the device"),
    ],
)
def test_the_innermost_writer_had_no_space(stack: str, message: str) -> None:
    error = translate(PySparkException(FULL + BELOW + stack))
    assert error.message.startswith(message)
    assert (error.kind is ErrorKind.OUTPUT) == (stack == WRITE + JOB)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("java.io.IOException: Mkdirs failed to create file:/x", "the directory cannot be made"),
        ("java.io.FileNotFoundException: /x (Permission denied)", "permission denied"),
        ("java.nio.file.FileSystemException: /x: Read-only file system", "the file system is read"),
        ("org.apache.hadoop.fs.ParentNotDirectoryException: /x", "a file is where a directory"),
    ],
)
def test_an_output_is_named(text: str, why: str) -> None:
    error = PySparkException(f"{text}\n{WRITE}{JOB}")
    assert str(why_unwritable(error)).startswith(why)
    with pytest.raises(
        ExecutionError, match=f"table `o` cannot be written: /data/out: {why}"
    ) as it:
        with naming_output(SPEC):
            raise error
    assert it.value.subjects == ("o",)
    assert it.value.hint


def test_other_errors_stay() -> None:
    for error in (PySparkException("division by zero"), PySparkException(FULL + SPILL)):
        assert why_unwritable(error) is None
        with pytest.raises(PySparkException), naming_output(SPEC):
            raise error
