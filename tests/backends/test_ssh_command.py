"""jobctl (.jobc/job.json) and the scripts (client.sh) reach the hosts in the same way."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import Request

OPTIONS = ("backend.user=ann", "backend.port=2222", "backend.options=['-o','ProxyJump=gate']", "backend.host_keys=new")


@pytest.mark.parametrize(
    ("words", "client"),
    [
        (("backend=ssh",), "ssh"),
        (("backend=ssh", *OPTIONS, "backend.fanout=5"), "ssh"),
        (("backend=accelerate", *OPTIONS), "ssh"),
        (("backend=pdsh", "backend.host_keys=new", "backend.connect_timeout=3s"), "pdsh"),
        (("backend=pdsh", "backend.client=clush"), "clush"),
    ],
)
def test_jobctl_and_the_scripts_run_the_same_ssh(words: tuple[str, ...], client: str, tmp_path: Path) -> None:
    request = Request((*words, "nodes=2", "hosts=[a,b]", "command=[prog]"))
    files = {artifact.path: artifact.text for artifact in compile_job(request).artifacts}
    (tmp_path / "client.sh").write_text(files["client.sh"])
    script = 'source "$0"; printf "%s\\n" "$fanout" "${ssh_command[@]}"'
    said = subprocess.run(["bash", "-c", script, tmp_path / "client.sh"], capture_output=True, text=True, check=True)
    fanout, *ssh_command = said.stdout.splitlines()
    named = {"client": client, "ssh_command": ssh_command, "fanout": int(fanout)}
    assert json.loads(files[".jobc/job.json"])["hosts"] == named


def test_nodes_of_accelerate_on_this_machine_have_no_client() -> None:
    request = Request(("backend=accelerate", "nodes=1", "command=[prog]"))
    text = next(artifact.text for artifact in compile_job(request).artifacts if artifact.path == ".jobc/job.json")
    assert "hosts" not in json.loads(text)
