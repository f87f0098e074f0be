"""What a compile reads: no environment variable, no file outside the project, and nothing endless."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

import pytest

from jobc.compiler.diagnostics.diagnostic import CompileError, format_for_terminal
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest

CANARY = "canary-5d1f"
HEADER = "# @package _global_\n"
MACHINE_READS = [
    "${oc.env:CANARY}", "\\\\${oc.env:CANARY}", "a\\\\\\\\${oc.env:CANARY}", '${oc.decode:"\\${oc.env:CANARY}"}',
    "${oc.decode:${oc.env:CANARY}}", "${oc.env:${labels.name}}", "${oc.select:labels.env}",
    "${oc.select:x,${oc.env:CANARY}}",
    '${oc.create:{a: "${oc.env:CANARY}"}}', "${oc.create:'{a: ${oc.env:CANARY}}'}", "${oc.${labels.resolver}:CANARY}",
    "${ oc.env : CANARY }", "${oc.env:NONE,${oc.env:CANARY}}", "${labels.env}", "${hydra:runtime.cwd}",
    "${hydra.job.name}", "${now:%Y}", "${python_version:}", "${oc.dict.values:${oc.env:CANARY}}",
]  # fmt: skip
LABELS = "labels:\n  name: CANARY\n  resolver: env\n  env: ${oc.env:CANARY}\n"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Project folder with a config folder; beside it a host list, a token and a config that are not the project's."""
    monkeypatch.setenv("CANARY", CANARY)
    folder = tmp_path / "project"
    (folder / "jobc" / "experiment").mkdir(parents=True)
    (tmp_path / "token").write_text(f"{CANARY}\n")
    (tmp_path / "shadow").write_text(f"root:$6${CANARY}:19000:0:99999:7:::\n")
    (tmp_path / "foreign.yaml").write_text(f"{HEADER}env: {{A: {CANARY}}}\n")
    monkeypatch.chdir(folder)
    return folder


def result(text: str, *words: str) -> str:
    """Return the messages and artifacts of a job whose experiment file contains that text."""
    Path("jobc/experiment/e.yaml").write_text(HEADER + text)
    return compiled("+experiment=e", *words)


def compiled(*words: str) -> str:
    try:
        job = compile_job(CompileRequest(("backend=ssh", *words), None, (("project", Path("jobc").absolute()),)))
    except CompileError as error:
        return format_for_terminal(error.diagnostics)
    return "\n".join(artifact.text for artifact in job.artifacts)


@pytest.mark.parametrize("value", MACHINE_READS)
def test_no_value_reads_the_environment(value: str) -> None:
    quoted = value.replace("'", "''")
    found = result(f"{LABELS}env:\n  A: '{quoted}'\n")
    assert "error[" in found
    assert CANARY not in found
    typed = compiled(f"env.A={value}", "+labels.env=1", "+labels.name=CANARY", "+labels.resolver=env", "hosts=a")
    assert CANARY not in typed
    assert str(Path.cwd()) not in typed


@pytest.mark.parametrize("value", MACHINE_READS)
def test_no_defaults_list_reads_the_environment(value: str) -> None:
    quoted = value.replace("'", "''")
    found = result(f"defaults:\n  - override /backend: '{quoted}'\n")
    assert "error[" in found
    assert CANARY not in found


@pytest.mark.parametrize("name", ["token", "shadow"])
@pytest.mark.parametrize("spelling", ["@{0}", "@../../../{1}", "@link", "@x/../../../../{1}", "@${{labels.path}}"])
def test_no_spec_reads_a_host_file_outside_the_project(project: Path, name: str, spelling: str) -> None:
    outside = project.parent / name
    (project / "jobc/experiment/link").symlink_to(outside)
    found = result(f"labels: {{path: '{outside}'}}\nhosts: '{spelling.format(outside, name)}'\n")
    assert "JC1115" in found
    assert CANARY not in found


def test_no_word_with_an_interpolation_names_a_file_outside(project: Path) -> None:
    found = result(f"labels: {{path: '@{project.parent}/token'}}\n", "hosts=${labels.path}")
    assert "JC1115" in found
    assert CANARY not in found


def test_hidden_files_of_the_project_are_not_host_lists() -> None:
    Path(".env").write_text(f"{CANARY}\n")
    found = result("hosts: '@../../.env'\n")
    assert "JC1115" in found
    assert CANARY not in found


@pytest.mark.parametrize("item", ["/../../../foreign", "/{0}/foreign", "../../../foreign", "/experiment/link",
                                  "/experiment/../../../foreign", "/../../../{0}/foreign"])  # fmt: skip
def test_no_defaults_list_reads_a_config_outside_the_folders(project: Path, item: str) -> None:
    (project / "jobc/experiment/link.yaml").symlink_to(project.parent / "foreign.yaml")
    found = result(f"defaults:\n  - {item.format(project.parent)}\n", "hosts=a")
    assert "error[" in found
    assert CANARY not in found


def test_no_merge_key_sets_the_search_path(project: Path) -> None:
    path = f"file://{project.parent}"
    Path("jobc/config.yaml").write_text(f"<<: {{hydra: {{searchpath: ['{path}']}}}}\ndefaults: [/foreign]\n")
    found = compiled("hosts=a")
    assert "error[" in found
    assert CANARY not in found


def test_the_command_line_names_any_file_and_messages_do_not_repeat_it(project: Path) -> None:
    (project.parent / "list").write_text("node7\n")
    assert "node7" in compiled(f"hosts=@{project.parent}/list", "nodes=1")
    found = compiled(f"hosts=@{project.parent}/shadow", "nodes=1")
    assert "JC1131" in found
    assert CANARY not in found


def doubling(first: str, pattern: str) -> str:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXY"
    lines = [pattern.format(key, before) for before, key in itertools.pairwise(letters)]
    return "\n".join([first, *lines, ""])


BOMBS = {
    "interpolations": doubling("env:\n  A: x", '  {0}: "${{env.{1}}}${{env.{1}}}"'),
    "mappings": doubling("labels:\n  A: {x: 1}", '  {0}: {{p: "${{labels.{1}}}", q: "${{labels.{1}}}"}}'),
    "aliases": doubling("env:\n  A: &A [x, x]", "  {0}: &{0} [*{1}, *{1}]"),
    "aliases of a long text": f"env:\n  A: &a {'x' * 900_000}\n" + "".join(f"  B{i}: *a\n" for i in range(2000)),
    "a long text": f"env: {{A: {'x' * 20_000_000}}}\n",
    "many references": f"env: {{A: '{'${name}' * 100_000}'}}\n",
    "nested references": f"env: {{A: '{'${' * 5000}a{'}' * 5000}'}}\n",
    "lists of each other": "labels:\n" + "".join(f'  K{i}: "${{oc.dict.values:labels}}"\n' for i in range(100)),
    "one long reference": f"env: {{A: '${{{'a' * 900_000}}}'}}\n",
    "depth": f"env: {{A: {'[' * 100_000}{']' * 100_000}}}\n",
    "digits": f"nodes: {'9' * 100_000}\n",
    "a range of hosts": "hosts: node[1-999999999]\n",
    "ranges of hosts": f"hosts: node{'[1-999]' * 30}\n",
    "short ranges of hosts": f"hosts: node{'[1,2]' * 60}\n",
    "many ranges of hosts": f"hosts: '{'node[1-99999],' * 1000}a'\n",
    "digits of a fraction": f"optim: {{lr: {'9' * 20_000}GiB}}\n",
    "digits in a list": f"optim: {{betas: {'9' * 20_000}GiB}}\n",
    "digits of a size": f"resources: {{mem: {'9' * 1_000_001}GiB}}\n",
    "digits of a price": f"estimate: {{prices: {{H100: {'9' * 20_000}x}}}}\n",
    "digits of a host": f"hosts: {'9' * 5000}h\n",
    "digits of a range": f"hosts: a[{'9' * 5000}]\n",
    "zeros of a range": f"hosts: a[{'0' * 5000}1-2]\n",
    "a NUL character in a file name": 'hosts: "@a\\0b"\n',
    "a NUL character in a folder name": 'hosts: "@a\\0/b"\n',
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_a_bomb_ends_with_one_diagnostic(text: str) -> None:
    start = time.process_time()
    found = result(text)
    assert found.count("error[") == 1, found[:2000]
    assert "JC9" not in found
    assert len(found) < 4000
    assert time.process_time() - start < 5


HOST_FILES = {
    "ranges": "".join(f"a{i}[1-99999]\n" for i in range(50)),
    "names": "".join(f"a{i}\n" for i in range(200_000)),
    "the same name": "a\n" * 90_000,
    "digits": "9" * 5000,
}


@pytest.mark.parametrize("text", HOST_FILES.values(), ids=HOST_FILES)
def test_a_host_file_of_absurd_size_ends_with_few_diagnostics(text: str) -> None:
    Path("list.txt").write_text(text)
    start = time.process_time()
    found = compiled("hosts=@list.txt", "nodes=1")
    assert 1 <= found.count("error[") <= 15, found[:2000]
    assert "JC9" not in found
    assert time.process_time() - start < 5


@pytest.mark.parametrize("path", ["/dev/zero", "/proc/self/environ", "pipe"])
def test_what_is_not_a_regular_text_file_is_refused_at_once(project: Path, path: str) -> None:
    os.mkfifo("pipe")
    found = compiled(f"hosts=@{path}", "nodes=1")
    assert found.count("error[") == 1
    assert "does not exist" not in found
    assert CANARY not in found


@pytest.mark.parametrize("word", ["queue.priority={}", "+backend.extra.resources.disk_size={}"])
def test_a_long_number_in_a_setting_of_skypilot_is_not_converted(word: str) -> None:
    assert "JC9" not in compiled("backend=skypilot", word.format("9" * 5000))
