"""Translation of Spark's exceptions into errors that users can act on, without stack traces."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.errors import (
    AnalysisError,
    CatalogError,
    ComputationError,
    ErrorKind,
    ExecutionError,
    Position,
    QueryCancelled,
    RaisedError,
    SqlSyntaxError,
    SqlwinError,
    kind_in_words,
    place_of_word,
)
from runtime.logs import append_trace, log_file
from runtime.spark.context import active_context
from runtime.spark.exceptions import java_error
from runtime.spark.jvm.failures import Failure, failures_of
from runtime.spark.messages import (
    ErrorText,
    error_text,
    first_sentence,
    names_in,
    plain_name,
    plain_path,
)

if TYPE_CHECKING:
    pass

_CATALOG = {
    "TABLE_OR_VIEW_NOT_FOUND",
    "TABLE_OR_VIEW_ALREADY_EXISTS",
    "SCHEMA_NOT_FOUND",
    "CATALOG_NOT_FOUND",
    "REQUIRES_SINGLE_PART_NAMESPACE",
    "NESTED_DATABASE_UNSUPPORTED_BY_V1_SESSION_CATALOG",
}
_TRACEBACK = "Traceback (most recent call last):"
# Last lines of a Python traceback: `package.NameError: message`, unindented.
_RAISED = re.compile(r"^((?:\w+\.)*)(\w+)(?:: (.*))?$")
# Packages that workers need, by module name
_PACKAGES = {"pyarrow": "pyarrow", "numpy": "numpy", "google": "protobuf"}
WORKERS_HINT = (
    f"run pip install {' '.join(_PACKAGES.values())} there, or set PYSPARK_PYTHON to a "
    "Python on the workers that has these packages"
)
_MORE_MEMORY = (
    "raise --conf spark.executor.pyspark.memory if it is set, or reduce memory use: SET "
    "'sqlwin.local.buffer-size' = '16 mb', SET 'sqlwin.exchange.buckets' = '256'"
)
_NO_MODULE = (
    "install it on the hosts of Spark's executors; ship your own module with "
    "session.spark.sparkContext.addPyFile"
)
_MODULE = re.compile(r"(?:No module named|from) '(\w+)")
_VERSIONS = re.compile(
    r"PYTHON_VERSION_MISMATCH\] Python in worker has different version: (\S+) than that in driver: "
    r"([\d.]+\d)"
)
# Texts about a JVM with too little memory. A task's result is lost when its executor is, or when
# the driver has no memory to fetch it
_NO_MEMORY = (
    "OutOfMemoryError",
    "UNABLE_TO_ACQUIRE_MEMORY",
    "TaskResultLost",
    "result lost from block manager",
    "Java heap space",
    "GC overhead limit exceeded",
)
_AWAIT = re.compile(r"(?:[\w.$]+: )?[Ee]xception thrown in awaitResult:?(?: null)?\s*")
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_JAVA_FRAME = re.compile(r"^\s+at [\w$.<>/]+\(|^JVM stacktrace|^Caused by: |^\.\.\. \d+ more")
_AFTER_TEXT = re.compile(
    rf"{_JAVA_FRAME.pattern}|^\s*SQLSTATE: \w|^=== Streaming Query ===|^Current \w+ Offsets: "
)
_LINE_AND_COLUMN = re.compile(r"\(line (\d+), pos (\d+)\)")


_CANCELLED = ErrorText("the query was cancelled")
# Raised by a JVM thread that is interrupted while it reads or writes
_INTERRUPTED = ("java.io.InterruptedIOException", "java.nio.channels.ClosedByInterruptException")


def translate(error: BaseException, sql: str | None = None) -> SqlwinError:
    """Translate an exception for the user who wrote `sql`.

    Args:
        error: Exception from PySpark, py4j or a source. sqlwin's own errors are returned unchanged.
        sql: Statement in which to mark the position. Spark may have received a different text, so a
            position counts only if the same words are there in `sql`.
    """
    if isinstance(error, SqlwinError):
        return error
    if isinstance(error, KeyboardInterrupt):
        return ExecutionError("interrupted")
    chain = failures_of(error)
    text = (
        worker_error(chain)
        or _machine_error(error, chain)
        or _file_error(chain)
        or _storage_error(chain)
    )
    if text is not None:
        failed = QueryCancelled if text == _CANCELLED else ExecutionError
        return _with_position(_to_error(failed, text), chain, sql)
    for failure in chain:
        if failure.condition and (text := error_text(failure.condition, failure.parameters)):
            return _with_position(_to_error(_error_class(error, failure), text), chain, sql)
    for failure in chain:
        if failure.condition and failure.condition not in ("STREAM_FAILED", "TASK_WRITE_FAILED"):
            # internal errors of Spark and conditions without a specific name are unknown
            if failure.condition.startswith(("INTERNAL_ERROR", "_LEGACY")):
                break
            text = first_sentence(failure.text)
            if "SUBQUERY" in failure.condition:
                text = text._replace(kind=ErrorKind.SUBQUERY)
            return _with_position(_to_error(_error_class(error, failure), text), chain, sql)
    return _unknown_error(error, chain)


def why_unwritable(error: BaseException) -> str | None:
    """Return why a query's output cannot be written, or None if it failed for another reason."""
    if isinstance(error, SqlwinError):
        return error.message if error.kind is ErrorKind.OUTPUT else None
    if isinstance(error, KeyboardInterrupt):
        return None
    chain = failures_of(error)
    if worker_error(chain) or _machine_error(error, chain) or _file_error(chain):
        return None
    storage = _storage_error(chain)
    return storage.message if storage is not None and storage.kind is ErrorKind.OUTPUT else None


@contextmanager
def translate_spark_errors(to: Callable[[Exception], SqlwinError] = translate) -> Iterator[None]:
    """Raise exceptions of the block as sqlwin errors; sqlwin errors pass unchanged.

    Args:
        to: Converts any other exception.

    Raises:
        SqlwinError: The converted exception.
    """
    try:
        yield
    except SqlwinError:
        raise
    except Exception as error:
        raise to(error) from error


def is_interruption(error: BaseException | None) -> bool:
    """Return whether an error may result merely from a cancellation.

    The answer is meaningful only after a cancellation: some file systems report a timeout as an
    interruption.
    """
    if error is None or isinstance(error, SqlwinError):
        return isinstance(error, QueryCancelled)
    chain = failures_of(error)
    is_cut = any(name in _full_text(chain) for name in _INTERRUPTED)
    return is_cut or _machine_error(error, chain) == _CANCELLED


def is_caused_by_stopped_spark(error: BaseException) -> bool:
    """Return whether an error results from a stopped Spark.

    PySpark then calls methods of None.
    """
    is_of_none = isinstance(error, AttributeError) and "'NoneType'" in str(error)
    return is_of_none and active_context() is None


def _full_text(chain: Sequence[Failure]) -> str:
    return "\n".join(f"{failure.java_class} {failure.text}" for failure in chain)


def _to_error(class_: type[SqlwinError], text: ErrorText) -> SqlwinError:
    """Return the error with the names from its message, which Spark provides only as text."""
    names: tuple[str, ...] = ()
    if issubclass(class_, AnalysisError) or "`" in text.message:
        names = names_in(text.message)
    if text.subject is not None:
        names = (text.subject, *(name for name in names if name != text.subject))
    return class_(text.message, hint=text.hint, kind=text.kind, subjects=names)


def _error_class(error: BaseException, failure: Failure) -> type[SqlwinError]:
    from pyspark.errors import AnalysisException, ParseException

    if isinstance(error, ParseException):
        return SqlSyntaxError
    if (failure.condition or "").split(".")[0] in _CATALOG:
        return CatalogError
    return AnalysisError if isinstance(error, AnalysisException) else ExecutionError


def _unknown_error(error: BaseException, chain: Sequence[Failure]) -> SqlwinError:
    texts = [first_sentence(failure.text).message for failure in chain]
    # "Job aborted" and the like are uninformative; take the innermost cause that is not
    informative = [text for text in texts if text and "aborted" not in text]
    message = (informative or texts or [kind_in_words(error)])[-1]
    trace = "".join(traceback.format_exception(error))
    append_trace(message, f"{trace}\n" + "\n".join(failure.text for failure in chain))
    hint = f"see the full report in {log_file()}"
    return _to_error(ExecutionError, ErrorText(message or kind_in_words(error), hint))


# Kinds of errors of workers, by the name of their class
_KINDS = {error.__name__: error.default_kind for error in (ComputationError, RaisedError)}

# Errors of certain kinds -------------------------------------------------------------------------


def worker_error(chain: Sequence[Failure]) -> ErrorText | None:
    """Return the error of a Python function or of a sqlwin operator in a worker."""
    for failure in chain:
        text = failure.parameters.get("traceback", "") or failure.text
        if _TRACEBACK not in text:
            continue
        lines = text[text.rindex(_TRACEBACK) :].splitlines()[1:]
        for number, line in enumerate(lines):
            if match := _RAISED.match(line):
                following = takewhile(_is_of_message, lines[number + 1 :])
                rest = [row.strip() for row in following]
                return _text_by_python(match[1], match[2], match[3] or "", rest)
    return None


def _is_of_message(line: str) -> bool:
    """Whether a line continues a message; Spark appends its own state for Python data sources."""
    return bool(line.strip()) and not _AFTER_TEXT.match(line)


def _text_by_python(module: str, name: str, message: str, rest: Sequence[str]) -> ErrorText:
    if module == "runtime.errors.":
        return ErrorText(message, rest[-1] if rest else None, _KINDS.get(name))
    if name.endswith("MemoryError"):  # NumPy and Arrow have subclasses of their own
        return ErrorText("a Python worker ran out of memory", _MORE_MEMORY)
    if match := _VERSIONS.search(message):
        worker, driver = match.groups()
        return ErrorText(
            f"Spark's workers run Python {worker}, but the driver runs Python {driver}",
            f"set PYSPARK_PYTHON to a Python {driver} on the workers",
        )
    if name in ("ModuleNotFoundError", "ImportError"):
        missing = _MODULE.search(message)
        package = _PACKAGES.get(missing.group(1)) if missing else None
        if package is not None:
            return ErrorText(f"the Python of Spark's workers has no module {package}", WORKERS_HINT)
    if name == "ModuleNotFoundError":
        return ErrorText(f"{message} in a Python worker", _NO_MODULE)
    return ErrorText(f"{name}: {message}" if message else name)


def _machine_error(error: BaseException, chain: Sequence[Failure]) -> ErrorText | None:
    """Return failures of the processes rather than the query: killed, out of memory, cancelled."""
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

    if isinstance(error, (Py4JNetworkError, ConnectionError)) or (
        isinstance(error, Py4JError)
        and not isinstance(error, Py4JJavaError)
        and "Answer from Java side is empty" in str(error)
    ):
        return ErrorText(
            "lost the connection to Spark, because its JVM has exited",
            f"see its log in {log_file()}",
        )
    if isinstance(error, MemoryError):  # NumPy and Arrow have subclasses of their own
        return ErrorText(
            "this process ran out of memory",
            "Result.batches() gives the rows in parts, and INSERT INTO writes them to a table",
        )
    text = _full_text(chain)
    stopped = ("on a stopped SparkContext", "SparkEnv$.get()")
    if is_caused_by_stopped_spark(error) or any(mark in text for mark in stopped):
        return ErrorText(
            "these rows can no longer be computed, because Spark was stopped",
            "fetch the rows before session.close()",
        )
    if "SPARK_JOB_CANCELLED" in text or "java.lang.InterruptedException" in text:
        return _CANCELLED
    if any(mark in text for mark in _NO_MEMORY) or _is_bare_await(chain):
        return ErrorText(
            "Spark ran out of memory",
            "raise --conf spark.driver.memory=8g (spark.executor.memory on a cluster)",
        )
    if match := _NO_PROGRAM.search(text):
        return ErrorText(
            f"{match.group(1)} does not exist where Spark starts its Python workers",
            "set PYSPARK_PYTHON to a Python that exists on all hosts of the cluster",
        )
    # from error messages of YARN and Kubernetes
    if "spark.executor.memoryOverhead" in text or "OOMKilled" in text:
        return ErrorText(
            "the cluster killed an executor that exceeded its memory limit",
            "raise the memory outside the heap: --conf spark.executor.memoryOverhead=4g",
        )
    if "Python worker exited unexpectedly" in text or "Fatal Python error" in text:
        append_trace("a Python worker crashed", text)
        fatal = re.search(r"Fatal Python error: ([^\n]+)", text)
        why = f": {fatal.group(1).strip()}" if fatal else ""
        return ErrorText(f"a Python worker crashed{why}", f"see the full report in {log_file()}")
    return None


def _is_bare_await(chain: Sequence[Failure]) -> bool:
    """Return whether an error reports only that waiting for a result failed.

    An OutOfMemoryError ends the thread that should have given the result, and is in Spark's log
    only. Other errors are causes in the chain.
    """
    texts = [failure.text.strip() for failure in chain if failure.text.strip()]
    return bool(texts) and all(_AWAIT.fullmatch(text) for text in texts)


def _file_error(chain: Sequence[Failure]) -> ErrorText | None:
    """Return the text for a file that cannot be read: path and reason."""
    for number, failure in enumerate(chain):
        condition = failure.condition or ""
        if not condition.startswith("FAILED_READ_FILE"):
            continue
        path = plain_path(failure.parameters.get("path", "a file"))
        causes = chain[number + 1 :]
        match condition.partition(".")[2]:
            case "CANNOT_READ_FILE_FOOTER":
                return ErrorText(f"{path} is not a Parquet or ORC file, or it is corrupt")
            case "FILE_NOT_EXIST" if any("Permission denied" in c.text for c in [failure, *causes]):
                # Java reports this as file not found, too
                return ErrorText(f"cannot read {path}: permission denied")
            case "FILE_NOT_EXIST":
                return ErrorText(f"{path} was deleted while it was read", "run the query again")
            case "PARQUET_COLUMN_DATA_TYPE_MISMATCH":
                column = plain_name(failure.parameters["column"].strip("[]"))
                actual, expected = (failure.parameters[k] for k in ("actualType", "expectedType"))
                return ErrorText(f"column {column} of {path} is {actual}, not {expected}")
        for cause in causes:
            if (headers := _CSV_HEADERS.search(cause.text)) is not None:
                return ErrorText(
                    f"the headers of files differ: {path} has {headers['own']}, other files have "
                    f"{headers['others']}",
                    "use a glob that matches only files with the same header",
                )
        malformed = [c for c in causes if "MALFORMED_" in (c.condition or "")]
        why = _why_unreadable(causes)
        if malformed:
            name = "json" if ".json" in path else "csv"
            ignore = f"set '{name}.ignore-parse-errors' = 'true' to read unreadable fields as NULL"
            line = _JSON_LINE.search(causes[-1].text)
            where = path if line is None else f"{path}, line {line[1]},"
            problem = f"{where} has a record that does not match the columns"
            return ErrorText(f"{problem}: {why}" if why else problem, ignore)
        return ErrorText(f"cannot read {path}: {why}")
    return None


# Fields, or their number, in the header of a CSV file and in the header that Spark expects
_CSV_HEADERS = re.compile(
    r"CSV header .*\s+Header(?: length)?: (?P<own>.*?)(?:\s+Schema|, schema size): (?P<others>.*)"
)

# Position in Jackson's message about a broken JSON file that is a single document
_JSON_LINE = re.compile(r"\bline: (\d+), column: \d+\]")

# Messages of file readers about broken files
_BROKEN = (
    (re.compile(r"is not a Parquet file|Expected magic number"), "it is not a Parquet file"),
    (
        re.compile(r"Unexpected end of (?:ZLIB )?input|EOFException|Premature EOF"),
        "it is truncated",
    ),
    (re.compile(r"serialized data!|Struct: |@[0-9a-f]{5,}"), "it is corrupt"),
)


def _why_unreadable(causes: Sequence[Failure]) -> str:
    if not causes:
        return "it is corrupt"
    last = causes[-1]
    why = first_sentence(last.text).message
    # an exception may have no text
    text = last.text or last.java_class
    return next((plain for broken, plain in _BROKEN if broken.search(text)), why)


NO_DIRECTORY = "the directory cannot be created"
NO_SPACE = "no space left on the device"
# Texts that mean that a place cannot be written, with the reason; the first match counts
_STORAGE = {
    "No space left on device": NO_SPACE,
    "Disk quota exceeded": "the disk quota is exceeded",
    "DSQuotaExceededException": "the directory quota is exceeded",
    "File too large": "a file exceeds the maximum size",
    "Read-only file system": "the file system is read-only",
    "Permission denied": "permission denied",
    "AccessDeniedException": "permission denied",
    "AccessControlException": "permission denied",
    "Not a directory": "a file exists where a directory is needed",
    "ParentNotDirectoryException": "a file exists where a directory is needed",
    "Parent path is not a directory": "a file exists where a directory is needed",
    "Mkdirs failed to create": NO_DIRECTORY,
}
# Parts of Spark that write; the innermost comes first in the stack after the reason
_WRITERS = (
    ("spill", ("Spill", "DiskBlock", "DiskStore", "ShuffleExternalSorter", "ShuffleWriter")),
    ("spill", ("IndexShuffleBlockResolver", "blockmgr-", "ShuffleMapOutputWriter")),
    ("checkpoint", ("CheckpointFileManager", "HDFSMetadataLog", "StateStore", "RocksDB")),
    ("checkpoint", ("StreamingQueryCheckpoint", "StreamMetadata", "OffsetSeqLog", "CommitLog")),
    ("output", ("TASK_WRITE_FAILED", "FileFormatWriter", "OutputCommitter", "OutputWriter")),
    ("output", ("CommitProtocol",)),
)


def _storage_error(chain: Sequence[Failure]) -> ErrorText | None:
    """Return the text for a place that cannot be written: output, checkpoint, or Spark's own."""
    text = "\n".join(f"{f.condition} {f.java_class} {f.text}\n{f.stack}" for f in chain)
    reason = next((mark for mark in _STORAGE if mark in text), None)
    if reason is None:
        return None
    why = _STORAGE[reason]
    what = _writer_in(text[text.index(reason) :]) or _writer_in(text)
    if what == "spill":
        directory = temporary_directory()
        where = "" if directory is None else f" in {directory}"
        return ErrorText(
            f"Spark cannot write its temporary files{where}: {why}",
            "set --conf spark.local.dir=... to another directory",
        )
    if what is not None:
        return ErrorText(
            why, kind=ErrorKind.CHECKPOINT if what == "checkpoint" else ErrorKind.OUTPUT
        )
    if "space" in why or "quota" in why:
        return ErrorText(why, "set spark.local.dir to another directory")
    return None


def temporary_directory() -> str | None:
    """Return Spark's local temporary directory. None on a cluster: each executor has its own."""
    context = active_context()
    if context is None or not str(context.master).startswith("local"):
        return None
    from pyspark import SparkFiles

    try:
        # the root is in a directory of this run, below the temporary directory
        return str(Path(SparkFiles.getRootDirectory()).parents[1])
    except (java_error(), OSError):
        return None


def _writer_in(text: str) -> str | None:
    places = [
        (text.index(mark), what) for what, marks in _WRITERS for mark in marks if mark in text
    ]
    return min(places)[1] if places else None


# Positions in the SQL ---------------------------------------------------------------------------


def _with_position(error: SqlwinError, chain: Sequence[Failure], sql: str | None) -> SqlwinError:
    places = (_position(failure, sql) for failure in chain) if sql is not None else ()
    position = next((place for place in places if place is not None), None)
    if position is not None:
        error.position, error.sql = position, sql
    return error


def _position(failure: Failure, sql: str) -> Position | None:
    for fragment in failure.fragments:
        text = fragment.text
        if not text:
            continue
        if sql[fragment.start : fragment.stop + 1] == text:
            return Position.at(sql, fragment.start, len(text))
        if sql.count(text) == 1:
            return Position.at(sql, sql.index(text), len(text))
    match = _LINE_AND_COLUMN.search(failure.text)
    is_syntax = failure.condition == "PARSE_SYNTAX_ERROR"
    near = failure.parameters.get("error", "").strip("'")
    if match is None:
        return place_of_word(near, "", sql) if is_syntax else None
    line, column = int(match.group(1)), int(match.group(2))
    lines = sql.splitlines(keepends=True)
    # Spark repeats its SQL text in the message; the position counts only if that text is `sql`.
    if line <= len(lines) and lines[line - 1].rstrip("\r\n") in failure.text:
        offset = sum(map(len, lines[: line - 1])) + column
        return Position.at(sql, offset, len(near) if sql.startswith(near, offset) else 1)
    if not is_syntax:
        return None
    rows = failure.text.partition("== SQL ==\n")[2].splitlines()
    before = [*rows[: line - 1], *(row[:column] for row in rows[line - 1 : line])]
    return place_of_word(near, "\n".join(before), sql)


# From Java and PySpark to plain data -------------------------------------------------------------
