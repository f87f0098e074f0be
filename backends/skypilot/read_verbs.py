"""What the verbs of a SkyPilot task do, for the equivalence check: what `sky` is told."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from ...compiler.equivalence.reading import RUN, Call
from ...compiler.equivalence.verbs import Verbs, shown


class SkyVerbs(Verbs):
    is_record = True
    fetches_news = False  # job_code reads what is there

    def shells(self) -> list[tuple[str, int, Mapping[str, str], str]]:
        return []  # its cluster is not up

    def logs(self) -> Iterator[str]:
        """Of a rank: from its node, or from the bucket, as far as it is there."""
        node, is_managed = str(9 // self.plan["topology.procs"]), self.plan["backend.managed"]
        for word, follow in (("", ()), (" --follow", ("-f",))):
            wanted: tuple[str, ...] = ("on_node", "c", node, "tail", "-n", "+1", *follow, "--")
            if self.plan["run.storage"] == "object" and (is_managed or not follow):
                wanted = ("depot", "cat")
            elif is_managed:  # whose machines cannot be reached
                wanted = ()
            ended = self.call(f"logs.sh --rank 9{word}", {"JOBC_STAGE_SAYS": '"status": "UP",'})
            said = next((c.words for c in reversed(ended.calls) if c.name in ("on_node", "depot")), ())
            if said[:-1] != wanted or (wanted and not said[-1].endswith("logs/rank_09.log")):
                yield f"logs.sh --rank 9{word}: it asks {shown([said])}, not {shown([wanted])} …/logs/rank_09.log"

    def trials(self) -> Iterator[str]:
        yield from self._sent("smoke.sh", "smoke", "trial-smoke", "")
        yield from self._sent("submit.sh --wait --fork X", "train", "run", "run")

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
        if not any(" --tail 0 --follow " in " ".join(call.words) for call in follows[:1]):
            yield f"{line}: what the job prints is not followed from its beginning"
