"""A first try compiles: own script or bundled trainer, one node or two, with only what the engine requires."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.sweeps import compile_sweep
from jobc.compiler.pipeline.types import CompiledJob, CompileRequest
from jobc.tests.compiler.hints import words_of

ON_HOSTS = ("ssh", "pdsh", "accelerate")
BACKENDS = ("local", *ON_HOSTS, "slurm", "kubernetes", "skypilot")
SPEC = ("image=pytorch/pytorch:2.9.0", "hosts=[a,b]", "gpu_type=H100", "nodes=2", "gpus=8")


def compiled(backend: str, *words: str, command: tuple[str, ...] | None = ("train.py", "--lr", "0.1")) -> CompiledJob:
    return compile_job(CompileRequest((f"backend={backend}", *words), command))


def check_first_try(backend: str, *words: str, command: tuple[str, ...] | None = ("train.py", "--lr", "0.1")) -> bool:
    """Return whether the job compiles at once. Otherwise, one error must report what is missing, with a hint that
    works.
    """
    try:
        compiled(backend, *words, command=command)
    except CompileError as error:
        (missing,) = error.diagnostics
        assert compiled(backend, *words, *words_of(missing.hint), command=command)
        return False
    return True


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("command", [("train.py", "--lr", "0.1"), None], ids=["own script", "trainer"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_first_try_compiles(backend: str, command: tuple[str, ...] | None, nodes: int) -> None:
    is_complete = backend not in ON_HOSTS or (backend == "accelerate" and nodes == 1)
    assert check_first_try(backend, f"nodes={nodes}", "gpus=8", command=command) is is_complete


@pytest.mark.parametrize(
    ("backend", "without"),
    [
        ("kubernetes", ("backend.default_image=null",)),
        ("kubernetes", ("backend.gpu_resource=amd.com/gpu",)),
        ("skypilot", ("backend.gpu_types=[]", "backend.down=false")),
    ],
)
def test_what_is_missing_is_one_error_whose_hint_compiles(backend: str, without: tuple[str, ...]) -> None:
    assert not check_first_try(backend, "nodes=2", "gpus=8", *without)


def test_one_spec_with_image_hosts_and_gpu_type_compiles_for_every_backend(tmp_path: Path) -> None:
    values = "\n".join(word.replace("=", ": ", 1) for word in SPEC)
    (tmp_path / "spec.yaml").write_text(f"defaults: [config, _self_]\n{values}\n")
    words = (f"backend={','.join(BACKENDS)}",)
    jobs = compile_sweep(CompileRequest(words, ("train.py",), (("project", tmp_path),), config_name="spec"))
    sizes = {job.backend.name: job.plan.topology.world_size for job in jobs}
    assert sizes == {**dict.fromkeys(BACKENDS, 16), "local": 8}
    images = {job.backend.name for job in jobs if job.plan.container.image and job.plan.container.kind != "none"}
    assert images == {"kubernetes", "skypilot"}


def test_an_image_that_no_word_asks_to_run_in_a_container_is_run_where_the_engine_runs_images() -> None:
    assert compiled("skypilot", "image=x").plan.container.kind == "pod"
    assert compiled("skypilot", "image=x", "container=none").plan.container.kind == "none"


def test_gpus_of_any_type_are_every_type_that_has_so_many() -> None:
    (task,) = [a.text for a in compiled("skypilot", "gpus=1", "backend.infra=aws").artifacts if "task.sky" in a.path]
    asked = yaml.safe_load(task)["resources"]["any_of"]
    assert asked == [{"accelerators": "H100:1"}, {"accelerators": "L40S:1"}]  # others are sold by eight there
    with pytest.raises(CompileError, match="JC4703"):
        compiled("skypilot", "gpus=3", "backend.infra=aws")


@pytest.mark.parametrize("infra", ["null", "k8s/dev"])
def test_weights_that_a_cloud_deletes_are_a_warning(infra: str) -> None:
    words = ("nodes=2", f"backend.infra={infra}", "storage.run=node")
    (found,) = [d for d in compiled("skypilot", *words).diagnostics if d.code == "JC4724"]
    assert found.severity.name == "WARNING"
    mended = compiled("skypilot", *words, *words_of(found.hint))
    assert "JC4724" not in [d.code for d in mended.diagnostics]


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
    assert compile_job(CompileRequest(words, ("train.py",))).plan.run.storage == storage


def test_runs_that_end_with_their_pods_are_a_warning_that_says_what_is_lost() -> None:
    (found,) = [d for d in compiled("kubernetes", "image=x").diagnostics if d.code == "JC4502"]
    assert found.severity.name == "WARNING" and "a run cannot be resumed" in found.because
