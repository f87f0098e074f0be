"""Stand-in for a user's training script in restarts: gloo, all_reduces, and one rank that is killed once.

gloo_program.py STEPS RANK STEP [prefix]
RANK    kills itself with SIGKILL before step STEP, if $MARKS/killed does not exist
prefix  the ranks use their own store, with a prefix for each restart, instead of init_process_group's
"""

import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

steps, victim, fatal_step = map(int, sys.argv[1:4])
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
killed = Path(os.environ["MARKS"]) / "killed"
timeout = timedelta(seconds=20)

if "prefix" in sys.argv:
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    shared = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = dist.TCPStore(address, port, world, not shared and rank == 0, timeout)  # type: ignore[attr-defined]
    prefix = dist.PrefixStore(f"restart-{os.environ['TORCHELASTIC_RESTART_COUNT']}", store)  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=prefix, rank=rank, world_size=world, timeout=timeout)
else:
    dist.init_process_group("gloo", timeout=timeout)
total = torch.zeros(1)
for step in range(steps):
    if rank == victim and step == fatal_step and not killed.exists():
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    one = torch.ones(1)
    dist.all_reduce(one)
    total += one
assert total.item() == steps * world
print("done", flush=True)
os._exit(0)
