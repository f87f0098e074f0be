"""What the verbs do that a start does not reach: stop.sh, status.sh, logs.sh and their like, submit.sh once more.

In   a stage, whose library notes what it is asked, and the plan
Out  `VERB: what is wrong`: a call that is missing, comes at the wrong time or is about another run; a wrong exit code
What each verb has to do is the same on every engine; how an engine does it is in its own functions, which are run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .reading import ARTIFACT, RUN, Call, Ended, Unreadable
from .stage import CLIENTS, ScriptStage

PARTS = ("stop", "status", "logs", "shell", "clean", "submit", "trials", "pods")
Plan = Mapping[str, Any]
Calls = list[tuple[str, ...]]

FOLLOWED = ("local", "ssh", "pdsh", "accelerate", "slurm")  # this machine sees the logs of their runs, or fetches them
RECORDED = ("kubernetes", "skypilot")  # a run here is a record of one that is elsewhere
SIGNALS = (("TERM", "QUIT", "KILL"), ("TERM", "KILL"))
LIVE = {"JOBC_STAGE_LIVE": "0"}
NEVER_ENDS = {"JOBC_STAGE_WAIT": "1", "JOBC_STAGE_SAYS": '"job_id": 7'}  # and its cluster has it still


class _Verbs:
    def __init__(self, place: ScriptStage, plan: Plan) -> None:
        self.place, self.plan, self.name = place, plan, plan["backend.name"]
        self.hosts = place.files["hosts.txt"].split() if "hosts.txt" in place.files else []
        self.is_alone = self.name == "local" and not self.hosts  # node.sh is called, and by nothing else

    def call(self, line: str, env: Mapping[str, str] | None = None, code: int = 0) -> Ended:
        """line: the verb and its words; code: with which node.sh ends."""
        verb, *words = line.split()
        there = {
            "sent/.here": "",
            "state/job_0": f"job_id=7\nnodes={self.plan['topology.nodes']}\n",
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
            yield f"{line}: it calls {_shown(made)}, not {_shown(wanted)}"
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

    def status(self) -> Iterator[str]:
        ended = self.call("status.sh --run X")
        wanted: Calls = [("choose_run", "X")]
        if self.name != "skypilot":  # whose job_code reads what is there
            wanted.append(("fetch_news", RUN))
        nodes = () if self.name in RECORDED else (str(self.plan["topology.nodes"]),)
        wanted += [("describe_reason", RUN), ("describe_nodes", RUN, *nodes), ("describe_next", RUN)]
        yield from self.differ("status.sh --run X", ended, wanted)
        if not re.search(r"^run run of job [^\n]+, attempt 0: \w", ended.said, re.MULTILINE):
            yield "status.sh --run X: its first line is not about that run"
        every = self.call("status.sh --all")
        if not re.search(r"^run +\S", every.said, re.MULTILINE) or every.status or every.called("choose_run"):
            yield "status.sh --all: it is not one line for each run"

    def logs(self) -> Iterator[str]:
        if self.name not in FOLLOWED:
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
        if self.is_alone:
            ended = self.call("logs.sh --follow", LIVE)
            yield from self.differ(
                "logs.sh --follow", ended, [("choose_run", ""), ("follow_logs", RUN, *everything[::-1])]
            )

    def shell(self) -> Iterator[str]:
        """Where no run is live, on the first and on the last node; and beside a live run, where that is another way."""
        last = str(self.plan["topology.nodes"] - 1)
        own = {"JOBC_STAGE_RUNS": "yes"} if self.plan["run.storage"] == "node" else {}
        asked = [("", "0", own)] if self.name != "skypilot" else []  # its cluster is not up
        if self.hosts or self.is_alone:
            asked.append((f" {last}", last, own))
        elif self.name != "skypilot":
            says = "RUNNING" if self.name == "slurm" else "0|pod|Running"
            asked.append(("", "0", {**LIVE, "JOBC_STAGE_RUNS": "yes", "JOBC_STAGE_SAYS": says}))
        for word, node, env in asked:
            line = f"shell.sh{word} -- cmd arg"
            ended = self.call(line, env)
            call = next((c for c in reversed(ended.calls) if _plain(c)[-1:] == ["arg"]), Call((), "", {}))
            number = (
                f"{node} "
                if self.hosts or self.is_alone or (self.name == "slurm" and LIVE.items() <= env.items())
                else ""
            )
            if self.hosts:
                number = f"0 {number}"  # of the attempt
            if not " ".join(_plain(call)).endswith(f" {number}shell cmd arg"):
                yield f"{line}: it does not come to `{number}shell cmd arg` of node.sh"
            elif call.name == "ssh" and self.hosts[int(node)] not in call.words:
                yield f"{line}: it asks another host than {self.hosts[int(node)]}"
            elif call.name == "srun" and [w for w in call.words if w.startswith("--nodes=")][-1] != "--nodes=1":
                yield f"{line}: it asks for more than one node"

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
        known_there = self.name == "kubernetes"  # of which the pods are told
        made: Calls = [("choose_run", "X"), ("create_run", "new"), *snapshot]
        made += [("describe_run", "" if known_there else RUN), *kept]
        yield from self.differ(line, ended, made)
        if prepared and (ended.said.strip().splitlines()[-1:] != [self.place.real_run] or _clients(ended)):
            yield f"{line}: it does not print the folder of the run alone, or starts something"
        if self.is_alone:
            node = next((call for call in ended.calls if call.name == "node.sh"), None)
            if node is None or node.env.get("JOBC_INIT_FROM") != RUN:
                yield f"{line}: the ranks are not told that the run begins with the weights of another one"
        elif known_there:
            yield from self._pods("submit.sh --fork X --replace", "train", "run", "run")

    def _takes_code(self) -> bool:
        sent = ("snapshot", "rsync") if self.hosts else ("snapshot",)
        return self.plan["code.kind"] in sent and self.name != "kubernetes"

    def trials(self) -> Iterator[str]:
        """smoke.sh and preflight.sh."""
        if self.name == "skypilot":
            yield from self._sent("smoke.sh", "smoke", "trial-smoke", "")
            yield from self._sent("submit.sh --wait --fork X", "train", "run", "run")
        if self.name == "kubernetes":
            for payload in ("smoke", "preflight"):
                yield from self._pods(f"{payload}.sh", payload, f"trial-{payload}", "")
        for payload in ("smoke", "preflight") if self.name in FOLLOWED else ():
            for code in (0, 65) if self.is_alone and payload == "smoke" else (0,):
                line, ended = f"{payload}.sh", self.call(f"{payload}.sh", code=code)
                if self.is_alone:
                    wanted: Calls = [(f"{ARTIFACT}/node.sh", "0", payload)]
                    yield from self.differ(line, ended, wanted, status=code)
                    yield from self._told(line, payload, ended)
                else:
                    yield from self._on_nodes(line, payload, ended)
                if ("its logs are in" in ended.told) != (code != 0) and payload == "smoke":
                    yield f"{line}: it tells of logs when it ends with {ended.status}, or tells of none"
                if ended.called("keep_temporary_run") != (code != 0):
                    yield f"{line}: its folder {'goes' if code else 'stays'} when it ends with {code}"

    def _told(self, line: str, payload: str, ended: Ended) -> Iterator[str]:
        """What node.sh gets for a check on this machine."""
        env = next((call.env for call in ended.calls if call.name == "node.sh"), {})
        alone = {"JOBC_RUN_DIR": RUN, "JOBC_NODE_RANK": "0", "JOBC_ATTEMPT": "0", "JOBC_HEAD_ADDR": "127.0.0.1"}
        for name, wanted in alone.items() if payload == "smoke" else ():
            if env.get(name) != wanted:
                yield f"{line}: node.sh gets {name}={env.get(name)}, not {wanted}"

    def pods(self) -> Iterator[str]:
        """task.sh in a pod, for another purpose than to train; and who writes how to go on."""
        if self.name != "kubernetes":
            return
        known = {"JOBC_RUN_ROOT": "/all/runs", "JOBC_JOB_ID": "job", "JOBC_JOB_UID": "1-2", "JOBC_FORK_OF": ""}
        known |= {"JOBC_HEAD_ADDR": "head", "JOBC_HEAD_PORT": "7", "JOBC_RUN_ID": "id", "JOBC_PAYLOAD": "train"}
        for node in ("0", "1"):
            resume = self.place.folder / "run/state/resume"
            resume.unlink(missing_ok=True)
            self.call("task.sh", {**known, "JOBC_NODE_RANK": node})
            if self.plan["run.storage"] != "object" and resume.exists() != (node == "0"):
                yield f"task.sh: node {node} {'says' if node == '1' else 'does not say'} how the run is continued"
        for words in (("shell", "cmd", "arg"), ("smoke",), ("preflight",)):
            line = f"task.sh {' '.join(words)}"
            for code in (0, 65) if words == ("smoke",) and self.plan["run.storage"] != "object" else (0,):
                ended = self.call(line, {**known, "JOBC_NODE_RANK": "0", "JOBC_PAYLOAD": words[0]}, code)
                call = next((c for c in reversed(ended.calls) if c.words[-len(words) :] == words), None)
                if call is None or call.words[-len(words) - 1] != "0":
                    yield f"{line}: it does not come to node.sh 0 {' '.join(words)}"
                elif words[0] == "shell" and call.env.get("JOBC_HEAD_ADDR") != "127.0.0.1":
                    yield f"{line}: node 0 is looked for at {call.env.get('JOBC_HEAD_ADDR')}, and there is none"
                elif words[0] != "shell" and f"exit of the payload: {code}" not in ended.said:
                    yield f"{line}: it does not say that the payload ended with {code}"

    def _sent(self, line: str, payload: str, run: str, fork: str) -> Iterator[str]:
        """What SkyPilot is told for a start."""
        needs = dict(
            re.findall(r"^(secret_variables|local_files)=\((.*)\)", self.place.files["engine.sh"], re.MULTILINE)
        )
        if needs.get("local_files"):  # which are not here
            return
        secrets = dict.fromkeys(shlex.split(needs.get("secret_variables", "")), "secret")
        ended = self.call(line, {**secrets, "JOBC_STAGE_SAYS": "Job ID: 7"})
        call = next((c for c in ended.calls if c.name == "sky" and "launch" in c.words), Call((), "", {}))
        told = " ".join(call.words)
        for wanted in (
            "launch --cluster ", "launch --name ", "--yes", "--detach-run", f"--env JOBC_PAYLOAD={payload} ",
            f"--env JOBC_RUN_ID={run} ", f"--env JOBC_FORK_OF={fork} ",
        ):  # fmt: skip
            by_name = payload == "train" and self.plan["backend.managed"]
            if wanted not in f"{told} " and not (wanted.startswith("launch") and by_name != ("name" in wanted)):
                yield f"{line}: SkyPilot is not told {wanted.strip()}"
        if not re.search(r"/artifact/0/task\.sky\.yaml$", told) or not call.folder.endswith("/sent"):
            yield f"{line}: SkyPilot does not get task.sky.yaml of what is sent"
        if not any(
            c.words[:3] == ("cp", "-R", "--link") and c.words[-1].startswith(f"{RUN}/sent/") for c in ended.calls
        ):
            yield f"{line}: the artifact is not put where SkyPilot takes it from"
        follows = [c for c in ended.calls if c.name == "sky" and "logs" in c.words]
        if not follows or any("--follow" not in c.words for c in follows[:1]):
            yield f"{line}: what the job prints is not followed"

    def _on_nodes(self, line: str, payload: str, ended: Ended) -> Iterator[str]:
        last = [call.name for call in ended.calls if call.name in ("create_temporary_run", "forget_secrets", *CLIENTS)][
            -1:
        ]
        if ended.status or last != ["forget_secrets"]:
            yield f"{line}: it ends with {ended.status}, or leaves the secrets of the run where they are"
        asked = [call for call in ended.calls if call.words and payload in _plain(call)]
        told = " ".join(" ".join(call.words) for call in asked)
        if any(call.name == "sbatch" and "--test-only" not in call.words for call in ended.calls):
            yield f"{line}: it queues the job, and should ask only whether Slurm would take it"
        if not asked or any(host not in told for host in self.hosts):
            yield f"{line}: not every node is asked for {payload}"

    def _pods(self, line: str, payload: str, run: str, fork: str) -> Iterator[str]:
        """What is made of the manifests for a start."""
        ended = self.call(line, {"JOBC_STAGE_SAYS": "uid\\tme\\nComplete\\t\\t\\n"})
        made = [call for call in ended.calls if call.name == "kubectl" and "--filename=-" in call.words]
        if not made:
            yield f"{line}: it makes no object"
        for call in made:
            text = call.words[-1]
            for name, wanted in (("PAYLOAD", payload), ("RUN_ID", run), ("FORK_OF", fork)):
                found = set(re.findall(rf"name: JOBC_{name}\n *value: \"?([^\"\n]*)\"?", text))
                if found - {wanted, *([""] if "-dry" in text else [])}:
                    yield f"{line}: the pods get JOBC_{name}={', '.join(sorted(found))}, not {wanted}"
            if payload != "train" and not re.search(rf"-(dry|{payload})\b", text):
                yield f"{line}: what it makes has the names of the job"


def verbs(place: ScriptStage, plan: Plan, parts: Sequence[str] = PARTS) -> Iterator[str]:
    """Of the engines that jobc brings; another one may have verbs that do it all themselves."""
    if plan["backend.name"] not in (*FOLLOWED, *RECORDED):
        return
    those = _Verbs(place, plan)
    for part in parts:
        try:
            yield from getattr(those, part)()
        except Unreadable as error:
            yield str(error)


def _plain(call: Call) -> list[str]:
    """Its words, without the quotes for the shells that they go through."""
    return re.sub(r"['\"\\]", "", " ".join(call.words)).split()


def _clients(ended: Ended) -> list[Call]:
    return [call for call in ended.calls if call.name in CLIENTS]


def _shown(calls: Calls) -> str:
    return "; ".join(" ".join(words) for words in calls) or "nothing"
