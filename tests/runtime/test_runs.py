"""Create, find, continue, fork and remove runs with the local scripts."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from jobc.compiler.plan.shell_quoting import ShellCode
from jobc.runtime.__main__ import VERBS
from jobc.runtime.preflight.node_checks import check_cores
from jobc.tests.packed import change_program


def test_a_run_is_complete_and_says_how_to_follow_and_stop_it(job):
    demo = job()
    code, output = demo.run("submit", "--run-id", "first")
    run = demo.runs / "first"
    assert code == 0 and run.name in output and "jobctl logs --follow" in output and "jobctl stop" in output
    assert {path.name for path in run.iterdir()} == {"artifact", "control", "exit", "logs", "state"}
    assert (run / "artifact/0/launch.sh").exists() and not (run / "artifact/0/launch.sh").stat().st_mode & 0o222
    assert (run / "artifact/0").stat().st_mode & 0o200, "rm -r can remove the run"
    told = demo.run("status")[1]
    assert "done (exit 0)" in told and re.search(r"ended on \S+ at \S+ \S+ UTC, exit 0\n", told)


def test_detach_returns_at_once_and_the_scripts_of_the_run_mean_that_run(job):
    demo = job()
    demo.plan.command += ("handle", "SIGTERM=75", "say", "hello", "mark", "wait")
    demo.write_artifact()
    assert demo.run("submit", "--detach")[0] == 0
    demo.wait_for_marks("0", "1")
    own = demo.only_run / "artifact/0"
    assert ": live\n" in demo.run(str(own / "jobctl"), "status")[1]
    assert "hello" in demo.run(str(own / "jobctl"), "logs", "--rank", "1")[1]
    assert demo.run(str(own / "jobctl"), "stop")[0] == 0
    assert "stopped by jobctl stop" in demo.run("status", "--all")[1]


def test_detach_reports_a_start_that_failed(job, busy_port):
    demo = job(rendezvous_port=busy_port)
    code, output = demo.run("submit", "--detach")
    assert code == 71 and f"port {busy_port} is in use" in output


def test_a_port_in_use_ends_it_before_anything_starts(job, busy_port):
    demo = job(rendezvous_port=busy_port)
    demo.plan.command += ("mark",)
    demo.write_artifact()
    code, output = demo.run("submit")
    assert code == 71 and output.startswith("error:") and not list(demo.marks.iterdir())
    assert demo.runs_made() == []


def test_a_second_launch_into_a_live_run_is_refused_and_touches_nothing(job):
    demo = job()
    demo.plan.command += ("handle", "SIGTERM=75", "mark", "wait")
    demo.write_artifact()
    first = demo.start("submit")
    demo.wait_for_marks("0", "1")
    run = demo.only_run

    def files() -> list[tuple[str, int]]:
        return sorted((str(p), p.stat().st_mtime_ns) for p in run.rglob("*") if p.name != "node_00")  # it beats

    before = files()
    by_hand = {"JOBC_RUN_DIR": str(run), "JOBC_ATTEMPT": "0"}
    for code, output in (
        demo.run("submit", "--resume", run.name),
        demo.run(str(run / "artifact/0/jobctl"), "submit"),
        demo.run(str(run / "artifact/0/launch.sh"), **by_hand),
    ):
        assert code == 1 and output.count("error:") == 1 and f"run {run.name} is live" in output
    assert files() == before
    first.terminate()
    assert first.wait(30) == 75


def test_two_runs_at_once_do_not_meet_and_stop_refuses_to_choose(job):
    demo = job()
    demo.plan.command += ("handle", "SIGTERM=75", "mark", "wait")
    demo.write_artifact()
    for name in ("one", "two"):
        (demo.marks / name).mkdir()
    one = demo.start("submit", "--run-id", "one", MARKS=str(demo.marks / "one"))
    demo.wait_for_marks("one/0", "one/1")
    two = demo.start("submit", "--run-id", "two", MARKS=str(demo.marks / "two"))
    demo.wait_for_marks("one/0", "one/1", "two/0", "two/1")
    code, output = demo.run("stop")
    assert code == 1 and "2 live runs" in output
    assert demo.run("stop", "--run", "one")[0] == 0
    assert one.wait(30) == 0 and two.poll() is None
    assert demo.run("stop")[0] == 0
    assert two.wait(30) == 0
    warning = "warning: job demo already has a live run: one; this submit starts another (to stop a run: "
    warning += "jobctl stop --run ID)\n"
    assert "warning" not in one.stdout.read() and two.stdout.read().startswith(warning)
    assert demo.run("stop")[0] == 1


def test_resume_is_the_next_attempt_of_the_same_run(job):
    demo = job()
    demo.plan.command += ("record",)
    demo.write_artifact()
    demo.run("submit")
    (demo.only_run / "control/STOP").touch()
    demo.write_artifact(free="loop.steps = 20\n")
    code, output = demo.run("submit", "--resume", demo.only_run.name)
    assert code == 0 and "loop.steps: 10 -> 20" in output
    assert "loop.steps: 10 -> 20" in (demo.only_run / "state/changes").read_text()
    assert sorted(p.name for p in (demo.only_run / "artifact").iterdir()) == ["0", "1"]
    assert "JOBC_ATTEMPT=1" in demo.mark("record.0").split("\0")
    assert not (demo.only_run / "control/STOP").exists()


def test_a_resume_with_the_same_artifact_adds_three_files_at_most(job):
    demo = job()
    demo.plan.command += ("record",)
    demo.write_artifact()
    demo.run("submit")
    run = demo.only_run
    for attempt in (1, 2):
        before, last = files_and_links(run), run / f"artifact/{attempt - 1}"
        code, output = demo.run(str(last / "jobctl"), "submit", "--resume", run.name)
        assert code == 0 and f"run {run.name} is done: attempt {attempt} runs the program again\n" in output
        assert len(files_and_links(run)) - len(before) <= 3, files_and_links(run) - before
        assert os.readlink(run / f"artifact/{attempt}") == "0"
        assert f"JOBC_ATTEMPT={attempt}" in demo.mark("record.0").split("\0")
        assert f"demo, attempt {attempt}: done" in demo.run(str(last / "jobctl"), "status")[1]
    (demo.marks / "record.0").unlink()
    assert demo.run(str(run / "artifact/2/launch.sh"))[0] == 0
    assert "JOBC_ATTEMPT=2" in demo.mark("record.0").split("\0"), "by hand"


def files_and_links(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_symlink() or path.is_file()}


def test_resume_with_another_identity_is_refused_with_both_values(job):
    demo = job()
    demo.run("submit")
    run = demo.only_run
    demo.write_artifact(identity="seed = 1\n")
    code, output = demo.run("submit", "--resume", run.name)
    assert code == 65 and "  seed: 0 -> 1\n" in output and f"jobctl submit --fork {run.name} starts" in output
    demo.write_artifact(identity='model.kind = "gpt = x"\nseed = 1\n')
    code, output = demo.run("submit", "--resume", run.name)
    assert code == 65
    assert "  seed: 0 -> 1\n" in output and '  model.kind: (not set) -> "gpt = x"\n' in output
    assert f"hint: without --resume, {demo.artifact}/jobctl submit starts a new run" in output
    assert [p.name for p in (run / "artifact").iterdir()] == ["0"]


def test_fork_is_a_new_run_that_begins_from_the_old_one(job):
    demo = job()
    demo.run("submit", "--run-id", "old")
    demo.plan.command += ("record",)
    demo.write_artifact(identity="seed = 1\n")
    code, output = demo.run("submit", "--fork", "old", "--run-id", "new")
    assert code == 0 and "warning: run old has no checkpoint of jobc: the new run starts from scratch" in output
    assert f"JOBC_INIT_FROM={demo.runs / 'old'}" in demo.mark("record.0").split("\0")
    assert f"JOBC_RUN_DIR={demo.runs / 'new'}" in demo.mark("record.0").split("\0")
    demo.run("submit", "--resume", "new")
    assert f"JOBC_INIT_FROM={demo.runs / 'old'}" in demo.mark("record.0").split("\0")


def test_a_run_root_that_cannot_be_written_is_one_line(job, tmp_path):
    demo = job()
    blocked = tmp_path / "file"
    blocked.touch()
    code, output = demo.run("submit", JOBC_RUN_ROOT=str(blocked))
    assert code == 1 and output.startswith(f"error: cannot create the folder {blocked}/demo: ")
    assert output.count("error:") == 1 and "  hint: " in output


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_full_disk_leaves_no_half_run(job, tmp_path):
    demo = job()
    small = tmp_path / "small"
    small.mkdir()
    script = 'mount -t tmpfs -o size=16k none "$2" && "$1" submit; code=$?; ls "$2/demo"; exit $code'
    arguments = ("bash", "-c", script, "bash", str(demo.artifact / "jobctl"), str(small))
    code, output = demo.run("/usr/bin/unshare", "--mount", *arguments, JOBC_RUN_ROOT=str(small))
    if "unshare" in output or "mount:" in output:
        pytest.skip("no mount namespaces here")
    assert code == 1 and "No space left on device" in output and output.count("error:") == 1
    assert output.splitlines()[-1].startswith("  hint:")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"setup_python": "/no/such/python"}, "python not found: /no/such/python\n  hint: set python.interpreter "),
        ({"setup_lines": (ShellCode("source /no/such/activate"),)}, "setting up the environment failed (exit 1)"),
        ({"setup_lines": (ShellCode(". .venv/bin/activate"),)}, "no .venv/bin/activate in /"),
        ({"code_kind": "shared", "code_root": "absent"}, "/absent on "),
        ({"code_kind": "snapshot", "code_root": "/no/such/code"}, "no code folder /no/such/code on "),
        ({"secrets": {"TOKEN": {"kind": "env", "ref": "NO_SUCH_VARIABLE"}}}, "variable NO_SUCH_VARIABLE is not set"),
        ({"secrets": {"TOKEN": {"kind": "file", "ref": "/no/such/file"}}}, "the file /no/such/file"),
    ],
)
def test_a_broken_environment_is_one_line_and_65_and_leaves_no_run(job, changes, words):
    secrets = {name: _Secret(**value) for name, value in changes.get("secrets", {}).items()}
    demo = job(**{**changes, "secrets": secrets})
    code, output = demo.run("submit")
    assert code == 65 and words in output and output.count("error:") == 1, output
    assert demo.runs_made() == [] and "\nrun " not in f"\n{output}"


class _Secret:
    def __init__(self, kind: str, ref: str) -> None:
        self.kind, self.ref = kind, ref


def test_secrets_reach_the_ranks_and_no_file_of_the_run(job, tmp_path):
    (tmp_path / "token").write_text("from-the-file-7f3a\n")
    secrets = {"A": _Secret("env", "CALLER"), "B": _Secret("file", str(tmp_path / "token"))}
    demo = job(secrets=secrets)
    demo.plan.command += ("record",)
    demo.write_artifact()
    assert demo.run("submit", CALLER="from-the-caller-91b2")[0] == 0
    assert {"A=from-the-caller-91b2", "B=from-the-file-7f3a"} <= set(demo.mark("record.0").split("\0"))
    for path in demo.only_run.rglob("*"):
        assert path.is_dir() or not any(s in path.read_bytes() for s in (b"7f3a", b"91b2")), path


def test_status_reads_step_and_loss_and_survives_a_torn_line(job):
    demo = job()
    demo.run("submit")
    metrics = demo.only_run / "metrics"
    metrics.mkdir()
    (metrics / "rank_00.jsonl").write_text('{"step": 40, "loss": 3.083304286003113, "lr": 1}\n{"step": 41, "lo')
    assert ", exit 0, step 40, loss 3.083\n" in demo.run("status")[1]


def test_a_dead_supervisor_is_told_from_a_live_one(job):
    demo = job()
    demo.plan.command += ("mark", "wait")
    demo.write_artifact()
    process = demo.start("submit")
    demo.wait_for_marks("0", "1")
    assert ": live\n" in demo.run("status")[1]
    process.kill()
    process.wait()
    assert "failed: its supervisor was killed" in demo.run("status")[1]


@pytest.mark.parametrize("name", [*VERBS, "launch.sh"])
def test_every_verb_has_help_and_refuses_unknown_options(job, name):
    demo = job()
    word, usage = (str(demo.artifact / name), name) if "." in name else (name, f"jobctl {name}")
    code, output = demo.run(word, "--help")
    assert code == 0 and f"usage: {usage} [" in output
    code, output = demo.run(word, "--no-such-option")
    assert code == 2 and output.splitlines()[0] == "error: unknown option: --no-such-option"


@pytest.mark.parametrize("name", ["status", "logs", "stop"])
def test_no_run_is_said_in_one_line(job, name):
    code, output = job().run(name)
    assert code == 1 and output.startswith("error: job demo has no ")


def test_shell_runs_a_command_in_the_environment_of_the_job(job):
    code, output = job(env={"GREETING": "it's $HOME"}).run("shell", "--", "bash", "-c", 'echo "$GREETING $JOBC_PROCS"')
    assert (code, output) == (0, "it's $HOME 2\n")


def test_preflight_prints_every_check(job, busy_port, tmp_path):
    secrets = {"TOKEN": _Secret("env", "NO_SUCH_VARIABLE")}
    demo = job(rendezvous_port=busy_port, secrets=secrets, command=("python3", "absent.py"))
    code, output = demo.run("preflight")
    failed = [line for line in output.splitlines() if line.startswith("FAIL")]
    assert code == 1 and len(failed) == 3, output
    assert "ok    python 3" in output and "GiB free in the run root" in output
    assert job(Path(tmp_path / "fine")).run("preflight")[0] == 0


def test_preflight_refuses_far_more_processes_than_cores():
    assert check_cores(2, 2)[:3] == (True, "cores", "2 CPU cores for 2 processes")
    assert check_cores(1, 4)[:3] == (True, "cores", "1 CPU core for 4 processes, 4 on each")
    good, _, text, hint, _ = check_cores(2, 40000)
    assert (good, text) == (False, "2 CPU cores for 40000 processes, 20000 on each") and "procs=8 at most" in hint


def test_smoke_runs_two_processes_and_leaves_nothing(job, tmp_path):
    demo = job(topology_procs=1)
    marks = "import os; open(os.environ['MARKS'] + '/' + os.environ['RANK'], 'w').write(os.environ['WORLD_SIZE'])"
    change_program(demo.artifact / "jobctl", {"jobc_trainer/smoke.py": marks})
    assert demo.run("smoke", TMPDIR=str(tmp_path))[0] == 0
    assert (demo.mark("0"), demo.mark("1")) == ("2", "2")
    assert not list(tmp_path.glob("jobc-smoke*")) and demo.runs_made() == []


def test_gpus_that_this_machine_lacks_are_an_error_before_a_run_exists(job, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    demo = job(topology_gpus=2)
    code, output = demo.run("submit")
    assert code == 65 and "has no GPU that this shell can use, required: 2\n  hint: gpus=0 procs=2" in output, output
    assert not list(demo.runs.glob("demo/*"))
