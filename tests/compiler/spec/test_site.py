"""cluster=NAME: where profiles are found, what they are told by, and what their facts refuse before anything starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompiledJob, CompileRequest

LAB = """# @package _global_
defaults:
  - override /backend: slurm
backend:
  version: "23.11"
site:
  gpus: 8
  gpu_types: [A100, H100]
  cpus: 96
  mem: 1TiB
  torch: 2.8.0
  partition: main
  partitions:
    main: {nodes: 16, time: 2d}
    debug: {nodes: 2, gpus: 2, gpu_types: [A100], time: 30m}
    cpu: {nodes: 100, gpus: 0, gpu_types: [], mem: 256GiB}
"""

Compile = Callable[..., CompiledJob]


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    """words -> the job of those words and cluster=lab."""

    def run(*words: str, profile: str = LAB, command: tuple[str, ...] | None = None) -> CompiledJob:
        (tmp_path / "cluster").mkdir(exist_ok=True)
        (tmp_path / "cluster" / "lab.yaml").write_text(profile)
        return compile_job(CompileRequest(("cluster=lab", *words), command, (("user", tmp_path),)))

    return run


def refused(compiled: Compile, *words: str, **more: str) -> list[str]:
    with pytest.raises(CompileError) as error:
        compiled(*words, **more)
    return [f"{d.code} {d.key}: {d.because} | {d.hint}" for d in error.value.diagnostics]


@pytest.mark.parametrize(
    ("words", "cores"),
    [
        ("gpus=2", 24),
        ("gpus=8", 96),
        ("gpus=8 procs=5", 95),  # the same number for each rank
        ("gpus=2 cpus=4", 4),
        ("gpus=0", None),
        ("gpus=2 queue.name=debug", None),  # the site's cores are of another machine
    ],
)
def test_cores_and_gpus_of_the_site_give_the_cores_of_a_job(compiled: Compile, words: str, cores: int | None) -> None:
    job = compiled(*words.split())
    assert job.plan.resources.cpus == cores
    if cores and cores != 4:
        assert {"site.cpus", "site.gpus"} <= {*job.source_map.table["resources.cpus"]}


def test_a_profile_chooses_backend_and_options_and_every_value_names_its_file(compiled: Compile) -> None:
    job = compiled("nodes=2")
    assert job.backend.name == "slurm"
    value = job.source_map.spec["backend.version"]
    assert (value.value, str(value.origin)) == ("23.11", "user:cluster/lab.yaml:5:12")
    assert "user:cluster/lab.yaml" in next(a.text for a in job.artifacts if a.path == ".jobc/job.json")


def test_the_command_line_wins_over_the_profile(compiled: Compile) -> None:
    assert compiled("backend.version=24.05", "site.gpus=16", "gpus=16").source_map.spec["site.gpus"].value == "16"


def test_options_of_another_backend_say_how_to_go_on(compiled: Compile) -> None:
    (said,) = refused(compiled, "backend=local")
    assert said.startswith("JC1201 backend.version: the file sets this option for another backend, not for local")
    assert compiled("backend=local", "~backend.version").backend.name == "local"


FITTING = [
    ["gpus=8", "nodes=16", "time=2d", "cpus=96", "mem=1TiB", "gpu_type=H100"],
    ["queue.name=debug", "gpus=2", "gpu_type=A100", "time=30m"],
    ["queue.name=cpu", "nodes=100", "time=365d"],
    ["queue.name=main,debug", "gpus=8", "time=1h"],
]


@pytest.mark.parametrize("words", FITTING, ids=" ".join)
def test_what_fits_compiles(words: list[str], compiled: Compile) -> None:
    compiled(*words)


REFUSED = [
    (["gpus=16"], "JC2060 gpus: partition main has 8 GPUs on each node | gpus=8"),
    (
        ["queue.name=debug", "gpus=8"],
        "JC2060 gpus: partition debug has 2 GPUs on each node | gpus=2 or queue",
    ),
    (["queue.name=cpu", "gpus=1"], "JC2060 gpus: partition cpu has 0 GPUs on each node | gpus=0, queue.name=debug or"),
    (["gpus=1", "gpu_type=V100"], "JC2061 gpu_type: the site has A100, H100 | gpu_type="),
    (["queue.name=debug", "gpu_type=H100"], "JC2061 gpu_type: the site has A100 |"),
    (["queue.name=cpu", "gpu_type=H100"], "JC2061 gpu_type: the site's machines have no GPUs | gpu_type=null gpus=0"),
    (["cpus=128"], "JC2062 cpus: partition main has 96 cores on each node | cpus=96"),
    (["queue.name=cpu", "mem=512GiB"], "JC2062 mem: partition cpu has 256GiB | mem=256GiB, queue.name=debug or"),
    (["time=3d"], "JC2063 time: partition main has 2d as its maximum time | time=2d"),
    (["queue.name=man"], "JC2064 queue.name: partitions of this site: cpu, debug, main | queue.name=main"),
    (["site.partition=x"], "JC2064 site.partition: partitions of this site: cpu, debug, main |"),
    (["nodes=17"], "JC2065 nodes: partition main has 16 nodes | nodes=16 or queue.name=cpu"),
    (["site.torch=2.3.1"], "JC2066 site.torch: jobc's own trainer needs torch 2.4 or newer |"),
    (
        ["site.requires=[queue.account,time]"],
        "JC2067 queue.account: the cluster profile requires these keys (site.requires), and",
    ),
    (["site.requires=[queue.acount]"], "JC2068 site.requires: the key does not exist | site.requires=[queue.account]"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED, ids=lambda value: " ".join(value)[:40])
def test_what_does_not_fit_is_refused_when_it_is_compiled(words: list[str], message: str, compiled: Compile) -> None:
    (said,) = refused(compiled, *words)
    assert said.startswith(message)


def test_all_that_a_site_requires_is_said_at_once_with_the_words_to_type(compiled: Compile) -> None:
    requires = "site.requires=[queue.account,time,cpus]"
    (said,) = refused(compiled, requires, "cpus=2")
    typed = said.partition("| ")[2].partition(",")[0]
    assert typed.split(" ")[0].startswith("queue.account=")
    compiled(requires, "cpus=2", *typed.split())


def test_a_site_that_says_nothing_refuses_nothing(compiled: Compile) -> None:
    words = ("backend=slurm", "nodes=999", "gpus=64", "time=365d", "queue.name=any", "cpus=999", "gpu_type=X1")
    compiled(*words, profile="# @package _global_\nqueue: {account: abc}\n")


def test_own_programs_may_need_no_new_torch(compiled: Compile) -> None:
    compiled("site.torch=1.13", command=("train.py",))
