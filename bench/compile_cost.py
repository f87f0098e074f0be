"""What one cold compile costs, as a ratio to a floor measured in the same run.

    python bench/compile_cost.py [--pairs 11]

Floor F: a Python process that composes and resolves the very same config files through Hydra's own file source.
jobc:    `python -m jobc`-equivalent of `jobc name=bench procs=2`, the whole process, artifact written; from the wheel,
         whose templates are precompiled.
Runs are paired and interleaved; figures are CPU seconds (user + system) of whole processes, so that other load on the
machine moves both sides. Goal: median ratio at most 1.25.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

FLOOR = """
import sys
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
with initialize_config_dir(sys.argv[1], version_base="1.3"):
    config = compose("config", sys.argv[2:])
OmegaConf.to_container(config, resolve=True)
"""
JOBC = "import sys; from jobc.compiler.cli import main; sys.exit(main(sys.argv[1:]))"
OVERRIDES = ["name=bench", "procs=2"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=11, help="paired runs, at least 11 for a figure to quote")
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        wheel, conf = install_wheel(work), merge_conf(work)
        environment = {**os.environ, "PYTHONPATH": str(wheel), "PYTHONDONTWRITEBYTECODE": ""}
        floor = [sys.executable, "-c", FLOOR, str(conf), *OVERRIDES]
        jobc = [sys.executable, "-c", JOBC, *OVERRIDES]
        samples = [(cpu_s(floor, work, environment), cpu_s(jobc, work, environment)) for _ in range(pairs + 1)][1:]
    report(samples, "Hydra composes the same config", " ".join(["jobc", *OVERRIDES]), 1.25)
    return 0


def install_wheel(work: Path) -> Path:
    """The built wheel, unpacked: what users import, with its templates compiled."""
    built, target = work / "built", work / "site"
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(built), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    shutil.unpack_archive(next(built.glob("*.whl")), target, "zip")
    return target


def merge_conf(work: Path) -> Path:
    """The config groups of jobc and of the local backend as one folder, which is all that Hydra's file source takes."""
    conf = work / "conf"
    shutil.copytree(ROOT / "conf", conf)
    shutil.copytree(ROOT / "backends" / "local" / "conf", conf, dirs_exist_ok=True)
    return conf


def cpu_s(command: list[str], cwd: Path, environment: dict[str, str]) -> float:
    """CPU seconds of one whole process."""
    process = subprocess.Popen(command, cwd=cwd, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command[:2]} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def report(samples: list[tuple[float, float]], floor: str, command: str, goal: float) -> None:
    ratios = [jobc / floor for floor, jobc in samples]
    print(f"{len(samples)} paired runs, CPU ms of the whole process     min   median")
    for name, column in ((f"floor F: {floor}", 0), (command, 1)):
        values = [1000 * sample[column] for sample in samples]
        print(f"  {name:<44} {min(values):7.0f} {statistics.median(values):8.0f}")
    print(f"  {'ratio jobc / F':<44} {min(ratios):7.2f} {statistics.median(ratios):8.2f}   (goal: {goal:.2f})")


if __name__ == "__main__":
    sys.exit(main())
