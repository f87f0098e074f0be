"""Exchange JSON objects, one per line, over a TCP connection without blocking."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import socket
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

MOST_BYTES = 65536  # maximum length of a line; jobc's lines are shorter

if TYPE_CHECKING:
    Message = dict[str, Any]


class JsonConnection:
    """One end of a connection. node: the peer's number; -1 until the peer has proved that it belongs to the run."""

    def __init__(self, connection: socket.socket, node: int = -1) -> None:
        connection.setblocking(False)
        self.connection, self.node = connection, node
        self.nonce = secrets.token_hex(16)
        self.heard = time.monotonic()
        self.told: set[str] = set()  # marks that the peer already has
        self.is_open = True
        self._incoming, self._outgoing = b"", b""

    def send(self, **message: Any) -> None:
        self._outgoing += json.dumps(message).encode() + b"\n"
        self.flush()

    def flush(self) -> bool:
        """Send as much as the kernel accepts, and return whether everything was sent."""
        try:
            while self._outgoing and self.is_open:
                self._outgoing = self._outgoing[self.connection.send(self._outgoing) :]
        except BlockingIOError:
            pass
        except OSError:
            self.is_open = False
        return not self._outgoing

    def receive(self) -> Iterator[Message]:
        """Yield the messages that have arrived. A closed connection or invalid data sets is_open to False."""
        try:
            piece = self.connection.recv(MOST_BYTES)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        *lines, self._incoming = (self._incoming + piece).split(b"\n")
        self.is_open = self.is_open and bool(piece) and len(self._incoming) < MOST_BYTES
        if piece:
            self.heard = time.monotonic()
        for line in lines:
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            if not isinstance(message, dict):
                self.is_open = False
                return
            yield message


def prove_token(token: str, nonce: str) -> str:
    """Return a proof that the sender knows the token, without revealing the token."""
    return hmac.new(token.encode(), nonce.encode(), hashlib.sha256).hexdigest()
