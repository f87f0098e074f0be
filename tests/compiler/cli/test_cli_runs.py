"""`jobc run` and `jobc watch`: from a spec to the status of its run."""

from __future__ import annotations

import subprocess
from io import BufferedReader, BytesIO

import pytest

from jobc.compiler.cli import runs
from jobc.compiler.cli.arguments import Arguments
from jobc.compiler.cli.runs import _example_note

from ..shell import BIN, Shell


def test_run_compiles_submits_follows_and_returns_the_runs_status(shell: Shell) -> None:
    head = "import os, sys, time\nrank, said = int(os.environ['RANK']), os.environ['JOBC_RUN_DIR'] + '/said-'\n"
    speak = "print('hello from', rank, flush=True)\nopen(said + str(rank), 'w').close()\n"
    waits = "while not os.path.exists(said + str(1 - rank)): time.sleep(0.1)\n"  # the first to end stops the other
    ends = "sys.exit(int(sys.argv[1]))\n"
    shell.write("work.py", head + speak + waits + ends)
    for status in (0, 65, 75):
        done = shell.jobc("run", "name=own", "launcher=spawn", "procs=2", "--", "work.py", str(status))
        assert done.returncode == status, done.stdout + done.stderr
        assert "hello from 0" in done.stdout, done.stdout + done.stderr
    status = shell.jobc("status", "artifacts/own/local").stdout
    assert "exit 75" in status
    assert shell.jobc("logs", "artifacts/own/local", "--rank", "1").stdout.count("hello from 1") == 1
    first, *_, last = sorted((shell.project / "runs/own").iterdir(), key=lambda run: run.stat().st_ctime)
    assert "exit 0" in shell.jobc("status", str(first)).stdout, "a run folder says which run is meant"
    assert "exit 75" in shell.jobc("status", f"runs/own/{last.name}").stdout


@pytest.mark.parametrize(
    ("words", "is_said"),
    [((), True), (("nodes=2", "optim.lr=1"), True), (("+model=vit",), False), (("~data", "task=digits"), False)],
)
def test_a_run_of_the_example_that_nobody_chose_is_announced(words: tuple[str, ...], is_said: bool) -> None:
    assert bool(_example_note(uses_trainer=True, arguments=Arguments("run", words, None))) == is_said
    assert _example_note(uses_trainer=False, arguments=Arguments("run", words, ("train.py",))) == []


def test_run_detached_can_be_watched_and_stopped(shell: Shell) -> None:
    shell.write("work.py", "import time\nprint('step 1/9  loss 2.0', flush=True)\ntime.sleep(60)\n")
    assert shell.jobc("run", "--detach", "name=own", "launcher=spawn", "--", "work.py").returncode == 0
    watcher = subprocess.Popen(
        [str(BIN / "jobc"), "watch", "artifacts/own/local"], cwd=shell.project, stdout=subprocess.PIPE, text=True
    )
    assert watcher.stdout is not None
    assert any("step 1/9" in line for line in iter(watcher.stdout.readline, "")), "the live line"
    stopped = shell.jobc("stop", "artifacts/own/local")
    assert stopped.returncode == 0, stopped.stderr
    assert watcher.wait(timeout=120) == 0
    assert "stopped" in shell.jobc("status", "artifacts/own/local").stdout


def test_progress_bars_of_a_program_reach_the_terminal_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    output = BufferedReader(BytesIO("begin\r 10 %\r 20 % \u2588".encode()))
    assert runs._copy_to_first_step(output) == b""
    assert capsys.readouterr().out == "begin\r 10 %\r 20 % \u2588"
    lines = b"seed  0\nstep 1/9  loss 2.0\nstep 2/"
    assert runs._copy_to_first_step(BufferedReader(BytesIO(lines))) == lines[8:]
    assert capsys.readouterr().out == "seed  0\n"
