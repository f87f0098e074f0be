"""A rule whose input an earlier error made impossible adds nothing; the error is reported, never a traceback."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobc.compiler.checks.suppressions import AllowComment, SeverityFilter
from jobc.compiler.cli import main
from jobc.compiler.diagnostics.diagnostic import CompileError, Diagnostic
from jobc.compiler.diagnostics.origin import Origin
from jobc.compiler.frontend.overrides import to_hydra
from jobc.compiler.plugins.registry import code_pages
from jobc.compiler.rules import collect_findings
from jobc.prove.config_mutations import CORPUS, keys

IN_PODS = [
    "backend=kubernetes", "image=x", "storage.root=/shared/runs",
    "mounts=[{kind: claim, source: team, target: /shared, read_only: false}]",
]  # fmt: skip
COMBINATIONS = 15  # of one seed; each is a compile of about 0.2 s


def codes(words: list[str]) -> list[str]:
    """Return the codes that `jobc check` reports."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(["check", "--format", "json", *words])
    answer = out.getvalue() + err.getvalue()
    assert status in (0, 1) and "Traceback" not in answer, (shlex.join(words), answer[-1000:])
    found = re.findall(r'"code": "(\w+)"', answer) or re.findall(r"^error\[(\w+) ", answer, re.MULTILINE)
    assert found or json.loads(out.getvalue()) == {"version": 1, "diagnostics": []}
    assert not [code for code in found if code.startswith("JC9")], (shlex.join(words), answer[-1000:])
    return found


def commands(heading: str) -> Iterator[list[str]]:
    """Return the words of the one-line compiles in the code pages below a heading."""
    form = re.compile(rf"^## {heading}\n(?:\n[^\n`]+\n)*\n```bash\n(.*?)```$", re.DOTALL | re.MULTILINE)
    for page in code_pages().values():
        for block in form.findall(page.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").split("\n"):
                if line.startswith("jobc ") and not re.search(r"[|&;<>]|\$\(", re.sub(r"'[^']*'", "", line)):
                    words = [word for word in _split(line)[1:] if word != "check"]
                    if words and "=" in words[0] and "-m" not in words:
                        yield words


@pytest.mark.parametrize(
    "extra",
    [
        "+backend.extra.Pod.metadata.annotations.a=b",
        "+backend.extra.Pod.spec.priority=1",
        "+backend.extra.Job.metadata.annotations.a=b",
        "+backend.extra.Pod={}",
    ],
)
def test_a_flavor_that_is_refused_is_reported_beside_any_extra(extra: str) -> None:
    assert "JC4509" in codes([*IN_PODS, "backend.flavor=pytorchjob", extra])


@pytest.mark.parametrize("seed", range(4))
def test_wrong_examples_combined_with_other_options_give_diagnostics(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    draw = random.Random(seed)
    wrong, other = [*commands("Wrong")], [*commands("Wrong"), *commands("Right"), *commands("Near miss")]
    assert len(wrong) > 100
    for _ in range(COMBINATIONS):
        words: list[str] = []
        command: list[str] = []
        for example in [draw.choice(wrong), *draw.choices(other, k=draw.randint(1, 3))]:
            before, dashes, after = _divided(example)
            words += before
            command = command or [*dashes, *after]
        words += [f"{draw.choice(keys())}={to_hydra(draw.choice(CORPUS))}"] * draw.randint(0, 1)
        codes([*(word for word in words if draw.random() < 0.9 and not word.startswith("--")), *command])


def _split(line: str) -> list[str]:
    """Return a line's words; [] for a line whose quotes end on a later line."""
    try:
        return shlex.split(line)
    except ValueError:
        return []


def _divided(words: list[str]) -> tuple[list[str], list[str], list[str]]:
    place = words.index("--") if "--" in words else len(words)
    return words[:place], words[place : place + 1], words[place + 1 :]


# ---- the mechanism

REFUSED = Diagnostic("JC4509", "refused", origin=Origin("project", "a.yaml", 1, 1), judgment=True)


def fails() -> Iterator[Diagnostic]:
    yield from ()
    raise KeyError("flavor")


def refuses() -> Iterator[Diagnostic]:
    yield REFUSED


@pytest.mark.parametrize("checks", [(fails, refuses), (refuses, fails)])
def test_an_exception_beside_an_error_is_dropped_whichever_comes_first(checks: tuple[object, ...]) -> None:
    found, failure = collect_findings(*checks)  # type: ignore[arg-type]
    with pytest.raises(CompileError) as refused:
        SeverityFilter().finish_stage(found, failure=failure)
    assert [d.code for d in refused.value.diagnostics] == ["JC4509"]


def test_an_exception_without_an_error_is_raised() -> None:
    found, failure = collect_findings(fails)
    with pytest.raises(KeyError):
        SeverityFilter().finish_stage(found, failure=failure)


def test_an_exception_beside_an_error_that_somebody_allows_is_raised() -> None:
    found, failure = collect_findings(refuses, fails)
    allowance = AllowComment("JC4509", "JC4509", "we know better", 1, frozenset([1]), Origin("project", "a.yaml", 1, 1))
    with pytest.raises(KeyError):
        SeverityFilter((allowance,)).finish_stage(found, failure=failure)
