"""submit, stop and status of jobs on hosts that share the run folder, with `jobctl task` and ssh as stand-ins."""

from __future__ import annotations

import os
import signal
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from jobc.runtime.engines.artifact_location import Place
from jobc.runtime.run_folder.run import Run
from jobc.runtime.run_folder.run_secrets import secrets_folder_of_run
from jobc.runtime.verbs import logs, preflight, shell, smoke

from .hosts_submit import READY, Submit
from .sample_runs import node


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Submit:
    return Submit(tmp_path, monkeypatch, capfd)


def test_node_0_starts_first_and_all_are_followed_to_their_ends(demo: Submit) -> None:
    code, said = demo("--run-id", "r")
    assert (
        code == 0 and said.startswith(f"run r in {demo.runs}/r\n  follow: ") and said.endswith("run r: done (exit 0)\n")
    )
    assert demo.calls[0] == "a start" and sorted(demo.calls) == ["a start", "b start", "c start"]
    assert "node 1  | === hello of b\n" in said
    assert (demo.runs / "r/state/resume").read_text() == f"command={demo.artifact}/jobctl submit --resume r\n"


def test_a_file_that_was_edited_after_compilation_is_named(demo: Submit) -> None:
    launch = demo.artifact / "launch.sh"
    launch.write_text("torchrun --nproc-per-node=2\n")
    digests = {"launch.sh": sha256(launch.read_bytes()).hexdigest(), "../x": "", "gone": ""}
    demo.set(checksums={name: {"sha256": digest} for name, digest in digests.items()})
    assert "warning" not in demo("--detach")[1]
    launch.write_text("torchrun --nproc-per-node=1\n")
    warning = f"warning: launch.sh was edited after compilation (to see how: jobc verify {demo.artifact})\n"
    assert warning in demo("--detach")[1]


def test_detached_it_prints_no_logs(demo: Submit) -> None:
    code, said = demo("--detach")
    assert code == 0 and "hello" not in said and "done" not in said and len(demo.calls) == 3


def test_a_run_is_only_prepared(demo: Submit) -> None:
    demo.set(saved_secrets=["TOKEN"])
    demo.monkeypatch.setenv("TOKEN", "s3cret")
    assert demo("--only-prepare", "--run-id", "r") == (0, f"{demo.runs}/r\n") and not demo.bed.calls
    assert (secrets_folder_of_run(demo.runs / "r") / "TOKEN").read_text() == "s3cret"


@pytest.mark.parametrize(("codes", "code"), [({"b": 65}, 65), ({"b": 71}, 71), ({"b": 3}, 1), ({"b": 65, "c": 255}, 1)])
def test_a_node_that_does_not_start_stops_all_others(demo: Submit, codes: dict[str, int], code: int) -> None:
    for host, number in codes.items():
        demo.behave(host, f"[[ $payload != start ]] || {{ echo no GPU; exit {number}; }}")
    (demo.folder / "ended").write_text(node(attempt=0))
    result, said = demo("--run-id", "r")
    assert result == code and "b: no GPU\n" in said, said
    assert "error: not all of the 3 nodes could be started, so all were stopped\n" in said
    assert f"  hint: {demo.artifact}/jobctl preflight" in said
    assert (demo.runs / "r/control/STOP").exists()
    assert sorted(demo.calls)[1::2] == ["a start", "b start", "c start"] and "c signal QUIT" in demo.calls


@pytest.mark.parametrize("client", ["ssh", "pdsh", "clush"])
@pytest.mark.parametrize("storage", ["shared", "node"])
def test_a_first_host_that_cannot_be_reached_starts_nothing(demo: Submit, client: str, storage: str) -> None:
    demo.set("nowhere\nb\nc\n", client, storage=storage)
    code, said = demo("--run-id", "r")
    assert code == 1 and "nowhere: ssh: Could not resolve hostname nowhere\n" in said
    code, said = demo(verb=smoke)
    assert code == 1 and "error: not all of the 3 hosts respond\n" in said
    assert not [call for call in demo.calls if "start" in call or "smoke" in call]


@pytest.mark.parametrize("client", ["ssh", "pdsh", "clush"])
def test_each_client_starts_node_0_first_and_follows_all(demo: Submit, client: str) -> None:
    demo.set(client=client)
    code, said = demo("--run-id", "r")
    assert code == 0 and said.endswith("run r: done (exit 0)\n"), said
    assert demo.calls[0] == "a start" and sorted(demo.calls) == ["a start", "b start", "c start"]


@pytest.mark.parametrize("damage", ["a\nb\n", "a\nb\n-oProxyCommand=x\n", ""])
def test_a_damaged_list_of_hosts_starts_nothing(demo: Submit, damage: str) -> None:
    demo.set(damage)
    code, said = demo()
    assert (
        code == 1 and said.startswith(f"error: {demo.artifact}/hosts.txt does not name 3 hosts") and not demo.bed.calls
    )
    assert not demo.runs.exists()


def test_a_secret_that_is_not_set_leaves_nothing(demo: Submit) -> None:
    demo.set(saved_secrets=["ONE", "TWO"])
    demo.monkeypatch.setenv("ONE", "s3cret")
    code, said = demo()
    assert code == 65 and "the environment variable TWO is not set" in said
    assert not list(demo.runs.iterdir()) and not list((demo.folder / "home").rglob("ONE")) and not demo.bed.calls


def test_secrets_are_removed_when_all_nodes_are_up(demo: Submit) -> None:
    demo.set(saved_secrets=["TOKEN"])
    demo.monkeypatch.setenv("TOKEN", "s3cret")
    demo.behave("c", f"cat {demo.folder}/home/.jobc/secrets/*/TOKEN")
    assert "c: s3cret\n" in demo("--detach")[1] and not secrets_folder_of_run(demo.run.path).exists()


def test_ctrl_c_during_the_start_stops_what_has_started(demo: Submit) -> None:
    (demo.folder / "ended").write_text(node(attempt=0))
    demo.behave("b", f"[[ $payload != start ]] || {{ kill -INT {os.getpid()}; exec sleep 60; }}")
    code, said = demo("--run-id", "r")
    assert code == 130 and (demo.runs / "r/control/STOP").exists(), said
    assert {"a signal QUIT", "b signal QUIT", "c signal QUIT"} <= set(demo.calls)


def test_ctrl_c_while_it_follows_stops_the_run_and_prints_its_end(demo: Submit) -> None:
    def follow(*words: Any) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        while not (demo.runs / "r/control/STOP").exists():
            time.sleep(0.01)
        return logs.print_logs(*words)

    demo.monkeypatch.setattr("jobc.runtime.engines.hosts_engine.print_logs", follow)
    code, said = demo("--run-id", "r")
    assert code == 130 and "hello of c" in said, said
    assert said.endswith("run r: stopped by Ctrl-C\n") and not demo.calls[3:]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_it_follows_leaves_the_run_and_prints_how_to_stop_it(demo: Submit, number: int) -> None:
    class Ended(Exception):
        pass

    def end(pid: int, sent: int) -> None:
        if signal.getsignal(sent) == signal.SIG_DFL:
            raise Ended  # in place of this test's own process
        kill(pid, sent)

    kill = os.kill
    demo.monkeypatch.setattr("jobc.runtime.system.command_line.os.kill", end)
    demo.monkeypatch.setattr(
        "jobc.runtime.engines.hosts_engine.print_logs", lambda *_: kill(os.getpid(), number) or time.sleep(5)
    )
    with pytest.raises(Ended):
        demo("--run-id", "r")
    stop = f"{demo.runs}/r/artifact/0/jobctl stop"
    assert demo.capfd.readouterr().err.endswith(f"run r continues; stop it with: {stop}\n")
    assert not (demo.runs / "r/control/STOP").exists() and len(demo.calls) == 3


def test_hosts_get_only_the_signals_that_come_after_the_mark(demo: Submit) -> None:
    demo("--detach", "--run-id", "r")
    (demo.folder / "calls").unlink()
    engine, run = Place(demo.artifact).engine(), Run(demo.runs / "r")
    engine.mark_stopped(run)
    engine.signal_or_cancel(run, "TERM")
    assert (run.path / "control/STOP").exists() and not demo.calls
    engine.signal_or_cancel(run, "KILL")
    assert sorted(demo.calls) == ["a signal KILL", "b signal KILL", "c signal KILL"]


# ---- trying the nodes


def test_preflight_prints_the_checks_of_all_hosts_and_leaves_nothing(demo: Submit) -> None:
    for host in "abc":
        demo.behave(host, READY)
    assert demo(verb=preflight) == (0, "ok    a,b,c  good\nready: 3 nodes\n") and not list(demo.runs.iterdir())
    demo.set("a\nb\nnowhere\n")
    code, said = demo(verb=preflight)
    assert code == 1 and "FAIL  nowhere  no answer: ssh: Could not resolve hostname nowhere\n" in said, said


def test_smoke_keeps_its_logs_only_when_it_fails(demo: Submit) -> None:
    demo.behave("a", "echo rank 0 has met the others")
    assert demo(verb=smoke) == (0, "a: rank 0 has met the others\n") and not list(demo.runs.iterdir())
    demo.behave("a", "[[ $payload != smoke ]] || exit 71")
    code, said = demo(verb=smoke)
    assert code == 71 and said == f"its logs are in {demo.run.path}/logs\n"


def test_smoke_starts_nothing_when_a_host_does_not_answer(demo: Submit) -> None:
    demo.set("a\nb\nnowhere\n")
    code, said = demo(verb=smoke)
    assert code == 1 and "error: not all of the 3 hosts respond\n" in said and not demo.calls


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The last word of the program that shell became: the command for a host."""
    words: list[str] = []

    def execute(name: str, command: list[str], environ: dict[str, str]) -> None:
        words.append(command[-1])
        raise SystemExit(0)

    monkeypatch.setattr(os, "execvpe", execute)
    return words


def test_a_shell_is_on_a_host_of_todays_artifact_or_of_the_run(demo: Submit, became: list[str]) -> None:
    demo("--run-id", "r")
    demo.set("b\nc\n", nodes=2)
    for words in (("1",), ("--run", "r", "2", "--", "echo", "it's")):
        with pytest.raises(SystemExit):
            demo(*words, verb=shell)
    start = f"artifacts/demo/ssh/jobctl' 'task' '{demo.runs}/r' '0' '1' 'shell'"
    assert became[0].endswith(start) and became[1].endswith(
        f"{demo.runs}/r/artifact/0/jobctl' 'task' '{demo.runs}/r' '0' '2' 'shell' 'echo' 'it'\\''s'"
    )
    for text in ("2", "01", "abc"):
        code, said = demo(text, verb=shell)
        assert (code, said.split("\n")[:2]) == (
            2,
            [f"error: node {text} does not exist", "  hint: nodes are numbered from 0 to 1; put the command after --"],
        )
