"""Backend skypilot without SkyPilot: `backend.extra` adds to the task, and changes nothing that the plan sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from jobc.backends.skypilot.schema import find_schema_errors
from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.emit.artifact import PROGRAM
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest

MOUNTS = (
    "{kind: volume, source: ckpt, target: /shared, read_only: false}",
    "{kind: bucket, source: 's3://data', target: /data, read_only: false}",
    "{kind: host, source: /nvme, target: /nvme, read_only: false}",
)
PODS = (
    "backend=skypilot", "backend.infra=k8s/dev", "storage.root=/shared/runs", f"mounts=[{', '.join(MOUNTS)}]",
    "name=base", "nodes=2", "gpus=2", "gpu_type=H100", "cpus=8", "mem=64GiB", "shm=2GiB", "labels.team=a", "env.A=b",
    "queue.name=team", "queue.priority=high", "container=pod", "python=image", "image=x:1", "secrets.T=env:TT",
    "backend.file_mounts={/own: '~/own'}", "backend.setup=['true']", "backend.disk_size=512GiB",
)  # fmt: skip
SLURM = (
    "backend=skypilot", "backend.infra=slurm/bed", "storage.root=/shared/runs", "queue.account=lab", "queue.qos=high",
)  # fmt: skip
CLOUD = (
    "backend=skypilot",
    "backend.infra=aws",
    "storage.run=node",
    "container=pod",
    "python=image",
    "image=x:1",
    "shm=2GiB",
)
GIT = (
    *CLOUD, "code=git", "code.repository=https://example.org/a", "code.commit=0123456789abcdef0123456789abcdef01234567",
)  # fmt: skip
COMMAND = ("train.py", "--lr", "0.1")


def files(*words: str) -> dict[str, str]:
    made = compile_job(CompileRequest(words, COMMAND))
    return {file.path: file.text for file in made.artifacts if file.path != PROGRAM}


def refused(*words: str) -> list[tuple[str, str]]:
    try:
        compile_job(CompileRequest(words, COMMAND))
    except CompileError as error:
        return [(each.code, each.hint) for each in error.diagnostics]
    return []


def places(tree: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the place of every key in a task, including keys that contain others."""
    if at:
        yield at
    for key, inner in tree.items() if isinstance(tree, dict) else ():
        yield from places(inner, (*at, key))


def extra(at: tuple[str, ...], value: str) -> str:
    for key in reversed(at):
        value = f"{{{key}: {value}}}"
    return f"backend.extra={value}"


def includes(tree: Any, part: Any) -> bool:
    """Return True when every key and item of `part` is in `tree`, with its value."""
    if isinstance(part, dict):
        return isinstance(tree, dict) and all(key in tree and includes(tree[key], part[key]) for key in part)
    if isinstance(part, list):
        return isinstance(tree, list) and all(any(includes(item, wanted) for item in tree) for wanted in part)
    return bool(tree == part)


def test_what_may_be_taken_away_from_a_task_is_not_what_the_plan_says() -> None:
    """Place by place."""
    task = yaml.safe_load(files(*PODS)["task.sky.yaml"])
    said = {at: {code for code, _ in refused(*PODS, extra(at, "null"))} for at in places(task)}
    assert len(said) > 35 and [at for at, codes in said.items() if not codes] == [("resources", "disk_size")]
    assert all("JC4600" in codes for codes in said.values() if codes)
    del task["resources"]["disk_size"]
    assert yaml.safe_load(files(*PODS, extra(("resources", "disk_size"), "null"))["task.sky.yaml"]) == task


@pytest.mark.parametrize(
    ("job", "given", "instead"),
    [
        (PODS, "{volumes: null}", "mounts"), (PODS, "{volumes: {/shared: other}}", "mounts"),
        (PODS, "{volumes: {/more: other}}", "mounts"), (PODS, "{file_mounts: null}", "backend.file_mounts"),
        (PODS, "{file_mounts: {/data: {mode: COPY}}}", "mounts"),
        (PODS, "{file_mounts: {/own: /other}}", "backend.file_mounts"),
        (PODS, "{file_mounts: {/more: {source: 's3://more'}}}", "mounts"),
        (PODS, "{config: null}", "queue.name, mounts and shm"),
        (PODS, "{config: {kubernetes: {kueue: {local_queue_name: other}}}}", "queue.name, mounts and shm"),
        (PODS, "{config: {kubernetes: {pod_config: {spec: {volumes: [{name: own}]}}}}}", "queue.name, mounts and shm"),
        (SLURM, "{config: {slurm: {sbatch_options: {account: null}}}}", "hosts and queue"),
        (SLURM, "{config: {slurm: {sbatch_options: {qos: low}}}}", "hosts and queue"),
        (CLOUD, "{config: {docker: {run_options: [--privileged]}}}", "shm"), (GIT, "{file_mounts: null}", "code"),
        (PODS, "{resources: {cpus: 1}}", "cpus"), (PODS, "{resources: {memory: 1}}", "mem"),
        (SLURM, "{resources: {cpus: 1}}", "cpus"), (PODS, "{resources: {labels: {team: b}}}", "labels"),
        (SLURM, "{resources: {labels: {team: b}}}", "labels"), (PODS, "{resources: {priority: 1}}", "queue.priority"),
        (SLURM, "{resources: {priority_class: low}}", "queue.priority"),
    ],
)  # fmt: skip
def test_an_extra_against_the_plan_is_refused(job: tuple[str, ...], given: str, instead: str) -> None:
    found = [hint for code, hint in refused(*job, f"backend.extra={given}") if code == "JC4600"]
    assert len(found) == 1 and f", and use {instead}" in found[0], found


@pytest.mark.parametrize(
    ("job", "given"),
    [
        (PODS, "extra={file_mounts: {/more: 's3://more', /cache: {source: 's3://c', mode: MOUNT_CACHED}}}"),
        (PODS, "extra={config: {kubernetes: {pod_config: {spec: {nodeSelector: {pool: a}}}, provision_timeout: 9}}}"),
        (PODS, "config={kubernetes: {pod_config: {spec: {volumes: [{name: own, emptyDir: {}}], hostIPC: true}}}}"),
        (PODS, "extra={resources: {disk_size: 600, local_disk: null}}"),
        (SLURM, "extra={config: {slurm: {sbatch_options: {time: '1:00:00'}}}}"),
        (CLOUD, "extra={resources: {use_spot: true, ports: [80], disk_tier: high, local_disk: 'nvme:1000+'}}"),
        (CLOUD, "config={docker: {run_options: [--privileged]}}"), (GIT, "extra={file_mounts: {/own: '~/own'}}"),
    ],
)  # fmt: skip
def test_what_an_extra_adds_leaves_the_job_as_planned(job: tuple[str, ...], given: str) -> None:
    planned, task = (yaml.safe_load(files(*words)["task.sky.yaml"]) for words in (job, (*job, f"backend.{given}")))
    planned["resources"].pop("disk_size", None)  # the one value that an extra may change
    assert includes(task, planned) and not includes(planned, task)
    assert not list(find_schema_errors(task))


@pytest.mark.parametrize(
    "given",
    [
        "{kubernetes: null}", "{kubernetes: {pod_config: null}}", "{kubernetes: {kueue: {local_queue_name: other}}}",
        "{kubernetes: {pod_config: {spec: {volumes: null}}}}",
    ],
)  # fmt: skip
def test_a_config_takes_nothing_from_the_plan_either(given: str) -> None:
    assert "JC4600" in [code for code, _ in refused(*PODS, f"backend.config={given}")]
