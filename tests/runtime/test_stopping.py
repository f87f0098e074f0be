"""Stop, Ctrl-C, preemption and sudden death: which processes end, with which exit code, and which are left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobc.runtime.system import processes
from jobc.tests.packed import change_program

from .conftest import AS_ROOT, MPIRUN, Job, is_running

SAVES = ("handle", "SIGTERM=75", "handle", "SIGINT=75", "mark", "wait")


def start(demo: Job, *words: str) -> subprocess.Popen[str]:
    demo.plan.command += words
    demo.write_artifact()
    process = demo.start("submit")
    demo.wait_for_marks("0", "1")
    return process


def pids(demo: Job, *names: str) -> list[int]:
    return [int(demo.mark(name)) for name in names]


def end(process: subprocess.Popen[str]) -> int:
    process.communicate(timeout=90)
    return process.returncode


@pytest.mark.parametrize("repetition", range(3))
def test_two_sigterms_within_100_ms_count_as_one_and_the_ranks_save(job, repetition):
    demo = job()
    process = start(demo, *SAVES)
    process.terminate()
    time.sleep(0.03 * (repetition + 1))
    process.terminate()
    assert end(process) == 75
    assert [demo.mark(f"signals.{rank}") for rank in "01"] == ["1", "1"]
    assert (demo.marks / "saved.0").exists() and (demo.marks / "saved.1").exists()


@pytest.mark.parametrize("launcher", [pytest.param("torchrun", marks=pytest.mark.engine), MPIRUN])
def test_two_sigterms_through_a_launcher(job, launcher):
    demo = job(launcher=launcher, env=AS_ROOT)
    process = start(demo, *SAVES)
    process.terminate()
    time.sleep(0.05)
    process.terminate()
    assert end(process) == 75
    assert [demo.mark(f"signals.{rank}") for rank in "01"] == ["1", "1"]


AS_SLURMSTEPD = """
import contextlib, os, signal, sys, time
open("/proc/self/comm", "w").write("slurmstepd")
for pid in map(int, sys.argv[1:]):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    time.sleep(0.05)
"""


def signal_as_slurmstepd(pid: int) -> None:
    below = [pid for pid, _ in reversed(processes.descendants(pid))]  # ranks first, and jobctl is not a task
    subprocess.run([sys.executable, "-c", AS_SLURMSTEPD, *map(str, below)], check=True)


def test_a_signal_that_slurm_sends_to_all_processes_reaches_each_rank_once(job):
    demo = job()
    process = start(demo, *SAVES)
    signal_as_slurmstepd(process.pid)
    assert end(process) == 75
    assert [demo.mark(f"signals.{rank}") for rank in "01"] == ["1", "1"]


def test_a_rank_that_such_a_signal_ends_first_has_not_crashed(job):
    demo = job()
    process = start(demo, "mark", "wait")
    signal_as_slurmstepd(process.pid)
    assert end(process) == 75


TWO_SENDERS = """
import os, signal
from jobc.runtime.system.processes import SignalQueue
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
queue, senders, arrived = SignalQueue([]), [], []
queue.receive_in_thread([signal.SIGTERM])
for _ in range(2):  # the second one arrives before the first one is looked at
    senders.append(os.spawnlp(os.P_NOWAIT, "kill", "kill", "-TERM", str(os.getpid())))
    os.waitpid(senders[-1], 0)
    while signal.SIGTERM in signal.sigpending(): pass
while len(arrived) < 2:
    arrived += queue.wait(1)[0]
print(arrived == [signal.SIGTERM] * 2, [queue.take_sender() for _ in arrived] == senders)
"""


def test_each_signal_keeps_its_sender():
    done = subprocess.run([sys.executable, "-c", TWO_SENDERS], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "True True\n", done.stderr


def test_a_signal_before_the_ranks_are_up_reaches_them(job):
    demo = job()
    demo.plan.command += SAVES
    demo.write_artifact()
    process = demo.start("submit")
    demo.wait_for(lambda: bool(list(demo.runs.glob("*/state/node_00"))), "the supervisor")
    process.terminate()
    assert end(process) == 75


def test_ctrl_c_saves_marks_the_run_stopped_and_returns_130(job):
    demo = job()
    process = start(demo, *SAVES)
    process.send_signal(signal.SIGINT)
    assert end(process) == 130
    assert (demo.marks / "saved.0").exists() and (demo.only_run / "control/STOP").exists()
    assert (demo.only_run / "exit/0/rank_00").read_text().startswith("0\n")
    assert "stopped by Ctrl-C (exit 130)" in demo.run("status")[1]


def test_a_ctrl_c_while_the_trainer_is_imported_leaves_no_traceback(job):
    demo = job(command=("python3", "-m", "jobc_trainer"), topology_procs=1)
    slow = (
        "import os, sys, time; open(os.environ['MARKS'] + '/0', 'w'); time.sleep(1)\n"
        "from .lifecycle.requests import StopSignals; sys.exit(75 if StopSignals().received == 'SIGINT' else 1)\n"
    )
    change_program(demo.artifact / "jobctl", {"jobc_trainer/__main__.py": slow})
    process = demo.start("submit")
    demo.wait_for_marks("0")
    process.send_signal(signal.SIGINT)
    assert end(process) == 130
    assert "Traceback" not in (demo.only_run / "logs/rank_00.log").read_text()
    assert "exit status 75" in (demo.only_run / "exit/0/rank_00").read_text()


def test_a_program_without_a_handler_gets_ctrl_c_as_ever(job):
    demo = job()
    process = start(demo, "mark", "wait")
    process.send_signal(signal.SIGINT)
    assert end(process) == 130
    assert "KeyboardInterrupt" in (demo.only_run / "logs/rank_01.log").read_text()


def test_stop_sh_lets_it_save_and_it_ends_with_0(job):
    demo = job()
    process = start(demo, *SAVES)
    code, output = demo.run("stop")
    assert (code, end(process)) == (0, 0)
    assert "stopped by jobctl stop" in output and (demo.marks / "saved.1").exists()


def test_a_program_without_a_handler_is_stopped_too(job):
    demo = job()
    process = start(demo, "mark", "wait")
    process.terminate()
    assert end(process) == 75


def test_a_program_that_ignores_the_request_is_killed_after_the_grace(job):
    demo = job(lifecycle_grace_s=1)
    process = start(demo, "ignore", "SIGTERM", "mark", "wait")
    code, output = demo.run("stop")
    assert (code, end(process)) == (0, 0)
    assert not any(map(is_running, pids(demo, "0", "1"))), output
    why = "rank 0: killed, because it did not exit in time"
    assert f"jobc: exit 0: stopped: {why}" in demo.run("logs")[1]
    assert f"  reason: {why}" in demo.run("status")[1]


def test_stop_now_does_not_wait(job):
    demo = job(lifecycle_grace_s=300)
    process = start(demo, "ignore", "SIGTERM", "mark", "wait")
    assert demo.run("stop", "--now")[0] == 0
    assert end(process) == 0


def test_the_time_limit_is_a_preemption(job):
    demo = job(lifecycle_time_limit_s=1)
    demo.plan.command += SAVES
    demo.write_artifact()
    code, output = demo.run("submit")
    assert code == 75 and "time limit of 1 s reached" in output


@pytest.mark.parametrize("how", ["ends", "stop", "SIGKILL"])
def test_a_daemon_of_the_job_ends_with_it_and_a_stranger_does_not(job, how):
    demo = job()
    stranger = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        process = start(demo, "daemon", "mark", *(["exit", "0"] if how == "ends" else ["wait"]))
        daemons = pids(demo, "daemon.0", "daemon.1")
        if how == "stop":
            demo.run("stop")
        elif how == "SIGKILL":
            process.kill()
        end(process)
        everyone = [*daemons, *pids(demo, "0", "1")]
        demo.wait_for(lambda: not any(map(is_running, everyone)), "all processes of the run to end")
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_killing_a_rank_ends_the_others(job):
    demo = job()
    process = start(demo, "mark", "wait")
    os.kill(int(demo.mark("0")), signal.SIGKILL)
    output, _ = process.communicate(timeout=90)
    assert (
        process.returncode == 1
        and "rank 0 failed first (exit 1: killed by SIGKILL, not sent by jobc: probably" in output
    )
    assert not is_running(int(demo.mark("1")))


def test_killing_the_keeper_ends_all(job):
    demo = job()
    process = start(demo, "daemon", "mark", "wait")
    (keeper,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(keeper), signal.SIGKILL)
    assert end(process) == 1
    assert not any(map(is_running, pids(demo, "0", "1", "daemon.0", "daemon.1")))


def test_a_rank_preempted_alone_takes_the_others_along(job):
    demo = job()
    process = start(demo, *SAVES)
    os.kill(int(demo.mark("1")), signal.SIGTERM)
    assert end(process) == 75
    assert (demo.marks / "saved.0").exists()


def test_a_reader_that_does_not_read_cannot_stop_the_job(job):
    demo = job()
    code = "for i in range(20000): print('x' * 100)"
    demo.plan.command = (
        sys.executable,
        "-c",
        f"{code}\nimport os; open(os.environ['MARKS'] + '/' + os.environ['RANK'], 'w')",
    )
    demo.write_artifact()
    process = demo.start("submit")
    demo.wait_for_marks("0", "1")
    assert end(process) == 0
    assert (demo.only_run / "logs/rank_00.log").stat().st_size > 2_000_000
