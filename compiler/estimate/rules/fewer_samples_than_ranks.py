"""JC2128: too few samples for all ranks, or, with loop.drop_last, for one complete batch.

The trainer rejects both after reading its data (trainer/build/data_checks.py, check_enough_samples).
"""

from collections.abc import Iterator

from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ..figures import Figures
from ..limits import SizeFinding, make_size_finding
from ..step_time import samples_per_rank_and_step


def check(figures: Figures, spec: JobSpec, plan: LaunchPlan) -> Iterator[SizeFinding]:
    steps = figures.schedule
    samples, ranks, batch = steps.epoch_samples, steps.world_size, steps.global_batch
    has_own_data = spec.recipe is not None and spec.estimate.samples is None  # a recipe may read other data
    if not samples or not batch or not plan.uses_trainer or has_own_data:
        return
    if samples < ranks:
        because = "a rank without samples would stall every step, so the trainer exits with an error at startup"
        key = "nodes" if plan.topology.nodes > 1 else "procs" if spec.procs else "gpus"
        hint = _fewer_ranks_hint(samples, spec, plan)
        yield make_size_finding(
            "JC2128", f"{samples:,} samples for {ranks:,} ranks", because, hint, key, ranks / samples
        )
    elif spec.loop.drop_last and samples < batch:
        title = f"{samples:,} samples do not fill one batch of {batch:,}"
        because = "loop.drop_last skips incomplete batches, so the trainer would exit at startup without running a step"
        yield make_size_finding("JC2128", title, because, "loop.drop_last=false", "loop.drop_last", batch / samples)


def _fewer_ranks_hint(samples: int, spec: JobSpec, plan: LaunchPlan) -> str:
    """Return a hint to use as many nodes or processes as there are samples, if the batch depends on the ranks."""
    of_node = plan.topology.world_size // plan.topology.nodes
    nodes = max(samples // of_node, 1)
    is_enough = samples >= of_node
    if spec.batch.global_ is not None or (not is_enough and plan.topology.gpus):
        return "more data, or fewer nodes and ranks"
    words = [f"nodes={nodes}"] if nodes < plan.topology.nodes else []
    words += [] if is_enough else [f"procs={samples}"]
    ranks = nodes * of_node if is_enough else samples
    if spec.loop.drop_last and samples < samples_per_rank_and_step(plan.train) * ranks:
        words.append("loop.drop_last=false")
    return " ".join(words)
