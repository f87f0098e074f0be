"""Handwritten launch files fail on the real Slurm and pdsh, as described in docs/pains.yaml.

A batch script each, all queued at once on the test bed. What an artifact does instead is in test_slurm_*.py.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from jobc.tests.testbed import Cluster, wait_for

pytestmark = pytest.mark.engine

IN_A_VENV = "VIRTUAL_ENV=/old/venv PATH=/old/venv/bin:$PATH"  # the shell that submits


@dataclass(frozen=True)
class Script:
    """pain: its number; text: below `#!/bin/bash`; prints: a line that shows the failure; state: of the ended job."""

    pain: int
    text: str
    prints: str
    state: str = "COMPLETED"


SCRIPTS = (
    Script(1, "#SBATCH --cpus-per-task=4\n"
              "srun --exact bash -c 'scontrol show step $SLURM_JOB_ID.$SLURM_STEP_ID'", "TRES=cpu=1,"),
    Script(3, "#SBATCH --nodes=2\nsrun bash -c 'echo meets at $(hostname)'", "meets at node"),  # two places
    Script(10, "#SBATCH --ntasks=2\n#SBATCH --gpus-per-task=1\n"
               "srun bash -c 'echo sees: $CUDA_VISIBLE_DEVICES'", "sees: 0\n"),
    Script(36, "export SLURM_MPI_TYPE=pmix # in place of MpiDefault of slurm.conf\n"
               "srun --mpi=none echo this one starts\nsrun true", "Invalid MPI type 'pmix'", "FAILED"),
    Script(35, "srun sleep 6 &\nsleep 1\ntimeout 3 srun true || echo waits", "waits"),
    Script(46, "#SBATCH --nodes=1\nsrun --nodes=2 true", "Only allocated 1 nodes asked for 2", "FAILED"),
    Script(11, "#SBATCH --ntasks=2\nsrun bash -c '((SLURM_PROCID)) && sleep 8; exit $((1 - SLURM_PROCID))'\n"
               "echo lasted: $((SECONDS > 6))", "lasted: 1"),
    Script(12, "trap 'echo late: $((SECONDS > 6))' USR1\n"
               "(sleep 2; scancel --batch --signal=USR1 $SLURM_JOB_ID) &\nsrun sleep 8", "late: 1"),
    Script(15, "srun --export=ALL,HCA=mlx5_0,mlx5_1 bash -c 'echo adapters: $HCA'", "adapters: mlx5_0\n"),
    Script(18, "#SBATCH --ntasks=2\nsrun bash -c \"echo rank: $SLURM_PROCID\"", "rank: 0\nrank: 0\n"),
    Script(44, "#SBATCH --export=ALL\necho leads: ${PATH%%:*}, $VIRTUAL_ENV", "leads: /old/venv/bin, /old/venv"),
    Script(50, "srun false\necho done", "done"),
)  # fmt: skip


@pytest.fixture(scope="module")
def ended(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[str, str]]:
    """Pain -> (what the job printed, its state when it had ended)."""
    folder = tmp_path_factory.mktemp("by_hand")
    ids = {}
    for script in SCRIPTS:
        file = folder / f"{script.pain}.sbatch"
        file.write_text(f"#!/bin/bash\n#SBATCH --output={folder}/{script.pain}.log\n{script.text}\n")
        said = cluster.login.run(f"{IN_A_VENV} sbatch --parsable {file}", cwd=folder, check=True)
        ids[script.pain] = said.stdout.strip()
    wait_for(lambda: not cluster.login.run("squeue --noheader").stdout.strip(), "an end of all", 90)
    return {pain: (_read(folder / f"{pain}.log"), _state(cluster, number)) for pain, number in ids.items()}


def _read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _state(cluster: Cluster, number: str) -> str:
    shown = cluster.login.run(["scontrol", "show", "job", number]).stdout
    return next((word.partition("=")[2] for word in shown.split() if word.startswith("JobState=")), "")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: str(script.pain))
def test_a_script_by_hand_fails_so(script: Script, ended: dict[int, tuple[str, str]]) -> None:
    printed, state = ended[script.pain]
    assert script.prints in printed and state == script.state, (printed, state)


def test_each_node_meets_at_its_own_name(ended: dict[int, tuple[str, str]]) -> None:
    assert len(set(ended[3][0].split("\n")) - {""}) == 2


def test_a_step_that_says_its_mpi_starts_all_the_same(ended: dict[int, tuple[str, str]]) -> None:
    assert "this one starts\n" in ended[36][0]


def test_a_log_in_a_folder_that_is_not_there_says_nothing_at_all(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "14.sbatch"
    file.write_text("#!/bin/bash\n#SBATCH --output=logs/%j.log\nmkdir -p logs\necho started\n")
    number = cluster.login.run(["sbatch", "--parsable", str(file)], cwd=tmp_path, check=True).stdout.strip()
    wait_for(lambda: _state(cluster, number) not in ("PENDING", "RUNNING", "COMPLETING"), "its end", 60)
    assert (_state(cluster, number), os.listdir(tmp_path)) == ("FAILED", ["14.sbatch"])


def test_a_requeued_job_has_lost_its_log(cluster: Cluster, tmp_path: Path) -> None:
    file, log = tmp_path / "13.sbatch", tmp_path / "train.log"
    file.write_text(f"#!/bin/bash\n#SBATCH --requeue\n#SBATCH --output={log}\n"
                    "echo attempt ${SLURM_RESTART_COUNT:-0}\n((SLURM_RESTART_COUNT)) || sleep 60\n")  # fmt: skip
    number = cluster.login.run(["sbatch", "--parsable", str(file)], cwd=tmp_path, check=True).stdout.strip()
    wait_for(lambda: _read(log) == "attempt 0\n", "the first attempt", 60)
    cluster.login.run(["scontrol", "requeue", number], check=True)
    wait_for(lambda: _state(cluster, number) == "COMPLETED", "its end", 120)
    assert _read(log) == "attempt 1\n"


def test_two_options_of_memory_are_refused(cluster: Cluster) -> None:
    said = cluster.login.run("sbatch --test-only --mem=64M --mem-per-cpu=4M --wrap=true")
    assert said.returncode != 0 and "mutually exclusive" in said.stderr


def test_sbatch_passes_on_what_the_shell_has_and_submit_does_not(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "2.sbatch"
    file.write_text(f"#!/bin/bash\n#SBATCH --output={tmp_path}/log\necho bound: $SLURM_CPU_BIND\n")
    cluster.login.run(f"SLURM_CPU_BIND=map_cpu:0 sbatch --wait {file}", cwd=tmp_path, check=True)
    assert (tmp_path / "log").read_text() == "bound: map_cpu:0\n"


def test_pdsh_calls_it_success_that_every_host_failed(cluster: Cluster) -> None:
    assert cluster.login.run("pdsh -R ssh -w node1,node2 false").returncode == 0
    assert cluster.login.run("pdsh -S -R ssh -w node1,node2 false").returncode == 1
