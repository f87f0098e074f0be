"""Map the names used by other launch tools to jobc's keys, for hints to their users."""

from collections.abc import Mapping

# torchrun; sbatch; Kubernetes; SkyPilot; accelerate, DeepSpeed and HF's TrainingArguments
KEYS: Mapping[str, str] = {
    "nnodes": "nodes",
    "nproc_per_node": "procs",
    "rdzv_backend": "rendezvous.backend",
    "master_port": "rendezvous.port",
    "partition": "queue.name",
    "account": "queue.account",
    "dependency": "queue.after",
    "ntasks_per_node": "procs",
    "gpus_per_node": "gpus",
    "cpus_per_task": "cpus",
    "cpu_bind": "backend.cpu_bind",
    "gpu_bind": "backend.gpu_bind",
    "distribution": "backend.distribution",
    "label": "backend.label",
    "mpi": "backend.mpi",
    "srun_args": "backend.srun_extra",
    "walltime": "time",
    "time_limit": "time",
    "completions": "nodes",
    "parallelism": "nodes",
    "replicas": "nodes",
    "priority_class": "queue.priority",
    "priority_class_name": "queue.priority",
    "queue_name": "queue.name",
    "ttl": "lifecycle.keep",
    "ttl_seconds_after_finished": "lifecycle.keep",
    "backoff_limit": "lifecycle.max_requeues",
    "termination_grace_period_seconds": "lifecycle.grace",
    "active_deadline_seconds": "backend.deadline",
    "service_account_name": "backend.service_account",
    "runtime_class_name": "backend.runtime_class",
    "num_nodes": "nodes",
    "image_id": "image",
    "envs": "env",
    "memory": "mem",
    "workdir": "code.root",
    "num_machines": "nodes",
    "main_process_port": "rendezvous.port",
    "mixed_precision": "loop.precision",
    "distributed_type": "parallel",
    "zero_stage": "parallel.zero_stage",
    "gradient_accumulation_steps": "batch.accumulation",
    "train_batch_size": "batch.global",
    "per_device_train_batch_size": "batch.micro",
    "train_micro_batch_size_per_gpu": "batch.micro",
    "gradient_clipping": "optim.clip_norm",
    "max_grad_norm": "optim.clip_norm",
    "grad_clip": "optim.clip_norm",
    "clip_grad_norm": "optim.clip_norm",
    "strategy": "parallel",
    "learning_rate": "optim.lr",
    "max_steps": "loop.steps",
    "setup_commands": "setup",
    "prologue": "setup",
    "epilogue": "after",
    "worker_init": "setup",
    "num_train_epochs": "loop.epochs",
    "max_epochs": "loop.epochs",
    "num_epochs": "loop.epochs",
    "train_steps": "loop.steps",
    "max_train_steps": "loop.steps",
    "gradient_clip_val": "optim.clip_norm",
    "clip_grad": "optim.clip_norm",
    "max_norm": "optim.clip_norm",
    "batch_size": "batch.micro",
    "micro_batch_size": "batch.micro",
    "global_batch_size": "batch.global",
    "precision": "loop.precision",
    "dtype": "loop.precision",
    "compile": "loop.compile",
    "torch_compile": "loop.compile",
    "lr_scheduler": "optim.schedule",
    "lr_scheduler_type": "optim.schedule",
    "lr_schedule": "optim.schedule",
    "scheduler": "optim.schedule",
    "schedule": "optim.schedule",
    "stage": "parallel.zero_stage",
    "tolerations": "backend.tolerations",
    "sharding_strategy": "parallel",
    "save_steps": "checkpoint.every_steps",
    "save_interval": "checkpoint.every_steps",
    "save_every": "checkpoint.every_epochs",
    "every_n_epochs": "checkpoint.every_epochs",
    "save_total_limit": "checkpoint.keep",
    "eval_steps": "validation.every_steps",
    "eval_interval": "validation.every_steps",
    "logging_steps": "metrics.every_steps",
    "log_interval": "metrics.every_steps",
    "seed_everything": "seed",
    "num_workers": "loader.workers",
    "dataloader_num_workers": "loader.workers",
    "prefetch_factor": "loader.prefetch",
    "output_dir": "storage.root",
    "log_dir": "storage.root",
    "data_dir": "storage.data",
    "devices": "gpus",
    "ngpus": "gpus",
    "job_name": "name",
    "container_image": "image",
    "docker_image": "image",
    "shm_size": "shm",
}
IN_WORDS: Mapping[str, str] = {  # names whose values have a different form in jobc
    "accelerators": "gpu_type=H100 gpus=8, for H100:8",
    "gres": "gpus=8, for gpu:8",
    "accelerator": "gpus=8, the number on each node",
    "num_processes": "procs, the number per node",
    "ntasks": "nodes and procs (tasks = nodes x procs)",
    "entrypoint": "the command, at the end of the line: -- train.py",
    "script": "the command, at the end of the line: -- train.py",
    "debug": "network.debug=true for NCCL's log; jobc smoke DIR tests the nodes of a job",
    "nccl_debug": "network.debug=true, or env.NCCL_DEBUG=INFO",
    "profile.active": "profile.steps=[5,6], the first and the last step that are recorded",
    "profiler.active": "profile.steps=[5,6], the first and the last step that are recorded",
    "profile.wait": "profile.steps=[5,6], the first and the last step that are recorded",
    "profile.warmup": "profile.steps=[5,6], the first and the last step that are recorded",
    "deepspeed": "parallel=deepspeed",
    "zero": "parallel=deepspeed, with parallel.zero_stage",
    "zero_optimization": "parallel=deepspeed parallel.zero_stage=3, or parallel=fsdp",
    "zero2": "parallel=deepspeed parallel.zero_stage=2",
    "zero3": "parallel=deepspeed parallel.zero_stage=3, or parallel=fsdp",
    "fsdp": "parallel=fsdp",
    "ddp": "parallel=ddp",
    "hybrid_shard": "parallel=hsdp",
    "bf16": "loop.precision=bf16",
    "fp16": "loop.precision=fp16",
    "amp": "loop.precision=bf16",
    "gradient_checkpointing": "loop.activation_checkpointing=1, for every block",
    "warmup_ratio": "optim.warmup_steps=100, a number of steps",
    "venv": "python=venv python.path=.venv",
    "conda": "python=conda python.path=my-environment",
    "modules": "python=modules python.modules=[cuda]",
    "wandb": "metrics.trackers=[wandb]",
    "use_wandb": "metrics.trackers=[wandb]",
    "report_to": "metrics.trackers=[wandb]",
    "tensorboard": "metrics.trackers=[tensorboard]",
    "use_spot": "backend=skypilot backend.use_spot=true",
    "spot": "backend=skypilot backend.use_spot=true",
    "cloud": "backend=skypilot backend.infra=aws",
    "infra": "backend=skypilot backend.infra=aws",
    "namespace": "backend=kubernetes backend.namespace=team",
    "constraint": "backend=slurm backend.constraint=a100",
    "requeue": "lifecycle.max_requeues=3, how many times",
    "signal": "lifecycle.grace=60s, the time to save before the kill",
    "master_addr": "remove master_addr; jobc finds node 0's address",
    "main_process_ip": "remove main_process_ip; jobc finds node 0's address",
    "node_rank": "remove node_rank; jobc gives each node its rank",
    "machine_rank": "remove machine_rank; jobc gives each node its rank",
    "world_size": "remove world_size; it is nodes x procs",
    "resume": "jobctl submit --resume ID, or jobc submit DIR --resume ID",
    "resume_from_checkpoint": "jobctl submit --resume ID, or jobc submit DIR --resume ID",
    "pvc": "'mounts=[{kind: claim, source: shared-data, target: /shared, read_only: false}]'",
    "volumes": "'mounts=[{kind: claim, source: shared-data, target: /shared, read_only: false}]'",
}
# Feature that the bundled trainer does not support -> its names in other tools, as keys or values.
NOT_SUPPORTED: Mapping[str, tuple[str, ...]] = {
    "tensor parallelism": (
        "tp", "tp_size", "tensor_parallel", "tensor_parallel_size", "tensor_model_parallel_size",
    ),
    "pipeline parallelism": (
        "pp", "pp_size", "pipeline_parallel", "pipeline_parallel_size", "pipeline_model_parallel_size",
    ),
    "context parallelism": ("cp", "cp_size", "context_parallel", "context_parallel_size"),
    "sequence parallelism": ("sp", "sequence_parallel", "sequence_parallel_size", "ulysses"),
    "expert parallelism": ("ep", "ep_size", "expert_parallel", "expert_model_parallel_size"),
    "FP8": ("fp8", "float8", "enable_fp8"),
    "warmup-stable-decay (WSD) schedule": ("wsd", "warmup_stable_decay"),
    "streaming of data sets without a length": (
        "iterable", "iterable_dataset", "streaming", "stream", "webdataset",
    ),
}  # fmt: skip
OPTIONS: Mapping[tuple[str, str], str] = {  # (group, option name in other tools) -> the option, with further overrides
    **dict.fromkeys((("backend", word) for word in ("k8s", "kube", "eks", "gke")), "kubernetes"),
    **dict.fromkeys((("backend", word) for word in ("sbatch", "srun")), "slurm"),
    ("backend", "sky"): "skypilot",
    ("backend", "torchrun"): "local",
    ("backend", "hf"): "accelerate",
    ("parallel", "hybrid_shard"): "hsdp",
    ("parallel", "hybridshard"): "hsdp",
    ("parallel", "full_shard"): "fsdp",
    ("parallel", "fsdp2"): "fsdp",
    ("parallel", "no_shard"): "ddp",
    ("parallel", "ddp_spawn"): "ddp",
    ("parallel", "zero"): "deepspeed",
    ("parallel", "zero1"): "deepspeed parallel.zero_stage=1",
    ("parallel", "zero2"): "deepspeed parallel.zero_stage=2",
    ("parallel", "zero3"): "deepspeed parallel.zero_stage=3",
    ("parallel", "deepspeed_stage_2"): "deepspeed parallel.zero_stage=2",
    ("parallel", "deepspeed_stage_3"): "deepspeed parallel.zero_stage=3",
}
VALUES: Mapping[tuple[str, str], str] = {  # (key, value in other tools) -> jobc's value
    **dict.fromkeys((("loop.precision", word) for word in ("bfloat16", "bf16-mixed", "bf16-true")), "bf16"),
    **dict.fromkeys((("loop.precision", word) for word in ("float16", "half", "16", "16-mixed", "mixed")), "fp16"),
    **dict.fromkeys((("loop.precision", word) for word in ("float32", "float", "32", "32-true", "no")), "fp32"),
    ("loop.precision", "fp8"): "bf16",
    ("loop.compile", "true"): "model",
    ("loop.compile", "false"): "none",
}
RENAMED_GROUPS: Mapping[str, str] = {"env": "python"}  # config groups in earlier versions of jobc


def key_from_alias(typed: str) -> str:
    """Return jobc's key for another tool's name, with or without a section or a subkey; "" if unknown."""
    keys = _plain_words(KEYS)
    word, dot, subkey = typed.removeprefix("backend.").partition(".")
    if key := keys.get(_plain(word), ""):
        return f"{key}{dot}{subkey}"
    return keys.get(_plain(typed.rpartition(".")[2]), "")


def hint_for_foreign_option(typed: str) -> str:
    """Return the hint for an option without a direct equivalent, or for an unsupported feature. Return "" if it is
    unknown.
    """
    known, names = _plain_words(IN_WORDS), (typed.removeprefix("backend."), typed.rpartition(".")[2])
    said = next((known[_plain(name)] for name in names if _plain(name) in known), "")
    return said or next(
        (f"remove {typed}; {text}" for name in names if (text := hint_for_unsupported_feature(name))), ""
    )


def hint_for_unsupported_feature(word: str) -> str:
    """Return a hint that says that the bundled trainer lacks this feature, and what to use instead; "" for any other
    word.
    """
    lacks = next((what for what, names in NOT_SUPPORTED.items() if _plain(word) in map(_plain, names)), "")
    return f"the bundled trainer has no {lacks}; your own program may: -- train.py" if lacks else ""


def value_from_alias(key: str, typed: str) -> str:
    """Return the value that corresponds to another tool's word for this key; "" if unknown."""
    return VALUES.get((key, typed.lower()), "")


def option_from_alias(group: str, typed: str) -> str:
    """Return the option of a config group that corresponds to another tool's word; "" if unknown."""
    return OPTIONS.get((group, typed.lower()), "")


def _plain_words(words: Mapping[str, str]) -> dict[str, str]:
    return {_plain(word): meaning for word, meaning in words.items()}


def _plain(word: str) -> str:
    """Return a word in lower case without separators, so that numNodes, num-nodes and num_nodes are equal."""
    return word.replace("_", "").replace("-", "").lower()
