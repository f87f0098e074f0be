"""A job's exit codes, the same for every launcher and backend, and the rule for which code wins if ranks differ."""

from __future__ import annotations

import signal
from collections.abc import Iterable

DONE = 0
CRASHED = 1
DATA_BROKEN = 65
PEER_LOST = 69
RENDEZVOUS_FAILED = 71
PREEMPTED = 75
INTERRUPTED = 130  # returned by a foreground launch after Ctrl-C; never a rank's code

# Highest priority first: an invalid configuration must not be retried just because another rank lost its peer.
PRIORITY = (DATA_BROKEN, RENDEZVOUS_FAILED, CRASHED, PEER_LOST, PREEMPTED, DONE)

MEANING = {
    DONE: "done",
    CRASHED: "crashed",
    DATA_BROKEN: "invalid data or configuration: a restart will not help",
    PEER_LOST: "lost another rank, its network link or storage",
    RENDEZVOUS_FAILED: "rendezvous timeout: the ranks did not find each other",
    PREEMPTED: "stopped early",
    INTERRUPTED: "stopped by Ctrl-C",
}

# jobc and torchrun kill a rank by killing its wrapper. If the wrapper is alive, something else killed the rank.
KILLED = "killed by SIGKILL, not sent by jobc: probably out of memory (check dmesg)"

# Why a rank that was not asked to stop usually receives each signal, and what to do about it.
USUAL_CAUSES: dict[int, str] = {
    signal.SIGABRT: "usually a failed check in C++ or CUDA, or NCCL's timeout; the end of the log shows which",
    signal.SIGSEGV: "usually a native extension built for another torch, CUDA or Python",
    signal.SIGBUS: "usually /dev/shm is full (df /dev/shm): raise shm, or use fewer data loader workers",
    signal.SIGILL: "usually a program built for a newer CPU",
    signal.SIGFPE: "usually an integer division by zero in native code",
    signal.SIGKILL: "probably out of memory (check dmesg)",
    signal.SIGXCPU: "exceeded the CPU time limit (ulimit -t)",
    signal.SIGXFSZ: "exceeded the file size limit (ulimit -f)",
    signal.SIGTERM: "not sent by jobc",
}
USUAL_STATUS = {
    2: "usually invalid arguments",
    126: "a command cannot be executed: check its permissions and its #! line",
    127: "a command was not found",
}
USAGE_ERROR = "exit status 2: "  # in a reason
AFTER_USAGE_ERROR = "compile or submit the job again with valid arguments; --resume would repeat these"


def describe_exit_status(status: int) -> str:
    """Describe how a rank ended, and the usual cause. status: exit status, or -N if signal N killed it."""
    if status < 0:
        words, cause = f"killed by {_signal_name(-status)}", USUAL_CAUSES.get(-status, "")
    elif 128 < status < 160:  # what a shell returns if a signal killed its command
        words, cause = f"exit status {status} ({_signal_name(status - 128)})", USUAL_CAUSES.get(status - 128, "")
    else:
        words, cause = f"exit status {status}", USUAL_STATUS.get(status, "")
    return f"{words}: {cause}" if cause else words


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def worst_exit_code(codes: Iterable[int]) -> int:
    """Return a node's exit code, which is the first of its ranks' codes in the order of PRIORITY. All must be in it."""
    return min(codes, key=PRIORITY.index)
