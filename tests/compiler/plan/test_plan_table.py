"""The design record of the four targets is true: its tables cover each hand-written line and each field of the plan."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobc.compiler.plan import launch_plan
from jobc.compiler.plan.runtime_vars import RuntimeVar, Scope

RECORD = Path(__file__).parents[3] / "docs" / "decisions" / "0001-four-targets"
README = (RECORD / "README.md").read_text(encoding="utf-8")
FILES = sorted(str(path.relative_to(RECORD)) for path in RECORD.glob("*/*") if path.is_file())
TARGETS = sorted({file.split("/")[0] for file in FILES})


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its two header lines."""
    section = re.split(r"^#+ ", README.split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    table = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def numbers(lines: str) -> range:
    """Parse `12-14` or `12`."""
    first, _, last = lines.partition("-")
    return range(int(first), int(last or first) + 1)


def says_something(line: str) -> bool:
    """Not blank and no comment; `#!` and `#SBATCH` are no comments."""
    text = line.strip()
    return bool(text) and (not text.startswith("#") or text.startswith(("#!", "#SBATCH")))


def plan_fields(section: type = launch_plan.LaunchPlan, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Dotted name and kind of every field of the plan."""
    types = typing.get_type_hints(section)
    for field in dataclasses.fields(section):
        name, must = f"{prefix}{field.name}", field.metadata.get("must")
        if dataclasses.is_dataclass(types[field.name]):
            yield from plan_fields(types[field.name], f"{name}.")
        else:
            yield name, "given" if must is None else "must" if must else "wish"


KINDS = dict(plan_fields())


@pytest.mark.parametrize("file", FILES)
def test_every_line_has_exactly_one_row(file: str) -> None:
    lines = (RECORD / file).read_text(encoding="utf-8").splitlines()
    wanted = {number for number, line in enumerate(lines, 1) if says_something(line)}
    covered = Counter(number for row in rows(file) for number in numbers(row[0]))
    assert wanted - set(covered) == set(), "lines without a row"
    assert [number for number, times in covered.items() if times > 1] == [], "lines with several rows"
    for row in rows(file):
        assert wanted & set(numbers(row[0])), f"row {row[0]} covers no line"
        assert {numbers(row[0])[0], numbers(row[0])[-1]} <= wanted, f"row {row[0]} begins or ends beside a line"


@pytest.mark.parametrize("file", FILES)
def test_every_row_names_what_exists(file: str) -> None:
    runtime_names = {variable.name for variable in RuntimeVar}
    for lines, _, sources, scope, kind in rows(file):
        named = [source.strip(" `") for source in sources.split(",")]
        fields = [name for name in named if name not in runtime_names | {"constant", "option"}]
        assert set(fields) <= set(KINDS), f"row {lines}"
        assert scope in {"–", *Scope.__members__}, f"row {lines}"
        if runtime_names & set(named):
            assert kind == "runtime", f"row {lines}"
        elif fields:
            assert kind in {KINDS[name] for name in fields}, f"row {lines}"
        else:
            assert kind == "–", f"row {lines}"


def test_every_field_of_the_plan_is_listed_once_with_its_kind() -> None:
    listed = [(row[0].strip("`"), row[3]) for row in rows("Every field of the plan")]
    assert sorted(listed) == sorted(KINDS.items())


def test_a_field_is_marked_for_exactly_the_targets_that_spell_it() -> None:
    spelt = {
        (target, source.strip(" `"))
        for target in TARGETS
        for file in FILES
        if file.startswith(f"{target}/")
        for row in rows(file)
        for source in row[2].split(",")
    }
    marked = {
        (target, row[0].strip("`"))
        for row in rows("Every field of the plan")
        for target, mark in zip(("slurm", "kubernetes", "skypilot", "accelerate"), row[4:], strict=True)
        if mark == "yes"
    }
    assert marked - spelt == set(), "marked, but no line spells it"
    assert {pair for pair in spelt if pair[1] in KINDS} - marked == set(), "spelt, but not marked"


def test_every_runtime_variable_is_spelt_for_every_target() -> None:
    table = rows("Runtime variables")
    assert [row[0] for row in table] == [variable.name for variable in RuntimeVar]
    assert all(cell for row in table for cell in row) and {len(row) for row in table} == {5}
