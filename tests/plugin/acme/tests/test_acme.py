"""jobc's own suite for backends, and what only acme does."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobc.compiler.diagnostics import CompileError
from jobc.compiler.testing import BackendSuite

HERE = Path(__file__).parent


class TestAcme(BackendSuite):
    backend = "acme"
    golden = HERE / "golden"
    stand_ins = HERE / "bin"

    def test_the_job_file_asks_for_what_the_job_needs(self) -> None:
        job = self.text("job.acme.sh", "nodes=2", "cpus=8", "time=90m", "queue.name=night", "backend.placement=spread")
        wanted = {"--nodes=2", "--cpus=8", "--time=5400", "--queue=night", "--placement=spread"}
        assert wanted <= {line.removeprefix("#ACME ") for line in job.splitlines()}

    def test_a_queue_is_a_word_of_the_command_line(self) -> None:
        assert "#ACME --queue=slow\n" in self.text("job.acme.sh")
        assert "#ACME --queue=fast\n" in self.text("job.acme.sh", "acme_queue=fast")

    def test_labels_are_text_whatever_they_look_like(self) -> None:
        labels = self.text("labels.acme.yaml", "labels.version=1.10", "labels.on=yes")
        assert 'labels:\n  version: "1.10"\n  "on": "yes"\n' in labels

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
        ],
    )
    def test_what_acme_cannot_do_is_refused(self, words: tuple[str, ...], codes: list[str]) -> None:
        with pytest.raises(CompileError) as refused:
            self.compile(*words)
        assert [d.code for d in refused.value.diagnostics] == codes
