"""Archive from which Spark's JVM maps its classes instead of loading and verifying them.

Java calls it a dynamic class data sharing (CDS) archive. It matches exactly one Java and one class
path, including the order, so its name is a hash of both. `runtime.spark.warm_up` creates it once,
in a separate process after the first run of the command line. Java 17 crashes on a truncated
archive, so a seal next to it records its size and time, and only an archive that matches its seal
is used.

Files in the user's cache directory, for each archive:

    spark-<place>-<content>.jsa        the archive
    spark-<place>-<content>.base.jsa   base archive, for a Java that comes without one
    spark-<place>-<content>.seal       written last; touched whenever the archive is used
    spark-<place>-<content>.tried      time of the last attempt
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from runtime.background import is_off, is_test_or_ci, stamp, start_module
from runtime.spark.jvm.java import JavaRuntime

_SWITCH = "SQLWIN_CLASS_ARCHIVE"
_DAY = 24 * 3600
_KEPT_SECONDS = 30 * _DAY
# Linux allows 128 KiB for one argument.
_LONGEST_CLASS_PATH = 100_000
# Variables that would make the new process connect elsewhere, load more, or write to this run's log
_NOT_PASSED_ON = ("PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE", "SQLWIN_LOG_FILE")

# Archive that the JVM of this process would have used if it had existed
_missing: Path | None = None


def archive_path(java: JavaRuntime, class_path: Sequence[str]) -> Path | None:
    """Return the path of the archive for this Java and class path. The directory may not exist.

    Args:
        java: Java that runs the classes.
        class_path: Jar files in order.

    Returns:
        None if no archive is possible: it is switched off, no cache directory exists, or the class
            path holds more than jar files (Java archives no classes from directories).
    """
    directory = _cache_directory()
    if is_off(_SWITCH) or directory is None or sys.platform == "win32":
        return None
    # Java splits the option at colons.
    if os.pathsep in str(directory) or len(os.pathsep.join(class_path)) > _LONGEST_CLASS_PATH:
        return None
    jars = [Path(place) for place in class_path]
    if not jars or not all(jar.is_file() for jar in jars):
        return None
    home = java.home
    # An upgrade in place replaces its archive; another environment has its own.
    place = _digest([str(home), *sorted({str(jar.parent) for jar in jars})])
    # Java compares these too: an archive that it would reject must have another name.
    parts = [str(java.version), _text(home / "release"), stamp(home / "lib" / "modules")]
    parts += map(stamp, sorted((home / "lib" / "server").glob("*")))
    parts += map(stamp, jars)
    return directory / f"spark-{place[:8]}-{_digest(parts)[:16]}.jsa"


def is_usable(archive: Path) -> bool:
    """Return whether the archive is complete, matches its seal, and only this user can write it."""
    try:
        return seal_path(archive).read_text() == seal_of(archive) and all(
            map(_is_ours, (archive, archive.parent))
        )
    except OSError:
        return False


def use_options(archive: Path) -> list[str]:
    """Return JVM options that use the archive, silently ignoring it if it does not match."""
    # after a failure the archive counts as unused, and is created again later
    with suppress(OSError):
        os.utime(seal_path(archive))
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:cds*=off"]


def discard(archive: Path) -> None:
    """Invalidate the archive, so that no JVM uses it again."""
    with suppress(OSError):
        seal_path(archive).unlink(missing_ok=True)


def note_missing(archive: Path | None) -> None:
    """Remember the archive for `make_missing`."""
    global _missing
    _missing = archive


def make_missing() -> bool:
    """Start creating the archive that this process missed, in a process that outlives it.

    Returns:
        Whether a process was started. It is not in tests and CI, where homes are short-lived,
        within a day of the last attempt, which would probably fail again, or while another process
        creates the archive.
    """
    archive = _missing
    if archive is None or is_off(_SWITCH) or is_test_or_ci() or not sys.executable:
        return False
    if is_usable(archive) or _was_tried_lately(archive):
        return False
    try:
        archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(archive.parent, os.W_OK) or not _is_ours(archive.parent):
            return False
        with making_lock(archive.parent) as is_free:
            if not is_free:
                return False
        environment = {k: v for k, v in os.environ.items() if k not in _NOT_PASSED_ON}
        start_module("runtime.spark.warm_up", archive, archive.parent, environment)
    except OSError:
        # a slow start is not an error
        return False
    note_missing(None)
    return True


@contextmanager
def making_lock(directory: Path) -> Iterator[bool]:
    """Return whether only this process creates archives. The lock ends with the process."""
    import fcntl

    # Never removed: a process waiting for a removed file would not exclude others.
    with (directory / "making.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield True


def note_try(archive: Path) -> None:
    """Record the start of an attempt, and remove leftovers of earlier ones."""
    archive.with_suffix(".tried").touch()
    for path in archive.parent.glob("spark-*.tmp"):
        path.unlink(missing_ok=True)


def publish_archive(written: Path, archive: Path) -> None:
    """Rename and seal a complete archive, and remove superseded ones.

    Raises:
        OSError: The disk is full, or the directory was removed.
    """
    discard(archive)
    move(written, archive)
    seal = temporary_path(seal_path(archive))
    seal.write_text(seal_of(archive))
    move(seal, seal_path(archive))
    archive.with_suffix(".tried").unlink(missing_ok=True)
    _remove_superseded(archive)


def move(written: Path, path: Path) -> None:
    """Rename a file after its contents are safely on disk."""
    with written.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(written, path)


def seal_path(archive: Path) -> Path:
    """Return the path of the archive's seal."""
    return archive.with_suffix(".seal")


def base_path(archive: Path) -> Path:
    """Return the path of the base archive with Java's own classes, for a Java without one."""
    return archive.with_suffix(".base.jsa")


def temporary_path(path: Path) -> Path:
    """Return this process's temporary path for a file."""
    return path.with_name(f"{path.name}.{os.getpid()}.tmp")


def _cache_directory() -> Path | None:
    directory = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if directory.is_absolute():
        return directory / "sqlwin"
    try:
        return Path.home() / ".cache" / "sqlwin"
    except RuntimeError:
        return None


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def seal_of(archive: Path) -> str:
    """Return the seal of a complete archive: size and time of it and its base archive."""
    return f"{stamp(archive)}\n{stamp(base_path(archive))}\n"


def _is_ours(path: Path) -> bool:
    """Return whether only this user can write the path, because Java runs the classes in it."""
    status = path.stat()
    return status.st_uid == os.geteuid() and status.st_mode & 0o022 == 0


def _was_tried_lately(archive: Path) -> bool:
    try:
        return time.time() - archive.with_suffix(".tried").stat().st_mtime < _DAY
    except OSError:
        return False


def _remove_superseded(archive: Path) -> None:
    """Remove older archives of the same Java and Spark, and unused ones."""
    archive_key = archive.name.split(".")[0]
    place = archive_key.rpartition("-")[0]
    last_used: dict[str, float] = {}
    for path in archive.parent.glob("spark-*"):
        name = path.name.split(".")[0]
        last_used[name] = max(last_used.get(name, 0.0), path.stat().st_mtime)
    for name, when in last_used.items():
        is_older = name.rpartition("-")[0] == place
        if name != archive_key and (is_older or time.time() - when > _KEPT_SECONDS):
            for path in archive.parent.glob(f"{name}.*"):
                path.unlink(missing_ok=True)
