"""`jobc verify`: inputs that have changed since an artifact was written, and what its digest covers."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jobc.compiler.cli import main
from jobc.compiler.emit import job_json

Call = Callable[..., "tuple[int, str, str]"]
JOB = "artifacts/job/local"
PRESET = "# @package _global_\nloop: {steps: 100}\n"


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """words -> (exit status, standard output, standard error), in a project with one preset."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobc/experiment").mkdir(parents=True)
    Path("jobc/experiment/long.yaml").write_text(PRESET)
    Path("hosts").write_text("a\nb\n")

    def run(*words: str) -> tuple[int, str, str]:
        status = main(list(words))
        return (status, *capsys.readouterr())

    return run


def digest(folder: str) -> str:
    return str(json.loads(Path(folder, ".jobc/job.json").read_text())["digest"])


def test_a_changed_preset_is_told_in_meaning(call: Call) -> None:
    call("+experiment=long")
    status, printed, _ = call("verify", JOB)
    assert (
        status == 0
        and f"digest   {digest(JOB)}\n  inputs   unchanged: compiling them again gives the same files\n" in printed
    )
    Path("jobc/experiment/long.yaml").write_text(PRESET.replace("100", "900"))
    status, printed, said = call("verify", JOB)
    assert status == 1 and "[JC5032 " in said and "project:experiment/long.yaml was changed" in said
    assert "train.loop.steps  100 → 900" in printed and "either job can resume the other's runs" in printed


WORDS = (
    (),
    ("+experiment=long", "env.A=a 'b'", "--out", "other", "--strict"),
    ("-m", "env.A=a b,c", "name=s", "--", "train.py", "$x", "a b"),
)


@pytest.mark.parametrize("words", WORDS, ids=["nothing", "much", "a sweep"])
def test_the_hint_undoes_an_edit(call: Call, words: tuple[str, ...]) -> None:
    call(*words)
    script = next(Path().glob("*/*/local/launch.sh"))
    before = script.read_text()
    script.write_text(before + "# mine\n")
    hint = re.search(
        r"hint: jobc (--force.*), to undo the edits; without --force nothing is overwritten",
        call("verify", str(script.parent))[2],
    )
    assert hint and call(*shlex.split(hint[1]))[0] == 0
    assert script.read_text() == before


def test_the_hint_of_a_copy_names_no_folder(call: Call) -> None:
    call()
    shutil.copytree(JOB, "runs/job/1/artifact/0")
    Path("runs/job/1/artifact/0/launch.sh").write_text("")
    assert "hint: jobc --force, to undo the edits" in call("verify", "runs/job/1/artifact/0")[2]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('\n  "grace_s": 60', '\n  "grace_s": 61'),
        ('"place": "job/local"', '"place": "job/ssh"'),
        ('    "train.seed = 0"', '     "train.seed = 0"'),
        ('    "strict": false', '     "strict": false'),
    ],
    ids=["a setting", "the path", "white space", "white space in the seal"],
)
def test_an_edit_of_the_job_file_is_an_edit(call: Call, old: str, new: str) -> None:
    call("name=job")
    file = Path(JOB, ".jobc/job.json")
    assert file.read_text().count(old) == 1
    file.write_text(file.read_text().replace(old, new))
    status, _, said = call("verify", JOB)
    assert status == 1 and f"[JC5007 checksum-mismatch]: {JOB}/.jobc/job.json (changed)\n" in said
    assert "hint: jobc --force name=job, to undo" in said


def test_for_machines_it_is_one_document(call: Call) -> None:
    call("+experiment=long")
    status, printed, said = call("verify", JOB, "--format=json")
    assert (status, said) == (0, "")
    (told,) = json.loads(printed)
    assert (told["directory"], told["digest"], told["edits"]) == (JOB, digest(JOB), [])
    assert told["inputs"] == {"state": "the same"}
    Path("jobc/experiment/long.yaml").write_text(PRESET.replace("100", "900"))
    with open(f"{JOB}/launch.sh", "a") as file:
        file.write("# mine\n")
    status, printed, said = call("verify", "--format", "json", JOB)
    assert (status, said) == (1, "")
    (told,) = json.loads(printed)
    assert len(told["edits"]) == 1 and told["edits"][0].startswith("launch.sh line ")
    assert told["inputs"]["state"] == "changed" and "train.json" in told["inputs"]["files"]


def test_for_machines_a_change_means_what_diff_says(call: Call) -> None:
    call("+experiment=long")
    Path("jobc/experiment/long.yaml").write_text(PRESET.replace("100}", "900}\nseed: 7\nlabels: {team: us}"))
    (told,) = json.loads(call("verify", JOB, "--format=json")[1])
    said = json.loads(call("diff", JOB, "--format=json")[1])
    for key in ("meaning", "spec", "breaks_resume"):
        assert told["inputs"][key] == said[key] != [], key
    Path("jobc/experiment/long.yaml").unlink()
    (told,) = json.loads(call("verify", JOB, "--format=json")[1])
    assert told["inputs"]["refused"] and told["inputs"]["meaning"] is None


def test_a_directory_that_cannot_be_read_hides_no_other(call: Call) -> None:
    call("name=job")
    shutil.copytree(JOB, "damaged")
    Path("damaged/.jobc/job.json").write_text("{")
    status, printed, said = call("verify", "damaged", JOB, "nothing")
    assert status == 1 and printed.startswith(f"{JOB}: ") and "compiling them again gives the same files" in printed
    assert (
        "error[JC5011 damaged-job-file]: damaged/" in said
        and "error[JC5004 no-artifact-directory]: nothing is not an artifact directory" in said
    )
    status, printed, said = call("verify", "damaged", JOB, "nothing", "--format=json")
    assert (status, said) == (1, "")
    damaged, sound, nothing = json.loads(printed)
    assert sound["directory"] == JOB and sound["inputs"] == {"state": "the same"} and "refused" not in sound
    for one, folder, code in ((damaged, "damaged", "JC5011"), (nothing, "nothing", "JC5004")):
        assert one.keys() == {"directory", "refused"} and one["directory"] == folder
        assert [told["code"] for told in one["refused"]] == [code] and one["refused"][0].keys() > {"title", "hint"}


@pytest.mark.parametrize("words", [["--format"], ["--format", "yaml"], ["--format=sarif"], ["--config-dir"]])
def test_an_option_without_what_it_takes_is_refused(words: list[str], call: Call) -> None:
    call("name=job")
    status, printed, said = call("verify", JOB, *words)
    assert (status, printed) == (1, "") and "error[JC1110 " in said


def test_a_comment_in_a_preset_changes_nothing(call: Call) -> None:
    call("+experiment=long")
    Path("jobc/experiment/long.yaml").write_text(f"{PRESET}# a word\n")
    assert call("verify", JOB)[0] == 0


def test_a_file_that_joins_the_inputs_is_found(call: Call) -> None:
    call("name=job")
    Path("jobc/config.yaml").write_text("seed: 7\n")
    status, printed, said = call("verify", JOB)
    assert (
        status == 1
        and "project:config.yaml is new: the original compile did not read it" in said
        and "train.seed  0 → 7" in printed
    )


def test_a_file_that_joins_the_inputs_and_cannot_be_read_is_not_blamed_on_jobc(call: Call) -> None:
    call("name=job")
    Path("jobc/config.yaml").symlink_to("nowhere")
    status, _, said = call("verify", JOB)
    assert status == 1 and "no longer compile" in said and "[JC1001 " in said
    assert "because: the errors are printed here" in said


def test_a_file_of_a_user_who_is_not_here_is_elsewhere(call: Call) -> None:
    call("name=job")
    file = Path(JOB, ".jobc/job.json")
    tree = json.loads(file.read_text())
    file.write_text(job_json.to_canonical_text({**tree, "inputs": {"file:~nobody-of-that-name/hosts": "0"}}))
    assert "not compared: not on this machine: file:~nobody-of-that-name/hosts" in call("verify", JOB)[1]


def test_an_edit_and_a_change_of_the_inputs_are_both_told(call: Call) -> None:
    call("backend=ssh", "hosts=@hosts", "nodes=2")
    with open("artifacts/job/ssh/launch.sh", "a") as file:
        file.write("# mine\n")
    Path("hosts").write_text("a\nc\n")
    status, printed, said = call("verify", "artifacts/job/ssh")
    assert status == 1 and "[JC5007 " in said and "file:hosts was changed" in said
    assert printed.startswith(
        f"artifacts/job/ssh: 1 edit\n  digest   {digest('artifacts/job/ssh')} (of the original files"
    )
    assert "resources.hosts  a,b → a,c" in printed and "launch.sh" not in printed


def test_inputs_that_do_not_compile_any_more_say_why(call: Call) -> None:
    call("+experiment=long")
    Path("jobc/experiment/long.yaml").write_text(PRESET.replace("steps", "step"))
    status, _, said = call("verify", JOB)
    assert status == 1 and "no longer compile" in said and "did you mean loop.steps?" in said
    assert "hint: restore missing files, or fix the errors printed here; then jobc --force +experiment=long" in said


def test_a_preset_that_is_gone_from_the_project_is_told(call: Call) -> None:
    call("+experiment=long")
    Path("jobc/experiment/long.yaml").unlink()
    status, _, said = call("verify", JOB)
    assert status == 1 and "[JC5032 " in said and "project:experiment/long.yaml was deleted" in said
    assert "hint: restore missing files, " in said, "the command alone would not compile"


def test_an_artifact_of_another_project_is_not_compared_with_the_files_of_this_one(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("other/jobc/experiment").mkdir(parents=True)
    Path("other/jobc/experiment/mine.yaml").write_text(PRESET)
    monkeypatch.chdir("other")
    call("+experiment=mine", "backend=ssh", "hosts=a,b", "nodes=2")
    monkeypatch.chdir("..")
    status, printed, _ = call("verify", "other/artifacts/job/ssh")
    assert status == 0 and "not compared: not on this machine: project:experiment/mine.yaml" in printed


def test_a_change_is_told_though_other_inputs_are_elsewhere(call: Call) -> None:
    call("--config-dir", "jobc", "+experiment=long", "backend=ssh", "hosts=@hosts", "nodes=2")
    Path("jobc").rename("elsewhere")
    assert call("verify", "artifacts/job/ssh")[0] == 0
    Path("hosts").write_text("a\nc\n")
    status, printed, said = call("verify", "artifacts/job/ssh")
    assert status == 1 and "file:hosts was changed" in said and "experiment/long.yaml" not in said
    assert "not recompiled: not on this machine: input:experiment/long.yaml" in printed


def test_inputs_that_are_elsewhere_are_not_compared(call: Call) -> None:
    call("--config-dir", "jobc", "+experiment=long")
    Path("jobc").rename("elsewhere")
    status, printed, _ = call("verify", JOB)
    assert status == 0 and "not compared: not on this machine: input:experiment/long.yaml" in printed
    assert "compiling them again gives the same files" in call("verify", JOB, "--config-dir", "elsewhere")[1]


def test_another_jobc_that_writes_the_same_is_no_drift(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    call("name=job")
    monkeypatch.setattr("jobc.__version__", "99.9.9")
    monkeypatch.setattr("jobc.compiler.pipeline.seal.__version__", "99.9.9")
    assert call("verify", JOB)[0] == 0


def test_a_sweep_and_its_command_are_compiled_again_as_they_were(call: Call) -> None:
    call("-m", "name=s", "env.A='a,b',c d", "+experiment=long", "--", "train.py", "$x", "a b")
    status, printed, said = call("verify", "artifacts/s+sweep/local")
    assert (status, said) == (0, "") and "compiling them again gives the same files" in printed


def test_a_fresh_directory_has_not_drifted_whatever_was_typed_first(call: Call) -> None:
    Path("jobc/later").mkdir()
    Path("jobc/later/short.yaml").write_text(PRESET.replace("100", "10"))
    first = ""
    for words in (
        ("env.Z=1", "labels.z=1", "env.A=2", "labels.a=1"),
        ("labels.a=1", "env.A=2", "env.Z=1", "labels.z=1"),
    ):
        call(*words)
        assert call("verify", JOB)[0] == 0 and digest(JOB) == (first or digest(JOB))
        first = digest(JOB)
    for presets, steps in ((("+later=short", "+experiment=long"), 100), (("experiment=long", "later=short"), 10)):
        call("seed=1", *presets)
        assert json.loads(Path(JOB, "train.json").read_text())["loop"]["steps"] == steps
        assert call("verify", JOB)[0] == 0


def test_the_directory_of_a_sweep_on_slurm_is_compiled_again(call: Call) -> None:
    call("-m", "name=s", "backend=slurm", "env.A=1,2", "--", "train.py")
    folder = "artifacts/s+sweep/slurm"
    status, printed, said = call("verify", folder)
    assert (status, said) == (0, "") and "inputs   unchanged: compiling them again gives the same files" in printed
    status, printed, _ = call("why", f"{folder}/job.sbatch:5")
    assert status == 0 and "  from     jobc:backends/slurm/templates/array.sbatch.j2:" in printed
    Path(folder, "job.sbatch").write_text(Path(folder, "job.sbatch").read_text() + "# mine\n")
    assert "hint: jobc --force -m name=s backend=slurm env.A=1,2 -- train.py" in call("verify", folder)[2]


def test_a_sum_that_somebody_fitted_to_a_file_is_found(call: Call) -> None:
    call("name=job")
    script, file = Path(JOB, "launch.sh"), Path(JOB, ".jobc/job.json")
    tree = json.loads(file.read_text())
    script.write_text(script.read_text() + "# mine\n")
    tree["checksums"]["launch.sh"]["sha256"] = hashlib.sha256(script.read_bytes()).hexdigest()
    file.write_text(job_json.to_canonical_text(tree))
    status, printed, said = call("verify", JOB)
    assert status == 1 and ".jobc/job.json (the digest does not match the checksums)" in said
    assert "[JC5032 " in said and "because: the checksums in job.json were changed after the compile" in said
    assert printed.endswith("\nfiles\n  launch.sh\n")
    assert call("name=job")[0] == 1, "not overwritten without --force"


@pytest.mark.parametrize("path", ["launch.sh", ".jobc", "jobctl"])
def test_a_link_to_equal_files_elsewhere_is_an_edit(call: Call, path: str) -> None:
    call("name=job")
    Path(JOB, path).rename("outside")
    Path(JOB, path).symlink_to(Path("outside").resolve())
    status, _, said = call("verify", JOB)
    assert status == 1 and "[JC5007 " in said and " (link)" in said


def test_the_digest_is_of_the_job_and_not_of_how_it_was_said(call: Call) -> None:
    call("+experiment=long")
    first = digest(JOB)
    call("loop.steps=100")
    assert digest(JOB) == first
    call("loop.steps=101")
    assert digest(JOB) != first


def forge(folder: str, **request: object) -> None:
    file = Path(folder, ".jobc/job.json")
    job = json.loads(file.read_text())
    job["request"] |= request
    file.write_text(job_json.to_canonical_text(job))


@pytest.mark.parametrize("is_sweep", [False, True])
def test_a_host_file_outside_the_project_is_compared_but_not_read_again(call: Call, is_sweep: bool) -> None:
    folder = Path("..", f"{Path.cwd().name}-hosts").absolute()
    folder.mkdir()
    (folder / "list").write_text("a\n")
    words = ["-m", "seed=1,2"] if is_sweep else []
    assert call(*words, "name=own", "backend=ssh", f"hosts=@{folder}/list")[0] == 0
    (artifact,) = map(str, Path("artifacts").glob("own*/ssh"))
    status, printed, said = call("verify", artifact)
    assert (status, said) == (0, "")
    assert "inputs   not compared: hosts=@… names a file outside the project" in printed
    assert "hosts=@… names a file outside the project" in call("why", artifact, "nodes")[2]
    (folder / "list").write_text("b\n")
    status, _, said = call("verify", artifact)
    assert status == 1 and f"file:{folder}/list was changed" in said


@pytest.mark.parametrize("words", [["run"], ["--out=/"], ["name=x", "-m"]])
def test_a_hint_quotes_no_recorded_word_that_is_not_an_override(call: Call, words: list[str]) -> None:
    call("name=job")
    forge(JOB, words=words, command=["p.py"])
    Path(JOB, "launch.sh").write_text("")
    said = call("verify", JOB)[2]
    assert "hint: compile the job again with --force, to undo the edits" in said
    assert "p.py" not in said


def test_a_recorded_command_of_absurd_length_is_refused_at_once(call: Call) -> None:
    call("name=job", "--", "true")
    forge(JOB, command=["word"] * 100_000)
    start = time.process_time()
    status, _, said = call("verify", JOB)
    assert status == 1 and "[JC1116 " in said and len(said) < 4000
    assert call("why", JOB, "loop.steps")[0] == 1
    assert time.process_time() - start < 3


def test_a_line_or_rank_of_absurd_length_is_refused(call: Call) -> None:
    call("name=job")
    for words in ([f"{JOB}/launch.sh:{'9' * 5000}"], [JOB, "RANK", "--rank", "9" * 5000]):
        status, _, said = call("why", *words)
        assert status == 1 and "JC9" not in said
