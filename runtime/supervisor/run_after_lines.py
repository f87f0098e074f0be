"""Run the lines of `after` on node 0, once the ranks of all nodes have ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from .. import exit_codes
from ..ranks.bash_lines import BashLines
from ..run_folder.run_folder import RunFolder, parse_count, read_small_file
from ..system import processes
from ..system.processes import SignalQueue
from .node_output import NodeOutput

LOOK_S = 1.0
ENDING = (signal.SIGQUIT, signal.SIGINT)  # not SIGTERM, which asks the ranks to stop; `after` runs after that


def job_exit_code(run: RunFolder, own: int) -> int:
    if own not in exit_codes.PRIORITY:
        return own
    files = [run.first_failure, *run.node_exit_file(0).parent.glob("node_*")]
    codes = [parse_count(content[0], exit_codes.CRASHED) for content in map(read_small_file, files) if content]
    return exit_codes.worst_exit_code([own, *(code for code in codes if code in exit_codes.PRIORITY)])


def run_after_lines(
    lines: str, code: int, output: NodeOutput, signals: SignalQueue, beat: Callable[[], None], until: float
) -> str:
    """Run the lines, with the job's exit code in JOBC_EXIT_CODE. until: time.monotonic() when they are stopped.

    Return why they failed, or "". Lines stopped by jobctl stop or Ctrl-C do not count as failed.
    """
    output.print_jobc_line("after")
    read_end, write_end = os.pipe()
    try:
        bash = BashLines("after", lines, write_end, {**os.environ, "JOBC_EXIT_CODE": str(code)})
    except OSError as error:
        return f"after: cannot start bash: {error.strerror}"
    finally:
        os.close(write_end)
    readable, status, stopped, is_late = [read_end], None, False, False
    while status is None:
        arrived, ready = signals.wait(LOOK_S, *readable)
        if ready and not output.copy_chunk(read_end):
            readable.clear()
        stopped = stopped or any(number in ENDING for number in arrived)
        is_late = time.monotonic() > until
        if stopped or is_late:
            processes.kill_descendants(os.getpid())
        status = next((ended for pid, ended in processes.reap_children() if pid == bash.pid), None)
        beat()
        output.write_pending()
    processes.kill_descendants(os.getpid())  # processes left in the background
    output.copy_until_end(read_end)
    os.close(read_end)
    if stopped:
        output.print_jobc_line("after: stopped")
        return ""
    return "after: stopped, because the time limit was reached" if is_late else bash.failure_reason(status)
