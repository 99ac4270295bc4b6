"""An unwritable place: the error names the table, the checkpoint or Spark's own directory."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from runtime.connectors.writing import name_output_in_errors
from runtime.errors import ErrorKind, ExecutionError
from runtime.spark.errors import temporary_directory, translate, why_unwritable
from runtime.spark.messages import error_text
from runtime.spec.table import TableSpec

FULL = "Job aborted due to stage failure: java.io.IOException: No space left on device\n"
NO_SPACE = "no space left on the device"
BELOW = "\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)\n"
SPILL = "\tat org.apache.spark.storage.DiskBlockObjectWriter.write(DiskBlockObjectWriter.scala:1)\n"
STATE = "\tat org.apache.spark.sql.execution.streaming.state.RocksDB.commit(RocksDB.scala:1)\n"
WRITE = (
    "\tat org.apache.spark.sql.execution.datasources.parquet.ParquetOutputWriter.write(x.scala:1)\n"
)
JOB = "\tat org.apache.spark.sql.execution.datasources.FileFormatWriter.write(x.scala:1)\n"
SPEC = TableSpec("o", "filesystem", options=(("path", "/data/out"),))


@pytest.mark.parametrize(
    ("stack", "message", "kind"),
    [
        (
            SPILL + WRITE + JOB,
            f"Spark cannot write its temporary files{{}}: {NO_SPACE}",
            "execution",
        ),
        # the user who started the stream knows its checkpoint
        (STATE, NO_SPACE, "checkpoint"),
        (WRITE + JOB, NO_SPACE, "output"),
        ("", NO_SPACE, "execution"),
    ],
)
def test_the_innermost_writer_had_no_space(stack: str, message: str, kind: str) -> None:
    error = translate(PySparkException(FULL + BELOW + stack))
    directory = temporary_directory()
    where = "" if directory is None else f" in {directory}"
    assert (error.message, error.kind) == (message.format(where), ErrorKind(kind))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("java.io.IOException: Mkdirs failed to create file:/x", "the directory cannot be created"),
        ("java.io.FileNotFoundException: /x (Permission denied)", "permission denied"),
        ("java.nio.file.FileSystemException: /x: Read-only file system", "the file system is read"),
        ("org.apache.hadoop.fs.ParentNotDirectoryException: /x", "a file exists where a directory"),
    ],
)
def test_an_output_is_named(text: str, why: str) -> None:
    error = PySparkException(f"{text}\n{WRITE}{JOB}")
    assert str(why_unwritable(error)).startswith(why)
    with pytest.raises(
        ExecutionError, match=f"table `o` cannot be written: /data/out: {why}"
    ) as it:
        with name_output_in_errors(SPEC):
            raise error
    assert it.value.subjects == ("o",)
    assert it.value.hint


def test_the_hint_of_a_data_source_in_python_is_not_sparks_state() -> None:
    raised = (
        "[PYTHON_DATA_SOURCE_ERROR] Failed to plan Python data source `x`: "
        "Traceback (most recent call last):\n"
        '  File "source.py", line 9, in partitions\n'
        "runtime.errors.ExecutionError: there is no topic 't'{}\n SQLSTATE: 38000"
    )
    result = translate(PySparkException(raised.format("\n  did you mean 'u'?")))
    assert (result.message, result.hint) == ("there is no topic 't'", "did you mean 'u'?")
    result = translate(PySparkException(raised.format("")))
    assert (result.message, result.hint) == ("there is no topic 't'", None)
    of_stream = (
        " SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: [id = 1]\n"
        'Current Available Offsets: {org.apache.spark.x@6bab5c9d: {"version": 0}}'
    )
    for text in (raised.format("") + of_stream, raised.format("\n" + of_stream.split("\n")[-1])):
        result = translate(PySparkException(text))
        assert (result.message, result.hint) == ("there is no topic 't'", None)


@pytest.mark.parametrize(
    "raised",
    [
        "MemoryError",
        "pyarrow.lib.ArrowMemoryError: malloc of size 201326592 failed",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 20.9 MiB for an array",
    ],
)
def test_a_worker_without_memory_is_one_line_with_a_remedy(raised: str) -> None:
    trace = f'Traceback (most recent call last):\n  File "merge.py", line 9, in merge\n{raised}\n'
    result = translate(
        PySparkException(f"An exception was thrown from the Python worker:\n{trace}")
    )
    assert result.message == "a Python worker ran out of memory"
    assert "spark.executor.pyspark.memory" in str(result.hint)


@pytest.mark.parametrize(
    "text",
    [
        "Job aborted due to stage failure: Task 1 in stage 4.0 failed 1 times, most recent failure: "
        "Lost task 1.0 in stage 4.0 (TID 9): TaskResultLost (result lost from block manager)",
        "java.lang.OutOfMemoryError: Java heap space",
        "Task failed: java.lang.OutOfMemoryError: GC overhead limit exceeded",
        "[UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 65536 bytes of memory, got 0.",
        "Exception thrown in awaitResult: ",
        "org.apache.spark.SparkException: Exception thrown in awaitResult: ",
    ],
)
def test_spark_without_memory_is_one_line_with_a_remedy(text: str) -> None:
    result = translate(PySparkException(text))
    assert result.message == "Spark ran out of memory"
    assert "--conf spark.driver.memory=8g" in str(result.hint)


def test_a_failed_wait_reports_its_cause() -> None:
    result = translate(PySparkException("Exception thrown in awaitResult: no route to host"))
    assert "no route to host" in result.message


def test_this_process_without_memory_is_one_line_with_a_remedy() -> None:
    for error in (MemoryError(), pa.lib.ArrowMemoryError("malloc of size 9 failed")):
        result = translate(error)
        assert result.message == "this process ran out of memory"
        assert "batches()" in str(result.hint)


def test_other_errors_stay() -> None:
    for error in (PySparkException("division by zero"), PySparkException(FULL + SPILL)):
        assert why_unwritable(error) is None
        with pytest.raises(PySparkException), name_output_in_errors(SPEC):
            raise error


@pytest.mark.parametrize(
    ("condition", "parameters"),
    [
        ("DIVIDE_BY_ZERO", {}),
        ("REMAINDER_BY_ZERO", {}),
        ("CAST_INVALID_INPUT", {"expression": "'x'", "targetType": '"INT"'}),
        ("CAST_OVERFLOW", {"value": "300S", "targetType": '"TINYINT"'}),
        (
            "BINARY_ARITHMETIC_OVERFLOW",
            {"value1": "9", "symbol": "*", "value2": "9", "functionName": "`try_multiply`"},
        ),
        ("ARITHMETIC_OVERFLOW", {"message": "integer overflow", "alternative": ""}),
    ],
)
def test_values_that_spark_cannot_compute_are_errors_of_data(
    condition: str, parameters: dict[str, str]
) -> None:
    text = error_text(condition, parameters)
    assert text is not None
    assert text.kind is ErrorKind.DATA


def test_a_value_that_a_worker_cannot_compute_is_an_error_of_data() -> None:
    report = (
        "Traceback (most recent call last):\n"
        '  File "sums.py", line 76, in merge\n'
        "runtime.errors.ComputationError: SUM overflows BIGINT\n"
        "  cast the argument of SUM to a wider type\n"
    )
    error = translate(PySparkException(report))
    assert (error.message, error.kind) == ("SUM overflows BIGINT", ErrorKind.DATA)
    assert error.hint == "cast the argument of SUM to a wider type"
