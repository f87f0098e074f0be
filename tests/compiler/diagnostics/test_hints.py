"""The hint of a diagnostic, typed instead, compiles."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from jobc.compiler.diagnostics.diagnostic import Diagnostic, hint_for_file
from jobc.compiler.diagnostics.origin import Origin

from ..diagnosed import Jobc

HINTS_THAT_COMPILE = [
    ["env.X=[a"],
    ["pocs=2"],
    ["estimate.price.H100=2"],
    ["secret.HF=env:X"],
    ["secret=env:X"],
    ["lables.team=x"],
    ["+seed=3"],
    ["model=gpt_tin"],
    ["parallel=deepspeed/zero2"],
    ["time=90"],
    ["mem=64G"],
    ["mem=0"],
    ["shm=0"],
    ["procs=0"],
    ["seed=010"],
    ["name=a b"],
    ["queue.after=5"],
    ["code.kind=snapshott"],
    ["data.kind=0"],
    ["data.kind=digit"],
    ["optim.betas=0.9"],
    ["optim.beta=0.9"],
    ["profile.steps=3"],
    ["caches.prefetch=gpt2"],
    ["pocs=two"],
    ["queue.exclusive=1"],
    ["seed=null"],
    ["gpus=4", "procs=8"],
    ["batch.accumulation=2", "batch.global=64"],
    ["procs=3", "batch.global=64"],
    ["loop.epochs=3"],
    ["checkpoint.every_epochs=3"],
    ["checkpoint.every_steps=null"],
    ["checkpoint.every_epochs=1", "checkpoint.every_steps=null", "checkpoint.keep_every_steps=5"],
    ["env.OMP_NUM_THREADS=4"],
    ["secrets.T=env:T", "env.T=x"],
    ["container=docker"],
    ["backend=slurm", "launcher=srun", "lifecycle.max_restarts=1"],
    ["backend=slurm", "python=venv", "python.path=null"],
    ["launcher=srun"],
    ["hosts=a,a"],
    ["backend=ssh", "nodes=2", "hosts=me@a,b,A"],
    ["backend=ssh", "nodes=2", "hosts=me@,b"],
    ["backend=ssh", "nodes=2", "hosts=a:22,b"],
    ["procs=two"],
    ["nodes=two"],
    ["model.heads=3"],
    ["model.dropout=1.5"],
    ["optim.betas=[0.9,2]"],
    ["data=digits"],
    ["lop.steps=3"],
    ["profile.stepz=2"],
    ["profile.steps=[2]"],
    ["optim.betas=[0.9]"],
    ["python.module=cuda/12"],
    ["+task=nope"],
    ["--strict", "optim.lr=1", "command=[train.py]"],
]


@pytest.mark.parametrize(
    ("word", "fitting"),
    [
        ("loop.epochs=0.5", "loop.epochs=1"),
        ("nodes=0.5", "nodes=1"),
        ("nodes=-3.5", "nodes=1"),
        ("nodes=2.5", "nodes=2"),
        ("lifecycle.max_requeues=-0.5", "lifecycle.max_requeues=1"),
        ("lifecycle.max_requeues=0.0", "lifecycle.max_requeues=0"),
    ],
)
def test_for_a_fraction_a_number_is_offered_that_the_key_takes(word: str, fitting: str, jobc: Jobc) -> None:
    rest = ("loop.steps=null",) if "epochs" in word else ()
    _, printed = jobc("check", word, *rest)
    assert f"= hint: {fitting}\n" in f"{printed}\n"
    assert jobc("check", "backend=slurm", fitting, *rest)[0] == 0


@pytest.mark.parametrize("words", HINTS_THAT_COMPILE, ids=" ".join)
def test_the_hint_compiles(words: list[str], jobc: Jobc) -> None:
    """Replace the word that a message rejects with the one that its hint suggests, at most twice."""
    seen = set()
    Path("train.py").touch()
    for _ in range(3):
        status, printed = jobc("check", *words)
        if status == 0:
            break
        assert printed not in seen, printed
        seen.add(printed)
        hint = re.findall(r"= hint: (?:did you mean )?(.*)", printed)[0]
        new = shlex.split(re.split(r", | or |; | if | for |\?", hint)[0])
        blamed = "".join(re.findall(r"--> command line: (.*?)(?:   \(|$)", printed, re.MULTILINE)[:1])
        keys = {word.partition("=")[0] for word in new}
        stays = new[0].startswith(("~", "backend="))  # the hint goes beside the word
        words = [w for w in words if (w != blamed or stays) and w.partition("=")[0] not in keys] + new
    assert seen and status == 0, printed


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("mem=64GiB", "set mem to 64GiB"),
        ("procs=4, or gpus=8, or gpus=0 for the CPU", "set procs to 4, or set gpus to 8, or set gpus to 0 for the CPU"),
        ("a.b=1, a.b=2 or a.b=3", "set a.b to 1, 2 or 3"),
        ("nodes=1, or list more hosts", "set nodes to 1, or list more hosts"),
        ("profile.steps=[5,6], the first and the last step", "set profile.steps to [5,6], the first and the last step"),
        (
            "'mounts=[{kind: claim, source: CLAIM}]' storage.root=/shared/runs, or storage.run=node",
            "set mounts to [{kind: claim, source: CLAIM}] and storage.root to /shared/runs, or set storage.run to node",
        ),
        ("~env.A, and another name, such as env.MY_A", "remove env.A, and another name, such as env.MY_A"),
        ("threads=4; ~env.OMP_NUM_THREADS", "set threads to 4; remove env.OMP_NUM_THREADS"),
        (
            "-- bash -c 'a | b'; or remove the pipe",
            "write command with these words: bash -c 'a | b'; or remove the pipe",
        ),
        ("container=docker; or image=null", "container=docker; or set image to null"),
        ("for a sweep: jobc -m nodes=1,2", "for a sweep: jobc -m nodes=1,2"),
        ("did you mean env.A=1?", "did you mean env.A=1?"),
    ],
)
def test_the_hint_for_a_value_in_a_file_is_no_override(hint: str, expected: str) -> None:
    assert hint_for_file(hint) == expected
    found = Diagnostic("JC2001", "", "", hint, Origin("project", "experiment/a.yaml", 1, 1))
    assert found.hint_for_place == expected
    assert replace(found, origin=Origin("command line", "gpus=4")).hint_for_place == hint


def test_a_kind_that_the_command_line_chose_is_shown_there(jobc: Jobc) -> None:
    printed = jobc("container=pyxis", "image=a")[1]
    assert "  --> command line: container=pyxis   (container.kind)\n" in printed
    assert "(default of gpu_type)" in jobc("backend=skypilot", "gpus=1", "storage.run=node")[1]
