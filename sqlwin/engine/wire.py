"""Messages between command, engine and run: JSON with a length prefix, and open files."""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Sequence
from typing import Any

Message = dict[str, Any]

_LENGTH = struct.Struct(">I")


class Closed(Exception):
    """The other side has closed the connection."""


def send_message(channel: socket.socket, message: Message, files: Sequence[int] = ()) -> None:
    """Send a message, with files to open on the other side.

    Raises:
        OSError: The other side has closed the connection.
    """
    data = json.dumps(message).encode()
    head = _LENGTH.pack(len(data))
    n_sent = socket.send_fds(channel, [head], list(files)) if files else 0
    channel.sendall(head[n_sent:] + data)


def receive(channel: socket.socket, n_files: int = 0) -> tuple[Message, list[int]]:
    """Wait for a message and return it with its files.

    Raises:
        Closed: The other side has closed the connection.
        OSError: The socket's timeout has passed.
    """
    head, files, _, _ = socket.recv_fds(channel, _LENGTH.size, n_files)
    for file in files:
        os.set_inheritable(file, False)
    try:
        head += _read(channel, _LENGTH.size - len(head)) if head else b""
        if not head:
            raise Closed
        return json.loads(_read(channel, *_LENGTH.unpack(head))), files
    except BaseException:
        for file in files:
            os.close(file)
        raise


def _read(channel: socket.socket, n_bytes: int) -> bytes:
    data = b""
    while len(data) < n_bytes:
        piece = channel.recv(n_bytes - len(data))
        if not piece:
            raise Closed
        data += piece
    return data
