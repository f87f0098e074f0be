"""What the checks cost in `jobc check`, as a ratio to the same process with every rule left out.

    python bench/check_cost.py [--pairs 11]

Floor F: `jobc check` composes, reads, lowers, emits and seals the job, and asks no rule: those of the spec, of the
         trainer, rule by rule of compiler/rules/, of policies, capabilities, accelerate, the backend and the estimates.
jobc:    the same command as it is.
Runs are paired and interleaved; figures are CPU seconds (user + system) of whole processes, so that other load on the
machine moves both sides. Goal: median ratio at most 1.10.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from compile_cost import JOBC, cpu_s, install_wheel, report

UNCHECKED = """
from jobc.compiler import driver
from jobc.compiler.cli import compiling

def nothing(*_):
    return ()

driver.check.RULES = ()
driver.check.check_training = nothing
driver.rules.check = driver.policy.check = driver.accelerate_checks.check = nothing
driver.capabilities.check_scopes = driver.capabilities.check_honours = nothing
compiling._of_sizes = nothing
made = driver.typed
def typed(*words):
    read = made(*words)
    type(read.backend).check = nothing
    return read
driver.typed = typed
"""
WORDS = ["check", "backend=slurm", "nodes=4", "gpus=8", "time=12h", "+experiment=slurm_ddp"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=11, help="paired runs, at least 11 for a figure to quote")
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        environment = {**os.environ, "PYTHONPATH": str(install_wheel(work)), "PYTHONDONTWRITEBYTECODE": ""}
        floor = [sys.executable, "-c", UNCHECKED + JOBC, *WORDS]
        jobc = [sys.executable, "-c", JOBC, *WORDS]
        samples = [(cpu_s(floor, work, environment), cpu_s(jobc, work, environment)) for _ in range(pairs + 1)][1:]
    report(samples, "jobc check without any rule", "jobc check", 1.10)
    return 0


if __name__ == "__main__":
    sys.exit(main())
