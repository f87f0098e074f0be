"""`hosts` on the command line counts the nodes, unless `nodes` is on the command line as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobc.compiler.cli.why.line import explain_spec_key
from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.sweeps import plan_sweep
from jobc.compiler.pipeline.types import CompiledJob, CompileRequest

HOSTS = "hosts=node[1-3]"
SITE = "# @package _global_\nnodes: 2\nhosts: node[1-4]\n"


@pytest.fixture(autouse=True)
def in_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "two.yaml").write_text("# @package _global_\nnodes: 2\n")
    (tmp_path / "experiment" / "site.yaml").write_text(SITE)
    (tmp_path / "list").write_text("a\nb\nc\n")
    monkeypatch.chdir(tmp_path)


def compiled(*words: str) -> CompiledJob:
    return compile_job(CompileRequest(words, ("prog",), (("input", Path.cwd()),)))


@pytest.mark.parametrize("backend", ["ssh", "pdsh", "accelerate", "slurm"])
@pytest.mark.parametrize("word", [HOSTS, "hosts=[a,b,c]", "hosts=a,b,c", "hosts=@list", "+experiment=two hosts=@list"])
def test_hosts_on_the_command_line_count_the_nodes(backend: str, word: str) -> None:
    job = compiled(f"backend={backend}", *word.split())
    assert (job.spec.nodes, len(job.plan.resources.hosts)) == (3, 3)
    assert not [d for d in job.diagnostics if d.key in ("hosts", "nodes")]


@pytest.mark.parametrize(
    ("words", "nodes"),
    [
        (("nodes=2",), 2),
        (("queue.exclude=node2",), 2),
        (("queue.exclude=node[1-2]", "+experiment=two"), 1),
        (("hosts=null",), 1),
        (("~hosts", "+hosts=node9"), 1),
    ],
)
def test_what_counts_is_what_the_job_may_use(words: tuple[str, ...], nodes: int) -> None:
    assert compiled("backend=slurm", HOSTS, *words).spec.nodes == nodes


def test_hosts_in_a_file_are_an_inventory() -> None:
    job = compiled("backend=ssh", "+experiment=site")
    assert job.plan.resources.hosts == ("node1", "node2") and not job.diagnostics


def test_a_backend_that_ignores_hosts_does_not_count_them() -> None:
    assert compiled("backend=local", HOSTS).spec.nodes == 1
    assert [d.code for d in compiled("backend=local", HOSTS, "nodes=2").diagnostics] == ["JC4102"]


def test_typed_nodes_win_and_are_refused_when_they_are_more() -> None:
    job = compiled("backend=ssh", HOSTS, "nodes=2")
    assert job.plan.resources.hosts == ("node1", "node2") and not job.diagnostics
    with pytest.raises(CompileError) as refused:
        compiled("backend=ssh", HOSTS, "nodes=4")
    assert [d.code for d in refused.value.diagnostics] == ["JC2005"]


def test_references_to_nodes_have_the_counted_value() -> None:
    job = compiled("backend=ssh", HOSTS, "env.N=${nodes}", "labels.n=${nodes}")
    assert (job.spec.env["N"], job.spec.labels["n"]) == ("3", "3")


def test_why_says_that_nodes_are_counted() -> None:
    counted = [*explain_spec_key(compiled("backend=ssh", HOSTS).source_map, "nodes")]
    assert counted == ["  spec     nodes = 3", f"           counted from {HOSTS} on the command line"]
    typed = [*explain_spec_key(compiled("backend=ssh", HOSTS, "nodes=3").source_map, "nodes")]
    assert typed[1].strip() == "command line: nodes=3"


def test_each_point_of_a_sweep_counts_its_own_hosts() -> None:
    words = ("hosts=[a,b],[c,d,e]", "backend=ssh,local")
    assert [point.spec.nodes for point in plan_sweep(CompileRequest(words, ("prog",)))] == [2, 1, 3, 1]


def test_a_wrong_number_is_shown_at_the_hosts() -> None:
    with pytest.raises(CompileError) as refused:
        compiled("backend=ssh", HOSTS, "site.nodes=2")
    assert [(d.key, str(d.origin)) for d in refused.value.diagnostics] == [("nodes", f"command line: {HOSTS}")]
