"""Measure T5: the CPU time of importing the trainer in addition to `import torch`, each time in a new process.

    python bench/trainer/imports.py [--pairs 30]

Each process imports torch, then everything that a rank with parallel=ddp imports, and measures the CPU time of both.
Goal: the upper bound of the ratio of the second to the first is at most 5 %.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from goals import at_most, table  # noqa: E402

PROGRAM = """
import json, time
begun = time.process_time()
import torch
had_torch = time.process_time()
import jobc.trainer.__main__, jobc.trainer.dist.process_group, jobc.trainer.loop.loop, jobc.trainer.parallel.ddp
print(json.dumps([had_torch - begun, time.process_time() - had_torch]))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=30, help="processes, at least 30 for figures to be quoted")
    pairs = parser.parse_args().pairs
    found = [measure() for _ in range(pairs + 1)][1:]  # the first process may compile bytecode
    print(table([at_most("T5", "CPU of importing the trainer / torch", [mine / torch for torch, mine in found], 0.05)]))
    return 0


def measure() -> tuple[float, float]:
    """Return the CPU seconds of importing torch, and of importing the trainer after it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".dev"), "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    torch_s, trainer_s = json.loads(done.stdout)
    return torch_s, trainer_s


if __name__ == "__main__":
    sys.exit(main())
