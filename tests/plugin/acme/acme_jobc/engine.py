"""What acme knows about a run: `acme state NUMBER` prints waiting, running or gone. Packed into jobctl."""

from __future__ import annotations

from jobc.trainer.rt.engines.api import Engine, Run, State, number, read_text


class AcmeEngine(Engine):
    def signal(self, run: Run, name: str) -> None:
        """Cancel the job, because a queued one has no process."""
        job = number(read_text(run.path / "state/acme_job").strip())
        if job is not None:
            self.ask(["acme", "cancel", str(job)])

    def state(self, run: Run) -> State:
        job = number(read_text(run.path / "state/acme_job").strip())
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
            return State("stopped", "stopped by stop.sh before it started")
        return State("failed", "failed: acme does not have its job any more, and no node has started")


ENGINE = AcmeEngine
