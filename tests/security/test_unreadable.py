"""Kind: exceptions of readers. Files that this user cannot read, and forged metrics, cause no traceback and no hang."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jobc.compiler.cli import runs

from .users import SharedJob, as_neighbour

PROGRAM = "import os; open(os.environ['JOBC_RUN_DIR'] + '/metrics.txt', 'w').write('trained')\n"
LOCKED = ("state/run", "state", "logs", "artifact", "artifact/0/spec.yaml", "exit", ".")


@pytest.mark.parametrize("verb", ["status", "logs", "stop"])
@pytest.mark.parametrize("locked", LOCKED)
def test_a_run_that_this_user_may_not_read_is_a_line(both_users: SharedJob, verb: str, locked: str) -> None:
    (both_users.runs / "mine" / locked).chmod(0)
    done = both_users.call_as_neighbour(verb, "--run", "mine")
    assert done.code in (0, 1), done.output
    assert "Traceback" not in done.output and len(done.output.splitlines()) < 30, done.output
    assert done.code == 0 or done.output.strip(), "a failure has a reason"


@pytest.mark.parametrize("locked", [".jobc/job.json", ".jobc", "launch.sh", "spec.yaml", "."])
@pytest.mark.parametrize("verb", ["verify", "why", "diff"])
def test_an_artifact_that_this_user_may_not_read_is_one_diagnostic(
    both_users: SharedJob, verb: str, locked: str
) -> None:
    (both_users.artifact / locked).chmod(0)
    words = {"verify": ["verify"], "why": ["why"], "diff": ["diff", str(both_users.artifact)]}[verb]
    more = ["nodes"] if verb == "why" else []
    command = [sys.executable, "-m", "jobc", *words, str(both_users.artifact), *more]
    done = subprocess.run(
        as_neighbour(*command), cwd="/", env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1, *([2] if verb == "diff" else [])), done.stderr  # as diff(1): 2 is trouble
    said = done.stdout + done.stderr
    assert "Traceback" not in said and "JC9001" not in said, said
    assert done.returncode == 0 or said.count("error[") == 1 or "Permission denied" in said, said


# ---- metrics

METRICS = {
    "escapes": b'{"step": 1, "loss": "\\u001b]0;pwned\\u0007\x1b[2J"}\n',
    "bash": b'{"step": "run[$(touch mark)]", "loss": "$(touch mark)"}\n',
    "numbers": b'{"step": ' + b"9" * 5000 + b', "loss": 1e999}\n',
    "one long line": b'{"step": 1, "loss": ' + b"1" * 3_000_000,
    "not UTF-8": b"\xff\xfe\x00\n" * 100,
    "brackets": b"[" * 100_000 + b"\n",
}


@pytest.mark.parametrize("what", METRICS)
@pytest.mark.parametrize("words", [("status",), ("status", "--all"), ("watch",)], ids=" ".join)
def test_forged_metrics_are_not_printed_raw_and_run_nothing(
    both_users: SharedJob, what: str, words: tuple[str, ...]
) -> None:
    run = both_users.runs / "mine"
    (run / "metrics").mkdir(exist_ok=True)
    for name in ("metrics/rank_00.jsonl", "state/progress"):
        (run / name).write_bytes(METRICS[what])
    command = [str(both_users.artifact / "jobctl"), *words]
    if words == ("watch",):
        command = [sys.executable, "-m", "jobc", "watch", str(both_users.artifact), "--run", "mine"]
    done = subprocess.run(
        command, cwd=both_users.folder, env=both_users.environment(), capture_output=True, timeout=30, check=False
    )
    assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr
    assert b"\x1b]" not in done.stdout and b"\x1b[2J" not in done.stdout and len(done.stdout) < 20_000
    assert not any(folder.joinpath("mark").exists() for folder in (both_users.folder, run, both_users.artifact))


@pytest.mark.parametrize("step", ["9" * 5000, "9" * 400, "0", "٣", "1" * 15])
def test_a_forged_step_line_does_not_end_the_live_line(step: str, capsys: pytest.CaptureFixture[str]) -> None:
    runs._show_live([f"step {step}/{step}  loss 1.0  eta 1s", "step 1/0  loss 2", "the last line"])
    assert "the last line" in capsys.readouterr().out
