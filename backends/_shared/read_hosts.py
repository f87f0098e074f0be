"""Reads back what ssh, pdsh, accelerate and local start: submit.sh is run, and each host's command is taken apart.

Source  ssh(1) of OpenSSH 9, pdsh(1) 2.34 (%h, %%), clush(1) 1.9 with the worker exec (%host, %%)
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from ...compiler.equivalence.ends import attempt_reaches, hands_on, keeps_out
from ...compiler.equivalence.reading import ARTIFACT, RUN, Call, Onward, Reading, Stage, Start, Unreadable
from ...compiler.equivalence.steps import OUTSIDE

WAIVED = {
    "resources.cpus": "hosts are taken as they are; the number has become threads_per_rank",
    "lifecycle.max_requeues": "nothing starts a job again that no scheduler has; submit.sh --resume goes on by hand",
    "lifecycle.keep_s": "the processes are gone when they end: there is nothing an engine would keep",
    "queue.nodelist": "without `hosts` it is the list of hosts, and read as that",
    "queue.exclude": "it is left out of the list of hosts, and read as that",
}

KEYS = ("yes", "accept-new")
NODE_SH = Onward("task.sh", is_exec=False, stdout="/dev/null", stderr="run/logs/node_{node}.log")
GONE_S = 15  # then a host that does not answer is gone


def read_back(stage: Stage) -> Reading:
    calls = stage.run(["bash", f"{ARTIFACT}/submit.sh", "--detach"])
    for call in calls:
        if call.name in ("die", "fail"):
            raise Unreadable(f"submit.sh gives up: {' '.join(call.words[2:])}")
    facts: dict[str, Any] = {}
    for call in calls:
        if call.name == "this_job":
            facts = {"run.folder": call.words[1], "run.root": call.words[2]}
    if "hosts.txt" not in stage.files:  # one node, this machine
        here = Start(("bash", f"{ARTIFACT}/submit.sh", "--detach"), {})
        wrong = tuple(keeps_out(stage, here, "submit.sh"))
        return Reading((here,), "127.0.0.1", facts, WAIVED, wrong, onward=Onward("submit.sh"))
    starts = [start for call in calls for start in _starts(call)]
    listed = stage.files["hosts.txt"].split()
    started = [str(start.host) for start in starts]
    if sorted(started) != sorted(listed):  # many at once, so in any order
        raise Unreadable(f"submit.sh starts {', '.join(started) or 'nothing'}, hosts.txt lists {', '.join(listed)}")
    starts.sort(key=lambda start: listed.index(str(start.host)))
    unattended = dict.fromkeys(words for call in calls for words in _unattended(call))
    first = starts[0]
    wrong = (*unattended, *hands_on(stage, first, "task.sh", OUTSIDE), *attempt_reaches(stage, first, "task.sh"))
    wrong += tuple(_ends(stage, first))
    facts["hosts"] = listed
    return Reading(tuple(starts), listed[0].rpartition("@")[2], facts, WAIVED, wrong, onward=NODE_SH)


def _ends(stage: Stage, start: Start) -> Iterator[str]:
    """task.sh tells submit.sh whether the node is up, and a node that it is to stop."""
    state, up = "state/node_00", "attempt=0\npid=7\n"
    for there, code, wanted, when in (
        ({}, 65, 65, "node.sh ends with 65 at once"),
        ({state: up}, 0, 0, "the node is up"),
        ({state: "attempt=0\npid=\nexit=65\n"}, 0, 65, "the node has ended with 65"),
    ):
        ended = stage.end(start.words, start.env, code, there)
        if ended.status != wanted:
            yield f"task.sh ends with {ended.status}, not {wanted}, when {when}"
        if not ended.called("setsid"):
            yield "task.sh starts node.sh without setsid: it would end with the connection"
    for signal in ("TERM", "QUIT"):
        words, env = (*start.words[:-1], "signal", signal), {**start.env, "JOBC_STAGE_NODE": "up"}
        ended = stage.end(words, env, 0, {state: up})
        if not ended.called("mark_stopped", RUN) or ended.called("kill") != (signal == "QUIT"):
            yield f"task.sh does not do what stop.sh asks of it with {signal}"


def _unattended(call: Call) -> Iterator[str]:
    """What would let a connection wait for somebody at a keyboard, or for a host that is gone."""
    if call.name == "ssh":
        words = list(call.words[: call.words.index("--")])
    elif call.name == "pdsh":
        words = call.env.get("PDSH_SSH_ARGS_APPEND", "").split()
    elif call.name == "clush":
        line = next(word for word in call.words if " -- %host " in word)
        words = shlex.split(line.partition(" -- %host ")[0])
        if "-n" not in words:
            yield "client.sh: without -n the first ssh reads what is meant for all"
    else:
        return
    said = dict(reversed([word.partition("=")[::2] for word in words if "=" in word]))  # of two ssh takes the first
    if said.get("BatchMode") != "yes":
        yield "client.sh: without BatchMode=yes ssh waits for a password"
    if said.get("StrictHostKeyChecking") not in KEYS:
        yield f"client.sh: StrictHostKeyChecking is none of {', '.join(KEYS)}: ssh asks about a key, or takes any"
    patience = [said.get(name, "0") for name in ("ServerAliveInterval", "ServerAliveCountMax")]
    seconds = int(patience[0]) * int(patience[1]) if all(word.isdecimal() for word in patience) else 0
    if not 0 < seconds <= GONE_S:
        after = f"after {seconds} s, not {GONE_S} s" if seconds else "never"
        yield f"client.sh: a connection to a host that is gone ends {after}"


def _starts(call: Call) -> Iterator[Start]:
    """What one call of a client starts, on how many hosts ever."""
    if call.name == "ssh":
        yield from _of_ssh(call.words)
    elif call.name == "pdsh":
        at = call.words.index("-w") + 2  # `-w -`, the command, the hosts
        for host in call.words[at + 1 :]:
            yield from _of_shell(call.words[at].replace("%%", "\0").replace("%h", host).replace("\0", "%"), host)
    elif call.name == "clush":
        at = next(i for i, word in enumerate(call.words) if word.startswith("--hostfile=")) + 1
        for host in call.words[at + 1 :]:
            line = call.words[at].replace("%%", "\0").replace("%host", host).replace("\0", "%")
            yield from _of_ssh(shlex.split(line))
    elif call.name == "sh":  # on this machine
        yield from _of_words(list(call.words), call.words[-2], call)


def _of_ssh(words: tuple[str, ...] | list[str]) -> Iterator[Start]:
    at = list(words).index("--")
    yield from _of_shell(words[at + 2], words[at + 1])


def _of_shell(line: str, host: str) -> Iterator[Start]:
    yield from _of_words(shlex.split(line), host, None)


def _of_words(words: list[str], host: str, call: Call | None) -> Iterator[Start]:
    """`sh -c SCRIPT task.sh RUN ATTEMPT HOST start`; other commands start nothing."""
    if words[:2] == ["sh", "-c"] and words[-1] == "start":
        devices = {} if call is None else {k: v for k, v in call.env.items() if k == "CUDA_VISIBLE_DEVICES"}
        yield Start(("bash", *words[3:]), devices, host)
