"""The environment contract: every variable that a rank may read, who sets it, what it means.

In   a mapping of environment variables
Out  Env, or one BrokenInput that lists everything missing or ill-typed
TABLE is the only place where a name is written down; docs and tests read it. Standard library only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .errors import BrokenInput

Setter = Literal["launcher", "torchrun", "backend", "node.sh", "user"]
Kind = Literal["text", "path", "index", "count", "port", "flag"]


@dataclass(frozen=True)
class Variable:
    """One row of the contract. `kind`: index is an int >= 0, count an int >= 1, flag is True or False."""

    name: str
    setter: Setter
    kind: Kind
    meaning: str


TABLE: tuple[Variable, ...] = (
    Variable("RANK", "launcher", "index", "this process among all processes of the job"),
    Variable("LOCAL_RANK", "launcher", "index", "this process among those of its node"),
    Variable("WORLD_SIZE", "launcher", "count", "processes of the job"),
    Variable("LOCAL_WORLD_SIZE", "launcher", "count", "processes on this node"),
    Variable("GROUP_RANK", "launcher", "index", "this node among the nodes of the job"),
    Variable("MASTER_ADDR", "launcher", "text", "host of rank 0, where the ranks meet"),
    Variable("MASTER_PORT", "launcher", "port", "TCP port on that host"),
    Variable("TORCHELASTIC_USE_AGENT_STORE", "torchrun", "flag", "True: torchrun itself serves MASTER_PORT"),
    Variable("TORCHELASTIC_RESTART_COUNT", "torchrun", "index", "restarts made in place by torchrun"),
    Variable("JOBC_RUN_DIR", "backend", "path", "folder of this run: logs, metrics, checkpoints, control"),
    Variable("JOBC_RUN_ID", "backend", "text", "name of this run, e.g. 20260131-120000-1f2e"),
    Variable("JOBC_JOB_ID", "backend", "text", "the engine's own job id"),
    Variable("JOBC_NODE_RANK", "backend", "index", "this node among the nodes of the job"),
    Variable("JOBC_NODE_LIST", "backend", "text", "hosts of the job, as people read them: node[1-4]"),
    Variable("JOBC_HEAD_ADDR", "backend", "text", "host name or address of node 0"),
    Variable("JOBC_HEAD_PORT", "backend", "port", "rendezvous port on node 0; 0 = node 0 chooses and tells the others"),
    Variable("JOBC_ATTEMPT", "backend", "index", "0 for the first start of the run, +1 for each requeue or resume"),
    Variable("JOBC_TIME_LIMIT_S", "backend", "index", "seconds until the supervisor asks the ranks to save; 0 = none"),
    Variable("JOBC_JOB_NAME", "node.sh", "text", "name of the job"),
    Variable("JOBC_NODES", "node.sh", "count", "nodes of the job"),
    Variable("JOBC_PROCS", "node.sh", "count", "processes started on each node"),
    Variable("JOBC_GPUS", "node.sh", "index", "GPUs of each node; 0 = CPU only"),
    Variable("JOBC_TRAIN_JSON", "node.sh", "path", "train.json, what to train (trainer/config.py)"),
    Variable("JOBC_LIB", "node.sh", "path", "folder that holds jobc_trainer"),
    Variable("JOBC_GRACE_S", "node.sh", "index", "seconds between the stop signal and the kill"),
    Variable("JOBC_DATA_DIR", "user", "path", "folder against which a data path is resolved"),
    Variable("JOBC_INIT_FROM", "user", "path", "run folder whose newest checkpoint gives the first weights (fork)"),
)

LAUNCHER_NAMES = tuple(row.name for row in TABLE if row.setter == "launcher")
PER_PROCESS_NAMES = LAUNCHER_NAMES[:5]  # a cluster may export MASTER_* for everybody; these only a launcher sets


@dataclass(frozen=True)
class Env:
    """The contract as values. A field is the variable's name in lower case without JOBC_; None = not set."""

    rank: int
    local_rank: int
    world_size: int
    local_world_size: int
    group_rank: int
    master_addr: str
    master_port: int
    torchelastic_use_agent_store: bool | None
    torchelastic_restart_count: int | None
    run_dir: Path | None
    run_id: str | None
    job_id: str | None
    node_rank: int | None
    node_list: str | None
    head_addr: str | None
    head_port: int | None
    attempt: int | None
    time_limit_s: int | None
    job_name: str | None
    nodes: int | None
    procs: int | None
    gpus: int | None
    train_json: Path | None
    lib: Path | None
    grace_s: int | None
    data_dir: Path | None
    init_from: Path | None


SINGLE_PROCESS: Mapping[str, Any] = {
    "rank": 0, "local_rank": 0, "world_size": 1, "local_world_size": 1, "group_rank": 0,
    "master_addr": "127.0.0.1", "master_port": 0,
}  # fmt: skip


def field_name(variable: str) -> str:
    """JOBC_RUN_DIR -> run_dir, RANK -> rank."""
    return variable.removeprefix("JOBC_").lower()


def read(environ: Mapping[str, str], needed: Sequence[str] = ()) -> Env:
    """The contract's values in `environ`. An empty value counts as not set.

    No launcher's variable set = one process, rank 0 of 1. Some but not all set = an error: a launcher that
    was half understood would train on wrong shards. needed: further names that must be set, e.g. JOBC_RUN_DIR
    Raises BrokenInput that names every problem.
    """
    present = {row.name for row in TABLE if environ.get(row.name, "") != ""}
    launched = any(name in present for name in PER_PROCESS_NAMES)
    problems = []
    if launched:
        given = ", ".join(name for name in LAUNCHER_NAMES if name in present)
        problems += [f"{name}: not set, but the launcher set {given}" for name in LAUNCHER_NAMES if name not in present]
    problems += [f"{name}: not set ({_row(name).meaning})" for name in needed if name not in present]

    values: dict[str, Any] = {}
    for row in TABLE:
        value = None
        if row.name in present:
            value = _parse(environ[row.name], row.kind)
            if value is None:
                problems.append(f"{row.name}: expected {_EXPECTED[row.kind]}, found {environ[row.name]!r}")
        values[field_name(row.name)] = value
    if launched:
        problems += _out_of_range("RANK", "WORLD_SIZE", values) + _out_of_range(
            "LOCAL_RANK", "LOCAL_WORLD_SIZE", values
        )
    if problems:
        raise BrokenInput(f"environment: {len(problems)} problem{'s' * (len(problems) > 1)}", problems)
    return Env(**values if launched else {**values, **SINGLE_PROCESS})


_EXPECTED: Mapping[Kind, str] = {
    "text": "text",
    "path": "a path",
    "index": "an integer >= 0",
    "count": "an integer >= 1",
    "port": "a port, 0 to 65535",
    "flag": "True or False",
}


def _parse(text: str, kind: Kind) -> str | Path | int | bool | None:
    """The value, or None when `text` is not of that kind."""
    if kind == "text":
        return text
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


def _out_of_range(rank: str, size: str, values: Mapping[str, Any]) -> list[str]:
    rank_value, size_value = values[field_name(rank)], values[field_name(size)]
    if rank_value is None or size_value is None or rank_value < size_value:
        return []
    return [f"{rank}: {rank_value} is not below {size} {size_value}"]


def _row(name: str) -> Variable:
    return next(row for row in TABLE if row.name == name)
