"""hosts=@FILE: the format of a host file, where it is searched for, and that it is an input of the compile."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompiledJob, CompileRequest
from jobc.compiler.spec.host_list import expand_hostlist, fold_hostlist

SEED = "192.168.1.10\n192.168.1.11\n"  # as a team has it: the first line is the master


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def compiled(*words: str, **folders: Path) -> CompiledJob:
    return compile_job(CompileRequest(("backend=ssh", *words), None, tuple(folders.items())))


def text(job: CompiledJob, path: str) -> str:
    return next(a.text for a in job.artifacts if a.path == path)


def refused(*words: str, **folders: Path) -> list[str]:
    """Return `CODE place: title` for each diagnostic."""
    with pytest.raises(CompileError) as error:
        compiled(*words, **folders)
    return [f"{d.code} {d.origin}: {d.title}" for d in error.value.diagnostics]


def test_the_first_line_is_node_0_and_only_the_used_hosts_are_emitted() -> None:
    Path("node_ip_list.txt").write_text(SEED + "192.168.1.12  # a spare\n")
    assert text(compiled("hosts=@node_ip_list.txt", "nodes=2"), "hosts.txt") == SEED


@pytest.mark.parametrize(
    ("content", "hosts"),
    [
        ("a\nb\n", "a b"),
        ("a\r\nb\r\n", "a b"),
        ("\ufeffa\n\n  b  \n# c\n", "a b"),
        ("a,b\nc, d\n", "a b c d"),
        ("gpu[01-03]\nlogin\n", "gpu01 gpu02 gpu03 login"),
        ("worker-1 slots=8\nworker-2 slots=8 max_slots=8\n", "worker-1 worker-2"),
        ("me@10.0.0.1 # head\n", "me@10.0.0.1"),
    ],
)
def test_forms_of_a_file(content: str, hosts: str) -> None:
    Path("list").write_bytes(content.encode())
    nodes = len(hosts.split())
    assert text(compiled("hosts=@list", f"nodes={nodes}"), "hosts.txt").split() == hosts.split()


@pytest.mark.parametrize("name", ["list.txt", "./hosts", "my/hostfile"])
def test_a_file_without_an_at_sign_is_not_a_host(name: str) -> None:
    Path("my").mkdir()
    for file in ("list.txt", "hosts", "my/hostfile"):
        Path(file).write_text(SEED)
    title = f"hosts: '{name}' is a file, not a host list"
    assert refused(f"hosts={name}") == [f"JC1202 command line: hosts={name}: {title}"]
    assert compiled("hosts=other.txt")


def test_excluded_hosts_are_passed_over_and_not_counted() -> None:
    Path("list").write_text("a\nb\nc\n")
    assert text(compiled("hosts=@list", "queue.exclude=a", "nodes=2"), "hosts.txt") == "b\nc\n"
    assert refused("hosts=@list", "queue.exclude=a", "nodes=3") == [
        "JC2005 command line: hosts=@list: 2 hosts for 3 nodes"
    ]


def test_a_nodelist_is_enough_for_a_backend_that_needs_hosts() -> None:
    assert text(compiled("queue.nodelist=node[6-7]", "nodes=1"), "hosts.txt") == "node6\n"
    where = "command line: queue.nodelist=node[6-7]"
    assert refused("queue.nodelist=node[6-7]", "nodes=3") == [f"JC4403 {where}: 2 hosts in queue.nodelist for 3 nodes"]


@pytest.mark.parametrize(
    ("words", "nodelist"),
    [
        (("queue.nodelist=n[1-3]",), "n1,n2"),  # sbatch 22.05.8 -N 2 -w n[1-3]: invalid number of nodes (-N 3-2)
        (("queue.nodelist=n[1-3]", "queue.exclude=n1"), "n2,n3"),  # -w n[1-3] -x n1: Invalid node name specified
        (("queue.nodelist=n[1-2]", "queue.exclude=n1"), "n2"),  # the other node is of Slurm's choice
        (("queue.nodelist=n1", "queue.exclude=n1"), None),
        (("hosts=n[1-3]", "queue.exclude=n1"), "n2,n3"),
    ],
)
def test_slurm_gets_no_host_that_is_excluded_and_no_more_than_nodes(
    words: tuple[str, ...], nodelist: str | None
) -> None:
    script = text(compile_job(CompileRequest(("backend=slurm", "nodes=2", *words))), "job.sbatch")
    asked = dict(re.findall(r"^#SBATCH --(nodelist|exclude)=(.*)$", script, re.MULTILINE))
    assert asked.get("nodelist") == nodelist
    assert asked.get("exclude") == ("n1" if len(words) == 2 else None)


def test_it_gives_the_bytes_that_the_same_hosts_typed_give() -> None:
    Path("list").write_text(SEED)
    from_file, typed = compiled("hosts=@list", "nodes=2"), compiled("hosts=192.168.1.[10-11]", "nodes=2")
    for path in ("hosts.txt", "jobctl", "launch.sh", "spec.yaml"):
        assert text(from_file, path) == text(typed, path)


def test_the_file_is_an_input_listed_by_digest() -> None:
    Path("list").write_text(SEED)
    inputs = json.loads(text(compiled("hosts=@list", "nodes=2"), ".jobc/job.json"))["inputs"]
    assert inputs == {"file:list": hashlib.sha256(SEED.encode()).hexdigest()}


def test_why_names_the_file() -> None:
    Path("list").write_text(SEED)
    value = compiled("hosts=@list", "nodes=2").source_map.spec["hosts"]
    assert (str(value.origin), value.via) == ("command line: hosts=@list", "@list")


def test_in_a_config_file_it_lies_beside_that_file(tmp_path: Path) -> None:
    experiment = tmp_path / "mine" / "experiment"
    experiment.mkdir(parents=True)
    (experiment / "e.yaml").write_text('# @package _global_\nhosts: "@../lists/two"\nqueue:\n  exclude: "@bad"\n')
    (tmp_path / "mine" / "lists").mkdir()
    (tmp_path / "mine" / "lists" / "two").write_text(SEED)
    (experiment / "bad").write_text("node9\n")
    job = compiled("+experiment=e", "nodes=2", input=tmp_path / "mine")
    assert text(job, "hosts.txt") == SEED
    assert job.plan.queue.exclude == ("node9",)
    inputs = json.loads(text(job, ".jobc/job.json"))["inputs"]
    assert {"input:lists/two", "input:experiment/bad"} < set(inputs)


@pytest.mark.parametrize(
    ("hosts", "folded"),
    [
        ("node1 node2 node3", "node[1-3]"),
        ("gpu08 gpu09 gpu10 gpu12", "gpu[08-10],gpu12"),
        ("n9 n10 n011", "n[9-10],n011"),
        ("n99 n100 n0101", "n[99-100],n0101"),
        ("10.0.0.1 10.0.0.2 a", "10.0.0.[1-2],a"),
        ("r1-ib r2-ib r2 r1", "r[1-2]-ib,r2,r1"),
        ("me@a b-01.x b-02.x", "me@a,b-[01-02].x"),
        ("a", "a"),
    ],
)
def test_a_folded_list_expands_to_the_same_hosts(hosts: str, folded: str) -> None:
    assert fold_hostlist((*hosts.split(),)) == folded
    assert expand_hostlist(folded) == hosts.split()


def test_ten_thousand_hosts_cost_a_short_line_each() -> None:
    sizes = []
    for count in (2, 10_000):
        Path("list").write_text("".join(f"node{number:05}\n" for number in range(count)))
        artifacts = compiled("hosts=@list", f"nodes={count}").artifacts
        sizes.append((len(artifacts), sum(len(artifact.text) for artifact in artifacts)))
    (files, small), (files_of_many, big) = sizes
    assert files == files_of_many and (big - small) / 9_998 <= 40


def test_all_mistakes_of_a_file_are_told_with_their_lines() -> None:
    Path("list").write_text("a\nb c\n\na\nnode[4-1]\nd:8\ne cpus=2\n")
    assert refused("hosts=@list") == [
        "JC1131 file:list:2:1: cannot read line 2",
        "JC1131 file:list:5:1: cannot read line 5",
        "JC1131 file:list:6:1: cannot read line 6",
        "JC1131 file:list:7:1: cannot read line 7",
        "JC1132 file:list:4:1: a is listed twice",
    ]


def test_only_hosts_that_are_used_need_slots() -> None:
    Path("list").write_text("a slots=4\nb slots=2\n")
    compiled("hosts=@list", "procs=4", "nodes=1")
    assert refused("hosts=@list", "procs=4") == ["JC1133 file:list:2:1: b has 2 slots"]


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    Path("latin").write_bytes(b"caf\xe9\n")
    assert refused("hosts=@nothing") == ["JC1130 command line: hosts=@nothing: host file 'nothing' does not exist"]
    assert refused("hosts=@folder") == ["JC1130 command line: hosts=@folder: host file 'folder' cannot be read"]
    assert refused("hosts=@latin") == ["JC1001 file:latin: cannot read this file"]
    assert refused("hosts=@") == ["JC1130 command line: hosts=@: host file '' cannot be read"]
