"""The program of a batch job on Slurm, with stand-ins for srun, scontrol and scancel."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from jobc.backends.slurm.engine.batch import failed_check_nodes, parse_time_limit, task_environment
from jobc.backends.slurm.engine.requeue import (
    decide_next_start,
    lost_nodes,
    requeue_without_lost_nodes,
)
from jobc.runtime.engines.engine import Answer, Engine, Job
from jobc.runtime.run_folder.run_secrets import secrets_folder_of_run
from jobc.runtime.system.values import read_keys

from .batch_bed import ENDED, PROGRAM, RUNNING, SRUN, Bed


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


def test_the_tasks_run_the_copy_of_launch_sh_in_the_run(bed: Bed) -> None:
    bed.tasks(f"env >{bed.folder}/env; {ENDED.replace('CODE', '0')}")
    left_over = {"SLURM_CPU_BIND_TYPE": "x", "JOBC_HEAD_ADDR": "other", "JOBC_SUBMITTED": "e30="}
    assert bed(**left_over, SLURM_STEP_GPUS="0") == (0, "")
    assert bed.asked()[1] == f"srun --nodes=2 bash {bed.run}/artifact/0/launch.sh"
    seen = read_keys(bed.folder / "env")
    expected = {"JOBC_RUN_DIR": str(bed.run), "JOBC_ATTEMPT": "0", "JOBC_PROJECT": str(bed.folder)}
    assert {name: seen.get(name) for name in expected} == expected and seen["JOBC_STEP_TASKS"] == "1(x2)"
    assert "SLURM_STEP_GPUS" in seen and not left_over.keys() & seen.keys()
    assert bed.recorded() == ("0", "done")


@pytest.mark.parametrize(
    ("codes", "status", "expected"),
    [
        ("0 0", 0, 0),
        ("0 0", 15, 0),  # a signal hit srun after all nodes had ended
        ("0", 1, 1),
        ("", 1, 1),
        ("75 69", 1, 69),
        ("75 65", 1, 65),
    ],
)
def test_the_exit_code_is_the_worst_of_the_nodes(bed: Bed, codes: str, status: int, expected: int) -> None:
    bed.client("scontrol", "exit 1")
    lines = [f"echo {code} >$JOBC_RUN_DIR/exit/0/node_0{node}" for node, code in enumerate(codes.split())]
    bed.tasks("\n".join(["mkdir -p $JOBC_RUN_DIR/exit/0", *lines, f"exit {status}"]))
    assert bed()[0] == expected
    assert bed.recorded()[0] == str(expected)


@pytest.mark.parametrize(
    ("restarts", "last", "is_stopped", "code", "reason"),
    [
        ("0", "", True, 0, "stopped by jobctl stop before it started"),
        ("1", "0", False, 0, "finished before Slurm started it again"),
        ("2", "75", False, 1, "restart limit of 1 reached (lifecycle.max_requeues)"),
    ],
)
def test_some_jobs_do_not_run_when_slurm_starts_them(
    bed: Bed, restarts: str, last: str, is_stopped: bool, code: int, reason: str
) -> None:
    attempt = int(restarts)
    if last:
        (bed.run / f"state/job_{attempt - 1}").write_text(f"job_id=7\nexit={last}\n")
    if is_stopped:
        (bed.run / "control/STOP").touch()
    assert bed(SLURM_RESTART_COUNT=restarts)[0] == code
    assert bed.recorded(attempt) == (str(code), reason) and not (bed.folder / "asked").exists()


def test_a_restarted_job_is_the_next_attempt_with_the_same_artifact(bed: Bed) -> None:
    (bed.run / "artifact/0").chmod(0o555)
    bed.tasks("mkdir -p $JOBC_RUN_DIR/exit/1; echo 0 | tee $JOBC_RUN_DIR/exit/1/node_0{0,1}")
    assert bed(SLURM_RESTART_COUNT="1")[0] == 0
    assert bed.asked()[1] == f"srun --nodes=2 bash {bed.run}/artifact/0/launch.sh"
    assert bed.recorded(1) == ("0", "done") and os.readlink(bed.run / "artifact/1") == "0"


def test_the_signal_before_the_time_limit_goes_to_the_tasks_and_the_job_is_requeued(bed: Bed) -> None:
    bed.client("scancel", f"touch {bed.folder}/told")
    bed.client("scontrol", f"echo '{RUNNING} RunTime=00:01:40 TimeLimit=00:02:00 TimeMin=N/A'")
    until_told = f"until [ -e {bed.folder}/told ]; do sleep 0.05; done"
    bed.tasks(f"echo $JOBC_REQUEUES >$JOBC_RUN_DIR/up; {until_told}; {ENDED.replace('CODE', '75')}")
    (bed.run / "logs").mkdir()
    (bed.run / "logs/node_00.log").write_text("jobc: exit 75: stopped early\n")
    job = bed.start()
    bed.wait_for("up")
    job.send_signal(signal.SIGUSR2)
    printed = job.communicate(timeout=20)[0]
    assert "jobc: the time limit is near" in printed and job.returncode == 75
    clients = ["scontrol show job 7", "scancel --signal=TERM 7", "scontrol show job 7", "scontrol requeue 7"]
    assert bed.asked()[2:] == clients
    reason = "time limit of 00:02:00 reached; requeued (1 of at most 1 times)"
    assert bed.recorded() == ("", reason) and (bed.run / "up").read_text() == "yes\n"
    line = f"jobc: {reason}: attempt 1 starts by itself\n"
    assert printed.endswith(line) and (bed.run / "logs/node_00.log").read_text().endswith(f"early\n{line}")


@pytest.mark.parametrize(
    ("shown", "restarts", "code", "reason"),
    [
        (RUNNING.replace("0", "1"), "1", "69", "lost another rank, its network link or storage; not requeued, {}"),
        (RUNNING.replace("None", "2026-01-01T00:00:00").replace("=0", "=1"), "1", "75", "preempted; not requeued, {}"),
        (RUNNING, "0", "75", "stopped early; not requeued"),  # the script itself exits with 75
        (RUNNING.replace("RUNNING", "COMPLETING"), "0", "75", "stopped early; not requeued"),
    ],
)
def test_a_run_that_is_not_requeued_says_why_and_how_to_resume_it(
    bed: Bed, shown: str, restarts: str, code: str, reason: str
) -> None:
    bed.client("scontrol", f"echo '{shown}'")
    bed.tasks(ENDED.replace("exit/0", f"exit/{restarts}").replace("CODE", code))
    status, printed = bed(SLURM_RESTART_COUNT=restarts)
    reason = reason.format("because lifecycle.max_requeues=1 is used up")
    assert status == int(code) and f"jobc: {reason}\njobc: resume with: {bed.run}/artifact/" in printed, printed
    assert bed.recorded(int(restarts)) == (code, reason)


def test_a_requeue_that_slurm_rejects_is_reported(bed: Bed) -> None:
    bed.client("scontrol", f"echo '{RUNNING}'; [[ $1 != requeue ]]")
    bed.tasks(ENDED.replace("CODE", "69"))
    code, printed = bed()
    assert code == 69 and "; not requeued, because Slurm rejects the requeue\njobc: resume with: " in printed, printed


@pytest.mark.parametrize(
    ("nodes", "words", "code", "line"),
    [
        ("3", (), 0, "warning: the allocation has 3 nodes, but this job needs 2: the others are idle"),
        ("1", (), 65, "error: the allocation has 1 node, but this job needs 2\n  hint: the artifact may have been"),
        ("1", ("here",), 65, "error: the allocation has 1 node, but this job needs 2\n  hint: run salloc with"),
        ("3", ("here",), 0, ""),
    ],
)
def test_an_allocation_of_another_size_is_reported(
    bed: Bed, nodes: str, words: tuple[str, ...], code: int, line: str
) -> None:
    status, printed = bed(str(bed.run), "0", *words, SLURM_JOB_NUM_NODES=nodes)
    assert status == code and (printed.startswith(line) if line else not printed), printed


def test_a_time_limit_shorter_than_the_notice_does_not_stop_the_ranks_at_once(tmp_path: Path) -> None:
    bed = Bed(tmp_path, kill_after_s=70)
    bed.client("scontrol", "echo 'JobState=RUNNING RunTime=00:00:01 TimeLimit=00:01:00 TimeMin=N/A'")
    end = f"until [ -e {bed.folder}/end ]; do sleep 0.05; done; {ENDED.replace('CODE', '0')}"
    bed.tasks(f"touch $JOBC_RUN_DIR/up; {end}")
    job = bed.start()
    bed.wait_for("up")
    job.send_signal(signal.SIGUSR2)
    while "scontrol show job 7" not in bed.asked():
        time.sleep(0.05)
    (bed.folder / "end").touch()
    printed, _ = job.communicate(timeout=20)
    assert job.returncode == 0 and "the time limit is 60 s, shorter than the 70 s of --signal" in printed
    assert not any(line.startswith("scancel") for line in bed.asked())


@pytest.mark.parametrize(
    ("shown", "limit_s"),
    [
        ("TimeLimit=1-02:03:04", 93784),
        ("TimeLimit=00:01:00 TimeMin=N/A", 60),
        ("TimeLimit=UNLIMITED", None),
        ("", None),
    ],
)
def test_the_time_limit_is_read_as_slurm_shows_it(shown: str, limit_s: int | None) -> None:
    assert parse_time_limit(f"RunTime=00:00:09 {shown}\n") == limit_s


def test_scancel_by_hand_requeues_nothing(bed: Bed) -> None:
    bed.client("scontrol", f"echo '{RUNNING.replace('RUNNING', 'COMPLETING')}'")
    bed.tasks(
        f"touch $JOBC_RUN_DIR/up; until [ -e $JOBC_RUN_DIR/end ]; do sleep 0.05; done; {ENDED.replace('CODE', '75')}"
    )
    job = bed.start()
    bed.wait_for("up")
    job.send_signal(signal.SIGTERM)  # Slurm itself signals the tasks
    (bed.run / "end").touch()
    assert job.wait(20) == 75
    assert bed.asked()[2:] == ["scontrol show job 7"] and bed.recorded() == ("75", "cancelled; not requeued")


def test_in_the_allocation_of_a_user_only_the_step_is_signalled(bed: Bed) -> None:
    bed.client("scancel", f"touch {bed.folder}/told")
    step = "printf 'attempt=0\nstep=7.3\n' >$JOBC_RUN_DIR/state/step"
    bed.tasks(f"{step}; touch $JOBC_RUN_DIR/up; until [ -e {bed.folder}/told ]; do sleep 0.05; done; exit 1")
    job = bed.start(str(bed.run), "0", "here", SLURM_RESTART_COUNT="3")
    bed.wait_for("up")
    job.send_signal(signal.SIGINT)
    assert job.wait(20) == 1
    assert bed.asked()[2:] == ["scancel --signal=TERM 7.3"] and bed.recorded() == ("1", "crashed")
    assert read_keys(bed.run / "state/job_0")["here"] == "yes"


def test_tasks_that_a_lost_node_leaves_behind_are_ended(bed: Bed) -> None:
    lost = "mkdir -p $JOBC_RUN_DIR/exit/0; echo 69 >$JOBC_RUN_DIR/exit/0/first; exec sleep 60"
    bed.tasks(lost)
    bed.client("scontrol", "exit 1")
    assert bed()[0] == 69


def test_an_io_error_of_the_run_folder_does_not_prevent_the_cleanup(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(bed.folder))
    secrets = secrets_folder_of_run(bed.run)
    secrets.mkdir(parents=True)
    bed.tasks(f"ln -s {'x' * 300} $JOBC_RUN_DIR/exit; sleep 2; exit 3")  # stat() fails: File name too long
    code, printed = bed()
    assert code == 1 and "Traceback" not in printed, printed
    assert bed.recorded() == ("1", "crashed") and not secrets.exists()


def test_a_node_that_cannot_read_the_run_folder_is_named(bed: Bed) -> None:
    bed.tasks("exit 9", check="echo 1 n8; echo 0 n7; echo srun: noise >&2")
    assert bed()[0] == 65
    why = f"n7,n8 cannot read {bed.run}/artifact/0: storage.root must be a folder that all nodes can read"
    assert bed.recorded() == ("65", why) and (bed.run / "exit/0/first").read_text() == f"65\nnode=0\nreason={why}\n"
    assert failed_check_nodes("10 b\n9 a\nx\nsrun: error\n") == {9: "a", 10: "b"}


def test_a_job_queued_by_hand_creates_its_run(bed: Bed) -> None:
    (bed.folder / "submit.py").write_text(
        f"import sys\nopen('words', 'w').write(' '.join(sys.argv[1:]))\nprint({str(bed.run)!r})\n"
    )
    program = PROGRAM.replace("import sys;", f"import sys; sys.argv[0] = '{bed.folder}/submit.py';")
    ours = {"PATH": f"{bed.bin}:{os.environ['PATH']}", "SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "2"}
    done = subprocess.run(
        [sys.executable, "-c", program, *SRUN], cwd=bed.folder, env={**os.environ, **ours}, check=False
    )
    assert done.returncode == 0
    assert (bed.folder / "words").read_text() == "submit --only-prepare --run-id slurm-5_2"
    assert read_keys(bed.run / "state/job_0")["job_id"] == "5_2"


@pytest.mark.parametrize("queue", [None, "west"])
def test_a_job_asks_its_own_cluster(tmp_path: Path, queue: str | None) -> None:
    bed = Bed(tmp_path, cluster=queue)
    bed.tasks(f"env >{bed.folder}/env; {ENDED.replace('CODE', '0')}")
    assert bed(SLURM_CLUSTERS="west")[0] == 0
    assert ("SLURM_CLUSTERS" in read_keys(bed.folder / "env")) == (queue is None)


def test_what_an_allocation_left_does_not_reach_srun() -> None:
    kept = {"SLURM_JOB_ID": "7", "JOBC_RUN_ROOT": "/runs", "PATH": "/bin"}
    foreign = {"SLURM_MEM_BIND_LIST": "1", "SLURM_TRES_PER_TASK": "cpu:2", "SRUN_CPUS_PER_TASK": "1", "LOCAL_RANK": "1"}
    assert task_environment({**kept, **foreign}) == kept


# ---- job.sbatch

JOB_SBATCH = Path(__file__).parents[1] / "golden/slurm/two_nodes_of_two_gpus/expected/job.sbatch"


@pytest.mark.parametrize(
    ("environ", "command", "printed"),
    [
        ({}, "/x/job.sbatch", "SLURM_JOB_ID: not set: run sbatch job.sbatch\n"),  # bash job.sbatch
        ({"SLURM_JOB_ID": "7"}, "(null)", "error: no ./jobctl: run sbatch job.sbatch, and do not move"),  # sbatch <…
        ({"SLURM_JOB_ID": "7"}, "/moved/job.sbatch", "error: no /moved/jobctl: run sbatch job.sbatch, and do not move"),
    ],
)
def test_a_wrong_start_of_job_sbatch_is_one_line(
    tmp_path: Path, environ: Mapping[str, str], command: str, printed: str
) -> None:
    done = run_job_sbatch(tmp_path, f"echo '   Command={command}'", environ)
    assert done.returncode != 0 and printed in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_the_signal_of_a_short_time_limit_does_not_kill_bash(tmp_path: Path) -> None:
    script = f"kill -USR2 $(<{tmp_path}/pid); echo '   Command={tmp_path}/job.sbatch'"
    (tmp_path / "jobctl").write_text("print('jobctl runs')\n")
    assert run_job_sbatch(tmp_path, script, {"SLURM_JOB_ID": "7"}).stdout == "jobctl runs\n"


def run_job_sbatch(folder: Path, scontrol: str, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run job.sbatch as Slurm does, with its process ID in the file `pid`. scontrol: lines of a stand-in"""
    (folder / "scontrol").write_text(f"#!/bin/bash\n{scontrol}\n")
    (folder / "scontrol").chmod(0o755)
    words = ["bash", "-c", f'echo $$ >{folder}/pid; exec bash "$0"', str(JOB_SBATCH)]
    outer = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    environ = {**outer, "PATH": f"{folder}:{os.environ['PATH']}", **environ}
    return subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True, check=False)


# ---- requeue.py


@pytest.mark.parametrize(
    ("shown", "code", "asked", "restarts", "expected"),
    [
        (RUNNING, 75, "time", 0, "ask"),
        (RUNNING, 75, "term", 0, ""),  # scancel
        (RUNNING, 75, "time", 3, ""),  # lifecycle.max_requeues
        (RUNNING, 69, "", 0, "ask"),
        (RUNNING, 1, "time", 0, ""),
        (RUNNING.replace("None", "2026-01-01T00:00:00"), 75, "term", 0, "ask"),
        (RUNNING.replace("Restarts=0", "Restarts=1"), 75, "", 0, "queued"),
        (RUNNING.replace("RUNNING", "COMPLETING"), 75, "time", 0, ""),
    ],
)
def test_which_jobs_start_again(shown: str, code: int, asked: str, restarts: int, expected: str) -> None:
    assert decide_next_start(shown, code, asked, restarts, 3, False) == expected
    assert decide_next_start(shown, code, asked, restarts, 3, True) == ("queued" if expected == "queued" else "")


NODES = (
    "NodeName=n7 Arch=x86_64 NodeAddr=127.0.0.1 NodeHostName=n7 Version=22.05.8\n"
    "NodeName=n8 Arch=x86_64 NodeAddr=127.0.0.2 NodeHostName=n8\n"
)


class Clients(Engine):
    """scontrol, whose answers are in a table: its first words -> stdout."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        super().__init__(Job("job", Path("/nonexistent"), Path("/nonexistent"), {}))
        self.answers, self.asked = answers, list[str]()

    def ask(
        self,
        words: Sequence[str],
        timeout_s: float = 60,
        environment: Mapping[str, str] | None = None,
        text: str = "",
        inherited: Mapping[str, str] = os.environ,
    ) -> Answer:
        self.asked.append(" ".join(words))
        return next(
            (Answer(0, self.answers[key], "") for key in self.answers if key in self.asked[-1]), Answer(0, "", "")
        )


def test_nodes_that_accept_no_connection_are_lost() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        config = f"SlurmctldPort           = 6817\nSlurmdPort              = {server.getsockname()[1]}\n"
        assert lost_nodes(Clients({"show config": config, "show node": NODES}), "n[7-8]") == ["n8"]


@pytest.mark.parametrize(("shown", "excluded"), [("n[1-2]", "n[1-2],n8"), ("(null)", "n8")])
def test_a_lost_node_leaves_the_job_before_its_requeue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: str, excluded: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slurm_job_7_resize.sh").touch()
    job = f"   ReqNodeList=(null) ExcNodeList={shown}\n   NodeList=n3\n"
    clients = Clients({"show hostnames": "n7\nn8\nn9\n", "show job": job})
    handler = signal.getsignal(signal.SIGTERM)
    try:
        assert requeue_without_lost_nodes(clients, tmp_path, "7", "n[7-9]", ["n8"])
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN  # a requeue ends this job
    finally:
        signal.signal(signal.SIGTERM, handler)
    expected = ["update jobid=7 nodelist=n7,n9", "show job 7", "requeue 7", f"update jobid=7 excnodelist={excluded}"]
    assert clients.asked[1:] == [f"scontrol {words}" for words in expected] and not list(tmp_path.iterdir())


def test_without_the_port_of_slurmd_no_node_counts_as_lost() -> None:
    assert lost_nodes(Clients({"show node": NODES}), "n[7-8]") == []


@pytest.mark.parametrize("words", [(), ("here",)])
def test_standard_error_is_separate_unless_it_is_the_users_terminal(tmp_path: Path, words: tuple[str, ...]) -> None:
    bed = Bed(tmp_path, stderr="train.err")
    (bed.run / "logs").mkdir()
    (bed.run / "logs/slurm-7.stderr.log").write_text("the errors\n")
    bed.tasks(f"env >{bed.folder}/env; {ENDED.replace('CODE', '0')}")
    assert bed(str(bed.run), "0", *words, JOBC_STDERR="/proc/1/fd/2")[0] == 0
    assert read_keys(bed.folder / "env").get("JOBC_STDERR") == (None if words else "separate")
    assert (tmp_path / "train.err").is_symlink() == (not words)
