"""A server in this process that speaks the protocols of Azure Blob and Data Lake Storage over HTTP.

It implements the requests of `pyarrow.fs.AzureFileSystem` and deltalake: blobs are put, as a whole
or in blocks and if requested only when absent, listed, read and deleted. Each request is signed
with the account's key or has the one SAS token. With `is_hierarchical` the account has directories,
which are listed as separate blobs. The account is the first part of the path, as in emulators.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

from pyspark.sql import SparkSession

from tests.http_servers import serving
from tests.remote_store import RemoteStore

ACCOUNT = "lakehouse"
KEY = base64.b64encode(b"the account key of the tests, 32+").decode()
WRONG_KEY = base64.b64encode(b"the account key of somebody else").decode()
SAS = "sv=2024-11-04&ss=b&srt=sco&sp=rl&se=2099-01-01T00%3A00%3A00Z&sig=c2lnbmF0dXJl%3D"
HOST = f"{ACCOUNT}.dfs.core.windows.net"
_SIGNED = (
    "Content-Encoding",
    "Content-Language",
    "Content-Length",
    "Content-MD5",
    "Content-Type",
    "Date",
    "If-Modified-Since",
    "If-Match",
    "If-None-Match",
    "If-Unmodified-Since",
    "Range",
)


@dataclass
class Blob:
    """The bytes of a blob, and when they were put; a directory has no bytes."""

    content: bytes
    is_directory: bool = False
    written: float = field(default_factory=time.time)

    @property
    def etag(self) -> str:
        """Tag that changes with the bytes."""
        return f'"0x{hashlib.sha256(self.content).hexdigest()[:15].upper()}"'


@dataclass
class AzureStore(RemoteStore):
    """The server, with one account.

    Attributes:
        container: The only container.
        is_hierarchical: Whether the account has directories.
        page: Maximum number of blobs in a page of a listing.
        blobs: Blobs by name.
        requests: Method, path and query of the requests so far.
        failing: Code with which every request is refused, such as `ServerBusy`.
        n_refused: Number of blobs that were not put because they existed.
    """

    container: str
    is_hierarchical: bool = False
    page: int = 5000
    port: int = 0
    secret: str = KEY
    blobs: dict[str, Blob] = field(default_factory=dict)
    blocks: dict[tuple[str, str], bytes] = field(default_factory=dict)
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    failing: str = ""
    n_refused: int = 0
    delay: tuple[str, str, float] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def settings(self, **changed: str) -> dict[str, str]:
        """Return Hadoop's settings; `account_key="x"` sets the key, `sas` the token."""
        settings = {"abfs.endpoint": f"127.0.0.1:{self.port}", "always.use.https": "false"}
        if "sas" in changed:
            settings[f"sas.fixed.token.{HOST}"] = changed.pop("sas")
        else:
            settings[f"account.key.{HOST}"] = changed.pop("account_key", KEY)
        settings |= {name.replace("_", "."): value for name, value in changed.items()}
        return {f"fs.azure.{name}": value for name, value in settings.items()}

    def forget(self, spark: SparkSession) -> None:
        """Remove the store's settings from a Spark session."""
        for name in {**self.settings(), **self.settings(sas=SAS)}:
            spark.conf.unset(name)

    @contextmanager
    def meeting(self, part: str) -> Iterator[None]:
        """Let two writes begin before either has ended, so that one is refused."""
        n_refused = self.n_refused
        with self.waiting("PUT", part, 1):
            yield
        assert self.n_refused == n_refused + 1

    @contextmanager
    def waiting(self, method: str, part: str, seconds: float) -> Iterator[None]:
        """Delay requests of a method whose path contains a part, in this block."""
        self.delay = method, part, seconds
        try:
            yield
        finally:
            self.delay = None

    def uri(self, path: str = "", container: str = "") -> str:
        """Return a URI in the container."""
        return f"abfs://{container or self.container}@{HOST}/{path}".rstrip("/")


class _Refused(Exception):
    def __init__(self, status: int, code: str) -> None:
        self.status, self.code = status, code


Answer = tuple[int, dict[str, str], bytes]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: AzureStore

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def answer(self) -> None:
        """Answer a request of any method."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        method, part, seconds = self.store.delay or ("", "", 0.0)
        if self.command == method and part in parts.path:
            time.sleep(seconds)
        try:
            with self.store.lock:
                self.store.requests.append((self.command, parts.path, parts.query))
                status, headers, content = self._respond(unquote(parts.path), query, body)
        except _Refused as refused:
            text = f"<Error><Code>{refused.code}</Code><Message>no</Message></Error>"
            status, content = refused.status, text.encode()
            headers = {"x-ms-error-code": refused.code}
            if self.command != "HEAD":
                headers["Content-Type"] = "application/xml"
        self.send_response(status)
        for name, value in {
            "x-ms-request-id": "1",
            "x-ms-version": "2024-08-04",
            **headers,
        }.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_DELETE = answer

    def _respond(self, path: str, query: dict[str, str], body: bytes) -> Answer:
        store = self.store
        if store.failing:
            raise _Refused(503 if store.failing == "ServerBusy" else 403, store.failing)
        self._check_signature(query)
        _, account, container, *below = path.split("/", 3)
        assert account == ACCOUNT, path
        name = below[0] if below else ""
        if container != store.container:
            raise _Refused(404, "ContainerNotFound" if self._is_blob() else "FilesystemNotFound")
        if query.get("action") == "getAccessControl":
            if not store.is_hierarchical:
                raise _Refused(400, "HierarchicalNamespaceNotEnabled")
            return 200, {**_ACCESS, **_times(0)}, b""
        if query.get("resource") == "filesystem":
            return 200, {"Content-Type": "application/json"}, _paths(store, query)
        if query.get("restype") == "container":
            if query.get("comp") == "list":
                return 200, {"Content-Type": "application/xml"}, _listing(store, query)
            return 200, {**_CONTAINER, **_times(0)}, b""
        if query.get("comp") == "lease" and name in store.blobs:
            # deletion starts with a read, to check that the blob did not change
            lease = self.headers.get("x-ms-proposed-lease-id") or ""
            blob = store.blobs[name]
            return 201, {"ETag": blob.etag, "x-ms-lease-id": lease, **_times(blob.written)}, b""
        if self.command == "PUT" and query.get("comp") != "lease":
            return self._put(name, query, body)
        if name not in store.blobs:
            raise _Refused(404, "BlobNotFound" if self._is_blob() else "PathNotFound")
        if self.command == "DELETE":
            del store.blobs[name]
            return 202, {}, b""
        return self._read(store.blobs[name])

    def _is_blob(self) -> bool:
        return "action=" not in self.path and "resource=" not in self.path

    def _put(self, name: str, query: dict[str, str], body: bytes) -> Answer:
        store = self.store
        if query.get("comp") == "block":
            store.blocks[name, query["blockid"]] = body
            return 201, _ENCRYPTED, b""
        if query.get("comp") == "blocklist":
            text = body.decode()
            ids = [unescape(part.split("<", 1)[0]) for part in text.split("<Latest>")[1:]]
            body = b"".join(store.blocks[name, item] for item in ids)
        if self.headers.get("If-None-Match") == "*" and name in store.blobs:
            store.n_refused += 1
            raise _Refused(409, "BlobAlreadyExists")
        blob = store.blobs[name] = Blob(body, self.headers.get("x-ms-meta-hdi_isfolder") == "true")
        if store.is_hierarchical:
            above = name.split("/")[:-1]
            for depth in range(1, len(above) + 1):
                store.blobs.setdefault("/".join(above[:depth]), Blob(b"", is_directory=True))
        return 201, {"ETag": blob.etag, **_times(blob.written), **_ENCRYPTED}, b""

    def _read(self, blob: Blob) -> Answer:
        headers = {
            "Content-Type": "application/octet-stream",
            "ETag": blob.etag,
            "x-ms-blob-type": "BlockBlob",
            "x-ms-lease-state": "available",
            "x-ms-lease-status": "unlocked",
            "x-ms-server-encrypted": "true",
            "x-ms-creation-time": formatdate(blob.written, usegmt=True),
            "Accept-Ranges": "bytes",
            **_times(blob.written),
        }
        if blob.is_directory:
            headers["x-ms-meta-hdi_isfolder"] = "true"
        if self.command == "HEAD":
            return 200, {**headers, "Content-Length": str(len(blob.content))}, b""
        byte_range = self.headers.get("x-ms-range") or self.headers.get("Range")
        if byte_range is None:
            return 200, headers, blob.content
        first, _, last = byte_range.removeprefix("bytes=").partition("-")
        content = blob.content[int(first) : int(last) + 1 if last else None]
        if not content:
            raise _Refused(416, "InvalidRange")
        end = int(first) + len(content) - 1
        headers["Content-Range"] = f"bytes {first}-{end}/{len(blob.content)}"
        return 206, headers, content

    def _check_signature(self, query: dict[str, str]) -> None:
        """Check that a request is signed as in "Authorize with Shared Key"."""
        authorization = self.headers.get("Authorization")
        if authorization is None:
            expected = dict(parse_qsl(SAS))
            if any(query.get(name) != value for name, value in expected.items()):
                raise _Refused(
                    403, "AuthenticationFailed" if "sig" in query else "NoAuthentication"
                )
            return
        values = [self.headers.get(name) or "" for name in _SIGNED]
        if values[2] == "0":
            values[2] = ""
        own = sorted((n.lower(), v) for n, v in self.headers.items() if n.lower()[:5] == "x-ms-")
        text = "\n".join([self.command, *values, *(f"{n}:{v.strip()}" for n, v in own), ""])
        text += f"/{ACCOUNT}{urlsplit(self.path).path}"
        text += "".join(f"\n{name.lower()}:{value}" for name, value in sorted(query.items()))
        digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
        if authorization != f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}":
            raise _Refused(403, "AuthenticationFailed")


_ACCESS = {
    "ETag": '"0x1"',
    "x-ms-acl": "user::rwx,group::r-x,other::---",
    "x-ms-owner": "$superuser",
    "x-ms-group": "$superuser",
    "x-ms-permissions": "rwxr-x---",
}
_CONTAINER = {
    "ETag": '"0x1"',
    "x-ms-lease-state": "available",
    "x-ms-lease-status": "unlocked",
    "x-ms-has-immutability-policy": "false",
    "x-ms-has-legal-hold": "false",
    "x-ms-immutable-storage-with-versioning-enabled": "false",
    "x-ms-default-encryption-scope": "$account-encryption-key",
    "x-ms-deny-encryption-scope-override": "false",
}
_ENCRYPTED = {"x-ms-request-server-encrypted": "true"}


def _times(written: float) -> dict[str, str]:
    return {"Last-Modified": formatdate(written, usegmt=True)}


def _listing(store: AzureStore, query: dict[str, str]) -> bytes:
    """Return a page of a listing: blobs, and with a delimiter the directories."""
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
    result: dict[str, Blob | None] = {}
    for name in sorted(store.blobs):
        if name.startswith(prefix):
            end = name.find(delimiter, len(prefix)) if delimiter else -1
            result |= {name: store.blobs[name]} if end < 0 else {name[: end + 1]: None}
    # first name of a page, and of the next page
    first = max(query.get("marker", ""), query.get("startFrom", ""))
    names = [name for name in sorted(result) if name >= first]
    n_shown = min(store.page, int(query.get("maxresults", store.page)))
    marker = names[n_shown] if len(names) > n_shown else ""
    entries = "".join(_entry(name, result[name]) for name in names[:n_shown])
    return (
        '<?xml version="1.0" encoding="utf-8"?><EnumerationResults ContainerName='
        f'"{store.container}"><Prefix>{escape(prefix)}</Prefix><Blobs>{entries}</Blobs>'
        f"<NextMarker>{escape(marker)}</NextMarker></EnumerationResults>"
    ).encode()


def _paths(store: AzureStore, query: dict[str, str]) -> bytes:
    """Return the contents of a directory of a hierarchical account, optionally recursive."""
    top = query.get("directory", "").strip("/")
    if top and top not in store.blobs:
        raise _Refused(404, "PathNotFound")
    below = f"{top}/" if top else ""
    paths = [
        {
            "name": name,
            "isDirectory": str(blob.is_directory).lower(),
            "contentLength": str(len(blob.content)),
            "lastModified": formatdate(blob.written, usegmt=True),
            "etag": blob.etag,
            "creationTime": "133500000000000000",
            **{name: "$superuser" for name in ("owner", "group")},
            "permissions": "rw-r-----",
        }
        for name, blob in sorted(store.blobs.items())
        if name.startswith(below)
        and (query.get("recursive") == "true" or "/" not in name[len(below) :])
    ]
    return json.dumps({"paths": paths}).encode()


def _entry(name: str, blob: Blob | None) -> str:
    if blob is None:
        return f"<BlobPrefix><Name>{escape(name)}</Name></BlobPrefix>"
    time_ = formatdate(blob.written, usegmt=True)
    metadata = "<hdi_isfolder>true</hdi_isfolder>" if blob.is_directory else ""
    return (
        f"<Blob><Name>{escape(name)}</Name><Properties><Creation-Time>{time_}</Creation-Time>"
        f"<Last-Modified>{time_}</Last-Modified><Etag>{escape(blob.etag)}</Etag><Content-Length>"
        f"{len(blob.content)}</Content-Length><Content-Type>application/octet-stream</Content-Type>"
        "<BlobType>BlockBlob</BlobType></Properties>"
        f"<Metadata>{metadata}</Metadata></Blob>"
    )


@contextmanager
def azure_store(container: str = "lake", *, is_hierarchical: bool = False) -> Iterator[AzureStore]:
    """Start a server with an empty container."""
    result = AzureStore(container, is_hierarchical)
    handler = type("Handler", (_Handler,), {"store": result})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    result.port = server.server_port
    with serving(server):
        yield result
