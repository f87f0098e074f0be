"""What node.sh is told and does before it starts the ranks, of which no rank's words tell.

In   the plan, and what a node has called
Out  what a shell outside may have left, which must not come to the ranks; sentences: what is missing, or has come
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...trainer.env import TABLE
from .launchers import Node

Plan = Mapping[str, Any]

STEPS: tuple[tuple[str, Callable[[Plan], bool], str], ...] = (  # a call of the library, in which jobs, what it is for
    ("refuse_live_node", lambda plan: True, "a second start of the node would write into the same run"),
    ("settle_in", lambda plan: plan["container.kind"] != "none", "a container may have no home, and no TMPDIR"),
    ("find_network", lambda plan: plan["topology.nodes"] > 1, "NCCL and Gloo would take any interface"),
    ("find_head_port", lambda plan: True, "the nodes would not agree on a port"),
    ("need_mpirun", lambda plan: plan["launcher"] == "mpirun", "nobody would say that there is no Open MPI"),
    (
        "need_launch_module",
        lambda plan: plan["launcher"] == "torch_distributed_launch",
        "nobody would say that this torch has it no more",
    ),
    ("need_module accelerate", lambda plan: plan["launcher"] == "accelerate", "nobody would say that it is missing"),
    ("need_module deepspeed", lambda plan: plan["parallel"] == "deepspeed", "nobody would say that it is missing"),
)
LEFT_OUTSIDE: Mapping[str, Callable[[Plan], bool]] = {  # by another torchrun, or by the user: in which jobs it is unset
    "PET_NNODES": lambda plan: True,
    "TORCHELASTIC_RUN_ID": lambda plan: True,
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": lambda plan: plan["rendezvous.backend"] == "c10d",
}
OUTSIDE = "outside"
BY_ENGINE = tuple(row.name for row in TABLE if row.setter == "backend")


def left_outside(plan: Plan) -> dict[str, str]:
    return {name: OUTSIDE for name, is_unset in LEFT_OUTSIDE.items() if is_unset(plan)}


def missing(plan: Plan, nodes: Sequence[Node]) -> Iterator[str]:
    """Of the first task of a node, where an engine starts one for each rank: the others leave it to that one."""
    for number, node in enumerate(nodes):
        for call, is_needed, otherwise in STEPS:
            if is_needed(plan) and call not in node.asked and node.ranks[0].local_rank == 0:
                yield f"node.sh (start {number}) does not call {call}: {otherwise}"
        for name in BY_ENGINE:
            if name not in node.given and not (name == "JOBC_NODE_LIST" and plan["topology.nodes"] == 1):
                yield f"node.sh (start {number}) is not told {name}, and takes a default"
        if (told := node.given.get("JOBC_NODE_RANK")) not in (None, str(node.ranks[0].node)):
            yield f"node.sh (start {number}) is told two numbers of its node: {told} and {node.ranks[0].node}"
        for name, value in node.ranks[0].env.items():
            if name in LEFT_OUTSIDE and value == OUTSIDE:
                yield f"node.sh (start {number}) leaves {name} as a shell outside has set it, for the ranks to follow"
