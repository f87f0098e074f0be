"""Measure the cost of a compile, as ratios to a floor measured in the same run, and how fast a sweep compiles.

    python bench/compile_cost.py [--pairs 11] [--sweep] [--torchx]

Floor F: a Python process that composes and resolves the same config files through Hydra's own file source.
cold:    `jobc name=bench procs=2` as a whole process that writes a new directory; jobc runs from the wheel, with the
         caches that the previous command left.
repeat:  the same command again with nothing changed, which compiler/cli/skip_unchanged.py recognizes.
--sweep:  points per second of CPU time for `jobc -m backend=slurm env.SEED=range(0,N) -- train.py`, including writing
          the files. Only the extra time of 200 points over 2 points counts, not the start of the process.
--torchx: a cold and a repeated `jobc backend=slurm nodes=2 -- train.py`, compared with `torchx run --dryrun` of the
          same script; installs torchx from PyPI into its own virtual environment.
Runs are interleaved. Figures are CPU seconds (user + system) of whole processes, so that other load on the machine
affects all sides. Goal: the median ratio of a cold compile is at most 1.25.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

FLOOR = """
import sys
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
with initialize_config_dir(sys.argv[1], version_base="1.3"):
    config = compose("config", sys.argv[2:])
OmegaConf.to_container(config, resolve=True)
"""
JOBC = "import sys; from jobc.compiler.cli import main; sys.exit(main())"
OVERRIDES = ["name=bench", "procs=2"]
OWN_SCRIPT = ["backend=slurm", "nodes=2", "--", "train.py"]
TORCHX = ["run", "--dryrun", "-s", "slurm", "dist.ddp", "-j", "2x1", "--script", "train.py"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=11, help="interleaved runs, at least 11 for figures to be quoted")
    parser.add_argument("--sweep", action="store_true", help="measure a sweep as well")
    parser.add_argument("--torchx", action="store_true", help="compare with torchx as well")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        wheel, conf = install_wheel(work), merge_conf(work)
        own_cache = {"PYTHONDONTWRITEBYTECODE": "", "XDG_CACHE_HOME": str(work / "cache")}
        environment = {**os.environ, "PYTHONPATH": str(wheel), **own_cache}
        floor = Command([sys.executable, "-c", FLOOR, str(conf), *OVERRIDES], work, environment)
        jobc = Command([sys.executable, "-c", JOBC, *OVERRIDES], work, environment)
        report(interleaved(floor, jobc, wanted.pairs), "Hydra composes the same config", " ".join(["jobc", *OVERRIDES]))
        (work / "train.py").write_text("print('hello')\n")
        if wanted.torchx:
            torchx = Command([str(install_torchx(work)), *TORCHX], work, dict(os.environ))
            own = Command([sys.executable, "-c", JOBC, *OWN_SCRIPT], work, environment)
            report(interleaved(torchx, own, wanted.pairs), "torchx run --dryrun", " ".join(["jobc", *OWN_SCRIPT]))
        if wanted.sweep:
            sweeps = [Command([sys.executable, "-c", JOBC, *sweep(n)], work, environment) for n in (2, 200)]
            times = [[command.cpu_s() for command in sweeps] for _ in range(wanted.pairs)]
            rates = [198 / (many - few) for few, many in times]
            print(f"sweep, points per second of CPU time: median {statistics.median(rates):.0f}, best {max(rates):.0f}")
    return 0


class Samples(NamedTuple):
    """CPU seconds of one run of each command."""

    floor: float
    cold: float
    repeat: float


@dataclass(frozen=True)
class Command:
    words: list[str]
    cwd: Path
    environment: dict[str, str]

    def cpu_s(self) -> float:
        """Return the CPU seconds of the whole process."""
        null = subprocess.DEVNULL
        process = subprocess.Popen(self.words, cwd=self.cwd, env=self.environment, stdout=null, stderr=null)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{self.words[:2]} exited with {process.returncode}")
        return usage.ru_utime + usage.ru_stime


def interleaved(floor: Command, jobc: Command, pairs: int) -> list[Samples]:
    """Return samples of the floor, a cold compile and its repetition.

    The first sample, which fills caches, is dropped.
    """
    samples = []
    for _ in range(pairs + 1):
        shutil.rmtree(jobc.cwd / "artifacts", ignore_errors=True)
        samples.append(Samples(floor.cpu_s(), jobc.cpu_s(), jobc.cpu_s()))
    return samples[1:]


def sweep(points: int) -> list[str]:
    return ["-m", "backend=slurm", f"env.SEED=range(0,{points})", "--", "train.py"]


def install_torchx(work: Path) -> Path:
    """Return the torchx command, installed in its own environment."""
    venv.create(work / "torchx", with_pip=True)
    subprocess.run([str(work / "torchx" / "bin" / "pip"), "install", "--quiet", "torchx"], check=True)
    return work / "torchx" / "bin" / "torchx"


def install_wheel(work: Path) -> Path:
    """Return the folder of the unpacked wheel, which is what users import, with compiled templates."""
    built, target = work / "built", work / "site"
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(built), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    shutil.unpack_archive(next(built.glob("*.whl")), target, "zip")
    return target


def merge_conf(work: Path) -> Path:
    """Return one folder with the config groups of both jobc and the local backend.

    Hydra's file source accepts only one folder.
    """
    conf = work / "conf"
    shutil.copytree(ROOT / "conf", conf)
    shutil.copytree(ROOT / "backends" / "local" / "conf", conf, dirs_exist_ok=True)
    return conf


def report(samples: list[Samples], floor: str, command: str) -> None:
    print(f"{len(samples)} interleaved runs, CPU ms of the whole process     min   median")
    for name, column in ((f"floor F: {floor}", 0), (command, 1), ("the same again", 2)):
        values = [1000 * sample[column] for sample in samples]
        print(f"  {name:<44} {min(values):7.0f} {statistics.median(values):8.0f}")
    for name, column in (("ratio cold / F", 1), ("ratio repeat / F", 2)):
        ratios = [sample[column] / sample.floor for sample in samples]
        print(f"  {name:<44} {min(ratios):7.2f} {statistics.median(ratios):8.2f}")


if __name__ == "__main__":
    sys.exit(main())
