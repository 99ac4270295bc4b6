"""The Spark session that sqlwin starts where it is given none.

Private APIs, seen in PySpark 4.3: `SparkContext._active_spark_context` and `_gateway`.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import warnings
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from types import MappingProxyType

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from runtime.errors import SetupError
from runtime.redaction import remember_settings
from runtime.spark.connect import active_remote_session, connected_session
from runtime.spark.defaults import (
    OF_EACH_SESSION,
    chosen_settings,
    is_local_master,
    memory_of_workers,
)
from runtime.spark.errors import translate, translated_errors
from runtime.spark.jvm.java import find_java
from runtime.spark.jvm.process import begin_jvm, running_jvm
from runtime.spark.jvm.submit import configured_defaults

# What PYSPARK_PYTHON was set to from here, by this process or the one that started it
_CHOSEN_PYTHON = "SQLWIN_CHOSEN_PYTHON"
_NO_CONF: Mapping[str, str] = MappingProxyType({})
# What spark-submit itself or the JVM reads when it starts
_NEEDED_AT_START = re.compile(
    r"spark\.(driver\.(memory|memoryOverhead|cores|\w*JavaOptions|extra\w*Path)$"
    r"|submit\.|jars(\.|$)|(archives|files)$)"
)
# What sqlwin chooses for a Spark that serves it alone
_OF_A_PROGRAM = frozenset(
    {
        "spark.driver.memory",
        "spark.ui.enabled",
        "spark.sql.catalogImplementation",
        "spark.sql.warehouse.dir",
    }
)
_NOISY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


# Held by whoever starts or stops Spark, or changes who uses it
spark_lock = threading.RLock()


# By SparkContext, or session of Spark Connect, that sqlwin has started for itself: its users
_n_users: dict[object, int] = {}


def own_session(
    master: str | None = None, conf: Mapping[str, str] = _NO_CONF, remote: str | None = None
) -> SparkSession:
    """A session as `start_session` gives it; what was started for it, `end_use` may stop.

    What spark-submit has started goes on until its program ends.
    """
    with spark_lock:
        before = {SparkContext._active_spark_context, _key(active_remote_session())}
        session = start_session(master, conf, remote)
        key = _key(session)
        if key not in before and key not in _n_users and (is_remote(session) or not is_submitted()):
            _n_users[key] = 0
        return session


def begin_use(spark: SparkSession) -> bool:
    """Count a user of what `own_session` has started; whether `spark` is on it."""
    with spark_lock:
        key = _key(spark)
        if key in _n_users:
            _n_users[key] += 1
        return key in _n_users


def end_use(spark: SparkSession) -> None:
    """Stop Spark when the last one leaves that `begin_use` has counted."""
    with spark_lock:
        key = _key(spark)
        if key not in _n_users:
            return
        _n_users[key] -= 1
        if _n_users[key] <= 0:
            del _n_users[key]
            # it may have been stopped, and started again, by somebody else
            if is_remote(spark) or key is SparkContext._active_spark_context:
                spark.stop()


def is_stopped(spark: SparkSession) -> bool:
    """Return whether the Spark of a session has ended, so that nothing can run on it."""
    if is_remote(spark):
        return bool(spark.is_stopped)  # type: ignore[attr-defined]  # of Spark Connect
    return spark.sparkContext is not SparkContext._active_spark_context


def _key(spark: SparkSession | None) -> object:
    """What a session runs on; two of Spark Connect have nothing in common."""
    if spark is None:
        return None
    return spark.session_id if is_remote(spark) else spark.sparkContext  # type: ignore[attr-defined]


def start_session(
    master: str | None = None, conf: Mapping[str, str] = _NO_CONF, remote: str | None = None
) -> SparkSession:
    """A Spark session: quiet, with this Python for its workers, sized by the machine.

    A Spark that runs in this process already is left as it is: the session then is a new one
    beside those that exist, and `conf` may hold what can be set for a session alone.

    Args:
        master: Spark's master URL; `local[*]` unless spark-defaults.conf, PYSPARK_SUBMIT_ARGS or
            spark-submit say otherwise.
        conf: Spark's configuration; it wins over theirs and over what is chosen here.
        remote: the `sc://host:port` of a Spark Connect server, in place of a master.

    Raises:
        SetupError: no Java, no such cluster, a bad setting, packages missing.
    """
    quiet_python_loggers()
    remote = remote or conf.get("spark.remote")
    said = conf.get("spark.master")
    if remote and (master or said):
        raise SetupError("master and remote exclude each other", hint="give one of them")
    if master and said and master != said:
        raise SetupError(
            f"there are two masters: {master}, and {said} in the configuration",
            hint="leave one of them out",
        )
    master = master or said
    with spark_lock:
        if remote:
            return connected_session(remote, conf)
        if SparkContext._active_spark_context is not None:
            return _session_beside(SparkContext._active_spark_context, master, conf)
        if (there := active_remote_session()) is not None:
            if not (master or conf):
                return there
            raise SetupError(
                "this process uses Spark Connect already, which takes no master and no settings",
                hint="leave them out, or start another process",
            )
        elsewhere = None if master or is_submitted() else _remote_of_environment()
        if elsewhere:
            return connected_session(elsewhere, conf)
        start = _submitted_session if is_submitted() else _new_session
        with translated_errors(_not_started):
            return start(master, conf)


def _not_started(error: Exception) -> SetupError:
    cause = translate(error)
    return SetupError(f"Spark did not start: {cause.message}", hint=cause.hint)


def begin_java(
    master: str | None = None, conf: Mapping[str, str] = _NO_CONF, remote: str | None = None
) -> None:
    """Start Java for a session that `start_session` is about to be asked for; wait for nothing.

    Where that takes no Java of its own, nothing is done.

    Args:
        master: as `start_session` takes it, and will.
        conf: likewise.
        remote: likewise.

    Raises:
        SetupError: there is no Java.
    """
    named = master or conf.get("spark.master")
    with spark_lock:
        if SparkContext._gateway is not None or is_submitted() or active_remote_session():
            return
        if remote or conf.get("spark.remote") or (not named and _remote_of_environment()):
            return
        if named != conf.get("spark.master", named):
            return  # which start_session will refuse
        begin_jvm(find_java(), new_settings(master, conf))


def _remote_of_environment() -> str | None:
    """The Spark Connect server that the user's environment names."""
    return os.environ.get("SPARK_REMOTE") or configured_defaults().get("spark.remote")


def is_submitted() -> bool:
    """Whether spark-submit has started this process, and with it Java."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _new_session(master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """Start Spark, and Java if it does not run yet."""
    settings = new_settings(master, conf)
    if SparkContext._gateway is not None:
        return built(settings)
    with running_jvm(find_java(), settings):
        return built(settings)


def new_settings(master: str | None, conf: Mapping[str, str]) -> dict[str, str]:
    """Spark's configuration for a Spark that is started here, beside what the user's files say.

    The workers' Python is chosen too, in the environment.

    Args:
        master: Spark's master URL, or None.
        conf: what the caller wants.
    """
    chosen = configured_defaults()
    master = master or chosen.get("spark.master") or "local[*]"
    ours = {"spark.app.name": "sqlwin", **chosen_settings(master)}
    settings = {
        **{k: v for k, v in ours.items() if k not in chosen},
        **memory_of_workers(master, {**chosen, **conf}),
        **conf,
        "spark.master": master,
    }
    remember_settings({**chosen, **settings})
    choose_python(master, {**chosen, **settings}, os.environ)
    return settings


def _submitted_session(master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """The session of a program that spark-submit runs: on its master, with its configuration.

    Raises:
        SetupError: the program asks for another master, or for what Java had to be started with.
    """
    SparkContext._ensure_initialized()
    submitted = dict(SparkConf().getAll())
    remember_settings({**submitted, **conf})
    at = submitted.get("spark.master", "local[*]")
    if master is not None and master != at:
        raise SetupError(
            f"spark-submit runs this program with master {at}, not {master}",
            hint=f"spark-submit --master {master}, or leave the master out here",
        )
    for key, value in conf.items():
        if _NEEDED_AT_START.match(key) and submitted.get(key) != value:
            raise SetupError(
                f"{key} comes too late: spark-submit has started Java already",
                hint=f"spark-submit --conf {key}=...",
            )
    ours = {k: v for k, v in chosen_settings(at).items() if k not in _OF_A_PROGRAM}
    ours |= memory_of_workers(at, {**submitted, **conf})
    choose_python(at, {**submitted, **conf}, os.environ)
    return built({**{k: v for k, v in ours.items() if k not in submitted}, **conf})


def built(settings: Mapping[str, str]) -> SparkSession:
    """PySpark's session on the Spark that its gateway leads to, which is started if need be."""
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    # who names a master means that one; PySpark would take this
    remote = os.environ.pop("SPARK_REMOTE", None)
    # what a session of Spark Connect has left behind that is closed
    os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)
    try:
        # of an old pandas or an old Arrow, which are no concern of users
        with warnings.catch_warnings(action="ignore"):
            return builder.getOrCreate()
    finally:
        if remote is not None:
            os.environ["SPARK_REMOTE"] = remote


def is_local_mode(spark: SparkSession) -> bool:
    """Whether the tasks of `spark` run on this machine, in its driver."""
    return not is_remote(spark) and is_local_master(str(spark.sparkContext.master))


def is_remote(spark: SparkSession) -> bool:
    """Whether `spark` talks to a Spark Connect server: it then has no SparkContext."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def forget_connection(spark: SparkSession) -> None:
    """Let this thread talk to Spark on a new connection, after a call that was interrupted.

    The answer to that call is still to come on the old one, where the next call would take it for
    its own.
    """
    gateway = getattr(getattr(spark, "_sc", None), "_gateway", None)
    client = getattr(gateway, "_gateway_client", None)
    find = getattr(client, "get_thread_connection", None)
    connection = None if find is None else find()
    if connection is not None:
        connection.close()


def quiet_python_loggers() -> None:
    """Keep PySpark from printing a line of JSON for every error that it raises anyway.

    py4j prints the traces of calls and sockets that an interruption has closed, where nobody chose
    a level, some of them as the root logger's.
    """
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
    """Say which Python workers run: PySpark reads PYSPARK_PYTHON when a session starts.

    On this machine it is the one that runs here. On a cluster it is what `spark.pyspark.python` or
    PYSPARK_PYTHON says, else `python3` there: where this one is on other machines nobody knows.

    Args:
        master: Spark's master URL.
        conf: Spark's configuration, that of spark-defaults.conf too.
        environment: the variables of this process.
    """
    named = conf.get("spark.pyspark.python")
    if named is None and environment.get("PYSPARK_PYTHON") != environment.get(_CHOSEN_PYTHON):
        named = environment.get("PYSPARK_PYTHON")
    if is_local_master(master) or (named is None and master.startswith("local-cluster[")):
        named = sys.executable
        environment[_CHOSEN_PYTHON] = named
    if named is None:
        # an earlier session of this process was on this machine
        environment.pop("PYSPARK_PYTHON", None)
    else:
        environment["PYSPARK_PYTHON"] = named
    environment["PYSPARK_DRIVER_PYTHON"] = sys.executable


def _session_beside(
    context: SparkContext, master: str | None, conf: Mapping[str, str]
) -> SparkSession:
    if master is not None and master != context.master:
        raise SetupError(
            f"Spark runs in this process already, with master {context.master}, not {master}",
            hint="stop it first, or leave the master out",
        )
    session = SparkSession(context).newSession()
    chosen = {k: v for k, v in OF_EACH_SESSION.items() if not context.getConf().contains(k)}
    for key, value in {**chosen, **conf}.items():
        try:
            if session.conf.get(key, None) != value:
                session.conf.set(key, value)
        except PySparkException as error:
            raise SetupError(
                f"{key} cannot be set: Spark runs in this process already",
                hint="stop it first, or leave this setting out",
            ) from error
    return session
