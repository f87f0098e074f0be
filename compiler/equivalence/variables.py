"""Which variables the scripts set that no key of the plan names. Any other one that a rank has has come by an edit.

In   the plan, the names of a rank's variables
Out  those that nothing asks for; FOREIGN: those of programs that jobc did not write
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...trainer.env import TABLE

Plan = Mapping[str, Any]

OF_SHELL = frozenset({"PATH", "PWD", "OLDPWD", "SHLVL", "HOME", "USER", "LC_ALL", "TERM", "TMPDIR", "JOBC_MPI_RANK"})
OF_CONTRACT = frozenset(row.name for row in TABLE if row.setter != "user")
OF_NODE = frozenset({  # what node.sh sets in every job
    "OMP_NUM_THREADS", "PYTHONPATH", "PYTHONUNBUFFERED", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "TORCH_FR_BUFFER_SIZE",
    "TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_DUMP_ON_TIMEOUT",
})  # fmt: skip
OF_ENGINE = frozenset({  # what the scripts of an engine tell each other
    "JOBC_ARTIFACT", "JOBC_FORK_OF", "JOBC_JOB_UID", "JOBC_PAYLOAD", "JOBC_PLAN", "JOBC_RUN_ROOT", "JOBC_SECRETS_ROOT",
    "JOBC_STORE", "JOBC_STORE_ENDPOINT", "JOBC_STORE_REGION", "SLURM_JOB_NUM_NODES",
})  # fmt: skip
SOMETIMES: Mapping[str, Callable[[Plan], Any]] = {
    "ACCELERATE_USE_CPU": lambda plan: plan["launcher"] == "accelerate",
    "LD_LIBRARY_PATH": lambda plan: plan["network.profile"] == "tcpx",  # of the host's own libraries
    "CUDA_VISIBLE_DEVICES": lambda plan: plan["backend.name"] == "local",  # each of several nodes here has its own
    "DS_ACCELERATOR": lambda plan: plan["parallel"] == "deepspeed",
    "JOBC_GPU_TYPE": lambda plan: plan["resources.gpu_type"],
    "JOBC_DATA_DIR": lambda plan: plan["run.data"],
    **dict.fromkeys(("HF_HOME", "HF_TOKEN_PATH", "TORCH_HOME"), lambda plan: plan["caches.downloads"]),
    **dict.fromkeys(("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"), lambda plan: plan["caches.compiled"]),
    **dict.fromkeys(
        ("HF_DATASETS_OFFLINE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"), lambda plan: plan["caches.offline"]
    ),
    **dict.fromkeys(
        ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "TORCH_CPP_LOG_LEVEL", "TORCH_DISTRIBUTED_DEBUG"),
        lambda plan: plan["network.debug"],
    ),
}
OF_STARTERS = frozenset({  # for a launcher or a client: no rank reads them from a script
    "LOCAL_RANK", "OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include", "PDSH_SSH_ARGS_APPEND",
})  # fmt: skip
FOREIGN = OF_NODE | SOMETIMES.keys() | OF_STARTERS
SAYS_MORE = ("backend.extra", "network", "secrets", "setup")  # sections whose text names variables


def unasked(plan: Plan, names: Iterable[str]) -> list[str]:
    usual = OF_SHELL | OF_CONTRACT | OF_NODE | OF_ENGINE | {key.removeprefix("env.") for key in plan}
    text = json.dumps({key: value for key, value in plan.items() if key.startswith(SAYS_MORE)})
    named = set(re.findall(r"\w+", text))
    return sorted(
        name for name in names if name not in usual | named and not (name in SOMETIMES and SOMETIMES[name](plan))
    )
