"""Object stores through `pyarrow.fs`: detect a URI's store and open it with Spark's settings.

A `Store` has everything that a task needs to open files of one bucket. The driver creates it from
Hadoop's settings for that bucket; without settings, Arrow uses the environment like the store's own
tools. A store contains credentials. Therefore it is created together with the tasks and is not part
of plans.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa

from runtime.errors import kind_in_words
from runtime.redaction import remember
from runtime.scan.azure import AZURE_REASONS, azure_options, credentials_text

if TYPE_CHECKING:
    from pyarrow import fs

# Function that returns the value of a Hadoop setting, or None
Setting = Callable[[str], str | None]
Options = dict[str, Any]

_KINDS = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gs",
    "abfs": "abfs",
    "abfss": "abfs",
    "wasb": "abfs",
    "wasbs": "abfs",
    "hdfs": "hdfs",
}
# Arrow's defaults of 1 and 3 seconds are too short for a store under load.
_CONNECT_S = 5.0
_ANSWER_S = 20.0
# Maximum number of requests of a task that a store answers at the same time
STORE_READERS = 8
_UNITS = {"": 1e-3, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_AWS_HOST = re.compile(r"s3[.-](?:dualstack\.)?(?:(?P<region>[a-z]+-[a-z-]+-\d)\.)?amazonaws\.com")
# Message for a missing file
GONE = "it does not exist"
_KEY_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
_environment = Lock()


@dataclass(frozen=True)
class Store:
    """Bucket, container or cluster, with the options to open it.

    Attributes:
        kind: `s3`, `gs`, `abfs` or `hdfs`.
        root: Common prefix of its URIs, such as `s3a://bucket`.
        top: Arrow's path of the root: the bucket; empty on HDFS.
        options: Arrow's options to open it.
    """

    kind: str
    root: str
    top: str
    options: tuple[tuple[str, Any], ...] = field(default=(), repr=False)

    def path(self, uri: str) -> str:
        """Return Arrow's path of a URI."""
        below = uri[len(self.root) :].strip("/")
        if self.kind == "hdfs":
            return f"/{below}"
        return f"{self.top}/{below}" if below else self.top

    def uri(self, path: str) -> str:
        """Return the URI of one of Arrow's paths."""
        return f"{self.root}/{path[len(self.top) :].lstrip('/')}"


def kind_of(uri: str) -> str | None:
    """Return the kind of store of a URI; None if Arrow does not support it."""
    return _KINDS.get(uri.partition(":")[0].lower())


def store_of(uri: str, setting: Setting) -> Store | None:
    """Return the store of a URI with Hadoop's settings; None if Arrow does not support it.

    Raises:
        OSError: A setting is invalid, or the region of a bucket cannot be determined.
    """
    parts, kind = urlsplit(uri), kind_of(uri)
    if kind is None:
        return None
    if kind == "abfs":
        options = azure_options(parts.scheme, parts.netloc, setting)
    else:
        options = _OPTIONS[kind](parts.netloc, setting)
    set_options = {key: value for key, value in options.items() if value is not None}
    remember(str(set_options[key]) for key in _SECRETS if key in set_options)
    top = "" if kind == "hdfs" else parts.netloc.partition("@")[0]
    return Store(kind, f"{parts.scheme}://{parts.netloc}", top, tuple(sorted(set_options.items())))


@lru_cache(maxsize=16)
def filesystem_of(store: Store) -> fs.FileSystem:
    """Return the file system of a store, cached per process to reuse its connections.

    Raises:
        OSError: The file system cannot be opened.
    """
    from pyarrow import fs

    options = dict(store.options)
    with explain_errors(store, store.root):
        if store.kind == "s3":
            attempts = int(options.pop("attempts", 3))
            retries = fs.AwsStandardS3RetryStrategy(max_attempts=attempts)
            return fs.S3FileSystem(retry_strategy=retries, **options)
        if store.kind == "gs":
            with _key_file(options.pop("key_file", None)):
                limit = timedelta(seconds=_ANSWER_S)
                return fs.GcsFileSystem(retry_time_limit=limit, **options)
        if store.kind == "abfs":
            return fs.AzureFileSystem(**options)
        return fs.HadoopFileSystem(**options)


def open_stored(store: Store, uri: str) -> pa.NativeFile:
    """Open a seekable file of a store for reading.

    Raises:
        OSError: The file does not exist, or the store refuses access.
    """
    with explain_errors(store, uri):
        return filesystem_of(store).open_input_file(store.path(uri))


@contextmanager
def explain_errors(store: Store, uri: str) -> Iterator[None]:
    """Convert Arrow's errors to OSErrors that name the setting to change."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, GONE, uri) from error
    except (OSError, pa.ArrowException, ValueError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        number, why = _why(store, _find_cause(store, error))
        raise OSError(number, why, uri) from error


def why_of(store: Store, uri: str, error: Exception) -> str:
    """Return the explanation of an error raised while a file was read."""
    try:
        with explain_errors(store, uri):
            raise error
    except OSError as explained_error:
        return str(explained_error.strerror or explained_error)


# -- settings --------------------------------------------------------------------------------------


def _s3_options(bucket: str, setting: Setting) -> Options:
    def s3_setting(name: str) -> str | None:
        bucket_setting = setting(f"fs.s3a.bucket.{bucket}.{name}")
        value = setting(f"fs.s3a.{name}") if bucket_setting is None else bucket_setting
        return None if value is None or not value.strip() else value.strip()

    endpoint, scheme = s3_setting("endpoint"), None
    if endpoint is not None and "://" in endpoint:
        scheme, _, endpoint = endpoint.partition("://")
    if s3_setting("connection.ssl.enabled") is not None and scheme is None:
        scheme = "https" if _is_true(s3_setting("connection.ssl.enabled")) else "http"
    endpoint = None if endpoint is None else endpoint.rstrip("/")
    region = s3_setting("endpoint.region")
    if endpoint is not None and (aws := _AWS_HOST.fullmatch(endpoint)) is not None:
        endpoint, region = None, region or aws["region"]
    is_elsewhere = endpoint is not None or any(
        name in os.environ for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
    )
    is_known = any(name in os.environ for name in ("AWS_REGION", "AWS_DEFAULT_REGION"))
    if region is None and is_elsewhere:
        region = None if is_known else "us-east-1"
    elif region is None and not is_known:
        region = _bucket_region(bucket)
    providers = s3_setting("aws.credentials.provider") or ""
    options: Options = {
        "access_key": s3_setting("access.key"),
        "secret_key": s3_setting("secret.key"),
        "session_token": s3_setting("session.token"),
        "endpoint_override": endpoint,
        "scheme": scheme,
        "region": region,
        "connect_timeout": _seconds(s3_setting("connection.establish.timeout")) or _CONNECT_S,
        "request_timeout": _seconds(s3_setting("connection.timeout")) or _ANSWER_S,
        "attempts": s3_setting("attempts.maximum"),
    }
    if (options["access_key"] is None) != (options["secret_key"] is None):
        missing = "access.key" if options["access_key"] is None else "secret.key"
        raise OSError(errno.EINVAL, f"missing credential: set spark.hadoop.fs.s3a.{missing}")
    if "Anonymous" in providers and options["access_key"] is None:
        options["anonymous"] = True
    if (role := s3_setting("assumed.role.arn")) is not None:
        options |= {"role_arn": role, "session_name": s3_setting("assumed.role.session.name")}
        options |= {"external_id": s3_setting("assumed.role.external.id")}
    if s3_setting("path.style.access") is not None and not _is_true(
        s3_setting("path.style.access")
    ):
        options["force_virtual_addressing"] = True
    if (host := s3_setting("proxy.host")) is not None:
        options["proxy_options"] = _proxy(host, s3_setting)
    return options


def _proxy(host: str, s3_setting: Setting) -> str:
    user, password = s3_setting("proxy.username"), s3_setting("proxy.password")
    login = f"{user}:{password}@" if user is not None and password is not None else ""
    scheme = "https" if _is_true(s3_setting("proxy.ssl.enabled")) else "http"
    return f"{scheme}://{login}{host}:{s3_setting('proxy.port') or '80'}"


@lru_cache
def _bucket_region(bucket: str) -> str:
    """Return the region of a bucket from Amazon, regardless of read permissions."""
    root = f"s3a://{bucket}"
    with explain_errors(Store("s3", root, bucket), root):
        from pyarrow import fs

        return str(fs.resolve_s3_region(bucket))


def _gcs_options(bucket: str, setting: Setting) -> Options:
    options: Options = {"project_id": setting("fs.gs.project.id")}
    kind = (setting("fs.gs.auth.type") or "").upper()
    if kind == "UNAUTHENTICATED" or _is_true(setting("fs.gs.auth.null.enable")):
        options["anonymous"] = True
    elif (path := setting("fs.gs.auth.service.account.json.keyfile")) is not None:
        options["key_file"] = path
    else:
        options["key_file"] = setting("google.cloud.auth.service.account.json.keyfile")
    if (who := setting("fs.gs.auth.impersonation.service.account")) is not None:
        options["target_service_account"] = who
    if (root := setting("fs.gs.storage.root.url")) is not None:
        parts = urlsplit(root)
        options |= {"scheme": parts.scheme, "endpoint_override": parts.netloc}
    return options


def _hdfs_options(authority: str, setting: Setting) -> Options:
    host, _, port = authority.partition(":")
    return {"host": host or "default", "port": int(port or 0)}


_OPTIONS: dict[str, Callable[[str, Setting], Options]] = {
    "s3": _s3_options,
    "gs": _gcs_options,
    "hdfs": _hdfs_options,
}
_SECRETS = (
    "access_key",
    "secret_key",
    "session_token",
    "account_key",
    "sas_token",
    "client_secret",
    "proxy_options",
)


def _is_true(text: str | None) -> bool:
    return text is not None and text.strip().lower() == "true"


def _seconds(text: str | None) -> float | None:
    """Parse a Hadoop duration: a number of milliseconds, or a number with a unit."""
    match = None if text is None else re.fullmatch(r"(\d+)\s*(ms|s|m|h|)", text.strip())
    return None if match is None else int(match[1]) * _UNITS[match[2]] or None


@contextmanager
def _key_file(path: str | None) -> Iterator[None]:
    """Set the environment variable with Google's key file, because its client has no option."""
    with _environment:
        before = os.environ.get(_KEY_FILE)
        if path is not None:
            os.environ[_KEY_FILE] = path
        try:
            yield
        finally:
            if path is not None and before is None:
                del os.environ[_KEY_FILE]
            elif path is not None and before is not None:
                os.environ[_KEY_FILE] = before


# -- what goes wrong -------------------------------------------------------------------------------

_SPARKS = "spark.hadoop."
# Patterns in the errors of stores, error numbers, and explanations; the first match applies. {0} is
# the bucket, {s} the prefix of setting names.
_REASONS: dict[str, tuple[tuple[str, int, str], ...]] = {
    "s3": (
        (
            r"NO_SUCH_BUCKET|Bucket '.*' not found",
            errno.ENOENT,
            "bucket {0} does not exist: check the path and {s}fs.s3a.endpoint",
        ),
        (
            "INVALID_ACCESS_KEY_ID|INVALID_CLIENT_TOKEN_ID",
            errno.EACCES,
            (
                "unknown access key: check {s}fs.s3a.access.key, or AWS_ACCESS_KEY_ID in "
                "the environment"
            ),
        ),
        (
            "SIGNATURE_DOES_NOT_MATCH",
            errno.EACCES,
            (
                "the secret key does not match the access key: check {s}fs.s3a.secret.key, "
                "or AWS_SECRET_ACCESS_KEY in the environment"
            ),
        ),
        (
            "EXPIRED_TOKEN|ExpiredToken|InvalidToken|TokenRefreshRequired",
            errno.EACCES,
            (
                "the session token is invalid or has expired: check "
                "{s}fs.s3a.session.token, or AWS_SESSION_TOKEN in the environment"
            ),
        ),
        (
            r"PermanentRedirect|AuthorizationHeaderMalformed|HTTP status 30[17]|IllegalLocation",
            errno.EINVAL,
            (
                "bucket {0} is in another region: check {s}fs.s3a.endpoint.region, or "
                "AWS_REGION in the environment"
            ),
        ),
        (
            "ACCESS_DENIED|MISSING_AUTHENTICATION_TOKEN|HTTP status 403",
            errno.EACCES,
            (
                "permission denied: check {s}fs.s3a.access.key and {s}fs.s3a.secret.key, or "
                "the AWS_* variables in the environment"
            ),
        ),
        (
            "curlCode: (?:35|53|58|59|60|77)",
            errno.EIO,
            (
                "no secure connection to the store: check {s}fs.s3a.endpoint, or set "
                "{s}fs.s3a.connection.ssl.enabled=false"
            ),
        ),
        (
            "curlCode: [567],",
            errno.EHOSTUNREACH,
            "the store is not reachable: check {s}fs.s3a.endpoint",
        ),
        (
            "curlCode: 28|REQUEST_TIMEOUT",
            errno.ETIMEDOUT,
            (
                "the store timed out: check {s}fs.s3a.endpoint, or raise "
                "{s}fs.s3a.connection.timeout"
            ),
        ),
        (
            r"partial file|curlCode: (?:18|52|56)",
            errno.EIO,
            "the store's response was truncated repeatedly: run the statement again",
        ),
        (
            r"SLOW_DOWN|INTERNAL_FAILURE|SERVICE_UNAVAILABLE|HTTP status 5\d\d",
            errno.EIO,
            (
                "the store failed repeatedly ({code}): run the statement again, or raise "
                "{s}fs.s3a.attempts.maximum"
            ),
        ),
    ),
    "gs": (
        (
            "PERMISSION_DENIED|UNAUTHENTICATED|Permission denied|credentials",
            errno.EACCES,
            (
                "permission denied: set {s}fs.gs.auth.service.account.json.keyfile to a key "
                "file, or GOOGLE_APPLICATION_CREDENTIALS in the environment"
            ),
        ),
    ),
    "abfs": AZURE_REASONS,
    "hdfs": (),
}
_CODE = re.compile(r"AWS Error (\w+(?: \(HTTP status \d+\))?)")


def _find_cause(store: Store, error: Exception) -> Exception:
    """Replace an error without details by the error of a request that reports the cause.

    The response to a HEAD request has no body, so it does not contain the cause.
    """
    if store.kind != "s3" or "No response body" not in str(error):
        return error
    try:
        from pyarrow import fs

        filesystem_of(store).get_file_info(fs.FileSelector(store.top, recursive=False))
    except (OSError, pa.ArrowException) as telling_error:
        return error if "No response body" in str(telling_error) else telling_error
    return error


def _why(store: Store, error: Exception) -> tuple[int, str]:
    text = str(error)
    for pattern, number, why in _REASONS[store.kind]:
        if re.search(pattern, text):
            code = _CODE.search(text)
            code_text = "" if code is None else code[1]
            host = store.root.rpartition("@")[2]
            who = credentials_text(dict(store.options), host) if store.kind == "abfs" else ""
            return number, why.format(store.top, s=_SPARKS, code=code_text, host=host, who=who)
    lines = text.splitlines()
    return errno.EIO, lines[0] if lines else kind_in_words(error)
