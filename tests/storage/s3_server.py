"""A real S3 server for the tests: moto's, in its own process, which checks users and every signature.

with S3Server() as server:
    server.endpoint, server.environment, server.overrides, server.listed()
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from jobc.runtime.storage.bucket import Bucket
from jobc.runtime.storage.credentials import CredentialCache
from jobc.tests.testbed import wait_for

from .prepare import FREE_ACTIONS

NAME, REGION = "runs-of-jobc", "us-east-1"
PREPARE = str(Path(__file__).with_name("prepare.py"))
Run = Callable[[Sequence[str], Mapping[str, str]], str]  # runs a command and returns its output; raises if it fails
Start = Callable[[Sequence[str], Mapping[str, str]], "subprocess.Popen[bytes]"]


def start_here(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    nothing = subprocess.DEVNULL
    return subprocess.Popen(command, env={**os.environ, **environment}, stdout=nothing, stderr=nothing)


def run_here(command: Sequence[str], environment: Mapping[str, str]) -> str:
    environment = {**os.environ, **environment}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


class S3Server:
    """A server. address: the machine's, as its clients see it; start, run: how processes are started there."""

    def __init__(self, address: str = "127.0.0.1", start: Start = start_here, run: Run = run_here) -> None:
        with socket.create_server(("", 0)) as probe:
            port = probe.getsockname()[1]
        self.endpoint, self._run = f"http://{address}:{port}", run
        moto = find_spec("moto")
        assert moto is not None and moto.origin is not None, "moto is in the extra `dev`"
        self._library = {"PYTHONPATH": str(Path(moto.origin).parents[1])}
        command = [sys.executable, "-m", "moto.server", "-H", "0.0.0.0", "-p", str(port)]
        self.process = start(command, {**self._library, "INITIAL_NO_AUTH_ACTION_COUNT": str(FREE_ACTIONS)})

        def answers() -> bool:
            try:
                run([sys.executable, "-c", f"import socket; socket.create_connection(('{address}', {port}), 2)"], {})
            except Exception:  # works for both kinds of machine
                return False
            return True

        wait_for(answers, "an S3 server")
        self.key, self.secret = self._prepared("make", NAME)

    def _prepared(self, *words: str) -> list[str]:
        environment = {**self._library, "MOTO": self.endpoint}
        return self._run([sys.executable, PREPARE, *words], environment).split()

    @property
    def environment(self) -> dict[str, str]:
        """Return the credentials as environment variables."""
        named = {"AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret}
        return {**named, "AWS_EC2_METADATA_DISABLED": "true"}

    @property
    def overrides(self) -> tuple[str, ...]:
        """Return the overrides of a job that stores its runs there."""
        return ("storage.run=object", f"storage.root=s3://{NAME}/some/runs", f"storage.endpoint={self.endpoint}")

    def listed(self) -> list[str]:
        """Return the keys of all objects below the root."""
        return self._prepared("list", NAME, "some/runs/", self.key, self.secret)

    def bucket(self, prefix: str = "some/runs", **changed: str) -> Bucket:
        """Return the bucket as accessed from this machine. changed: changes to the environment"""
        wallet = CredentialCache({**self.environment, **changed}, REGION)
        return Bucket(f"s3://{NAME}/{prefix}", self.endpoint, REGION, wallet, pause=lambda _: None)

    def __enter__(self) -> S3Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()
