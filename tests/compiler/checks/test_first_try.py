"""A first try compiles: own script or bundled trainer, one node or two, with only what the engine cannot do without."""

from __future__ import annotations

import pytest

from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import Compiled, Request

NEEDED = {
    "local": (),
    "accelerate": ("hosts=[a,b]",),
    "ssh": ("hosts=[a,b]",),
    "pdsh": ("hosts=[a,b]",),
    "slurm": (),
    "kubernetes": ("image=pytorch/pytorch:2.9.0",),
    "skypilot": ("gpu_type=H100",),
}
SPEC = ("image=pytorch/pytorch:2.9.0", "hosts=[a,b]", "gpu_type=H100", "nodes=2", "gpus=8")


def compiled(backend: str, *words: str, command: tuple[str, ...] | None = ("train.py", "--lr", "0.1")) -> Compiled:
    return compile_job(Request((f"backend={backend}", *words), command))


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("command", [("train.py", "--lr", "0.1"), None], ids=["own script", "trainer"])
@pytest.mark.parametrize("backend", NEEDED)
def test_a_first_try_compiles(backend: str, command: tuple[str, ...] | None, nodes: int) -> None:
    hosts = ("hosts=[a]",) if NEEDED[backend] == ("hosts=[a,b]",) and nodes == 1 else NEEDED[backend]
    job = compiled(backend, f"nodes={nodes}", "gpus=8", *hosts, command=command)
    assert job.plan.topology.nodes == nodes


@pytest.mark.parametrize("backend", NEEDED)
def test_one_spec_with_image_hosts_and_gpu_type_compiles_for_every_backend(backend: str) -> None:
    assert compiled(backend, *SPEC).plan.topology.world_size == 16


def test_an_experiment_of_the_seeds_compiles_for_a_cloud() -> None:
    assert compiled("skypilot", "+experiment=qwen_image", "nodes=8", "gpu_type=H100", command=None)


@pytest.mark.parametrize(
    ("words", "storage"),
    [
        (("backend=local",), "shared"),
        (("backend=slurm", "nodes=2"), "shared"),
        (("backend=kubernetes", "image=x"), "node"),
        (("backend=kubernetes", "image=x", "storage.run=node", "nodes=2"), "node"),
        (
            (
                "backend=kubernetes",
                "image=x",
                "storage.root=/shared/runs",
                "mounts=[{kind: claim, source: team, target: /shared, read_only: false}]",
            ),
            "shared",
        ),
        (("backend=skypilot",), "shared"),
        (("backend=skypilot", "nodes=2"), "node"),
    ],
)
def test_runs_are_shared_where_all_nodes_see_their_folder(words: tuple[str, ...], storage: str) -> None:
    assert compile_job(Request(words, ("train.py",))).plan.run.storage == storage


def test_runs_that_end_with_their_pods_are_a_warning_that_says_what_is_lost() -> None:
    (found,) = [d for d in compiled("kubernetes", "image=x").diagnostics if d.code == "JC4502"]
    assert found.severity.name == "WARNING" and "checkpoints cannot be resumed" in found.because
