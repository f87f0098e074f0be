"""What the verbs of a Slurm job do, for the equivalence check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...compiler.equivalence.reading import Call, Ended
from ...compiler.equivalence.verbs import LIVE, Verbs


class SlurmVerbs(Verbs):
    def shells(self) -> list[tuple[str, int, Mapping[str, str], str]]:
        beside = {**LIVE, "JOBC_STAGE_RUNS": "yes", "JOBC_STAGE_SAYS": "RUNNING"}
        return [*super().shells(), ("", 0, beside, "0 ")]

    def misdirected(self, call: Call, node: int) -> str:
        asked = [option for option in call.words if option.startswith("--nodes=")]
        return "it asks for more than one node" if call.name == "srun" and asked[-1:] != ["--nodes=1"] else ""

    def asked(self, line: str, payload: str, ended: Ended, code: int) -> Iterator[str]:
        yield from super().asked(line, payload, ended, code)
        if any(call.name == "sbatch" and "--test-only" not in call.words for call in ended.calls):
            yield f"{line}: it queues the job, and should ask only whether Slurm would take it"
