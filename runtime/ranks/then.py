"""Run the job's command and then each entry of `then`, with all ranks, one after the other in one attempt.

In:  the lines that rank.py runs with bash instead of the job's command: JOBC_THEN, unset for the command itself.
Out: in exit/ATTEMPT/steps/, ended_K_N once all ranks of node N have exited with 0 from command K (1, 2, …), and then_K,
     which node 0 writes once all nodes have written ended_K_N. state/commands contains the number of commands that
     have ended, which a resumed run skips.

The launcher is restarted for each entry, as for a restart in place. A command that fails or is stopped ends the job.
"""

from __future__ import annotations

import os

from .. import exit_codes
from ..run_folder.run_folder import RunFolder, parse_count, read_small_file, write_small_file
from ..system import processes
from ..system.failure import Failure
from .steps import NodeSteps

ENDING = ("SIGTERM", "SIGINT", "SIGHUP")


def skip_ended_commands(run: RunFolder, steps: NodeSteps, entries: int) -> None:
    """On node 0, let all nodes skip the commands that ended in earlier attempts. The last one always runs."""
    content = read_small_file(run.ended_commands_file) if steps.node == 0 else None
    for number in range(1, min(parse_count(content[1].get("count")) if content else 0, entries) + 1):
        steps.write_file(f"then_{number}")


def run_commands(run: RunFolder, steps: NodeSteps, launcher: list[str], entries: list[str]) -> int:
    """Run a launcher for each command; exec the last one. If one fails, stop and return its exit code.

    Raises Failure.
    """
    procs = int(os.environ["JOBC_PROCS"])
    ranks = range(steps.node * procs, (steps.node + 1) * procs)
    for number in range(len(entries) + 1):
        if number < len(entries) and steps.file_exists(f"then_{number + 1}"):
            continue
        if number:
            os.environ["JOBC_THEN"] = entries[number - 1]
            if steps.node == 0:
                print(f"jobc: then {number} of {len(entries)}: {' '.join(entries[number - 1].split())}", flush=True)
        if number == len(entries):
            os.execvp(launcher[0], launcher)
        status = _run_launcher(launcher, steps)
        if status or not _have_all_ranks_finished(run, ranks):
            return status if status >= 0 else exit_codes.CRASHED
        with steps.recorded_as_running():
            _remove_rank_files(run, ranks)  # so that they are not mistaken for those of the next command
            run.mpi_daemon.unlink(missing_ok=True)
            _wait_for_nodes(run, steps, number + 1)
    raise AssertionError


def _run_launcher(launcher: list[str], steps: NodeSteps) -> int:
    """Run a launcher until it exits. Signals are not forwarded, because the supervisor sends them to the ranks."""
    child = processes.start_in_own_session(launcher)
    while True:
        steps.signals.wait(3600)
        for pid, status in processes.reap_children():
            if pid == child:
                return status


def _have_all_ranks_finished(run: RunFolder, ranks: range) -> bool:
    """Return whether all ranks exited with 0 by themselves. A rank that saves when stopped may also exit with 0."""
    ends = [read_small_file(run.rank_exit_file(rank)) for rank in ranks]
    if not all(end and end[0] == str(exit_codes.DONE) for end in ends):
        return False
    states = [read_small_file(run.rank_state_file(rank)) for rank in ranks]
    if any(set(ENDING) & set(state[1].get("signalled", "").split()) for state in states if state):
        _remove_rank_files(run, ranks)  # so that the node does not count as successful
        raise Failure("then did not run, because the ranks were stopped", code=exit_codes.PREEMPTED)
    return True


def _wait_for_nodes(run: RunFolder, steps: NodeSteps, number: int) -> None:
    """Wait until the command with this number has ended on all nodes. Node 0 also records that it has."""
    name = "the command" if number == 1 else f"then {number - 1}"
    steps.wait_for_nodes(
        lambda: [steps.node] if run.stop_mark.exists() else [], name
    )  # until the supervisor sends a signal
    steps.write_file(f"ended_{number}_{steps.node}")
    if steps.node == 0:
        steps.wait_for_nodes(lambda: steps.missing_nodes(f"ended_{number}", range(steps.nodes)), name)
        write_small_file(run.ended_commands_file, keys={"count": number})
        steps.write_file(f"then_{number}")
    steps.wait_for_nodes(lambda: [] if steps.file_exists(f"then_{number}") else [0], name)


def _remove_rank_files(run: RunFolder, ranks: range) -> None:
    for rank in ranks:
        run.rank_state_file(rank).unlink(missing_ok=True)
        run.rank_exit_file(rank).unlink(missing_ok=True)
