"""The exit code that jobctl submit returns, for everything that can happen to a rank."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobc.runtime import exit_codes
from jobc.runtime.ranks.rank import exit_code_and_reason
from jobc.runtime.run_folder.run_folder import RunFolder, write_small_file
from jobc.runtime.supervisor.node_ending import NodeEnding
from jobc.runtime.supervisor.supervise import Supervisor
from jobc.runtime.supervisor.verdict import judge_node, read_log_tail
from jobc.tests.packed import change_program

from .conftest import AS_ROOT, MPIRUN

words = str.split
HEADER = re.compile(r"jobc: rank (\d+) failed first \(exit (?:status )?(\d+).*\); the end of /\S*/logs/rank_\d\d\.log:")


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("say hello", 0),
        ("only 1 exit 3", 1),
        ("only 1 exit 65", 65),
        ("only 0 exit 69", 69),
        ("only 1 exit 71", 71),
        ("exit 75", 75),
        ("ignore SIGTERM meet only 0 exit 1 only 1 exit 65", 65),
        ("ignore SIGTERM meet only 0 exit 69 only 1 exit 75", 69),
        ("only 1 kill SIGKILL all wait", 1),
        ("only 1 kill SIGTERM all wait", 1),
    ],
)
def test_the_code_of_the_ranks_is_the_code_of_submit(job, program, code):
    demo = job()
    demo.plan.command += (*words(program),)
    demo.write_artifact()
    assert demo.run("submit")[0] == code


@pytest.mark.parametrize("launcher", [pytest.param("torchrun", marks=pytest.mark.engine), MPIRUN])
@pytest.mark.parametrize("program", ["exit 0", "only 1 exit 65 all wait", "exit 75"])
def test_the_code_survives_the_launcher(job, launcher, program):
    demo = job(launcher=launcher, env=AS_ROOT)
    demo.plan.command += ("meet", *words(program))  # a launcher may end the others before they have begun
    demo.write_artifact()
    code, output = demo.run("submit")
    assert code == int(re.search(r"exit (\d+)", program)[1]), output
    assert (demo.marks / "1").exists()


@pytest.mark.engine
def test_what_torchrun_says_about_a_failed_rank_is_in_its_log_alone(job):
    demo = job(launcher="torchrun")
    demo.plan.command += (*words("only 0 say hello all meet only 1 exit 65 all wait"),)
    demo.write_artifact()
    code, output = demo.run("submit")
    assert code == 65 and "hello\n" in output and "elastic" not in output
    assert "ChildFailedError" in (demo.only_run / "logs/launcher_00.log").read_text()


GLOO = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [::1]:6"
TRACEBACK = 'Traceback (most recent call last):\n  File "/code/train.py", line 9, in <module>\n    all_reduce(loss)\n'
NCCL = "terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  [Rank 0] Watchdog caught "
HELPER = "rank 0 lost a peer: Connection closed by peer; see the log of the first rank that failed\n"
LEFT = "lost rank 1, which exited with 0 before the other ranks finished"


@pytest.mark.parametrize(
    ("code", "recorded", "printed", "ended", "reason"),
    [
        (69, "exit status 69", HELPER, 1, LEFT),
        (69, "exit status 69", HELPER, 3, "exit status 69"),
        (69, "exit status 69", "the disk does not respond", 1, "exit status 69"),
        (1, "exit status 1", f"{TRACEBACK}{GLOO}\n", 1, LEFT),
        (1, "exit status 1", f"{TRACEBACK}{GLOO}\n", 3, f"{GLOO} (train.py:9)"),
        (1, "exit status 1", f"{GLOO}\n{TRACEBACK}KeyError: 7\n", 1, "KeyError: 7 (train.py:9)"),
        (1, "killed by SIGABRT", f"{NCCL}collective operation timeout: WorkNCCL(…)\n", 1, LEFT),
        (1, "killed by SIGABRT", "double free\n", 1, "killed by SIGABRT"),
        (1, "exit status 1", "no key: lr\n\n", 3, "exit status 1; the last line of its log: no key: lr"),
        (1, "exit status 3", "10 %\r90 %\r", 3, "exit status 3; the last line of its log: 90 %"),
        (1, "exit status 1", "", 3, "exit status 1"),
    ],
)
def test_a_rank_that_left_the_others_with_0_is_named_and_no_machine_is_lost(
    code, recorded, printed, ended, reason, tmp_path
):
    run = RunFolder(tmp_path, 0)
    write_small_file(run.rank_exit_file(0), str(code), {"reason": recorded, "time_ns": 2})
    write_small_file(run.rank_exit_file(1), "0", {"reason": "exit status 0", "time_ns": ended})
    run.rank_log_file(0).parent.mkdir()
    run.rank_log_file(0).write_text(f"{run.log_header('rank 0')}{printed}")
    verdict = judge_node(run, 0, [0], 1, b"", asked=False, killed=False)  # rank 1 may be on another node
    assert verdict.reason == f"rank 0: {reason}"
    assert (verdict.code, verdict.first.rank) == (1 if reason == LEFT else code, 0)


def test_what_a_launcher_says_is_shown_when_no_rank_started(job):
    demo = job()
    change_program(
        demo.artifact / "jobctl", {"jobc_runtime/ranks/spawn.py": "def main(words): raise SystemExit('no luck today')"}
    )
    code, output = demo.run("submit")
    assert code == 1 and "no luck today\njobc: no rank started; the launcher exited with 1\n" in output


def test_a_failed_rank_is_blamed_for_one_that_it_kept_from_starting(tmp_path):
    run = RunFolder(tmp_path, 0)
    write_small_file(run.rank_exit_file(0), "69", {"reason": "exit status 69", "time_ns": 1})
    assert judge_node(run, 0, range(2), 1, b"", asked=False, killed=False).code == 69
    write_small_file(run.rank_exit_file(0), "0", {"reason": "exit status 0", "time_ns": 1})
    assert judge_node(run, 0, range(2), 1, b"", asked=False, killed=False).reason == (
        "rank 1 never started: this node should run 2 ranks"
    )


MAKES_A_CHECKPOINT = ("bash", "-c", 'mkdir -p "$JOBC_RUN_DIR/checkpoints/step_00000001"; exit 1')


@pytest.mark.parametrize(
    ("program", "goes_on"),
    [("exit 75", True), ("only 0 exit 69", True), ("exit 1", False), ("exit 65", False), (MAKES_A_CHECKPOINT, True)],
    ids=str,
)
def test_a_run_that_can_go_on_ends_with_the_command_that_does_it(job, program, goes_on):
    demo = job()
    demo.plan.command = program if isinstance(program, tuple) else (*demo.plan.command, *words(program))
    demo.write_artifact()
    _, output = demo.run("submit")
    command = f"resume with: {demo.artifact}/jobctl submit --resume {demo.only_run.name}\n"
    assert output.endswith(f"jobc: {command}") == (command in demo.run("status")[1]) == goes_on, output


@pytest.mark.parametrize(
    ("code", "reason", "line"),
    [
        (1, "rank 0: exit status 1", "resume with: jobctl submit --resume r --new-code"),
        (1, f"rank 0: {exit_codes.describe_exit_status(2)}", exit_codes.AFTER_USAGE_ERROR),
        (69, "", "resume with: jobctl submit --resume r"),
        (130, "", "resume with: jobctl submit --resume r"),
        (65, "", ""),
        (0, "", ""),
    ],
)
def test_the_last_line_says_how_to_go_on(tmp_path, code, reason, line):
    run = RunFolder(tmp_path, 0)
    write_small_file(run.resume_command, keys={"command": "jobctl submit --resume r", "new_code": "yes"})
    assert NodeEnding._resume_line(SimpleNamespace(run_folder=run), code, reason) == line


@pytest.mark.parametrize(("code", "has_line"), [(75, False), (69, False), (130, True)])
def test_a_job_that_may_be_requeued_prints_no_command_to_resume_it(tmp_path, monkeypatch, code, has_line):
    run = RunFolder(tmp_path, 0)
    write_small_file(run.resume_command, keys={"command": "jobctl submit --resume r"})
    monkeypatch.setenv("JOBC_REQUEUES", "yes")
    assert bool(NodeEnding._resume_line(SimpleNamespace(run_folder=run), code, "")) == has_line


@pytest.mark.parametrize(("other", "line"), [(1, "resume with: jobctl submit --resume r --new-code"), (65, "")])
def test_a_failure_of_another_node_counts_for_the_last_line(tmp_path, other, line):
    run = RunFolder(tmp_path, 0)
    write_small_file(run.resume_command, keys={"command": "jobctl submit --resume r", "new_code": "yes"})
    write_small_file(run.first_failure, str(other), {"node": 1, "reason": "rank 4: KeyError"})
    assert NodeEnding._resume_line(SimpleNamespace(run_folder=run), 75, "") == line


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (75, "the run failed (exit 69: lost another rank, its network link or storage): node 1 (b) does not respond"),
        (69, ""),  # this node's own exit code, which is already printed
        (130, ""),
    ],
)
def test_the_console_of_node_0_ends_with_the_result_of_the_run(tmp_path, code, line):
    run = RunFolder(tmp_path, 0)
    assert NodeEnding._run_line(SimpleNamespace(run_folder=run), code) == ""
    write_small_file(run.first_failure, "69", {"node": 0, "reason": "node 1 (b) does not respond"})
    assert NodeEnding._run_line(SimpleNamespace(run_folder=run), code) == line


@pytest.mark.parametrize(
    ("is_running", "has_started", "why"),
    [
        (True, True, "not exited after 60 s"),
        (False, True, "the ranks have exited, but the launcher has not"),
        (False, False, "no rank has started"),
    ],
)
def test_the_reason_of_a_kill_names_what_is_late(is_running, has_started, why):
    node = SimpleNamespace(grace_s=60, _is_rank_running=lambda: is_running, _has_rank_started=lambda: has_started)
    assert Supervisor._describe_late_processes(node) == why


@pytest.mark.parametrize(
    ("codes", "winner"),
    [([0, 75], 75), ([75, 69], 69), ([69, 1], 1), ([1, 71], 71), ([71, 65], 65), ([0, 0], 0), ([65, 1, 0], 65)],
)
def test_the_worst_code_wins(codes, winner):
    assert exit_codes.worst_exit_code(codes) == exit_codes.worst_exit_code(reversed(codes)) == winner


@pytest.mark.parametrize(
    ("status", "forwarded", "stopped", "code"),
    [
        (-signal.SIGTERM, {signal.SIGTERM: 0.0}, False, 75),
        (-signal.SIGTERM, {signal.SIGTERM: 0.0}, True, 0),
        (128 + signal.SIGTERM, {signal.SIGTERM: 0.0}, False, 75),
        (-signal.SIGTERM, {}, False, 1),
        (-signal.SIGTERM, {}, True, 0),  # of scancel, which sent it to the rank first
        (128 + signal.SIGTERM, {}, True, 0),
        (-signal.SIGSEGV, {signal.SIGTERM: 0.0}, False, 1),
        (75, {}, True, 0),
        (2, {}, True, 1),
        (130, {}, False, 1),
    ],
)
def test_what_the_end_of_a_rank_means(status, forwarded, stopped, code):
    assert exit_code_and_reason(status, forwarded, stopped)[0] == code


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (1, "exit status 1"),
        (2, "exit status 2: usually invalid arguments"),
        (127, "exit status 127: a command was not found"),
        (134, "exit status 134 (SIGABRT): usually a failed check in C++ or CUDA, or NCCL's timeout; the end of"),
        (-signal.SIGABRT, "killed by SIGABRT: usually a failed check in C++ or CUDA"),
        (-signal.SIGBUS, "killed by SIGBUS: usually /dev/shm is full (df /dev/shm): raise shm"),
        (137, "exit status 137 (SIGKILL): probably out of memory (check dmesg)"),
        (-signal.SIGKILL, "killed by SIGKILL, not sent by jobc: probably out of memory"),
        (-signal.SIGTERM, "killed by SIGTERM: not sent by jobc"),
        (-40, "killed by signal 40"),
        (200, "exit status 200"),
    ],
)
def test_a_status_that_a_signal_has_left_says_what_it_usually_means(status, reason):
    code, words = exit_code_and_reason(status, {}, stopped=False)
    assert code == 1 and words.startswith(reason)


def test_the_first_traceback_is_shown_last(job):
    demo = job()
    demo.plan.command += (*words("only 1 raise all wait"),)
    demo.write_artifact()
    code, output = demo.run("submit")
    header = HEADER.search(output)
    assert code == 1 and header and header[1] == "1"
    assert output[header.end() :].lstrip().startswith("Traceback (most recent call last)")
    assert "RuntimeError: rank 1 has a bug\n" in output[header.end() :]
    assert (demo.only_run / "exit/0/node_00").read_text().splitlines()[0] == "1"


def test_the_traceback_of_rank_0_is_not_shown_twice(job):
    demo = job()
    demo.plan.command += (*words("only 0 raise all wait"),)
    demo.write_artifact()
    code, output = demo.run("submit")
    assert code == 1 and output.count("RuntimeError: rank 0 has a bug\n") == 1, output
    assert (
        f"rank 0 has a bug\njobc: rank 0 failed first (exit 1), see the end of {demo.only_run}/logs/rank_00.log\n"
        in output
    )


def test_a_rank_that_would_not_end_with_its_failed_peer_is_killed_and_does_not_mask_it(job):
    demo = job(lifecycle_grace_s=1)
    demo.plan.command += (*words("only 0 ignore SIGTERM mark wait only 1 exit 69"),)
    demo.write_artifact()
    assert demo.run("submit")[0] == 69


def test_a_killed_wrapper_counts_as_a_crash(job):
    demo = job()
    demo.plan.command += ("mark", "wait")
    demo.write_artifact()
    process = demo.start("submit")
    demo.wait_for_marks("0", "1")
    state = demo.only_run / "state/rank_01"
    demo.wait_for(state.exists, "the state of rank 1")
    os.kill(int(state.read_text().split()[0].removeprefix("pid=")), signal.SIGKILL)
    output, _ = process.communicate(timeout=90)
    assert process.returncode == 1 and HEADER.search(output)[1] == "1"
    assert "killed by SIGKILL, not sent by jobc" in output and "\n(it printed nothing)\n" in output


@pytest.mark.parametrize("command", [("no-such-program",), ("/etc/passwd",)], ids=["absent", "not executable"])
def test_a_command_that_cannot_start_is_broken_configuration(job, command):
    code, output = job(command=command).run("submit")
    assert code == 65 and f"cannot start ['{command[0]}']" in output


def test_all_attempts_share_a_log_and_only_the_last_is_quoted(job):
    demo = job(topology_procs=1)
    demo.plan.command += (*words("say first-attempt exit 1"),)
    demo.write_artifact()
    demo.run("submit")
    demo.plan.command = (*demo.plan.command[:2], *words("say second-attempt exit 1"))
    demo.write_artifact()
    _, output = demo.run("submit", "--resume", demo.only_run.name)
    log = (demo.only_run / "logs/rank_00.log").read_text()
    assert "first-attempt" in log and "second-attempt" in log
    assert "first-attempt" not in output and "second-attempt" in output


def test_the_tail_of_a_log_reads_only_its_end(tmp_path: Path):
    run = RunFolder(tmp_path, 0)
    run.rank_log_file(0).parent.mkdir()
    run.rank_log_file(0).write_text(run.log_header("rank 0") + "x\n" * 10**6 + "last\n")
    assert read_log_tail(run, run.rank_log_file(0)).splitlines()[-1] == b"last"
    assert len(read_log_tail(run, run.rank_log_file(0)).splitlines()) == 20
