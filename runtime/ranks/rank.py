"""Wrap one rank: write its log, forward its signals, and record its exit code.

Usage: jobctl rank [--local-rank=N] -- COMMAND…     (torch.distributed.launch adds the option)
In:    lines of bash to run instead of COMMAND, in the variable JOBC_THEN (then.py);
       the variables RANK from the launcher, JOBC_RUN_DIR, JOBC_ATTEMPT and JOBC_NODE_RANK from node.py;
       JOBC_STDERR, a path to which the rank's stderr is also written (separate_stderr.py).
Out:   the rank's log in logs/rank_NN.log (rank 0 also on stdout), its state in state/rank_NN, its exit code in
       exit/ATTEMPT/rank_NN, and the same exit code.

torchrun and accelerate return 1 for any failed rank, so the rank's exit code is read from the exit file.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import MutableMapping

from .. import exit_codes
from ..run_folder.run_folder import (
    LossyLog,
    RunFolder,
    release_reserved_file,
    reserve_small_file,
    write_all_bytes,
    write_small_file,
)
from ..system import processes
from ..system.processes import SignalQueue
from . import engine_variables
from .separate_stderr import STDERR, open_stderr

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
REPEAT_S = 5.0  # launchers and schedulers repeat signals; repeats within this time count as one
SENDS_TO_ALL = "slurmstepd"  # scancel signals every process of a step, and thus also the rank (Slurm 22.05 to 25.11)
ENDING_ALL = {"TORCHELASTIC_RUN_ID", "OMPI_COMM_WORLD_SIZE"}  # set by launchers that stop all ranks when one has failed
STDERR_WAIT_S = 1.0  # how long to wait for the reader of a separate stderr before output is dropped; delays signals too
SIGNAL_ALL_S = 1.0  # time in which a signal sent to all processes of a step reaches the rank's wrapper after the rank
DRAIN_S = 1.0  # time limit for reading the output that is still in the pipe after the rank has ended


def main(argv: list[str]) -> int:
    lines = os.environ.pop("JOBC_THEN", "")
    command = ["bash", "-e", "-c", lines] if lines else parse_rank_command(argv)
    signals = SignalQueue([signal.SIGCHLD])
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)  # until receive_in_thread() receives them
    processes.die_with_parent()
    try:
        renumber_by_node_position(os.environ)
        engine_variables.make_engine_variables_consistent(os.environ)
        stderr = open_stderr(os.environ.pop(STDERR, ""))
        rank = RankWrapper(RunFolder.from_environment(), int(os.environ["RANK"]), command, stderr)
        return rank.run(signals)
    except (KeyError, ValueError) as error:
        print(f"jobc: rank wrapper: incomplete environment: {error}", file=sys.stderr)
        return exit_codes.DATA_BROKEN
    except OSError as error:
        print(f"jobc: rank {os.environ['RANK']}: cannot write to the run folder: {error}", file=sys.stderr)
        return exit_codes.CRASHED


def parse_rank_command(argv: list[str]) -> list[str]:
    """Return the rank's command with the argument that torch.distributed.launch (torch 1.11 to 2.13) puts before it.

    The argument belongs after the program: `train.py`, `-m MODULE` or the first word. It is not passed to the bundled
    trainer, which reads the environment instead.
    """
    start = argv.index("--") + 1
    given, command = argv[: start - 1], argv[start:]
    if not given or (command[1:2] == ["-m"] and command[2].startswith("jobc_trainer")):
        return command
    script = next((index for index, word in enumerate(command) if word.endswith(".py")), 0)
    index = 3 if command[1:2] == ["-m"] else script + 1
    return [*command[:index], *given, *command[index:]]


def renumber_by_node_position(environment: MutableMapping[str, str]) -> None:
    """Renumber the rank by its node's position in the job if torchrun has numbered the nodes differently.

    The c10d rendezvous sorts nodes by address (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py, 2.4 to 2.13)
    and ignores --node-rank, so rank 0 might not be on node 0, and might be on a different node after a restart.
    All ranks are then clients of the agents' store, so any numbering works. Raises ValueError if the agents do not
    share their store, because torchrun's rank 0 must then host one.
    """
    node, group = environment.get("JOBC_NODE_RANK"), environment.get("GROUP_RANK")
    if "TORCHELASTIC_RUN_ID" not in environment or node is None or group == node:
        return
    if environment.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        raise ValueError("this torch does not share torchrun's store with the ranks; set rendezvous.backend=static")
    rank = int(node) * int(environment["LOCAL_WORLD_SIZE"]) + int(environment["LOCAL_RANK"])
    environment.update({"GROUP_RANK": node, "RANK": str(rank), "ROLE_RANK": str(rank)})


class RankWrapper:
    """One rank of one attempt, from its start to its exit file."""

    def __init__(self, run: RunFolder, rank: int, command: list[str], stderr: int | None = None) -> None:
        """stderr: descriptor to which the rank's stderr is also written"""
        self.run_folder, self.rank, self.command = run, rank, command
        run.rank_exit_file(rank).unlink(missing_ok=True)  # left over from before a restart in place
        reserve_small_file(run.rank_exit_file(rank))
        self.log = run.open_log(run.rank_log_file(rank), f"rank {rank}")
        self.lossy_log = LossyLog(self.log)
        self.stderr_log = None if stderr is None else LossyLog(stderr, STDERR_WAIT_S)
        self.began, self.first_output = int(time.time()), 0  # seconds since the epoch; status reports them
        self.forwarded: dict[int, float] = {}  # signal -> when the rank last received it, monotonic seconds
        self.pipes: list[int] = []  # from which this process copies the rank's output
        self.stderr_pipe = -1  # the pipe for stderr, if it is separate

    def run(self, signals: SignalQueue) -> int:
        # jobc's trainer and smoke test unblock SIGINT once StopSignals handles it
        is_ours = self.command[1:3] in (["-m", "jobc_trainer"], ["-m", "jobc_trainer.smoke"])
        blocked = (signal.SIGINT,) if is_ours else ()
        output, errors, passed = self.log, None, list[int]()
        if self.rank == 0:
            pipe, output = os.pipe()
            self.pipes.append(pipe)
            passed.append(output)
        if self.stderr_log is not None:
            self.stderr_pipe, errors = os.pipe()
            self.pipes.append(self.stderr_pipe)
            passed.append(errors)
        try:
            child = processes.start_in_own_session(self.command, output, errors, blocked=blocked)
        except OSError as error:
            return self._record_start_failure(error)
        signals.receive_in_thread(FORWARDED)
        for descriptor in passed:
            os.close(descriptor)
        self._write_state()
        status = self._wait_for_child(child, signals)
        code, reason = exit_code_and_reason(status, self.forwarded, self.run_folder.stop_mark.exists())
        return self._write_exit(code, reason, status)

    def _wait_for_child(self, child: int, signals: SignalQueue) -> int:
        """Forward signals and output until the child ends. Return its exit code, or -N if signal N killed it."""
        while True:
            arrived, readable = signals.wait(60, *self.pipes)
            for number in arrived:
                if number in FORWARDED:
                    self._forward_signal(child, number, signals.take_sender())
            for pipe in readable:
                self._copy_output(pipe)
            if signal.SIGCHLD in arrived:
                for pid, status in processes.reap_children():
                    if pid == child:
                        self._await_ending_signal(status, signals)
                        self._copy_remaining_output(signals)
                        if self.stderr_log is not None:
                            self.stderr_log.write(b"")  # reports output that was dropped
                        return status

    def _await_ending_signal(self, status: int, signals: SignalQueue) -> None:
        """If a signal ended the rank, wait until it reaches this process too: Slurm signals them in turn."""
        ended_by = next((number for number in ENDING if status in (-number, 128 + number)), None)
        deadline = time.monotonic() + SIGNAL_ALL_S
        while ended_by is not None and ended_by not in self.forwarded and time.monotonic() < deadline:
            arrived, _ = signals.wait(deadline - time.monotonic())
            for number in filter(FORWARDED.__contains__, arrived):
                signals.take_sender()
                self.forwarded[number] = time.monotonic()

    def _forward_signal(self, child: int, number: int, sender: int) -> None:
        now = time.monotonic()
        if now - self.forwarded.get(number, -REPEAT_S) < REPEAT_S:
            return
        self.forwarded[number] = now
        with contextlib.suppress(ProcessLookupError):
            if processes.process_name(sender) != SENDS_TO_ALL:
                os.kill(child, number)
            if number in ENDING:
                os.kill(child, signal.SIGCONT)  # a suspended process would not receive the signal; Slurm sends both too
        with contextlib.suppress(OSError):
            self._write_state()

    def _copy_output(self, pipe: int) -> None:
        """Copy one chunk of the rank's output. At its end, forget the pipe."""
        piece = os.read(pipe, 65536)
        if not piece:
            self.pipes.remove(pipe)
            return
        self.lossy_log.write(piece)
        if pipe == self.stderr_pipe and self.stderr_log is not None:
            self.stderr_log.write(piece)
        if self.rank != 0:
            return
        if not self.first_output:
            self.first_output = int(time.time())
            with contextlib.suppress(OSError):
                self._write_state()
        with contextlib.suppress(OSError):  # a closed terminal must not stop the training
            write_all_bytes(sys.stdout.fileno(), piece)

    def _copy_remaining_output(self, signals: SignalQueue) -> None:
        """Copy the output written before the end. Do not wait, because the rank's daemons may keep a pipe open."""
        deadline = time.monotonic() + DRAIN_S
        while self.pipes and time.monotonic() < deadline:
            _, readable = signals.wait(0, *self.pipes)
            if not readable:
                return
            for pipe in readable:
                self._copy_output(pipe)

    def _record_start_failure(self, error: OSError) -> int:
        line = f"jobc: rank {self.rank}: cannot start {self.command[:1]}: {error.strerror}\n".encode()
        write_all_bytes(self.log, line)
        if self.rank == 0:
            write_all_bytes(sys.stdout.fileno(), line)
        return self._write_exit(exit_codes.DATA_BROKEN, f"cannot start the command: {error.strerror}", 127)

    def _write_exit(self, code: int, reason: str, status: int) -> int:
        """Write the exit file, and return the exit code for the launcher."""
        raw = {"signal": -status} if status < 0 else {"status": status}
        keys = {**raw, "node": os.environ.get("JOBC_NODE_RANK", ""), "time_ns": time.time_ns(), "reason": reason}
        write_small_file(self.run_folder.rank_exit_file(self.rank), str(code), keys)
        release_reserved_file(self.run_folder.rank_exit_file(self.rank))
        if code == exit_codes.PREEMPTED and ENDING_ALL & os.environ.keys():
            return 0  # otherwise, the launcher kills ranks that are still saving: torchrun after 30 s, mpirun sooner
        return code

    def _write_state(self) -> None:
        keys: dict[str, object] = {
            "pid": os.getpid(),
            "start_ticks": processes.process_start_time(os.getpid()),
            "attempt": self.run_folder.attempt,
            "node": os.environ.get("JOBC_NODE_RANK", ""),
            "began": self.began,
        }
        if self.first_output:
            keys["first_output"] = self.first_output
        if self.forwarded:
            keys["signalled"] = " ".join(signal.Signals(number).name for number in self.forwarded)
        write_small_file(self.run_folder.rank_state_file(self.rank), keys=keys)


def exit_code_and_reason(status: int, forwarded: dict[int, float], stopped: bool) -> tuple[int, str]:
    """Return a rank's exit code and the reason for it.

    status:    exit status, or -N if signal N killed the rank, as os.waitstatus_to_exitcode returns it.
    forwarded: signals that the wrapper forwarded. A rank that one of them ended has stopped as requested (a shell
               returns 128 + N).
    stopped:   whether the stop mark exists. If so, the run must not be requeued, and SIGTERM was requested even if it
               reached the rank before the wrapper (scancel sends it to all processes of a step).
    """
    stop = exit_codes.DONE if stopped else exit_codes.PREEMPTED
    for number in (*forwarded, *([signal.SIGTERM] if stopped else [])):
        if status in (-number, 128 + number):
            return stop, f"ended by {signal.Signals(number).name}, as requested"
    if status == -signal.SIGKILL:
        return exit_codes.CRASHED, exit_codes.KILLED
    if status == exit_codes.PREEMPTED:
        return stop, "exit status 75"
    if status in exit_codes.PRIORITY:
        return status, f"exit status {status}"
    return exit_codes.CRASHED, exit_codes.describe_exit_status(status)
