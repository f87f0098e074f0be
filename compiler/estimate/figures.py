"""Compute all figures that `jobc plan` prints for one job size (number of nodes and GPUs).

In:  the spec, its plan, and the step time if it is known.
Out: a Figures object.
"""

from collections.abc import Set

from ...runtime.system.frozen_dataclass import dataclass
from ..plan.launch_plan import LaunchPlan
from ..spec.job_spec import JobSpec
from .goodput import Goodput, estimate_goodput
from .memory import Memory, estimate_rank_memory, host_memory, max_shared_memory
from .parameters import job_model_size
from .step_time import StepTimeEstimate
from .training_length import SAVES, TrainingLength, max_checkpoint_count, training_length

ANY_GPU = "any"  # key in `prices` that applies to GPU types without a listed price


@dataclass(frozen=True)
class Figures:
    """Estimated figures. None means unknown, because `estimate` lacks a value or the program is the user's own.

    label: what differs from the other sizes.
    epoch_s, total_s: seconds of training alone.
    wall_s: seconds including failures and saves, if these can be estimated.
    checkpoints: maximum number on disk at the same time.
    mem, shm: bytes requested per node.
    batches: maximum number of bytes that batches take up in a node's /dev/shm.
    resuming: bytes of CPU memory that a node needs to resume a sharded model.
    attempts: maximum number of times that the engine starts the job.
    notice_s: maximum number of seconds before its time limit at which an attempt is asked to save.
    gpu_hours, cost: computed from wall_s if it is known, otherwise from total_s.
    write_s: seconds to write one checkpoint to storage.
    """

    label: str
    nodes: int
    gpus: int
    schedule: TrainingLength
    parameters: int | None
    memory: Memory | None
    mem: int | None
    shm: int | None
    batches: int | None
    resuming: int | None
    checkpoints: int | None
    step_s: float | None
    epoch_s: float | None
    total_s: float | None
    goodput: Goodput | None
    wall_s: float | None
    attempts: int
    notice_s: int
    gpu_hours: float | None
    cost: float | None
    write_s: float | None

    @property
    def is_unknown(self) -> bool:
        """Return whether the number of ranks is the only figure of time, steps and memory that is known."""
        schedule = self.schedule
        return not (self.memory or self.step_s or schedule.steps or schedule.epoch_samples or schedule.global_batch)

    @property
    def checkpoint_bytes(self) -> int | None:
        """Return the total size of a run's checkpoints."""
        size = self.memory.checkpoint if self.memory else None
        return None if size is None or self.checkpoints is None else size * self.checkpoints


def estimate_figures(
    label: str,
    spec: JobSpec,
    plan: LaunchPlan,
    step_time: StepTimeEstimate | None,
    attempts: int,
    notice_s: int = 0,
    unsaid: Set[str] = frozenset(),
) -> Figures:
    """Return the figures. unsaid: keys whose values do not apply to the user's own program"""
    estimate, topology = spec.estimate, plan.topology
    size = job_model_size(spec, plan)
    steps = training_length(plan.train, topology.world_size, estimate, size, unsaid)
    needs = estimate_rank_memory(plan.train, size, topology.world_size, plan.uses_trainer) if size else None
    resuming = host_memory(plan.train, needs, topology.procs, plan.uses_trainer) if needs else None
    step_s = step_time.scaled_step_s(plan.train) if step_time else None
    epoch_s = steps.steps_of_epoch * step_s if steps.steps_of_epoch and step_s else None
    total_s = steps.steps * step_s if steps.steps and step_s else None
    size_of_save = needs.checkpoint if needs else None
    write_s = size_of_save / estimate.write_rate if size_of_save is not None and estimate.write_rate else None
    chance, knows_saves = None, not unsaid >= SAVES
    if estimate.mtbf and write_s is not None and estimate.restart is not None:
        every = spec.checkpoint.steps_between_saves(steps.steps_of_epoch)
        interval_s = min(every, steps.steps or every) * step_s if every and step_s and knows_saves else None
        chance = estimate_goodput(estimate.mtbf, topology.nodes, write_s, estimate.restart, interval_s)
    wall_s = total_s / chance.fraction if total_s and chance and chance.fraction else None
    hours = None
    is_ending = not chance or chance.fraction != 0
    if (spent_s := wall_s or total_s) is not None and topology.gpus and is_ending:
        hours = spent_s / 3600 * topology.gpus * topology.nodes
    price = estimate.prices.get(spec.gpu_type or ANY_GPU, estimate.prices.get(ANY_GPU))
    return Figures(
        label=label,
        nodes=topology.nodes,
        gpus=topology.gpus,
        schedule=steps,
        parameters=size.parameters if size else None,
        memory=needs,
        mem=plan.resources.mem_bytes,
        shm=plan.resources.shm_bytes,
        batches=max_shared_memory(spec, plan),
        resuming=resuming,
        checkpoints=max_checkpoint_count(spec.checkpoint, steps) if knows_saves else None,
        step_s=step_s,
        epoch_s=epoch_s,
        total_s=total_s,
        goodput=chance,
        wall_s=wall_s,
        attempts=attempts,
        notice_s=notice_s,
        gpu_hours=hours,
        cost=hours * price if hours is not None and price is not None else None,
        write_s=write_s,
    )


def size_text(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"
