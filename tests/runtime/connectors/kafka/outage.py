"""A broker behind a door: a TCP proxy that can be closed, as if the broker were away."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Door:
    """Proxy on a port of this machine. Clients know only its address.

    Args:
        target: Host and port that it forwards to.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener: socket.socket | None = None
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])

    @property
    def address(self) -> str:
        """Address that clients connect to."""
        return f"127.0.0.1:{self.port}"

    def open(self) -> None:
        """Accept connections."""
        listener = socket.create_server(("127.0.0.1", self.port))
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> None:
        """Refuse connections, and cut those that exist."""
        if self._listener is not None:
            # wakes the thread that accepts
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._connections.clear()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:  # the broker is not there yet
                client.close()
                continue
            with self._lock:
                self._connections |= {client, server}
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=pair, daemon=True).start()

    @staticmethod
    def _forward(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def door_to(target: tuple[str, int]) -> Iterator[Door]:
    """Open a door, and close it after the block."""
    door = Door(target)
    door.open()
    try:
        yield door
    finally:
        door.close()
