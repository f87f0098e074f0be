"""Settings of Kubernetes and SkyPilot that have their own key: resources, a machine image, Volcano's gang."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.tests.compiler.hints import mended, words_of

PODS = ("backend=kubernetes", "image=x", "nodes=2")


def documents(path: str, *words: str) -> list[Any]:
    job = compile_job(CompileRequest(words))
    return [*yaml.safe_load_all(next(a.text for a in job.artifacts if a.path == path))]


def test_requests_are_apart_from_limits_and_devices_have_their_names() -> None:
    words = ("cpus=8", "mem=64GiB", "procs=2", "backend.requests={memory: 48Gi}")
    _, job, _ = documents("job.yaml", *PODS, *words, "backend.limits={cpu: 16, nvidia.com/mig-1g.10gb: 2}")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "8", "memory": "48Gi", "nvidia.com/mig-1g.10gb": "2"},
        "limits": {"memory": "64Gi", "cpu": "16", "nvidia.com/mig-1g.10gb": "2"},
    }


@pytest.mark.parametrize(
    "words",
    [
        ("backend.limits={cpus: 1}",),
        ("backend.limits={memory: 64GB}",),
        ("mem=1GiB", "backend.limits={memory: 2Gi}"),
        ("mem=1GiB", "backend.requests={memory: 2Gi}"),
        ("gpus=1", "backend.limits={nvidia.com/gpu: 1}"),
        ("backend.requests={nvidia.com/mig-1g.10gb: 1}",),
    ],
)
def test_a_resource_that_kubernetes_refuses_is_refused_and_its_hint_helps(words: tuple[str, ...]) -> None:
    with pytest.raises(CompileError) as refused:
        compile_job(CompileRequest((*PODS, *words)))
    (found,) = [d for d in refused.value.diagnostics if d.severity.name == "ERROR"]
    assert found.code == "JC4524"
    assert compile_job(CompileRequest(tuple(mended([*PODS, *words], words_of(found.hint)))))


@pytest.mark.parametrize("flavor", ["job", "jobset", "trainjob"])
def test_volcano_is_told_how_many_pods_start_together(flavor: str) -> None:
    words = (*PODS, f"backend.flavor={flavor}", "backend.extra.Pod.spec.schedulerName=volcano")
    found = documents("job.yaml", *words)
    job = found[1] if flavor == "job" else found[0]
    spec = job["spec"]["template"]["spec"] if flavor == "trainjob" else job["spec"]
    template = job if flavor == "job" else spec["replicatedJobs"][0]["template"]
    assert template["metadata"]["annotations"]["scheduling.volcano.sh/group-min-member"] == "2"


def test_a_machine_has_an_image_apart_from_the_container() -> None:
    entry = "backend.any_of=[{infra: aws, image_id: ami-1}, {infra: gcp}]"
    (task,) = documents("task.sky.yaml", "backend=skypilot", entry, "backend.image_id=ami-2")
    assert task["resources"]["image_id"] == "ami-2"
    assert task["resources"]["any_of"] == [{"infra": "aws", "image_id": "ami-1"}, {"infra": "gcp"}]


@pytest.mark.parametrize(
    "words",
    [
        ("backend.image_id=ami-1", "image=x"),
        ("backend.image_id=docker:x",),
        ("backend.image_id=ami-1", "backend.infra=k8s/dev"),
    ],
)
def test_a_machine_image_that_nothing_would_boot_is_refused_and_its_hint_helps(words: tuple[str, ...]) -> None:
    with pytest.raises(CompileError) as refused:
        compile_job(CompileRequest(("backend=skypilot", *words)))
    found = next(d for d in refused.value.diagnostics if d.code == "JC4725")
    compile_job(CompileRequest(tuple(mended(["backend=skypilot", *words], words_of(found.hint)))))
