"""accelerate.yaml and deepspeed.json as their engines read them, the same on every backend."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.launchers.accelerate.engine_tables import load_engine_tables
from jobc.compiler.launchers.accelerate.protected_keys import OF_DEEPSPEED, OF_THE_PLAN, Protected
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompiledJob, CompileRequest
from jobc.tests.backends.accelerate_jobs import codes, compiled
from jobc.trainer.data.order import SampleOrder


def text(job: CompiledJob, path: str) -> str:
    return next(a.text for a in job.artifacts if a.path == path)


# ---- what the engines read ------------------------------------------------------------------------------------------

CASES = {
    "ddp": (),
    "bf16": ("loop.precision=bf16",),
    "fsdp": ("parallel=fsdp", "parallel.transformer_layer_cls_to_wrap=[Block]"),
    "zero2": ("parallel=deepspeed", "batch.micro=4", "batch.global=256"),
    "zero3": ("parallel=deepspeed", "parallel.zero_stage=3", "parallel.offload_param_device=cpu",
              "parallel.offload_optimizer_device=cpu", "loop.precision=bf16"),
    "extras": ("backend.extra.enable_cpu_affinity=true", "backend.extra.dynamo_config.dynamo_backend=INDUCTOR"),
}  # fmt: skip
READ = """
import json, sys
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.parallelism_config import ParallelismConfig
from deepspeed.runtime.config import DeepSpeedConfig
said = {}
for folder in sys.argv[1:]:
    config = load_config_from_file(f"{folder}/accelerate.yaml")
    said[folder] = {k: getattr(v, "value", v) for k, v in vars(config).items()}
    if config.parallelism_config:
        sizes = {key.removeprefix("parallelism_config_"): n for key, n in config.parallelism_config.items()}
        said[folder]["mesh"] = ParallelismConfig(**sizes).total_size
    if config.deepspeed_config:
        tree = json.load(open(f"{folder}/deepspeed.json"))
        batch = DeepSpeedConfig.__new__(DeepSpeedConfig)  # its constructor asks torch for the world size
        batch._initialize_params(tree)
        of_a_rank = batch.train_micro_batch_size_per_gpu * batch.gradient_accumulation_steps
        batch.world_size = tree["train_batch_size"] // of_a_rank
        batch._batch_assertion()
        said[folder]["world"] = batch.world_size
        said[folder]["stage"] = batch.zero_optimization_stage
        zero = batch.zero_config
        said[folder]["offload"] = [each and each.device for each in (zero.offload_param, zero.offload_optimizer)]
        said[folder]["nvme"] = str(zero.offload_param.nvme_path) if zero.offload_param else None
        said[folder]["block"] = batch.aio_config["block_size"]
print(json.dumps(said, default=str))
"""
REPOSITORY = Path(__file__).parents[2]
GOLDEN = REPOSITORY / "tests" / "golden"
GOLDENS = {
    f"{file.parents[2].name}/{file.parents[1].name}": file.parent for file in GOLDEN.glob("*/*/*/accelerate.yaml")
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Name of a case, or place of a golden -> what accelerate and DeepSpeed read there."""
    pytest.importorskip("accelerate", reason="accelerate is an extra")
    pytest.importorskip("deepspeed", reason="DeepSpeed is an extra")
    folders = {name: tmp_path_factory.mktemp(name, numbered=False) for name in CASES} | GOLDENS
    for name, words in CASES.items():
        for artifact in compiled("nodes=8", "gpus=8", *words, command=("train.py",)).artifacts:
            if artifact.path in ("accelerate.yaml", "deepspeed.json"):
                (folders[name] / artifact.path).write_text(artifact.text)
    command = [sys.executable, "-c", READ, *map(str, folders.values())]
    environment = {**os.environ, "DS_ACCELERATOR": "cpu"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    return {name: found[str(folder)] for name, folder in folders.items()}


@pytest.mark.engine
@pytest.mark.slow
def test_accelerate_and_deepspeed_read_what_was_meant(said: dict[str, dict[str, Any]]) -> None:
    said = {name: said[name] for name in CASES}
    kinds = {name: each["distributed_type"] for name, each in said.items()}
    assert kinds == {**dict.fromkeys(CASES, "MULTI_GPU"), "fsdp": "FSDP", "zero2": "DEEPSPEED", "zero3": "DEEPSPEED"}
    assert all((each["num_processes"], each["num_machines"]) == (64, 8) for each in said.values())
    assert (said["ddp"]["mixed_precision"], said["bf16"]["mixed_precision"]) == ("no", "bf16")
    assert said["fsdp"]["fsdp_config"]["fsdp_version"] == 2
    assert said["fsdp"]["fsdp_config"]["fsdp_transformer_layer_cls_to_wrap"] == "Block"
    assert [(said[name]["world"], said[name]["stage"]) for name in ("zero2", "zero3")] == [(64, 2), (64, 3)]
    assert said["extras"]["dynamo_config"] == {"dynamo_backend": "INDUCTOR"}


@pytest.mark.engine
@pytest.mark.slow
def test_accelerate_and_deepspeed_read_every_golden_as_it_stands_there(said: dict[str, dict[str, Any]]) -> None:
    for name, folder in GOLDENS.items():
        written, read = yaml.safe_load((folder / "accelerate.yaml").read_text()), said[name]
        for key in ("distributed_type", "num_machines", "num_processes", "mixed_precision"):
            assert read[key] == written.get(key, read[key]), (name, key)
        for section in ("fsdp_config", "deepspeed_config", "parallelism_config"):
            assert read[section] == written.get(section, {}), (name, section)
        assert read.get("mesh", read["num_processes"]) == read["num_processes"], name
        assert read.get("world", read["num_processes"]) == read["num_processes"], name
    mesh, nvme = (said[f"accelerate/{name}"] for name in ("fsdp_by_size_with_a_mesh", "zero3_nvme_and_extras"))
    assert mesh["parallelism_config"]["parallelism_config_dp_replicate_size"] == 2 and mesh["mesh"] == 16, "HSDP"
    assert (nvme["offload"], nvme["nvme"], nvme["block"]) == (["nvme", None], "/local_nvme", 262144)
    assert said["slurm/accelerate_zero1"]["stage"] == 1


@pytest.mark.engine
@pytest.mark.slow
def test_the_known_keys_are_those_of_the_installed_engines() -> None:
    done = run_engines(str(REPOSITORY / "tools" / "engine_tables.py"), "--check")
    assert done.returncode == 0, f"of {load_engine_tables()['versions']}: {done.stderr[-2000:]}"


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_no_value_is_refused_that_an_engine_checks_and_accepts(seed: int) -> None:
    done = run_engines(str(Path(__file__).with_name("engine_values.py")), str(seed), "1000")
    assert done.returncode == 0, done.stderr[-2000:]
    counts = json.loads(next(line for line in done.stdout.splitlines() if line.startswith('{"')))
    assert counts.get("stricter", 0) == 0, counts["examples"]
    assert counts["both accept"] > 200 and counts["both refuse"] > 200 and counts["laxer"] < 150, counts


def run_engines(*words: str) -> subprocess.CompletedProcess[str]:
    for extra in ("accelerate", "deepspeed"):
        pytest.importorskip(extra, reason=f"{extra} is an extra")
    environment = {**os.environ, "DS_ACCELERATOR": "cpu"}
    return subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("file", "paths"), [("accelerate", OF_THE_PLAN), ("deepspeed", OF_DEEPSPEED)])
def test_what_the_plan_says_are_keys_of_the_engine(file: str, paths: Protected) -> None:
    for path in paths:
        known: Any = load_engine_tables()[file]
        for name in path:
            assert name in known or name in load_engine_tables()["deepspeed_removed"], path
            known = known.get(name)


def test_hsdp_is_a_mesh_for_a_program_that_uses_accelerate_and_the_trainers_own_business() -> None:
    words = ("nodes=2", "gpus=8", "parallel=hsdp", "loop.precision=fp16", "loop.activation_checkpointing=1")
    theirs = yaml.safe_load(text(compiled(*words, command=("train.py",)), "accelerate.yaml"))
    assert (theirs["distributed_type"], theirs["mixed_precision"]) == ("FSDP", "fp16")
    assert theirs["fsdp_config"]["fsdp_activation_checkpointing"] is True
    sizes = {"parallelism_config_dp_replicate_size": 2, "parallelism_config_dp_shard_size": 8}
    assert theirs["parallelism_config"] == sizes
    ours = yaml.safe_load(text(compiled(*words, command=None), "accelerate.yaml"))
    assert (ours["distributed_type"], ours["mixed_precision"]) == ("MULTI_GPU", "fp16")
    assert "fsdp_config" not in ours and "parallelism_config" not in ours
    extra = "backend.extra.parallelism_config.parallelism_config_dp_shard_size"
    assert codes(*words, f"{extra}=4")[extra] == "JC4600"


# ---- one file for all, and numbers that agree -----------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["ssh", "pdsh", "slurm"])
def test_the_files_are_the_same_on_every_backend(backend: str) -> None:
    words = ("nodes=2", "gpus=8", "parallel=deepspeed", "launcher=accelerate")
    mine, theirs = compiled(*words), compiled(*words, backend=backend)
    for path in ("accelerate.yaml", "deepspeed.json", "train.json", "launch.sh"):
        assert text(mine, path) == text(theirs, path)


def test_nothing_in_the_yaml_is_of_one_node_and_the_number_of_files_is_constant() -> None:
    jobs = [compiled(f"nodes={nodes}", "gpus=8") for nodes in (2, 8)]
    assert len(jobs[0].artifacts) == len(jobs[1].artifacts)
    for job in jobs:
        assert not {"machine_rank", "main_process_ip", "main_process_port"} & set(
            yaml.safe_load(text(job, "accelerate.yaml"))
        )


@pytest.mark.parametrize(("nodes", "steps", "dropped"), [(1, 4_028, 4_027), (2, 2_014, 2_013), (8, 504, 503)])
def test_steps_per_epoch_of_qwen_image(nodes: int, steps: int, dropped: int) -> None:
    job = compile_job(
        CompileRequest(("+experiment=qwen_image", "backend=accelerate", "parallel=deepspeed", f"nodes={nodes}"))
    )
    batch = json.loads(text(job, "train.json"))["batch"]
    told = json.loads(text(job, "deepspeed.json"))
    world = 8 * nodes
    assert job.plan.topology.world_size == world == json.loads(text(job, "train.json"))["world_size"]
    assert (batch["micro"], batch["accumulation"], batch["global"]) == (1, 1, world)
    sizes = ("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size")
    assert [told[key] for key in sizes] == [1, 1, world]
    samples = json.loads(text(job, "train.json"))["data"]["samples"]
    assert SampleOrder(0, samples, batch["global"], drop_last=False).steps_per_epoch == steps
    assert SampleOrder(0, samples, batch["global"], drop_last=True).steps_per_epoch == dropped


def test_any_backend_merges_extras_into_the_files_of_accelerate_and_checks_them() -> None:
    slurm = ("backend=slurm", "nodes=2", "gpus=8", "cpus=64")
    both = ("launcher=accelerate", "parallel=deepspeed")
    words = ("accelerate.extra.enable_cpu_affinity=true", "accelerate.deepspeed_extra.aio.queue_depth=2")
    job = compile_job(CompileRequest((*slurm, *both, *words), ("train.py",)))
    texts = {file.path: file.text for file in job.artifacts}
    assert yaml.safe_load(texts["accelerate.yaml"])["enable_cpu_affinity"] is True
    assert json.loads(texts["deepspeed.json"])["aio"] == {"queue_depth": 2}
    lines = texts["accelerate.yaml"].splitlines()
    keys, _ = job.source_map.files["accelerate.yaml"][lines.index("enable_cpu_affinity: true")]
    assert job.source_map.spec_keys(keys) == ("accelerate.extra.enable_cpu_affinity",)
    wrong = ("accelerate.extra.num_machines=3", "accelerate.extra.fp8_config.margin=wide", words[1])
    with pytest.raises(CompileError) as refused:
        compile_job(CompileRequest((*slurm, *wrong), ("train.py",)))
    found = {(d.code, d.key) for d in refused.value.diagnostics}
    assert found == {
        ("JC4600", "accelerate.extra.num_machines"),
        ("JC4603", "accelerate.extra.fp8_config.margin"),
        ("JC4604", "accelerate.extra.fp8_config.margin"),
        ("JC4604", "accelerate.deepspeed_extra.aio.queue_depth"),
    }
    volume = "mounts=[{kind: claim, source: shared, target: /shared, read_only: false}]"
    pods = ("backend=kubernetes", "image=x", "storage.root=/shared/runs", volume, "launcher=accelerate")
    engines = {text(compile_job(CompileRequest((*pods, *more))), ".jobc/job.json") for more in ((), words[:1])}
    assert len(engines) == 2, "another plan has another object's name"


def test_a_line_of_an_extra_leads_to_its_key() -> None:
    job = compiled("nodes=2", "procs=2", "backend.extra.debug=true")
    row = text(job, "accelerate.yaml").splitlines().index("debug: true")
    keys = job.source_map.files["accelerate.yaml"][row][0]
    assert job.source_map.spec_keys(keys) == ("backend.extra.debug",)
