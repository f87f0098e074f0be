"""submit, stop and status of jobs on hosts, with `jobctl task` and ssh as stand-ins: no node is started."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from jobc.runtime.engines.artifact_location import Place
from jobc.runtime.engines.hosts_engine import HostsEngine
from jobc.runtime.run_folder.run import Run
from jobc.runtime.run_folder.run_secrets import secrets_folder_of_run
from jobc.runtime.system.command_line import run_verb_until_ended
from jobc.runtime.verbs import logs, preflight, shell, smoke, status, submit

from .hosts_bed import Bed
from .sample_runs import node

# It does what TASK/code.NODE says, else comes up and ends well
TASK = """#!/bin/bash
run=$1 attempt=$2 host=$3 payload=$4
echo "$host $payload ${5:-}" >>TASK/calls
if [[ -f TASK/code.$host ]]; then source TASK/code.$host; fi
node=node_0$(($(grep -nxF "$host" "$run/artifact/$attempt/hosts.txt" | cut -d : -f 1) - 1))
if [[ $payload != start ]]; then exit; fi
mkdir -p "$run/state" "$run/exit/$attempt" "$run/logs"
echo "=== hello of $host" >"$run/logs/$node.log"
echo 0 >"$run/exit/$attempt/$node"
printf 'attempt=%s\\n' "$attempt" | tee "$run/state/head" >"$run/state/link"
cat TASK/ended >"$run/state/$node"
"""


class Submit:
    """Job demo on hosts a, b and c; each has what is at `runs` here in a folder of its own if storage=node."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capfd, self.monkeypatch = folder, capfd, monkeypatch
        self.artifact, self.runs = folder / "artifacts/demo/ssh", folder / "runs/demo"
        (self.artifact / ".jobc").mkdir(parents=True)
        (folder / "task").write_text(TASK.replace("TASK", str(folder)))
        become = f"import os, sys; os.execvp('bash', ['bash', '{folder}/task', *sys.argv[2:]])\n"
        (self.artifact / "jobctl").write_text(become)
        (folder / "ended").write_text(node(attempt=0, ended=5, exit=0))
        monkeypatch.setattr(sys, "argv", [str(self.artifact / "jobctl")])
        monkeypatch.setattr(Place, "engine", lambda place: HostsEngine(place.job))
        monkeypatch.setenv("HOME", str(folder / "home"))
        monkeypatch.setattr("jobc.runtime.engines.host_updates.LOOK_S", 0.01)
        self.bed = Bed(folder, folder / "runs", monkeypatch, "a", "b", "c")
        self.set()

    def set(self, hosts: str = "a\nb\nc\n", client: str = "ssh", **settings: Any) -> None:
        (self.artifact / "hosts.txt").write_text(hosts)
        tree = {"job": "demo", "runs": "runs", "backend": "ssh", "nodes": 3, "grace_s": 1, "storage": "shared"}
        tree |= {"place": "demo/ssh", "identity": ["seed = 0"], "spec": ["seed = 0"]}
        tree |= {"hosts": {"client": client, "ssh_command": ["ssh"], "fanout": 4}}
        tree |= {"procs": 2, "code": {"kind": "none"}, "saved_secrets": [], **settings}
        (self.artifact / ".jobc/job.json").write_text(json.dumps(tree))
        if tree["storage"] == "node":
            self.bed.separate()

    def __call__(self, *words: str, verb: Any = submit) -> tuple[int, str]:
        """Run a verb. Return its exit code and output."""
        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
        try:
            code = run_verb_until_ended(verb.main, [*words])
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        printed = self.capfd.readouterr()
        return code, printed.out + printed.err

    def behave(self, host: str, script: str) -> None:
        (self.folder / f"code.{host}").write_text(script)

    @property
    def calls(self) -> list[str]:
        file = self.folder / "calls"
        return [line.strip() for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def run(self) -> Run:
        (path,) = self.runs.iterdir()
        return Run(path)

    def copy(self, host: str, path: str = "") -> Path:
        """A file of the run on a host."""
        return self.bed.root(host) / "demo/r" / path


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Submit:
    return Submit(tmp_path, monkeypatch, capfd)


# ---- hosts that share the run folder


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

READY = "[[ $payload != preflight ]] || { printf 'ok\\tx\\tgood\\nend\\n'; exit; }"


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


# ---- hosts that share nothing


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
