"""Start the Spark session of a program that does not provide one."""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from runtime.errors import SetupError
from runtime.redaction import remember_settings
from runtime.spark.connect import active_remote_session, connect_session
from runtime.spark.context import active_context, connect_to_java, has_java
from runtime.spark.defaults import (
    ANSI,
    OF_EACH_SESSION,
    chosen_settings,
    is_local_master,
    memory_of_workers,
    shared_slots,
)
from runtime.spark.errors import translate, translate_spark_errors
from runtime.spark.exceptions import spark_error
from runtime.spark.jvm.java import find_java
from runtime.spark.jvm.process import begin_jvm, running_jvm
from runtime.spark.jvm.submit import spark_defaults
from runtime.spark.on_demand import SparkOnDemand, is_started, spark_lock
from runtime.spark.versions.capabilities import CONNECT, LOGGERS, has, require

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

# Value that sqlwin, in this process or its parent, has given PYSPARK_PYTHON
_CHOSEN_PYTHON = "SQLWIN_CHOSEN_PYTHON"
_NO_CONF: Mapping[str, str] = MappingProxyType({})
# Settings by which paths may mean other files than Python's
_OF_FILES = ("spark.hadoop.", "spark.remote", "spark.jars", "spark.driver.extra")
# Settings that spark-submit or the JVM reads only at start
_NEEDED_AT_START = re.compile(
    r"spark\.(driver\.(memory|memoryOverhead|cores|\w*JavaOptions|extra\w*Path)$"
    r"|submit\.|jars(\.|$)|(archives|files)$)"
)
# Setting with the PYTHONPATH of the JVM, which its workers inherit
PYTHON_PATH = "spark.sqlwin.pythonPath"
# Setting of a Spark that several users share
IS_SHARED = "spark.sqlwin.isShared"
# Settings that sqlwin chooses for a Spark of its own
_OF_A_PROGRAM = frozenset(
    {
        "spark.driver.memory",
        "spark.ui.enabled",
        "spark.sql.catalogImplementation",
        "spark.sql.warehouse.dir",
    }
)
_NOISY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

# Variables that point Spark and Hadoop to more configuration
_CONFIGURED = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR", "SPARK_HOME", "SPARK_REMOTE")

# Number of users by SparkContext or Spark Connect session, for those that sqlwin started
_n_users: dict[object, int] = {}


def session_on_demand(
    master: str | None = None, conf: Mapping[str, str] = _NO_CONF, remote: str | None = None
) -> SparkSession:
    """Return the session of `acquire_session`, started when something first uses it.

    It starts at once if another program has started or configured Spark, so that its settings are
    not known before, or if it is on a cluster, whose files may not be local.
    """
    with spark_lock:
        if remote or not _may_start_later(master, conf) or (zone := java_time_zone()) is None:
            return acquire_session(master, conf, remote)
        settings = {"spark.sql.session.timeZone": zone, **new_settings(master, conf)}
        is_chosen = master is not None or "spark.master" in conf
        return SparkOnDemand(lambda: acquire_session(master, conf), settings, is_chosen=is_chosen)


def _may_start_later(master: str | None, conf: Mapping[str, str]) -> bool:
    """Return whether the settings of a session, and its files, are known before it starts."""
    if active_context() is not None or active_remote_session() is not None:
        return False
    if is_submitted() or any(map(os.environ.get, _CONFIGURED)) or spark_defaults():
        return False
    masters = [name for name in (master, conf.get("spark.master")) if name is not None]
    return all(map(is_local_master, masters)) and not any(key.startswith(_OF_FILES) for key in conf)


def java_time_zone() -> str | None:
    """Return the time zone that Java takes from the system. None if Python does not know it."""
    from runtime.compute.wall_clock import (
        is_known_zone,  # imports NumPy, which Java need not wait for
    )

    name = os.environ.get("TZ") or os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2]
    return name if is_known_zone(name) else None


def acquire_session(
    master: str | None = None, conf: Mapping[str, str] = _NO_CONF, remote: str | None = None
) -> SparkSession:
    """Return a session from `start_session` that `end_use` may stop if this call started it.

    A Spark started by spark-submit runs until its program ends.
    """
    with spark_lock:
        before = {active_context(), _key(active_remote_session())}
        session = start_session(master, conf, remote)
        key = _key(session)
        if key not in before and key not in _n_users and (is_remote(session) or not is_submitted()):
            _n_users[key] = 0
        return session


def begin_use(spark: SparkSession) -> bool:
    """Count a user of a Spark from `acquire_session`. Return whether `spark` runs on one."""
    with spark_lock:
        key = _key(spark)
        if key in _n_users:
            _n_users[key] += 1
        return key in _n_users


def end_use(spark: SparkSession) -> None:
    """Stop Spark when the last user counted by `begin_use` leaves."""
    with spark_lock:
        key = _key(spark)
        if key not in _n_users:
            return
        _n_users[key] -= 1
        if _n_users[key] <= 0:
            del _n_users[key]
            # others may have stopped and restarted it
            if is_remote(spark) or key is active_context():
                spark.stop()


def is_stopped(spark: SparkSession) -> bool:
    """Return whether the Spark of a session has ended, so that nothing can run on it."""
    if is_remote(spark):
        return bool(spark.is_stopped)  # type: ignore[attr-defined]  # of Spark Connect
    if not is_started(spark):
        return False
    return spark.sparkContext is not active_context()


def _key(spark: SparkSession | None) -> object:
    """Return an identifier of a session's Spark. Spark Connect sessions share nothing."""
    if spark is None:
        return None
    return spark.session_id if is_remote(spark) else spark.sparkContext  # type: ignore[attr-defined]


def start_session(
    master: str | None = None, conf: Mapping[str, str] = _NO_CONF, remote: str | None = None
) -> SparkSession:
    """Return a quiet Spark session that uses this Python for workers and fits the machine.

    If Spark already runs in this process it stays unchanged: the result is a new session on it, and
    `conf` may contain only settings of a session.

    Args:
        master: Spark master URL. `local[*]` unless spark-defaults.conf, PYSPARK_SUBMIT_ARGS or
            spark-submit set it.
        conf: Spark configuration. It overrides theirs and sqlwin's defaults.
        remote: `sc://host:port` of a Spark Connect server, instead of a master.

    Raises:
        SetupError: Java or the cluster is missing, a setting is invalid, or packages are missing.
    """
    quiet_python_loggers()
    remote = remote or conf.get("spark.remote")
    configured = conf.get("spark.master")
    if remote and (master or configured):
        raise SetupError("master and remote exclude each other", hint="set only one of them")
    if master and configured and master != configured:
        raise SetupError(
            f"two different masters: {master}, and {configured} in the configuration",
            hint="remove one of them",
        )
    master = master or configured
    with spark_lock:
        if remote:
            return connect_session(remote, conf)
        if (context := active_context()) is not None:
            return _sibling_session(context, master, conf)
        if (remote_session := active_remote_session()) is not None:
            if not (master or conf):
                return remote_session
            raise SetupError(
                "this process already uses Spark Connect, which does not accept a "
                "master or settings",
                hint="remove them, or start another process",
            )
        elsewhere = None if master or is_submitted() else _remote_of_environment()
        if elsewhere:
            return connect_session(elsewhere, conf)
        start = _submitted_session if is_submitted() else _new_session
        with translate_spark_errors(_not_started):
            return start(master, conf)


def _not_started(error: Exception) -> SetupError:
    cause = translate(error)
    return SetupError(f"Spark did not start: {cause.message}", hint=cause.hint)


def begin_java(
    master: str | None = None, conf: Mapping[str, str] = _NO_CONF, remote: str | None = None
) -> None:
    """Start Java for a following `start_session`, without waiting.

    Does nothing if that session needs no Java of its own.

    Args:
        master: As passed to `start_session` later.
        conf: Likewise.
        remote: Likewise.

    Raises:
        SetupError: Java is missing.
    """
    named_master = master or conf.get("spark.master")
    with spark_lock:
        if has_java() or is_submitted() or active_remote_session():
            return
        if remote or conf.get("spark.remote") or (not named_master and _remote_of_environment()):
            return
        if named_master != conf.get("spark.master", named_master):
            return  # start_session will reject it
        begin_jvm(find_java(), new_settings(master, conf))


def _remote_of_environment() -> str | None:
    """Return the Spark Connect server named by the user's environment."""
    return os.environ.get("SPARK_REMOTE") or spark_defaults().get("spark.remote")


def is_submitted() -> bool:
    """Return whether spark-submit has started this process and Java."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _new_session(master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """Start Spark, and Java if it does not run yet."""
    settings = new_settings(master, conf)
    if has_java():
        return build(settings)
    with running_jvm(find_java(), settings):
        return build(settings)


def new_settings(master: str | None, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for a Spark started here, in addition to the user's files.

    Also chooses the workers' Python, in the environment.

    Args:
        master: Spark master URL, or None.
        conf: Settings of the caller.
    """
    configured = spark_defaults()
    named = master or conf.get("spark.master") or configured.get("spark.master")
    slots = shared_slots() if conf.get(IS_SHARED) == "true" and named is None else {}
    master = named or slots.get("spark.master", "local[*]")
    ours = {"spark.app.name": "sqlwin", **chosen_settings(master), **slots}
    if os.environ.get("PYTHONPATH"):
        ours[PYTHON_PATH] = os.environ["PYTHONPATH"]
    settings = {
        **{k: v for k, v in ours.items() if k not in configured},
        **memory_of_workers(master, {**configured, **conf}),
        **conf,
        "spark.master": master,
    }
    remember_settings({**configured, **settings})
    choose_python(master, {**configured, **settings}, os.environ)
    return settings


def _submitted_session(master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """Return the session of a program run by spark-submit, on its master and configuration.

    Raises:
        SetupError: The program asks for another master or for settings that only apply at start.
    """
    from pyspark import SparkConf

    connect_to_java()
    submitted = dict(SparkConf().getAll())
    remember_settings({**submitted, **conf})
    at = submitted.get("spark.master", "local[*]")
    if master is not None and master != at:
        raise SetupError(
            f"spark-submit started this program with master {at}, not {master}",
            hint=f"use spark-submit --master {master}, or remove the master here",
        )
    for key, value in conf.items():
        if _NEEDED_AT_START.match(key) and submitted.get(key) != value:
            raise SetupError(
                f"{key} cannot be set, because spark-submit has already started Java",
                hint=f"use spark-submit --conf {key}=...",
            )
    ours = {k: v for k, v in chosen_settings(at).items() if k not in _OF_A_PROGRAM}
    ours |= memory_of_workers(at, {**submitted, **conf})
    choose_python(at, {**submitted, **conf}, os.environ)
    return build({**{k: v for k, v in ours.items() if k not in submitted}, **conf})


def build(settings: Mapping[str, str]) -> SparkSession:
    """Return PySpark's session on the Spark behind its gateway, starting it if necessary."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    # PySpark would prefer this variable to an explicit master.
    remote = os.environ.pop("SPARK_REMOTE", None)
    # Left behind by a closed Spark Connect session.
    os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)
    try:
        # Warnings about old versions of pandas or Arrow, which are irrelevant to users.
        with warnings.catch_warnings(action="ignore"):
            return builder.getOrCreate()
    finally:
        if remote is not None:
            os.environ["SPARK_REMOTE"] = remote


def check_session(spark: SparkSession) -> None:
    """Check that a running session computes as sqlwin does: overflow and bad casts are errors.

    ANSI mode that the user has turned off is the user's choice, and Spark then computes the rows.

    Raises:
        SetupError: ANSI mode is off by Spark's default, as in Spark 3.5, or this PySpark is too
            old for Spark Connect.
    """
    if is_remote(spark):
        require(CONNECT)
    if spark.conf.get(ANSI, None) is None and spark.conf.get(ANSI) == "false":
        raise SetupError(
            f"{ANSI} is false, the default of Spark {spark.version}: a sum that overflows and an "
            "invalid cast would give wrong rows instead of errors",
            hint=f"spark.conf.set('{ANSI}', 'true'), or 'false' to compute that way",
        )


def is_local_mode(spark: SparkSession) -> bool:
    """Return whether the tasks of `spark` run on this machine, in its driver."""
    return not is_remote(spark) and is_local_master(str(spark.sparkContext.master))


def refuse_pipeline_definition() -> None:
    """Check that the caller does not define datasets of a declarative pipeline.

    Spark forbids definitions to analyze queries, create views or set settings, and a session needs
    all of them to plan a query. `sqlwin.compile` needs none.

    Raises:
        SetupError: It does.
    """
    definitions = sys.modules.get("pyspark.pipelines.graph_element_registry")
    if definitions is None:
        return
    try:
        definitions.get_active_graph_element_registry()
    except spark_error():
        return
    raise SetupError(
        "a definition of a declarative pipeline cannot open a session of sqlwin, because Spark "
        "lets definitions neither analyze queries nor create views",
        hint="return spark.sql(sqlwin.compile(...)), or query the pipeline's tables after "
        "spark-pipelines run",
    )


def is_remote(spark: SparkSession) -> bool:
    """Return whether `spark` is a Spark Connect session, which has no SparkContext."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def forget_connection(spark: SparkSession) -> None:
    """Open a new connection to Spark for this thread after an interrupted call.

    The answer to the interrupted call is still pending on the old connection, where the next call
    would take it for its own.
    """
    gateway = getattr(getattr(spark, "_sc", None), "_gateway", None)
    client = getattr(gateway, "_gateway_client", None)
    find = getattr(client, "get_thread_connection", None)
    connection = None if find is None else find()
    if connection is not None:
        connection.close()


def quiet_python_loggers() -> None:
    """Keep PySpark from printing a line of JSON for every error that it raises anyway.

    If no level is configured, also silence py4j, which prints traces of calls and sockets closed by
    an interruption, partly through the root logger.
    """
    if has(LOGGERS):
        from pyspark.logger import PySparkLogger

        for name in _NOISY_LOGGERS:
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    py4j = logging.getLogger("py4j")
    if py4j.level == logging.NOTSET:
        py4j.setLevel(logging.CRITICAL)
        logging.getLogger().addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def choose_python(
    master: str, conf: Mapping[str, str], environment: MutableMapping[str, str]
) -> None:
    """Set the workers' Python in PYSPARK_PYTHON, which PySpark reads when a session starts.

    Local workers use this interpreter. On a cluster it is `spark.pyspark.python` or PYSPARK_PYTHON,
    or else `python3`, because this interpreter's path may not exist there.

    Args:
        master: Spark master URL.
        conf: Spark configuration including spark-defaults.conf.
        environment: Environment variables of this process.
    """
    python = conf.get("spark.pyspark.python")
    if python is None and environment.get("PYSPARK_PYTHON") != environment.get(_CHOSEN_PYTHON):
        python = environment.get("PYSPARK_PYTHON")
    if is_local_master(master) or (python is None and master.startswith("local-cluster[")):
        python = sys.executable
        environment[_CHOSEN_PYTHON] = python
    if python is None:
        # set by an earlier local session of this process
        environment.pop("PYSPARK_PYTHON", None)
    else:
        environment["PYSPARK_PYTHON"] = python
    environment["PYSPARK_DRIVER_PYTHON"] = sys.executable


def _sibling_session(
    context: SparkContext, master: str | None, conf: Mapping[str, str]
) -> SparkSession:
    from pyspark.sql import SparkSession

    if master is not None and master != context.master:
        raise SetupError(
            f"Spark is already running in this process with master {context.master}, not {master}",
            hint="stop Spark first, or remove the master",
        )
    session = SparkSession(context).newSession()
    defaults = {k: v for k, v in OF_EACH_SESSION.items() if not context.getConf().contains(k)}
    for key, value in {**defaults, **conf}.items():
        try:
            if session.conf.get(key, None) != value:
                session.conf.set(key, value)
        except spark_error() as error:
            raise SetupError(
                f"{key} cannot be set, because Spark is already running in this process",
                hint="stop Spark first, or remove the setting",
            ) from error
    return session
