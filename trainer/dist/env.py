"""The environment contract: every variable that a rank may read, who sets it, and what it means.

Input:  a mapping of environment variables.
Output: a RankEnvironment, or one BrokenInput that lists every missing or invalid variable.
TABLE describes these names; docs and tests read it. A new name also goes into runtime/system/reserved_variables.py.
Standard library only.

jobc, torchrun and accelerate use torchrun's variable names. srun, mpirun and SkyPilot set the same values under other
names, which launchers.py translates.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from ...runtime.system.frozen_dataclass import dataclass
from ..lifecycle.errors import BrokenInput
from . import launchers


@dataclass(frozen=True)
class ContractVariable:
    """One variable of the environment contract.

    kind: the type of the value, a key of EXPECTED.
    like: torchrun's variable with the same value. If it is set, this variable is not read.
    """

    name: str
    setter: str
    kind: str
    meaning: str
    like: str = ""


_ROWS: tuple[tuple[str, ...], ...] = (
    ("RANK", "launcher", "index", "rank of this process in the job"),
    ("LOCAL_RANK", "launcher", "index", "rank of this process on its node"),
    ("WORLD_SIZE", "launcher", "count", "number of processes in the job"),
    ("LOCAL_WORLD_SIZE", "launcher", "count", "number of processes on this node"),
    ("GROUP_RANK", "launcher", "index", "rank of this node in the job"),
    ("MASTER_ADDR", "launcher", "text", "host of rank 0, the rendezvous host"),
    ("MASTER_PORT", "launcher", "port", "TCP port on that host"),
    ("TORCHELASTIC_USE_AGENT_STORE", "torchrun", "flag", "True: torchrun itself listens on MASTER_PORT"),
    ("TORCHELASTIC_RESTART_COUNT", "torchrun", "index", "number of in-place restarts by torchrun"),
    ("ACCELERATE_MIXED_PRECISION", "accelerate", "text", "mixed_precision in accelerate.yaml"),
    ("ACCELERATE_DYNAMO_BACKEND", "accelerate", "text", "dynamo_backend in accelerate.yaml"),
    ("ACCELERATE_USE_DEEPSPEED", "accelerate", "flag", "True: accelerate.yaml sets distributed_type: DEEPSPEED"),
    ("ACCELERATE_USE_FSDP", "accelerate", "flag", "True: accelerate.yaml sets distributed_type: FSDP"),
    ("ACCELERATE_DEEPSPEED_CONFIG_FILE", "accelerate", "path", "deepspeed_config_file in accelerate.yaml"),
    ("JOBC_RUN_DIR", "backend", "path", "this run's folder: logs, metrics, checkpoints, control"),
    ("JOBC_RUN_ID", "backend", "text", "name of this run, such as 20260131-120000-1f2e"),
    ("JOBC_JOB_ID", "backend", "text", "the engine's own job ID"),
    ("JOBC_NODE_RANK", "backend", "index", "rank of this node in the job"),
    ("JOBC_NODE_LIST", "backend", "text", "the job's hosts, abbreviated: node[1-4]"),
    ("JOBC_HEAD_ADDR", "backend", "text", "host name or address of node 0"),
    ("JOBC_HEAD_PORT", "backend", "port", "rendezvous port on node 0; 0 = node 0 chooses a port and shares it"),
    ("JOBC_ATTEMPT", "backend", "index", "0 for the first start of the run, +1 for each requeue or resume"),
    ("JOBC_TIME_LIMIT_S", "backend", "index", "seconds until the supervisor asks the ranks to save; 0 = none"),
    ("JOBC_LAUNCHER", "jobctl", "launcher", "launcher whose variables are used; jobc means those of torchrun"),
    ("JOBC_JOB_NAME", "jobctl", "text", "name of the job"),
    ("JOBC_NODES", "jobctl", "count", "number of nodes in the job"),
    ("JOBC_PROCS", "jobctl", "count", "number of ranks per node"),
    ("JOBC_GPUS", "jobctl", "index", "GPUs per node; 0 = CPU only"),
    ("JOBC_TRAIN_JSON", "jobctl", "path", "train.json, for the bundled trainer (trainer/config/train_json.py)"),
    ("JOBC_DEEPSPEED_JSON", "jobctl", "path", "deepspeed.json, with parallel=deepspeed: DeepSpeed's config"),
    ("JOBC_LIB", "jobctl", "path", "jobctl, the packed file that contains jobc_trainer"),
    ("JOBC_GRACE_S", "jobctl", "index", "seconds between the stop signal and the kill"),
    ("JOBC_DATA_DIR", "user", "path", "folder against which relative data paths are resolved"),
    ("JOBC_INIT_FROM", "user", "path", "run folder whose newest checkpoint provides the initial weights (fork)"),
    ("SLURM_PROCID", "srun", "index", "rank of this task in the step", "RANK"),
    ("SLURM_STEP_NUM_TASKS", "srun", "count", "number of tasks in the step; not set in a batch script", "WORLD_SIZE"),
    ("SLURM_LOCALID", "srun", "index", "rank of this task on its node", "LOCAL_RANK"),
    ("SLURM_STEP_TASKS_PER_NODE", "srun", "text", "tasks per node: 2(x3),1", "LOCAL_WORLD_SIZE"),
    ("SLURM_NODEID", "srun", "index", "rank of this node in the step", "GROUP_RANK"),
    ("SLURM_STEP_NODELIST", "srun", "text", "node[1-4]; the first is the rendezvous host", "MASTER_ADDR"),
    ("SLURM_JOB_ID", "srun", "index", "determines the rendezvous port", "MASTER_PORT"),
    ("SLURM_STEP_ID", "srun", "index", "index of the step in the job; each step uses its own port", "SLURM_STEP_ID"),
    ("OMPI_COMM_WORLD_RANK", "mpirun", "index", "Open MPI: rank of this process", "RANK"),
    ("OMPI_COMM_WORLD_SIZE", "mpirun", "count", "Open MPI: number of processes in the job", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "mpirun", "index", "Open MPI: local rank", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_LOCAL_SIZE", "mpirun", "count", "Open MPI: processes on this node", "LOCAL_WORLD_SIZE"),
    ("PMI_RANK", "PMI", "index", "MPICH, Intel MPI, Cray: rank of this process", "RANK"),
    ("PMI_SIZE", "PMI", "count", "number of processes in the job", "WORLD_SIZE"),
    ("MPI_LOCALRANKID", "PMI", "index", "MPICH's Hydra: local rank", "LOCAL_RANK"),
    ("MPI_LOCALNRANKS", "PMI", "count", "MPICH's Hydra: processes on this node", "LOCAL_WORLD_SIZE"),
    ("PMI_LOCAL_RANK", "PMI", "index", "Cray's PALS: local rank", "LOCAL_RANK"),
    ("PMI_LOCAL_SIZE", "PMI", "count", "Cray's PALS: processes on this node", "LOCAL_WORLD_SIZE"),
    ("MV2_COMM_WORLD_RANK", "mvapich", "index", "MVAPICH2: rank of this process", "RANK"),
    ("MV2_COMM_WORLD_SIZE", "mvapich", "count", "MVAPICH2: number of processes in the job", "WORLD_SIZE"),
    ("MV2_COMM_WORLD_LOCAL_RANK", "mvapich", "index", "MVAPICH2: local rank", "LOCAL_RANK"),
    ("MV2_COMM_WORLD_LOCAL_SIZE", "mvapich", "count", "MVAPICH2: processes on this node", "LOCAL_WORLD_SIZE"),
    ("SKYPILOT_NODE_RANK", "skypilot", "index", "rank of this node; a task starts one process per node", "RANK"),
    ("SKYPILOT_NUM_NODES", "skypilot", "count", "number of nodes in the task", "WORLD_SIZE"),
    ("SKYPILOT_NUM_GPUS_PER_NODE", "skypilot", "index", "GPUs per node; more than one needs torchrun",
     "LOCAL_WORLD_SIZE"),
    ("SKYPILOT_NODE_IPS", "skypilot", "text", "addresses, one per line; the first is the rendezvous host",
     "MASTER_ADDR"),
    ("SKYPILOT_TASK_ID", "skypilot", "text", "determines the rendezvous port", "MASTER_PORT"),
)  # fmt: skip
TABLE = tuple(ContractVariable(*row) for row in _ROWS)

LAUNCHER_NAMES = tuple(row.name for row in TABLE if row.setter == "launcher")
PER_PROCESS_NAMES = LAUNCHER_NAMES[:5]  # only a launcher sets these; a cluster may export MASTER_* to every shell


@dataclass(frozen=True)
class RankEnvironment:
    """The variables that the trainer reads, parsed. A field is named by field_name_of_variable(). None = not set."""

    rank: int
    local_rank: int
    world_size: int
    local_world_size: int
    group_rank: int
    master_addr: str
    master_port: int
    torchelastic_use_agent_store: bool | None
    torchelastic_restart_count: int | None
    accelerate_mixed_precision: str | None
    accelerate_dynamo_backend: str | None
    accelerate_use_deepspeed: bool | None
    accelerate_use_fsdp: bool | None
    accelerate_deepspeed_config_file: Path | None
    run_dir: Path | None
    run_id: str | None
    attempt: int | None
    nodes: int | None
    gpus: int | None
    train_json: Path | None
    deepspeed_json: Path | None
    data_dir: Path | None
    init_from: Path | None


SINGLE_PROCESS: Mapping[str, Any] = {
    "RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1, "LOCAL_WORLD_SIZE": 1, "GROUP_RANK": 0,
    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 0,
}  # fmt: skip
EXPECTED: Mapping[str, str] = {
    "text": "text",
    "path": "a path",
    "index": "an integer >= 0",
    "count": "an integer >= 1",
    "port": "a port, 0 to 65535",
    "flag": "True or False",
    "launcher": f"one of {', '.join(launchers.WORDS)}",
}


def field_name_of_variable(variable: str) -> str:
    """Return the name of a variable's field in RankEnvironment: JOBC_RUN_DIR -> run_dir, RANK -> rank."""
    return variable.removeprefix("JOBC_").lower()


def parse_environment(environ: Mapping[str, str], needed: Sequence[str] = ()) -> RankEnvironment:
    """Parse `environ`. A variable with an empty value counts as not set.

    If no launcher variable is set, the result is a single process, rank 0 of 1. An incomplete set of variables or a
    contradiction between launchers is an error because ranks would train on the wrong shards.
    needed: additional names that must be set, e.g. JOBC_RUN_DIR.
    Raises a BrokenInput that lists every problem.
    """
    present = [row for row in TABLE if environ.get(row.name)]
    values: dict[str, Any] = {row.name: _parse_value(environ[row.name], row.kind) for row in present}
    problems = [f"{row.name}: not set ({row.meaning})" for row in TABLE if row.name in needed and row not in present]
    problems += [
        f"{row.name}: expected {EXPECTED[row.kind]}, found {environ[row.name]!r}"
        for row in present
        if values[row.name] is None
    ]
    setters = dict.fromkeys(row.setter for row in TABLE if row.like)
    claims = [_launcher_variables(setter, present, values) for setter in setters]
    contract, contradictions, sources = launchers.reconcile_variables(
        {name: values[name] for name in LAUNCHER_NAMES if name in values},
        claims,
        values.get("JOBC_LAUNCHER"),
        "TORCHELASTIC_USE_AGENT_STORE" in values,
    )
    problems += contradictions
    launched = any(name in contract for name in PER_PROCESS_NAMES)
    if launched and not contradictions:
        unset = [name for name in LAUNCHER_NAMES if name not in contract]
        problems += [f"{name}: not set, but the launcher set {sources}" for name in unset]
        problems += _out_of_range_messages("RANK", "WORLD_SIZE", contract)
        problems += _out_of_range_messages("LOCAL_RANK", "LOCAL_WORLD_SIZE", contract)
    if problems:
        hint = None
        if contradictions:
            hint = launchers.HINT
        elif launched and not {"MASTER_ADDR", "MASTER_PORT"} <= contract.keys():
            hint = "mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=29500, or export both: the host of rank 0 and a free port"
        raise BrokenInput(f"environment: {len(problems)} problem{'s' * (len(problems) > 1)}", problems, hint)
    values |= contract if launched else SINGLE_PROCESS
    by_field = {field_name_of_variable(name): value for name, value in values.items()}
    arguments: dict[str, Any] = {field.name: by_field.get(field.name) for field in fields(RankEnvironment)}
    return RankEnvironment(**arguments)


def _launcher_variables(
    setter: str, present: Collection[ContractVariable], values: Mapping[str, Any]
) -> launchers.LauncherVariables:
    """Return the values that another launcher has set, keyed by torchrun's names."""
    names = {row.like: row.name for row in present if row.setter == setter and row.like}
    rank, size = (row.name for row in TABLE if row.setter == setter and row.like in launchers.COUNTERS)
    return launchers.LauncherVariables(
        setter, names, {like: values[name] for like, name in names.items()}, (rank, size)
    )


def _parse_value(text: str, kind: str) -> str | Path | int | bool | None:
    if kind == "text":
        return text
    if kind == "launcher":
        return text if text in launchers.WORDS else None
    if kind == "path":
        return Path(text)
    if kind == "flag":
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower())
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        return None
    number = int(text)
    if (kind == "count" and number < 1) or (kind == "port" and number > 65535):
        return None
    return number


def _out_of_range_messages(rank: str, size: str, values: Mapping[str, Any]) -> list[str]:
    rank_value, size_value = values.get(rank), values.get(size)
    if rank_value is None or size_value is None or rank_value < size_value:
        return []
    return [f"{rank}: {rank_value} must be less than {size} {size_value}"]
