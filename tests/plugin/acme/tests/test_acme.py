"""jobc's own suite for backends, and what only acme does."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from jobc.compiler.testing.suite import BackendSuite, CompileError, run_verb, write_compiled_job

HERE = Path(__file__).parent


class TestAcme(BackendSuite):
    backend = "acme"
    golden = HERE / "golden"
    stand_ins = HERE / "bin"
    queued = ("queue.name=closed",)

    def test_the_job_file_asks_for_what_the_job_needs(self) -> None:
        job = self.text("job.acme.sh", "nodes=2", "cpus=8", "time=90m", "queue.name=night", "backend.placement=spread")
        wanted = {"--nodes=2", "--cpus=8", "--time=5400", "--queue=night", "--placement=spread"}
        assert wanted <= {line.removeprefix("#ACME ") for line in job.splitlines()}

    def test_a_queue_is_a_word_of_the_command_line(self) -> None:
        assert "#ACME --queue=slow\n" in self.text("job.acme.sh")
        assert "#ACME --queue=fast\n" in self.text("job.acme.sh", "acme_queue=fast")

    def test_labels_are_text_whatever_they_look_like(self) -> None:
        labels = self.text("labels.acme.yaml", "labels.version=1.10", "labels.on=yes")
        assert 'labels:\n  "on": "yes"\n  version: "1.10"\n' in labels

    @pytest.mark.parametrize("word", ["launcher=mpirun", "storage.run=node", "secrets.TOKEN=env:TOKEN"])
    def test_the_hint_for_a_word_that_acme_does_not_know_compiles(self, word: str) -> None:
        with pytest.raises(CompileError) as refused:
            self.compile(word)
        (diagnostic,) = refused.value.diagnostics
        assert diagnostic.because.startswith("the backend supports ")
        self.compile(diagnostic.hint.rpartition(", or ")[2])

    @pytest.mark.parametrize("queue", ["closed", "slow"], ids=["queued", "running"])
    def test_a_job_can_be_stopped_at_any_time(self, queue: str, tmp_path: Path) -> None:
        compiled = self.compile("launcher=spawn", f"queue.name={queue}", command=("sleep", "60"))
        artifact = write_compiled_job(compiled, tmp_path / "artifacts")
        assert run_verb(artifact, "submit", tmp_path, self.environment(tmp_path)).returncode == 0
        (run,) = tmp_path.glob("runs/*/*")
        until = time.monotonic() + 30
        while queue == "slow" and not (run / "state/node_00").exists() and time.monotonic() < until:
            time.sleep(0.1)
        stopped = run_verb(artifact, "stop", tmp_path, self.environment(tmp_path))
        assert stopped.returncode == 0 and "stopped by jobctl stop" in stopped.stdout
        assert (run / "state/node_00").exists() == (queue == "slow")

    def text(self, path: str, *words: str) -> str:
        return next(a.text for a in self.compile(*words).artifacts if a.path == path)

    @pytest.mark.parametrize(
        ("words", "codes"),
        [
            (("queue.name=Big!",), ["ACME01"]),
            (("acme_queue=fast", "nodes=3"), ["ACME02"]),
            (("backend.placement=near", "backend.queue.most_nodes=none"), ["JC1202", "JC1202"]),
            (("image=x", "container=docker"), ["JC4101", "JC4101"]),
            (("secrets.TOKEN=env:TOKEN",), ["JC4101"]),
            (("launcher=mpirun", "storage.run=node"), ["JC4101", "JC4101"]),
        ],
    )
    def test_what_acme_cannot_do_is_refused(self, words: tuple[str, ...], codes: list[str]) -> None:
        with pytest.raises(CompileError) as refused:
            self.compile(*words)
        assert [d.code for d in refused.value.diagnostics] == codes
