"""Format the console output of rank 0: banner, step lines, durations. Pure functions."""

import platform

import torch

from ..build.build import Training
from ..config.schema import kind_of


def format_startup_banner(training: Training) -> str:
    """Return the startup banner with the job, the hardware and the initial state."""
    config, env, source, group, start = training.config, training.env, training.source, training.group, training.start
    batch, ranks = config.batch, count_with_noun(group.world_size, "rank")
    nodes = env.nodes or max(env.world_size // env.local_world_size, 1)
    cpu_capability = torch.backends.cpu.get_cpu_capability()
    rows = {
        "job": config.job,
        "run": env.run_id or str(training.run_dir),
        "attempt": f"{env.attempt or 0}, {'resumed from' if start.step else 'step 0,'} {start.words}",
        "world": f"{ranks} on {count_with_noun(nodes, 'node')}, {config.parallel.kind}",
        "device": device_name(group.device),
        "threads": f"{config.threads_per_rank} per rank, CPU capability {cpu_capability}",
        "model": f"{kind_of(config.model)}, {training.num_parameters:,} parameters, {config.loop.precision}",
        "data": f"{source.name}, {source.summary}, digest {source.digest[:12]}",
        "batch": f"{batch.global_} samples = {batch.micro} x {batch.accumulation} accumulated x {ranks}",
        "steps": f"{training.total_steps:,} in total, {training.order.steps_per_epoch:,} per epoch",
        "seed": str(config.seed),
        "versions": f"python {platform.python_version()}, torch {torch.__version__}",
    }
    return "\n".join(f"{name:<9} {value}" for name, value in rows.items())


def device_name(device: torch.device) -> str:
    """Return the GPU model, or "cpu" and the architecture."""
    if device.type == "cuda":
        return f"{device} {torch.cuda.get_device_name(device)}"
    return f"cpu {platform.machine()}"


def format_step(step: int, total_steps: int, loss: float, score: str, lr: float, rate: str, eta_s: float) -> str:
    """Format one step: step 120/400  loss 2.314  bits/byte 3.338  lr 1.0e-03  41,230 tok/s  eta 0:42"""
    losses = f"loss {loss:.3f}" + (f"  {score}" if score else "")
    return f"step {step}/{total_steps}  {losses}  lr {lr:.1e}  {rate}  eta {format_clock(eta_s)}"


def format_score(kind: str, score: float) -> str:
    """Format a score: bits/byte 3.338, accuracy 97.2 %, or a recipe's own name and the value."""
    if kind == "accuracy":
        return f"accuracy {100 * score:.1f} %"
    return f"{kind.replace('_per_', '/')} {score:.3f}"


def count_with_noun(count: int, noun: str) -> str:
    """Format a count: 1 rank, 2 ranks."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def format_clock(seconds: float) -> str:
    """Format a duration: 42 -> 0:42, 3700 -> 1:01:40."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"
