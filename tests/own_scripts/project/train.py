import argparse
import os
import pathlib
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--out", type=pathlib.Path, default="outputs")
args = parser.parse_args()
assert pathlib.Path("data/train.txt").read_text() == "ignored by git", os.getcwd()
for step in range(5):  # a bar as of tqdm
    print(f"\r{step + 1}/5 [{'#' * step:<5}] lr={args.lr}", end="", file=sys.stderr, flush=True)
    time.sleep(0.01)
print(file=sys.stderr)
if os.environ["RANK"] == "0":
    args.out.mkdir()
    (args.out / "model.bin").write_bytes(bytes(3 * 2**20))
