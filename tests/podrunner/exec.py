"""`kubectl exec`: run a command in a container over a WebSocket, protocol v5.channel.k8s.io.

Each binary message begins with its channel: 0 stdin, 1 stdout, 2 stderr, 3 how it ended, 255 closes a channel.
Source: RFC 6455; Kubernetes "Remote command" (k8s.io/apimachinery/pkg/util/remotecommand).
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import subprocess
import threading
from http.server import BaseHTTPRequestHandler
from typing import IO, Any

from .container import Container

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
STDIN, STDOUT, STDERR, ERROR, CLOSE = 0, 1, 2, 3, 255


def serve_exec(handler: BaseHTTPRequestHandler, container: Container, query: dict[str, list[str]]) -> None:
    key = handler.headers["Sec-WebSocket-Key"] + GUID
    handler.send_response(101)
    handler.send_header("Upgrade", "websocket")
    handler.send_header("Connection", "Upgrade")
    handler.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
    handler.send_header("Sec-WebSocket-Protocol", "v5.channel.k8s.io")
    handler.end_headers()
    handler.close_connection = True
    pipe = subprocess.PIPE
    with container.execute(query["command"], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        lock = threading.Lock()
        copies = [
            threading.Thread(target=_copy, args=(handler, lock, channel, stream), daemon=True)
            for channel, stream in ((STDOUT, process.stdout), (STDERR, process.stderr))
        ]
        for thread in copies:
            thread.start()
        threading.Thread(target=_feed, args=(handler, lock, process), daemon=True).start()
        for thread in copies:
            thread.join()
        code = process.wait()
    with contextlib.suppress(OSError):
        _send(handler, lock, ERROR, json.dumps(_ended(code)).encode())
        handler.wfile.write(b"\x88\x02\x03\xe8")  # close, 1000
        handler.wfile.flush()


def _ended(code: int) -> dict[str, Any]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(code)}]
    message = f"command terminated with non-zero exit code: exit status {code}"
    reason = {"status": "Failure", "reason": "NonZeroExitCode", "message": message}
    return {"metadata": {}, **reason, "details": {"causes": causes}}


def _copy(handler: BaseHTTPRequestHandler, lock: threading.Lock, channel: int, stream: IO[bytes]) -> None:
    with contextlib.suppress(OSError):
        while data := stream.read1(65536):  # type: ignore[attr-defined]
            _send(handler, lock, channel, data)


def _send(handler: BaseHTTPRequestHandler, lock: threading.Lock, channel: int, data: bytes) -> None:
    length = len(data) + 1
    size = bytes([length]) if length < 126 else b"\x7e" + length.to_bytes(2, "big")
    if length >= 2**16:
        size = b"\x7f" + length.to_bytes(8, "big")
    with lock:
        handler.wfile.write(b"\x82" + size + bytes([channel]) + data)
        handler.wfile.flush()


def _feed(handler: BaseHTTPRequestHandler, lock: threading.Lock, process: subprocess.Popen[bytes]) -> None:
    """Copy the client's messages to the command's stdin until the client closes either."""
    assert process.stdin is not None
    with contextlib.suppress(OSError, ValueError):
        while (received := _receive(handler.rfile)) is not None:
            is_ping, message = received
            if is_ping:  # kubectl sends pings, and disconnects if there is no reply
                with lock:
                    handler.wfile.write(b"\x8a" + bytes([len(message)]) + message)
                    handler.wfile.flush()
            elif message[:1] == bytes([CLOSE]):
                process.stdin.close()
            elif message[:1] == bytes([STDIN]):
                process.stdin.write(message[1:])
                process.stdin.flush()
        process.kill()  # the client has disconnected


def _receive(stream: IO[bytes]) -> tuple[bool, bytes] | None:
    """Return whether it is a ping, and one unmasked message from a client; None at the end."""
    head = stream.read(2)
    if len(head) < 2 or head[0] & 0x0F == 8:
        return None
    length = head[1] & 0x7F
    if length >= 126:
        length = int.from_bytes(stream.read(2 if length == 126 else 8), "big")
    mask = stream.read(4)
    data = stream.read(length)
    return head[0] & 0x0F == 9, bytes(byte ^ mask[i % 4] for i, byte in enumerate(data))
