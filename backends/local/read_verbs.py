"""What the verbs of one node on this machine do, for the equivalence check: they call node.sh, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from ...compiler.equivalence.reading import ARTIFACT, RUN, Ended
from ...compiler.equivalence.verbs import LIVE, Verbs


class LocalVerbs(Verbs):
    @property
    def is_alone(self) -> bool:
        return not self.hosts

    def logs(self) -> Iterator[str]:
        yield from super().logs()
        if self.is_alone:
            ended = self.call("logs.sh --follow", LIVE)
            wanted = [("choose_run", ""), ("follow_logs", RUN, "1", "node_00.log")]
            yield from self.differ("logs.sh --follow", ended, wanted)

    def trials(self) -> Iterator[str]:
        yield from super().trials()
        if self.is_alone:
            yield from self.trial("smoke", 65)

    def asked(self, line: str, payload: str, ended: Ended, code: int) -> Iterator[str]:
        if not self.is_alone:
            yield from super().asked(line, payload, ended, code)
            return
        yield from self.differ(line, ended, [(f"{ARTIFACT}/node.sh", "0", payload)], code)
        env = next((call.env for call in ended.calls if call.name == "node.sh"), {})
        own = {"JOBC_RUN_DIR": RUN, "JOBC_NODE_RANK": "0", "JOBC_ATTEMPT": "0", "JOBC_HEAD_ADDR": "127.0.0.1"}
        for name, wanted in own.items() if payload == "smoke" else ():
            if env.get(name) != wanted:
                yield f"{line}: node.sh gets {name}={env.get(name)}, not {wanted}"
