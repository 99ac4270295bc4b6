"""Command line of the JVM for Spark's driver, built from settings and environment.

PySpark would use `bin/spark-submit`, a shell script that runs a second JVM to build the command
line, requires a module that some Java runtimes lack, and lets the JVM write to the console. Here
Python builds the command line, and the JVM's output goes to the log file.

Uses private APIs, checked with PySpark 4.3: `_find_spark_home`, the variable
_PYSPARK_DRIVER_CONN_INFO_PATH and the class `SparkSubmit`. Without them no JVM starts.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from runtime.errors import SetupError
from runtime.logs import log_file
from runtime.redaction import DEFAULT
from runtime.spark.defaults import is_local_master
from runtime.spark.jvm import class_archive
from runtime.spark.jvm.java import JavaRuntime

# From Spark's JavaModuleOptions, without --add-modules=jdk.incubator.vector, which only speeds up
# linear algebra and prints a warning.
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
# Spark traverses trees recursively. A condition of 1,000 parts needs a deeper stack than the
# default 1 MB, and a task that overflows its stack ends a local Spark.
_DEEP_STACKS = "-Xss8m"
# HotSpot passes a method to its second, expensive compiler after 5,000 calls. With few cores that
# compiler takes half of the CPU time of a short job. With ten times as many calls short jobs avoid
# it, and long ones reach it a moment later.
_FEW_CORES = 4
_LATE_COMPILATION = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
# Users who set these manage class sharing themselves.
_CLASS_SHARING = re.compile(r"-Xshare|SharedArchive|ArchiveClasses|SharedClassList")
# Options of spark-submit that correspond to a setting, and options without a value
_SUBMIT_OPTIONS = {
    "--master": "spark.master",
    "--remote": "spark.remote",
    "--name": "spark.app.name",
    "--deploy-mode": "spark.submit.deployMode",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--driver-class-path": "spark.driver.extraClassPath",
    "--driver-library-path": "spark.driver.extraLibraryPath",
}
_SUBMIT_FLAGS = ("--verbose", "-v", "--supervise", "--version", "--help", "-h", "--usage-error")
# Names of the folders that Python looks for installed packages in
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")
_LOG_SETTINGS = Path(__file__).parents[1] / "conf" / "log4j2.properties"
_MAIN_CLASS = "org.apache.spark.deploy.SparkSubmit"


def usable_archive(java: JavaRuntime, conf: Mapping[str, str]) -> Path | None:
    """Return the class archive for a JVM if it exists; note a missing one for `make_missing`."""
    archive = archive_to_use(java, conf)
    if archive is not None and not class_archive.is_usable(archive):
        class_archive.note_missing(archive)
        return None
    return archive


def archive_to_use(java: JavaRuntime, conf: Mapping[str, str]) -> Path | None:
    """Return the path of the class archive for this JVM, or None if there can be none.

    Only Spark's own jars are archived, because the next start uses them too.
    """
    settings = {**spark_defaults(), **conf}
    if not _is_local(conf) or _has_spark_env(java) or "spark.driver.extraClassPath" in settings:
        return None
    options = [
        *(settings.get(f"spark.driver.{kind}JavaOptions", "") for kind in ("default", "extra")),
        *(os.environ.get(name, "") for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")),
    ]
    if any(map(_CLASS_SHARING.search, options)):
        return None
    return class_archive.archive_path(java, _class_path(settings))


def spark_defaults() -> dict[str, str]:
    """Return Spark's configuration from the user's environment, with spark-submit's precedence.

    PYSPARK_SUBMIT_ARGS overrides the properties file that it names or else spark-defaults.conf.
    MASTER applies if nothing else names a master.

    Raises:
        SetupError: PYSPARK_SUBMIT_ARGS or its file cannot be read.
    """
    submitted, file = _submit_arguments()
    settings = {"spark.master": os.environ["MASTER"]} if os.environ.get("MASTER") else {}
    if file is None:
        return settings | _properties(_conf_directory() / "spark-defaults.conf") | submitted
    if not file.is_file():
        raise SetupError(f"{file} in PYSPARK_SUBMIT_ARGS does not exist")
    return settings | _properties(file) | submitted


def _properties(path: Path) -> dict[str, str]:
    settings: dict[str, str] = {}
    if path.is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            parts = re.split(r"[\s=:]+", line.strip(), maxsplit=1)
            if len(parts) == 2 and not parts[0].startswith("#"):
                settings[parts[0]] = parts[1].strip()
    return settings


def _submit_arguments() -> tuple[dict[str, str], Path | None]:
    """Return the settings in PYSPARK_SUBMIT_ARGS and the properties file that it names."""
    text = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise SetupError(f"PYSPARK_SUBMIT_ARGS cannot be parsed: {error}") from error
    settings: dict[str, str] = {}
    file: Path | None = None
    waiting = iter(words)
    for word in waiting:
        option, equals, value = word.partition("=")
        if not option.startswith("-") or option in _SUBMIT_FLAGS:
            continue
        value = value if equals else next(waiting, "")
        if option in ("--conf", "-c"):
            key, _, value = value.partition("=")
            settings[key] = value
        elif option == "--properties-file":
            file = Path(value)
        elif option in _SUBMIT_OPTIONS:
            settings[_SUBMIT_OPTIONS[option]] = value
    return settings, file


def _spark_home() -> Path:
    """Return Spark's directory by PySpark's rules, without importing the rest of PySpark."""
    package = find_spec("pyspark")
    assert package is not None and package.origin is not None
    file = Path(package.origin).parent / "find_spark_home.py"
    spec = spec_from_file_location("pyspark.find_spark_home", file)
    assert spec is not None and spec.loader is not None
    module: Any = module_from_spec(spec)
    spec.loader.exec_module(module)
    return Path(module._find_spark_home())


def _conf_directory() -> Path:
    directory = os.environ.get("SPARK_CONF_DIR")
    return Path(directory) if directory else _spark_home() / "conf"


def _has_spark_env(java: JavaRuntime) -> bool:
    """Return whether the user's spark-env.sh applies, which only spark-submit reads."""
    return (_conf_directory() / "spark-env.sh").is_file() and not java.bundled


def command_line(java: JavaRuntime, conf: Mapping[str, str], archive: Path | None) -> list[str]:
    """Return the command that starts the JVM.

    Args:
        java: Java to run.
        conf: Spark configuration including `spark.master` and secrets.
        archive: Class archive to use, if any.
    """
    pairs = [f"{key}={value}" for key, value in conf.items()]
    if _has_spark_env(java):
        # The script cannot hide secrets. PySpark passes them later.
        pairs = [pair for pair in pairs if not _is_secret(pair)]
    submit_conf = [part for pair in pairs for part in ("--conf", pair)]
    submit_arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    log_flags = [
        f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
        f"-Dsqlwin.log.file={log_file()}",
    ]
    settings = {**spark_defaults(), **conf}
    if _has_spark_env(java):
        options = " ".join(
            [_DEEP_STACKS, *log_flags, settings.get("spark.driver.extraJavaOptions", "")]
        )
        submit = _spark_home() / "bin" / "spark-submit"
        return [str(submit), *submit_conf, "--driver-java-options", options, *submit_arguments]
    return [
        str(java.executable),
        "-cp",
        os.pathsep.join(_class_path(settings)),
        f"-Xmx{settings.get('spark.driver.memory', '1g')}",
        *_JVM_FLAGS,
        _DEEP_STACKS,
        *(_LATE_COMPILATION if _is_local(conf) and (os.cpu_count() or 1) <= _FEW_CORES else ()),
        *log_flags,
        *(class_archive.use_options(archive) if archive is not None else ()),
        *shlex.split(settings.get("spark.driver.defaultJavaOptions", "")),
        *shlex.split(settings.get("spark.driver.extraJavaOptions", "")),
        _MAIN_CLASS,
        *submit_conf,
        *submit_arguments,
    ]


def _is_local(conf: Mapping[str, str]) -> bool:
    """Whether Spark's tasks run in the JVM itself, so that no other machine connects to it."""
    return is_local_master(conf["spark.master"])


def _is_secret(argument: str) -> bool:
    return DEFAULT.text(argument) != argument


def hide_secrets(command: list[str], file: Path) -> list[str]:
    """Move secrets from a command line, which everybody on the machine can read, to a file.

    Java also reads arguments from a file. The file holds all arguments from the first secret or the
    main class on, because those after the main class cannot be in a file of their own.

    Args:
        command: Command line.
        file: File for the arguments, readable by this user only.
    """
    first = next((i for i, part in enumerate(command) if _is_secret(part)), None)
    if first is None or _MAIN_CLASS not in command:
        return command
    first = min(first, command.index(_MAIN_CLASS))
    with open(file, "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as arguments:
        for part in command[first:]:
            escaped = part.replace("\\", "\\\\").replace('"', '\\"')
            arguments.write('"' + escaped.replace("\n", "\\n").replace("\r", "\\r") + '"\n')
    return [*command[:first], f"@{file}"]


def _class_path(settings: Mapping[str, str]) -> list[str]:
    """Return the class path that Spark's launcher would use.

    Jars are listed one by one, because Java 21 matches no class archive to a wildcard that repeats
    one of them. On Windows such a command line would be too long.
    """
    jars = _spark_home() / "jars"
    all_jars = [jars / "*"] if os.name == "nt" else sorted(jars.glob("*.jar"))
    places = [settings.get("spark.driver.extraClassPath")]
    places += [str(_conf_directory())] if _conf_directory().is_dir() else []
    # other jars contain older copies of slf4j, and wildcards have no defined order
    places += map(str, dict.fromkeys([*sorted(jars.glob("slf4j-api-*.jar")), *all_jars]))
    places += [
        os.environ.get(name)
        for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
    ]
    return [place for place in places if place]


def environment(java: JavaRuntime, conf: Mapping[str, str], connection: Path) -> dict[str, str]:
    """Return the environment of the JVM, which writes its gateway's address to `connection`."""
    variables = dict(os.environ)
    if _is_local(conf) and _workers_find_pyspark(variables):
        # With this variable Spark lets workers import PySpark from a zip of sources, which each
        # new process compiles: half a second for the daemon, for each stream and for each source.
        variables.pop("SPARK_HOME", None)
        variables["SPARK_CONF_DIR"] = str(_conf_directory())
    else:
        variables["SPARK_HOME"] = str(_spark_home())
    variables["JAVA_HOME"] = str(java.home)
    # set by spark-submit's own scripts; executors do not start without it
    variables.setdefault("SPARK_SCALA_VERSION", "2.13")
    variables["SPARK_CONNECT_MODE"] = "0"
    variables["_PYSPARK_DRIVER_CONN_INFO_PATH"] = str(connection)
    if _is_local(conf):
        variables.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return variables


def _workers_find_pyspark(variables: Mapping[str, str]) -> bool:
    """Return whether local workers, which run this interpreter, find PySpark where it does.

    This is the case if PySpark is an installed package and the user has not chosen a Spark.
    """
    home = _spark_home()
    is_installed = home.name == "pyspark" and home.parent.name in _PACKAGE_FOLDERS
    return is_installed and "SPARK_HOME" not in variables
