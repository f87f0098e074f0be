"""jobctl submit on Slurm, also for sweeps, with stand-ins for Slurm's clients: what it creates and what it leaves
behind.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.sweeps import compile_sweep, group_points_into_folders
from jobc.compiler.pipeline.types import CompileRequest
from jobc.runtime.system.values import read_artifact_json, read_keys

BASE = ("backend=slurm", "name=job", "secrets.T=env:T", "queue.after=[7]")
COMMAND = ("train.py",)


class Project:
    """A project whose scripts find `sbatch` and the other clients in bin/. Each writes its words to bin/asked."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder, folder / "bin"
        self.bin.mkdir()
        (folder / "train.py").write_text("")
        self.client("sbatch", "echo 17")
        for name in ("squeue", "scontrol", "sinfo", "scancel", "srun"):
            self.client(name, "")

    def client(self, name: str, lines: str) -> None:
        (self.bin / name).write_text(f'#!/bin/bash\necho "{name} $*" >>{self.bin}/asked\n{lines}\n')
        (self.bin / name).chmod(0o755)

    def __call__(self, artifact: Path, *words: str, **env: str) -> tuple[int, str]:
        outer = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "JOBC_"))}
        environ = {**outer, "PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": str(self.folder), "T": "abc", **env}
        pipe, both = subprocess.PIPE, subprocess.STDOUT
        command = [artifact / "jobctl", "submit", *words]
        done = subprocess.run(command, cwd=self.folder, env=environ, stdout=pipe, stderr=both, check=False)
        return done.returncode, done.stdout.decode()

    def asked(self) -> list[str]:
        return (self.bin / "asked").read_text().splitlines()

    def left(self) -> list[str]:
        found = [*self.folder.glob("runs/*/*"), *self.folder.glob(".jobc/secrets/*")]
        return sorted(path.relative_to(self.folder).as_posix() for path in found)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def artifact(project: Project) -> Path:
    return write_compiled_job(compile_job(CompileRequest(BASE, COMMAND)), project.folder / "artifacts")


@pytest.fixture
def sweep(project: Project) -> Path:
    (folder,), _ = group_points_into_folders(compile_sweep(CompileRequest((*BASE, "seed=0,1"), COMMAND)))
    return write_compiled_job(folder, project.folder / "artifacts")


def test_a_job_is_queued_with_its_run_folder_and_recorded(project: Project, artifact: Path) -> None:
    code, said = project(artifact, "--run-id", "a", "--after", "12", "--after", "singleton")
    run = project.folder / "runs/job/a"
    assert code == 0 and f"run a in {run}, job 17\n  follow: {run}/artifact/0/jobctl logs --follow\n" in said, said
    words = f"--dependency=afterok:7,afterok:12,singleton --chdir={run} --output={run}/logs/slurm-%j.log"
    sbatch = f"sbatch --parsable {words} {run}/artifact/0/job.sbatch {run} 0"
    assert project.asked()[:2] == ["scontrol show job 12", sbatch]
    assert (run / "state/job_0").read_text() == "job_id=17\n" and (run / "state/resume").exists()
    (secret,) = project.folder.glob(".jobc/secrets/a-*/T")
    assert secret.read_text() == "abc"


def test_standard_error_gets_a_log_of_its_own(project: Project) -> None:
    request = CompileRequest((*BASE, "backend.stderr=x.err"), COMMAND)
    artifact = write_compiled_job(compile_job(request), project.folder / "artifacts")
    assert project(artifact, "--run-id", "a")[0] == 0
    logs = project.folder / "runs/job/a/logs/slurm-%j"
    assert f"--output={logs}.log --error={logs}.stderr.log " in project.asked()[0]


def test_standard_error_in_the_same_file_as_output_is_not_separate(project: Project) -> None:
    request = CompileRequest((*BASE, "backend.stderr=x.log", "backend.output=x.log"), COMMAND)
    artifact = write_compiled_job(compile_job(request), project.folder / "artifacts")
    assert "--error" not in (artifact / "job.sbatch").read_text()
    assert read_artifact_json(artifact / ".jobc/job.json")["stderr"] is None
    assert project(artifact, "--run-id", "a")[0] == 0 and "--error" not in project.asked()[0]


@pytest.mark.parametrize("kind", ["artifact", "sweep"])
@pytest.mark.parametrize(
    ("sbatch", "code"),
    [
        ("echo 'sbatch: error: Batch job submission failed: Invalid account' >&2; exit 1", 1),
        ("kill -TERM $PPID; sleep 5", -15),
        ("echo 17; kill -INT $PPID", -2),
    ],
)
def test_a_submit_that_fails_or_is_ended_leaves_nothing(
    project: Project, kind: str, sbatch: str, code: int, request: pytest.FixtureRequest
) -> None:
    project.client("sbatch", sbatch)
    ended, said = project(request.getfixturevalue(kind))
    assert ended == code and project.left() == [], said
    if code == 1:
        assert "error: Slurm rejects the job: Invalid account\n  hint: queue.account" in said


def test_the_folder_for_a_job_that_was_queued_by_hand_is_printed_alone(project: Project, artifact: Path) -> None:
    prepare = ("--only-prepare", "--run-id", "slurm-17")
    code, said = project(artifact, *prepare)
    assert code == 0 and said.splitlines()[-1] == f"{project.folder}/runs/job/slurm-17"
    again = project(artifact, *prepare, SLURM_RESTART_COUNT="1")
    assert again == (0, f"{project.folder}/runs/job/slurm-17\n")
    code, said = project(artifact, *prepare)
    assert code == 1 and "run slurm-17 already exists" in said


def test_here_needs_an_allocation_and_runs_the_job_itself(project: Project, artifact: Path) -> None:
    assert project(artifact, "--here")[0] == 2 and project.left() == []
    job = artifact / "job.sbatch"
    job.chmod(0o755)
    job.write_text('echo "here $PWD $*"\n')
    code, said = project(artifact, "--here", "--run-id", "a", SLURM_JOB_ID="5")
    run = project.folder / "runs/job/a"
    assert code == 0 and said.splitlines()[-1] == f"here {run} {run} 0 here", said


def test_a_sweep_is_one_array_whose_points_are_runs(project: Project, sweep: Path) -> None:
    code, said = project(sweep, "--parallel", "1")
    (run,) = (project.folder / "runs/job+sweep").iterdir()
    assert code == 0 and f"sweep {run.name} in {run}, job array 17_[0-1%1]\n" in said, said
    assert project.asked()[0].startswith(
        f"sbatch --parsable --array=0-1%1 --chdir={run} --output={run}/points/%a/../../"
    )
    for index in range(2):
        artifact = Path(os.readlink(run / f"points/{index}"))
        point = artifact.parents[1]
        assert point.name == f"{run.name}-{index}" and (point / "state/job_0").read_text() == f"job_id=17_{index}\n"
        assert artifact == point / "artifact/0" and (artifact / "job.sbatch").exists()
    assert (run / "state/job_0").read_text() == "job_id=17\n"
    code, said = project(run / "artifact/0")
    assert code == 2 and "this is a submitted sweep's copy of the artifact" in said


def test_an_element_of_an_array_that_was_queued_by_hand_prepares_its_point(project: Project, sweep: Path) -> None:
    prepare = ("--point", "1", "--only-prepare", "--run-id", "slurm-17_1")
    code, said = project(sweep, *prepare)
    run = project.folder / "runs/job+seed=1/slurm-17_1"
    assert code == 0 and said.splitlines()[-1] == str(run), said
    assert "seed: 1" in (run / "artifact/0/spec.yaml").read_text()
    assert project(sweep, *prepare, SLURM_RESTART_COUNT="1") == (0, f"{run}\n")


def test_one_point_of_a_sweep_takes_arguments(project: Project, sweep: Path) -> None:
    code, said = project(sweep, "--point", "1", "--run-id", "a", "--env", "A=1", "--", "--lr", "2")
    assert code == 0, said
    keys = read_keys(project.folder / "runs/job+seed=1/a/state/run")
    assert (keys["arguments"], keys["env"]) == ('["--lr", "2"]', '{"A": "1"}')


def test_points_of_a_sweep_take_no_options_of_one_run(project: Project, sweep: Path) -> None:
    values = (("--env", "A=1"), ("--env=A=1",), ("--", "--point"))
    for words in (("--here",), ("--fork", "a"), ("--only-prepare",), ("--run-id=a",), ("--parallel", "0"), *values):
        code, said = project(sweep, *words)
        assert code == 2 and project.left() == [], said
