"""Which settings are reported as having no effect, and which are not."""

from __future__ import annotations

import pytest

from jobc.tests.compiler.diagnosed import found


@pytest.mark.parametrize("backend", ["ssh", "pdsh", "accelerate"])
def test_cpus_set_the_threads_of_ranks_on_hosts(backend: str) -> None:
    assert found("JC4102", "train.py", words=(f"backend={backend}", "hosts=a,b", "cpus=64")) == []


@pytest.mark.parametrize(("gpus", "reported"), [("gpus=0", ["gpu_type"]), ("gpus=8", [])])
def test_a_gpu_type_without_gpus_is_reported(gpus: str, reported: list[str]) -> None:
    words = ("backend=slurm", "time=1h", "cpus=8", "gpu_type=h100", gpus)
    assert [each.key for each in found("JC4311", "train.py", words=words)] == reported
