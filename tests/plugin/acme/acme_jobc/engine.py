"""Acme, for the verbs of an artifact: `acme submit FILE` queues a job and prints its number. Packed into jobctl.

The number of a run's job is in RUN/state/acme_job. `acme state NUMBER` prints waiting, running or gone.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from jobc.runtime.engines.api import (
    Failure,
    NewRun,
    Place,
    Run,
    StartingEngine,
    State,
    Table,
    client_output_lines,
    number_or_none,
    print_client_output,
    read_text,
    temporary_run,
)

CHECK_S = "60"  # time limit of preflight and smoke


class AcmeEngine(StartingEngine):
    def start(self, new: NewRun, init_from: str, options: argparse.Namespace) -> int:
        answer = self.ask(["acme", "submit", job_file(new)], environment=self.environment_for_launch_sh(new, init_from))
        job = number_or_none(answer.text.strip())
        if answer.code or job is None:
            raise Failure(f"acme rejects the job: {answer.errors.strip()}", "acme queues lists the queues")
        job_of(new.run).write_text(f"{job}\n")
        new.keep()
        print(f"run {new.run.id} is queued as job {job}")
        return 0

    def smoke(self, place: Place) -> int:
        with temporary_run(place, self, place.create_runs_folder()) as new:
            return print_client_output(
                ["acme", "submit", "--wait", job_file(new)], environment=self._check_environ(new, "smoke")
            )

    def preflight(self, place: Place, options: argparse.Namespace) -> Table:
        table = Table([str(node) for node in range(self.job.nodes)])
        with temporary_run(place, self, place.create_runs_folder()) as new:
            words = ["acme", "submit", "--wait", job_file(new)]
            for line in client_output_lines(words, self._check_environ(new, "preflight")):
                table.add(line)
        return table

    def _check_environ(self, new: NewRun, payload: str) -> dict[str, str]:
        return {
            **self.environment_for_launch_sh(new),
            "JOBC_RUN_ID": payload,
            "JOBC_PAYLOAD": payload,
            "JOBC_TIME_LIMIT_S": CHECK_S,
        }

    def signal_or_cancel(self, run: Run, name: str) -> None:
        """Cancel the job, because a queued one has no process."""
        job = number_or_none(read_text(job_of(run)).strip())
        if job is not None:
            self.ask(["acme", "cancel", str(job)])

    def state(self, run: Run) -> State:
        job = number_or_none(read_text(job_of(run)).strip())
        state = "gone" if job is None else self.ask(["acme", "state", str(job)]).text.strip()
        if state in ("waiting", "running") and run.is_stopped:
            return State("stopping", "stopping")
        if state == "waiting":
            return State("queued", f"queued as job {job}")
        if state == "running":
            return State("live", f"running as job {job}")
        if run.nodes():
            return super().state(run)  # acme forgets a job that it cancels before its nodes have ended
        if run.is_stopped:
            return State("stopped", "stopped by jobctl stop before it started")
        return State("failed", "failed: acme does not have its job any more, and no node has started")


def job_file(new: NewRun) -> str:
    return str(new.artifact / "job.acme.sh")


def job_of(run: Run) -> Path:
    return run.path / "state/acme_job"


ENGINE = AcmeEngine
