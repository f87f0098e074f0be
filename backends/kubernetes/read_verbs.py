"""What the verbs of pods do, for the equivalence check: what kubectl is given, and task.sh for another purpose."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ...compiler.equivalence.reading import RUN
from ...compiler.equivalence.verbs import LIVE, PARTS, Verbs


class PodVerbs(Verbs):
    is_record = True
    brings = ()
    tells_run = False  # the pods are told
    parts = (*PARTS, "pods")

    def shells(self) -> list[tuple[str, int, Mapping[str, str], str]]:
        beside = {**LIVE, "JOBC_STAGE_RUNS": "yes", "JOBC_STAGE_SAYS": "0|pod|Running"}
        return [*super().shells(), ("", 0, beside, "")]

    def submit(self) -> Iterator[str]:
        yield from super().submit()
        yield from self._made("submit.sh --fork X --replace", "train", "run", "run")

    def logs(self) -> Iterator[str]:
        node = str(10 // self.plan["topology.procs"])
        for words, env, asked in (
            (" --run X", {}, ("", RUN, "logs/node_00.log", "0")),
            (" --node 08", {}, ("", RUN, "logs/node_08.log", "8")),
            (" --rank 10", {}, ("", RUN, "logs/rank_10.log", node)),
            (" --rank 10 --follow", LIVE, ("follow", RUN, "logs/rank_10.log", node)),
        ):
            wanted = [("choose_run", "X" if "--run" in words else ""), ("read_storage", *asked)]
            yield from self.differ(f"logs.sh{words}", self.call(f"logs.sh{words}", env), wanted)
        ended = self.call("logs.sh --follow", {"JOBC_STAGE_SAYS": "0|pod|Running"})
        if not any({"logs", "--follow", "pod"} <= {*call.words} for call in ended.calls if call.name == "kubectl"):
            yield "logs.sh --follow: what a pod prints is not followed"
        elif "status of run" not in ended.said:
            yield "logs.sh --follow: it does not say how the run ended"

    def trials(self) -> Iterator[str]:
        for payload in ("smoke", "preflight"):
            yield from self._made(f"{payload}.sh", payload, f"trial-{payload}", "")

    def pods(self) -> Iterator[str]:
        """task.sh in a pod, for another purpose than to train; and who writes how to go on."""
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

    def _made(self, line: str, payload: str, run: str, fork: str) -> Iterator[str]:
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
