"""Slurm's variables of a task, translated to jobc's, and the options of Pyxis."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobc.backends.slurm.engine.job_variables import first_host, job_variables
from jobc.backends.slurm.engine.pyxis import container_options
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.runtime.node.node_failure import NodeFailure
from jobc.runtime.run_folder.run_secrets import secrets_folder_of_run
from jobc.runtime.system.failure import Failure

TASK = {
    "SLURM_JOB_ID": "17", "SLURM_STEP_ID": "2", "SLURM_NODEID": "1", "SLURM_PROCID": "3", "SLURM_LOCALID": "1",
    "SLURM_STEP_NODELIST": "n[7,9]", "SLURM_STEP_TASKS_PER_NODE": "2(x2)", "SLURMD_NODENAME": "n9",
}  # fmt: skip


def settings(*words: str) -> dict[str, Any]:
    compiled = compile_job(CompileRequest(("backend=slurm", "nodes=2", "procs=2", *words), ("./solver",)))
    (text,) = (artifact.text for artifact in compiled.artifacts if artifact.path == ".jobc/job.json")
    tree: dict[str, Any] = json.loads(text)
    return tree


def copied(run: Path, *words: str, init_from: str = "") -> Path:
    """The copy of an artifact in a run folder."""
    artifact = run / "artifact/4"
    (artifact / ".jobc").mkdir(parents=True)
    (artifact / ".jobc/job.json").write_text(json.dumps(settings(*words)))
    (run / "state").mkdir()
    (run / "state/run").write_text(f"job=job\ninit_from={init_from}\n")
    return artifact


def test_a_task_of_srun_knows_its_node_and_its_run(tmp_path: Path) -> None:
    run = tmp_path / "a"
    artifact = copied(run, "launcher=srun", "rendezvous.port=2345", init_from="/runs/old")
    assert job_variables(TASK, artifact, "0") == {
        "JOBC_RUN_DIR": str(run),
        "JOBC_RUN_ID": "a",
        "JOBC_ATTEMPT": "4",
        "JOBC_JOB_ID": "17",
        "JOBC_TIME_LIMIT_S": "0",
        "JOBC_NODE_RANK": "1",
        "JOBC_NODE_NAME": "n9",
        "JOBC_NODE_LIST": "n[7,9]",
        "JOBC_HEAD_ADDR": "n7",
        "JOBC_HEAD_PORT": "2345",
        "JOBC_INIT_FROM": "/runs/old",
        "LOCAL_RANK": "1",
    }


def test_what_the_starter_has_set_overrides_slurm(tmp_path: Path) -> None:
    """A shell beside a live run is a step of its own."""
    artifact = copied(tmp_path / "a")
    given = {"JOBC_NODE_RANK": "5", "JOBC_HEAD_ADDR": "n1", "JOBC_RUN_DIR": "", "JOBC_JOB_ID": "3"}
    variables = job_variables({**TASK, **given}, artifact, "5")
    assert {name: variables[name] for name in given} == given and "LOCAL_RANK" not in variables


@pytest.mark.parametrize("lacking", ["SLURM_NODEID", "SLURM_STEP_ID"])
def test_outside_a_step_slurm_knows_nothing(tmp_path: Path, lacking: str) -> None:
    assert job_variables({name: TASK[name] for name in TASK if name != lacking}, tmp_path, "0") == {}


def test_an_element_of_an_array_has_the_number_of_the_array(tmp_path: Path) -> None:
    array = {"SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "0"}
    assert job_variables({**TASK, **array}, copied(tmp_path / "a"), "")["JOBC_JOB_ID"] == "12_0"


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("a", "a"),
        ("a,b", "a"),
        ("node[3-4]", "node3"),
        ("n[07-09,12],x1", "n07"),
        ("login,node[1-2]", "login"),
        ("gpu-a[1,5-6]", "gpu-a1"),
        ("r[1-2]n[3-4]", "r1n3"),
        ("", ""),
    ],
)
def test_the_head_is_the_first_host_of_slurms_list(nodes: str, expected: str) -> None:
    assert first_host(nodes) == expected


def test_tasks_that_slurm_has_spread_otherwise_are_refused(tmp_path: Path) -> None:
    artifact, wanted = copied(tmp_path / "a", "launcher=srun"), {**TASK, "JOBC_STEP_TASKS": "2(x2)"}
    with pytest.raises(NodeFailure, match=r"^the allocation has room for 3,1 tasks per node, but this job needs 2"):
        job_variables({**wanted, "SLURM_STEP_TASKS_PER_NODE": "3,1"}, artifact, "0")
    job_variables({**TASK, "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}, artifact, "0")  # of a trial: one for each node
    job_variables(wanted, artifact, "0")
    assert not (tmp_path / "a/state/step").exists()
    job_variables({**wanted, "SLURM_PROCID": "0"}, artifact, "0")
    assert (tmp_path / "a/state/step").read_text() == "attempt=4\nstep=17.2\n"


PYXIS = ("container=pyxis", "image=nvcr.io#nvidia/pytorch:24.10-py3", "container.options=[--container-writable]")


def test_pyxis_mounts_the_folders_of_the_run_that_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("JOBC_SECRETS_ROOT", raising=False)
    words = (
        "mounts=[{kind:host,source:/data,target:/mnt/data,read_only:true}]",
        "secrets.TOKEN=file:~/token",
        "storage.data=/set",
    )
    run, project = tmp_path / "runs/job/a", tmp_path / "project"
    for folder in (run / "artifact/0", project, secrets_folder_of_run(run)):
        folder.mkdir(parents=True)
    (tmp_path / "token").touch()
    options = container_options(settings(*PYXIS, *words), run / "artifact/0", run, project)
    same = [Path("/tmp"), project, project, run, run / "artifact/0", secrets_folder_of_run(run), tmp_path / "token"]
    mounts = ["/data:/mnt/data:ro", "/set:/set", *(f"{path}:{path}" for path in same)]
    assert options[0] == "--container-image=nvcr.io#nvidia/pytorch:24.10-py3"
    assert options[1] == f"--container-mounts={','.join(mounts)}"
    assert options[2:] == ["--no-container-mount-home", "--container-writable"]


def test_a_folder_that_pyxis_would_split_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "a,b"
    run.mkdir()
    with pytest.raises(Failure, match=r"^Pyxis cannot mount \S*/a,b$") as refused:
        container_options(settings(*PYXIS), run / "artifact/0", run, tmp_path)
    assert refused.value.code == 65
