"""accelerate.yaml and deepspeed.json as their engines read them, and the checks that stand in for theirs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobc.compiler.accelerate_known import ACCELERATE
from jobc.compiler.accelerate_protected import FSDP_1, OF_DEEPSPEED, OF_THE_PLAN
from jobc.compiler.deepspeed_known import DEEPSPEED, OF_TORCH, REMOVED, SCHEDULERS, ZERO
from jobc.compiler.deepspeed_optimizers import OF_DEEPSPEED as OF_DEEPSPEEDS_OPTIMIZERS
from jobc.compiler.deepspeed_optimizers import OF_TORCH as TORCH_OPTIMIZERS
from jobc.compiler.deepspeed_optimizers import optimizer
from jobc.compiler.diagnostics import CompileError
from jobc.compiler.driver import Compiled, Request, compile_job
from jobc.trainer.data.order import Order

HOSTS = "hosts=node[1-8]"


def compiled(*words: str, command: tuple[str, ...] | None = None, backend: str = "accelerate") -> Compiled:
    return compile_job(Request((f"backend={backend}", *([HOSTS] if backend != "slurm" else []), *words), command))


def text(job: Compiled, path: str) -> str:
    return next(a.text for a in job.artifacts if a.path == path)


def codes(*words: str, command: tuple[str, ...] | None = ("train.py",)) -> dict[str, str]:
    """key -> code of what is refused."""
    return refused("backend=accelerate", HOSTS, *words, command=command)


def refused(*words: str, command: tuple[str, ...] | None = ("train.py",)) -> dict[str, str]:
    try:
        compile_job(Request(words, command))
    except CompileError as error:
        return {diagnostic.key: diagnostic.code for diagnostic in error.diagnostics}
    return {}


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


GOLDEN = Path(__file__).parents[1] / "golden"
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


KEYS = """
import json
import torch
from inspect import signature
from accelerate.commands.config.config_args import ClusterConfig
from accelerate.commands.launch import launch_command_parser
from deepspeed.compile.config import CompileConfig
from deepspeed.inference.config import WeightQuantConfig
from deepspeed.ops.adagrad import DeepSpeedCPUAdagrad
from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam
from deepspeed.ops.lamb import FusedLamb
from deepspeed.ops.lion import DeepSpeedCPULion, FusedLion
from deepspeed.runtime import lr_schedules
from deepspeed.runtime.config import DEEPSPEED_OPTIMIZERS
from deepspeed.runtime.engine import DeepSpeedEngine
from deepspeed.runtime.config import DeepSpeedConfig, get_pipeline_config
from deepspeed.runtime.tensor_parallel.config import TPTrainingConfig
from deepspeed.runtime.zenflow.zenflow_config import ZenFlowConfig
from deepspeed.runtime.zero.leaf_module_config import DeepSpeedZeroLeafModuleConfig
from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
from deepspeed.runtime.zero.offload_config import DeepSpeedZeroOffloadOptimizerConfig, DeepSpeedZeroOffloadParamConfig

class Asked(dict):
    "Notes every key that DeepSpeed looks for."
    def __init__(self, *of, **keys): super().__init__(*of, **keys); self.asked = set()
    def get(self, key, *rest): self.asked.add(key); return super().get(key, *rest)
    def __contains__(self, key): self.asked.add(key); return super().__contains__(key)
    def __getitem__(self, key): self.asked.add(key); return super().__getitem__(key)
    def keys(self): return self
    def __deepcopy__(self, memo): return self
writer, moe, tuning = Asked(type="FAST"), Asked(enabled=False), Asked(enabled=False)
saves = Asked(writer=writer)
sections = {"checkpoint": saves, "expert_parallel": moe, "autotuning": tuning}
whole = Asked(train_micro_batch_size_per_gpu=2, **sections)
DeepSpeedConfig(whole)

def names(model):
    found = model.model_fields.items()
    return sorted(f.alias or name for name, f in found if not (f.json_schema_extra or {}).get("deprecated"))

def arguments(*classes):
    return sorted({name for each in classes for name in signature(each).parameters} - {"params", "model_params"})

optimizers = {name: getattr(torch.optim, name) for name in dir(torch.optim)}
print(json.dumps({
    "optimizers": {n: arguments(c) for n, c in optimizers.items() if isinstance(c, type)},
    "own_optimizers": {
        "adam": arguments(DeepSpeedCPUAdam, FusedAdam), "lamb": arguments(FusedLamb),
        "lion": arguments(DeepSpeedCPULion, FusedLion), "adagrad": arguments(DeepSpeedCPUAdagrad, torch.optim.Adagrad),
    },
    "names": sorted(DEEPSPEED_OPTIMIZERS),
    "muon": sorted({*DeepSpeedEngine._MUON_HALF_KEYS, *DeepSpeedEngine._ADAM_HALF_KEYS}),
    "accelerate": sorted(ClusterConfig.__dataclass_fields__),
    "flags": sorted(action.dest for action in launch_command_parser()._actions),
    "deepspeed": sorted(whole.asked),
    "checkpoint": sorted(saves.asked),
    "writer": sorted(writer.asked),
    "expert_parallel": sorted(moe.asked),
    "autotuning": sorted(tuning.asked),
    "tensor_parallel": sorted(TPTrainingConfig.model_fields),
    "compile": names(CompileConfig),
    "zenflow": names(ZenFlowConfig),
    "leaf_module": names(DeepSpeedZeroLeafModuleConfig),
    "weight_quantization": names(WeightQuantConfig),
    "pipeline": sorted(get_pipeline_config({})),
    "schedulers": {n: sorted(signature(getattr(lr_schedules, n)).parameters) for n in lr_schedules.VALID_LR_SCHEDULES},
    "of_torch": [n for n in dir(torch.optim.lr_scheduler) if isinstance(getattr(torch.optim.lr_scheduler, n), type)],
    "zero": names(DeepSpeedZeroConfig),
    "offload_optimizer": names(DeepSpeedZeroOffloadOptimizerConfig),
    "offload_param": names(DeepSpeedZeroOffloadParamConfig),
}))
"""
NO_TPU = {"tpu_name", "tpu_zone", "tpu_use_cluster", "tpu_use_sudo", "command_file", "commands", "tpu_vm", "tpu_env"}


@pytest.mark.engine
@pytest.mark.slow
def test_the_known_keys_are_those_of_the_installed_engines() -> None:
    pytest.importorskip("accelerate", reason="accelerate is an extra")
    pytest.importorskip("deepspeed", reason="DeepSpeed is an extra")
    environment = {**os.environ, "DS_ACCELERATOR": "cpu"}
    done = subprocess.run([sys.executable, "-c", KEYS], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    theirs: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    ours = {path[0] for path in OF_THE_PLAN} | set(ACCELERATE)
    assert ours == set(theirs["accelerate"]) - NO_TPU
    fsdp = {path[1] for path in OF_THE_PLAN if path[0] == "fsdp_config"} | {f"fsdp_{name}" for name in FSDP_1}
    assert fsdp | set(_section("fsdp_config")) == {flag for flag in theirs["flags"] if flag.startswith("fsdp_")}
    mesh = set(_section("parallelism_config"))
    assert mesh == {flag for flag in theirs["flags"] if flag.startswith("parallelism_config_")}
    old = {"bfloat16", "torch_autocast"}  # another name of bf16; said by jobc
    top = {path[0] for path in OF_DEEPSPEED} | set(DEEPSPEED) | set(REMOVED)
    assert top == (set(theirs["deepspeed"]) | {"elasticity"}) - old
    said = {path[1] for path in OF_DEEPSPEED if path[0] == "zero_optimization" and len(path) > 1}
    assert set(ZERO) | said >= set(theirs["zero"]) - {"legacy_stage1"}
    for section in ("offload_optimizer", "offload_param"):
        assert {*ZERO[section], "device", "nvme_path"} == set(theirs[section])  # type: ignore[misc]
    tables: dict[str, Any] = {**DEEPSPEED, **ZERO, "writer": DEEPSPEED["checkpoint"]["writer"]}  # type: ignore[index]
    for section in ("checkpoint", "writer", "expert_parallel", "autotuning", "compile", "zenflow", "leaf_module"):
        assert set(tables[section]) == set(theirs[section]) - {"steps_per_epoch"}, section
    assert set(tables["pipeline"]) == {*theirs["pipeline"], "use_reentrant"}
    assert set(tables["weight_quantization"]) == set(theirs["weight_quantization"])
    not_in_json = {"dtype"}  # of torch; and two that have an alias each
    assert set(tables["tensor_parallel"]) == {*theirs["tensor_parallel"], "tp", "kernel_inject"} - not_in_json
    schedulers: dict[str, list[str]] = theirs["schedulers"]  # type: ignore[assignment]
    assert {name: {*known, "optimizer"} for name, known in SCHEDULERS.items()} == {
        n: set(p) for n, p in schedulers.items()
    }
    assert set(OF_TORCH) <= set(theirs["of_torch"])
    assert sorted(OF_DEEPSPEEDS_OPTIMIZERS) == theirs["names"]
    optimizers: dict[str, list[str]] = theirs["optimizers"]  # type: ignore[assignment]
    assert {n: set(keys) for n, keys in TORCH_OPTIMIZERS.items()} == {n: set(optimizers[n]) for n in TORCH_OPTIMIZERS}
    own: dict[str, list[str]] = theirs["own_optimizers"]  # type: ignore[assignment]
    chosen = {"torch_adam", "adam_w_mode"}  # which DeepSpeed takes out, and says in the words of the one that it chose
    assert {*optimizer_params("Adam")} - chosen == set(own["adam"]) - {"adamw_mode", *chosen}
    refused_by_all = {"max_grad_norm"}
    for name in ("lamb", "lion", "adagrad"):
        assert set(optimizer_params(name)) == set(own[name]) - refused_by_all, name
    assert set(optimizer_params("muon")) >= set(theirs["muon"])
    assert set(optimizer_params("AdamW", torch_adam=True)) >= set(optimizers["AdamW"])


def optimizer_params(kind: str, **params: bool) -> Any:
    known: Any = optimizer({"type": kind})["params"]
    return known(params) if callable(known) else known


def _section(name: str) -> Any:
    return ACCELERATE[name]


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
    for path in ("accelerate.yaml", "deepspeed.json", "train.json", "node.sh"):
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
    job = compile_job(Request(("+experiment=qwen_image", "backend=accelerate", "parallel=deepspeed", f"nodes={nodes}")))
    batch = json.loads(text(job, "train.json"))["batch"]
    told = json.loads(text(job, "deepspeed.json"))
    world = 8 * nodes
    assert job.plan.topology.world_size == world == json.loads(text(job, "train.json"))["world_size"]
    assert (batch["micro"], batch["accumulation"], batch["global"]) == (1, 1, world)
    sizes = ("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size")
    assert [told[key] for key in sizes] == [1, 1, world]
    samples = json.loads(text(job, "train.json"))["data"]["samples"]
    assert Order(0, samples, batch["global"], drop_last=False).steps_per_epoch == steps
    assert Order(0, samples, batch["global"], drop_last=True).steps_per_epoch == dropped


def test_any_backend_merges_extras_into_the_files_of_accelerate_and_checks_them() -> None:
    slurm = ("backend=slurm", "nodes=2", "gpus=8")
    both = ("launcher=accelerate", "parallel=deepspeed")
    words = ("accelerate.extra.enable_cpu_affinity=true", "accelerate.deepspeed_extra.aio.queue_depth=2")
    job = compile_job(Request((*slurm, *both, *words), ("train.py",)))
    texts = {file.path: file.text for file in job.artifacts}
    assert yaml.safe_load(texts["accelerate.yaml"])["enable_cpu_affinity"] is True
    assert json.loads(texts["deepspeed.json"])["aio"] == {"queue_depth": 2}
    lines = texts["accelerate.yaml"].splitlines()
    keys, _ = job.source_map.files["accelerate.yaml"][lines.index("enable_cpu_affinity: true")]
    assert job.source_map.spec_keys(keys) == ("accelerate.extra.enable_cpu_affinity",)
    wrong = ("accelerate.extra.num_machines=3", "accelerate.extra.fp8_config.margin=-1", words[1])
    with pytest.raises(CompileError) as refused:
        compile_job(Request((*slurm, *wrong), ("train.py",)))
    found = {(d.code, d.key) for d in refused.value.diagnostics}
    assert found == {
        ("JC4600", "accelerate.extra.num_machines"),
        ("JC4603", "accelerate.extra.fp8_config.margin"),
        ("JC4604", "accelerate.extra.fp8_config.margin"),
        ("JC4604", "accelerate.deepspeed_extra.aio.queue_depth"),
    }
    volume = "mounts=[{kind: claim, source: shared, target: /shared, read_only: false}]"
    pods = ("backend=kubernetes", "image=x", "storage.root=/shared/runs", volume, "launcher=accelerate")
    engines = {text(compile_job(Request((*pods, *more))), "engine.sh") for more in ((), words[:1])}
    assert len(engines) == 2, "another plan has another object's name"


def test_a_line_of_an_extra_leads_to_its_key() -> None:
    job = compiled("nodes=2", "procs=2", "backend.extra.debug=true")
    row = text(job, "accelerate.yaml").splitlines().index("debug: true")
    keys = job.source_map.files["accelerate.yaml"][row][0]
    assert job.source_map.spec_keys(keys) == ("backend.extra.debug",)


# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(OF_THE_PLAN), ids=".".join)
def test_what_the_plan_says_cannot_be_an_extra(path: tuple[str, ...]) -> None:
    parallel = {"fsdp_config": "fsdp", "deepspeed_config": "deepspeed"}.get(path[0], "ddp")
    key = ".".join(("backend", "extra", *path))
    assert codes("nodes=2", "procs=2", f"parallel={parallel}", f"{key}=7")[key] == "JC4600"


@pytest.mark.parametrize("path", sorted(OF_DEEPSPEED), ids=".".join)
def test_what_train_json_says_cannot_be_an_extra_of_deepspeed(path: tuple[str, ...]) -> None:
    key = ".".join(("backend", "deepspeed_extra", *path))
    assert codes("nodes=2", "procs=2", "parallel=deepspeed", f"{key}=7")[key] == "JC4600"


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("backend.extra.debug=1", "JC4603"),
        ("backend.extra.fp8_config.margin=-1", "JC4603"),
        ("backend.extra.fp8_config=on", "JC4603"),
        ("backend.extra.fp8_config.fp8_format=E3M4", "JC4603"),
        ("backend.extra.fp8_config.fp8_fromat=E4M3", "JC4602"),
        ("backend.extra.ipex_config.ipex=true", "JC4602"),
        ("backend.extra.debug=null", ""),
        ("backend.deepspeed_extra.fp16.loss_scale=lots", "JC4603"),
        ("backend.deepspeed_extra.zero_optimization.offload_optimizer.ratio=1.5", "JC4603"),
        ("backend.deepspeed_extra.zero_optimization.stage3_prefetch_bucket_size=-1", "JC4603"),
        ("backend.deepspeed_extra.zero_optimization.stage3_prefech_bucket_size=1", "JC4602"),
        ("backend.deepspeed_extra.gradient_cliping=1", "JC4602"),
        ("backend.deepspeed_extra.aio.queue_depth=16", ""),
        ("backend.deepspeed_extra.aio.thread_count=2", "JC4602"),
        ("backend.deepspeed_extra.activation_checkpointing.partition_activation=true", "JC4602"),
        ("backend.deepspeed_extra.comms_logger.enabled=yes", "JC4603"),
        ("backend.deepspeed_extra.comet.api_key=abc", "JC4602"),
        ("backend.deepspeed_extra.checkpoint.load_universal=true", ""),
        ("backend.deepspeed_extra.checkpoint.load_univeral=true", "JC4602"),
        ("backend.deepspeed_extra.checkpoint.tag_validation=Ignore", ""),
        ("backend.deepspeed_extra.checkpoint.tag_validation=Never", "JC4603"),
        ("backend.deepspeed_extra.scheduler={type: WarmupLR, params: {warmup_max_lr: 1e-4}}", ""),
        ("backend.deepspeed_extra.scheduler={type: WarmupLR, params: {warmup_max_lr: [1e-4, 1e-3]}}", ""),
        ("backend.deepspeed_extra.scheduler={type: WarmupLR, params: {total_num_steps: 9}}", "JC4602"),
        ("backend.deepspeed_extra.scheduler={type: WarmupDecayLR, params: {total_num_steps: 0}}", "JC4603"),
        ("backend.deepspeed_extra.scheduler={type: CosineAnnealingLR, params: {T_max: 9}}", ""),
        ("backend.deepspeed_extra.scheduler.type=WarmUpLR", "JC4603"),
        ("backend.deepspeed_extra.scheduler=WarmupLR", "JC4603"),
        ("backend.deepspeed_extra.tensor_parallel.autotp_size=2", ""),
        ("backend.deepspeed_extra.tensor_parallel.auto_tp_size=2", "JC4602"),
        ("backend.deepspeed_extra.tensor_parallel.preset_model=lama", "JC4603"),
        ("backend.deepspeed_extra.compression_training.layer_reduction.enabled=true", "JC4602"),
        ("backend.deepspeed_extra.zero_optimization.zenflow.topk_ration=0.1", "JC4602"),
        ("backend.deepspeed_extra.optimizer.type=Adma", "JC4603"),
        ("backend.deepspeed_extra.optimizer.type=adamw", ""),
        ("backend.deepspeed_extra.optimizer={type: OneBitAdam, params: {freeze_step: 9}}", "JC4603"),
        ("backend.deepspeed_extra.optimizer.legacy_fusion=1", "JC4603"),
        ("backend.deepspeed_extra.scheduler={type: WarmupLR, params: {warmup_max_lr: auto}}", ""),
        ("backend.deepspeed_extra.datastates_ckpt.host_cache_size=16", ""),
        ("backend.deepspeed_extra.datastates_ckpt.host_cache=16", "JC4602"),
        ("backend.deepspeed_extra.weight_quantization.quantized_initialization.num_bits=6", "JC4603"),
        ("backend.deepspeed_extra.weight_quantization.quantized_initialization.group_sise=64", "JC4602"),
        ("backend.deepspeed_extra.weight_quantization.post_init_quant={fc1: {num_bits: 4, symmetric: false}}", ""),
        ("backend.deepspeed_extra.weight_quantization.post_init_quant={fc1: {num_bits: 4, symmetric: true}}", "JC4603"),
        ("backend.deepspeed_extra.weight_quantization.post_init_quant={fc1: {bits: 4}}", "JC4602"),
        ("backend.deepspeed_extra.weight_quantization.post_init_quant={fc1: 4}", "JC4603"),
        ("backend.extra.megatron_lm_config.megatron_lm_tp_degree=2", "JC4604"),
    ],
)
def test_keys_types_and_ranges_of_extras(word: str, code: str) -> None:
    found = codes("nodes=2", "procs=2", "parallel=deepspeed", word)
    assert set(found.values()) == ({code} if code else set())


@pytest.mark.parametrize(
    ("kind", "params", "wrong"),
    [
        ("AdamW", "{lr: -1, beta: [0.9]}", {"lr": "JC4603", "beta": "JC4602"}),
        ("AdamW", "{lr: 1e-4, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0, torch_adam: true, fused: true}", {}),
        ("Adam", "{lr: auto, betas: auto, eps: auto, weight_decay: auto, adam_w_mode: false}", {}),
        ("adam", "{lr: 0, betas: [0.9, 1], eps: 0, weight_decay: -1}",
         {"lr": "JC4603", "betas": "JC4603", "eps": "JC4603", "weight_decay": "JC4603"}),
        ("Adam", "{fused: true, amsgrad: true, max_grad_norm: 1}",
         {"fused": "JC4602", "amsgrad": "JC4603", "max_grad_norm": "JC4602"}),
        ("Lamb", "{lr: 1e-3, max_coeff: 0.3, min_coeff: 0.01, momentum: 0.9}", {"momentum": "JC4602"}),
        ("Lion", "{betas: [0.9, 0.99], eps: 1e-8}", {"eps": "JC4602"}),
        ("Muon", "{muon_lr: 0.02, adam_lr: 3e-4, momentum: 0.95, ns_method: gram, nesterov: true}",
         {"nesterov": "JC4602"}),
        ("MuSGD", "{lr: 0.1, decoupled_wd: true, momentum: -1}", {"momentum": "JC4603"}),
        ("Adagrad", "{lr: 1e-2, lr_decay: -1}", {"lr_decay": "JC4603"}),
        ("SGD", "{lr: 0.1, momentum: 0.9, nesterov: true}", {}),
        ("Rprop", "{etas: [1.2, 0.5]}", {"etas": "JC4603"}),
        ("Adafactor", "{d: 0.5, betas: [0.9, 0.99]}", {"d": "JC4603", "betas": "JC4602"}),
    ],
)  # fmt: skip
def test_params_of_an_optimizer_are_those_of_its_type(kind: str, params: str, wrong: dict[str, str]) -> None:
    for section, backend in (("backend", "accelerate"), ("accelerate", "slurm")):
        word = f"{section}.deepspeed_extra.optimizer={{type: {kind}, params: {params}}}"
        found = refused(
            f"backend={backend}",
            *([HOSTS] if backend != "slurm" else []),
            "nodes=2",
            "procs=2",
            "parallel=deepspeed",
            word,
        )
        assert found == {f"{section}.deepspeed_extra.optimizer.params.{name}": code for name, code in wrong.items()}


@pytest.mark.parametrize(
    ("ids", "gpus", "code"),
    [("'0,1'", 2, ""), ("all", 2, ""), ("3", 1, ""), ("'GPU-1a2b,GPU-3c4d'", 2, ""), ("'9,99'", 0, "JC4604"),
     ("'0,1,2'", 2, "JC4604"), ("'1,1'", 2, "JC4603"), ("'1,01'", 2, "JC4603"), ("'0, 1'", 2, "JC4603"),
     ("one", 1, "JC4603"), ("-1", 1, "JC4603")],
)  # fmt: skip
def test_gpu_ids_are_as_many_different_gpus_as_processes_of_a_node(ids: str, gpus: int, code: str) -> None:
    size = f"gpus={gpus}" if gpus else "procs=2"
    found = refused("backend=accelerate", HOSTS, "nodes=2", size, f"backend.extra.gpu_ids={ids}")
    assert found == ({"backend.extra.gpu_ids": code} if code else {})


@pytest.mark.parametrize("section", ["backend", "accelerate"])
@pytest.mark.parametrize(
    ("ids", "site", "code"),
    [("'9,99'", "2", "JC2060"), ("'0,2'", "2", "JC2060"), ("'0,1'", "2", ""), ("'1,3'", "4", ""),
     ("'9,99'", "null", ""), ("'GPU-7,GPU-8'", "2", ""), ("all", "2", "")],
)  # fmt: skip
def test_gpu_ids_are_of_gpus_that_a_host_has(section: str, ids: str, site: str, code: str) -> None:
    where = {"backend": ("backend=accelerate",), "accelerate": ("backend=ssh", "launcher=accelerate")}[section]
    words = (*where, HOSTS, "nodes=2", "gpus=2", f"site.gpus={site}", f"{section}.extra.gpu_ids={ids}")
    assert refused(*words) == ({f"{section}.extra.gpu_ids": code} if code else {})


def test_an_extra_of_the_trainers_own_settings_is_refused_for_the_trainer_alone() -> None:
    words = ("nodes=2", "procs=2", "backend.extra.mixed_precision=fp16")
    assert codes(*words, command=None) == {"backend.extra.mixed_precision": "JC4600"}
    assert codes(*words) == {}


def test_own_commands_read_these_files_so_their_keys_are_not_called_unread() -> None:
    job = compiled("nodes=2", "procs=2", "parallel=deepspeed", "batch.micro=3", command=("train.py",))
    assert not job.diagnostics
    job = compiled("nodes=2", "procs=2", "model.width=64", command=("train.py",))
    assert [diagnostic.code for diagnostic in job.diagnostics] == ["JC2014"]
