"""Complete launch.sh's launch line with the run's addresses and with jobctl's wrapper around a rank's command.

In:  the launch line, split into words, such as `torchrun --nnodes=2 -- python3 train.py`; `$JOBC_…` in options stands
     for a variable.
Out: this node's launcher command.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path

from ..exit_codes import DATA_BROKEN
from ..node.node_environment import LAUNCH_MODULE, safe_path_option
from ..node.node_failure import NodeFailure
from ..node.node_settings import NodeSettings

_VARIABLE = re.compile(r"\$(JOBC_[A-Z_]+)")
_SINGLE = re.compile('distributed_type: "?NO"?')  # line in accelerate.yaml: one process, started without torchrun
_OWN_DEEPSPEED = re.compile(r" *deepspeed_config_file: deepspeed\.json")
_DEEPSPEED_OPTION = "--deepspeed_config_file"


def split_launch_line(line: Sequence[str]) -> tuple[list[str], list[str]]:
    if "--" not in line or list(line).index("--") + 1 == len(line):
        title = "the launch line of launch.sh has no command after --"
        raise NodeFailure(DATA_BROKEN, title, "compile the job again with --force")
    position = list(line).index("--")
    return list(line[:position]), list(line[position + 1 :])


def command_of_this_program(name: str, *words: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(Path(sys.argv[0]).resolve()), name, *words]


def wrapped_rank_command(command: Sequence[str]) -> list[str]:
    """Return one rank's command, wrapped in `jobctl rank` (rank.py)."""
    python = [sys.executable] if command[0] == "python3" else [command[0]]
    return command_of_this_program("rank", "--", *python, *command[1:])


def launcher_command(
    launcher: Sequence[str], command: Sequence[str], read: NodeSettings, environ: MutableMapping[str, str]
) -> list[str]:
    """Return the launcher's command. Variables for the launcher are added to `environ`. Raises NodeFailure."""
    name, rank, timeout_s = launcher[0], wrapped_rank_command(command), str(read.rendezvous_timeout_s)
    is_head = environ["JOBC_NODE_RANK"] == "0"
    environ["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = str(read.grace_s)
    if name == "spawn":
        return command_of_this_program("spawn", "--", *rank)
    if name == "srun":  # it has started the other ranks' tasks, which wait for this one
        return command_of_this_program("spawn", "--tasks", timeout_s, "--", *rank)
    if name == "mpirun":
        return _mpirun_command(launcher, rank, read, environ)
    options = _expand_variables(launcher, {**environ, "JOBC_IS_HEAD": str(int(is_head))})
    python = [sys.executable, *safe_path_option(), "-m"]
    if name in ("torchrun", "accelerate"):
        environ.pop("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", None)  # the ranks' rendezvous uses the agents' store
    if name == "torchrun":
        words = [
            *python,
            "torch.distributed.run",
            *options[1:],
            "--no-python",
            "--",
            rank[0],
            *_escape_dollars(rank[1:]),
        ]
    elif name == "accelerate":
        words = [*python, "accelerate.commands.launch", *_accelerate_words(options[2:], rank, environ)]
    elif name == "python3":
        words = [*python, LAUNCH_MODULE, *options[3:], *_escape_dollars(rank[3:])]
    else:
        title = f"the launch line of launch.sh begins with {name}, which is not a known launcher"
        hint = "use one of torchrun, accelerate, python3, spawn, srun, mpirun"
        raise NodeFailure(DATA_BROKEN, title, hint)
    if is_head:
        return words
    # wait until node 0 answers, and print the reason if it does not
    return command_of_this_program(
        "reach", environ["JOBC_HEAD_ADDR"], environ["JOBC_HEAD_PORT"], timeout_s, "--", *words
    )


def _expand_variables(words: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    return [_VARIABLE.sub(lambda match: environ.get(match[1], match[0]), word) for word in words]


def _escape_dollars(words: Sequence[str]) -> list[str]:
    """Return the words for torchrun, which treats them as string.Template, where $$ stands for a dollar."""
    return [word.replace("$", "$$") for word in words]


def _accelerate_words(options: list[str], rank: list[str], environ: MutableMapping[str, str]) -> list[str]:
    lines = Path(environ["JOBC_ARTIFACT"], "accelerate.yaml").read_text(errors="replace").splitlines()
    if _DEEPSPEED_OPTION in options and not any(map(_OWN_DEEPSPEED.fullmatch, lines)):
        position = options.index(_DEEPSPEED_OPTION)  # accelerate.yaml names a different file
        del options[position : position + 2]
    # With distributed_type NO, accelerate sets none of these for its one process; otherwise, torchrun sets its own.
    environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LOCAL_WORLD_SIZE="1", GROUP_RANK="0")
    environ.update(MASTER_ADDR=environ["JOBC_HEAD_ADDR"], MASTER_PORT=environ["JOBC_HEAD_PORT"])
    return [*options, "--no_python", *(rank if any(map(_SINGLE.fullmatch, lines)) else _escape_dollars(rank))]


def _mpirun_command(
    launcher: Sequence[str], rank: list[str], read: NodeSettings, environ: MutableMapping[str, str]
) -> list[str]:
    timeout_s = str(read.rendezvous_timeout_s)
    words = command_of_this_program("mpi", "--rank", "--", *rank)
    # bash expands this on each node, because mpirun itself would parse a lone `:`
    environ["JOBC_MPI_RANK"] = f"cd -- {shlex.quote(os.getcwd())} && exec {shlex.join(words)}"
    if interfaces := environ.get("GLOO_SOCKET_IFNAME"):
        for name in ("OMPI_MCA_oob_tcp_if_include", "OMPI_MCA_btl_tcp_if_include"):
            environ[name] = environ.get(name) or interfaces
    if environ["JOBC_NODE_RANK"] != "0":
        return command_of_this_program("mpi", "--node", timeout_s)
    hosts = [os.uname().nodename, *(f"jobc-{node}" for node in range(1, read.nodes))]  # no name needs to resolve
    filled = _expand_variables(
        launcher, {**environ, "JOBC_MPI_HOSTS": ",".join(f"{host}:{read.procs}" for host in hosts)}
    )
    return command_of_this_program("mpi", "--head", timeout_s, "--", *filled, "bash", "-c", 'eval "$JOBC_MPI_RANK"')
