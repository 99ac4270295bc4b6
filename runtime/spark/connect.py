"""Connection to a Spark Connect server within seconds, or an error with its address.

Spark's own client retries silently for ten minutes. The private APIs used here were checked with
PySpark 4.3.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Generator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from runtime.errors import SetupError
from runtime.installing import install_hint
from runtime.redaction import remember_settings
from runtime.spark.context import active_context
from runtime.spark.defaults import ANSI
from runtime.spark.exceptions import spark_error
from runtime.spark.private import unless_missing
from runtime.spark.versions.capabilities import ANSI_BY_DEFAULT, CONNECT, has, require

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_ANSWER_SECONDS = 5.0
# Settings that do not belong to the server: its address, and the progress bar of a local driver
_ELSEWHERE = ("spark.remote", "spark.ui.showConsoleProgress")
# Retry for about one minute. Spark's own policy waits ten minutes for a server that is gone.
_RETRIES: Mapping[str, Any] = {"max_retries": 8, "max_backoff": 15_000}


def connect_session(remote: str, conf: Mapping[str, str]) -> SparkSession:
    """Return a new session on a Spark Connect server.

    Args:
        remote: `sc://host:port`, with Spark's optional parameters.
        conf: Settings of the session.

    Raises:
        SetupError: PySpark is too old, packages are missing, the address is invalid, no server
            answers, or the server rejects a setting.
    """
    if not remote.startswith("sc://"):
        raise SetupError(f"{remote} is not a valid Spark Connect address", hint="sc://host:15002")
    require(CONNECT)
    remember_settings(conf)
    context = active_context()
    if context is not None:
        raise SetupError(
            f"Spark is already running in this process with master {context.master}, so "
            "Spark Connect cannot be used",
            hint="stop Spark first, or start another process",
        )
    address = _await_server(remote)
    from pyspark.sql import SparkSession

    try:
        with warnings.catch_warnings(action="ignore"):
            # A new builder has none of the options that the caller set in the shared one.
            session = SparkSession.builder.remote(remote).create()
            retries: Any = import_module("pyspark.sql.connect.client.retries")
            client: Any = getattr(session, "client")  # noqa: B009  # a remote session has one
            client.set_retry_policies([retries.DefaultPolicy(**_RETRIES)])
            version = session.version
    except (spark_error(), OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise SetupError(
            f"the Spark Connect server at {address} rejected the connection: {reason}"
        ) from error
    assert version
    defaults = {} if has(ANSI_BY_DEFAULT, version) else {ANSI: "true"}
    for key, value in {**defaults, **conf}.items():
        if key in _ELSEWHERE:
            continue
        try:
            session.conf.set(key, value)
        except spark_error() as error:
            session.stop()
            raise SetupError(
                f"{key} cannot be set over Spark Connect, because the server at "
                f"{address} is already running",
                hint="set it when you start the server, or remove it",
            ) from error
    return session


def active_remote_session() -> SparkSession | None:
    """Return this process's Spark Connect session, if there is one."""
    if "SPARK_CONNECT_MODE_ENABLED" not in os.environ:
        return None
    remote: Any = import_module("pyspark.sql.connect.session")
    session: SparkSession | None = remote.SparkSession.getActiveSession()
    return session


def remote_batches(frame: DataFrame) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of a DataFrame of a Spark Connect session as the server sends them."""
    import pyarrow as pa

    session: Any = frame.sparkSession
    remote: Any = frame
    parts = unless_missing(
        "all rows over Spark Connect are in memory at once",
        lambda: session.client.to_table_as_iterator(
            remote._plan.to_proto(session.client), remote._plan.observations
        ),
        None,
    )
    for part in [frame.toArrow()] if parts is None else parts:
        if isinstance(part, pa.Table):  # not the schema, which comes first
            yield from part.to_batches()


def _await_server(remote: str) -> str:
    """Wait for an answer from the server and return its host and port.

    Raises:
        SetupError: No answer within seconds, or packages for the connection are missing.
    """
    try:
        grpc: Any = import_module("grpc")
        # checks for all packages that Spark Connect needs
        client: Any = import_module("pyspark.sql.connect.client.core")
    except ImportError as error:
        reason = str(error).strip().partition("\n")[0]
        raise SetupError(
            f"Spark Connect requires packages that are not installed: {reason}",
            hint=install_hint("connect"),
        ) from error
    try:
        builder = client.DefaultChannelBuilder(remote)
    except (spark_error(), ValueError) as error:
        # parameters after the semicolon may include a token
        raise SetupError(
            f"{remote.partition(';')[0]} is not a valid Spark Connect address",
            hint="use sc://host:15002, optionally followed by /;name=value;name=value",
        ) from error
    channel = builder.toChannel()
    try:
        grpc.channel_ready_future(channel).result(timeout=_ANSWER_SECONDS)
    except grpc.FutureTimeoutError as error:
        raise SetupError(
            f"no Spark Connect server is reachable at {builder.endpoint}",
            hint="check the address, or start the server with sbin/start-connect-server.sh",
        ) from error
    finally:
        channel.close()
    return str(builder.endpoint)
