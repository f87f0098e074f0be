"""submit and status of jobs on hosts that share nothing, with `jobctl task` and ssh as stand-ins."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from jobc.runtime.verbs import logs, preflight, smoke, status

from .hosts_submit import READY, Submit
from .sample_runs import node


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Submit:
    return Submit(tmp_path, monkeypatch, capfd)


@pytest.fixture
def apart(demo: Submit) -> Submit:
    (demo.folder / "code.py").write_text("print(1)\n")
    demo.set(storage="node")
    return demo


def test_a_run_is_sent_meets_at_node_0_and_its_states_and_logs_come_back(apart: Submit) -> None:
    apart.behave("a", "sleep 0.05")
    code, said = apart("--run-id", "r")
    assert code == 0 and said.endswith("run r: done (exit 0)\n") and "node 2  | === hello of c\n" in said, said
    for host in "abc":
        copy = apart.copy(host)
        assert (copy / "state/head").read_text() == "attempt=0\n" and not (copy / "state/mirror").exists()
        assert not (copy / "artifact/0/jobctl").stat().st_mode & stat.S_IWUSR
        assert not [path for path in copy.rglob(".*") if path.name[:4] in (".new", ".cod")]
    run = apart.run.path
    assert (run / "state/mirror").exists() and (run / "state/checkpoint_hosts").read_text() == "a\n"
    assert not [path for path in run.rglob(".*") if path.name[:5] in (".node", ".head", ".rank")]
    assert sorted(path.name for path in (run / "exit/0").iterdir()) == ["node_00", "node_01", "node_02"]


def test_a_host_that_does_not_take_the_run_leaves_none_anywhere(apart: Submit) -> None:
    mine = apart.copy("b", "thesis.txt")
    mine.parent.mkdir(parents=True)
    mine.write_text("the only copy")
    code, said = apart("--run-id", "r")
    assert code == 65 and f"b: FAIL  {apart.copy('b')} already exists and belongs to another run" in said
    assert "error: not all of the 3 hosts received the run, so it was not started\n" in said and not apart.calls
    assert mine.read_text() == "the only copy" and not apart.copy("a").exists() and not apart.copy("c").exists()
    assert not list(apart.runs.iterdir())


def test_a_node_0_that_does_not_start_starts_no_other(apart: Submit) -> None:
    apart.behave("a", "[[ $payload != start ]] || { echo no GPU; exit 65; }")
    code, said = apart("--run-id", "r")
    assert code == 65 and "a: no GPU\n" in said and "so all were stopped" in said
    assert [call for call in apart.calls if "start" in call] == ["a start"]
    assert all(apart.copy(host, "control/STOP").exists() for host in "abc")


def test_secrets_are_on_the_hosts_only_until_all_are_up(apart: Submit) -> None:
    apart.set(storage="node", saved_secrets=["TOKEN"])
    apart.monkeypatch.setenv("TOKEN", "s3cret")
    apart.behave("c", "stat -c %a $HOME/.jobc/secrets/*; cat $HOME/.jobc/secrets/*/TOKEN")
    code, said = apart("--detach")
    assert code == 0 and "c: 700\nc: s3cret\n" in said, said
    assert not [path for path in apart.folder.rglob("*") if path.is_file() and path.read_bytes() == b"s3cret"]


def test_another_attempt_needs_the_host_that_has_the_checkpoints(apart: Submit) -> None:
    code, said = apart("--run-id", "r")
    assert code == 0, said
    apart.set("b\na\nc\n", storage="node")
    assert apart("--resume", "r", "--detach")[0] == 0
    assert apart.copy("c", "artifact/1/jobctl").exists()
    assert (apart.runs / "r/state/checkpoint_hosts").read_text() == "a\nb\n"
    apart.set("b\nc\n", storage="node", nodes=2)
    for words in (("--resume", "r"), ("--fork", "r", "--run-id", "new")):
        code, said = apart(*words)
        assert code == 1 and "error: run r may have checkpoints on a, which is not one of the hosts\n" in said, said
    assert not (apart.runs / "new").exists() and not (apart.runs / "r/artifact/2").exists()


@pytest.mark.parametrize("noise", ["", "Welcome\n"])
def test_only_what_a_host_has_added_is_copied(apart: Submit, noise: str) -> None:
    (apart.folder / "bed/greeting").write_text(noise)
    (apart.folder / "ended").write_text(node(attempt=0))
    assert apart("--run-id", "r", "--detach")[0] == 0
    log, here = apart.copy("b", "logs/node_01.log"), apart.runs / "r/logs/node_01.log"
    assert "hello of b" in apart("--run", "r", "--node", "1", verb=logs)[1]
    here.write_bytes(b"#" * 15)  # what is here already is not asked again
    with log.open("a") as file:
        file.write("more\n")
    assert apart("--run", "r", "--node", "1", verb=logs) == (0, "#" * 15 + "more\n")


def test_the_age_of_a_state_is_that_on_the_host_whatever_its_clock(apart: Submit) -> None:
    assert apart("--run-id", "r", "--detach")[0] == 0
    state = apart.copy("b", "state/node_01")
    state.write_text(node(attempt=0).replace(os.uname().nodename, "other"))
    os.utime(state, (time.time() - 40,) * 2)
    said = apart("--run", "r", verb=status)[1]
    assert "node 01  not responding for 4" in said and ": live\n" in said, said


def test_a_link_that_a_host_sends_is_not_kept(apart: Submit) -> None:
    assert apart("--run-id", "r", "--detach")[0] == 0
    state, here = apart.copy("b", "state/node_01"), apart.runs / "r/state/node_01"
    state.unlink()
    state.symlink_to("/etc/passwd")
    here.unlink(missing_ok=True)
    assert "node 01  has not started" in apart("--run", "r", verb=status)[1] and not here.exists()


def test_hosts_are_not_asked_about_what_has_ended_or_about_the_run_of_another(
    apart: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said = apart("--run-id", "r")
    assert code == 0, said
    (apart.folder / "bed/calls").unlink()
    assert "done (exit 0)" in apart("--all", verb=status)[1] and not apart.bed.calls
    monkeypatch.setattr("jobc.runtime.run_folder.run.is_mine", lambda _: False)
    apart("--run", "r", verb=status)
    assert not apart.bed.calls


def test_trials_leave_nothing_on_hosts_and_bring_back_what_failed(apart: Submit) -> None:
    for host in "abc":
        apart.behave(host, READY)
    assert apart(verb=preflight)[0] == 0
    apart.behave(
        "a", "head=$(printf 'attempt=%s' 0); echo $head >$run/state/head; echo $head >$run/state/link; sleep 0.1"
    )
    apart.behave("b", "mkdir -p $run/logs; echo why >$run/logs/node_01.log; echo x >$run/logs/rank_03.log; exit 1")
    code, _ = apart(verb=smoke)
    assert code == 1 and {path.name for path in apart.run.path.glob("logs/*")} == {"node_01.log", "rank_03.log"}
    assert not [path for host in "abc" for path in apart.bed.root(host).glob("demo/*") if path.name[0] == "."]
