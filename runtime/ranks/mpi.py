"""launcher=mpirun: run one mpirun for the whole job, on node 0, with daemons that jobctl starts on the other nodes.

mpirun starts a daemon (orted) on each other node by calling a program such as ssh. In jobc, this program writes the
daemon's command to the run folder. The launcher on each other node waits for this command, and then execs the daemon.
Thus one MPI world spans the job without ssh between the nodes. Each daemon and its ranks inherit the environment of
their node's launch.sh, so no secret or activated environment has to be on a command line.

Usage: jobctl mpi --head SECONDS -- mpirun…   on node 0: run mpirun; SECONDS: timeout for all daemons to start
       jobctl mpi --agent HOST WORDS…         called by mpirun: write the command for the daemon on HOST (NAME-N)
       jobctl mpi --node SECONDS              on every other node: exec the daemon
       jobctl mpi --rank -- COMMAND…          started by mpirun and the daemons: exec COMMAND, a rank
In:    the JOBC_ variables from node.py; in a rank, also OMPI_COMM_WORLD_RANK and _LOCAL_RANK.
Out:   torchrun's variables in a rank. The exit code is 71 if node 0 or another node does not start in time.
Source: Open MPI 4.1: orte/mca/plm/rsh/plm_rsh_module.c, mpirun(1).
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

from .. import exit_codes
from ..run_folder.run_folder import RunFolder, read_small_file, write_small_file
from ..system import processes
from . import spawn

AGENT = "OMPI_MCA_plm_rsh_agent"  # the program with which mpirun starts its daemons
VPID = "ess_base_vpid"  # followed by the node's number, the only word that differs between the daemons' commands
POLL_S = 0.2
# Blocked in mpirun and its daemons because Slurm sends these signals to every process in a step, and mpirun would kill
# its ranks while they are saving. mpirun and the daemons exit when their ranks have exited; they start the ranks with
# these signals unblocked (orte/mca/odls/default).
NOT_FOR_MPIRUN = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(argv: list[str]) -> int:
    """Run the role and return the exit code, unless this process execs another program."""
    role, arguments = argv[0], argv[1:]
    if role == "--head":
        return run_mpirun(arguments[2:], float(arguments[0]))
    if role == "--agent":
        return publish_daemon_command(arguments[0], shlex.split(" ".join(arguments[1:])))
    if role == "--node":
        return wait_and_exec_orted(float(arguments[0]))
    if role == "--rank":
        exec_rank(arguments[1:])
    raise ValueError(role)


def run_mpirun(mpirun: list[str], timeout_s: float) -> int:
    """Run mpirun and return its exit code, or RENDEZVOUS_FAILED if rank 0 has not started within `timeout_s`.

    mpirun itself waits for its daemons without a timeout, and starts the ranks only after all daemons have started.
    """
    run = RunFolder.from_environment()
    processes.die_with_parent()
    # mpirun splits the agent's command at spaces, and paths may contain spaces, so bash reads it from a variable.
    agent = shlex.join([sys.executable, "-I", "-S", str(Path(__file__).absolute().parents[2]), "mpi", "--agent"])
    os.environ["JOBC_MPI_AGENT"] = f'exec {agent} "$0" "$@"'
    os.environ[AGENT] = 'bash -c eval${IFS}"$JOBC_MPI_AGENT"'
    run.mpi_daemon.unlink(missing_ok=True)  # left over from before a restart in place
    signal.pthread_sigmask(signal.SIG_BLOCK, NOT_FOR_MPIRUN)
    try:
        child = processes.start_in_own_session(mpirun)
    except OSError as error:
        print(f"jobc: cannot start {mpirun[0]}: {error.strerror}", file=sys.stderr)
        return exit_codes.DATA_BROKEN
    deadline = time.monotonic() + timeout_s
    while run.keys_of_attempt(run.rank_state_file(0)) is None:
        for pid, status in processes.reap_children():
            if pid == child:
                return _exit_code(status)
        if time.monotonic() > deadline:
            print(f"jobc: not all nodes joined mpirun within {timeout_s:g} s", file=sys.stderr)
            return exit_codes.RENDEZVOUS_FAILED
        time.sleep(POLL_S)
    return _exit_code(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def publish_daemon_command(host: str, words: list[str]) -> int:
    """Write the daemon's command for the nodes. links.py sends it to nodes that cannot access this run folder."""
    node = int(host.rpartition("-")[2])
    if words[words.index(VPID) + 1] != str(node):
        print(f"jobc: mpirun numbers its daemons in a different order from the nodes: {words}", file=sys.stderr)
        return exit_codes.CRASHED
    if node == 1:  # node 1's command serves all nodes
        write_small_file(RunFolder.from_environment().mpi_daemon, keys={"words": json.dumps(words)}, private=True)
    return exit_codes.DONE


def wait_and_exec_orted(timeout_s: float) -> int:
    """Wait for the command that node 0 writes, and exec the daemon. On timeout, return RENDEZVOUS_FAILED."""
    run, deadline = RunFolder.from_environment(), time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if run.mpi_daemon.parent.is_dir():
            os.listdir(run.mpi_daemon.parent)  # makes a network file system refresh its cache
        if content := read_small_file(run.mpi_daemon):
            words = json.loads(content[1]["words"])
            words[words.index(VPID) + 1] = os.environ["JOBC_NODE_RANK"]
            signal.pthread_sigmask(signal.SIG_BLOCK, NOT_FOR_MPIRUN)
            os.execvp("orted", ["orted", *words[1:]])
        time.sleep(POLL_S)
    print(f"jobc: node 0 did not start mpirun within {timeout_s:g} s", file=sys.stderr)
    return exit_codes.RENDEZVOUS_FAILED


def exec_rank(command: list[str]) -> NoReturn:
    """Set torchrun's variables, as all of jobc's launchers do, and exec the rank. These must match Open MPI's."""
    variables = spawn.rank_environments(os.environ)[int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"])]
    for name, key in (("RANK", "OMPI_COMM_WORLD_RANK"), ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")):
        if os.environ[key] != variables[name]:
            print(f"jobc: mpirun set {key}={os.environ[key]}, but jobc expects {variables[name]}", file=sys.stderr)
            sys.exit(exit_codes.DATA_BROKEN)
    for name in [n for n in os.environ if n.startswith("JOBC_MPI_") or n == AGENT]:
        del os.environ[name]
    os.environ.update(variables)
    os.execvp(command[0], command)


def _exit_code(status: int) -> int:
    return status if status >= 0 else exit_codes.CRASHED
