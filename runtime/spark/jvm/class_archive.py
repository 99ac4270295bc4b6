"""The archive that lets Spark's JVM map its classes instead of loading and checking them.

Java calls it a dynamic class data sharing archive. It fits one Java and one class path, to the
last byte and order, so its name is a hash of both. It is made once, by `runtime.spark.warm_up` in
a process of its own after a first run of the command line, and only ever used whole: a seal
beside it holds the size and time of what was written, since Java 17 crashes on a file cut short.

In the cache directory of the user, for each archive:

    spark-<place>-<content>.jsa        the archive
    spark-<place>-<content>.base.jsa   what it builds on, for a Java that comes without that
    spark-<place>-<content>.seal       written last; touched whenever the archive is used
    spark-<place>-<content>.tried      when it was begun
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
# They would let the new process connect elsewhere, load more, or write to the log of this run.
_NOT_PASSED_ON = ("PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE", "SQLWIN_LOG_FILE")

# The archive that the JVM of this process could have used, had it been there.
_missing: Path | None = None


def archive_path(java: JavaRuntime, class_path: Sequence[str]) -> Path | None:
    """Where the archive for this Java and class path is, or will be; the directory may not exist.

    Args:
        java: what runs the classes.
        class_path: jar files in their order.

    Returns:
        None where there can be none: it is switched off, there is no cache directory, or the
        class path holds more than jar files (Java archives no classes of a directory).
    """
    directory = _cache_directory()
    if is_off(_SWITCH) or directory is None or sys.platform == "win32":
        return None
    # Java takes a colon for the end of the path.
    if os.pathsep in str(directory) or len(os.pathsep.join(class_path)) > _LONGEST_CLASS_PATH:
        return None
    jars = [Path(place) for place in class_path]
    if not jars or not all(jar.is_file() for jar in jars):
        return None
    home = java.home
    # An upgrade in place replaces its archive; another environment has one of its own.
    place = _digest([str(home), *sorted({str(jar.parent) for jar in jars})])
    # What the JVM compares too: an archive that it would refuse must not keep this name.
    parts = [str(java.version), _text(home / "release"), stamp(home / "lib" / "modules")]
    parts += map(stamp, sorted((home / "lib" / "server").glob("*")))
    parts += map(stamp, jars)
    return directory / f"spark-{place[:8]}-{_digest(parts)[:16]}.jsa"


def is_usable(archive: Path) -> bool:
    """Whether the archive is whole, as it was written, and nobody else's to write."""
    try:
        return seal_path(archive).read_text() == seal_of(archive) and all(
            map(_is_ours, (archive, archive.parent))
        )
    except OSError:
        return False


def use_options(archive: Path) -> list[str]:
    """What makes a JVM use the archive, and say nothing if it does not fit after all."""
    with suppress(OSError):  # then it counts as unused, and is made again some day
        os.utime(seal_path(archive))
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:cds*=off"]


def discard(archive: Path) -> None:
    """Let no JVM use this archive again."""
    with suppress(OSError):
        seal_path(archive).unlink(missing_ok=True)


def note_missing(archive: Path | None) -> None:
    """Remember what `make_missing` is to make."""
    global _missing
    _missing = archive


def make_missing() -> bool:
    """Begin to make the archive that this process missed, in a process that outlives it.

    Returns:
        Whether a process was started. Not in tests and CI, where homes are short-lived; not
        twice a day, since what failed once will most likely fail again; not while it is made.
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
        # Starting slowly is no error.
        return False
    note_missing(None)
    return True


@contextmanager
def making_lock(directory: Path) -> Iterator[bool]:
    """Whether this process is the only one that makes an archive; it ends with the process."""
    import fcntl

    # Never removed: whoever waits for a file that is gone would not be alone.
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
    """Mark the archive as begun, and remove what earlier tries have left behind."""
    archive.with_suffix(".tried").touch()
    for path in archive.parent.glob("spark-*.tmp"):
        path.unlink(missing_ok=True)


def publish_archive(written: Path, archive: Path) -> None:
    """Give a complete file its name and its seal, and remove those that it supersedes.

    Raises:
        OSError: the disk is full, or the directory has gone.
    """
    discard(archive)
    move(written, archive)
    seal = temporary_path(seal_path(archive))
    seal.write_text(seal_of(archive))
    move(seal, seal_path(archive))
    archive.with_suffix(".tried").unlink(missing_ok=True)
    _remove_superseded(archive)


def move(written: Path, path: Path) -> None:
    """Rename a file that must be on the disk before its name is."""
    with written.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(written, path)


def seal_path(archive: Path) -> Path:
    """The file that says what the archive has to look like."""
    return archive.with_suffix(".seal")


def base_path(archive: Path) -> Path:
    """The archive of Java's own classes that this one builds on, where Java brings none."""
    return archive.with_suffix(".base.jsa")


def temporary_path(path: Path) -> Path:
    """Where this process writes what is to be `path`."""
    return path.with_name(f"{path.name}.{os.getpid()}.tmp")


def _cache_directory() -> Path | None:
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if named.is_absolute():
        return named / "sqlwin"
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
    """What stands in the seal of an archive that is whole: its size and time, and its base's."""
    return f"{stamp(archive)}\n{stamp(base_path(archive))}\n"


def _is_ours(path: Path) -> bool:
    """Classes come from there: nobody else may be able to put any in."""
    found = path.stat()
    return found.st_uid == os.geteuid() and found.st_mode & 0o022 == 0


def _was_tried_lately(archive: Path) -> bool:
    try:
        return time.time() - archive.with_suffix(".tried").stat().st_mtime < _DAY
    except OSError:
        return False


def _remove_superseded(archive: Path) -> None:
    """Remove older archives of the same Java and Spark, and those that nothing uses any more."""
    own = archive.name.split(".")[0]
    place = own.rpartition("-")[0]
    last_used: dict[str, float] = {}
    for path in archive.parent.glob("spark-*"):
        name = path.name.split(".")[0]
        last_used[name] = max(last_used.get(name, 0.0), path.stat().st_mtime)
    for name, when in last_used.items():
        is_older = name.rpartition("-")[0] == place
        if name != own and (is_older or time.time() - when > _KEPT_SECONDS):
            for path in archive.parent.glob(f"{name}.*"):
                path.unlink(missing_ok=True)
