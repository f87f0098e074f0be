"""A user who knows better than a rule says so next to the value: `# jobc: allow NAME because …`, and --strict."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from jobc.compiler.checks import suppressions
from jobc.compiler.cli import main

WISH = "queue:\n  name: fast  # jobc: allow JC4102 because other backends have it\n"


@pytest.fixture(autouse=True)
def in_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


def check(capsys: pytest.CaptureFixture[str], team: str, *words: str) -> tuple[int, list[str]]:
    """Return (exit code, `error[JC2003]` …) for a job with a file that contains that text."""
    Path("jobc/experiment").mkdir(parents=True, exist_ok=True)
    Path("jobc/experiment/team.yaml").write_text(f"# @package _global_\n{team}")
    status = main(["check", "+experiment=team", *words])
    found = re.findall(r"^(\w+\[JC\d+) [a-z0-9-]+\]: ", capsys.readouterr().err, re.MULTILINE)
    return status, [f"{each}]" for each in found]


@pytest.mark.parametrize(
    "team",
    [
        WISH,
        "queue:\n  # jobc: allow JC4102 because other backends have it\n  name: fast\n",
        "queue:\n  # jobc: allow JC4102 because other backends have it\n\n  # the quick one\n  name: fast\n",
    ],
    ids=["on the line", "on the line above", "further above, only comments between"],
)
def test_a_note_that_is_allowed_is_not_shown_and_is_no_error_with_strict(
    team: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(capsys, team.replace("# jobc: allow JC4102", "# else")) == (0, ["note[JC4102]"])
    assert check(capsys, team.replace("# jobc: allow JC4102", "# else"), "--strict") == (1, ["error[JC4102]"])
    assert check(capsys, team) == (0, [])
    assert check(capsys, team, "--strict") == (0, [])


ALLOWED = "# jobc: allow {} because it is meant"
LIST = ["command:{0}", "{1}- bash", "- -c", "{2}- python3 train.py | tee log{3}"]


@pytest.mark.parametrize("place", range(4))
def test_a_list_is_one_value_from_its_key_to_its_last_item(place: int, capsys: pytest.CaptureFixture[str]) -> None:
    comment = ALLOWED.format("JC3008")
    places = [f"  {comment}", f"  {comment}\n", f"  {comment}\n", f"  {comment}"]
    team = "\n".join(LIST).format(*(text if at == place else "" for at, text in enumerate(places)))
    assert check(capsys, team.replace(comment, "# else")) == (0, ["warning[JC3008]"]), team
    assert check(capsys, team, "--strict") == (0, [])


@pytest.mark.parametrize(
    "team",
    [
        "env:\n  C: >-   {0}\n    $SCRATCH/d\n\n  D: x\n",
        "env:\n  {0}\n  C: |\n    $SCRATCH/d\n  D: x\n",
        "env:\n  C:\n    $SCRATCH/d  {0}\n  D: x\n",
        'env:\n  C: "$SCRATCH/d\n    e"  {0}\n  D: x\n',
        "env: {{D: x, C: $SCRATCH/d}}  {0}\n",
    ],
    ids=["behind the sign of a block", "above a block", "on the next line", "behind the last line", "in braces"],
)
def test_a_value_of_several_lines_is_one(team: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, team.format("# else"))[1] == ["warning[JC3002]"]
    assert check(capsys, team.format(ALLOWED.format("JC3002")), "--strict") == (0, [])


def test_an_alias_is_a_value_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    anchor, alias = 'env:\n  A: &v "$SCRATCH/d"', "  B: *v"
    comment = ALLOWED.format("JC3002")
    assert check(capsys, f"{anchor}\n{alias}\n")[1] == ["warning[JC3002]"] * 2
    for team in (f"{anchor}  {comment}\n{alias}\n", f"{anchor}\n{alias}  {comment}\n"):
        assert check(capsys, team)[1] == ["warning[JC3002]"]
    assert check(capsys, f"{anchor}  {comment}\n{alias}  {comment}\n", "--strict") == (0, [])
    check(capsys, f"{anchor}  {comment}\n{alias}\n")
    assert main(["check", "+experiment=team"]) == 0
    assert "--> project:experiment/team.yaml:4:3   (env.B)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "team",
    ["{}\nlabels:\n  team: a\n", "labels:  {}\n  team: a\n", "labels:\n  team: a  {}\n", "labels: {{team: a}}  {}\n"],
    ids=["above its key", "at its key", "at a value of it", "in braces"],
)
def test_what_is_found_of_a_mapping_is_allowed_at_its_key(team: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, team.format("# else"))[1] == ["note[JC4102]"]
    assert check(capsys, team.format(ALLOWED.format("JC4102")), "--strict") == (0, [])


def test_the_key_of_a_mapping_allows_nothing_below(capsys: pytest.CaptureFixture[str]) -> None:
    team = f"env:  {ALLOWED.format('JC3002')}\n  A: $SCRATCH/d\n"
    assert check(capsys, team)[1] == ["note[JC3081]", "warning[JC3002]"]


def test_a_mapping_is_pointed_at_by_its_key(capsys: pytest.CaptureFixture[str]) -> None:
    check(capsys, "queu:\n  - {name: fast}\nenv:\n  A: {B: c}\nmounts:\n  - {kind: host}\n")
    assert main(["check", "+experiment=team"]) == 1
    shown = capsys.readouterr().err
    assert "team.yaml:2:1   (queu)\n      queu:\n      ^^^^\n" in shown
    assert "team.yaml:5:3   (env.A)\n      A: {B: c}\n      ^\n" in shown


def test_machines_are_told_what_is_allowed_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    check(capsys, WISH)
    assert main(["check", "+experiment=team", "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["diagnostics"]
    assert (found["code"], found["allowed"]) == ("JC4102", "other backends have it")
    assert main(["check", "+experiment=team", "--format", "github"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("between", [" ", "; ", "\n    "])
def test_several_comments_of_one_value_all_count(between: str, capsys: pytest.CaptureFixture[str]) -> None:
    team = "command:\n  - bash\n  - -c\n  {}\n  - python3 train.py --api-key abc | tee log\n"
    first, second, idle = map(ALLOWED.format, ("JC3008", "JC3003", "JC4102"))
    assert check(capsys, team.format(between.join([first, idle])))[1] == ["error[JC3003]"]
    assert check(capsys, team.format(between.join([idle, second])))[1] == ["warning[JC3008]", "note[JC3081]"]
    assert check(capsys, team.format(between.join([first, second])), "--strict") == (0, [])


def test_each_of_several_comments_on_a_line_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    said = ALLOWED.format("JC4102")
    assert check(capsys, f"queue:\n  name: fast  {said} # jobc: allow JC3011\n") == (1, ["error[JC3080]"])
    assert check(capsys, f"queue:\n  name: 'a # jobc: allow me'  {said}\n", "--strict") == (0, [])


def test_strict_tells_of_every_stage_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--strict", "env.NCCL_IB_HCA=", "queue.name=gpu"]) == 1
    shown = capsys.readouterr().err
    assert "error[JC3004 empty-variable]" in shown and "error[JC4102 ignored-by-backend]" in shown


@pytest.mark.parametrize(
    "team",
    [
        "nodes: 1  # jobc: allow JC4102 because it has no effect\n",
        "nodes: 1\nqueue:\n  name: fast\n  # jobc: allow JC4102 because it stands below the value\n",
        WISH.replace("JC4102", "JC2003"),
    ],
    ids=["nothing is wrong there", "below", "another code"],
)
def test_what_allows_nothing_is_a_note(team: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "note[JC3081]" in check(capsys, team)[1]


def test_of_a_sweep_one_point_with_a_use_for_it_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, WISH, "-m", "backend=local,slurm") == (0, [])
    assert check(capsys, WISH, "backend=slurm") == (0, ["note[JC3081]"])
    assert check(capsys, WISH, "backend=slurm", "--strict") == (0, ["note[JC3081]"])


@pytest.mark.parametrize(
    "comment",
    [
        "jobc: allow JC4102",
        "jobc: allow JC4102 because",
        "jobc: allow because I say so",
        "jobc: allow JC4102, it is fine",
        "jobc: ignore JC4102 because it is fine",
        "jobc: alow JC4102 because it is fine",
        "jobc: Allow JC4102 because it is fine",
        "JOBC: allow JC4102 because it is fine",
        "jobc : allow JC4102 because it is fine",
        "jobc: allow jc4102 because it is fine",
        "jobc: noqa",
        "jobc: allow ignored-by-backend",
        "jobc: allow Ignored-By-Backend because it is fine",
        "jobc: allow ignored_by_backend because it is fine",
    ],
)
def test_a_comment_that_is_meant_to_allow_is_read_or_refused(comment: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, f"nodes: 1  # {comment}\n") == (1, ["error[JC3080]"])


@pytest.mark.parametrize("comment", ["jobc: one node is enough", "jobc explain JC4102 tells why"])
def test_a_comment_about_jobc_is_a_comment(comment: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, f"nodes: 1  # {comment}\n") == (0, [])


UNKNOWN_NAMES = [
    ("ignored-by-backends", "did you mean ignored-by-backend? see jobc explain ignored-by-backend"),
    ("no-such-thing", "remove the comment"),
]


@pytest.mark.parametrize(
    ("code", "hint"), [("JC41022", "did you mean JC4102?"), ("JC99999", "remove the comment"), *UNKNOWN_NAMES]
)
def test_a_code_that_there_is_not_is_said(code: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, f"nodes: 1  # jobc: allow {code} because it is fine\n", "--strict") == (0, ["note[JC3081]"])
    main(["check", "+experiment=team"])
    shown = capsys.readouterr().err
    assert f"no diagnostic has the code or name {code}" in shown and f"= hint: {hint}" in shown


NAMED = WISH.replace("JC4102", "ignored-by-backend")


def test_a_name_allows_as_its_code_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, NAMED, "--strict") == (0, [])
    assert check(capsys, NAMED, "backend=slurm") == (0, ["note[JC3081]"])
    secret = "env:\n  PUBLIC_API_KEY: anyone  # jobc: allow plaintext-secret because it is printed in the manual\n"
    assert check(capsys, secret) == (0, [])
    batch = "batch:\n  global: 7  # jobc: allow batch-not-divisible because I like seven\n"
    assert check(capsys, batch, "procs=2") == (1, ["error[JC2003]", "error[JC3082]"])


def test_an_idle_name_is_reported_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    check(capsys, NAMED)
    assert main(["check", "+experiment=team", "backend=slurm"]) == 0
    assert "the comment allows ignored-by-backend, which is not reported here" in capsys.readouterr().err


def test_the_name_of_a_size_counts_where_sizes_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    team = "estimate:\n  parameters: 7e9\n  gpu_mem: 80GiB  # jobc: allow gpu-out-of-memory because of offload\n"
    assert check(capsys, team, "gpus=8", "cpus=64", "backend=slurm", "--strict") == (0, [])
    assert check(capsys, team, "gpus=8", "cpus=64", "backend=slurm", "parallel=fsdp") == (0, ["note[JC3081]"])


def test_of_a_name_that_two_codes_have_the_first_is_allowed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"ignored-by-backend": ("JC4102", "ACME01"), "other-name": ("JC2003", "ACME02")}
    monkeypatch.setattr(suppressions, "codes_by_name", lambda: names)
    assert check(capsys, NAMED, "--strict") == (0, [])
    assert check(capsys, NAMED.replace("ignored-by-backend", "other-name"))[1] == ["note[JC4102]", "note[JC3081]"]
    main(["check", "+experiment=team"])
    shown = capsys.readouterr().err
    assert "because: JC2003 and ACME02 share this name, which selects JC2003\n" in shown
    assert "hint: allow ACME02 by code, or remove the comment\n" in shown


def test_of_what_is_found_of_sizes_an_idle_comment_is_told_where_they_are_looked_at(
    capsys: pytest.CaptureFixture[str],
) -> None:
    team = "estimate:\n  parameters: 7e9\n  gpu_mem: 80GiB  # jobc: allow JC2120 because it is offloaded by hand\n"
    words = ("gpus=8", "cpus=64", "backend=slurm")
    assert check(capsys, team, *words, "--strict") == (0, [])
    assert check(capsys, team, *words, "parallel=fsdp") == (0, ["note[JC3081]"])
    assert check(capsys, team, *words, "-m", "parallel=ddp,fsdp") == (0, [])
    assert main(["plan", "+experiment=team", *words, "parallel=fsdp"]) == 0
    assert "note[JC3081 " in capsys.readouterr().err
    assert main(["+experiment=team", *words, "parallel=fsdp"]) == 0
    assert capsys.readouterr().err == "", "a compile does not look at sizes"


@pytest.mark.parametrize(
    "team",
    [
        "name: 'x # jobc: allow me'\n",
        "env:\n  A: |\n    # jobc: allow me\n",
        'env:\n  A: "\n    # jobc: allow me\n    "\n',
    ],
    ids=["quotes", "a block", "a line of quotes"],
)
def test_text_that_looks_like_a_comment_is_text(team: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "error[JC3080]" not in check(capsys, team)[1]


def test_what_would_make_the_artifact_wrong_cannot_be_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    team = "batch:\n  global: 7  # jobc: allow JC2003 because I like seven\n"
    assert check(capsys, team, "procs=2") == (1, ["error[JC2003]", "error[JC3082]"])
    team = "nodes: 0  # jobc: allow JC1202 because nobody is there\nprocs: x\n"
    assert check(capsys, team) == (1, ["error[JC1202]", "error[JC3082]", "error[JC1202]"])


def test_an_error_that_is_a_judgment_can_be(capsys: pytest.CaptureFixture[str]) -> None:
    team = "env:\n  PUBLIC_API_KEY: anyone\n"
    assert check(capsys, team) == (1, ["error[JC4515]"])
    team = "env:\n  # jobc: allow JC4515 because it is printed in the manual\n  PUBLIC_API_KEY: anyone\n"
    assert check(capsys, team) == (0, [])


def test_an_error_hides_no_warning_and_nothing_that_is_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    allowed = "# jobc: allow JC3005 because the image has PyTorch 2.1"
    team = f"env:\n  CUDA_VISIBLE_DEVICES: '0'\n  NCCL_IB_HCA: ''\n  NCCL_BLOCKING_WAIT: 1  {allowed}\n"
    assert check(capsys, team, "gpus=4") == (1, ["error[JC3006]", "warning[JC3004]"])
    assert main(["check", "+experiment=team", "gpus=4", "--format", "json"]) == 1
    shown = json.loads(capsys.readouterr().out)["diagnostics"]
    assert [each["code"] for each in shown if each.get("allowed")] == ["JC3005"]
