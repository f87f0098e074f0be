"""Every kind of wrong file causes one clear message with code, position, reason and remedy, and no traceback."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ..diagnosed import Jobc, assert_complete, codes, write

FILES = [  # text below `# @package _global_`, code, place, what the message says besides
    ("nodse: 2", "JC1201", "2:8", "did you mean nodes?"),
    ("loop:\n  setps: 3", "JC1201", "3:10", "did you mean loop.steps?"),
    ("env.X: 3", "JC1201", "2:8", "env: {X: VALUE}"),
    ("backend: {partition: x}", "JC1201", "2:22", "backend.partition"),
    ("backend: slurm", "JC1202", "2:10", "override /backend: slurm"),
    ("model: 3", "JC1202", "2:8", "'3'"),
    ("model: {kind: null}", "JC1202", "2:15", "gpt, mlp"),
    ("labels: x", "JC1202", "2:9", "set labels.NAME to VALUE"),
    ("queue: null", "JC1204", "2:8", "a mapping"),
    ("time: 12", "JC1202", "2:7", "set time to 12m or 12s"),
    ("hosts: [a, [b]]", "JC1202", "2:9", "a list"),
    ("mounts: [x]", "JC1202", "2:10", "mounts.0"),
    ("optim: {betas: [0.9]}", "JC1202", "2:17", "2 values"),
    ("env: {X: a", "JC1002", "3:1", "began on line 2"),
    ("env:\n\tX: 1", "JC1002", "3:1", "indent with spaces"),
    ("a: 1\n---\nb: 2", "JC1002", "3:1", "another document"),
    ("env: {X: a: b}", "JC1002", "2:11", "quote text"),
    ("nodes: &a 2\n<<: *a", "JC1002", "3:1", "<< must merge a mapping"),
    ("<<:", "JC1002", "2:4", "<< must merge a mapping"),
    ("env: &e {A: b}\nlabels: {<<: [*e, 3]}", "JC1002", "3:14", "<< must merge a mapping"),
    ("- a", "JC1002", "2:1", "mapping"),
    ("env:\n  X: a\n  X: b\nname: y\nenv: {}", "JC1003", "4:3", "line 3 already sets it"),
    ("env: {X: !!python/object:os.system x}", "JC1004", "2:10", "!!python/object"),
    ("env: !include x.yaml", "JC1004", "2:6", "!include"),
    ("env: &a\n  X: *a", "JC1005", "3:3", "itself"),
    ("env: &a\n  <<: *a", "JC1005", "3:3", "itself"),
    ("? [a]\n: b", "JC1006", "2:3", "list or a mapping"),
    ("'': b", "JC1006", "2:1", "empty"),
    ("env: {X: '${x'}", "JC1007", "2:10", "\\${HOME}"),
    ("env: {X: '${nmae}'}", "JC1106", "2:10", "did you mean ${name}?"),
    ("env: {X: '${env.Y}', Y: '${env.X}'}", "JC1106", "2:10", "refers back to itself"),
    ("env: {X: '${oc.env:HOME}'}", "JC1107", "2:10", "depends on the compiling machine"),
    ("env:\n  X: ???", "JC1008", "3:6", "remove the key"),
    ("nodes: 99999999999999999999", "JC1202", "2:8", "64-bit"),
    ('env: {X: "a\\0b"}', "JC2013", "2:10", "NUL"),
    ('name: "a\\e[31m"', "JC1202", "2:7", "\\x1b"),
    ('"k\\e[31m": 3', "JC1201", "2:12", "\\x1b"),
    ("env:\n" + "\n".join(" " * i + "a:" for i in range(1, 1000)), "JC1002", "102:101", "100 levels"),
    ("env: {X: " + "[" * 2000 + "]" * 2000 + "}", "JC1002", "2:108", "100 levels"),
    ("env: {X: " + "[" * 40000 + "]" * 40000 + "}", "JC1002", "2:108", "100 levels"),
    ("defaults: [override /model: gtp_tiny]", "JC1109", "2:22", "gpt_tiny"),
    ("defaults: [override /modle: mlp]", "JC1105", "2:22", "did you mean override /model?"),
    ("defaults: [override modle: mlp]", "JC1105", "2:21", "did you mean override /model?"),
    ("defaults:\n  - override backend: slurm", "JC1105", "3:14", "hint: - override /backend: slurm\n"),
    ("defaults:\n  - override backend: slrm", "JC1105", "3:14", "hint: - override /backend: slurm\n"),
    ("defaults:\n  - backend: slurm", "JC1109", "3:5", "hint: - override /backend: slurm\n"),
    ("defaults:\n  # - model: foo\n  - model: foo", "JC1109", "4:5", "hint: - override /model: OPTION\n"),
    ("defaults: [backend/slurm]", "JC1109", "", "hint: - override /backend: slurm\n"),
    ("defaults: [/model: mlp]", "JC1105", "2:13", "two files choose model"),
    ("defaults:\n  - /backend: slurm", "JC1105", "3:6", "hint: - override /backend: slurm\n"),
    ("defaults: 3", "JC1105", "2:11", "cluster/mine.yaml"),
    ("defaults: [{override /model: mlp, override /data: digits}]", "JC1105", "2:12", "one group each"),
    ("defaults:\n  -\n  - override /backend: slurm", "JC1105", "3:4", "this entry is empty"),
    ("defaults: [5]", "JC1105", "2:12", 'hint: "5", in quotes'),
    ("defaults: [true]", "JC1105", "2:12", "true is not text"),
    ("defaults: ['']", "JC1105", "2:12", "this entry is empty"),
    ("defaults: [[a]]", "JC1105", "2:12", "this entry is a list"),
    ("defaults: [{}]", "JC1105", "2:12", "this entry does not name a group"),
    ("defaults:\n  - override /cluster: 7", "JC1105", "3:24", "7 is not text"),
    ("defaults: [{override /backend: {a: b}}]", "JC1105", "2:32", "this entry is a mapping"),
    ("defaults: [{override /model: [null]}]", "JC1105", "2:31", "this entry is empty"),
    ("defaults: [{5: 6}]", "JC1105", "2:13", "this entry does not name a group"),
    ('defaults: [{"": x}]', "JC1105", "2:13", "this entry does not name a group"),
    ("defaults: [2020-13-45]", "JC1002", "2:11", "month must be in 1..12"),
    ("defaults: [override /parallel: deepspeed/zero2]", "JC1109", "2:22", "hint: - override /parallel: deepspeed\n"),
    ("defaults: [/parallel: deepspeed/zero2]", "JC1109", "2:13", "hint: - override /parallel: deepspeed\n"),
    ("defaults: [parallel: deepspeed/zero2]", "JC1109", "2:12", "hint: - override /parallel: deepspeed\n"),
    ("defaults: [mine]", "JC1105", "", "includes its own file"),
    ("optim: [a]", "JC1105", "", "cluster/mine.yaml"),
]


@pytest.mark.parametrize(("text", "code", "place", "says"), FILES, ids=lambda value: str(value)[:40])
def test_a_wrong_file_is_answered_with_its_place(text: str, code: str, place: str, says: str, jobc: Jobc) -> None:
    write("jobc/cluster/mine.yaml", f"# @package _global_\n{text}\n")
    status, printed = jobc("cluster=mine")
    assert status == 1
    assert set(codes(printed)) == {code}, printed
    assert says in f"{printed}\n"
    assert not place or f"--> project:cluster/mine.yaml:{place}" in printed, printed
    assert_complete(printed)


def test_an_option_that_two_choose_and_that_is_not_there_is_not_repeated(jobc: Jobc) -> None:
    write("jobc/cluster/mine.yaml", "# @package _global_\ndefaults: [/parallel: deepspeed/zero2]\n")
    _, printed = jobc("cluster=mine", "parallel=deepspeed")
    assert codes(printed) == ["JC1105"] and "hint: - override /parallel: deepspeed\n" in f"{printed}\n"


def test_a_config_of_ones_own_with_a_broken_defaults_list_is_answered(jobc: Jobc) -> None:
    write("jobc/config.yaml", "defaults: [null]\n")
    status, printed = jobc()
    assert (status, codes(printed)) == (1, ["JC1105"]) and "--> project:config.yaml:1:12" in printed
    assert_complete(printed)


def test_a_missing_section_is_not_shown_at_a_file_that_never_had_it(jobc: Jobc) -> None:
    write("jobc/cluster/mine.yaml", "# @package _global_\ndefaults: [override /model: null]\n")
    _, printed = jobc("cluster=mine")
    assert codes(printed) == ["JC1203"] and "  --> model\n" in printed and "~model" not in printed


def test_a_missing_key_is_not_shown_at_the_value_of_another(jobc: Jobc) -> None:
    write("jobc/network/mine.yaml", "profile: auto\ninterface: docker0\nsettings: []\n")
    status, printed = jobc("network=mine")
    assert (status, codes(printed)) == (1, ["JC1203"])
    assert "--> project:network/mine.yaml   (network.debug)\n  = because" in printed
    assert "--> command line: mounts=[{source: /a}]" in jobc("mounts=[{source: /a}]")[1]


@pytest.mark.parametrize("line", ["# @package _global_ ${a.b.c}", "# @package", "# @package\t_global_", "#@x"])
def test_a_broken_header_is_answered_with_its_line(line: str, jobc: Jobc) -> None:
    write("jobc/cluster/mine.yaml", f"\n{line}\nname: x\n")
    status, printed = jobc("cluster=mine")
    assert status == 1
    assert codes(printed) == ["JC1002"] and f"mine.yaml:2:{line.index('@') + 1}" in printed, printed
    assert_complete(printed)


def test_a_file_that_is_no_utf8_is_answered(jobc: Jobc) -> None:
    write("jobc/cluster/mine.yaml", b"# @package _global_\nname: Z\xfcrich\n")
    status, printed = jobc("cluster=mine")
    assert (status, codes(printed)) == (1, ["JC1001"])
    assert "project:cluster/mine.yaml" in printed and "byte 27" in printed


ODD: dict[str, Callable[[Path], None]] = {
    "it is a broken symlink": lambda file: file.symlink_to("nowhere"),
    "it is a broken symlink, but to itself": lambda file: file.symlink_to(file.name),
    "it is a folder": lambda file: file.mkdir(),
    "it is not a regular file": os.mkfifo,
}


@pytest.mark.parametrize("because", ODD)
@pytest.mark.parametrize("folder", ["jobc", "../home/.config/jobc"])
def test_a_config_that_is_no_file_is_not_passed_over(because: str, folder: str, jobc: Jobc) -> None:
    Path(folder).mkdir(parents=True)
    ODD[because](Path(folder, "config.yaml"))
    status, printed = jobc("check")
    assert (status, codes(printed)) == (1, ["JC1001"])
    assert f"because: {because.partition(',')[0]}\n" in printed and ":config.yaml\n" in printed
    assert_complete(printed)


def test_a_config_that_becomes_no_file_is_not_taken_from_memory(jobc: Jobc) -> None:
    write("jobc/config.yaml", "name: mine\n")
    for _ in range(2):
        assert jobc("check") == (0, "")
    Path("jobc/config.yaml").unlink()
    os.mkfifo("jobc/config.yaml")
    assert codes(jobc("check")[1]) == ["JC1001"]


def test_a_preset_that_is_no_file_is_told_where_it_is_chosen(jobc: Jobc) -> None:
    Path("jobc/cluster").mkdir(parents=True)
    Path("jobc/cluster/mine.yaml").symlink_to("nowhere")
    assert jobc("check") == (0, "")
    status, printed = jobc("check", "cluster=mine")
    assert (status, codes(printed)) == (1, ["JC1001"]) and "--> project:cluster/mine.yaml\n" in printed


def test_aliases_that_repeat_without_end_are_refused_at_once(jobc: Jobc) -> None:
    """Nine levels of nine: 400 million values in a file of some hundred bytes."""
    levels = ["x0: &x0 [y,y,y,y,y,y,y,y,y]"]
    levels += [f"x{i}: &x{i} [{','.join([f'*x{i - 1}'] * 9)}]" for i in range(1, 9)]
    write("jobc/cluster/mine.yaml", "\n".join(["# @package _global_", *levels, ""]))
    before = time.process_time()
    status, printed = jobc("cluster=mine")
    assert (status, codes(printed)) == (1, ["JC1002"]) and "10,000 values" in printed
    assert time.process_time() - before < 1


def test_a_folder_in_the_place_of_a_file_is_told(jobc: Jobc) -> None:
    Path("jobc/cluster/mine.yaml").mkdir(parents=True)
    write("jobc/cluster/other.yaml", "# @package _global_\n")
    status, printed = jobc("cluster=mine")
    assert (status, codes(printed)) == (1, ["JC1001"])
    assert "cluster/mine.yaml" in printed and "it is a folder" in printed


def test_a_preset_without_its_first_line_is_told_of_it(jobc: Jobc) -> None:
    write("jobc/cluster/mine.yaml", "nodes: 1\n")
    status, printed = jobc("cluster=mine")
    assert (status, codes(printed)) == (1, ["JC1201"])
    assert "cluster/mine.yaml sets keys under cluster" in printed and "`# @package _global_`" in printed


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n"])
@pytest.mark.parametrize(("group", "word"), [("experiment", "+experiment=mine"), ("cluster", "cluster=mine")])
def test_a_preset_that_says_nothing_is_called_empty(text: str, group: str, word: str, jobc: Jobc) -> None:
    write(f"jobc/{group}/mine.yaml", text)
    status, printed = jobc(word)
    assert (status, codes(printed)) == (1, ["JC1201"])
    assert f"{group}/mine.yaml is empty" in printed and "sets keys" not in printed
    assert f"--> command line: {word}" in printed and "^^^^" in printed


@pytest.mark.parametrize("text", ["# @package _global_\n", "# @package _global_\n---\n"])
def test_an_empty_preset_changes_nothing(text: str, jobc: Jobc) -> None:
    write("jobc/cluster/mine.yaml", text)
    assert jobc("check", "cluster=mine") == (0, "")


def test_several_mistakes_of_a_file_are_reported_together(jobc: Jobc) -> None:
    write("jobc/cluster/mine.yaml", "# @package _global_\nname: !x y\nname: b\nenv: {A: '${', B: '???'}\n? [a]\n: b\n")
    status, printed = jobc("cluster=mine")
    assert (status, sorted(codes(printed))) == (1, ["JC1003", "JC1004", "JC1006", "JC1007", "JC1008"])
