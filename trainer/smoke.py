"""Smoke test of the communication and the data sharding between a job's ranks: `python -m jobc_trainer.smoke`

Input:  the environment contract. No train.json or run folder is needed.
Output: one `ok` line per check on rank 0's console, and the exit code.
"""

import os
import socket
import time

from .dist import env as environment
from .lifecycle.exit_rank import exit_with_error, exit_without_teardown
from .lifecycle.requests import StopSignals

TIMEOUT_S = 25
NUM_SAMPLES, BATCH_PER_RANK = 1000, 7  # 1000 is not a multiple of 7: the last batch has padding
MESSAGE_FLOATS = 1_000_000


def main() -> int:
    """Run the checks, and return the exit code."""
    try:
        return check(environment.parse_environment(os.environ), StopSignals())
    except BaseException as error:
        exit_with_error(error)


def check(env: environment.RankEnvironment, signals: StopSignals) -> int:
    """Check the rendezvous, an all-reduce and the sharding of samples. Raises if one of them fails."""
    import torch  # imported here, so that errors in the environment are reported immediately
    import torch.distributed as dist

    from .data.order import SampleOrder, rank_shard
    from .dist.process_group import join_process_group

    start = time.monotonic()
    with join_process_group(env, TIMEOUT_S, signals.is_stop_requested) as group:
        hosts = set(group.all_gather_bytes(socket.gethostname().encode()[:64].ljust(64)))
        scope = f"{env.world_size} ranks on {len(hosts)} host{'s' * (len(hosts) > 1)}"
        results = [f"process group: {scope} in {time.monotonic() - start:.1f} s"]

        start = time.monotonic()
        ones = torch.ones(MESSAGE_FLOATS, device=group.device)
        if group.world_size > 1:
            dist.all_reduce(ones)
        assert bool((ones == group.world_size).all()), (
            f"all-reduce of 1 over {group.world_size} ranks returned {ones[0]}"
        )
        milliseconds = (time.monotonic() - start) * 1000
        results.append(f"all-reduce: {4 * MESSAGE_FLOATS / 1e6:.0f} MB on {group.device.type} in {milliseconds:.0f} ms")

        order = SampleOrder(seed=0, num_samples=NUM_SAMPLES, batch=BATCH_PER_RANK * group.world_size, drop_last=False)
        seen_N = torch.zeros(NUM_SAMPLES, dtype=torch.int64)
        for step in range(order.steps_per_epoch):
            indices_R, num_real = rank_shard(*order.global_batch(step), group.rank, group.world_size)
            seen_N[indices_R[:num_real]] += 1
        times_N = torch.stack(group.all_gather(seen_N)).sum(0)
        missing, repeated = int((times_N == 0).sum()), int((times_N > 1).sum())
        assert missing == repeated == 0, f"sharding: {missing} samples not seen by any rank, {repeated} more than once"
        results.append(f"sharding: {NUM_SAMPLES} samples, each seen by exactly one of {group.world_size} ranks")
        if group.is_first:
            print("\n".join(f"ok  {line}" for line in results), flush=True)
    return 0


if __name__ == "__main__":
    exit_without_teardown(main())
