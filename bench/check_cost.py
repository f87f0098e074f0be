"""Measure the cost of the checks in `jobc check`, as a ratio to the same command without any rule.

    python bench/check_cost.py [--pairs 101] [--json]

Floor F: `jobc check` composes, reads, lowers, emits and seals the job, but skips all rules: those of compiler/rules/,
         the trainer, policies, capabilities, accelerate, the backend and the estimates.
jobc:    the same command with the rules.
Both run alternately in one warm process and are measured in CPU time. Python's start and the imports take a third of a
second, which varies by more than the rules cost, so neither side includes them. This makes the floor smaller, and the
ratio larger, than if whole processes were compared. Goal: the upper bound of the median ratio (95 %) is at most 1.10.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / ".dev"))  # the jobc of this checkout

from goals import figure

from jobc.compiler.cli import compiling, main
from jobc.compiler.pipeline import compile as driver
from jobc.compiler.plugins.registry import find_plugin

WORDS = ["check", "backend=slurm", "nodes=4", "gpus=8", "time=12h", "+experiment=slurm_ddp"]
GOAL = 1.10


@contextlib.contextmanager
def unchecked() -> Iterator[None]:
    """Disable all rules."""
    rules: list[tuple[Any, str, Any]] = [
        (driver.rules, "findings", nothing),
        *((place, "check", nothing) for place in (driver.trainer_config, driver.site_policy, driver.accelerate_checks)),
        (driver.capabilities, "check_runtime_variable_scopes", nothing),
        (driver.capabilities, "check_unsupported_settings", nothing),
        (compiling, "_size_findings", nothing),
        (type(find_plugin("slurm").load()), "check", nothing),
    ]
    with contextlib.ExitStack() as stack:
        for place, name, instead in rules:
            stack.enter_context(mock.patch.object(place, name, instead))
        yield


def nothing(*_: object) -> tuple[()]:
    return ()


def cpu_ms() -> float:
    gc.collect()
    began = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        status = main(WORDS)
    took = time.process_time() - began
    if status:
        raise SystemExit(f"jobc {' '.join(WORDS)} exited with {status}")
    return 1000 * took


def pair(floor_first: bool) -> tuple[float, float]:
    """Return the CPU milliseconds of the floor and of jobc."""
    jobc = 0.0 if floor_first else cpu_ms()
    with unchecked():
        floor = cpu_ms()
    return floor, jobc or cpu_ms()


def measure(pairs: int) -> dict[str, Any]:
    samples = [pair(number % 2 == 0) for number in range(pairs + 2)][2:]
    ratio = figure([jobc / floor for floor, jobc in samples])
    return {
        "pairs": pairs,
        "unchecked_cpu_ms_median": round(statistics.median(floor for floor, _ in samples), 1),
        "jobc_cpu_ms_median": round(statistics.median(jobc for _, jobc in samples), 1),
        "ratio_median": round(ratio.median, 3),
        "ratio_low": round(ratio.low, 3),
        "ratio_high": round(ratio.high, 3),
    }


def show() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=101, help="paired runs")
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        os.environ["XDG_CONFIG_HOME"] = scratch  # without the user's own config
        found = measure(options.pairs)
        os.chdir("/")
    if options.json:
        print(json.dumps(found))
    else:
        print(f"{found['pairs']} pairs in one process, CPU ms, medians")
        print(f"  jobc check without any rule  {found['unchecked_cpu_ms_median']:8.1f}")
        print(f"  jobc check                   {found['jobc_cpu_ms_median']:8.1f}")
        bounds = f"{found['ratio_low']:.3f} to {found['ratio_high']:.3f}"
        print(f"  ratio                        {found['ratio_median']:8.3f}   ({bounds}; goal: at most {GOAL:.2f})")
    return 0 if found["ratio_high"] <= GOAL else 1


if __name__ == "__main__":
    sys.exit(show())
