"""What a node makes of its start: the calls that node.sh has made, as facts of the node and of its ranks.

Source  torchrun: torch.distributed.run of torch 2.9, options of the rendezvous; accelerate launch 1.10;
        mpirun of Open MPI 4; spawn.py and mpi.py beside the trainer
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .reading import ARTIFACT, RUN, Call, Meeting, Rank, Unreadable
from .standing import standing_of

MOST_LOCAL = 1024  # ranks of a node that are all read back
RT = f"{ARTIFACT}/lib/jobc_trainer/rt/"
MPI_RANK = ("-I", "-S", f"{RT}mpi.py", "--rank")  # how mpirun starts a rank
SETTINGS = (
    "topology.nodes", "topology.procs", "topology.gpus", "launcher", "network.profile", "network.interface",
    "rendezvous.timeout_s", "code.kind", "code.root", "setup.python", "uses_trainer",
)  # fmt: skip # as lock_ports in stage.sh notes them


@dataclass(frozen=True)
class Node:
    """facts: plan key -> value, as node.sh alone has it; setup: the commands that make its environment.

    asked: what node.sh has called, with its words; given: the variables that it was started with
    standings: of what the engine starts, of node.sh, and of what starts the ranks
    """

    facts: Mapping[str, Any]
    ranks: tuple[Rank, ...]
    setup: tuple[tuple[str, ...], ...]
    asked: frozenset[str]
    given: Mapping[str, str]
    standings: tuple[str, str, str]


def read_node(calls: Sequence[Call], files: Mapping[str, str]) -> Node:
    """Raises Unreadable when node.sh does not come to its end, or starts what nobody knows."""
    for call in calls:
        if call.name in ("fail", "die"):
            raise Unreadable(f"node.sh gives up: {' '.join(call.words[2:])}")
    started = [call for call in calls if call.name == "python" and any(word.startswith(RT) for word in call.words)]
    of_mpirun = [call for call in started if call.words[1:5] == MPI_RANK]
    started = [call for call in started if call not in of_mpirun]
    if not started:
        raise Unreadable("node.sh starts nothing")
    call = started[-1]
    facts = _facts(calls, call)
    before = calls[: calls.index(call)]
    folder = next((c.words[-1] for c in reversed(before) if c.name == "cd"), call.folder)
    ranks = tuple(_ranks(call, facts, folder, files, of_mpirun))
    setup = tuple(c.words for c in calls if c.name in ("module", "conda", "source"))
    node = next((c for c in calls if c.name == "node_starts"), Call((), "", {}))
    standings = standing_of(calls, "begins"), node.standing, call.standing
    return Node(facts, ranks, setup, frozenset(" ".join(c.words) for c in calls), node.env, standings)


def _facts(calls: Sequence[Call], started: Call) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "secrets": {c.words[1]: (c.name.removeprefix("secret_"), c.words[2]) for c in calls if c.name[:7] == "secret_"},
        "caches": [c.words[1:] for c in calls if c.name == "use_cache"],
        "name": started.env.get("JOBC_JOB_NAME"),
        "lifecycle.grace_s": _number(started.env.get("JOBC_GRACE_S", "")),
        "threads_per_rank": _number(started.env.get("OMP_NUM_THREADS", "")),
    }
    made = next((c.env["JOBC_RUN_DIR"] for c in calls if c.env.get("JOBC_RUN_DIR", RUN) not in ("", RUN)), "")
    if made:  # by the nodes themselves
        facts["run.dir"] = made.rpartition("/")[0]
    for c in calls:
        if c.name == "settings":
            facts |= {key: _typed(key, value) for key, value in zip(SETTINGS, c.words[1:], strict=True)}
        elif c.name == "join_run":
            facts |= {"topology.nodes": _number(c.words[2]), "lifecycle.max_requeues": _number(c.words[4])}
        elif c.name == "join_bucket":
            facts["lifecycle.max_requeues"] = _number(c.words[2])
        elif c.name == "need_gpu_type":
            facts["resources.gpu_type"] = c.words[1]
        elif c.name == "need_shm":
            facts["resources.shm_bytes"] = _number(c.words[1])
        elif c.name == "enter_container":
            facts |= _container(c.words[1:])
    if "lifecycle.max_restarts" not in facts and started.words[3:4] == (f"{RT}supervise.py",):
        facts["lifecycle.max_restarts"] = _number(started.words[4].partition("=")[2])
    return facts


def _container(words: Sequence[str]) -> dict[str, Any]:
    """As enter_container in stage.sh notes it."""
    runtime, image, shm, count, *rest = words
    mounts = [tuple(rest[i : i + 3]) for i in range(0, int(count), 3)]
    facts: dict[str, Any] = {"container.kind": runtime, "container.image": image, "mounts": mounts}
    facts["container.options"] = list(rest[int(count) :])
    return {**facts, "resources.shm_bytes": _number(shm)} if shm else facts


def _number(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _typed(key: str, text: str) -> Any:
    known = {"true": True, "false": False, "": None}
    return known[text] if text in known else _number(text) if key.startswith(("topology.", "rendezvous.")) else text


def _ranks(
    call: Call, facts: Mapping[str, Any], folder: str, files: Mapping[str, str], of_mpirun: Sequence[Call]
) -> list[Rank]:
    words = list(call.words[3:])  # without python -I -S
    if words[0] == f"{RT}supervise.py":
        words = words[words.index("--") + 1 :]
    if words[0] == f"{RT}spawn.py":  # a task of srun beside the first of its node
        words = list(call.words)
    wait: tuple[str, ...] = ()
    if words[3:4] == [f"{RT}reach.py"]:
        wait, words = tuple(words[4:7]), words[8:]
    launch = _launch(words, call, files, of_mpirun)
    meeting = launch.rendezvous
    modules = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")
    needs_head = words[1:2] == ["-m"] and words[2] in modules
    if bool(wait) != (needs_head and launch.node > 0):
        raise Unreadable(
            f"node {launch.node} {'waits' if wait else 'does not wait'} for node 0 before it starts the ranks"
        )
    if wait and wait[:2] != (meeting.address, meeting.port):
        raise Unreadable(f"node {launch.node} waits for {':'.join(wait[:2])}, and meets at {meeting.place}")
    if launch.argv[:5] != ("python", "-I", "-S", f"{RT}rank.py", "--"):
        raise Unreadable(f"the ranks are not started through rank.py: {' '.join(launch.argv)}")
    return [
        Rank(
            launch.node * launch.procs + local,
            local,
            launch.node,
            launch.nodes * launch.procs,
            launch.argv[5:],
            folder,
            call.env,
            meeting,
        )
        for local in launch.local_ranks
    ]


@dataclass(frozen=True)
class _Launch:
    """What the launcher on one node is told. argv: of a rank, from rank.py's interpreter on."""

    nodes: int
    procs: int
    node: int
    argv: tuple[str, ...]
    rendezvous: Meeting
    local_ranks: tuple[int, ...]


def _launch(words: list[str], call: Call, files: Mapping[str, str], of_mpirun: Sequence[Call]) -> _Launch:
    env = call.env
    if words[:2] == ["python", "-m"]:
        module = words[2]
        if module == "torch.distributed.run":
            return _torchrun(words[3:], "-", env)
        if module == "torch.distributed.launch":
            return _torchrun(words[3:], "_", env)
        if module == "accelerate.commands.launch":
            return _accelerate(words[3:], files, env)
    if words[3:4] == [f"{RT}spawn.py"]:
        return _spawn(words[4:], env)
    if words[3:4] == [f"{RT}mpi.py"]:
        return _mpi(words[4:], call, of_mpirun)
    raise Unreadable(f"no launcher is known that is called so: {' '.join(words)}")


def _options(words: Sequence[str], flags: Sequence[str] = ()) -> tuple[dict[str, str], list[str]]:
    """`--name=value` and `--name value` up to the first other word; `--` ends them. flags: those without a value."""
    found: dict[str, str] = {}
    at = 0
    while at < len(words) and words[at].startswith("--"):
        if words[at] == "--":
            return found, list(words[at + 1 :])
        name, equals, value = words[at][2:].partition("=")
        if not equals and name not in flags:
            at += 1
            value = words[at] if at < len(words) else ""
        found[name.replace("_", "-")] = value
        at += 1
    return found, list(words[at:])


def _need(options: Mapping[str, str], name: str, launcher: str) -> str:
    if name not in options:
        raise Unreadable(f"{launcher} is called without --{name}")
    return options[name]


def _torchrun(words: Sequence[str], spelt: str, env: Mapping[str, str]) -> _Launch:
    name = "torchrun" if spelt == "-" else "torch.distributed.launch"
    options, program = _options(words, ("no-python",))
    if spelt == "-" and "no-python" not in options:
        raise Unreadable("torchrun is called without --no-python, and would run the interpreter as a script")
    argv = [string.Template(word).safe_substitute() for word in program]
    if spelt == "_":
        argv = ["python", "-I", "-S", *argv] if argv[:1] == [f"{RT}rank.py"] else argv
    if spelt == "-" and options.get("log-dir") != f"{RUN}/logs/torchrun":
        raise Unreadable("torchrun is called without --log-dir in the run folder, and would write to /tmp")
    conf = _conf(options)
    nodes, procs = (int(_need(options, option, name)) for option in ("nnodes", "nproc-per-node"))
    if options.get("rdzv-backend") == "c10d":
        node, meeting = _c10d(options, conf, env)
    else:
        node = int(_need(options, "node-rank", name))
        address, port = (_need(options, option, name) for option in ("master-addr", "master-port"))
        meeting = Meeting(address, port, _timeout(conf, name))
    return _Launch(nodes, procs, node, tuple(argv), meeting, _of_node(procs))


def _c10d(options: Mapping[str, str], conf: Mapping[str, str], env: Mapping[str, str]) -> tuple[int, Meeting]:
    """The node, which rank.py takes from its place in the job, and where it meets the others."""
    node, (address, _, port) = int(env["JOBC_NODE_RANK"]), _need(options, "rdzv-endpoint", "torchrun").rpartition(":")
    _need(options, "rdzv-id", "torchrun")
    if conf.get("is_host") != str(int(node == 0)):
        raise Unreadable(f"torchrun on node {node} is called with is_host={conf.get('is_host')}: node 0 has the store")
    if conf.get("read_timeout") != conf.get("join_timeout"):
        raise Unreadable("torchrun waits for the store of node 0 as long as read_timeout says, and not join_timeout")
    return node, Meeting(address, port, conf.get("join_timeout", "600"), "c10d")


def _conf(options: Mapping[str, str]) -> dict[str, str]:
    """Of --rdzv-conf=NAME=VALUE,…"""
    return dict(item.partition("=")[::2] for item in options.get("rdzv-conf", "").split(",") if item)


def _timeout(conf: Mapping[str, str], launcher: str) -> str:
    if "timeout" not in conf:
        raise Unreadable(f"{launcher} is called without --rdzv-conf=timeout=SECONDS, and waits as long as it likes")
    return conf["timeout"]


def _accelerate(words: Sequence[str], files: Mapping[str, str], env: Mapping[str, str]) -> _Launch:
    from .yaml_file import read_documents

    options, program = _options(words, ("no_python",))
    if _need(options, "config-file", "accelerate launch") != f"{ARTIFACT}/accelerate.yaml":
        raise Unreadable("accelerate launch does not read accelerate.yaml of the artifact")
    if _need(options, "log-dir", "accelerate launch") != f"{RUN}/logs/torchrun":
        raise Unreadable("accelerate launch writes its logs elsewhere than to the run folder")
    _need(options, "num-cpu-threads-per-process", "accelerate launch")
    _need(options, "no-python", "accelerate launch")
    tree = read_documents(files, "accelerate.yaml")[0]
    nodes, world = tree.whole("num_machines"), tree.whole("num_processes")
    lone = tree["distributed_type"] == "NO"  # started without torchrun, which would take $$ for $
    argv = program if lone else [string.Template(word).safe_substitute() for word in program]
    conf = _conf(options)
    address = _need(options, "main-process-ip", "accelerate launch")
    port = _need(options, "main-process-port", "accelerate launch")
    node = int(_need(options, "machine-rank", "accelerate launch"))
    if (env.get("MASTER_ADDR"), env.get("MASTER_PORT")) != (address, port):  # what a process without torchrun reads
        raise Unreadable(f"MASTER_ADDR and MASTER_PORT are not {address} and {port}, which accelerate launch is told")
    if nodes < 1 or world % nodes:
        raise Unreadable(f"accelerate.yaml shares {world} processes among {nodes} machines")
    procs = world // nodes
    return _Launch(
        nodes, procs, node, tuple(argv), Meeting(address, port, _timeout(conf, "accelerate launch")), _of_node(procs)
    )


def _of_node(procs: int) -> tuple[int, ...]:
    """Its local ranks; of a number that no machine starts the first two and the last stand for the rest."""
    return tuple(range(procs)) if procs <= MOST_LOCAL else (0, 1, procs - 1)


def _environment(env: Mapping[str, str]) -> tuple[int, int, int, tuple[str, str]]:
    """(nodes, procs, node, address and port) of launchers that read JOBC_ variables."""
    try:
        numbers = [int(env[name]) for name in ("JOBC_NODES", "JOBC_PROCS", "JOBC_NODE_RANK")]
        return numbers[0], numbers[1], numbers[2], (env["JOBC_HEAD_ADDR"], env["JOBC_HEAD_PORT"])
    except (KeyError, ValueError) as error:
        raise Unreadable(f"the launcher does not get {error}") from None


def _spawn(words: list[str], env: Mapping[str, str]) -> _Launch:
    nodes, procs, node, meeting = _environment(env)
    at = words.index("--")
    local: tuple[int, ...] = _of_node(procs)
    timeout = ""
    if words[0] == "--tasks":
        local, timeout = (0,), words[1]
    elif words[0] == "--task":
        local, timeout = (int(words[1]),), words[2]
    return _Launch(nodes, procs, node, tuple(words[at + 1 :]), Meeting(*meeting, timeout), local)


def _mpi(words: list[str], call: Call, of_mpirun: Sequence[Call]) -> _Launch:
    """of_mpirun: what the stage's mpirun, or its daemon, has started; on node 0 mpirun says how many there are."""
    nodes, procs, node, meeting = _environment(call.env)
    if words[0] != ("--node" if node else "--head"):
        raise Unreadable(f"node {node} calls mpi.py {words[0]}; node 0 is the --head, and any other a --node")
    if words[0] == "--head":
        _need_words(words)
        count = int(words[words.index("-np") + 1])
        hosts = words[words.index("--host") + 1].split(",")
        if count != nodes * procs or [host.rpartition(":")[2] for host in hosts] != [str(procs)] * nodes:
            raise Unreadable(f"mpirun starts {count} processes on {','.join(hosts)}, the node knows {nodes}x{procs}")
    if not of_mpirun:
        raise Unreadable("mpirun starts no rank by mpi.py --rank")
    rank = of_mpirun[-1]
    if rank.folder != call.folder:
        raise Unreadable(f"mpirun starts the ranks in {rank.folder}, and node.sh is in {call.folder}")
    return _Launch(nodes, procs, node, rank.words[6:], Meeting(*meeting, words[1]), _of_node(procs))


MPIRUN = (  # what node.sh says of each, beside the counts
    "mpirun", "--map-by slot", "--bind-to none", "--leave-session-attached", "--mca plm rsh",
    "--mca plm_rsh_no_tree_spawn 1", "--mca ras ^slurm,tm,lsf,gridengine,loadleveler,alps",
)  # fmt: skip


def _need_words(words: Sequence[str]) -> None:
    said = f" {' '.join(words)} "
    if list(words[2:4]) != ["--", "mpirun"]:
        raise Unreadable(f"mpi.py --head is told to run {words[3]}, and not mpirun")
    for need in MPIRUN:
        if f" {need} " not in said:
            raise Unreadable(f"mpirun is called without {need}")
