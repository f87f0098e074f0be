"""Explain, for `jobc why`, how the launcher sets a rank's variables, and what sets CUDA_VISIBLE_DEVICES.

Source: torch 2.13 (torchrun), torch/distributed/run.py, elastic/agent/server/local_elastic_agent.py and, in
        elastic/rendezvous/, static_tcp_rendezvous.py and dynamic_rendezvous.py; accelerate 1.15: utils/launch.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ....runtime.system.frozen_dataclass import dataclass
from ...plan.runtime_vars import RuntimeVar, Scope
from ...plugins.registry import find_plugins

LAUNCH, ACCELERATE = "launch.sh", "accelerate.yaml"


@dataclass(frozen=True)
class LauncherSetting:
    """How a launcher sets a variable.

    how:   a sentence.
    words: (file, line pattern) that finds the launcher's options.
    reads: variables that it is computed from.
    files: files of runtime/ that set it.
    keys:  plan keys that it is computed from.
    """

    how: str
    words: tuple[tuple[str, str], ...] = ()
    reads: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


def launcher_setting(plan: Mapping[str, Any], name: str) -> LauncherSetting | None:
    """Return how the launcher sets the variable, None if it does not or if jobc does not know the launcher."""
    launcher = plan.get("launcher", "")
    if name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME") and plan.get("topology.nodes", 1) > 1:
        how = "jobctl sets it, unless it is already set, to network.interface or the interface that leads to node 0"
        return LauncherSetting(how, keys=("network.interface",))
    if launcher in ("spawn", "srun", "mpirun"):
        return _spawn_setting(launcher, name)
    if launcher == "accelerate":
        return _accelerate(plan, name)
    if launcher not in ("torchrun", "torch_distributed_launch"):
        return None
    if launcher == "torchrun" and plan.get("rendezvous.backend") == "c10d" and name in _C10D:
        how, flags, reads, files = _C10D[name]
        return LauncherSetting(how, _flags(flags), reads, files)
    if name in _TORCHRUN:
        how, flags = _TORCHRUN[name]
        by = "torchrun" if launcher == "torchrun" else "torch.distributed.launch"
        return LauncherSetting(f"{by} sets it to {how}", _flags(flags))
    return None


def _flags(names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple((LAUNCH, rf"^--{name.replace('-', '[-_]')}\b") for name in names)


_TORCHRUN = {
    "RANK": ("--node-rank times --nproc-per-node, plus LOCAL_RANK", ("node-rank", "nproc-per-node")),
    "LOCAL_RANK": ("0 to --nproc-per-node - 1", ("nproc-per-node",)),
    "WORLD_SIZE": ("--nnodes times --nproc-per-node", ("nnodes", "nproc-per-node")),
    "LOCAL_WORLD_SIZE": ("--nproc-per-node", ("nproc-per-node",)),
    "GROUP_RANK": ("--node-rank", ("node-rank",)),
    "MASTER_ADDR": ("--master-addr", ("master-addr",)),
    "MASTER_PORT": ("--master-port", ("master-port",)),
}
_STORE = "torchrun chooses the port of the ranks' store on one node, and shares it through --rdzv-endpoint"
_C10D: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "RANK": (
        "rank.py sets it to JOBC_NODE_RANK times --nproc-per-node, plus LOCAL_RANK; torchrun numbers by addresses",
        ("nproc-per-node",), ("JOBC_NODE_RANK",), ("ranks/rank.py",),
    ),
    "GROUP_RANK": (
        "rank.py sets it to JOBC_NODE_RANK; torchrun numbers by addresses", (), ("JOBC_NODE_RANK",), ("ranks/rank.py",),
    ),
    "MASTER_ADDR": (_STORE, ("rdzv-endpoint",), (), ()),
    "MASTER_PORT": (_STORE, ("rdzv-endpoint",), (), ()),
}  # fmt: skip

_READS = {
    "RANK": ("JOBC_NODE_RANK", "JOBC_PROCS"),
    "LOCAL_RANK": ("JOBC_PROCS",),
    "WORLD_SIZE": ("JOBC_NODES", "JOBC_PROCS"),
    "LOCAL_WORLD_SIZE": ("JOBC_PROCS",),
    "GROUP_RANK": ("JOBC_NODE_RANK",),
    "MASTER_ADDR": ("JOBC_HEAD_ADDR",),
    "MASTER_PORT": ("JOBC_HEAD_PORT",),
}


def _spawn_setting(launcher: str, name: str) -> LauncherSetting | None:
    if name not in _READS:
        return None
    if launcher == "mpirun":
        how = "mpi.py --rank, which mpirun starts, sets it as spawn.py does, from"
    else:
        how = "spawn.py sets it from"
    words = [rf"^{launcher}\b", *(["^-np "] if launcher == "mpirun" and name == "WORLD_SIZE" else [])]
    lines = tuple((LAUNCH, word) for word in words)
    return LauncherSetting(f"{how} {' and '.join(_READS[name])}", lines, _READS[name], ("ranks/spawn.py",))


_ACCELERATE: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "RANK": ("--machine_rank and num_processes", ((LAUNCH, r"^--machine_rank\b"), (ACCELERATE, "^num_processes:"))),
    "LOCAL_RANK": ("num_processes and num_machines", ((ACCELERATE, "^num_(processes|machines):"),)),
    "WORLD_SIZE": ("num_processes", ((ACCELERATE, "^num_processes:"),)),
    "LOCAL_WORLD_SIZE": ("num_processes and num_machines", ((ACCELERATE, "^num_(processes|machines):"),)),
    "GROUP_RANK": ("--machine_rank", ((LAUNCH, r"^--machine_rank\b"),)),
    "MASTER_ADDR": ("--main_process_ip", ((LAUNCH, r"^--main_process_ip\b"),)),
    "MASTER_PORT": ("--main_process_port", ((LAUNCH, r"^--main_process_port\b"),)),
}


def _accelerate(plan: Mapping[str, Any], name: str) -> LauncherSetting | None:
    if name == "OMP_NUM_THREADS":
        how = "accelerate sets it to --num_cpu_threads_per_process"
        return LauncherSetting(how, ((LAUNCH, r"^--num_cpu_threads_per_process\b"),))
    if name == "ACCELERATE_MIXED_PRECISION":
        return LauncherSetting("accelerate sets it to mixed_precision", ((ACCELERATE, "^mixed_precision:"),))
    if name not in _ACCELERATE:
        return None
    if plan["topology.world_size"] == 1:
        how = "jobctl sets this variable, because accelerate does not set it for a single process"
        return LauncherSetting(how, files=("ranks/launchers.py",))
    how, words = _ACCELERATE[name]
    return LauncherSetting(f"torchrun, which accelerate runs, sets it from {how}", words)


VISIBLE_GPUS = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


def explain_visible_gpus(plan: Mapping[str, Any], path: str, is_shared: bool = False) -> str:
    """Return a sentence that explains what sets the variable.

    plan: the plan's keys and values.
    path: the job's file that sets the variable, "" for none.
    is_shared: whether several nodes share a machine.
    """
    if path:
        return f"{path} sets it"
    if not plan["topology.gpus"]:
        return "this job neither sets the variable nor requests GPUs from an engine"
    if is_shared:
        return "jobctl sets this variable to the node's share of the GPUs that jobctl submit may use"
    if _has_engine(plan["backend.name"]):
        return "the engine allocates `gpus` GPUs on each node: it sets this variable or hides the other GPUs"
    return "not set by jobc: the ranks inherit the value from their node's environment, or see all GPUs"


def _has_engine(backend: str) -> bool:
    """Return whether an engine places the nodes. Assumes that it does if the backend is not installed."""
    plugin = find_plugins().get(backend)
    return plugin is None or plugin.load().spellings[RuntimeVar.NODE_RANK].scope > Scope.SUBMIT
