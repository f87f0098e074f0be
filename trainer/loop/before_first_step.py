"""Before the first step: warn about differences between ranks, start the hang watchdog, and print the banner."""

from ..build.build import Training
from ..config.schema import TrainConfig
from ..dist import compare_ranks
from ..dist.hang_watch import HangWatchdog
from ..dist.process_group import RankGroup
from .console import format_startup_banner


def watch_ranks(group: RankGroup, config: TrainConfig) -> HangWatchdog:
    """Warn about ranks with different software or hardware, and return the hang watchdog."""
    facts, parallel = compare_ranks.gather_rank_facts(group), config.parallel
    if group.is_first and (lines := compare_ranks.fact_differences(facts)):
        print("\n  ".join(["warning: the ranks have different software or hardware", *lines]), flush=True)
    if (
        group.is_first
        and parallel.kind == "hsdp"
        and (line := compare_ranks.describe_scattered_copy(facts, parallel.shards))
    ):
        hint = "place consecutive ranks on the same node: srun --distribution=block, mpirun --map-by slot"
        print(f"warning: hsdp: {line}: every layer sends its weights between nodes\n  {hint}", flush=True)
    names = [f"rank {rank} on {rank_facts['host']}" for rank, rank_facts in enumerate(facts)]
    return HangWatchdog(group.phases, group.rank, names, config.process_group.init_timeout_s, group.board)


def print_banner(training: Training) -> None:
    """Print the banner, and a note if there is nothing to train."""
    if training.group.is_first:
        print(format_startup_banner(training), flush=True)
        if training.start.step >= training.total_steps:
            print(f"already at step {training.start.step} of {training.total_steps}: nothing to train", flush=True)
