"""The pod runner does what Kubernetes v1.36.2 was seen to do: variables, and what the API server refuses."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from . import KUBECTL, PodRunner
from .environment import expand, service_links, variables
from .schema import invalid, problem
from .store import Object

ENGINE = pytest.mark.engine

# ---- 2: $(VAR)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "base"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$base"),
        ("$$$$(A)", "$$(A)"),
        ("$(NOPE)", "$(NOPE)"),
        ("$(A", "$(A"),
        ("$A ${A}", "$A ${A}"),
        ("echo pid=$$", "echo pid=$"),
        ("$((A+2)) $(echo x)", "$((A+2)) $(echo x)"),
    ],
)
def test_a_variable_is_replaced_as_kubernetes_does(text: str, expected: str) -> None:
    assert expand(text, {"A": "base"}) == expected


def test_a_value_names_earlier_variables_only_and_the_index_comes_last() -> None:
    texts = {"A": "base", "B": "$(A)/b", "C": "$(LATER)", "LATER": "x", "D": "r$(JOB_COMPLETION_INDEX)", "S": "$(S):x"}
    env = [{"name": name, "value": value} for name, value in texts.items()]
    pod = {"metadata": {"labels": {"batch.kubernetes.io/job-completion-index": "3"}}}
    found = variables(pod, {"env": env}, {})
    assert found["B"] == "base/b" and found["C"] == "$(LATER)"
    assert found["D"] == "r$(JOB_COMPLETION_INDEX)" and found["S"] == "$(S):x"
    assert list(found)[-1] == "JOB_COMPLETION_INDEX"


def test_a_service_called_master_sets_its_port_unless_the_pod_wants_no_links() -> None:
    master = {"metadata": {"name": "master"}, "spec": {"clusterIP": "10.96.0.7", "ports": [{"port": 29500}]}}
    headless = {"metadata": {"name": "job"}, "spec": {"clusterIP": "None", "ports": [{"port": 29500}]}}
    found = service_links({"spec": {}}, [master, headless])
    assert found["MASTER_PORT"] == "tcp://10.96.0.7:29500" and "JOB_PORT" not in found
    emitted = Path(__file__).parents[1] / "golden" / "kubernetes" / "two_nodes" / "expected" / "job.yaml"
    (job,) = (item for item in yaml.safe_load_all(emitted.read_text()) if item["kind"] == "Job")
    assert service_links(job["spec"]["template"], [master]) == {}


# ---- 3, 4: what the server refuses


def job_of(**spec: Any) -> Object:
    container = {"name": "c", "image": "x"}
    pod = {"restartPolicy": "Never", "containers": [container], **spec.pop("pod", {})}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": spec.pop("name", "j")},
            "spec": {"completionMode": "Indexed", "completions": 2, "template": {"spec": pod}, **spec}}  # fmt: skip


def policy(**rule: Any) -> Object:
    return {"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", **rule}}]}}


@pytest.mark.parametrize(
    "item",
    [
        job_of(backofLimit=1),
        job_of(completionMode="indexed"),
        job_of(completions="2"),
        job_of(name="my_job"),
        job_of(name="a" * 62),
        job_of(pod={"restartPolicy": "Always"}),
        job_of(pod={"restartPolicy": "OnFailure"}, **policy(values=[65])),
        job_of(**policy(values=[75, 69])),
        job_of(**policy(values=[0])),
        job_of(pod={"containers": [{"name": "c", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}),
        job_of(pod={"containers": [{"name": "c", "image": "x", "env": [{"name": "A", "value": 1}]}]}),
        {**job_of(), "kind": "Jobb"},
        {**job_of(), "apiVersion": "batch/v1beta1"},
    ],
)
def test_what_the_server_refuses(item: Object) -> None:
    assert not problem(job_of()) and not invalid(job_of())
    assert problem(item) or invalid(item)


@ENGINE
def test_kubectl_is_told_so_also_by_a_dry_run_which_leaves_nothing(runner: PodRunner, tmp_path: Path) -> None:
    def create(item: Object, *words: str) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "job.json"
        file.write_text(json.dumps(item))
        command = [KUBECTL, "create", *words, f"--filename={file}"]
        environment = {**os.environ, "KUBECONFIG": str(runner.kubeconfig)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    done = create(job_of(name="dry", backofLimit=1), "--dry-run=server")
    assert done.returncode and "backofLimit" in done.stderr
    assert create(job_of(name="dry", suspend=True), "--dry-run=server").returncode == 0
    assert not list(runner.store.all("jobs"))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}}
    assert create(secret).returncode == 0
    assert "AlreadyExists" in create(secret).stderr
