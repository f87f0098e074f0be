"""What the verbs do that a start does not reach: stop.sh, status.sh, logs.sh and their like, submit.sh once more.

In   a stage, whose library notes what it is asked, and the plan
Out  `VERB: what is wrong`: a call that is missing, comes at the wrong time or is about another run; a wrong exit code
What each verb has to do is the same on every engine; how an engine does it is in its own functions, which are run, and
what it does besides in a class of its backend (Backend.verbs).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .reading import ARTIFACT, RUN, Call, Ended, Unreadable
from .stage import CLIENTS, ScriptStage

PARTS = ("stop", "status", "logs", "shell", "clean", "submit", "trials")
Plan = Mapping[str, Any]
Calls = list[tuple[str, ...]]

SIGNALS = (("TERM", "QUIT", "KILL"), ("TERM", "KILL"))
LIVE = {"JOBC_STAGE_LIVE": "0"}
NEVER_ENDS = {"JOBC_STAGE_WAIT": "1", "JOBC_STAGE_SAYS": '"job_id": 7'}  # and its cluster has it still


class Verbs:
    """Those of an engine. What an engine has of its own a subclass says, in a file of its backend.

    is_record:    a run here is a record of one that is elsewhere, where its logs are
    fetches_news: status.sh does, before it reads what is here
    brings:       the kinds of code that submit.sh puts into the run
    tells_run:    describe_run is told which run a fork begins with
    parts:        methods, each of which yields what is wrong
    compared:     plan keys that wrong() has compared, of those that no start tells of
    """

    is_record = False
    fetches_news = True
    brings: tuple[str, ...] = ("snapshot",)
    tells_run = True
    parts: tuple[str, ...] = PARTS

    def __init__(self, place: ScriptStage, plan: Plan) -> None:
        self.place, self.plan = place, plan
        self.compared: set[str] = set()
        self.hosts = place.files["hosts.txt"].split() if "hosts.txt" in place.files else []

    @property
    def is_alone(self) -> bool:
        """submit.sh and the checks call node.sh, and nothing else."""
        return False

    def wrong(self, parts: Sequence[str] | None = None) -> Iterator[str]:
        for part in parts or self.parts:
            try:
                yield from getattr(self, part)()
            except Unreadable as error:
                yield str(error)

    def call(self, line: str, env: Mapping[str, str] | None = None, code: int = 0) -> Ended:
        """line: the verb and its words; code: with which node.sh ends."""
        verb, *words = line.split()
        there = {
            "sent/.here": "",
            "state/job_0": f"job_id=7\ncluster=c\nnodes={self.plan['topology.nodes']}\n",
            **{f"artifact/{n}/hosts.txt": self.place.files.get("hosts.txt", "") for n in (0, 1)},
        }
        environment = {"JOBC_STAGE_VERBS": "yes", **(env or {})}
        return self.place.end(("bash", f"{ARTIFACT}/{verb}", *words), environment, code, there)

    def differ(self, line: str, ended: Ended, wanted: Calls, status: int = 0) -> Iterator[str]:
        """wanted: all calls of the names that stand in it, in order; None of a name: it alone."""
        names = {words[0].rpartition("/")[2] for words in wanted}
        made = [call.words for call in ended.calls if call.name in names]
        said = [words[: len(want)] for words, want in zip(made, wanted, strict=False)]
        if len(made) != len(wanted) or said != wanted:
            yield f"{line}: it calls {shown(made)}, not {shown(wanted)}"
        elif ended.status != status:
            yield f"{line}: it ends with {ended.status}, not {status}"

    def stop(self) -> Iterator[str]:
        grace_s = self.plan["lifecycle.grace_s"]
        for line, env in (("stop.sh", NEVER_ENDS), ("stop.sh --now", NEVER_ENDS), ("stop.sh --run X", {})):
            ended = self.call(line, env)
            signals = [call.words[1] for call in ended.calls if call.name == "signal_nodes"]
            waits = [int(call.words[1]) for call in ended.calls if call.name == "wait_for_end"]
            known = [names[1:] if "--now" in line else names if env else names[:1] for names in SIGNALS]
            if tuple(signals) not in known or not waits:
                yield f"{line}: it sends {' '.join(signals) or 'nothing'}, not {' '.join(known[0])}"
                continue
            wanted: Calls = [("choose_live_run", "X" if "--run" in line else ""), ("mark_stopped", RUN)]
            for signal, seconds in zip(signals, waits, strict=False):
                wanted += [("signal_nodes", signal, RUN), ("wait_for_end", str(seconds), RUN)]
            yield from self.differ(line, ended, wanted, status=1 if env else 0)
            if "--now" not in line and waits[0] <= grace_s:
                yield f"{line}: a run has {waits[0]} s to save, in the plan {grace_s} s"
            if line == "stop.sh" and f"not ended after {waits[0]} s" not in ended.said:
                yield f"{line}: it waits {waits[0]} s, and says another number"
            if not env and re.search(r"^it has not ended after", ended.said, re.MULTILINE):
                yield f"{line}: it says that a run has not ended before it has waited for it"

    def status(self) -> Iterator[str]:
        ended = self.call("status.sh --run X")
        wanted: Calls = [("choose_run", "X")]
        if self.fetches_news:
            wanted.append(("fetch_news", RUN))
        nodes = () if self.is_record else (str(self.plan["topology.nodes"]),)
        wanted += [("describe_reason", RUN), ("describe_nodes", RUN, *nodes), ("describe_next", RUN)]
        yield from self.differ("status.sh --run X", ended, wanted)
        if not re.search(r"^run run of job [^\n]+, attempt 0: \w", ended.said, re.MULTILINE):
            yield "status.sh --run X: its first line is not about that run"
        every = self.call("status.sh --all")
        if not re.search(r"^run +\S", every.said, re.MULTILINE) or every.status or every.called("choose_run"):
            yield "status.sh --all: it is not one line for each run"

    def logs(self) -> Iterator[str]:
        if self.is_record:
            return
        nodes = self.plan["topology.nodes"]
        everything = ("node_*.log", str(nodes)) if nodes > 1 else ("node_00.log", "1")
        for words, (log, count) in (
            (" --run X", everything), (" --rank 10", ("rank_10.log", "1")), (" --node 08", ("node_08.log", "1")),
        ):  # fmt: skip
            ended = self.call(f"logs.sh{words}")
            wanted: Calls = [("choose_run", "X" if "--run" in words else ""), ("fetch_logs", RUN, log)]
            wanted.append(("log_sizes", RUN, log))
            if int(count) > 1:
                wanted.append(("print_failure", RUN))
            wanted += [("log_sizes", RUN, log), ("print_logs", RUN, count)]
            yield from self.differ(f"logs.sh{words}", ended, wanted)

    def shells(self) -> list[tuple[str, int, Mapping[str, str], str]]:
        """Calls of shell.sh: its word, the node that is meant, the stage's variables, what node.sh is told first.

        Where no run is live, on the first and on the last node; and beside a live run, where that is another way.
        """
        own = {"JOBC_STAGE_RUNS": "yes"} if self.plan["run.storage"] == "node" else {}
        if not self.hosts and not self.is_alone:
            return [("", 0, own, "")]
        attempt, last = ("0 " if self.hosts else ""), self.plan["topology.nodes"] - 1
        return [("", 0, own, f"{attempt}0 "), (f" {last}", last, own, f"{attempt}{last} ")]

    def shell(self) -> Iterator[str]:
        for word, node, env, number in self.shells():
            line = f"shell.sh{word} -- cmd arg"
            ended = self.call(line, env)
            call = next((c for c in reversed(ended.calls) if plain(c)[-1:] == ["arg"]), Call((), "", {}))
            if not " ".join(plain(call)).endswith(f" {number}shell cmd arg"):
                yield f"{line}: it does not come to `{number}shell cmd arg` of node.sh"
            elif wrong := self.misdirected(call, node):
                yield f"{line}: {wrong}"

    def misdirected(self, call: Call, node: int) -> str:
        """What is wrong with the place to which a call of shell.sh goes, which is meant for `node`; "": nothing."""
        if call.name == "ssh" and self.hosts[node] not in call.words:
            return f"it asks another host than {self.hosts[node]}"
        return ""

    def clean(self) -> Iterator[str]:
        old = {"JOBC_STAGE_OLD": "old"}
        found: Calls = [("find_old_runs", "3"), ("list_removals",)]
        asked: tuple[tuple[str, dict[str, str], bool], ...] = (
            ("clean.sh --keep 3", old, False),
            ("clean.sh --keep 3 --yes", {}, False),
            ("clean.sh --keep 3 --yes", old, True),
        )
        for line, env, removes in asked:
            ended = self.call(line, env)
            yield from self.differ(line, ended, found)
            if ("nothing to remove" in ended.said) == bool(env) or (bool(env) > removes) != ("--yes" in ended.said):
                yield f"{line}: it says {ended.said.strip() or 'nothing'}"
            if ended.called("remove_them") != removes:
                yield f"{line}: it {'removes nothing' if removes else 'removes what nobody has confirmed, or nothing'}"
        keep = self.plan["run.keep"]
        ended = self.call("clean.sh", old)
        if keep:
            yield from self.differ("clean.sh", ended, [("find_old_runs", str(keep))])
        elif ended.status != 2 or ended.called("find_old_runs"):
            yield "clean.sh: it goes on though nobody has said how many runs stay"

    def submit(self) -> Iterator[str]:
        prepared = "" if self.is_alone else " --only-prepare"
        line = f"submit.sh --resume X{prepared}"
        ended = self.call(line)
        kept: Calls = [("keep_run",)] if prepared else []
        again: Calls = [("choose_continued_run", "X"), ("continue_run",), *kept]
        yield from self.differ(line, ended, again)
        if ended.called("create_run") or ended.called("describe_run"):
            yield f"{line}: it makes a new run"
        line = f"submit.sh --fork X --run-id new{prepared}"
        ended = self.call(line)
        snapshot: Calls = [("snapshot_code",)] if self._takes_code() else []
        made: Calls = [("choose_run", "X"), ("create_run", "new"), *snapshot]
        made += [("describe_run", RUN if self.tells_run else ""), *kept]
        yield from self.differ(line, ended, made)
        if prepared and (ended.said.strip().splitlines()[-1:] != [self.place.real_run] or _clients(ended)):
            yield f"{line}: it does not print the folder of the run alone, or starts something"
        if self.is_alone:
            node = next((call for call in ended.calls if call.name == "node.sh"), None)
            if node is None or node.env.get("JOBC_INIT_FROM") != RUN:
                yield f"{line}: the ranks are not told that the run begins with the weights of another one"

    def _takes_code(self) -> bool:
        return self.plan["code.kind"] in (*self.brings, *(("rsync",) if self.hosts else ()))

    def trials(self) -> Iterator[str]:
        """smoke.sh and preflight.sh."""
        for payload in ("smoke", "preflight"):
            yield from self.trial(payload, 0)

    def trial(self, payload: str, code: int) -> Iterator[str]:
        """code: with which node.sh ends."""
        line, ended = f"{payload}.sh", self.call(f"{payload}.sh", code=code)
        yield from self.asked(line, payload, ended, code)
        if ("its logs are in" in ended.told) != (code != 0) and payload == "smoke":
            yield f"{line}: it tells of logs when it ends with {ended.status}, or tells of none"
        if ended.called("keep_temporary_run") != (code != 0):
            yield f"{line}: its folder {'goes' if code else 'stays'} when it ends with {code}"

    def asked(self, line: str, payload: str, ended: Ended, code: int) -> Iterator[str]:
        """What each node is asked for. code: with which node.sh ends"""
        last = [call.name for call in ended.calls if call.name in ("create_temporary_run", "forget_secrets", *CLIENTS)][
            -1:
        ]
        if ended.status or last != ["forget_secrets"]:
            yield f"{line}: it ends with {ended.status}, or leaves the secrets of the run where they are"
        asked = [call for call in ended.calls if call.words and payload in plain(call)]
        told = " ".join(" ".join(call.words) for call in asked)
        if not asked or any(host not in told for host in self.hosts):
            yield f"{line}: not every node is asked for {payload}"


def plain(call: Call) -> list[str]:
    """Its words, without the quotes for the shells that they go through."""
    return unquoted(" ".join(call.words)).split()


def unquoted(text: str) -> str:
    return re.sub(r"['\"\\]", "", text)


def _clients(ended: Ended) -> list[Call]:
    return [call for call in ended.calls if call.name in CLIENTS]


def shown(calls: Calls) -> str:
    return "; ".join(" ".join(words) for words in calls) or "nothing"
