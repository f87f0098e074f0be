"""What node.sh does where this job does not go: with another launcher, and when preflight.sh starts it.

A person who changes `launcher=` in the script, or asks preflight.sh before the job, goes there. The ranks must be the
same ones, and preflight.py must look at the job as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .launchers import Node, read_node
from .reading import ARTIFACT, Files, Start, Unreadable
from .stage import ScriptStage, stage
from .variables import OF_SHELL

LAUNCHERS = ("torchrun", "torch_distributed_launch", "spawn", "mpirun")
SAME = ("rank", "local_rank", "node", "world_size", "argv", "folder")


def other_ways(files: Files, plan: Mapping[str, Any], starts: Mapping[int, tuple[Start, Node]]) -> Iterator[str]:
    """starts: number -> how a node is started, and what it made of that. No launcher where the engine starts ranks."""
    own, outside = plan["launcher"], plan["container.kind"] in ("docker", "apptainer")
    for launcher in LAUNCHERS:
        if launcher != own and own in (*LAUNCHERS, "accelerate") and not outside:
            script = re.sub(r"^launcher=.*$", f"launcher={launcher}", files["node.sh"], flags=re.MULTILINE)
            with stage(Files({**files, "node.sh": script})) as place:
                for number, (start, node) in starts.items():
                    found = _difference(place, start, node)
                    if found:
                        yield f"node.sh with launcher={launcher}, start {number}: {found}"
    with stage(files) as place:
        for number, (_, node) in starts.items():
            yield from _preflight(place, node, number, plan)


def _difference(place: ScriptStage, start: Start, node: Node) -> str:
    try:
        other = read_node(place.run(start.words, start.env), place.files)
    except (Unreadable, LookupError, ValueError) as error:
        return str(error)
    for mine, its in zip(node.ranks, other.ranks, strict=False):
        for name in SAME:
            if getattr(mine, name) != getattr(its, name):
                return f"rank {mine.rank} has another {name}: {getattr(its, name)}, not {getattr(mine, name)}"
        if mine.rendezvous.place != its.rendezvous.place:
            return f"rank {mine.rank} meets the others at {its.rendezvous.place}"
        there, here = its.rendezvous.timeout, mine.rendezvous.timeout
        if there not in ("", here) and here:
            return f"rank {mine.rank} waits {there} s for the others, not {here} s"
    return "" if len(node.ranks) == len(other.ranks) else f"it starts {len(other.ranks)} ranks, not {len(node.ranks)}"


def _preflight(place: ScriptStage, node: Node, number: int, plan: Mapping[str, Any]) -> Iterator[str]:
    own = OF_SHELL | {key.removeprefix("env.") for key in plan}  # node.sh itself sets the job's variables
    env = {name: value for name, value in node.ranks[0].env.items() if name not in own}
    calls = place.run(("bash", f"{ARTIFACT}/node.sh", str(node.ranks[0].node), "preflight"), env)
    words = next((call.words for call in calls if any(w.endswith("/preflight.py") for w in call.words)), None)
    if words is None:
        yield f"node.sh preflight, start {number}: it does not come to preflight.py"
        return
    said = dict(word[2:].partition("=")[::2] for word in words if word.startswith("--"))
    wanted = {
        "procs": str(plan["topology.procs"]),
        "gpus": str(plan["topology.gpus"]),
        "gpu-type": env.get("JOBC_GPU_TYPE", ""),
        "port": env["JOBC_HEAD_PORT"],
        "profile": plan["network.profile"],
        "interface": plan["network.interface"] or "",
        **({} if plan["run.storage"] == "shared" else {"apart": ""}),
    }
    for name in wanted.keys() | said.keys() & {"apart"}:
        if said.get(name) != wanted.get(name):
            what = f"preflight.py gets --{name}={said.get(name)}, not {wanted.get(name)}"
            yield f"node.sh preflight, start {number}: {what}"
