"""What acme knows about a run: `acme state NUMBER` prints waiting, running or gone. Packed into jobctl."""

from __future__ import annotations

from jobc.trainer.rt.engines.api import Engine, Run, State, ended, number, read_text


class AcmeEngine(Engine):
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
            return ended(run, self.exit_code(run), self.reason(run))
        if run.is_stopped:
            return State("stopped", "stopped by stop.sh before it started")
        return State("failed", "failed: acme does not have its job any more, and no node has started")


ENGINE = AcmeEngine
