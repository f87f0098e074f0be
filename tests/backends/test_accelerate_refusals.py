"""Extras of accelerate.yaml and deepspeed.json: jobc's checks in place of the engines' own."""

from __future__ import annotations

import pytest

from jobc.compiler.diagnostics.diagnostic import Severity
from jobc.compiler.launchers.accelerate.protected_keys import OF_DEEPSPEED, OF_THE_PLAN
from jobc.tests.backends.accelerate_jobs import HOSTS, codes, compiled, refused


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
        ("backend.extra.debug=maybe", "JC4603"),
        ("backend.extra.fp8_config.margin=wide", "JC4603"),
        ("backend.extra.fp8_config=on", "JC4603"),
        ("backend.extra.fp8_config.fp8_format=E3M4", "JC4603"),
        ("backend.extra.fp8_config.fp8_fromat=E4M3", "JC4602"),
        ("backend.extra.ipex_config.ipex=true", "JC4602"),
        ("backend.extra.debug=null", ""),
        ("backend.deepspeed_extra.fp16.loss_scale=lots", "JC4603"),
        ("backend.deepspeed_extra.zero_optimization.offload_optimizer.ratio=1.5", "JC4603"),
        ("backend.deepspeed_extra.zero_optimization.stage3_prefetch_bucket_size=-1", "JC4603"),
        ("backend.deepspeed_extra.zero_optimization.stage3_prefech_bucket_size=1", "JC4602"),
        ("backend.deepspeed_extra.zero_optimization.stage3_prefetch_bucket_size=auto", ""),
        ("backend.deepspeed_extra.zero_optimization.stage3_max_live_parameters=1e9", ""),
        ("backend.deepspeed_extra.zero_optimization.stage3_max_live_parameters=1.5", "JC4603"),
        ("backend.deepspeed_extra.zero_optimization.gather_16bit_weights_on_model_save=true", ""),
        ("backend.deepspeed_extra.zero_optimization.mics_shard_size=4", "JC4602"),
        ("backend.deepspeed_extra.zero_optimization.cpu_offload=true", "JC4600"),
        ("backend.deepspeed_extra.gradient_allreduce_op=sum", ""),
        ("backend.deepspeed_extra.bf16.check_grad_overflow=false", ""),
        ("backend.deepspeed_extra.bf16.check_overflow=false", "JC4602"),
        ("backend.deepspeed_extra.gradient_cliping=1", "JC4602"),
        ("backend.deepspeed_extra.aio.queue_depth=16", ""),
        ("backend.deepspeed_extra.aio.thread_count=2", "JC4602"),
        ("backend.deepspeed_extra.activation_checkpointing.partition_activation=true", "JC4602"),
        ("backend.deepspeed_extra.comms_logger.enabled=yes", ""),
        ("backend.deepspeed_extra.comms_logger.enabled=maybe", "JC4603"),
        ("backend.deepspeed_extra.comet.api_key=abc", "JC4602"),
        ("backend.deepspeed_extra.checkpoint.load_universal=true", ""),
        ("backend.deepspeed_extra.checkpoint.load_univeral=true", "JC4602"),
        ("backend.deepspeed_extra.checkpoint.tag_validation=Ignore", ""),
        ("backend.deepspeed_extra.checkpoint.tag_validation=Never", "JC4603"),
        ("backend.deepspeed_extra.scheduler={type: WarmupLR, params: {warmup_max_lr: 1e-4}}", ""),
        ("backend.deepspeed_extra.scheduler={type: WarmupLR, params: {warmup_max_lr: [1e-4, 1e-3]}}", ""),
        ("backend.deepspeed_extra.scheduler={type: WarmupLR, params: {total_num_steps: 9}}", "JC4602"),
        ("backend.deepspeed_extra.scheduler={type: WarmupDecayLR, params: {total_num_steps: soon}}", "JC4603"),
        ("backend.deepspeed_extra.scheduler={type: CosineAnnealingLR, params: {T_max: 9}}", ""),
        ("backend.deepspeed_extra.scheduler.type=WarmUpLR", "JC4603"),
        ("backend.deepspeed_extra.scheduler=WarmupLR", "JC4603"),
        ("backend.deepspeed_extra.tensor_parallel.autotp_size=2", ""),
        ("backend.deepspeed_extra.tensor_parallel.auto_tp_size=2", "JC4602"),
        ("backend.deepspeed_extra.tensor_parallel.preset_model=[llama]", "JC4603"),
        ("backend.deepspeed_extra.compression_training.layer_reduction.enabled=true", "JC4602"),
        ("backend.deepspeed_extra.zero_optimization.zenflow.topk_ration=0.1", "JC4602"),
        ("backend.deepspeed_extra.optimizer.type=Adma", "JC4603"),
        ("backend.deepspeed_extra.optimizer.type=adamw", ""),
        ("backend.deepspeed_extra.optimizer={type: OneBitAdam, params: {freeze_step: 9}}", "JC4603"),
        ("backend.deepspeed_extra.optimizer.legacy_fusion=true", ""),
        ("backend.deepspeed_extra.scheduler={type: WarmupLR, params: {warmup_max_lr: auto}}", ""),
        ("backend.deepspeed_extra.datastates_ckpt.host_cache_size=16", ""),
        ("backend.deepspeed_extra.datastates_ckpt.host_cache=16", "JC4602"),
        ("backend.extra.megatron_lm_config.megatron_lm_tp_degree=2", "JC4604"),
    ],
)
def test_keys_types_and_ranges_of_extras(word: str, code: str) -> None:
    found = codes("nodes=2", "procs=2", "parallel=deepspeed", word)
    assert set(found.values()) == ({code} if code else set())


@pytest.mark.parametrize(
    ("kind", "params", "wrong"),
    [
        ("AdamW", "{lr: fast, beta: [0.9]}", {"lr": "JC4603", "beta": "JC4602"}),
        ("AdamW", "{lr: 1e-4, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0, torch_adam: true, fused: true}", {}),
        ("AdamW", "{lr: -1, torch_adam: true}", {"lr": "JC4603"}),
        ("Adam", "{lr: auto, betas: auto, eps: auto, weight_decay: auto, adam_w_mode: false}", {}),
        ("Adam", "{fused: true, max_grad_norm: 1}", {"fused": "JC4602", "max_grad_norm": "JC4602"}),
        ("Lamb", "{lr: 1e-3, max_coeff: 0.3, min_coeff: 0.01, momentum: 0.9}", {"momentum": "JC4602"}),
        ("Lion", "{betas: [0.9, 0.99], eps: 1e-8}", {"eps": "JC4602"}),
        ("Muon", "{muon_lr: 0.02, adam_lr: 3e-4, momentum: 0.95, ns_method: gram, nestrov: true}",
         {"nestrov": "JC4602"}),
        ("MuSGD", "{lr: 0.1, decoupled_wd: true, momentum: -1}", {"momentum": "JC4603"}),
        ("SGD", "{lr: 0, momentum: 0.9, nesterov: true}", {}),
        ("Rprop", "{etas: half}", {"etas": "JC4603"}),
        ("Adafactor", "{d: 0.5, betas: [0.9, 0.99]}", {"d": "JC4603", "betas": "JC4602"}),
    ],
)  # fmt: skip
def test_params_of_an_optimizer_are_those_of_its_type(kind: str, params: str, wrong: dict[str, str]) -> None:
    for section, backend in (("backend", "accelerate"), ("accelerate", "slurm")):
        word = f"{section}.deepspeed_extra.optimizer={{type: {kind}, params: {params}}}"
        found = refused(
            f"backend={backend}",
            *(HOSTS if backend != "slurm" else ()),
            "nodes=2",
            "procs=2",
            "parallel=deepspeed",
            word,
        )
        assert found == {f"{section}.deepspeed_extra.optimizer.params.{name}": code for name, code in wrong.items()}


def test_a_deprecated_key_is_accepted_with_a_warning() -> None:
    old, new = "stage3_gather_fp16_weights_on_model_save", "gather_16bit_weights_on_model_save"
    words = ("nodes=2", "procs=2", "parallel=deepspeed", f"backend.deepspeed_extra.zero_optimization.{old}=true")
    (warning,) = compiled(*words, command=("train.py",)).diagnostics
    assert (warning.code, warning.severity) == ("JC4606", Severity.WARNING) and warning.hint.endswith(f".{new}=true")


@pytest.mark.parametrize(
    ("ids", "gpus", "code"),
    [("'0,1'", 2, ""), ("all", 2, ""), ("3", 1, ""), ("'GPU-1a2b,GPU-3c4d'", 2, ""), ("'9,99'", 0, "JC4604"),
     ("'0,1,2'", 2, "JC4604"), ("'1,1'", 2, "JC4603"), ("'1,01'", 2, "JC4603"), ("'0, 1'", 2, "JC4603"),
     ("one", 1, "JC4603"), ("-1", 1, "JC4603")],
)  # fmt: skip
def test_gpu_ids_are_as_many_different_gpus_as_processes_of_a_node(ids: str, gpus: int, code: str) -> None:
    size = f"gpus={gpus}" if gpus else "procs=2"
    found = refused("backend=accelerate", *HOSTS, "nodes=2", size, f"backend.extra.gpu_ids={ids}")
    assert found == ({"backend.extra.gpu_ids": code} if code else {})


@pytest.mark.parametrize("section", ["backend", "accelerate"])
@pytest.mark.parametrize(
    ("ids", "site", "code"),
    [("'9,99'", "2", "JC2060"), ("'0,2'", "2", "JC2060"), ("'0,1'", "2", ""), ("'1,3'", "4", ""),
     ("'9,99'", "null", ""), ("'GPU-7,GPU-8'", "2", ""), ("all", "2", "")],
)  # fmt: skip
def test_gpu_ids_are_of_gpus_that_a_host_has(section: str, ids: str, site: str, code: str) -> None:
    where = {"backend": ("backend=accelerate",), "accelerate": ("backend=ssh", "launcher=accelerate")}[section]
    words = (*where, *HOSTS, "nodes=2", "gpus=2", f"site.gpus={site}", f"{section}.extra.gpu_ids={ids}")
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
