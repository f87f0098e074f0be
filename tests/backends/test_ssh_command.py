"""The ssh command for hosts: it never asks for a password, waits for a lost host, or accepts an unknown key unless
allowed.
"""

from __future__ import annotations

import json

import pytest

from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest

OPTIONS = ("backend.user=ann", "backend.port=2222", "backend.options=['-o','ProxyJump=gate']", "backend.host_keys=new")
ALIVE = "-o ServerAliveInterval=5 -o ServerAliveCountMax=3"
SSH = f"ssh -o BatchMode=yes -o ConnectTimeout=10 {ALIVE} -o StrictHostKeyChecking="
HASTY = f"ssh -o BatchMode=yes -o ConnectTimeout=3 {ALIVE} -o StrictHostKeyChecking="


@pytest.mark.parametrize(
    ("words", "client", "ssh_command", "fanout"),
    [
        (("backend=ssh",), "ssh", f"{SSH}yes", 32),
        (("backend=ssh", *OPTIONS, "backend.fanout=5"), "ssh", f"{SSH}accept-new -l ann -p 2222 -o ProxyJump=gate", 5),
        (("backend=accelerate", *OPTIONS), "ssh", f"{SSH}accept-new -l ann -p 2222 -o ProxyJump=gate", 32),
        (("backend=pdsh", "backend.host_keys=new", "backend.connect_timeout=3s"), "pdsh", f"{HASTY}accept-new", 32),
        (("backend=pdsh", "backend.client=clush"), "clush", f"{SSH}yes", 32),
    ],
)
def test_options_of_the_client(words: tuple[str, ...], client: str, ssh_command: str, fanout: int) -> None:
    request = CompileRequest((*words, "nodes=2", "hosts=[a,b]", "command=[prog]"))
    text = next(artifact.text for artifact in compile_job(request).artifacts if artifact.path == ".jobc/job.json")
    assert json.loads(text)["hosts"] == {"client": client, "ssh_command": ssh_command.split(), "fanout": fanout}


def test_nodes_of_accelerate_on_this_machine_have_no_client() -> None:
    request = CompileRequest(("backend=accelerate", "nodes=1", "command=[prog]"))
    text = next(artifact.text for artifact in compile_job(request).artifacts if artifact.path == ".jobc/job.json")
    assert "hosts" not in json.loads(text)
