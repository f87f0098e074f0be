"""Jobs whose files are edited by tests: name -> overrides, and the files to which they compile."""

from __future__ import annotations

from functools import cache

from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest

JOB = (
    "name=base", "nodes=2", "gpus=2", "env.A=a 'b' $c", "lifecycle.grace=90s", "lifecycle.max_requeues=2", "time=1h",
)  # fmt: skip
HOSTS = ("hosts=node[1-2]", "lifecycle.max_restarts=1", "network.interface=eth0")
COMMAND = ("train.py", "--lr", "0.1", "--note", "it's $$5")
OF = {
    "local": ("nodes=1",),
    "ssh": (
        *HOSTS, "backend=ssh", "secrets.T=env:TT", "python=conda", "python.path=own", "gpu_type=H100", "threads=3",
    ),
    "own": ("hosts=node[1-2]", "backend=ssh", "storage.run=node", "launcher=spawn", "lifecycle.max_requeues=0"),
    "client": (
        "hosts=node[1-2]", "backend=ssh", "backend.user=me", "backend.port=2222",
        'backend.options=["-oProxyJump=gate way"]', "lifecycle.max_requeues=0",
    ),
    "docker": (
        *HOSTS, "backend=ssh", "container=docker", "image=x:1", "shm=1GiB", "storage.data=/data",
        "mounts=[{kind: host, source: /in, target: /out, read_only: true}]",
    ),
    "accelerate": (*HOSTS, "backend=accelerate"),
    "mpirun": (*HOSTS, "backend=ssh", "launcher=mpirun"),
    "c10d": (*HOSTS, "backend=pdsh", "rendezvous.backend=c10d"),
    "spawn": (*HOSTS, "backend=pdsh", "launcher=spawn", "code=shared"),
    "clush": (*HOSTS, "backend=pdsh", "backend.client=clush"),
    "slurm": (
        *HOSTS, "backend=slurm", "cpus=8", "mem=64GiB", "queue.name=gpu", "queue.account=lab", "queue.after=[12]",
    ),
    "kubernetes": (
        "backend=kubernetes", "image=x:1", "storage.root=/s/runs", "mem=64GiB", "cpus=8", "shm=1GiB", "labels.team=a",
        "mounts=[{kind: claim, source: shared, target: /s, read_only: false}]", "secrets.T=k8s:name/key",
        "queue.name=team", "gpu_type=H100", "code=image", "code.root=/app",
    ),
    "pods": (
        "backend=kubernetes", "image=x:1", "storage.root=/s/runs", "code=image", "code.root=/app",
        "mounts=[{kind: claim, source: shared, target: /s, read_only: false}]", "launcher=accelerate",
        "parallel=deepspeed", "backend.records=937",
    ),
    "jobset": (
        "backend=kubernetes", "backend.flavor=jobset", "image=x:1", "storage.root=/s/runs", "code=none",
        "mounts=[{kind: claim, source: shared, target: /s, read_only: false}]",
    ),
    "trainjob": (
        "backend=kubernetes", "backend.flavor=trainjob", "image=x:1", "storage.root=/s/runs", "code=none",
        "mounts=[{kind: claim, source: shared, target: /s, read_only: false}]",
    ),
    "skypilot": (
        "backend=skypilot", "gpu_type=H100", "storage.run=node", "cpus=8", "mem=64GiB", "labels.team=a",
    ),
    "sky_shared": ("backend=skypilot", "backend.infra=slurm/lab", "storage.root=/s/runs", "gpu_type=H100"),
}  # fmt: skip


@cache
def files_of(job: str, *words: str) -> dict[str, str]:
    made = compile_job(CompileRequest((*JOB, *OF[job], *words), COMMAND))
    return {artifact.path: artifact.text for artifact in made.artifacts}
