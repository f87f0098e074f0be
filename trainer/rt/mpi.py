"""launcher=mpirun: one mpirun for the whole job, on node 0, whose daemons are started by the nodes' own node.sh.

mpirun starts a daemon (orted) on each other node by calling a program such as ssh. Here that program writes the
daemon's command into the run folder, and the launcher of each other node, which waits for it, becomes the daemon. So
one MPI world spans the job, needs no second way into a node, and each daemon and its ranks have the environment of
their own node.sh: secrets and activated environments are on no command line.

Usage  jobctl mpi --head SECONDS -- mpirun…   on node 0: runs mpirun; SECONDS for all daemons to be there
       jobctl mpi --agent HOST WORDS…         mpirun calls it: the command of the daemon of HOST, NAME-N
       jobctl mpi --node SECONDS              on every other node: becomes the daemon
       jobctl mpi --rank -- COMMAND…          mpirun and the daemons start it: becomes COMMAND, a rank
In     the JOBC_ variables of node.sh; OMPI_COMM_WORLD_RANK and _LOCAL_RANK in a rank
Out    torchrun's variables in a rank; exit 71 when node 0, or another, is not there in time
Source Open MPI 4.1: orte/mca/plm/rsh/plm_rsh_module.c, mpirun(1)
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

from . import exit_codes, processes, spawn
from .run_folder import RunFolder, read_small, write_small

AGENT = "OMPI_MCA_plm_rsh_agent"  # the program that mpirun starts its daemons with
VPID = "ess_base_vpid"  # the only word in which the daemons' commands differ: the number of the node
POLL_S = 0.2
# Slurm sends them to every process of a step, and mpirun would kill its ranks, which are saving. It and its daemons end
# with their ranks; both unblock in a rank what they found blocked (orte/mca/odls/default).
NOT_FOR_MPIRUN = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(argv: list[str]) -> int:
    """The exit code, unless this process becomes another program."""
    role, arguments = argv[0], argv[1:]
    if role == "--head":
        return run_mpirun(arguments[2:], float(arguments[0]))
    if role == "--agent":
        return hand_on(arguments[0], shlex.split(" ".join(arguments[1:])))
    if role == "--node":
        return become_daemon(float(arguments[0]))
    if role == "--rank":
        become_rank(arguments[1:])
    raise ValueError(role)


def run_mpirun(mpirun: list[str], timeout_s: float) -> int:
    """Its exit code. It waits without end for a daemon, and starts no rank before all are there: so rank 0 tells."""
    run = RunFolder.from_environment()
    processes.die_with_parent()
    # The agent's words are split at each blank, and paths may have some: so bash reads the real words from a variable.
    agent = shlex.join([sys.executable, "-I", "-S", str(Path(__file__).absolute().parents[2]), "mpi", "--agent"])
    os.environ["JOBC_MPI_AGENT"] = f'exec {agent} "$0" "$@"'
    os.environ[AGENT] = 'bash -c eval${IFS}"$JOBC_MPI_AGENT"'
    run.mpi_daemon.unlink(missing_ok=True)  # of an earlier start in place
    signal.pthread_sigmask(signal.SIG_BLOCK, NOT_FOR_MPIRUN)
    try:
        child = processes.start(mpirun)
    except OSError as error:
        print(f"jobc: cannot start {mpirun[0]}: {error.strerror}", file=sys.stderr)
        return exit_codes.DATA_BROKEN
    deadline = time.monotonic() + timeout_s
    while not has_started(run):
        for pid, status in processes.reap():
            if pid == child:
                return _code(status)
        if time.monotonic() > deadline:
            print(f"jobc: not all nodes joined mpirun within {timeout_s:g} s", file=sys.stderr)
            return exit_codes.RENDEZVOUS_FAILED
        time.sleep(POLL_S)
    return _code(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def has_started(run: RunFolder) -> bool:
    """Rank 0 of this attempt has."""
    state = read_small(run.rank_state(0))
    return state is not None and state[1].get("attempt") == str(run.attempt)


def hand_on(host: str, words: list[str]) -> int:
    """Leave the daemon's command for the nodes; links.py takes it to those that do not see this run folder."""
    node = int(host.rpartition("-")[2])
    if words[words.index(VPID) + 1] != str(node):
        print(f"jobc: mpirun numbers its daemons in a different order from the nodes: {words}", file=sys.stderr)
        return exit_codes.CRASHED
    if node == 1:  # it stands for all
        write_small(RunFolder.from_environment().mpi_daemon, keys={"words": json.dumps(words)}, private=True)
    return exit_codes.DONE


def become_daemon(timeout_s: float) -> int:
    """Wait for the command that node 0 leaves, and become it."""
    run, deadline = RunFolder.from_environment(), time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if run.mpi_daemon.parent.is_dir():
            os.listdir(run.mpi_daemon.parent)  # makes a network file system look again
        if content := read_small(run.mpi_daemon):
            words = json.loads(content[1]["words"])
            words[words.index(VPID) + 1] = os.environ["JOBC_NODE_RANK"]
            signal.pthread_sigmask(signal.SIG_BLOCK, NOT_FOR_MPIRUN)
            os.execvp("orted", ["orted", *words[1:]])
        time.sleep(POLL_S)
    print(f"jobc: node 0 has not started mpirun within {timeout_s:g} s", file=sys.stderr)
    return exit_codes.RENDEZVOUS_FAILED


def become_rank(command: list[str]) -> NoReturn:
    """Set torchrun's variables, as every launcher of jobc does; they must match Open MPI's."""
    variables = spawn.ranks(os.environ)[int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"])]
    for name, key in (("RANK", "OMPI_COMM_WORLD_RANK"), ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")):
        if os.environ[key] != variables[name]:
            print(f"jobc: {key} is {os.environ[key]}, and {name} should be {variables[name]}", file=sys.stderr)
            sys.exit(exit_codes.DATA_BROKEN)
    for name in [n for n in os.environ if n.startswith("JOBC_MPI_") or n == AGENT]:
        del os.environ[name]
    os.environ.update(variables)
    os.execvp(command[0], command)


def _code(status: int) -> int:
    return status if status >= 0 else exit_codes.CRASHED
