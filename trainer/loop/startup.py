"""Before the first step: how the ranks differ, the watch for hung ranks, and the banner."""

from ..build.build import Training
from ..config.schema import TrainConfig
from ..dist import roll_call
from ..dist.hang_watch import HangWatchdog
from ..dist.process_group import Group
from .console import banner


def watch_ranks(group: Group, config: TrainConfig) -> HangWatchdog:
    """Warn about ranks that differ, and return the watch that reports hung ranks."""
    answers, parallel = roll_call.gather_rank_facts(group), config.parallel
    if group.is_first and (lines := roll_call.fact_differences(answers)):
        print("\n  ".join(["warning: the ranks have different software or hardware", *lines]), flush=True)
    if group.is_first and parallel.kind == "hsdp" and (line := roll_call.scattered_copy(answers, parallel.shards)):
        hint = "place consecutive ranks on the same node: srun --distribution=block, mpirun --map-by slot"
        print(f"warning: hsdp: {line}: every layer sends its weights between nodes\n  {hint}", flush=True)
    names = [f"rank {rank} on {answer['host']}" for rank, answer in enumerate(answers)]
    return HangWatchdog(group.phases, group.rank, names, config.process_group.init_timeout_s, group.board)


def print_banner(training: Training) -> None:
    """Print what is about to run."""
    if training.group.is_first:
        print(banner(training), flush=True)
        if training.start.step >= training.total_steps:
            print(f"already at step {training.start.step} of {training.total_steps}: nothing to train", flush=True)
