"""Reads back what ssh, pdsh, accelerate and local start: submit.sh is run, and each host's command is taken apart.

Source  ssh(1) of OpenSSH 9, pdsh(1) 2.34 (%h, %%), clush(1) 1.9 with the worker exec (%host, %%)
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ...compiler.equivalence.reading import ARTIFACT, Call, Reading, Stage, Start, Unreadable

WAIVED = {
    "resources.cpus": "hosts are taken as they are; the number has become threads_per_rank",
    "lifecycle.max_requeues": "nothing starts a job again that no scheduler has; submit.sh --resume goes on by hand",
    "lifecycle.keep_s": "the processes are gone when they end: there is nothing an engine would keep",
    "queue.nodelist": "without `hosts` it is the list of hosts, and read as that",
    "queue.exclude": "it is left out of the list of hosts, and read as that",
}


def read_back(stage: Stage) -> Reading:
    calls = stage.run(["bash", f"{ARTIFACT}/submit.sh", "--detach"])
    for call in calls:
        if call.name in ("die", "fail"):
            raise Unreadable(f"submit.sh gives up: {' '.join(call.words[2:])}")
    facts = {}
    for call in calls:
        if call.name == "this_job":
            facts = {"run.folder": call.words[1], "run.root": call.words[2]}
    if "hosts.txt" not in stage.files:  # one node, this machine
        return Reading((Start(("bash", f"{ARTIFACT}/submit.sh", "--detach"), {}),), "127.0.0.1", facts, WAIVED)
    starts = [start for call in calls for start in _starts(call)]
    listed = stage.files["hosts.txt"].split()
    started = [str(start.host) for start in starts]
    if sorted(started) != sorted(listed):  # many at once, so in any order
        raise Unreadable(f"submit.sh starts {', '.join(started) or 'nothing'}, hosts.txt lists {', '.join(listed)}")
    starts.sort(key=lambda start: listed.index(str(start.host)))
    return Reading(tuple(starts), listed[0].rpartition("@")[2], {**facts, "hosts": listed}, WAIVED)


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
