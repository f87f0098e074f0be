"""What a training step costs in the trainer of jobc, with everything on, beside a bare loop and its peers.

    python bench/trainer/compare.py [--task gpt_tiny] [--rounds 30] [--steps 4] [--out FILE.jsonl]

Two ranks on this machine's CPUs, one thread each, one process group. Each way of training has its own copy of one
model, AdamW, clipping and batches of the same data; a block is `--steps` steps of one way, a round is a block of each,
in an order that changes. Figures are of a rank and step: CPU (user + system of the whole process, threads and all)
and wall; ratios are paired inside a round: the median over the rounds, with its 95 % bounds (10,000 resamples).

    bare        DistributedDataParallel and a loop by hand (ways.py)
    one rank    the same without DDP, on rank 0 alone while the other waits: what a second rank brings (T3)
    jobc        the trainer's own step, with the default train.json: metrics, trackers, watch, data order, wishes
    accelerate, fabric, hf_trainer   where they are installed: pip install -r bench/trainer/requirements.txt

Goals: jobc / bare at most 1.02 in CPU, upper bound, and 1.05 in wall; no peer faster beyond its error bar.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".dev"))  # the jobc of this checkout, whichever is installed

from jobc.compiler.driver import Request, compile_job  # noqa: E402

RANKS = 2
PEERS = ("accelerate", "fabric", "hf_trainer")


class Block(NamedTuple):
    """Of rank 0, per step."""

    cpu_ms: float
    wall_ms: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="gpt_tiny", help="gpt_tiny (0.8 M parameters) or gpt_small (1.84 M)")
    parser.add_argument("--rounds", type=int, default=30, help="at least 30 for a figure to quote")
    parser.add_argument("--steps", type=int, default=4, help="steps of a block")
    parser.add_argument("--ways", default=",".join(("bare", "one_rank", "jobc", *PEERS)))
    parser.add_argument("words", nargs="*", help="of jobc, after --, such as model.layers=1")
    parser.add_argument("--out", type=Path, help="append every block, as JSON, to this file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lines = measure(given, Path(folder))
    if given.out:
        with given.out.open("a") as out:
            out.writelines(json.dumps(line) + "\n" for line in lines)
    print(table(lines))
    return 0


def measure(given: argparse.Namespace, folder: Path) -> list[dict[str, object]]:
    """All blocks, as rank 0 wrote them."""
    steps = 10 * (given.rounds + 2) * given.steps  # more than are done: the schedule must not end
    words = (f"task={given.task}", f"procs={RANKS}", "loop.epochs=null", f"loop.steps={steps}", *given.words)
    job = compile_job(Request(words))
    (folder / "train.json").write_text(next(file.text for file in job.artifacts if file.path == "train.json"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = []
    for rank in range(RANKS):
        contract = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": RANKS, "LOCAL_WORLD_SIZE": RANKS, "GROUP_RANK": 0,
                    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": 1, "JOBC_RUN_DIR": folder,
                    "JOBC_RUN_ID": "bench", "JOBC_TRAIN_JSON": folder / "train.json"}  # fmt: skip
        command = [sys.executable, ROOT / "bench/trainer/ways.py", given.ways, str(given.rounds), str(given.steps)]
        environment = {**os.environ, **{name: str(value) for name, value in contract.items()}}
        ranks.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE if rank == 0 else None))
    output, _ = ranks[0].communicate()
    if any(rank.wait() for rank in ranks):
        raise SystemExit(f"a rank failed: {[rank.returncode for rank in ranks]}")
    return [json.loads(line) for line in output.decode().splitlines() if line.startswith('{"way"')]


def table(lines: list[dict[str, object]]) -> str:
    """For people, in Markdown."""
    blocks: dict[str, list[Block]] = {}
    for line in lines:
        block = Block(float(str(line["cpu_ms"])), float(str(line["wall_ms"])))
        blocks.setdefault(str(line["way"]), []).append(block)
    rows = ["| way | CPU ms | / bare | wall ms | / bare | rounds |", "|---|---:|---:|---:|---:|---:|"]
    for way, mine in blocks.items():
        cells = [way]
        for column in (0, 1):
            cells += [f"{statistics.median(block[column] for block in mine):.1f}"]
            ratios = [block[column] / bare[column] for block, bare in zip(mine, blocks["bare"], strict=True)]
            cells += ["1" if way == "bare" else interval(ratios)]
        rows.append("| " + " | ".join([*cells, str(len(mine))]) + " |")
    if "one_rank" in blocks:
        pairs = zip(blocks["one_rank"], blocks["bare"], strict=True)
        speedups = [RANKS * one.wall_ms / two.wall_ms for one, two in pairs]
        rows += ["", f"Throughput of {RANKS} ranks by that of one: {interval(speedups)}"]
    return "\n".join(rows)


def interval(values: list[float]) -> str:
    """Median and its 95 % bounds."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(10_000))
    return f"{statistics.median(values):.3f} ({medians[250]:.3f} to {medians[-251]:.3f})"


if __name__ == "__main__":
    sys.exit(main())
