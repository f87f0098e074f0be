"""Run the commands of a heterogeneous job's other groups (backend.groups) next to the ranks. Python 3.8.

In:  an srun command for each group.
Out: one log for each group: RUN/logs/group_N.log, with N from 1.
Source: slurm.schedmd.com/heterogeneous_jobs.html; 22.05 to 25.11.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

END_S = 30  # time for a command to exit after SIGTERM
# srun's exit status if it or its tasks were ended by SIGTERM. This is not a failure: Slurm (scancel, a preemption) or
# the user is ending the job.
ENDED_BY_SIGTERM = (-signal.SIGTERM, 128 + signal.SIGTERM)


class GroupSteps:
    def __init__(self) -> None:
        self._steps: list[subprocess.Popen[bytes]] = []
        self.failure = ""  # which command has failed

    def start(self, commands: Sequence[Sequence[str]], environ: Mapping[str, str], run: Path) -> None:
        """Start the groups' commands. Raises OSError."""
        for number, words in enumerate(commands, 1):
            with open(run / f"logs/group_{number}.log", "ab") as log:
                step = subprocess.Popen(
                    words,
                    env=dict(environ),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # not interrupted by Ctrl-C
                )
            self._steps.append(step)

    def check_for_failure(self) -> bool:
        """Return whether a command has failed, and set `failure`."""
        for number, step in enumerate(self._steps, 1):
            code = step.poll()
            if code and code not in ENDED_BY_SIGTERM and not self.failure:
                self.failure = f"the command of group {number} exited with {code}: see logs/group_{number}.log"
        return bool(self.failure)

    def end(self) -> None:
        """End the commands that are still running. On SIGTERM, srun ends its tasks."""
        self.check_for_failure()
        for step in self._steps:
            step.terminate()
        for step in self._steps:
            try:
                step.wait(END_S)
            except subprocess.TimeoutExpired:
                step.kill()
                step.wait()


def split_steps(words: list[str]) -> list[list[str]]:
    """Return the srun commands, which ` : srun` separates: that of the ranks, then one for each group."""
    steps: list[list[str]] = [[]]
    for position, word in enumerate(words):
        if word == ":" and words[position + 1 : position + 2] == ["srun"]:
            steps.append([])
        else:
            steps[-1].append(word)
    return steps
