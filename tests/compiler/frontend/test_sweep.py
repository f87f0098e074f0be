"""A sweep's points are named after their values."""

from __future__ import annotations

import pytest

from jobc.compiler.cli.reporting import progress_printer
from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.frontend.sweep import check_unswept_argument, sweep_points
from jobc.compiler.pipeline.sweeps import compile_sweep, plan_sweep
from jobc.compiler.pipeline.types import CompileRequest

from ..diagnosed import Jobc, codes

OPEN_KEYS = ("env", "labels")


def labels(*words: str) -> list[str]:
    return [point.format_label() for point in sweep_points(words, OPEN_KEYS, None, ())]


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("nodes=1,2", "nodes=3"), "nodes"),
        (("nodes=1,2", "nodes=3,4"), "nodes"),
        (("seed=1,2", "procs=2", "++seed=3"), "seed"),
        (("env.X=1,2", "~env.X"), "env.X"),
        (("backend=slurm,ssh", "backend=local"), "backend"),
        (("optim.lr=0.1,0.2", "optim={lr: 0.5, weight_decay: 0}"), "optim.lr"),
        (("optim={lr: 0.1},{lr: 0.2}", "optim.lr=3"), "optim.lr"),
        (("env={A: 1},{}", "env.A=3"), "env.A"),
    ],
)
def test_a_swept_key_is_not_set_again(words: tuple[str, ...], key: str) -> None:
    with pytest.raises(CompileError) as refused:
        labels(*words)
    assert [(found.code, found.key) for found in refused.value.diagnostics] == [("JC1112", key)]


@pytest.mark.parametrize(
    ("words", "points"),
    [
        (("nodes=3", "nodes=1,2"), ["nodes=1", "nodes=2"]),
        (("nodes=2,2", "nodes=3"), ["", ""]),
        (("model.width=32,64", "model=gpt_tiny"), ["model.width=32", "model.width=64"]),
        (("optim.lr=1,2", "optim={weight_decay: 0}"), ["optim.lr=1", "optim.lr=2"]),
        (("env.X=1,2", "env={Y: 3}"), ["env.X=1", "env.X=2"]),
    ],
)
def test_what_leaves_its_value_alone_may_follow(words: tuple[str, ...], points: list[str]) -> None:
    assert labels(*words) == points


@pytest.mark.parametrize("command", [["-m"], ["check", "-m"], ["plan"], ["diff"]])
def test_every_command_that_sweeps_refuses_a_false_name(command: list[str], jobc: Jobc) -> None:
    status, said = jobc(*command, "nodes=1,2", "gpus=8", "nodes=3")
    assert (status != 0, codes(said)) == (True, ["JC1112"])


def test_the_two_words_are_named_without_a_secret(jobc: Jobc) -> None:
    said = jobc("check", "-m", "env.DB_PASSWORD=hunter2,hunter3", "env.DB_PASSWORD=hunter4")[1]
    assert "hunter" not in said and said.count("env.DB_PASSWORD=…") == 3


@pytest.mark.parametrize("command", [[], ["check"]])
@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("name=a,b", "seed=1,1"), "list each value only once"),
        (("env.PAIR=a/b,a:b",), "compile the points without -m, each with its own name=…"),
    ],
)
def test_two_points_of_one_folder_are_refused_by_their_cause(
    command: list[str], words: tuple[str, ...], hint: str, jobc: Jobc
) -> None:
    status, said = jobc(*command, "-m", *words)
    assert (status, codes(said)) == (1, ["JC5005"]) and f"hint: {hint}\n" in said


def test_who_waits_for_a_sweep_is_told_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    request = CompileRequest(("seed=range(0,3)",))
    for make in (compile_sweep, plan_sweep):
        make(request, progress_printer(0))
        assert capsys.readouterr() == ("", "jobc: 0 of 3 points\njobc: 1 of 3 points\njobc: 2 of 3 points\n")
        make(request, progress_printer())
        assert capsys.readouterr() == ("", ""), "a sweep that is done at once says nothing"


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("train.py --lr 0.1,0.2", "env.LR=0.1,0.2 'command=[train.py,--lr,${env.LR}]'"),
        ("train.py --max-lr=1,2 -v", "env.MAX_LR=1,2 'command=[train.py,\"--max-lr=${env.MAX_LR}\",-v]'"),
        ("train.py lr=1,2", "env.LR=1,2 'command=[train.py,\"lr=${env.LR}\"]'"),
        ("train.py a,b", "env.ARGUMENT=a,b 'command=[train.py,${env.ARGUMENT}]'"),
        ("train.py --lr 0.1", ""),
        ("python -c print(1,2)", ""),
    ],
)
def test_a_list_after_the_dashes_is_no_sweep(command: str, hint: str) -> None:
    hints = [found.hint for found in check_unswept_argument(command.split())]
    assert hints == ([f"{hint}, without the words after --"] if hint else [])


def test_the_list_is_reported_only_if_nothing_is_swept(jobc: Jobc) -> None:
    list_argument = ("--", "train.py", "--lr", "0.1,0.2")
    assert "warning[JC1117 " in jobc("-m", "seed=1", *list_argument)[1]
    assert "JC1117" not in jobc("-m", "env.A=1,2", *list_argument)[1]
    assert "JC1117" not in jobc("env.A=1", *list_argument)[1]
