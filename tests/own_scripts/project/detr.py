# print() of rank 0 alone, and the commit in its log.
import builtins
import json
import os
import subprocess
from pathlib import Path


def setup_for_distributed(is_master):
    builtin_print = builtins.print

    def print(*args, **kwargs):
        force = kwargs.pop("force", False)
        if is_master or force:
            builtin_print(*args, **kwargs)

    builtins.print = print


def get_sha():
    cwd = os.path.dirname(os.path.abspath(__file__))
    return subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=cwd).decode("ascii").strip()


if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
elif "SLURM_PROCID" in os.environ:
    rank, world_size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
else:
    print("Not using distributed mode")
    rank, world_size = 0, 1
print(f"| distributed init (rank {rank}): env://", flush=True)
setup_for_distributed(rank == 0)
print(f"git:\n  sha: {get_sha()}\n")
output_dir = Path("exps/detr")
output_dir.mkdir(parents=True, exist_ok=True)
if rank == 0:
    with (output_dir / "log.txt").open("a") as f:
        f.write(json.dumps({"epoch": 0, "train_loss": 1.5}) + "\n")
print("Training time 0:00:01 of rank", rank)
