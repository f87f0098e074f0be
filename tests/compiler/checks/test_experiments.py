"""The named experiments: each compiles for each backend, and sets only what is specific to its team."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompiledJob, CompileRequest
from jobc.compiler.plugins.registry import PACKAGE
from jobc.tests.compiler.hints import words_of

FOLDER = PACKAGE / "conf" / "experiment"
EXPERIMENTS = sorted(file.stem for file in FOLDER.glob("*.yaml"))
BACKENDS = {
    "local": ("nodes=1",),
    "ssh": (),
    "pdsh": (),
    "accelerate": ("launcher=accelerate",),
    "slurm": (),
}
VOLUME = "mounts=[{kind: claim, source: shared, target: /shared, read_only: false}]"
HOSTS = {
    "audio_encoder": "hosts=node[1-2]",
    "aorta": "hosts=192.168.1.[10-11]",
    "opensora_k8s": "hosts=node[1-4]",
}  # which these teams type


def compiled(experiment: str, backend: str, *words: str) -> CompiledJob:
    hosts = [HOSTS[experiment]] if experiment in HOSTS and backend in ("ssh", "pdsh", "accelerate") else []
    hosts = [] if any(word.startswith("hosts=") for word in words) else hosts
    return compile_job(
        CompileRequest((f"+experiment={experiment}", f"backend={backend}", *BACKENDS[backend], *hosts, *words))
    )


def text(job: CompiledJob, path: str) -> str:
    return next(a.text for a in job.artifacts if a.path == path)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_each_compiles_for_each_backend_to_the_same_job(experiment: str, backend: str) -> None:
    job, there = compiled(experiment, backend), compiled(experiment, "slurm", *BACKENDS[backend])
    assert job.plan.train == there.plan.train
    assert text(job, "launch.sh") == text(there, "launch.sh")


@pytest.mark.parametrize("backend", [*BACKENDS, "kubernetes", "skypilot"])
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_its_name_alone_compiles_for_each_backend(experiment: str, backend: str) -> None:
    words = (f"+experiment={experiment}", f"backend={backend}")
    try:
        job = compile_job(CompileRequest(words))
    except CompileError as error:  # nobody but the team knows its hosts
        (missing,) = error.diagnostics
        assert (missing.code, experiment in HOSTS, backend in ("ssh", "pdsh", "accelerate")) == ("JC4401", True, True)
        job = compile_job(CompileRequest((*words, *words_of(missing.hint))))
    assert (job.plan.topology.nodes == 1) is (backend == "local")


@pytest.mark.parametrize("nodes", [(), ("nodes=1",), ("nodes=2",)])
@pytest.mark.parametrize("backend", ["local", "skypilot"])
def test_a_wish_that_a_backend_ignores_is_said_once(backend: str, nodes: tuple[str, ...]) -> None:
    job = compile_job(CompileRequest(("+experiment=qwen_image", f"backend={backend}", *nodes)))
    assert [d.key for d in job.diagnostics].count("queue.nodelist") == 1


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_each_compiles_for_pods_to_the_same_training(experiment: str) -> None:
    slurm = compiled(experiment, "slurm")
    own_image = () if slurm.spec.image else ("image=x", "code=image", VOLUME, "storage.root=/shared/runs")
    job = compile_job(CompileRequest((f"+experiment={experiment}", "backend=kubernetes", *own_image)))
    assert job.plan.train == slurm.plan.train
    assert job.plan.topology == slurm.plan.topology


def test_opensora_is_what_its_team_has_by_hand() -> None:
    job = compile_job(CompileRequest(("+experiment=opensora_k8s", "backend=kubernetes")))
    service, made, files = yaml.safe_load_all(text(job, "job.yaml"))
    pod = made["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (made["spec"]["completions"], job.plan.topology.world_size) == (4, 32)
    assert service["spec"]["publishNotReadyAddresses"] is True and service["spec"]["clusterIP"] == "None"
    assert container["resources"]["limits"] == container["resources"]["requests"] == {"nvidia.com/gpu": "8"}
    assert {"medium": "Memory", "sizeLimit": "16Gi"} in [volume.get("emptyDir") for volume in pod["volumes"]]
    waits = ("COLOSSALAI_DIST_TIMEOUT=1800", "COLOSSALAI_MASTER_READY_TIMEOUT=600")
    assert {f"export {wait}" for wait in waits} <= {*files["data"]["launch.sh"].splitlines()}
    assert json.loads(text(job, ".jobc/job.json"))["node"]["rendezvous"]["timeout_s"] == 1800
    test_before = compile_job(CompileRequest(("+experiment=opensora_k8s", "backend=kubernetes", "nodes=2")))
    assert test_before.plan.topology.world_size == 16


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_it_is_short_and_says_nothing_that_a_default_says(experiment: str) -> None:
    file = FOLDER / f"{experiment}.yaml"
    assert len(file.read_text().splitlines()) <= 20
    job = compiled(experiment, "slurm")
    task = [f"task={choice}" for choice in ("digits", "gpt_small") if f"override /task: {choice}" in file.read_text()]
    before = compile_job(CompileRequest(("backend=slurm", *task))).source_map.spec
    place = f"conf/experiment/{experiment}.yaml"
    said = {key: v.value for key, v in job.source_map.spec.items() if v.origin and v.origin.path == place}
    assert said and not [key for key, value in said.items() if key in before and before[key].value == value]


def test_qwen_image_changes_its_size_by_one_word() -> None:
    two, eight = compiled("qwen_image", "ssh"), compiled("qwen_image", "ssh", "nodes=8")
    assert text(two, "hosts.txt").split() == ["g369", "g375"]
    assert sorted(text(eight, "hosts.txt").split()) == [f"g{number}" for number in range(369, 377)]
    assert (two.plan.topology.world_size, eight.plan.topology.world_size) == (16, 64)
    assert [job.plan.train["batch"]["global"] for job in (two, eight)] == [16, 64]


def test_audio_encoder_starts_its_own_program_with_its_own_arguments() -> None:
    words = ("python3", "train.py", "--config", "config/local3.yaml", "--distributed-backend", "nccl")
    job = compiled("audio_encoder", "pdsh", "nodes=4", "hosts=node[1-4]")
    assert job.plan.command == words and job.plan.topology.world_size == 16
    assert text(job, "hosts.txt").split() == ["node1", "node2", "node3", "node4"]


def test_slurm_ddp_asks_for_what_its_batch_script_asked_for() -> None:
    said = text(compiled("slurm_ddp", "slurm", "backend.gpus_as=gres"), "job.sbatch")
    for line in ("nodes=2", "gres=gpu:1", "ntasks-per-node=1", "cpus-per-task=28", "mem=200G", "nodelist=node6,node7"):
        assert f"#SBATCH --{line}\n" in said


def test_aorta_takes_its_list_of_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("node_ip_list.txt").write_text("192.168.1.10\n192.168.1.11\n")
    job = compile_job(CompileRequest(("+experiment=aorta", "backend=ssh", "hosts=@node_ip_list.txt")))
    assert text(job, "hosts.txt") == "192.168.1.10\n192.168.1.11\n"
    assert job.plan.topology.world_size == 16 and job.plan.run.keep == 5
    train = json.loads(text(job, "train.json"))
    assert (
        train["parallel"]["kind"] == "hsdp" and train["parallel"]["shards"] == 8 and train["profile"]["steps"] == [5, 6]
    )
