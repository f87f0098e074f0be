"""Slurm on the test bed: what it rejects, and what happens if it is missing or does not respond."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from jobc.tests.backends.jobs import SPAWN, Job, make, read
from jobc.tests.testbed import Cluster, wait_for

pytestmark = pytest.mark.engine


# ---- when Slurm does not respond -------------------------------------------------------------------------------------

SILENT = """#!/bin/bash
if [[ ! -e {down} ]]; then exec /usr/bin/squeue "$@"; fi
echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2
exit 1
"""


def path_with_silence(folder: Path) -> tuple[str, Path]:
    """Return a PATH, and the file that silences the controller for squeue while it exists."""
    down, squeue = folder / "down", folder / "bin" / "squeue"
    squeue.parent.mkdir()
    squeue.write_text(SILENT.format(down=down))
    squeue.chmod(0o755)
    return f"{squeue.parent}:/usr/local/bin:/usr/bin:/bin", down


def held(cluster: Cluster, project: Path) -> Job:
    """Queued, with a secret, and not started before somebody releases it."""
    words = ("nodes=2", "backend.extra.hold=true", "secrets.T=env:T")
    job = make(cluster, project, SPAWN, *words, command=("program.py", "-", "1"))
    code, said = job("submit", T="abc")
    assert code == 0, said
    return job


def test_a_silent_controller_is_no_end_of_a_run(cluster: Cluster, tmp_path: Path) -> None:
    job = held(cluster, tmp_path / "job")
    path, down = path_with_silence(tmp_path)
    down.touch()
    why = "Slurm does not respond: Unable to contact slurm controller (connect failure)"
    code, said = job("clean", "--keep", "0", "--yes", PATH=path)
    assert code == 0 and f"run {job.run.name} is kept: {why}" in said, said
    for verb, *words in (["submit", "--resume", job.run.name], ["stop"], ["logs", "--follow"]):
        code, said = job(verb, *words, PATH=path, T="abc")
        assert code == 1 and said.startswith(f"error: {why}\n"), said
    assert f"attempt 0: unknown, because {why}" in job("status", PATH=path)[1]
    assert not (job.run / "control" / "STOP").exists() and len(cluster.jobs()) == 1
    assert list(cluster.login.home.glob(".jobc/secrets/*"))
    code, said = job("stop")
    assert code == 0 and "stopped by jobctl stop before it started" in said, said
    assert not list(cluster.login.home.glob(".jobc/secrets/*"))


def test_who_follows_waits_until_the_controller_is_back(cluster: Cluster, tmp_path: Path) -> None:
    job = held(cluster, tmp_path / "job")
    path, down = path_with_silence(tmp_path)
    log = tmp_path / "log"
    command = f"PATH={path} {job.artifact}/jobctl logs --follow >{log} 2>&1; echo ended $? >>{log}"
    follower = cluster.login.popen(command)
    time.sleep(2)
    down.touch()
    wait_for(lambda: "asking again" in read(log), "a question without an answer")
    time.sleep(1)
    assert "ended" not in read(log)
    down.unlink()
    assert job("stop")[0] == 0
    wait_for(lambda: "ended 0" in read(log), "the end")
    follower.wait(10)


# ---- what Slurm refuses ---------------------------------------------------------------------------------------------

REFUSED = {
    "queue.name=nosuch": "invalid partition specified: nosuch",
    "gpus=3": "no node satisfies gpus, gpu_type, cpus and mem together",
    "gpu_type=h100 gpus=1": "no node satisfies gpus, gpu_type, cpus and mem together",
    "mem=900GiB": "Memory specification can not be satisfied",
    "cpus=400": "400 cores per node, but nodes of partition main have at most 16",
    "time=5d": "a time limit of 5-00:00:00, but partition main allows only 01:00:00",
    "nodes=9": "9 nodes, but partition main has or allows only 4",
    "backend.constraint=a100": "Invalid feature specification",
    "queue.nodelist=node9": "hosts, queue.nodelist or queue.exclude",
    "queue.reservation=none": "scontrol show reservation",
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_mistake_is_one_clear_line_and_nothing_stays(cluster: Cluster, tmp_path: Path, words: str) -> None:
    job = make(cluster, tmp_path / "job", SPAWN, "secrets.T=env:T", *words.split(), command=("program.py", "-", "1"))
    code, said = job("submit", T="abc")
    copied, error, hint = said.splitlines()
    assert code == 1 and REFUSED[words] in said and hint.startswith("  hint: "), said
    assert copied.startswith("code: ") and error.startswith("error: Slurm rejects the job: ")
    assert not list(job.project.glob("runs/job/*")) and not cluster.jobs()
    assert not list(cluster.login.home.glob(".jobc/secrets/*"))


def test_submit_where_slurm_is_not_says_so(cluster: Cluster, tmp_path: Path) -> None:
    job = make(cluster, tmp_path / "job", SPAWN, command=("program.py", "-", "1"))
    bare = tmp_path / "bin"
    bare.mkdir()
    for program in cluster.login.run("ls /usr/bin").stdout.split():
        if not program.startswith(("sbatch", "srun", "squeue")):
            (bare / program).symlink_to(f"/usr/bin/{program}")
    code, said = job("submit", PATH=str(bare))
    assert code == 1 and "sbatch not found on login" in said, said
    assert not (job.project / "runs").exists()
