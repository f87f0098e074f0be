"""Jobs for backend tests on the test bed: programs without torch, an artifact, and calls to its scripts.

In   a Cluster, an empty project folder, a way to start (WAYS) and words of the spec
Out  a Job; start() and submitted() return when its ranks are working
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.tests.testbed import Cluster, wait_for

# the test bed's jobs run as root
AS_ROOT = ("env.OMPI_ALLOW_RUN_AS_ROOT=1", "env.OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
HOSTS = ("hosts=node[1-4]", "nodes=1")  # a job overrides nodes
WAYS = {
    "ssh": ("backend=ssh", *HOSTS),
    "pdsh": ("backend=pdsh", *HOSTS),
    "clush": ("backend=pdsh", "backend.client=clush", *HOSTS),
    "slurm": ("backend=slurm",),
    "srun": ("backend=slurm", "launcher=srun"),
    "mpirun": ("backend=pdsh", *HOSTS, "launcher=mpirun", *AS_ROOT),
}
SPAWN, SRUN = "slurm", "srun"  # ways with Slurm: one task per node, or one per rank

# Runs for argv[2] seconds, or until it is told to stop; rank argv[1] fails immediately.
PROGRAM = """
import os, signal, sys, time
if sys.argv[1] == os.environ["RANK"]:
    raise RuntimeError("the disk is broken")
if os.environ.get("TOKEN"):
    print("token of", len(os.environ["TOKEN"]), flush=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
print("up", flush=True)
time.sleep(float(sys.argv[2]))
"""

# Counts steps in the run folder, continues where it stopped, and saves at the end of a step, like the trainer.
STEP_PROGRAM = """
import os, pathlib, signal, sys, time
rank, run, last = os.environ["RANK"], pathlib.Path(os.environ["JOBC_RUN_DIR"]), int(sys.argv[1])
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
saved, log = run / f"saved_{rank}", run / f"steps_{rank}"
step = int(saved.read_text()) if saved.exists() else 0
print("token", os.environ.get("TOKEN") or os.environ.get("LABEL"), "job", os.environ["JOBC_JOB_ID"], flush=True)
while step < last:
    time.sleep(0.2)
    step += 1
    with log.open("a") as lines:
        print(os.environ["JOBC_ATTEMPT"], step, file=lines)
    if stop:
        saved.write_text(str(step))
        sys.exit(75)
"""


@dataclass
class Job:
    """One artifact in a project folder that all hosts can access. Its scripts run on the login host."""

    cluster: Cluster
    project: Path
    artifact: Path

    def __call__(self, verb: str, *words: str, **env: str) -> tuple[int, str]:
        command = [str(self.artifact / "jobctl"), verb, *words]
        done = self.cluster.login.run(command, cwd=self.project, env=env, timeout_s=120)
        return done.returncode, done.stdout + done.stderr

    @property
    def run(self) -> Path:
        (run,) = (file.parents[1] for file in self.project.glob("runs/*/*/state/run"))
        return run


def make(
    cluster: Cluster,
    project: Path,
    way: str,
    *words: str,
    command: tuple[str, ...] | None = None,
    launcher: str = "spawn",  # starts faster than torchrun; used for a command if the way sets no launcher
) -> Job:
    write_programs(project)
    base = ["name=job", f"python.interpreter={sys.executable}", "lifecycle.grace=5s"]
    if command and way not in ("srun", "mpirun"):
        base.append(f"launcher={launcher}")
    compiled = compile_job(CompileRequest((*WAYS[way], *base, *words), command))
    return Job(cluster, project, write_compiled_job(compiled, project / "artifacts"))


def write_programs(project: Path) -> None:
    project.mkdir(exist_ok=True)
    (project / "program.py").write_text(PROGRAM)
    (project / "steps.py").write_text(STEP_PROGRAM)


def start(job: Job, way: str, **env: str) -> None:
    code, said = job("submit", *([] if "backend=slurm" in WAYS[way] else ["--detach"]), **env)
    assert code == 0, said
    ranks = [f"logs/rank_{rank:02}.log" for rank in range(6)]
    wait_for(lambda: all("up" in read(job.run / path) for path in ranks), "six ranks")


def read(file: Path) -> str:
    return file.read_text(errors="replace") if file.exists() else ""


def steps(cluster: Cluster, project: Path, way: str, *words: str, last: int = 1000) -> Job:
    return make(cluster, project, way, "nodes=2", "procs=2", *words, command=("steps.py", str(last)))


def submitted(job: Job, **env: str) -> str:
    """Wait until the job has done two steps on every rank, and return its Slurm job ID."""
    code, said = job("submit", **env)
    assert code == 0, said
    wait_for(lambda: all(len(done(job, rank)) > 2 for rank in range(4)), "steps")
    return read(job.run / "state" / "job_0").splitlines()[0].removeprefix("job_id=")


def done(job: Job, rank: int = 0) -> list[tuple[int, int]]:
    """Return (attempt, step) of a rank's steps, in order."""
    lines = read(job.run / f"steps_{rank}").splitlines()
    return [(int(line.split()[0]), int(line.split()[1])) for line in lines]


# Each step adds a line to the run folder; `then` also to the logs of the ranks.
_SAY = ">>$JOBC_RUN_DIR/steps"
STEPS = (
    f"before='echo before {_SAY}'",
    f"per_node='echo per_node {_SAY}'",
    "then=['echo then | tee -a $JOBC_RUN_DIR/steps']",
    f"after='echo after $JOBC_EXIT_CODE {_SAY}'",
)


def said_by_steps(run: Path, ranks: int, nodes: int) -> bool:
    """Return whether all steps of a successful job have run, in order."""
    return read(run / "steps").splitlines() == ["before", *["per_node"] * nodes, *["then"] * ranks, "after 0"]
