"""Measure an artifact's size and start time: files, lines, bytes, files that a resume adds to the run folder, and the
time to the first line of output.

    python bench/artifact.py [--pairs 11]      0 pairs: do not measure times

Compiles a user's own script for each backend with default settings. The column `to read` counts the lines in the
engine's files and in launch.sh. On Kubernetes, it leaves out the compressed program at the end of job.yaml. Times are
medians of paired, interleaved runs. Each pair compares `jobctl submit` on backend local with torchrun, by the time
until a rank of the same script prints its first line.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BACKENDS = {
    "local": [],
    "ssh": ["nodes=2", "hosts=[a,b]"],
    "pdsh": ["nodes=2", "hosts=[a,b]"],
    "accelerate": ["nodes=2", "hosts=[a,b]"],
    "slurm": ["nodes=2"],
    "kubernetes": ["nodes=2", "image=pytorch/pytorch:2.9.0"],
    "skypilot": ["nodes=2", "gpus=8", "gpu_type=H100"],
}  # fmt: skip
NOT_READ = ("jobctl", "spec.yaml")
SCRIPT = 'import torch\nprint("first line", flush=True)\n'
POINTS = 100


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=11, help="paired runs for the time to the first line")
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch)
        (project / "train.py").write_text(SCRIPT)
        print(f"{'backend':<12}{'files':>7}{'to read':>9}{'longest':>9}{'bytes':>10}")
        for backend, words in BACKENDS.items():
            print_artifact(compiled(project, backend, *words))
        files = sum(1 for file in sweep(project).rglob("*") if file.is_file())
        print(f"\nfiles of a sweep of {POINTS} points on Slurm: {files}")
        print(f"lines of bash and shell templates in jobc: {shell_lines()}")
        added, changed = files_added_by_resumes(project)
        print(f"files that a resume adds to the run folder: {added}; with a changed artifact: {changed}")
        if pairs:
            print_times(project, pairs)
    return 0


def compiled(project: Path, *words: str, environ: Mapping[str, str] = os.environ, script: str = "train.py") -> Path:
    """Compile the script and return the artifact.

    words: the backend, then overrides
    """
    backend, *overrides = words
    job = ["backend=" + backend, "name=mine", *overrides, "--", script]
    subprocess.run([sys.executable, "-m", "jobc", *job], cwd=project, check=True, capture_output=True, env=environ)
    return project / "artifacts/mine" / backend


def print_artifact(artifact: Path) -> None:
    files = [file for file in sorted(artifact.rglob("*")) if file.is_file()]
    read = [file for file in files if file.name not in NOT_READ and file.parent == artifact]
    lines = [len(file.read_text().partition("\nbinaryData:\n")[0].splitlines()) for file in read]
    size = sum(file.stat().st_size for file in files)
    print(f"{artifact.name:<12}{len(files):>7}{sum(lines):>9}{max(lines):>9}{size:>10,}")


def sweep(project: Path) -> Path:
    """Compile a sweep and return its directory."""
    seeds = ",".join(map(str, range(POINTS)))
    words = ["-m", "backend=slurm", "name=swept", f"seed={seeds}", "nodes=2"]
    subprocess.run(
        [sys.executable, "-m", "jobc", *words, "--", "train.py"], cwd=project, check=True, capture_output=True
    )
    (folder,) = project.glob("artifacts/swept*/slurm")
    return folder


def shell_lines() -> int:
    listed = subprocess.run(["git", "ls-files", "*.sh", "*.j2"], cwd=ROOT, check=True, capture_output=True, text=True)
    files = [name for name in listed.stdout.split() if not name.startswith(("tests/", "docs/"))]
    return sum(len((ROOT / name).read_text().splitlines()) for name in files)


def files_added_by_resumes(project: Path) -> tuple[int, int]:
    """Return how many files and links a resume adds to a run folder, with the same artifact and with a changed one.

    The job has two ranks. Each time, it exits early, as before a requeue.
    """
    (project / "stop.py").write_text("raise SystemExit(75)\n")
    counts = []
    for option, *overrides in (("--run-id",), ("--resume",), ("--resume", "time=1h")):
        artifact = compiled(project, "local", "procs=2", "launcher=spawn", *overrides, script="stop.py")
        done = subprocess.run(
            [artifact / "jobctl", "submit", option, "counted"], cwd=project, check=False, capture_output=True
        )
        assert done.returncode == 75, done
        paths = (project / "runs/mine/counted").rglob("*")
        counts.append(sum(path.is_symlink() or path.is_file() for path in paths))
    return counts[1] - counts[0], counts[2] - counts[1]


def print_times(project: Path, pairs: int) -> None:
    jobctl = compiled(project, "local") / "jobctl"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=1", "train.py"]
    pair_times = [
        (first_line_s(torchrun, project), first_line_s([str(jobctl), "submit"], project)) for _ in range(pairs + 1)
    ]
    ratios = [ours / theirs for theirs, ours in pair_times[1:]]
    theirs, ours = (statistics.median(column) for column in zip(*pair_times[1:], strict=True))
    print(f"time to the first line, {pairs} pairs: torchrun {theirs:.2f} s, jobctl submit {ours:.2f} s,", end=" ")
    print(f"median ratio {statistics.median(ratios):.2f}")


def first_line_s(words: list[str], project: Path) -> float:
    """Return the seconds until the script prints its line."""
    began = time.perf_counter()
    with subprocess.Popen(words, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "first line" in line:
                seconds = time.perf_counter() - began
        process.wait()
    return seconds


if __name__ == "__main__":
    sys.exit(main())
