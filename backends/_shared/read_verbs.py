"""What the verbs of a list of hosts do, for the equivalence check: the client reaches the hosts as the plan says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ...compiler.equivalence.reading import RUN, Call
from ...compiler.equivalence.verbs import LIVE, PARTS, Verbs, unquoted


class HostVerbs(Verbs):
    parts = (*PARTS, "client")

    def shells(self) -> list[tuple[str, int, Mapping[str, str], str]]:
        beside = f"{RUN}/artifact/0/task.sh {RUN} 0 0 "  # what that run has, not what is here now
        return [*super().shells(), ("", 0, {**LIVE, "JOBC_STAGE_RUNS": "yes"}, beside)]

    def client(self) -> Iterator[str]:
        calls = [call for call in self.call("smoke.sh").calls if call.name in ("ssh", "pdsh", "clush")]
        for call in calls[:1]:
            told = f" {_options(call)} "
            wanted = [*self._wanted(call.name)]
            lacks = [words for _, words in wanted if f" {unquoted(words)} " not in told]
            if lacks:
                yield f"client.sh: {call.name} is called without {', '.join(lacks)}"
            fanout = re.search(r"^fanout=(\d+)", self.place.files["client.sh"], re.MULTILINE)
            if fanout and int(fanout[1]) != self.plan["backend.fanout"]:
                yield f"client.sh: fanout is {fanout[1]}, the plan has {self.plan['backend.fanout']}"
            self.compared |= {key for key, _ in wanted} | ({"backend.fanout"} if fanout else set())

    def _wanted(self, client: str) -> Iterator[tuple[str, str]]:
        """Plan key, and words of the client for it.

        What is not asked for by default stands in the plan of those backends alone that have the option.
        """
        plan = self.plan
        yield "backend.connect_timeout", f"ConnectTimeout={plan['backend.connect_timeout']}"
        keys = "yes" if plan["backend.host_keys"] == "known" else "accept-new"
        yield "backend.host_keys", f"StrictHostKeyChecking={keys}"
        if client != "ssh":
            yield "backend.fanout", f"-f {plan['backend.fanout']}"
        if plan.get("backend.user"):
            yield "backend.user", f"-l {plan['backend.user']}"
        if plan.get("backend.port"):
            yield "backend.port", f"-p {plan['backend.port']}"
        yield from (("backend.options", words) for words in plan.get("backend.options", ()))


def _options(call: Call) -> str:
    """The words of the client and of its ssh, before the host."""
    words = call.words[1 : call.words.index("--")] if call.name == "ssh" else call.words[1:]
    return unquoted(" ".join((*words, call.env.get("PDSH_SSH_ARGS_APPEND", ""))))
