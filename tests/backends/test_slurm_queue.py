"""The options with which a Slurm job is queued: dependencies, devices, cluster. Needs no Slurm."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from jobc.backends.slurm.engine.job_records import record_queued_job
from jobc.backends.slurm.engine.srun_trial import (
    srun_command_for_live_run,
    srun_command_for_new_allocation,
    strip_label_padding,
)
from jobc.backends.slurm.engine.submission import (
    SlurmQueue,
    dependency_from_after_option,
    dependency_option,
    rejection_failure,
    time_limit_seconds,
)
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.runtime.engines.engine import Answer, Engine, Job
from jobc.runtime.run_folder.run import Run
from jobc.runtime.system.failure import Failure


def files(*words: str) -> dict[str, str]:
    compiled = compile_job(CompileRequest(("backend=slurm", "nodes=2", *words), ("./solver",)))
    return {artifact.path: artifact.text for artifact in compiled.artifacts}


def directives(*words: str) -> list[str]:
    lines = files(*words)["job.sbatch"].splitlines()
    return [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH --")]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("[12]", "afterok:12"),
        ("[12,13_4]", "afterok:12:13_4"),
        ("[afterany:12]", "afterany:12"),
        ("[12,afternotok:13:14,singleton]", "afterok:12,afternotok:13:14,singleton"),
    ],
)
def test_dependencies_are_those_of_sbatch(after: str, expected: str) -> None:
    assert f"--dependency={expected}" in directives(f"queue.after={after}")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("gpus=2", "cpus=8"), ["--gpus-per-node=2", "--gres=nvme:1,fpga:2"]),
        (("gpus=2", "cpus=8", "backend.gpus_as=gres"), ["--gres=gpu:2,nvme:1,fpga:2"]),
        (("backend.gpus_as=gres",), ["--gres=nvme:1,fpga:2"]),
        (("gpus=2", "cpus=8", "backend.gpus_as=none"), ["--gres=nvme:1,fpga:2"]),
    ],
)
def test_other_devices_stand_beside_the_gpus(words: tuple[str, ...], expected: list[str]) -> None:
    lines = directives("backend.gres=[nvme:1,fpga:2]", *words)
    assert [line for line in lines if "gres" in line or "gpus" in line] == expected


def test_gpus_that_are_not_requested_from_slurm_are_still_gpus_of_the_job() -> None:
    groups = "backend.groups=[{nodes: 1, gpus: 4, command: ./serve}]"
    made = files("gpus=2", "cpus=8", "backend.gpus_as=none", "queue.exclusive=true", groups)
    assert "gpus-per-node" not in made["job.sbatch"] and "gres" not in made["job.sbatch"]
    node = json.loads(made[".jobc/job.json"])["node"]
    assert (node["gpus"], node["procs"]) == (2, 2)


def test_ids_that_are_known_at_submit_time_are_added_to_those_of_the_spec() -> None:
    after = [dependency_from_after_option(text) for text in ("12,13", "afterany:14")]
    assert dependency_option(after, "") == ["--dependency=afterok:12:13,afterany:14"]
    assert dependency_option([dependency_from_after_option("singleton")], "afterok:7") == [
        "--dependency=afterok:7,singleton"
    ]
    assert dependency_option([], "afterok:7") == []  # the line of job.sbatch counts
    assert json.loads(files("queue.after=[7]")[".jobc/job.json"])["after"] == "afterok:7"


@pytest.mark.parametrize("text", ["", "x", "12; rm", "12\n", "afterok:", "afterfail:12", "--wrap=x"])
def test_what_is_no_dependency_is_refused_before_a_run_exists(text: str) -> None:
    with pytest.raises(Failure, match=r"^--after takes ID, KIND:ID or singleton, not ") as refused:
        dependency_from_after_option(text)
    assert refused.value.code == 2 and refused.value.title.endswith(f"not {text}")


class Clients(Engine):
    """Slurm's clients, whose answers are in a table: the name of the client -> its stdout."""

    def __init__(self, **answers: str) -> None:
        super().__init__(Job("job", Path("/nonexistent"), Path("/nonexistent"), {}))
        self.answers, self.asked, self.environ = answers, list[str](), dict[str, str]()

    def ask(
        self,
        words: Sequence[str],
        timeout_s: float = 60,
        environment: Mapping[str, str] | None = None,
        inherited: Mapping[str, str] = os.environ,
        text: str = "",
    ) -> Answer:
        self.asked.append(" ".join(words))
        if words[0] == "sbatch":
            self.environ = {**inherited, **(environment or {})}
        printed = self.answers.get(words[0], "")
        return Answer(1, "", printed) if printed.startswith("sbatch: ") else Answer(0, printed, "")


def test_a_job_gets_no_variable_of_the_shell_but_those_that_slurm_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_CPU_BIND", "OTHER", "SLURM_CLUSTERS"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("JOBC_RUN_ROOT", "/runs")
    clients = Clients(sbatch="a site's warning\n17;west\n")
    with SlurmQueue(clients, {"SLURM_CLUSTERS": "west"}).submitted_job(["--array=0-1", "x.sbatch"]) as job_id:
        assert job_id == "17"
    assert clients.asked[0] == "sbatch --parsable --array=0-1 x.sbatch"
    assert clients.environ["SLURM_CLUSTERS"] == "west" and clients.environ["JOBC_RUN_ROOT"] == "/runs"
    assert "PATH" in clients.environ and not {"SLURM_CPU_BIND", "OTHER"} & set(clients.environ)


@pytest.mark.parametrize(
    ("shown", "limits", "why"),
    [
        ("Priority main 9 1 1:00", "MaxNodes=4", ""),
        ("PartitionNodeLimit main 9 1 1:00", "MaxNodes=UNLIMITED TotalNodes=4", "9 nodes, but partition main has or"),
        ("PartitionNodeLimit main,other 9 1 1:00", "MaxNodes=4", ""),  # another one may take it
        ("PartitionTimeLimit main 1 1 5-00:00:00", "MaxTime=01:00:00", "a time limit of 5-00:00:00, but partition"),
        ("PartitionTimeLimit main 1 1 UNLIMITED", "MaxTime=01:00:00", ""),
        ("BadConstraints main 1 400 1:00", "MaxTime=UNLIMITED", "400 cores per node, but nodes of partition main"),
        ("PartitionDown main 1 16 1:00", "MaxNodes=4 MaxTime=1:00", ""),
        ("", "", ""),
    ],
)
def test_a_job_that_would_wait_for_ever_is_removed_again(shown: str, limits: str, why: str) -> None:
    clients = Clients(sbatch="17\n", squeue=shown, scontrol=limits, sinfo="8\n16+\n")
    with (
        pytest.raises(Failure, match=why) if why else contextlib.nullcontext(),
        SlurmQueue(clients, {}).submitted_job(["x"]),
    ):
        pass
    assert ("scancel 17" in clients.asked) == bool(why)


def test_a_job_whose_submit_is_interrupted_is_removed_again() -> None:
    clients = Clients(sbatch="17\n")
    with pytest.raises(KeyboardInterrupt), SlurmQueue(clients, {}).submitted_job(["x"]):
        raise KeyboardInterrupt
    assert clients.asked[-1] == "scancel 17"


def test_what_sbatch_refuses_is_one_line_with_the_key_to_change() -> None:
    printed = (
        "sbatch: error: invalid partition specified: x\nsbatch: error: Batch job submission failed: Invalid name\n"
    )
    with pytest.raises(Failure) as refused, SlurmQueue(Clients(sbatch=printed), {}).submitted_job(["x"]):
        pass
    assert refused.value.title == "Slurm rejects the job: invalid partition specified: x; Invalid name"
    assert refused.value.hint == "queue.name; sinfo lists the partitions"
    assert rejection_failure("Whatever").hint.startswith("sinfo -l")


def test_a_job_that_would_wait_for_a_drained_node_is_not_called_rejected(tmp_path: Path) -> None:
    (tmp_path / "job.sbatch").write_text("#SBATCH --partition=main\n")
    no_nodes = "sbatch: allocation failure: Requested node configuration is not available\n"
    clients = Clients(sbatch=no_nodes, sinfo="node[1-2]\n")
    with pytest.raises(Failure, match=r"cannot start the job now: .*; nodes not available now: node\[1-2\]$"):
        SlurmQueue(clients, {}).test_submission(tmp_path / "job.sbatch")
    assert clients.asked[-1].endswith(" --format=%N --partition=main")
    with pytest.raises(Failure, match=r"^Slurm rejects the job: allocation failure: Requested node"):
        SlurmQueue(Clients(sbatch=no_nodes), {}).test_submission(tmp_path / "job.sbatch")


@pytest.mark.parametrize(
    "line",
    [
        "Batch job submission failed: Unable to contact slurm controller (connect failure)",
        "Batch job submission failed: Socket timed out on send/recv operation",
        "slurm_receive_msg: Connection refused",
        "sbatch did not respond within 3600 s",
    ],
)
def test_a_controller_that_does_not_respond_has_rejected_nothing(line: str) -> None:
    failure = rejection_failure(f"sbatch: error: {line}\n")
    assert failure.title.startswith("Slurm does not respond: ") and failure.hint.startswith("sinfo shows whether")


@pytest.mark.parametrize(
    ("text", "expected"), [("30", 30), ("1:30", 90), ("01:00:01", 3601), ("2-00:00:00", 172800), ("UNLIMITED", 0)]
)
def test_a_time_limit_of_slurm_in_seconds(text: str, expected: int) -> None:
    assert time_limit_seconds(text) == expected


def test_the_job_records_itself_first_or_submit_does(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    record_queued_job(tmp_path, 0, "17")
    record_queued_job(tmp_path, 0, "18")
    (tmp_path / "state/job_1").symlink_to(tmp_path / "elsewhere")
    record_queued_job(tmp_path, 1, "19")
    assert (tmp_path / "state/job_0").read_text() == "job_id=17\n" and not (tmp_path / "elsewhere").exists()


def test_every_script_asks_the_cluster_that_queues_the_job() -> None:
    made = files("backend.cluster=west")
    assert "--clusters=west" in directives("backend.cluster=west")
    assert json.loads(made[".jobc/job.json"])["cluster"] == "west"


def test_a_trial_asks_for_the_nodes_of_the_job_for_ten_minutes(tmp_path: Path) -> None:
    logs = ("--output=%j.out", "--error=%j.err")
    options = ("--nodes=2", "--time=1-00:00:00", "--partition=main", "--requeue", *logs)
    (tmp_path / "job.sbatch").write_text("".join(f"#SBATCH {option}\n" for option in options))
    engine = Engine(Job("job", tmp_path, tmp_path, {"cpus": 8}))
    words = srun_command_for_new_allocation(engine, Path("/runs/a"), Path("/project"), ["--label"], ["smoke"])
    asked = "srun --nodes=2 --partition=main --cpus-per-task=8 --ntasks-per-node=1 --time=10 --mpi=none --quiet --label"
    environ = ["env", "JOBC_RUN_DIR=/runs/a", "JOBC_ATTEMPT=0", "JOBC_PROJECT=/project"]
    assert words == [*asked.split(), *environ, "bash", f"{tmp_path}/launch.sh", "", "smoke"]


@pytest.mark.parametrize(
    ("line", "expected"), [(" 0: ok", "0: ok"), ("10: 7: x", "10: 7: x"), ("00: ok", "0: ok"), ("srun: x", "srun: x")]
)
def test_the_padded_label_of_a_task_is_its_number(line: str, expected: str) -> None:
    assert strip_label_padding(line) == expected


def test_a_shell_is_a_step_beside_the_run_on_the_node_of_that_rank(tmp_path: Path) -> None:
    (tmp_path / "artifact/3").mkdir(parents=True)
    clients = Clients(scontrol="n7\nn9\n")
    words = srun_command_for_live_run(clients, Run(tmp_path), Path("/project"), ("17", "n[7,9]"), 1, ["--pty"])
    assert words[:7] == ["srun", "--jobid=17", "--overlap", "--nodes=1", "--ntasks=1", "--nodelist=n9", "--mpi=none"]
    assert words[-4:] == ["bash", f"{tmp_path}/artifact/3/launch.sh", "1", "shell"]
    assert {"JOBC_HEAD_ADDR=n7", "JOBC_ATTEMPT=3", "JOBC_NODE_LIST=n[7,9]", "JOBC_NODE_RANK=1"} < set(words)
    with pytest.raises(Failure, match=r"^node 2 does not exist$"):
        srun_command_for_live_run(clients, Run(tmp_path), Path("/project"), ("17", "n[7,9]"), 2, [])
