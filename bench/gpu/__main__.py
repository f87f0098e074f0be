"""Measure how fast one device trains GPT-2 124M: with jobc's loop, a bare loop and accelerate's, in turns in one
process.

    python bench/gpu                                  on a GPU: task=gpt2_124m gpus=1, at most half an hour
    python bench/gpu --blocks 3 --steps 1 -- task=gpt_tiny loop.compile=none      a quick test on a CPU

jobc compiles the words after ` -- `, and the result is measured. A block is --steps optimizer steps of one loop. Loops
take turns block by block, each time in a different order. The first two blocks of each loop are not measured. Writes
bench.json (every block), table.md and chart.png to --out.
Goals on one H200: at least 400,000 tokens/s, with a target of 460,000 (G1); not slower, beyond the error bar, than the
bare loop (G2) or accelerate (G3); at least 1.5 times as fast with torch.compile as without it (G4). runs.py has the
other goals, G5 to G8. So far, both programs have been tested only on a CPU, with a tiny model.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / ".dev"), str(ROOT / "bench"), str(Path(__file__).parent)]

import goals  # noqa: E402
import loops  # noqa: E402
import report  # noqa: E402
import torch  # noqa: E402

from jobc.compiler.pipeline.compile import compile_job  # noqa: E402
from jobc.compiler.pipeline.types import CompileRequest  # noqa: E402
from jobc.trainer.config import train_json  # noqa: E402
from jobc.trainer.config.schema import TrainConfig  # noqa: E402
from jobc.trainer.data.open import open_source  # noqa: E402
from jobc.trainer.dist import env as environment  # noqa: E402
from jobc.trainer.dist.process_group import RankGroup, choose_device  # noqa: E402
from jobc.trainer.loop.console import device_name  # noqa: E402

WARM_BLOCKS = 2  # per loop, not measured, because they fill caches and the allocator sees new shapes
EQUAL = 2e-2  # relative difference of two loops' losses in a step; one may compute in bf16 in a different order


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--blocks", type=int, default=30, help="counted blocks of each loop, at least 30 for figures to be quoted"
    )
    parser.add_argument("--steps", type=int, default=2, help="optimizer steps per block")
    parser.add_argument("--loops", nargs="+", choices=list(loops.LOOPS), default=list(loops.LOOPS))
    parser.add_argument("--out", type=Path, default=Path("bench-gpu"), help="folder for the results")
    parser.add_argument(
        "words", nargs="*", help="jobc overrides after --; default: task=gpt2_124m, and gpus=1 if there is a GPU"
    )
    arguments = parser.parse_args()
    gpus = int(torch.cuda.is_available())
    words = [*(arguments.words or ["task=gpt2_124m"]), f"gpus={gpus}", "nodes=1", "procs=1"]
    num_blocks = arguments.blocks + WARM_BLOCKS
    steps = num_blocks * arguments.steps + 2  # one more than is run, so that no loop ends
    config = train_config([*words, "loop.epochs=null", f"loop.steps={steps}", f"metrics.every_steps={steps}"])
    device = choose_device(environment.parse_environment({"JOBC_GPUS": str(gpus)}))
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        found = measure(config, device, arguments.loops, num_blocks, arguments.steps, Path(scratch))
    return write(found, config, device, arguments.out)


def train_config(words: Sequence[str]) -> TrainConfig:
    """Return the train config that jobc compiles from `words`."""
    job = compile_job(CompileRequest(tuple(words)))
    text = next(artifact.text for artifact in job.artifacts if artifact.path == "train.json")
    return train_json.parse_train_config(json.loads(text))


def measure(
    config: TrainConfig, device: torch.device, names: Sequence[str], num_blocks: int, num_steps: int, scratch: Path
) -> dict[str, report.Measured]:
    """Run the same global steps with every loop, in turns, block by block."""
    group, made, first_s = RankGroup(0, 1, device), {}, {}
    for name in names:
        env = environment.parse_environment({"JOBC_RUN_DIR": str(scratch / name.replace(" ", "_"))})
        started = time.perf_counter()
        made[name] = loops.LOOPS[name](config, env, group)
        losses = [made[name](0)]
        wait_for(device)
        first_s[name] = time.perf_counter() - started
        made[name] = Turns(made[name], losses)
        print(f"{name}: first step after {first_s[name]:.1f} s, loss {losses[0]:.4f}", flush=True)
    gc.collect()
    gc.freeze()
    gc.disable()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    for block in range(num_blocks):
        for name in [*names[block % len(names) :], *names[: block % len(names)]]:
            made[name].block(range(1 + block * num_steps, 1 + (block + 1) * num_steps), device)
        gc.collect(1)
    return {name: made[name].measured(first_s[name]) for name in names}


@dataclasses.dataclass
class Turns:
    """One loop with the results of its blocks; times are seconds per step."""

    loop: loops.Loop
    losses: list[float]
    step_s: list[float] = dataclasses.field(default_factory=list)
    cpu_s: list[float] = dataclasses.field(default_factory=list)
    peak_bytes: int = 0

    def block(self, steps: range, device: torch.device) -> None:
        wait_for(device)
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        self.losses += [self.loop(step) for step in steps]
        wait_for(device)
        self.step_s.append((time.perf_counter() - wall_s) / len(steps))
        self.cpu_s.append((time.process_time() - cpu_s) / len(steps))
        if device.type == "cuda":
            self.peak_bytes = max(self.peak_bytes, torch.cuda.max_memory_allocated(device))
            torch.cuda.reset_peak_memory_stats(device)

    def measured(self, first_step_s: float) -> report.Measured:
        counted = slice(WARM_BLOCKS, None)
        times = tuple(self.step_s[counted]), tuple(self.cpu_s[counted])
        return report.Measured(first_step_s, *times, tuple(self.losses), self.peak_bytes)


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def write(found: dict[str, report.Measured], config: TrainConfig, device: torch.device, out: Path) -> int:
    """Write the three files and print the table. Return 1 if the losses of the loops differ."""
    source, named = open_source(config), device_name(device)
    tokens = config.batch.global_ * source.tokens_per_sample
    table = report.markdown(report.rows(found, tokens, loops.flops_per_token(config, source), named))
    if "jobc" in found:
        table += f"\n\n{goals.table(report.goals(found, tokens))}"
    how = f"{config.loop.precision}, compile {config.loop.compile}, micro batch {config.batch.micro}"
    title = f"{config.job}: {tokens:,} tokens a step, {how}\n{named}, torch {torch.__version__}"
    values = {name: dataclasses.asdict(one) for name, one in found.items()}
    (out / "bench.json").write_text(json.dumps({"device": named, "tokens_per_step": tokens, "loops": values}) + "\n")
    (out / "table.md").write_text(f"{title}\n\n{table}\n")
    print(f"{title}\n\n{table}")
    is_published_size = config.model.kind == "gpt" and config.model.width == 768 and device.type == "cuda"
    report.chart(found, tokens, title, out / "chart.png", is_published_size)
    first, *others = found.values()
    off = [abs(a - b) / abs(b) for other in others for a, b in zip(other.losses, first.losses, strict=True)]
    if max(off, default=0.0) > EQUAL:
        print(f"error: the loops train differently: losses differ by {100 * max(off):.1f} %", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
