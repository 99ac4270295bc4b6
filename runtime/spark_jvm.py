"""Starting the JVM that Spark's driver runs in.

PySpark starts it through `bin/spark-submit`, a shell script that runs a second JVM to put the
command line together, asks for a module that some Java runtimes lack, and lets the JVM write to
the console. Here the command line is put together in Python and the JVM's output goes to the log
file. PySpark then finds the JVM by PYSPARK_GATEWAY_PORT and PYSPARK_GATEWAY_SECRET, as it does
when `spark-submit` has started Python.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from runtime.errors import SetupError
from runtime.java import JavaRuntime
from runtime.logs import log_file

_START_SECONDS = 120
# What Spark's JavaModuleOptions asks for, without --add-modules=jdk.incubator.vector: it speeds
# up linear algebra only, and prints a warning.
_OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
_JVM_FLAGS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)
# Command lines can be read by everybody on the machine: these reach Spark by another way.
_SECRET = re.compile(r"secret|password|token|access[.]?key|credential", re.IGNORECASE)
_LOG_SETTINGS = Path(__file__).parent / "conf" / "log4j2.properties"

# The pipe whose end tells the JVM to go: it must live as long as this process.
_jvm: subprocess.Popen[bytes] | None = None


@contextmanager
def running_jvm(java: JavaRuntime, conf: Mapping[str, str], *, is_local: bool) -> Iterator[None]:
    """Start a JVM for PySpark to connect to inside this context.

    The JVM dies with this process, however that ends: its standard input is a pipe from here.

    Args:
        java: what to run.
        conf: Spark's configuration, `spark.master` included.
        is_local: the tasks run in this JVM, so nothing outside this machine connects to it.

    Raises:
        SetupError: the JVM does not come up.
    """
    port, secret = _start(java, conf, is_local=is_local)
    # Only for the connection: processes started from here later are to get a JVM of their own.
    os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = secret
    try:
        yield
    finally:
        os.environ.pop("PYSPARK_GATEWAY_PORT", None)
        os.environ.pop("PYSPARK_GATEWAY_SECRET", None)


def configured_defaults() -> dict[str, str]:
    """What the user's own spark-defaults.conf says, if there is one."""
    path = _conf_directory() / "spark-defaults.conf"
    settings: dict[str, str] = {}
    if path.is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            parts = re.split(r"[\s=:]+", line.strip(), maxsplit=1)
            if len(parts) == 2 and not parts[0].startswith("#"):
                settings[parts[0]] = parts[1].strip()
    return settings


def _spark_home() -> Path:
    return Path(_find_spark_home())


def _conf_directory() -> Path:
    named = os.environ.get("SPARK_CONF_DIR")
    return Path(named) if named else _spark_home() / "conf"


def _start(java: JavaRuntime, conf: Mapping[str, str], *, is_local: bool) -> tuple[int, str]:
    global _jvm
    directory = Path(tempfile.mkdtemp(prefix="sqlwin-gateway-"))
    try:
        connection = directory / "connection"
        with log_file().open("ab") as log:
            written_before = log.tell()
            _jvm = subprocess.Popen(
                _command(java, conf),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=_environment(java, connection, is_local=is_local),
                # Ctrl-C in the terminal is for Python alone.
                process_group=None if os.name == "nt" else 0,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        give_up = time.monotonic() + _START_SECONDS
        while not connection.is_file():
            if _jvm.poll() is not None:
                raise SetupError(f"Java did not start: {_complaint(written_before)}", hint=_hint())
            if time.monotonic() > give_up:
                _jvm.kill()
                raise SetupError(f"Java did not answer in {_START_SECONDS} seconds", hint=_hint())
            time.sleep(0.02)
        answer = connection.read_bytes()
    except OSError as error:
        raise SetupError(f"Java did not start: {error}", hint=_hint()) from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    port, length = struct.unpack_from(">ii", answer)
    return port, answer[8 : 8 + length].decode()


def _command(java: JavaRuntime, conf: Mapping[str, str]) -> list[str]:
    submit_conf = [
        part
        for key, value in conf.items()
        if not _SECRET.search(key)
        for part in ("--conf", f"{key}={value}")
    ]
    asked = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    log_flags = [
        f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
        f"-Dsqlwin.log.file={log_file()}",
    ]
    settings = {**configured_defaults(), **conf}
    if (_conf_directory() / "spark-env.sh").is_file() and not java.bundled:
        # What the user's own spark-env.sh sets is for spark-submit alone to know.
        options = " ".join([*log_flags, settings.get("spark.driver.extraJavaOptions", "")])
        submit = _spark_home() / "bin" / "spark-submit"
        return [str(submit), *submit_conf, "--driver-java-options", options, *asked]
    return [
        str(java.executable),
        "-cp",
        os.pathsep.join(_class_path(settings)),
        f"-Xmx{settings.get('spark.driver.memory', '1g')}",
        *_JVM_FLAGS,
        *log_flags,
        *shlex.split(settings.get("spark.driver.defaultJavaOptions", "")),
        *shlex.split(settings.get("spark.driver.extraJavaOptions", "")),
        "org.apache.spark.deploy.SparkSubmit",
        *submit_conf,
        *asked,
    ]


def _class_path(settings: Mapping[str, str]) -> list[str]:
    """The class path that Spark's launcher would make."""
    jars = _spark_home() / "jars"
    places = [settings.get("spark.driver.extraClassPath")]
    places += [str(_conf_directory())] if _conf_directory().is_dir() else []
    # Other jars carry older copies of slf4j, and the order within a wildcard is anyone's guess.
    places += [*map(str, sorted(jars.glob("slf4j-api-*.jar"))), str(jars / "*")]
    places += [
        os.environ.get(name)
        for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
    ]
    return [place for place in places if place]


def _environment(java: JavaRuntime, connection: Path, *, is_local: bool) -> dict[str, str]:
    environment = dict(os.environ)
    environment["SPARK_HOME"] = str(_spark_home())
    environment["JAVA_HOME"] = str(java.home)
    # spark-submit's own scripts set it, and executors are not launched without it.
    environment.setdefault("SPARK_SCALA_VERSION", "2.13")
    environment["SPARK_CONNECT_MODE"] = "0"
    environment["_PYSPARK_DRIVER_CONN_INFO_PATH"] = str(connection)
    if is_local:
        environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return environment


def _complaint(written_before: int) -> str:
    """The first line that the JVM wrote that says what is wrong."""
    with log_file().open("rb") as log:
        log.seek(written_before)
        lines = log.read(64_000).decode("utf-8", errors="replace").splitlines()
    # "Error occurred during initialization of VM" is followed by what the error is.
    lines = [line.strip() for line in lines if "occurred during initialization" not in line]
    telling = [line for line in lines if re.search(r"error|exception|invalid", line, re.I)] or lines
    return telling[0].removeprefix('Exception in thread "main" ') if telling else "no output"


def _hint() -> str:
    return f"what it said is in {log_file()}"
