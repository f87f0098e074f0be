"""T6: how long a save in the background holds the training up, as a share of a save that all wait for.

    python bench/trainer/saves.py [--pairs 30]

The campaign save_stall of prove/, with bounds: a GPT of 7.9 M parameters, both ways after each step, in changing order.
Goal: the upper bound of the ratio at most 0.6 on a CPU, whose floor is a copy in memory; on a GPU 0.1.
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
    parser.add_argument("--pairs", type=int, default=30, help="pairs of saves, at least 30 for a figure to quote")
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as folder:
        found = save_stall.measured(Path(folder), pairs)
    print(table([at_most("T6", "stall of a save, background / waited for", found["ratios"], save_stall.MOST_RATIO)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
