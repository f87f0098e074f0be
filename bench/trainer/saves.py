"""Measure T6: how long a background save blocks training, as a share of a synchronous save.

    python bench/trainer/saves.py [--pairs 30]

Runs the campaign save_stall from prove/, and adds bounds: a GPT with 7.9 M parameters is saved in both ways after each
step, in alternating order. Goal: the upper bound of the ratio is at most 0.6 on a CPU, where the floor is a copy in
memory, and 0.1 on a GPU.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / ".dev"), str(ROOT / "bench")]

from goals import at_most, table  # noqa: E402

from jobc.prove import save_stall  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=30, help="pairs of saves, at least 30 for figures to be quoted")
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as folder:
        found = save_stall.measured(Path(folder), pairs)
    print(table([at_most("T6", "stall of a save, background / waited for", found["ratios"], save_stall.MOST_RATIO)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
