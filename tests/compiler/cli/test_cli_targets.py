"""`jobc status` and `jobc logs` of artifacts, run folders, run IDs and names of jobs. Scripts are stand-ins."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from jobc.compiler.cli import main
from jobc.compiler.cli.find_artifacts import OPTIONS_WITH_VALUE, find_named_artifacts, move_names_first
from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.runtime.engines.engine import Engine, Job
from jobc.runtime.system.processes import identify_this_process
from jobc.runtime.verbs import logs, status, stop

from ...security.users import NEIGHBOUR

JOBCTL = """#!/bin/sh
case "$*" in
*json) printf '{"schema": 1, "run": "%s"}' "$(basename "${0%/artifact/*}")" ;;
*) echo "$*" ;;
esac
exit "$(cat "${0%/*}/code")"
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JOBC_RUN_ROOT", raising=False)
    return tmp_path


def make_run(job: str, run: str, attempt: int = 0, started: int = 1) -> Path:
    """The artifact of the attempt."""
    artifact = Path(f"runs/{job}/{run}/artifact/{attempt}").absolute()
    (artifact / ".jobc").mkdir(parents=True)
    (artifact / ".jobc/job.json").touch()
    (artifact / "code").write_text(str(attempt))
    (artifact / "jobctl").write_text(JOBCTL)
    (artifact / "jobctl").chmod(0o755)
    state = artifact.parents[1] / "state"
    state.mkdir(exist_ok=True)
    (state / "run").touch()
    os.utime(artifact.parent, (started, started))
    return artifact


def test_a_word_is_a_folder_a_run_id_or_the_name_of_a_job() -> None:
    old, new = make_run("a", "old"), make_run("a", "new", started=2)
    newer = make_run("a", "old", 1, started=1)
    assert find_named_artifacts("status", ["runs/a/new"]) == ([new], [])
    assert find_named_artifacts("status", ["old"]) == ([newer], [])
    assert find_named_artifacts("logs", ["a", "--tail", "3"]) == ([new], ["--tail", "3"])
    assert find_named_artifacts("logs", [str(old), "new", "--point", "7"]) == ([old, new], ["--point", "7"])


@pytest.mark.parametrize("kept", [0, 5000])
def test_a_truncated_program_is_an_error_before_python_sees_it(kept: int) -> None:
    program = make_run("a", "new") / "jobctl"
    program.write_bytes(b"#!/usr/bin/env python3\nPK\x03\x04".ljust(9000)[:kept])
    with pytest.raises(CompileError, match="jobctl is damaged"):
        find_named_artifacts("status", ["new"])


def test_of_the_commands_that_change_something_only_stop_takes_a_name() -> None:
    new = make_run("a", "new")
    assert find_named_artifacts("stop", ["new", "--now"]) == ([new], ["--now"])
    for command in ("submit", "clean", "shell"):
        with pytest.raises(CompileError, match="not an artifact directory"):
            find_named_artifacts(command, ["new"])


def test_stop_with_the_name_of_a_job_selects_its_live_run(capsys: pytest.CaptureFixture[str]) -> None:
    live, other, newest = make_run("a", "old"), make_run("a", "next", started=2), make_run("a", "new", started=3)
    assert find_named_artifacts("stop", ["a"]) == ([newest], []), "jobctl prints how the newest run ended"
    set_live(live)
    assert find_named_artifacts("stop", ["a", "--now"]) == ([live], ["--now"])
    assert find_named_artifacts("stop", ["new"]) == ([newest], []), "a run ID selects that run"
    set_live(other)
    assert main(["stop", "a"]) == 1
    said = capsys.readouterr().err
    assert "job a has 2 runs to stop" in said and "these runs may be live: next old" in said
    assert "= hint: jobc stop next" in said


def set_live(artifact: Path) -> None:
    keys = {**identify_this_process(), "attempt": 0}
    (artifact.parents[1] / "state/node_00").write_text("".join(f"{key}={value}\n" for key, value in keys.items()))


def test_a_name_without_a_run_and_an_id_of_two_runs_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    make_run("a", "same"), make_run("b", "same")
    assert main(["status", "same"]) == 1
    assert "2 runs have the ID same" in capsys.readouterr().err
    assert main(["logs", "none"]) == 1
    assert "none is neither a run nor an artifact" in capsys.readouterr().err
    assert main(["logs", "runs/a/same", "runs/b/same", "--follow"]) == 1
    assert "--follow follows a single run" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_programs_in_the_run_of_another_user_are_not_started_by_its_id() -> None:
    artifact = make_run("a", "theirs")
    os.chown(artifact.parents[1], NEIGHBOUR, NEIGHBOUR)
    for word in ("theirs", "a"):
        with pytest.raises(CompileError, match="neither a run nor an artifact"):
            find_named_artifacts("status", [word])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("command", ["status", "logs", "watch", "stop", "clean"])
@pytest.mark.parametrize("word", ["runs/a/theirs", "theirs", "copy", "runs/a/theirs/artifact/0"])
@pytest.mark.parametrize("is_run", [True, False])
def test_the_program_of_another_user_is_not_executed(command: str, word: str, is_run: bool) -> None:
    artifact = make_run("a", "theirs")
    run = artifact.parents[1]
    for path in (*run.rglob("*"), run):
        os.chown(path, NEIGHBOUR, NEIGHBOUR)
    if not is_run:
        (run / "state/run").unlink()
    Path("theirs").symlink_to(run)
    Path("copy").symlink_to(artifact)
    with pytest.raises(CompileError, match=f"belongs to uid {NEIGHBOUR}"):
        find_named_artifacts(command, [word])
    assert find_named_artifacts("submit", ["copy"])[0] == [Path("copy").absolute()]


@pytest.mark.parametrize("name", ["jobctl", ".jobc/job.json"])
def test_a_named_pipe_in_an_artifact_is_not_opened(name: str) -> None:
    pipe = make_run("a", "new") / name
    pipe.unlink()
    os.mkfifo(pipe)
    reason = "named pipe, not a regular file" if name == "jobctl" else "job.json is not a regular file"
    with pytest.raises(CompileError) as refused:
        find_named_artifacts("status", [str(pipe.parents[name.count("/")])])
    assert reason in refused.value.diagnostics[0].because


def test_several_runs_are_printed_one_after_the_other(capfd: pytest.CaptureFixture[str]) -> None:
    make_run("a", "first"), make_run("b", "second", 3)
    assert main(["logs", "first", "runs/b/second", "--tail", "1"]) == 3, "the largest exit code"
    assert capfd.readouterr().out == "==> first <==\nlogs --tail 1\n==> runs/b/second <==\nlogs --tail 1\n"
    assert main(["status", "first", "second", "--format", "json"]) == 3
    assert json.loads(capfd.readouterr().out) == {"schema": 1, "runs": [{"run": "first"}, {"run": "second"}]}


@pytest.mark.parametrize(
    ("command", "words", "expected"),
    [
        ("logs", "-f a", "a -f"),
        ("logs", "--tail 3 -f a --rank 1", "a --rank 1 --tail 3 -f"),
        ("status", "--all --format=json a b", "a b --all --format=json"),
        ("status", "a --run b", "a --run b"),
        ("stop", "--now", "--now"),
        ("submit", "--resume r a", "--resume r a"),
    ],
)
def test_options_may_come_before_the_name(command: str, words: str, expected: str) -> None:
    assert move_names_first(command, words.split()) == expected.split()


@pytest.mark.parametrize("words", [["logs"], ["logs", "--rank", "0"], ["submit", "--detach"]])
def test_options_alone_name_no_artifact(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 1
    assert f"jobc {words[0]} needs a directory" in capsys.readouterr().err


def test_the_options_that_take_a_value_are_those_of_jobctl(tmp_path: Path) -> None:
    engine = Engine(Job("demo", tmp_path, tmp_path, {"backend": "x"}))
    actions = [action for verb in (logs, status, stop) for action in verb.parser(engine)._actions]
    valued = {option for action in actions if action.nargs != 0 for option in action.option_strings}
    assert valued | {"--point"} == {*OPTIONS_WITH_VALUE}  # --point: in sweeps only
