"""Sample run folders of job demo, and engines whose clients are stand-ins, for the tests of jobctl's verbs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jobc.backends.kubernetes.engine.kubernetes_engine import KubernetesEngine
from jobc.backends.slurm.engine.slurm_engine import SlurmEngine
from jobc.runtime.engines.engine import Answer, Job
from jobc.runtime.run_folder.run import Run
from jobc.runtime.system.processes import identify_machine, process_start_time


def make_run(folder: Path, name: str = "r", **texts: str) -> Run:
    """A run of job demo with one attempt; texts: files, with __ for a slash."""
    run = folder / "runs/demo" / name
    (run / "artifact/0").mkdir(parents=True)
    for path, text in {"state__run": "job=demo\n", **texts}.items():
        file = run / path.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return Run(run)


def make_job(folder: Path, **settings: Any) -> Job:
    artifact = folder / "artifacts/demo/x"
    artifact.mkdir(parents=True, exist_ok=True)
    return Job("demo", artifact, folder / "runs/demo", {"backend": "x", "nodes": 1, **settings})


class Replying:
    """Mixed into an engine, replies for its clients. reply: the words of a command -> what the client answers"""

    reply: Callable[[Sequence[str]], Answer]

    def ask(self, words: Sequence[str], *_: Any, **__: Any) -> Answer:
        return self.reply(words)


class ReplyingSlurm(Replying, SlurmEngine):
    pass


class ReplyingKubernetes(Replying, KubernetesEngine):
    pass


def node(**keys: object) -> str:
    fields = {
        **identify_machine(),
        "pid": os.getpid(),
        "start_ticks": process_start_time(os.getpid()),
        "started": 1,
        **keys,
    }
    return "".join(f"{key}={value}\n" for key, value in fields.items())


# ---- Slurm


def slurm(tmp_path: Path, printed: str = "", errors: str = "", code: int = 0, **settings: Any) -> ReplyingSlurm:
    engine = ReplyingSlurm(make_job(tmp_path, **settings))
    engine.reply = lambda _: Answer(code, printed, errors)
    return engine


# ---- Kubernetes

RECORD = "uid=u\nobject=demo\nkind=job\ncompanions=configmap\nnodes=2\ncontext=\nnamespace=ns\nexit=\nreason=\n"


def kubernetes(tmp_path: Path, conditions: str = "", pods: str = "", uid: str = "u") -> ReplyingKubernetes:
    settings = {"kinds": ["job"], "companions": ["configmap"], "storage_root": "/runs", "storage": "shared", "nodes": 2}
    engine = ReplyingKubernetes(make_job(tmp_path, **settings))

    def reply(words: Sequence[str]) -> Answer:
        assert [*words[:2]] == ["kubectl", "--namespace=ns"]
        texts = {"job": f"{uid}\n{conditions}", "pods": listed(pods)}
        return Answer(0, texts.get(words[3], "") if words[2] == "get" else "", "")

    engine.reply = reply
    return engine


def pod(index: int, phase: str, code: str = "", init: str = "") -> str:
    """A line of JSON, as kubectl lists a pod. code, init: exit code of the ranks' container and of an init container"""

    def ended(name: str, code: str) -> list[Any]:
        return [{"name": name, "state": {"terminated": {"exitCode": int(code)}}}] if code else []

    labels = {"batch.kubernetes.io/job-completion-index": str(index)}
    status = {"phase": phase, "containerStatuses": ended("node", code), "initContainerStatuses": ended("code", init)}
    metadata = {"name": f"demo-{index}", "labels": labels, "creationTimestamp": str(index)}
    return json.dumps({"metadata": metadata, "spec": {"nodeName": f"n{index}"}, "status": status}) + "\n"


def listed(pods: str) -> str:
    return f'{{"items": [{",".join(pods.splitlines())}]}}'
