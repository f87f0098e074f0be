"""What node.sh does where this job does not go: with another launcher, and for preflight.sh, smoke.sh and shell.sh.

A person who changes `launcher=` in the script, or asks before the job, goes there. The ranks must be the same ones,
preflight.py must look at the job as it is, two processes must meet, and a command must be the one that is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .launchers import Node, read_node
from .reading import ARTIFACT, Call, Files, Start, Unreadable
from .stage import ScriptStage, stage
from .variables import OF_SHELL

Plan = Mapping[str, Any]

LAUNCHED = ("JOBC_MPI_RANK", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK")  # by node.sh itself
LAUNCHERS = ("torchrun", "torch_distributed_launch", "spawn", "mpirun")
SAME = ("rank", "local_rank", "node", "world_size", "argv", "folder")


def other_ways(files: Files, plan: Plan, starts: Mapping[int, tuple[Start, Node]]) -> Iterator[str]:
    """starts: number -> how a node is started, and what it made of that. No launcher where the engine starts ranks."""
    own = plan["launcher"]
    for launcher in LAUNCHERS:
        if launcher != own and own in (*LAUNCHERS, "accelerate"):
            script = re.sub(r"^launcher=.*$", f"launcher={launcher}", files["node.sh"], flags=re.MULTILINE)
            with stage(Files({**files, "node.sh": script})) as place:
                for number, (start, node) in starts.items():
                    found = _difference(place, start, node)
                    if found:
                        yield f"node.sh with launcher={launcher}, start {number}: {found}"
    with stage(files) as place:
        for number, (_, node) in starts.items():
            yield from _preflight(place, node, number, plan)
            if number in (min(starts), max(starts)):  # it is the same on those between
                yield from _smoke(place, node, number, plan)
                yield from _shell(place, node, number, plan)


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


def _payload(place: ScriptStage, node: Node, words: Sequence[str], plan: Plan, **env: str) -> list[Call]:
    """What node.sh calls on that node for another payload, with the variables of the engine."""
    own = OF_SHELL | {key.removeprefix("env.") for key in plan}  # node.sh itself sets the job's variables
    known = {name: value for name, value in node.ranks[0].env.items() if name not in own and name not in LAUNCHED}
    return place.run(("bash", f"{ARTIFACT}/node.sh", str(node.ranks[0].node), *words), {**known, **env})


def _alone(place: ScriptStage) -> list[Call]:
    """node.sh without any variable, as a person may call it for a shell."""
    return place.run(("bash", f"{ARTIFACT}/node.sh", "0", "shell"), {})


def _smoke(place: ScriptStage, node: Node, number: int, plan: Plan) -> Iterator[str]:
    """Two ranks on each node, one where each has one GPU; on CPUs where there are fewer GPUs than ranks."""
    nodes, gpus = plan["topology.nodes"], plan["topology.gpus"]
    procs = 1 if nodes > 1 and gpus == 1 else 2
    wanted = (procs, procs * nodes, str(gpus if gpus >= procs else 0), ("python", "-m", "jobc_trainer.smoke"))
    try:
        ranks = read_node(_payload(place, node, ("smoke",), plan), place.files).ranks
    except (Unreadable, LookupError, ValueError) as error:
        yield f"node.sh smoke, start {number}: {error}"
        return
    said = (len(ranks), ranks[0].world_size, ranks[0].env.get("JOBC_GPUS"), ranks[0].argv)
    if said != wanted:
        yield f"node.sh smoke, start {number}: (ranks, world size, GPUs, command) are {said}, not {wanted}"


def _shell(place: ScriptStage, node: Node, number: int, plan: Plan) -> Iterator[str]:
    if "env.PATH" in plan:  # of the job: the commands of this machine would be found, not those of the stage
        return
    asked = ("sinfo", "an argument")  # a command that the stage has
    for words, wanted in ((asked, asked), ((), ("bash", "--norc", "-i"))):
        calls = _payload(place, node, ("shell", *words), plan, JOBC_RUN_DIR="") if words else _alone(place)
        last = calls[-1].words if calls else ()
        if any(call.name == "refuse_live_node" for call in calls):
            yield f"node.sh shell, start {number}: it is refused beside a run"
        if last != wanted:
            yield f"node.sh shell, start {number}: it ends with {' '.join(last)}, not {' '.join(wanted)}"


def _preflight(place: ScriptStage, node: Node, number: int, plan: Plan) -> Iterator[str]:
    env = node.ranks[0].env
    calls = _payload(place, node, ("preflight",), plan, JOBC_RUN_ROOT="/all/runs")
    words = next(
        (c.words for c in calls if c.name == "python" and any(w.endswith("/preflight.py") for w in c.words)), None
    )
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
        "run-root": "/all/runs",
        **({} if plan["run.storage"] == "shared" else {"apart": ""}),
        **({"torch": ""} if plan["uses_trainer"] or plan["launcher"].startswith(("torch", "accelerate")) else {}),
        **({"code": said.get("code")} if plan["code.kind"] == "shared" else {}),
    }
    for name in sorted(wanted.keys() | said.keys() & {"apart", "torch", "code"}):
        if said.get(name) != wanted.get(name):
            what = f"preflight.py gets --{name}={said.get(name)}, not {wanted.get(name)}"
            yield f"node.sh preflight, start {number}: {what}"
