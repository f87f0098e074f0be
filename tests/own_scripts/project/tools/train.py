# In a subfolder: a sibling module, a package of the root by sys.path, a configuration in Python, a work directory.
import argparse
import os.path as osp
import runpy
import sys

import common

sys.path.append(osp.dirname(osp.dirname(osp.abspath(__file__))))
from models.net import Net  # noqa: E402

parser = argparse.ArgumentParser(description="Train a detector")
parser.add_argument("config", help="train config file path")
parser.add_argument("--work-dir")
parser.add_argument("--launcher", choices=["none", "pytorch", "slurm", "mpi"], default="none")
parser.add_argument("--local_rank", "--local-rank", type=int, default=0)
args = parser.parse_args()
cfg = {k: v for k, v in runpy.run_path(args.config).items() if not k.startswith("_")}
work_dir = args.work_dir or osp.join("./work_dirs", osp.splitext(osp.basename(args.config))[0])
common.mkdir_or_exist(work_dir)
net = Net(cfg["model"]["depth"])
with open(osp.join(work_dir, "train.log"), "a") as log:
    for epoch in range(cfg["total_epochs"]):
        line = f"{common.timestamp()} - mmdet - INFO - Epoch [{epoch + 1}][{net.depth}/{net.depth}]"
        print(line)
        log.write(line + "\n")
for epoch in range(cfg["total_epochs"]):
    with open(osp.join(work_dir, f"epoch_{epoch + 1}.pth"), "wb") as file:
        file.write(b"weights")
