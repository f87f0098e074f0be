"""The job `demo` on hosts, with `jobctl task` and ssh as stand-ins: no node is started."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from jobc.runtime.engines.artifact_location import Place
from jobc.runtime.engines.hosts_engine import HostsEngine
from jobc.runtime.run_folder.run import Run
from jobc.runtime.system.command_line import run_verb_until_ended
from jobc.runtime.verbs import submit

from .hosts_bed import Bed
from .sample_runs import node

# It does what TASK/code.NODE says, else comes up and ends well
TASK = """#!/bin/bash
run=$1 attempt=$2 host=$3 payload=$4
echo "$host $payload ${5:-}" >>TASK/calls
if [[ -f TASK/code.$host ]]; then source TASK/code.$host; fi
node=node_0$(($(grep -nxF "$host" "$run/artifact/$attempt/hosts.txt" | cut -d : -f 1) - 1))
if [[ $payload != start ]]; then exit; fi
mkdir -p "$run/state" "$run/exit/$attempt" "$run/logs"
echo "=== hello of $host" >"$run/logs/$node.log"
echo 0 >"$run/exit/$attempt/$node"
printf 'attempt=%s\\n' "$attempt" | tee "$run/state/head" >"$run/state/link"
cat TASK/ended >"$run/state/$node"
"""
READY = "[[ $payload != preflight ]] || { printf 'ok\\tx\\tgood\\nend\\n'; exit; }"


class Submit:
    """Job demo on hosts a, b and c; each has what is at `runs` here in a folder of its own if storage=node."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capfd, self.monkeypatch = folder, capfd, monkeypatch
        self.artifact, self.runs = folder / "artifacts/demo/ssh", folder / "runs/demo"
        (self.artifact / ".jobc").mkdir(parents=True)
        (folder / "task").write_text(TASK.replace("TASK", str(folder)))
        become = f"import os, sys; os.execvp('bash', ['bash', '{folder}/task', *sys.argv[2:]])\n"
        (self.artifact / "jobctl").write_text(become)
        (folder / "ended").write_text(node(attempt=0, ended=5, exit=0))
        monkeypatch.setattr(sys, "argv", [str(self.artifact / "jobctl")])
        monkeypatch.setattr(Place, "engine", lambda place: HostsEngine(place.job))
        monkeypatch.setenv("HOME", str(folder / "home"))
        monkeypatch.setattr("jobc.runtime.engines.host_updates.LOOK_S", 0.01)
        self.bed = Bed(folder, folder / "runs", monkeypatch, "a", "b", "c")
        self.set()

    def set(self, hosts: str = "a\nb\nc\n", client: str = "ssh", **settings: Any) -> None:
        (self.artifact / "hosts.txt").write_text(hosts)
        tree = {"job": "demo", "runs": "runs", "backend": "ssh", "nodes": 3, "grace_s": 1, "storage": "shared"}
        tree |= {"place": "demo/ssh", "identity": ["seed = 0"], "spec": ["seed = 0"]}
        tree |= {"hosts": {"client": client, "ssh_command": ["ssh"], "fanout": 4}}
        tree |= {"procs": 2, "code": {"kind": "none"}, "saved_secrets": [], **settings}
        (self.artifact / ".jobc/job.json").write_text(json.dumps(tree))
        if tree["storage"] == "node":
            self.bed.separate()

    def __call__(self, *words: str, verb: Any = submit) -> tuple[int, str]:
        """Run a verb. Return its exit code and output."""
        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
        try:
            code = run_verb_until_ended(verb.main, [*words])
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        printed = self.capfd.readouterr()
        return code, printed.out + printed.err

    def behave(self, host: str, script: str) -> None:
        (self.folder / f"code.{host}").write_text(script)

    @property
    def calls(self) -> list[str]:
        file = self.folder / "calls"
        return [line.strip() for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def run(self) -> Run:
        (path,) = self.runs.iterdir()
        return Run(path)

    def copy(self, host: str, path: str = "") -> Path:
        """A file of the run on a host."""
        return self.bed.root(host) / "demo/r" / path
