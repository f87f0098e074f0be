"""A stand-in for kubectl, and job demo of backend kubernetes that calls it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobc.backends.kubernetes.engine import cluster, object_creation, run_trial, storage_pod
from jobc.backends.kubernetes.engine.kubernetes_engine import KubernetesEngine
from jobc.runtime.engines.artifact_location import Place
from jobc.runtime.engines.engine import Answer
from jobc.runtime.system.command_line import run_verb_until_ended
from jobc.runtime.system.values import read_keys
from jobc.runtime.verbs import submit

KIND, TRAIN_JOB = "job.batch", "trainjob.trainer.kubeflow.org"
CREATES = {"object": "demo-1a2b", "kind": KIND, "companions": "configmap,service"}
MANIFESTS = """\
apiVersion: v1
data:
  launch.sh: |
    # ends in ---
    export JOBC_NODE_LIST='demo-1a2b-[0-1]'
kind: ConfigMap
metadata:
  name: demo-1a2b
---
apiVersion: batch/v1
kind: Job
metadata:
  annotations: {jobc/owner: ""}
  name: demo-1a2b
spec:
  env:
  - name: JOBC_JOB_UID
    value: none
"""
LONE_POD = json.dumps(
    {
        "kind": "Pod",
        "metadata": {"name": "demo-1a2b-shell"},
        "spec": {"volumes": [{"name": "files", "configMap": {"name": "demo-1a2b"}}]},
    }
)
LIVE = "uid-9\tann@host, run z\tbatch/v1\tJob\tdemo-1a2b\n"
DONE = f"{LIVE}Complete\tx\ty\n"
API = "delete --raw /apis/batch/v1/namespaces/ns/jobs"


def named(text: str) -> str:
    """The text with the same name for each pod beside the job."""
    return re.sub(r"(?<=-shell-)[0-9a-f]{6}\b", "0a0b0c", text)


class Kubectl:
    """Stands in for kubectl; calls: its words without namespace and context, as one text each."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.created: list[str] = []  # manifests
        self.found = ""  # the object, as Cluster.find_object() asks for it
        self.companions = ""  # kinds beside the object, with their uids
        self.made = ""  # the object after it was created
        self.refusal, self.refused, self.phase, self.codes, self.log = "", "", "Running", "", ""
        self.on_companions: Callable[[], None] = lambda: None
        self.reply: Callable[[str, str], Answer | None] = lambda call, text: None  # instead of what follows here

    def ask(self, _: KubernetesEngine, words: list[str], text: str = "", **__: object) -> Answer:
        place = ("--namespace=", "--context=") if words[1] != "config" else ()
        call = named(" ".join(word for word in words[1:] if not word.startswith(place)))
        if answer := self.reply(call, text):
            return answer
        self.calls.append(call)
        if call.startswith("create"):
            if self.refusal and self.refusal in text:
                return Answer(1, "", self.refused or f"error: {self.refusal} is refused\n")
            if "--dry-run=server" not in call:
                self.created.append(named(text))
                self.found = self.made if call.endswith("{.metadata.uid}") else self.found
            if call == "create --filename=-" and "ownerReferences" in text:
                self.on_companions()
        if call.startswith(f"{API}/"):
            self.found = ""
        return Answer(0, self._answer(call), "")

    def _answer(self, call: str) -> str:
        if call.startswith("config view"):
            return "own"
        if call.startswith("get pod "):
            return json.dumps({"status": {"phase": self.phase}})
        if call.startswith(("get job.batch", "get trainjob")):
            return self.found
        if call.startswith("get configmap"):
            return self.companions if "=demo-1a2b " in call else ""
        if call.endswith("{.metadata.uid}"):
            return "uid-1"
        return {"logs": self.log, "exec": self.codes}.get(call.split()[0], "")

    def changes(self) -> list[str]:
        """The calls that change something."""
        return [call for call in self.calls if call.startswith(("create", "delete", "patch")) and "dry-run" not in call]


class Demo:
    """An artifact of job demo, with two nodes."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys, self.kubectl = folder, capsys, Kubectl()
        self.artifact = folder / "artifacts/demo/kubernetes"
        (self.artifact / ".jobc").mkdir(parents=True)
        (self.artifact / "job.yaml").write_text(MANIFESTS)
        self.set()

        def kubectl_ask(engine: KubernetesEngine, words: list[str], **more: Any) -> Answer:
            return self.kubectl.ask(engine, words, **more)  # a test may replace it

        monkeypatch.setattr(sys, "argv", [str(self.artifact / "jobctl")])
        monkeypatch.setattr(Place, "engine", lambda place: KubernetesEngine(place.job))
        monkeypatch.setattr(KubernetesEngine, "ask", kubectl_ask)
        monkeypatch.setattr(cluster.shutil, "which", lambda _: "/bin/kubectl")
        for module in (cluster, object_creation, storage_pod, run_trial):
            monkeypatch.setattr(module.time, "sleep", lambda _: None)
        monkeypatch.setenv("USER", "ann b")
        monkeypatch.delenv("JOBC_RUN_ROOT", raising=False)

    def set(self, **settings: Any) -> None:
        tree = {
            "job": "demo", "runs": "runs", "backend": "kubernetes", "nodes": 2, "storage": "shared",
            "storage_root": "/shared/runs", "context": None, "namespace": "ns", "creates": CREATES,
            "kinds": [KIND, TRAIN_JOB], "companions": [CREATES["companions"], "configmap"], "start_timeout_s": 3,
            "place": "demo/kubernetes", "identity": [], "spec": [], "lone_pod": LONE_POD,
        }  # fmt: skip
        (self.artifact / ".jobc/job.json").write_text(json.dumps({**tree, **settings}))

    def __call__(self, verb: Any, *words: str) -> tuple[int, str]:
        """Run a verb. Return its exit code and output."""
        code = run_verb_until_ended(verb.main, [*words])
        printed = self.capsys.readouterr()
        return code, printed.out + printed.err

    def submit(self, *words: str) -> tuple[int, str]:
        return self(submit, *words)

    @property
    def runs(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "runs/demo").glob("*"))

    def record(self, run: str = "a", attempt: int = 0) -> dict[str, str]:
        return read_keys(self.folder / f"runs/demo/{run}/state/job_{attempt}")
