"""Run an artifact as a user would. Its program records what each rank receives, for comparison with the plan.

In:  a compiled job whose command is `record.py …`.
Out: what each rank received, and how it differs from the plan.
"""

import json
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from ...runtime.run_folder.submitted_values import PATH_VARIABLES
from ...runtime.system.frozen_dataclass import dataclass
from ...trainer.dist import env as contract
from ..pipeline.compile import write_compiled_job
from ..pipeline.types import CompiledJob

Process = subprocess.Popen[bytes]
RECORD = """import json, os, sys
with open(f"{os.environ['JOBC_RUN_DIR']}/received_{os.environ['RANK']}.json", "w") as file:
    json.dump({"argv": sys.argv, "env": dict(os.environ), "folder": os.getcwd(), "host": os.uname().nodename}, file)
"""


@dataclass(frozen=True)
class ReceivedByRank:
    """Arguments and environment that one rank received. folder: working directory; host: the machine's name."""

    argv: list[str]
    env: dict[str, str]
    folder: str
    host: str


def submit_recording_job(
    compiled: CompiledJob, project: Path, environment: Mapping[str, str], timeout_s: float = 180
) -> list[ReceivedByRank]:
    """Write the artifact into a project folder, run jobctl submit, and return what each rank of `record.py` received.

    If jobctl submit returns once the job is queued, wait until the run's state/ shows that all nodes have ended.
    """
    until = time.monotonic() + timeout_s
    (project / "record.py").write_text(RECORD, encoding="utf-8")
    artifact = write_compiled_job(compiled, project / "artifacts")
    done = run_verb(artifact, "submit", project, environment, timeout_s=timeout_s)
    assert done.returncode == 0, f"jobctl submit exited with {done.returncode}\n{done.stdout}\n{done.stderr}"
    runs = [file.parents[1] for file in project.glob("runs/*/*/state/run")]
    assert runs, "jobctl submit exited with 0 and left no run; a backend that queues jobs must call keep_run"
    for run in runs:
        wait_for_end(run, compiled.plan.topology.nodes, until)
    files = sorted(project.glob("runs/*/*/received_*.json"), key=lambda file: int(file.stem.rpartition("_")[2]))
    return [ReceivedByRank(**json.loads(file.read_text())) for file in files]


def run_verb(
    artifact: Path, verb: str, project: Path, environment: Mapping[str, str], *words: str, timeout_s: float = 180
) -> subprocess.CompletedProcess[str]:
    """Run an artifact's verb in its project folder, which is also HOME."""
    return subprocess.run(
        [str(artifact.absolute() / "jobctl"), verb, *words], cwd=project,
        env=_process_environment(project, environment), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, errors="backslashreplace", timeout=timeout_s,
        check=False,
    )  # fmt: skip


def start_verb(artifact: Path, verb: str, project: Path, environment: Mapping[str, str], output: Path) -> Process:
    """Start a verb like run_verb(), but do not wait for it. output: file for stdout and stderr"""
    with output.open("wb") as file:
        return subprocess.Popen(
            [str(artifact.absolute() / "jobctl"), verb], cwd=project, env=_process_environment(project, environment),
            stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
        )  # fmt: skip


def _process_environment(project: Path, environment: Mapping[str, str]) -> dict[str, str]:
    outer = {k: v for k, v in os.environ.items() if not k.startswith(("JOBC_", "TORCHELASTIC_", "PET_"))}
    caches = os.path.expanduser("~/.cache")  # the shared cache, so that no test compiles jobctl's modules again
    return {"XDG_CACHE_HOME": caches, **outer, "HOME": str(project), **environment}


def wait_for_end(run: Path, nodes: int, until: float) -> None:
    """Wait until all of a run's nodes have ended, each with exit code 0. until: deadline on time.monotonic()"""
    files = [run / "state" / f"node_{rank:02}" for rank in range(nodes)]
    while True:
        states = {file.name: file.read_text() if file.exists() else "not started" for file in files}
        going = [name for name, text in states.items() if "\nended=" not in text]
        if not going:
            break
        assert time.monotonic() < until, (
            f"jobctl submit exited with 0, but {', '.join(going)} did not end in time: {states}"
        )
        time.sleep(0.1)
    assert all("\nexit=0\n" in text for text in states.values()), f"states of the nodes of {run} at the end: {states}"


def differences_from_plan(compiled: CompiledJob, received: list[ReceivedByRank]) -> list[str]:
    """Return every difference between the plan and what the ranks received. Empty if there are none."""
    plan, problems = compiled.plan, []
    if len(received) != plan.topology.world_size:
        return [f"{len(received)} ranks recorded something, but the plan has {plan.topology.world_size}"]
    needed = [row.name for row in contract.TABLE if row.setter in ("launcher", "backend", "jobctl")]
    needed.remove("JOBC_TRAIN_JSON")  # unlike the bundled trainer, record.py does not read train.json
    if plan.parallel != "deepspeed":
        needed.remove("JOBC_DEEPSPEED_JSON")
    for rank, record in enumerate(received):
        contract.parse_environment(record.env, needed)  # raises if a variable is missing or invalid
        expected = {
            "RANK": rank,
            "LOCAL_RANK": rank % plan.topology.procs,
            "GROUP_RANK": rank // plan.topology.procs,
            "WORLD_SIZE": plan.topology.world_size,
            "LOCAL_WORLD_SIZE": plan.topology.procs,
            "MASTER_ADDR": received[0].env["MASTER_ADDR"],
            "MASTER_PORT": received[0].env["MASTER_PORT"],
            "JOBC_NODE_RANK": rank // plan.topology.procs,
            "JOBC_NODES": plan.topology.nodes,
            "JOBC_JOB_NAME": plan.name,
        }
        for name, value in expected.items():
            if (actual := record.env.get(name)) != str(value):
                problems.append(f"rank {rank}: {name} is {actual!r}, not {value!r}")
        words = list(plan.command[plan.command.index("record.py") + 1 :])
        if record.argv[1:] != words:
            problems.append(f"rank {rank}: arguments {record.argv[1:]!r}, not {words!r}")
        for name, value in plan.env.items():
            if name not in PATH_VARIABLES and record.env.get(name) != value:
                problems.append(f"rank {rank}: {name}={record.env.get(name)!r}, not {value!r}")
        problems += [f"rank {rank}: secret {name} is not set" for name in plan.secrets if not record.env.get(name)]
    return problems if received[0].env["MASTER_PORT"] != "0" else [*problems, "MASTER_PORT is 0"]
