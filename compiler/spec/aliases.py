"""Names of job keys in other launch engines, for hints to users of those."""

from __future__ import annotations

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
    "worker_init": "setup",
    "num_train_epochs": "loop.epochs",
}
IN_WORDS: Mapping[str, str] = {  # where the value is not said in the same way
    "accelerators": "gpu_type=H100 gpus=8, for H100:8",
    "gres": "gpus=8, for gpu:8",
    "num_processes": "procs, the number per node",
    "ntasks": "nodes and procs (tasks = nodes x procs)",
    "entrypoint": "the command, at the end of the line: -- train.py",
    "script": "the command, at the end of the line: -- train.py",
    "debug": "network.debug=true for NCCL's log; jobc smoke DIR tests the nodes of a job",
    "profile.active": "profile.steps=[5,6,7] names the steps to profile",
    "zero2": "parallel=deepspeed parallel.zero_stage=2",
    "zero3": "parallel=deepspeed parallel.zero_stage=3, or parallel=fsdp",
    "tp": "the bundled trainer has no tensor parallelism; a program of your own may: -- train.py",
    "tensor_parallel": "the bundled trainer has no tensor parallelism; a program of your own may: -- train.py",
    "fp8": "the bundled trainer has no FP8; a program of your own may: -- train.py",
    "iterable": "the bundled trainer reads data sets with a length; a program of your own may stream: -- train.py",
}
OPTIONS: Mapping[tuple[str, str], str] = {  # (group, what other tools call an option) -> the option
    ("parallel", "hybrid_shard"): "hsdp",
    ("parallel", "hybridshard"): "hsdp",
    ("parallel", "full_shard"): "fsdp",
    ("parallel", "fsdp2"): "fsdp",
    ("parallel", "ddp_spawn"): "ddp",
    ("parallel", "zero"): "deepspeed",
}
RENAMED_GROUPS: Mapping[str, str] = {"env": "python"}  # config groups of earlier versions of jobc


def key_of(typed: str) -> str:
    """The key for an engine's word, below `backend.` or not, with what stands below it; "" for no such word."""
    word, dot, subkey = typed.removeprefix("backend.").partition(".")
    key = _same(KEYS).get(_plain(word), "")
    return f"{key}{dot}{subkey}" if key else ""


def in_words(typed: str) -> str:
    """Return the jobc key for an engine's option that has no direct equivalent; "" if unknown."""
    return _same(IN_WORDS).get(_plain(typed.removeprefix("backend.")), "")


def option_of(group: str, typed: str) -> str:
    """The option of a config group for another tool's word; "" for no such word."""
    return OPTIONS.get((group, typed.lower()), "")


def _same(words: Mapping[str, str]) -> dict[str, str]:
    return {_plain(word): meaning for word, meaning in words.items()}


def _plain(word: str) -> str:
    """numNodes, num-nodes and num_nodes are one."""
    return word.replace("_", "").replace("-", "").lower()
