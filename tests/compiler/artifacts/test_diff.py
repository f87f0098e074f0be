"""`jobc diff`: what counts as a difference, what does not, and the exit codes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobc.compiler.cli import main
from jobc.compiler.emit import job_json

from ..diagnosed import assert_complete

Diff = Callable[..., "tuple[int, str, str]"]


@pytest.fixture
def diff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Diff:
    """words -> (exit status, standard output, standard error), in an empty folder with a fresh HOME."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main(["name=old", "backend=slurm", "nodes=2", "gpus=4"]) == 0
    capsys.readouterr()

    def run(*words: str) -> tuple[int, str, str]:
        status = main(["diff", *words])
        return (status, *capsys.readouterr())

    return run


OLD = Path("artifacts/old/slurm")
SAME = (str(OLD), "name=old", "backend=slurm", "nodes=2", "gpus=4")


def found(diff: Diff, *words: str) -> dict[str, Any]:
    status, printed, said = diff(*words, "--format", "json")
    assert (status, said) == (1, "")
    tree: dict[str, Any] = json.loads(printed)
    return tree


def changes(tree: dict[str, Any], section: str) -> dict[str, tuple[Any, Any]]:
    return {change["key"]: (change.get("before", "absent"), change.get("after", "absent")) for change in tree[section]}


def test_the_meaning_is_told_and_whether_one_resumes_the_other(diff: Diff) -> None:
    tree = found(diff, str(OLD), "name=old", "backend=slurm", "nodes=4", "gpus=4", "lifecycle.grace=10m")
    meaning = changes(tree, "meaning")
    assert meaning["topology.nodes"] == (2, 4)
    assert meaning["topology.world_size"] == (8, 16)
    assert meaning["lifecycle.grace_s"] == (60, 600)
    assert changes(tree, "spec") == {"lifecycle.grace": ("1m", "10m"), "nodes": (2, 4)}, "nobody said batch.global"
    assert tree["breaks_resume"] == ["batch.global"]
    assert "job.sbatch" in [file["path"] for file in tree["files"]]


def test_what_may_change_freely_breaks_no_resume(diff: Diff) -> None:
    status, printed, _ = diff("time=1h,2h", "loop.steps=100")
    assert status == 1
    assert "either job can resume the other's runs" in printed
    assert "lifecycle.time_limit_s  3600 → 7200" in printed


def test_a_run_of_another_name_is_resumed_by_its_folder(diff: Diff) -> None:
    said = "\neither job can resume the other's runs with --resume FOLDER"
    assert said in diff("name=rb", "vs", "name=rc")[1]
    assert said in diff("storage.root=a", "vs", "storage.root=b")[1]
    assert "\neither job can resume the other's runs\n" in diff("time=1h", "vs", "time=2h")[1]


@pytest.mark.parametrize(
    ("a", "b", "keys", "breaks"),
    [
        ("batch.micro=32", "batch.micro=64", {"batch.micro": (32, 64)}, ["batch.global"]),
        ("batch.micro=8", "batch.micro=8 batch.accumulation=2", {"batch.accumulation": (None, 2)}, ["batch.global"]),
        ("procs=2 batch.global=32", "procs=2", {"batch.global": (32, None)}, []),
    ],
)
def test_a_key_is_told_as_it_was_said_and_not_as_it_was_derived(
    diff: Diff, a: str, b: str, keys: dict[str, Any], breaks: list[str]
) -> None:
    tree = found(diff, *a.split(), "vs", *b.split())
    assert (changes(tree, "spec"), tree["breaks_resume"]) == (keys, breaks)


def test_of_a_program_and_the_trainer_only_what_was_said_differently_is_a_key(diff: Diff) -> None:
    assert main(["name=own", "backend=slurm", "nodes=2", "gpus=4", "--", "train.py"]) == 0
    diff("nodes=1,2")  # drains what the compile printed
    tree = found(diff, str(OLD), "artifacts/own/slurm")
    assert changes(tree, "spec") == {"command": (None, ["train.py"]), "name": ("old", "own")}
    assert changes(tree, "meaning")["uses_trainer"] == (True, False)
    assert not [key for key in changes(tree, "meaning") if key.startswith("train.")]


def test_the_same_words_give_the_same_job(diff: Diff) -> None:
    assert diff(*SAME) == (0, f"a  {OLD}\nb  {' '.join(SAME[1:])}\nthe same job, in the same files\n", "")


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("job.sbatch", "\nset ", "\n\n# a comment\n  set "),
        ("train.json", '{\n  "schema": 1,\n  "job": "old",', '{"job": "old",\n  "schema": 1,'),
        ("spec.yaml", "\nnodes: 2\n", "\nnodes:   2 # machines\n"),
        ("launch.sh", "\n)\n", "\n  # a comment\n\n)\n"),
    ],
)
def test_comments_order_and_spaces_are_no_difference(diff: Diff, file: str, old: str, new: str) -> None:
    text = (OLD / file).read_text()
    assert old in text
    (OLD / file).write_text(text.replace(old, new))
    status, printed, _ = diff(*SAME)
    assert (status, printed.splitlines()[-1]) == (
        0,
        "the same job, in files that differ in comments, order or whitespace",
    )


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("launch.sh", "set -euo pipefail\n", "\n"),
        ("job.sbatch", "\n  --kill-on-bad-exit", "\n\n  --kill-on-bad-exit"),
        ("job.sbatch", "\n#SBATCH --nodes=", "\n #SBATCH --nodes="),
        ("job.sbatch", "#!/", "\n#!/"),
    ],
    ids=["a command that is gone", "a command that ends early", "no option any more", "no batch script"],
)
def test_what_looks_like_a_comment_or_a_space_and_means_something_is_a_difference(
    diff: Diff, file: str, old: str, new: str
) -> None:
    text = (OLD / file).read_text()
    assert old in text
    (OLD / file).write_text(text.replace(old, new, 1))
    assert [each["path"] for each in found(diff, *SAME)["files"]] == [file]


def test_text_that_looks_like_a_comment_is_text(diff: Diff) -> None:
    (OLD / "launch.sh").write_text((OLD / "launch.sh").read_text() + "echo 'a\n# b\n  c'\n")
    shutil.copytree(OLD, "copy")
    Path("copy/launch.sh").write_text((OLD / "launch.sh").read_text().replace("\n# b\n  c'", "\n  c'"))
    assert [each["path"] for each in found(diff, str(OLD), "copy")["files"]] == ["launch.sh"]


@pytest.mark.parametrize(
    ("words", "swapped"),
    [
        (("env.A=1", "env.B=2"), ("env.B=2", "env.A=1")),
        (("labels.a=1", "labels.b=2"), ("labels.b=2", "labels.a=1")),
        (
            ("+backend.extra.comment=x", "+backend.extra.switches=1"),
            ("+backend.extra.switches=1", "+backend.extra.comment=x"),
        ),
        (("+experiment=ab",), ("+experiment=ba",)),
    ],
)
def test_the_order_of_the_words_is_no_difference(diff: Diff, words: tuple[str, ...], swapped: tuple[str, ...]) -> None:
    Path("jobc/experiment").mkdir(parents=True)
    for name, env in (("ab", "{A: 1, B: 2}"), ("ba", "{B: 2, A: 1}")):
        Path(f"jobc/experiment/{name}.yaml").write_text(f"# @package _global_\nenv: {env}\n")
    status, printed, _ = diff("backend=slurm", *words, "vs", "backend=slurm", *swapped)
    assert (status, printed.splitlines()[-1]) == (0, "the same job, in the same files")


def test_a_run_folder_is_that_of_its_newest_attempt(diff: Diff) -> None:
    run = Path("runs/old/20260101-000000")
    shutil.copytree(OLD, run / "artifact/0")
    assert main(["name=old", "backend=slurm", "nodes=4", "gpus=4", "--out", "later"]) == 0
    shutil.copytree("later/old/slurm", run / "artifact/10")
    shutil.copytree(OLD, run / "artifact/9")
    diff("nodes=1,2")  # drains what the compile printed
    assert changes(found(diff, str(OLD), str(run)), "meaning")["topology.nodes"] == (2, 4)
    shutil.copytree(run, "runs/old/copy")
    assert diff(str(run), "runs/old/copy")[1].endswith("\nthe same job, in the same files\n")
    shutil.rmtree(run / "artifact/10")
    assert diff(str(run), str(OLD))[0] == 0


def test_a_directory_alone_is_compared_with_its_own_words(diff: Diff) -> None:
    assert diff(str(OLD)) == (
        0,
        f"a  {OLD}\nb  the same overrides, compiled now\nthe same job, in the same files\n",
        "",
    )
    Path("jobc").mkdir()
    Path("jobc/config.yaml").write_text("seed: 7\n")
    assert changes(found(diff, str(OLD)), "spec") == {"seed": (0, 7)}


def test_a_directory_of_a_sweep_is_no_override(diff: Diff) -> None:
    assert main(["-m", "name=f", "backend=slurm", "nodes=1,2"]) == 0
    diff("nodes=1,2")  # drains what the compile printed
    one, other = "artifacts/f+nodes=1/slurm", "artifacts/f+nodes=2/slurm"
    for sides in ((one, other), (f"./{one}", str(Path(other).absolute())), (one, "name=f", "nodes=2", "backend=slurm")):
        assert changes(found(diff, *sides), "meaning")["topology.nodes"] == (1, 2)
    assert diff(one)[0] == 0
    assert diff(one, "artifacts/f+nodes=9/slurm")[2].startswith("error[JC5004 ")
    shutil.move("artifacts", "lr=1")
    assert diff("lr=1/f+nodes=1/slurm", "lr=1/f+nodes=1/slurm")[0] == 0


def test_points_of_a_sweep_are_compared(diff: Diff) -> None:
    assert main(["-m", "name=s", "seed=1,2", "optim.lr=1,2"]) == 0
    diff("nodes=1,2")  # drains what the compile printed
    sweep = "artifacts/s+sweep/local"
    for sides in ((f"{sweep}:1", f"{sweep}:3"), (f"{sweep}:1", "name=s", "seed=2", "optim.lr=2")):
        assert changes(found(diff, *sides), "meaning")["train.seed"] == (1, 2)
    assert diff(f"{sweep}:2")[0] == 0
    code, _, said = diff(f"{sweep}:2", f"{sweep}:4")
    assert code == 2 and "the sweep has no point 4" in said
    Path(sweep, "points.json").write_text("{}")
    code, _, said = diff(f"{sweep}:2", f"{sweep}:3")
    assert code == 2 and "points.json does not describe the points of a sweep" in said


def test_the_directory_of_a_sweep_is_no_side(diff: Diff) -> None:
    assert main(["-m", "name=s", "backend=slurm", "seed=1,2"]) == 0
    diff("nodes=1,2")  # drains what the compile printed
    all_of_them, point = "artifacts/s+sweep/slurm", "artifacts/s+sweep/slurm:1"
    for sides in ((all_of_them,), (all_of_them, point), (point, all_of_them), (all_of_them, all_of_them)):
        status, printed, said = diff(*sides)
        assert (status, printed) == (2, "") and f"{all_of_them} is not a single job" in said
        assert "because: each point of a sweep is a separate job" in said
    assert diff(all_of_them, "name=s", "backend=slurm")[2].startswith("error[JC1110 ")


@pytest.mark.parametrize("record", ["plan", "identity", "spec"])
def test_an_edited_record_is_not_compared(diff: Diff, record: str) -> None:
    file = OLD / ".jobc/job.json"
    tree = json.loads(file.read_text())
    for edited in ({**tree, record: []}, {key: tree[key] for key in tree if key != record}):
        file.write_text(job_json.to_canonical_text(edited))
        status, printed, said = diff(*SAME)
        assert (status, printed) == (2, "") and "edited by hand: .jobc/job.json" in said
        assert_complete(said)


@pytest.mark.parametrize("lines", [None, "a = 1", [1], ["a = "], ["a"]])
def test_a_record_with_a_fitting_checksum_must_have_lines_of_json_values(diff: Diff, lines: object) -> None:
    file = OLD / ".jobc/job.json"
    tree = {**json.loads(file.read_text()), "plan": lines}
    tree["checksums"][".jobc/job.json"]["sha256"] = job_json.checksum_without_seal(tree)
    file.write_text(job_json.to_canonical_text(tree))
    status, printed, said = diff(*SAME)
    assert (status, printed) == (2, "") and "plan in .jobc/job.json is not a list of `key = JSON value` lines" in said


@pytest.mark.parametrize("file", ["train.json", "spec.yaml"])
def test_a_file_that_is_no_data_any_more_is_compared_as_text(diff: Diff, file: str) -> None:
    (OLD / file).write_text((OLD / file).read_text() + "{\n")
    assert found(diff, *SAME)["files"] == [{"path": file, "kind": "changed", "lines": 1}]
    assert diff(*SAME)[1].endswith(f"  {file}  1 line\n")


def test_null_for_a_text_is_a_difference(diff: Diff) -> None:
    claim = "mounts=[{kind: claim, source: c, target: /s, read_only: false}]"
    words = ("name=old", "backend=kubernetes", "image=x:1", "code=image", "code.root=/app", claim, "storage.root=/s/r")
    assert main([*words]) == 0
    diff("nodes=1,2")  # drains what the compile printed
    manifest = Path("artifacts/old/kubernetes/job.yaml")
    text = manifest.read_text()
    assert "clusterIP: None\n" in text
    manifest.write_text(text.replace("clusterIP: None\n", "clusterIP: null\n"))
    tree = found(diff, "artifacts/old/kubernetes", *words)
    assert [file["path"] for file in tree["files"]] == ["job.yaml"]


def test_a_hand_edit_is_a_difference_of_files(diff: Diff) -> None:
    assert main(["name=timed", "backend=slurm", "time=1h"]) == 0
    diff("nodes=1,2")  # drains what the compile printed
    script = Path("artifacts/timed/slurm/job.sbatch")
    script.write_text(script.read_text().replace("--time=0-01:00:00", "--time=0-09:00:00"))
    same = (str(script.parent), "name=timed", "backend=slurm", "time=1h")
    tree = found(diff, *same)
    assert (tree["meaning"], tree["spec"]) == ([], [])
    assert tree["files"] == [{"path": "job.sbatch", "kind": "changed", "lines": 1}]
    shutil.copytree(script.parent, "copy")
    assert diff(str(script.parent), "copy")[0] == 0, "both were edited alike"


def test_other_line_ends_and_a_link_are_differences(diff: Diff) -> None:
    shutil.copytree(OLD, "copy")
    (OLD / "launch.sh").write_text((OLD / "launch.sh").read_text(), newline="\r\n")
    (OLD / "train.json").rename("train.json")
    (OLD / "train.json").symlink_to(Path("train.json").resolve())
    files = {each["path"]: each["kind"] for each in found(diff, str(OLD), "copy")["files"]}
    assert files == {"launch.sh": "changed", "train.json": "a link only in a"}


def test_a_file_beside_those_of_jobc_and_a_lost_x_are_differences(diff: Diff) -> None:
    (OLD / "notes.txt").write_text("for later\n")
    (OLD / "launch.sh").chmod(0o644)
    assert found(diff, *SAME)["files"] == [
        {"path": "launch.sh", "kind": "executable only in b", "lines": 0},
        {"path": "notes.txt", "kind": "only in a", "lines": 0},
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("backend=slurm,ssh", "hosts=null"),
        ("procs=2", "vs", "procs=none"),
        (str(OLD), "vs"),
        ("vs", "procs=2"),
        (str(OLD), "procs=2", "vs", str(OLD)),
        (str(OLD), str(OLD), "nodes=2"),
        ("nowhere", "name=old"),
        ("nodes=1",),
        ("nodes=one,two",),
        ("nodes=1,2", "--bogus"),
        ("nodes=1,2", "--rank", "3"),
        ("nodes=1,2", "--format", "csv"),
        ("nodes=1,2", "--format", "github"),
        ("nodes=one,two", "--format", "json"),
        ("--config-dir", "nowhere", "nodes=1,2"),
    ],
)
def test_what_cannot_be_compared_is_said(diff: Diff, words: tuple[str, ...]) -> None:
    status, printed, said = diff(*words)
    assert (status, printed) == (2, "")
    assert_complete(said)


def test_either_side_of_vs_may_be_a_directory(diff: Diff) -> None:
    assert diff(str(OLD), "vs", *SAME[1:])[0] == 0
    there, back = (
        found(diff, *words) for words in ((str(OLD), "vs", *SAME[1:], "gpus=8"), (*SAME[1:], "gpus=8", "vs", str(OLD)))
    )
    assert changes(there, "spec")["gpus"] == (4, 8) and changes(back, "spec")["gpus"] == (8, 4)
    assert diff(str(OLD), "vs", str(OLD))[0] == 0


def test_of_an_emptied_mapping_only_its_keys_are_told(diff: Diff) -> None:
    assert changes(found(diff, "env.A=b", "vs", "nodes=1"), "spec") == {"env.A": ("b", "absent")}
    assert changes(found(diff, "nodes=1", "vs", "env={A: b}"), "spec") == {"env.A": ("absent", "b")}


def test_how_a_point_is_called_is_no_difference(diff: Diff) -> None:
    same = "a  optim.lr=1e-3\nb  optim.lr=0.001\nthe same job, in the same files\n"
    assert diff("optim.lr=1e-3,0.001") == (0, same, "")
    of_sweep, of_two = found(diff, "nodes=2,4"), found(diff, "nodes=2", "vs", "nodes=4")
    assert (of_sweep["a"], of_sweep["b"]) == ("nodes=2", "nodes=4") and of_sweep == of_two
    assert {"run.folder", "point"}.isdisjoint(changes(of_sweep, "meaning") | changes(of_sweep, "spec"))


def test_two_backends_and_two_sets_of_words(diff: Diff) -> None:
    tree = found(diff, "backend=slurm,pdsh", "nodes=2", "hosts=[a,b]", "queue.name=null")
    assert changes(tree, "meaning")["backend.name"] == ("slurm", "pdsh")
    assert changes(tree, "meaning")["backend.constraint"] == (None, "absent")
    assert changes(tree, "spec") == {"backend": ("slurm", "pdsh")}
    assert re.search(r"backend.constraint +null → \(not there\)", diff("backend=slurm,local")[1])
    assert ("job.sbatch", "only in a") in [(file["path"], file["kind"]) for file in tree["files"]]
    tree = found(diff, "procs=2", "vs", "procs=2", "batch.micro=8", "batch.accumulation=2")
    assert changes(tree, "meaning") == {
        "train.batch.accumulation": (1, 2),
        "train.batch.micro": (16, 8),
    }
    assert tree["breaks_resume"] == []
