"""Diagnostics for machines: each format follows its own rules, contains what the text contains, and has a fixed
order.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobc.compiler.cli import main

TEAM = """\
# @package _global_
batch:
  global: 7   # of all ranks
env:
  WANDB_API_KEY: 0123456789abcdef
lifecycle:
  max_restarts: 1
launcher: srun
"""
WRONG = ["backend=slurm", "cluster=team", "nodes=2,3", "-m"]


@pytest.fixture(autouse=True)
def in_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    (tmp_path / "jobc" / "cluster").mkdir(parents=True)
    (tmp_path / "jobc" / "cluster" / "team.yaml").write_text(TEAM)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Return (exit code, stdout). stderr must be empty."""
    status = main([*words])
    out, err = capsys.readouterr()
    assert err == ""
    return status, out


def test_json_has_each_problem_once_with_its_points_and_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    status, out = printed(capsys, "check", *WRONG, "--format", "json")
    found = json.loads(out)["diagnostics"]
    assert status == 1
    assert [d["name"] for d in found] == ["batch-not-divisible", "plaintext-secret", "launcher-cannot-restart"]
    assert [(d["code"], d["place"]["line"], d["points"], d["otherwise"]) for d in found] == [
        ("JC2003", 3, ["nodes=2", "nodes=3"], ["nodes=3"]),
        ("JC4515", 5, ["nodes=2", "nodes=3"], []),
        ("JC2010", 7, ["nodes=2", "nodes=3"], []),
    ]
    assert found[0]["place"] == {
        "root": "project", "path": "cluster/team.yaml", "file": "jobc/cluster/team.yaml", "line": 3, "column": 11,
    }  # fmt: skip


def test_a_point_that_fails_does_not_hide_what_is_found_in_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["check", "-m", "procs=1,none", "optim.lr=1e-3", "--format", "json", "--", "train.py"]
    status, out = printed(capsys, *words)
    assert status == 1
    assert {d["code"]: d["points"] for d in json.loads(out)["diagnostics"]} == {
        "JC1202": ["procs=none"],
        "JC2014": ["procs=1"],
    }


def test_a_user_folder_elsewhere_has_its_whole_path(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    mine = tmp_path / "home" / ".config" / "jobc" / "experiment"
    mine.mkdir(parents=True)
    (mine / "ä b.yaml").write_text("# @package _global_\nprocs: many\n")
    (tmp_path / "elsewhere").mkdir()
    words = ["check", "+experiment=ä b"]
    _, out = printed(capsys, *words, "--format", "github")
    assert out.startswith("::error file=home/.config/jobc/experiment/ä b.yaml,line=2")


def test_a_folder_given_by_a_way_round_has_its_plain_path(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("mine/experiment", "here"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "mine/experiment/team.yaml").write_text("# @package _global_\nprocs: many\n")
    monkeypatch.chdir(tmp_path / "here")
    _, out = printed(capsys, "check", "--config-dir", "../mine", "+experiment=team", "--format", "github")
    assert out.startswith(f"::error file={tmp_path / 'mine/experiment/team.yaml'},line=2")


def test_github_gets_a_line_for_each_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    _, out = printed(capsys, "check", *WRONG, "--format", "github")
    first = out.splitlines()[0]
    assert first.startswith(
        "::error file=jobc/cluster/team.yaml,line=3,col=11,title=JC2003 batch-not-divisible::batch.global=7 cannot be"
    )
    assert "%0Ahint: set batch.global to 32%0Apoints: nodes=2, with different numbers at nodes=3" in first
    assert len(out.splitlines()) == 3


@pytest.mark.parametrize(("workspace", "file"), [("repo", "sub/jobc"), ("link", "sub/jobc"), ("repo/s", "jobc")])
def test_in_a_workflow_files_are_named_from_the_root_of_the_repository(
    workspace: str, file: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "repo" / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to("repo")
    (tmp_path / "jobc").rename(tmp_path / "repo" / "sub" / "jobc")
    monkeypatch.chdir(tmp_path / "repo" / "sub")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path / workspace))
    _, out = printed(capsys, "check", *WRONG, "--format", "github")
    assert out.startswith(f"::error file={file}/cluster/team.yaml,line=3")
    _, out = printed(capsys, "check", *WRONG, "--format", "json")
    assert json.loads(out)["diagnostics"][0]["place"]["file"] == "jobc/cluster/team.yaml", "as seen from here"


def test_what_github_would_read_as_its_own_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    _, out = printed(capsys, "check", "name=50%\n::error::x", "--format", "github")
    assert len(out.splitlines()) == 1 and "name=50%25\\n::error::x" in out


def test_a_compile_prints_one_document_and_writes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, out = printed(capsys, "backend=local", "queue.name=x", "name=a", "--format", "json")
    found = json.loads(out)["diagnostics"]
    assert (status, [(d["code"], d["severity"]) for d in found]) == (0, [("JC4102", "note")])
    assert (tmp_path / "artifacts" / "a" / "local" / "jobctl").is_file()


@pytest.mark.parametrize("name", ["json", "github"])
def test_the_order_does_not_hang_on_that_of_the_words(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    one = printed(capsys, "check", "cpus=x", "nodes=0", "procs=y", "--format", name)
    other = printed(capsys, "check", "procs=y", "nodes=0", "cpus=x", "--format", name)
    assert one == other and one[0] == 1


@pytest.mark.parametrize(
    "words", [["check", "--format", "csv"], ["plan", "--format", "github"], ["run", "--format=text"]]
)
def test_a_format_that_a_command_does_not_have_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 1
    assert "[JC1110 " in capsys.readouterr().err


@pytest.mark.parametrize("words", [["check", "--nonsense"], ["--procs", "2"], ["check", "procs"], ["train.py"]])
def test_a_command_line_that_cannot_be_read_is_answered_in_the_format_that_it_asks_for(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for asked in (["--format", "json"], ["--format=json"]):
        assert main([*words, *asked]) == 1
        shown = capsys.readouterr()
        assert [d["code"] for d in json.loads(shown.out)["diagnostics"]] == ["JC1110"] and not shown.err


def marked(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, list[str]]:
    """Map each code in the text output to the lines between its title and its reason."""
    main([*words])
    blocks = capsys.readouterr().err.strip().split("\n\n")
    return {block.split("[")[1][:6]: block.split("  = because")[0].split("\n")[1:-1] for block in blocks}


def test_text_has_a_caret_under_the_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert marked(capsys, "check", "time=90", "backend=slurm") == {
        "JC1202": ["  --> command line: time=90   (time)", "                         ^^"]
    }
    assert marked(capsys, "check", "model.classes=3") == {
        "JC1102": [
            "  --> command line: model.classes=3   (model.classes)",
            "                    ^^^^^^^^^^^^^",
        ]
    }
    found = marked(capsys, "check", "backend=slurm", "cluster=team", "nodes=2")
    assert found["JC2003"] == [
        "  --> project:cluster/team.yaml:3:11   (batch.global)",
        "      global: 7   # of all ranks",
        "              ^",
    ]
    assert found["JC4515"] == ["  --> project:cluster/team.yaml:5:18   (env.WANDB_API_KEY)"], "no secret is printed"


def test_check_says_what_the_figures_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(marked(capsys, "check", "time=10m", "estimate.step_s=10")) == {"JC2123"}
