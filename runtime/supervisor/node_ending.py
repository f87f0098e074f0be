"""End a node: report the verdict on its ranks to the user, the peers and the run folder, or restart the ranks."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from .. import exit_codes
from ..run_folder.run import quote_shell_word
from ..run_folder.run_folder import (
    REQUEUES,
    RunFolder,
    parse_count,
    read_small_file,
    release_reserved_file,
    write_small_file,
)
from ..system.processes import SignalQueue
from .peers import GOODBYE_S
from .verdict import LATE, MOST_LINES, RankEnd, Verdict, judge_node, read_attempt_log, read_log_tail

if TYPE_CHECKING:
    from .restarts import Restarts
    from .supervise import Supervisor

STOPPED = "the run was stopped immediately"
WATCHFUL_S = 0.1  # pause between checks while an event is expected soon
CAN_RESTART = (exit_codes.CRASHED, exit_codes.PEER_LOST)
CAN_GO_ON = (exit_codes.PREEMPTED, exit_codes.PEER_LOST, exit_codes.INTERRUPTED)  # these can be resumed
# A word as printed by shlex.quote or bash's printf %q. Nothing else is printed, because people paste the command.
_WORD = r"""(?:(?:[\w@%+=:,./~-]|\\[^\n]|'[^'\x00-\x1f\x7f-\x9f]*'|"'")+|\$'(?:[^'\\]|\\[^\n])*')"""
RESUME_COMMAND = re.compile(rf"(?=.*jobctl'? submit --resume ){_WORD} submit --resume {_WORD}")


class NodeEnding:
    """How one launch of a node's ranks ends. recorded: contents of the node's state file."""

    def __init__(self, supervisor: Supervisor, signals: SignalQueue) -> None:
        self.supervisor, self.signals = supervisor, signals
        self.run_folder, self.node = supervisor.run_folder, supervisor.node
        self.peers, self.restarts, self.output = supervisor.peers, supervisor.restarts, supervisor.output
        self.after = supervisor.after if self.node == 0 else ""
        self.was_asked = bool(supervisor.asked)  # to stop
        self.recorded = dict(supervisor.state)

    def judge_and_report(self, status: int) -> int | None:
        """Judge, report and record the end. Return the exit code, or None to restart all ranks in place.

        Everything known is on disk before the first wait because this process may be killed during any wait.
        status: the launcher's exit status.
        """
        killed, at_once = self.supervisor.killed, self.supervisor.at_once
        stop_requested = self.was_asked or killed
        launcher_output = read_attempt_log(self.run_folder, self.run_folder.launcher_log_file(self.node))
        ranks = self.supervisor.ranks
        verdict = judge_node(self.run_folder, self.node, ranks, status, launcher_output, stop_requested, killed)
        restarts = self.restarts if self._may_restart(verdict) else None
        self._record_end(verdict, is_final=not restarts, is_over=not self.after)
        has_lost_peer = verdict.code == exit_codes.PEER_LOST and not stop_requested
        lost = self.peers.describe_unreachable_nodes() if has_lost_peer else ""
        verdict = verdict._replace(reason=lost or verdict.reason)
        self._report_failure(verdict, launcher_output)
        blame = (verdict.first.rank, verdict.first.time_ns) if verdict.first and not lost else ()
        self.peers.announce_failure(verdict.code, verdict.reason, *blame)
        if restarts and self._agree_on_restart(restarts):
            return None
        if self.after:
            verdict = self._run_after(verdict)
        if restarts or lost or self.after:
            self._record_end(verdict, is_final=True)
        code = self._exit_code(verdict)
        for line in self.supervisor.written.describe_written_files() if self.node == 0 and not at_once else ():
            self.output.print_jobc_line(line)
        why = lost or (verdict.reason if verdict.reason.endswith(LATE) else "")
        is_stopped = code == exit_codes.DONE and self.run_folder.stop_mark.exists()
        meaning = "stopped" if is_stopped else exit_codes.MEANING[code]
        self.output.print_jobc_line(f"exit {code}: {meaning}" + (f": {why}" if why else ""))
        for line in (self._run_line(code), self._resume_line(code, verdict.reason)) if self.node == 0 else ():
            if line:
                self.output.print_jobc_line(line)
        self.peers.announce_end()
        self._wait_while(lambda: self.peers.are_linked, time.monotonic() + (GOODBYE_S if at_once else float("inf")))
        self._stop_lingering()
        for file in (self.run_folder.node_state_file(self.node), self.run_folder.node_exit_file(self.node)):
            release_reserved_file(file)
        self.output.flush()
        return code

    def _exit_code(self, verdict: Verdict) -> int:
        return exit_codes.INTERRUPTED if self.supervisor.interrupted else verdict.code

    def _run_after(self, verdict: Verdict) -> Verdict:
        """Run the lines of `after` once all nodes' ranks have ended. If the lines fail, a success becomes a crash."""
        from .run_after_lines import job_exit_code, run_after_lines  # packed only in jobs with `after`

        began = time.monotonic()
        until = max(self.supervisor.time_is_up_at, began) + self.supervisor.grace_s

        def is_waiting() -> bool:
            return bool(self.peers.running_nodes(time.monotonic() - began))

        if skipped := STOPPED if self.supervisor.at_once else self._wait_while(is_waiting, until):
            self.output.print_jobc_line(f"after: skipped, because {skipped}")
            return verdict
        code = job_exit_code(self.run_folder, self._exit_code(verdict))
        why = run_after_lines(self.after, code, self.output, self.signals, self.peers.touch_state_file, until)
        if why:
            self.output.print_jobc_line(why)
        return Verdict(exit_codes.CRASHED, None, why) if why and verdict.code == exit_codes.DONE else verdict

    def _record_end(self, verdict: Verdict, is_final: bool, is_over: bool = True) -> None:
        """Write how the node's ranks ended.

        Before a restart (not is_final), write only exit and reason, in case this process is killed during the restart.
        Before the lines of `after` run (not is_over), the state file records no end, because the run is still live.
        """
        end: dict[str, object] = {"exit": self._exit_code(verdict), "reason": verdict.reason}
        if verdict.first:
            end["failed_rank"] = verdict.first.rank
        if is_final:
            if is_over:
                end["ended"] = int(time.time())
                if self.peers.are_linked:
                    end["lingers"] = "yes"
            self._write_state_file(
                self.run_folder.node_exit_file(self.node), str(verdict.code), {"reason": verdict.reason}
            )
        self.recorded = {**self.supervisor.state, **end}
        self._write_state_file(self.run_folder.node_state_file(self.node), "", self.recorded)

    def _stop_lingering(self) -> None:
        """Remove `lingers` from the state file. Called when all peers know that this node has ended.

        Does not change a later supervisor's state file, or a run that was removed.
        """
        state = read_small_file(self.run_folder.node_state_file(self.node))
        if state and state[1].get("pid") == str(self.recorded["pid"]) and self.recorded.pop("lingers", ""):
            self._write_state_file(self.run_folder.node_state_file(self.node), "", self.recorded)

    def _report_failure(self, verdict: Verdict, launcher_output: bytes) -> None:
        if verdict.first:
            self._print_first_failure(verdict.first)
        elif verdict.code not in (exit_codes.DONE, exit_codes.PREEMPTED):
            self.output.print(b"".join(launcher_output.splitlines(keepends=True)[-MOST_LINES:]))
            if verdict.reason.encode() not in launcher_output:
                self.output.print_jobc_line(verdict.reason)

    def _print_first_failure(self, first: RankEnd) -> None:
        """Print which rank failed first, and the end of its log unless the console has just printed that (rank 0)."""
        how = f"exit {first.code}"
        if first.reason != f"exit status {first.code}":
            how = first.reason if first.reason.startswith("exit status ") else f"{how}: {first.reason}"
        head = f"rank {first.rank} failed first ({how})"
        log = self.run_folder.rank_log_file(first.rank)
        tail = read_log_tail(self.run_folder, log)
        if tail and self.output.was_just_printed(tail):
            self.output.print_jobc_line(f"{head}, see the end of {quote_shell_word(str(log))}")
        else:
            self.output.print_jobc_line(f"{head}; the end of {quote_shell_word(str(log))}:")
            self.output.print(tail or b"(it printed nothing)\n")

    def _write_state_file(self, path: Path, first_line: str, keys: Mapping[str, object]) -> None:
        try:
            write_small_file(path, first_line, keys)
        except OSError as error:
            self.output.print_jobc_line(f"cannot write to the run folder: {error}")

    def _wait_while(self, condition: Callable[[], bool], deadline: float) -> str:
        """Wait until the condition is false, and return "", or return why the wait ended early.

        SIGQUIT ends the wait. Ctrl-C also stops the other nodes. deadline: monotonic seconds.
        """
        while condition():
            self.peers.touch_state_file()
            self.output.write_pending()
            arrived, _ = self.signals.wait(WATCHFUL_S)
            if signal.SIGINT in arrived:
                self.supervisor.mark_stopped()
            if signal.SIGQUIT in arrived:
                return STOPPED
            if time.monotonic() > deadline:
                return "other nodes are still running after the time limit"
        return ""

    def _may_restart(self, verdict: Verdict) -> bool:
        """Return whether this node may restart: after a crash, a lost peer, or a stop because a peer failed."""
        run = self.run_folder
        can = verdict.code in CAN_RESTART or (self.was_asked and run.first_failure.exists())
        stopped = self.supervisor.told or run.first_stop_file.exists() or run.stop_mark.exists()
        return can and not stopped and self.restarts is not None and self.restarts.made < self.restarts.most

    def _agree_on_restart(self, restarts: Restarts) -> bool:
        """Agree on a restart with the other nodes. Return whether all of them restart their ranks."""
        self.peers.close()  # the next start opens new links; meanwhile, the nodes communicate through the run folder
        number = restarts.made + 1
        if not restarts.agree_on_restart(self.supervisor.grace_s):
            return False
        self.output.print_jobc_line(
            f"restart {number} of {restarts.most}: all ranks continue from the newest checkpoint"
        )
        self.output.flush()
        return True

    def _run_line(self, code: int) -> str:
        """Return a line about how the run ended, or "" if it ended like this node, with `code`."""
        worst, reason = worst_end(self.run_folder, code, "")
        failed = f"the run failed (exit {worst}: {exit_codes.MEANING[worst]}){reason and f': {reason}'}"
        return "" if worst == code else failed

    def _resume_line(self, code: int, reason: str) -> str:
        """Return a line with the command that resumes the run, or with other advice, or "" if there is none.

        code, reason: how this node ended
        """
        code, reason = worst_end(self.run_folder, code, reason)
        content = read_small_file(self.run_folder.resume_command)
        keys = content[1] if content else {}
        command = keys.get("command", "")
        has_progress = self.run_folder.ended_commands_file.exists() or any(self.run_folder.checkpoints.glob("step_*"))
        if not RESUME_COMMAND.fullmatch(command):
            return ""
        if code in (exit_codes.PREEMPTED, exit_codes.PEER_LOST) and os.environ.get(REQUEUES):
            return ""
        if code in CAN_GO_ON or (code == exit_codes.CRASHED and has_progress):
            return f"resume with: {command}"
        if code != exit_codes.CRASHED:
            return ""
        if exit_codes.USAGE_ERROR in reason:
            return exit_codes.AFTER_USAGE_ERROR
        return f"resume with: {command} --new-code" if "new_code" in keys else ""


def worst_end(run: RunFolder, code: int, reason: str) -> tuple[int, str]:
    """Return how the run ended: the code, and the reasons. code, reason: how this node ended"""
    first = read_small_file(run.first_failure)
    other = parse_count(first[0], code) if first else code
    if not first or not {code, other} <= {*exit_codes.PRIORITY}:
        return code, reason
    return exit_codes.worst_exit_code((code, other)), "; ".join(filter(None, [reason, first[1].get("reason", "")]))
