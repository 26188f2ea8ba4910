"""A connection between two processes of a run, on which messages come whole or not at all."""

import json
import socket
from threading import Lock
from typing import NamedTuple

import numpy as np
import safetensors.numpy

from phloem.runs.ranks import Parcel

LENGTH_BYTES = 8
# Of silence until the other host is asked whether it is there, between two such questions, and how many it may miss:
# a process that ends says so at once, a host that loses its power or its network does not.
KEEP_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
UNANSWERED_MILLISECONDS = 30_000


class Message(NamedTuple):
    """What one process tells another."""

    name: str
    parcel: Parcel


def encode(name: str, parcel: Parcel) -> bytes:
    """A message as bytes."""
    arrays = {key: np.asarray(array, order="C") for key, array in parcel.arrays.items()}
    content = safetensors.numpy.save(arrays, {"name": name, "values": json.dumps(dict(parcel.values))})
    return len(content).to_bytes(LENGTH_BYTES, "little") + content


def decode(content: bytes) -> Message:
    """The message, from all bytes but its length."""
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    texts = header["__metadata__"]
    return Message(texts["name"], Parcel(json.loads(texts["values"]), safetensors.numpy.load(content)))


class Wire:
    """One end of a connection. Any thread may send, one receives."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = Lock()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in {**KEEP_ALIVE, "TCP_USER_TIMEOUT": UNANSWERED_MILLISECONDS}.items():
            if hasattr(socket, option):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

    def send(self, name: str, parcel: Parcel = Parcel()) -> None:  # noqa: B008  it cannot change
        """Send a message; OSError if the other end is gone."""
        self.send_encoded(encode(name, parcel))

    def send_encoded(self, message: bytes) -> None:
        """The same for one that goes to several."""
        with self._sending:
            self._connection.sendall(message)

    def receive(self, *, most_bytes: int | None = None, seconds: float | None = None) -> Message:
        """Wait for the next message; OSError if the other end is gone, EOFError if it has closed.

        most_bytes: of a message from who knows whom; one that is longer is a ValueError. seconds: to wait for it.
        """
        if seconds is not None:
            self._connection.settimeout(seconds)
        length = int.from_bytes(self._exactly(LENGTH_BYTES), "little")
        if most_bytes is not None and length > most_bytes:
            raise ValueError(f"a message of {length:,} bytes")
        message = decode(self._exactly(length))
        if seconds is not None:
            self._connection.settimeout(None)
        return message

    def close(self) -> None:
        """Close this end."""
        self._connection.close()

    def _exactly(self, count: int) -> bytes:
        content = bytearray(count)
        view = memoryview(content)
        done = 0
        while done < count:
            received = self._connection.recv_into(view[done:])
            if not received:
                raise EOFError
            done += received
        return bytes(content)
