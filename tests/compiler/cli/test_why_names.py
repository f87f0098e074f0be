"""`jobc why` for a key: the whole chain down to the lines, and from a key to everything that depends on it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from jobc.compiler.cli import main

JOB = ("name=x", "nodes=2", "gpus=4", "hosts=a,b,c", "backend=ssh", "model.width=${model.context}", "env.MINE=1")
FOLDER = "artifacts/x/ssh"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "jobc/experiment").mkdir(parents=True)
    (folder / "jobc/experiment/long.yaml").write_text("# @package _global_\nloop:\n  steps: 900\n")
    return folder


@pytest.fixture
def ask(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    monkeypatch.chdir(project)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project / "none"))
    if not (project / FOLDER).exists():
        assert main([*JOB, "+experiment=long"]) == 0
        capsys.readouterr()
    return Ask(capsys)


class Ask:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *words: str, status: int = 0) -> str:
        assert main(["why", *words]) == status
        captured = self.capsys.readouterr()
        return captured.err if status else captured.out


def test_a_key_leads_from_the_override_that_chose_its_file_to_the_lines(ask: Ask) -> None:
    said = ask(FOLDER, "loop.steps")
    assert "spec     loop.steps = 900\n           project:experiment/long.yaml:3:10\n" in said
    assert "read for experiment=long, chosen command line: +experiment=long\n" in said
    assert "plan     train.loop.steps = 900\n" in said
    assert '  "steps": 900' in said and f"{FOLDER}/spec.yaml:" in said


def test_an_interpolation_leads_on_to_the_key_that_it_names(ask: Ask) -> None:
    said = ask(FOLDER, "model.width")
    chain = "written as ${model.context}\n  spec     model.context = 64\n           jobc:conf/model/gpt_tiny.yaml:"
    assert chain in said


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("topology.procs", "= 4", "one per GPU"),
        ("train.batch.global", "= 128", "ranks that have their own samples"),
        ("resources.hosts", '= "a,b"', "The first hosts in `hosts`"),
    ],
)
def test_a_plan_key_says_by_which_rule_it_was_made(ask: Ask, key: str, value: str, rule: str) -> None:
    said = ask(FOLDER, key)
    assert f"plan     {key} {value}\n" in said and rule in said
    assert "spec     nodes = 2\n" in said or key == "topology.procs"


def test_a_key_shows_every_line_that_depends_on_it_and_every_file_that_is_there_for_it(ask: Ask) -> None:
    said = ask(FOLDER, "nodes")
    lines = [f"{FOLDER}/hosts.txt:1  a\n", '  "world_size": 8,\n', "  --nnodes=2\n"]
    assert all(line in said for line in lines), said
    assert "  hosts.txt\n" in ask("nodes=2", "nodes")  # of backend=local, which has none for one node


@pytest.mark.parametrize(
    ("name", "line"), [("topology.world_size", '  "world_size": 8,'), ("backend.name", "  name: ssh")]
)
def test_a_key_that_only_the_plan_has_leads_to_the_lines_of_those_it_is_made_of(ask: Ask, name: str, line: str) -> None:
    assert f"{line}\n" in ask(FOLDER, name)


def test_the_number_of_ranks_is_told_with_its_rule(ask: Ask) -> None:
    assert ask(FOLDER, "topology.world_size").splitlines()[2].strip() == "Nodes times processes per node."


def test_the_lines_of_an_edited_file_are_those_that_it_has_now(ask: Ask, tmp_path: Path) -> None:
    copy = shutil.copytree(FOLDER, tmp_path / "copy")
    script, config = copy / "launch.sh", copy / "train.json"
    lines = script.read_text().replace("timeout=300\n", "timeout=90\n").split("\n")
    lines[9:9] = ["# mine", "# and mine"]
    script.write_text("\n".join(lines))
    config.write_text(json.dumps(json.loads(config.read_text())))
    for key, line in (("nodes", "--nnodes=2"), ("rendezvous.timeout", "--rdzv-conf=timeout=90")):
        edited = "  (edited after the compile)" if key == "rendezvous.timeout" else ""
        assert f"  {script}:{lines.index(f'  {line}') + 1}  {line}{edited}\n" in ask(str(copy), key)
    assert f"  {config}  edited: a line that depended on it was removed\n" in ask(str(copy), "loop.steps")
    (copy / "spec.yaml").unlink()
    assert f"  {copy}/spec.yaml  edited: a line that depended on it was removed\n" in ask(str(copy), "loop.steps")


def test_lines_are_asked_about_by_their_first_and_last(ask: Ask) -> None:
    script = f"{FOLDER}/launch.sh"
    assert ask(f"{script}:8-10") == "".join(ask(f"{script}:{number}") for number in (8, 9, 10))
    assert ask(f"{script}:8-8", f"{script}:9") == ask(f"{script}:8", f"{script}:9")


@pytest.mark.parametrize("word", ["env.MINE=1", "secrets.MINE=env:MINE"])
def test_the_name_of_a_variable_stands_for_its_key(ask: Ask, word: str) -> None:
    key, _, value = word.partition("=")
    said = ask(word, "MINE")
    assert said == ask(word, key) and f"spec     {key} = {value}\n           command line: {word}\n" in said


def test_without_a_directory_the_overrides_are_asked(ask: Ask, project: Path) -> None:
    said = ask("nodes=3", "name=y", "topology.nodes")
    assert "plan     topology.nodes = 3\n" in said and "command line: nodes=3\n" in said
    assert not (project / "artifacts/y").exists()


def test_a_directory_of_a_sweep_is_no_override(ask: Ask) -> None:
    assert main(["-m", "name=f", "backend=slurm", "nodes=1,2", "seed=1,2"]) == 0
    ask.capsys.readouterr()
    for folder in ("artifacts/f+nodes=1+sweep/slurm", "./artifacts/f+nodes=1+sweep/slurm"):
        assert "spec     seed = 1\n" in ask(folder, "seed")  # of the first point
        assert ask(f"{folder}/launch.sh:1").startswith(f"{folder}/launch.sh:1\n  | #!")
    assert "plan     env.A" in ask("env.A=x:3", "A")
    assert ask("artifacts/f+nodes=9/slurm", "seed", status=1).startswith("error[JC5004 ")


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        ((FOLDER, "lop.steps"), "JC5030", "did you mean loop.steps?"),
        ((FOLDER, "WORLD_SIZE"), "JC5030", "docs/environment.md for variables"),
        ((FOLDER, "nodes=2", "nodes"), "JC1110", f"jobc why {FOLDER} loop.steps"),
        (("-m", "nodes=1,2", "name=y", "nodes"), "JC1110", "jobc why nodes=1 name=y nodes"),
        (("--plain", "nodes"), "JC1110", "remove --plain"),
        ((f"{FOLDER}/launch.sh:10-8",), "JC1110", f"jobc why {FOLDER}/launch.sh:8-10"),
        ((f"{FOLDER}/hosts.txt:1-99",), "JC5006", f"{FOLDER}/hosts.txt:"),
        ((FOLDER,), "JC1110", f"jobc why {FOLDER}/launch.sh:1"),
    ],
)
def test_a_question_without_an_answer_is_a_diagnostic(ask: Ask, words: tuple[str, ...], code: str, hint: str) -> None:
    said = ask(*words, status=1)
    assert f"[{code} " in said and hint in said


def test_a_name_without_an_answer_takes_none_from_the_others(ask: Ask) -> None:
    assert main(["why", FOLDER, "NOSUCH", "loop.steps", "lop.steps"]) == 1
    printed, said = ask.capsys.readouterr()
    assert printed == ask(FOLDER, "loop.steps")
    assert said.count("error[JC5030 ") == 2 and "unknown name NOSUCH" in said and "lop.steps" in said


def test_an_edited_line_has_the_chain_of_the_line_it_stands_for(ask: Ask, project: Path) -> None:
    file = project / FOLDER / "launch.sh"
    before = file.read_text()
    number = before.split("\n").index("  --nnodes=2") + 1
    file.write_text("# mine\n" + before.replace("\n  --nnodes=2\n", "\n  --nnodes=3\n"))
    try:
        said = ask(f"{FOLDER}/launch.sh:{number + 1}")
        assert "  edited   " in said and f"  replaces line {number} of jobc's file: " in said
        assert "spec     nodes = 2\n           command line: nodes=2\n" in said
        assert "  from  " not in ask(f"{FOLDER}/launch.sh:1"), "jobc wrote no such line"
        assert "edited" not in ask(FOLDER, "MINE"), "a line that moved is as jobc wrote it"
    finally:
        file.write_text(before)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            '    "nodes": 2,',
            "plan     topology.nodes\n  spec     nodes = 2\n           command line: nodes=2\n",
        ),
        ('    "seed = 0",', "from     the whole job\n"),
        ('  "inputs": {', "from     the whole job\n"),
    ],
    ids=["a setting", "a record", "the seal"],
)
def test_a_line_of_the_job_file_leads_to_its_key(ask: Ask, project: Path, line: str, found: str) -> None:
    lines = (project / FOLDER / ".jobc/job.json").read_text().split("\n")
    assert found in ask(f"{FOLDER}/.jobc/job.json:{lines.index(line) + 1}")


def test_every_line_of_the_job_file_has_an_answer(ask: Ask, project: Path) -> None:
    count = (project / FOLDER / ".jobc/job.json").read_text().count("\n")
    answers = ask(f"{FOLDER}/.jobc/job.json:1-{count}").split(f"{FOLDER}/.jobc/job.json:")[1:]
    ends = ("  from     the whole job", "  constant does not depend on any key", "  plan     ")
    assert len(answers) == count and all(any(end in answer for end in ends) for answer in answers)
