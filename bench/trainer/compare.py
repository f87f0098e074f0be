"""Measure what a training step costs in jobc's trainer with all features on, compared with a bare loop and its peers.

    python bench/trainer/compare.py [--task gpt_tiny] [--rounds 30] [--steps 4] [--out FILE.jsonl]
    python bench/trainer/compare.py --read FILE.jsonl      print the tables of an earlier measurement

Two ranks run on this machine's CPUs with one thread each, in one process group. Each way of training has its own copy
of the same model, AdamW, clipping, and batches of the same data. A block is `--steps` steps of one way. A round is one
block of each way, in a different order each time. Figures are per rank and step: CPU time (user + system of the whole
process with all its threads) and wall time. Ratios are paired within a round: the median over the rounds, with its 95 %
bounds (10,000 resamples).

    bare        DistributedDataParallel with a handwritten loop (ways.py)
    one rank    the same without DDP, on rank 0 alone while the other rank waits: the gain from a second rank (T3)
    apart       the same on both ranks at once without communication: what this machine can do with two processes
    jobc        the trainer's own step with the default train.json: metrics, trackers, watchdog, data order, stop
                requests
    accelerate, fabric, hf_trainer   if installed: pip install -r bench/trainer/requirements.txt

Goals, each judged by the less favorable 95 % bound: T1: jobc / bare is at most 1.02 in CPU time and 1.05 in wall time.
T2: no peer is faster than jobc by more than the error bar, nor, within the error bar, by more than 2 % of CPU time. T3:
two ranks are at least 1.8 times as fast as one, which requires an idle core for each, and at least 0.9 times as fast as
two that do not communicate but share the machine in the same way.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / ".dev"), str(ROOT / "bench")]  # the jobc of this checkout, whichever is installed

from goals import Goal, at_least, at_most, figure, not_below  # noqa: E402
from goals import table as goals_table  # noqa: E402

from jobc.compiler.pipeline.compile import compile_job  # noqa: E402
from jobc.compiler.pipeline.types import CompileRequest  # noqa: E402

RANKS = 2
PEERS = ("accelerate", "fabric", "hf_trainer")


class Block(NamedTuple):
    """Measurements of one block on rank 0, per step."""

    cpu_ms: float
    wall_ms: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="gpt_tiny", help="gpt_tiny (0.8 M parameters) or gpt_small (1.84 M)")
    parser.add_argument("--rounds", type=int, default=30, help="at least 30 for figures to be quoted")
    parser.add_argument("--steps", type=int, default=4, help="steps per block")
    parser.add_argument("--ways", default=",".join(("bare", "one_rank", "apart", "jobc", *PEERS)))
    parser.add_argument("words", nargs="*", help="jobc overrides after --, such as model.layers=1")
    parser.add_argument("--out", type=Path, help="append every block to this file, as JSON")
    parser.add_argument("--read", type=Path, help="print the tables of this file without measuring")
    given = parser.parse_args()
    if "bare" not in given.ways.split(","):
        parser.error("--ways must include bare, because the others are compared with it")
    if given.read:
        report([json.loads(line) for line in given.read.read_text().splitlines()], [])
        return 0
    with tempfile.TemporaryDirectory() as folder:
        lines = measure(given, Path(folder))
    if given.out:
        with given.out.open("a") as out:
            out.writelines(json.dumps(line) + "\n" for line in lines)
    report(lines, given.ways.split(","))
    return 0


def report(lines: list[dict[str, object]], wanted: list[str]) -> None:
    print(f"{table(lines)}\n\n{goals_table(goals(lines))}")
    for way in sorted(set(wanted) - set(by_way(lines))):
        print(f"T2 was not measured beside {way}, which is not installed")


def measure(given: argparse.Namespace, folder: Path) -> list[dict[str, object]]:
    """Run both ranks and return all blocks, as rank 0 printed them."""
    steps = 10 * (given.rounds + 2) * given.steps  # more than are run, so that the schedule does not end
    words = (f"task={given.task}", f"procs={RANKS}", "loop.epochs=null", f"loop.steps={steps}", *given.words)
    job = compile_job(CompileRequest(words))
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
    if ranks[0].returncode:
        ranks[1].kill()  # it would wait for rank 0
    codes = [rank.wait() for rank in ranks]
    if any(codes):
        raise SystemExit(f"a rank failed: {codes}")
    return [json.loads(line) for line in output.decode().splitlines() if line.startswith('{"way"')]


def by_way(lines: list[dict[str, object]]) -> dict[str, list[Block]]:
    blocks: dict[str, list[Block]] = {}
    for line in lines:
        block = Block(float(str(line["cpu_ms"])), float(str(line["wall_ms"])))
        blocks.setdefault(str(line["way"]), []).append(block)
    return blocks


def table(lines: list[dict[str, object]]) -> str:
    """Return the blocks' medians and ratios as a Markdown table."""
    blocks = by_way(lines)
    rows = ["| way | CPU ms | / bare | wall ms | / bare | rounds |", "|---|---:|---:|---:|---:|---:|"]
    for way, mine in blocks.items():
        cells = [way]
        for column in (0, 1):
            cells += [f"{statistics.median(block[column] for block in mine):.1f}"]
            cells += ["1" if way == "bare" else str(figure(ratios(mine, blocks["bare"], column)))]
        rows.append("| " + " | ".join([*cells, str(len(mine))]) + " |")
    return "\n".join(rows)


def goals(lines: list[dict[str, object]]) -> list[Goal]:
    """Return the goals for the ways that were measured."""
    blocks = by_way(lines)
    ours, bare, found = blocks.get("jobc", []), blocks["bare"], []
    if ours:
        found += [
            at_most("T1", "CPU of a step, jobc / bare", ratios(ours, bare, 0), 1.02),
            at_most("T1", "wall of a step, jobc / bare", ratios(ours, bare, 1), 1.05),
        ]
    for peer in PEERS:
        if ours and peer in blocks:
            found += [
                at_least("T2", f"CPU of a step, {peer} / jobc", ratios(blocks[peer], ours, 0), 0.98),
                not_below("T2", f"the same; the error bar must reach 1: {peer}", ratios(blocks[peer], ours, 0), 1),
                not_below("T2", f"wall of a step, {peer} / jobc; likewise", ratios(blocks[peer], ours, 1), 1),
            ]
    if "one_rank" in blocks:
        speedups = [RANKS * ratio for ratio in ratios(blocks["one_rank"], bare, 1)]
        found.append(at_least("T3", f"samples/s, {RANKS} ranks / one", speedups, 1.8))
    if "apart" in blocks:
        found.append(at_least("T3", f"samples/s, {RANKS} ranks / apart", ratios(blocks["apart"], bare, 1), 0.9))
    return found


def ratios(mine: list[Block], others: list[Block], column: int) -> list[float]:
    return [one[column] / other[column] for one, other in zip(mine, others, strict=True)]


if __name__ == "__main__":
    sys.exit(main())
