"""Absurd sizes end a compile at once with one diagnostic and bounded memory: in configs, counts and command lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from jobc.compiler.plan.derive import divisors
from jobc.tests.quick_jobc import QuickJobc

HEADER = "# @package _global_\n"
LIMITS = {
    "AS": 1 << 30,  # bytes of address space; an ordinary compile takes a third of it
    "CPU": 8,  # seconds; an ordinary compile takes 0.1 s; of CPU time, so that other load changes nothing
}
Compiled = Callable[..., "tuple[int, str]"]


@pytest.fixture
def compiled(tmp_path: Path, quick_jobc: QuickJobc) -> Compiled:
    """Return a function: (files, words, verb) -> exit code and messages. files: in the project's config folder"""

    def run(files: Mapping[str, str], words: Sequence[str], verb: str = "check") -> tuple[int, str]:
        for name, text in files.items():
            file = tmp_path / "jobc" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        done = quick_jobc.run([verb, *words], tmp_path, os.environ, LIMITS)
        return done.returncode, done.stdout + done.stderr

    return run


def twice(levels: int) -> dict[str, str]:
    """Write configs, each of which includes the next one twice."""
    files = {f"experiment/n{i}.yaml": f"defaults:\n  - n{i + 1}@p\n  - n{i + 1}@q\n" for i in range(levels)}
    return {**files, f"experiment/n{levels}.yaml": "x: 1\n"}


def many(line: str, count: int) -> str:
    return "".join(line.format(i) for i in range(count))


CONFIGS = {
    "overriding defaults": "defaults:\n" + many("  - override /model: m{}\n", 20_000),
    "defaults of one option": "defaults:\n" + "  - /model: mlp\n" * 20_000,
    "defaults in packages": "defaults:\n" + many("  - n25@x{}\n", 20_000),
    "missing defaults": "defaults:\n" + many("  - optional missing{}\n", 20_000),
    "malformed defaults": "defaults:\n" + "  - 1\n" * 20_000,
    "defaults of one group": f"defaults:\n  - /experiment: [{'n25,' * 20_000}]\n",
    "nested defaults": "defaults: [n0]\n",
    "defaults without an end": "defaults: [e@p]\n",
    "keys": many("k{}: 1\n", 50_000),
    "keys of a mapping": "env:\n" + many("  K{}: 1\n", 50_000),
    "keys of a section": "model:\n" + many("  k{}: 1\n", 50_000),
    "items": f"command: [{'a,' * 50_000}]\n",
    "many includes of a large file": "defaults:\n" + many("  - large@x{}\n", 400),
}


@pytest.mark.parametrize("text", CONFIGS.values(), ids=CONFIGS)
def test_a_config_of_absurd_size_ends_with_one_diagnostic(compiled: Compiled, text: str) -> None:
    large = {"experiment/large.yaml": many("k{}: 1\n", 5_000)}
    files = {**twice(25), **large, "experiment/e.yaml": HEADER + text}
    code, found = compiled(files, ["backend=ssh", "hosts=a", "+experiment=e"])
    assert code == 1
    assert found.count("error[") == 1, found[:2000]
    assert "JC9" not in found
    assert len(found) < 4000


WRONG = {
    "the same key": "name: a\n" * 50_000,
    "unknown keys": many("k{}: 1\n", 9_000),
    "items of a wrong type": f"command: [{'[],' * 9_000}]\n",
    "unknown keys of a section": "model:\n" + many("  k{}: 1\n", 9_000),
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_thousands_of_mistakes_are_reported_in_part(compiled: Compiled, text: str) -> None:
    code, found = compiled({"experiment/e.yaml": HEADER + text}, ["backend=ssh", "hosts=a", "+experiment=e"])
    assert code == 1
    assert 30 <= found.count("error[") <= 100


@pytest.mark.parametrize("backend", ["local", "slurm", "ssh", "kubernetes", "skypilot", "accelerate"])
@pytest.mark.parametrize("key", ["nodes", "gpus", "procs"])
@pytest.mark.parametrize("count", ["100001", str(2**63 - 1)])
def test_a_count_beyond_any_cluster_is_refused(compiled: Compiled, backend: str, key: str, count: str) -> None:
    code, found = compiled({}, [f"backend={backend}", f"{key}={count}"])
    assert code == 1
    assert f"error[JC1202 invalid-value]: {key}: '{count}'" in found


def test_no_rule_tries_every_number_up_to_the_world_size(compiled: Compiled) -> None:
    words = ["backend=slurm", "parallel=hsdp", "parallel.shards=7", "nodes=99991", "procs=9973"]
    _, found = compiled({}, words)
    assert "error[JC2074 " in found


@pytest.mark.parametrize(("number", "expected"), [(1, [1]), (12, [1, 2, 3, 4, 6, 12]), (2**61 - 1, [1, 2**61 - 1])])
def test_divisors_of_a_huge_number(number: int, expected: list[int]) -> None:
    assert divisors(number) == expected


def test_the_most_nodes_have_an_address_each(compiled: Compiled, tmp_path: Path) -> None:
    code, found = compiled({}, ["backend=local", "nodes=100000", f"--out={tmp_path}"], "compile")
    assert code == 0, found
    addresses = (tmp_path / "job/local/hosts.txt").read_text().split()
    assert len(set(addresses)) == 100_000
    assert all(int(part) < 256 for address in addresses for part in address.split("."))


COMMANDS = {
    "programs that start another": ["ssh"] * 100 + ["train.py"],
    "launchers": ["mpirun"] * 5_000,
    "variables": ["X=1"] * 5_000,
    "options of env": ["env"] + ["-S"] * 5_000,
    "a shell's text": ["bash", "-c", "ssh " * 100 + "train.py | tee log"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_long_command_is_read_once(compiled: Compiled, command: Sequence[str]) -> None:
    code, found = compiled({}, ["backend=ssh", "hosts=a", "--", *command])
    assert code in (0, 1), found
    assert "JC9" not in found


LINES = {
    "open brackets": ["env.A=" + "[" * 50_000],
    "nested lists": ["env.A=" + "[" * 25_000 + "]" * 25_000],
    "nested mappings": ["env.A=" + "{a:" * 10_000 + "}" * 10_000],
    "lists nested below the limit": ["env.A=" + "[" * 1_500 + "]" * 1_500],
    "a list": [f"command=[{'a,' * 50_000}a]"],
    "references": ["env.A=" + "${a" * 30_000 + "}" * 30_000],
    "quotes": ["env.A=" + "'" * 50_000],
    "a long key": ["a." * 50_000 + "b=1"],
    "a long odd key": ["a-" * 50_000 + "b=1"],
    "packages": ["a@" * 50_000 + "b=1"],
    "pluses": ["+" * 100_000 + "b=1"],
    "words": [f"a{i}=1" for i in range(10_000)],
    "words with values of a wrong type": [f"env.A{i}=[1]" for i in range(5_000)],
    "a sweep": ["-m", "nodes=" + ",".join(map(str, range(20_000)))],
    "a choice": ["-m", f"nodes=choice({','.join(map(str, range(20_000)))})"],
    "nested choices": ["-m", "nodes=" + "choice(" * 5_000 + "1" + ")" * 5_000],
    "nested sorts": ["-m", "nodes=" + "sort(" * 1_000 + "1,2" + ")" * 1_000],
    "a range": ["-m", "nodes=range(1,1000000000)"],
    "a range of tiny steps": ["-m", "nodes=range(0,1,0.0000000001)"],
    "a product": ["-m", *(f"env.A{i}=1,2" for i in range(100))],
}


@pytest.mark.parametrize("words", LINES.values(), ids=LINES)
def test_an_absurd_command_line_ends_with_one_diagnostic(compiled: Compiled, words: list[str]) -> None:
    code, found = compiled({}, ["backend=local", *words])
    assert code == 1
    assert found.count("error[") == 1, found[:2000]
    assert "JC9" not in found
    assert len(found) < 4000


@pytest.mark.parametrize("value", ["f(x), " * 16_000, "'" + "[" * 50_000 + "'"], ids=["bare", "quoted"])
def test_long_text_is_not_a_list(compiled: Compiled, value: str) -> None:
    code, found = compiled({}, ["backend=local", f"env.A={value}"])
    assert code == 0, found[:2000]


@pytest.mark.parametrize("lines", [2, 9, 5_000])
def test_a_file_without_hosts_is_one_diagnostic(compiled: Compiled, tmp_path: Path, lines: int) -> None:
    (tmp_path / "log").write_text("<6>[ 0.1] Linux version=6\n" * lines)
    code, found = compiled({}, ["backend=ssh", "nodes=1", "hosts=@log"])
    assert code == 1
    assert found.count("error[") == 1
    assert "JC1131" in found
    assert "Linux" not in found
