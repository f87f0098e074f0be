"""What the verbs of a Slurm job do, for the equivalence check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...compiler.equivalence.reading import Ended
from ...compiler.equivalence.verbs import LIVE, Verbs, plain


class SlurmVerbs(Verbs):
    def shells(self) -> list[tuple[str, int, Mapping[str, str], str]]:
        beside = {**LIVE, "JOBC_STAGE_RUNS": "yes", "JOBC_STAGE_SAYS": "RUNNING"}
        return [*super().shells(), ("", 0, beside, "0 ")]

    def shell(self) -> Iterator[str]:
        yield from super().shell()
        for word, _, env, _ in self.shells():
            line = f"shell.sh{word} -- cmd arg"
            for call in self.call(line, env).calls:
                asks = [option for option in call.words if option.startswith("--nodes=")]
                if call.name == "srun" and plain(call)[-1:] == ["arg"] and asks[-1:] != ["--nodes=1"]:
                    yield f"{line}: it asks for more than one node"

    def asked(self, line: str, payload: str, ended: Ended, code: int) -> Iterator[str]:
        yield from super().asked(line, payload, ended, code)
        if any(call.name == "sbatch" and "--test-only" not in call.words for call in ended.calls):
            yield f"{line}: it queues the job, and should ask only whether Slurm would take it"
