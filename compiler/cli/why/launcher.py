"""Explain, for `jobc why`, how the launcher sets a rank's variables, and what sets CUDA_VISIBLE_DEVICES.

Source: torch 2.13 (torchrun), torch/distributed/run.py, elastic/agent/server/local_elastic_agent.py and, in
        elastic/rendezvous/, static_tcp_rendezvous.py and dynamic_rendezvous.py; accelerate 1.15: utils/launch.py.
"""

from collections.abc import Mapping
from typing import Any

from ....runtime.system.frozen_dataclass import dataclass
from ...plan.runtime_vars import RuntimeVar, Scope
from ...plugins.registry import find_plugins

LAUNCH, ACCELERATE = "launch.sh", "accelerate.yaml"
VISIBLE_GPUS = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


@dataclass(frozen=True)
class LauncherSetting:
    """How a launcher sets a variable.

    how:   a sentence, or "" if the launcher does not set the variable or is unknown.
    words: (file, line pattern) that finds the launcher's options.
    reads: variables that it is computed from.
    files: files of runtime/ that set it.
    keys:  plan keys that it is computed from.
    """

    how: str = ""
    words: tuple[tuple[str, str], ...] = ()
    reads: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


def launcher_setting(plan: Mapping[str, Any], name: str) -> LauncherSetting:
    launcher = plan.get("launcher", "")
    if name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME") and plan.get("topology.nodes", 1) > 1:
        how = "unless it is already set, jobctl sets it to network.interface or to the interface of the route to node 0"
        return LauncherSetting(how, keys=("network.interface",))
    if launcher in ("spawn", "srun", "mpirun") and name in _READS:
        how = "spawn.py sets it"
        if launcher == "mpirun":
            how = "mpi.py --rank, which mpirun starts, sets it as spawn.py does,"
        words = [(LAUNCH, rf"^{launcher}\b")]
        words += [(LAUNCH, "^-np ")] if launcher == "mpirun" and name == "WORLD_SIZE" else []
        reads = _READS[name]
        return LauncherSetting(f"{how} from {' and '.join(reads)}", tuple(words), reads, ("ranks/spawn.py",))
    if launcher == "accelerate" and name in _ACCELERATE and plan["topology.world_size"] == 1:
        how = "jobctl sets this variable, because accelerate does not set it for a single process"
        return LauncherSetting(how, files=("ranks/launchers.py",))
    if launcher == "accelerate":
        return _ACCELERATE.get(name) or _ACCELERATE_ALWAYS.get(name, LauncherSetting())
    if launcher == "torchrun" and plan.get("rendezvous.backend") == "c10d" and name in _C10D:
        return _C10D[name]
    if launcher in ("torchrun", "torch_distributed_launch") and name in _TORCHRUN:
        how, flags = _TORCHRUN[name]
        by = "torchrun" if launcher == "torchrun" else "torch.distributed.launch"
        return LauncherSetting(f"{by} sets it to {how}", tuple(map(_option_pattern, flags)))
    return LauncherSetting()


def _option_pattern(name: str) -> tuple[str, str]:
    return LAUNCH, rf"^--{name.replace('-', '[-_]')}\b"


_TORCHRUN = {
    "RANK": ("--node-rank times --nproc-per-node, plus LOCAL_RANK", ("node-rank", "nproc-per-node")),
    "LOCAL_RANK": ("0 to --nproc-per-node - 1", ("nproc-per-node",)),
    "WORLD_SIZE": ("--nnodes times --nproc-per-node", ("nnodes", "nproc-per-node")),
    "LOCAL_WORLD_SIZE": ("--nproc-per-node", ("nproc-per-node",)),
    "GROUP_RANK": ("--node-rank", ("node-rank",)),
    "MASTER_ADDR": ("--master-addr", ("master-addr",)),
    "MASTER_PORT": ("--master-port", ("master-port",)),
}
_STORE = LauncherSetting(
    "torchrun chooses the port of the ranks' store on one node, and shares it through --rdzv-endpoint",
    (_option_pattern("rdzv-endpoint"),),
)
_C10D = {
    "RANK": LauncherSetting(
        "rank.py sets it to JOBC_NODE_RANK times --nproc-per-node, plus LOCAL_RANK; torchrun sorts nodes by address",
        (_option_pattern("nproc-per-node"),), ("JOBC_NODE_RANK",), ("ranks/rank.py",),
    ),
    "GROUP_RANK": LauncherSetting(
        "rank.py sets it to JOBC_NODE_RANK; torchrun sorts nodes by address",
        (), ("JOBC_NODE_RANK",), ("ranks/rank.py",),
    ),
    "MASTER_ADDR": _STORE,
    "MASTER_PORT": _STORE,
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


def _accelerate_setting(how: str, *words: tuple[str, str]) -> LauncherSetting:
    return LauncherSetting(f"torchrun, which accelerate runs, sets it from {how}", words)


_LOCAL = _accelerate_setting("num_processes and num_machines", (ACCELERATE, "^num_(processes|machines):"))
_ACCELERATE = {
    "RANK": _accelerate_setting(
        "--machine_rank and num_processes", _option_pattern("machine_rank"), (ACCELERATE, "^num_processes:")
    ),
    "LOCAL_RANK": _LOCAL,
    "WORLD_SIZE": _accelerate_setting("num_processes", (ACCELERATE, "^num_processes:")),
    "LOCAL_WORLD_SIZE": _LOCAL,
    "GROUP_RANK": _accelerate_setting("--machine_rank", _option_pattern("machine_rank")),
    "MASTER_ADDR": _accelerate_setting("--main_process_ip", _option_pattern("main_process_ip")),
    "MASTER_PORT": _accelerate_setting("--main_process_port", _option_pattern("main_process_port")),
}
_ACCELERATE_ALWAYS = {
    "OMP_NUM_THREADS": LauncherSetting(
        "accelerate sets it to --num_cpu_threads_per_process", (_option_pattern("num_cpu_threads_per_process"),)
    ),
    "ACCELERATE_MIXED_PRECISION": LauncherSetting(
        "accelerate sets it to mixed_precision", ((ACCELERATE, "^mixed_precision:"),)
    ),
}


def explain_visible_gpus(plan: Mapping[str, Any], path: str, is_shared: bool) -> str:
    """Return a sentence that explains what sets the variable.

    plan: the plan's keys and values.
    path: the job's file that sets the variable, or "" for none.
    is_shared: whether several nodes share a machine.
    """
    if path:
        return f"{path} sets it"
    if not plan["topology.gpus"]:
        return "this job neither sets the variable nor requests GPUs from an engine"
    if is_shared:
        return "jobctl sets this variable to the node's share of the GPUs that jobctl submit may use"
    plugin = find_plugins().get(plan["backend.name"])
    # if the backend is not installed, an engine is assumed
    if plugin is None or plugin.load().spellings[RuntimeVar.NODE_RANK].scope > Scope.SUBMIT:
        return "the engine allocates `gpus` GPUs on each node: it sets this variable or hides the other GPUs"
    return "not set by jobc: the ranks inherit the value from their node's environment, or see all GPUs"
