"""Map the names used by other launch tools to jobc's keys, for hints to their users."""

from collections.abc import Mapping

# jobc's key -> its names in torchrun, sbatch, Kubernetes, SkyPilot, accelerate, DeepSpeed and HF's TrainingArguments
KEYS: Mapping[str, tuple[str, ...]] = {
    "nodes": ("nnodes", "completions", "parallelism", "replicas", "num_nodes", "num_machines"),
    "procs": ("nproc_per_node", "ntasks_per_node"),
    "rendezvous.backend": ("rdzv_backend",),
    "rendezvous.port": ("master_port", "main_process_port"),
    "queue.name": ("partition", "queue_name"),
    "queue.account": ("account",),
    "queue.after": ("dependency",),
    "gpus": ("gpus_per_node", "devices", "ngpus"),
    "backend.cpu_bind": ("cpu_bind",),
    "backend.gpu_bind": ("gpu_bind",),
    "backend.distribution": ("distribution",),
    "backend.label": ("label",),
    "backend.mpi": ("mpi",),
    "backend.srun_extra": ("srun_args",),
    "time": ("walltime", "time_limit"),
    "queue.priority": ("priority_class", "priority_class_name"),
    "lifecycle.keep": ("ttl", "ttl_seconds_after_finished"),
    "lifecycle.max_requeues": ("backoff_limit",),
    "lifecycle.grace": ("termination_grace_period_seconds",),
    "backend.deadline": ("active_deadline_seconds",),
    "backend.service_account": ("service_account_name",),
    "backend.runtime_class": ("runtime_class_name",),
    "image": ("image_id", "container_image", "docker_image"),
    "env": ("envs",),
    "mem": ("memory",),
    "code.root": ("workdir",),
    "loop.precision": ("mixed_precision", "precision", "dtype"),
    "parallel": ("distributed_type", "strategy", "sharding_strategy"),
    "parallel.zero_stage": ("zero_stage", "stage"),
    "batch.accumulation": ("gradient_accumulation_steps",),
    "batch.global": ("train_batch_size", "global_batch_size"),
    "batch.micro": ("per_device_train_batch_size", "train_micro_batch_size_per_gpu", "batch_size", "micro_batch_size"),
    "optim.clip_norm": (
        "gradient_clipping", "max_grad_norm", "grad_clip", "clip_grad_norm", "gradient_clip_val", "clip_grad",
        "max_norm",
    ),
    "optim.lr": ("learning_rate",),
    "loop.steps": ("max_steps", "train_steps", "max_train_steps"),
    "setup": ("setup_commands", "prologue", "worker_init"),
    "after": ("epilogue",),
    "loop.epochs": ("num_train_epochs", "max_epochs", "num_epochs"),
    "loop.compile": ("compile", "torch_compile"),
    "optim.schedule": ("lr_scheduler", "lr_scheduler_type", "lr_schedule", "scheduler", "schedule"),
    "backend.tolerations": ("tolerations",),
    "checkpoint.every_steps": ("save_steps", "save_interval"),
    "checkpoint.every_epochs": ("save_every", "every_n_epochs"),
    "checkpoint.keep": ("save_total_limit",),
    "validation.every_steps": ("eval_steps", "eval_interval"),
    "metrics.every_steps": ("logging_steps", "log_interval"),
    "seed": ("seed_everything",),
    "loader.workers": ("num_workers", "dataloader_num_workers"),
    "loader.prefetch": ("prefetch_factor",),
    "storage.root": (
        "output_dir", "log_dir", "out_dir", "save_dir", "runs", "runs_dir", "run_dir", "run_root", "runs_root",
        "default_root_dir",
    ),
    "storage.data": ("data_dir",),
    "name": ("job_name",),
    "shm": ("shm_size",),
}  # fmt: skip
IN_WORDS: Mapping[str, tuple[str, ...]] = {  # hint -> names whose values have a different form in jobc
    "cpus, the number per node (cpus_per_task x procs)": ("cpus_per_task",),
    "gpu_type=H100 gpus=8, for H100:8": ("accelerators",),
    "gpus=8, for gpu:8": ("gres",),
    "gpus=8, the number on each node": ("accelerator",),
    "procs, the number per node": ("num_processes",),
    "nodes and procs (tasks = nodes x procs)": ("ntasks",),
    "the command, at the end of the line: -- train.py": ("entrypoint", "script"),
    "network.debug=true for NCCL's log; jobc smoke DIR tests the nodes of a job": ("debug",),
    "network.debug=true, or env.NCCL_DEBUG=INFO": ("nccl_debug",),
    "profile.steps=[5,6], the first and the last step that are recorded": (
        "profile.active", "profiler.active", "profile.wait", "profile.warmup",
    ),
    "parallel=deepspeed": ("deepspeed",),
    "parallel=deepspeed, with parallel.zero_stage": ("zero",),
    "parallel=deepspeed parallel.zero_stage=3, or parallel=fsdp": ("zero_optimization", "zero3"),
    "parallel=deepspeed parallel.zero_stage=2": ("zero2",),
    "parallel=fsdp": ("fsdp",),
    "parallel=ddp": ("ddp",),
    "parallel=hsdp": ("hybrid_shard",),
    "loop.precision=bf16": ("bf16", "amp"),
    "loop.precision=fp16": ("fp16",),
    "loop.activation_checkpointing=1, for every block": ("gradient_checkpointing",),
    "optim.warmup_steps=100, a number of steps": ("warmup_ratio",),
    "python=venv python.path=.venv": ("venv",),
    "python=conda python.path=my-environment": ("conda",),
    "python=modules python.modules=[cuda]": ("modules",),
    "metrics.trackers=[wandb]": ("wandb", "use_wandb", "report_to"),
    "metrics.trackers=[tensorboard]": ("tensorboard",),
    "backend=skypilot backend.use_spot=true": ("use_spot", "spot"),
    "backend=skypilot backend.infra=aws": ("cloud", "infra"),
    "backend=kubernetes backend.namespace=team": ("namespace",),
    "backend=slurm backend.constraint=a100": ("constraint",),
    "lifecycle.max_requeues=3, how many times": ("requeue",),
    "lifecycle.grace=60s, the time to save before the kill": ("signal",),
    "remove master_addr; jobc finds node 0's address": ("master_addr",),
    "remove main_process_ip; jobc finds node 0's address": ("main_process_ip",),
    "remove node_rank; jobc gives each node its rank": ("node_rank",),
    "remove machine_rank; jobc gives each node its rank": ("machine_rank",),
    "remove world_size; it is nodes x procs": ("world_size",),
    "jobctl submit --resume ID, or jobc submit DIR --resume ID": ("resume", "resume_from_checkpoint"),
    "'mounts=[{kind: claim, source: shared-data, target: /shared, read_only: false}]'": ("pvc", "volumes"),
    "shm=8GiB, the size of /dev/shm": ("dshm", "shm", "tmpfs"),
}  # fmt: skip
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
LIST_ITEMS: Mapping[str, str] = {  # list of texts -> example of an item, for users of the manifest's mappings
    "backend.node_selector": '"pool=gpu"',
    "backend.tolerations": "nvidia.com/gpu:NoSchedule",
}
VALUES: Mapping[str, tuple[str, ...]] = {  # the option of a group, or the value of a key -> its names in other tools
    "backend=kubernetes": ("k8s", "kube", "eks", "gke"),
    "backend=slurm": ("sbatch", "srun"),
    "backend=skypilot": ("sky",),
    "backend=local": ("torchrun",),
    "backend=accelerate": ("hf",),
    "parallel=hsdp": ("hybrid_shard",),
    "parallel=fsdp": ("full_shard", "fsdp2"),
    "parallel=ddp": ("no_shard", "ddp_spawn"),
    "parallel=deepspeed": ("zero",),
    "parallel=deepspeed parallel.zero_stage=1": ("zero1",),
    "parallel=deepspeed parallel.zero_stage=2": ("zero2", "deepspeed_stage_2"),
    "parallel=deepspeed parallel.zero_stage=3": ("zero3", "deepspeed_stage_3"),
    "loop.precision=bf16": ("bfloat16", "bf16-mixed", "bf16-true", "fp8"),
    "loop.precision=fp16": ("float16", "half", "16", "16-mixed", "mixed"),
    "loop.precision=fp32": ("float32", "float", "32", "32-true", "no"),
    "loop.compile=model": ("true",),
    "loop.compile=none": ("false",),
}


def key_from_alias(typed: str) -> str:
    """Return jobc's key for another tool's name, with or without a section or a subkey, or "" if unknown."""
    word, dot, subkey = typed.removeprefix("backend.").partition(".")
    if key := _find_meaning(KEYS, word):
        return f"{key}{dot}{subkey}"
    return _find_meaning(KEYS, typed.rpartition(".")[2])


def hint_for_foreign_option(typed: str) -> str:
    """Return the hint for an option without a direct equivalent, or for an unsupported feature, or "" if unknown."""
    names = (typed.removeprefix("backend."), typed.rpartition(".")[2])
    if hint := next(filter(None, (_find_meaning(IN_WORDS, name) for name in names)), ""):
        return hint
    lacks = next(filter(None, map(hint_for_unsupported_feature, names)), "")
    return f"remove {typed}; {lacks}" if lacks else ""


def hint_for_unsupported_feature(word: str) -> str:
    """Return a hint if the bundled trainer lacks this feature, or "" for any other word."""
    lacks = _find_meaning(NOT_SUPPORTED, word)
    return f"the bundled trainer has no {lacks}; your own program may: -- train.py" if lacks else ""


def value_from_alias(key: str, typed: str) -> str:
    """Return jobc's value, or option with further overrides, for another tool's word for this key, or "" if unknown."""
    values = {meaning: names for meaning, names in VALUES.items() if meaning.startswith(f"{key}=")}
    return _find_meaning(values, typed).removeprefix(f"{key}=")


def _find_meaning(meanings: Mapping[str, tuple[str, ...]], name: str) -> str:
    return next(
        (meaning for meaning, names in meanings.items() if _normalized_word(name) in map(_normalized_word, names)), ""
    )


def _normalized_word(word: str) -> str:
    """Return a word in lower case without separators, so that numNodes, num-nodes and num_nodes are equal."""
    return word.replace("_", "").replace("-", "").lower()
