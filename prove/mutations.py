"""Check which tests detect a changed line in an emitted file.

Every golden is mutated, one line at a time, by operators named beforehand. Comparison with the golden's text does not
count, and neither does `jobc verify`, which detects every edit. Detection by bash, ShellCheck, the schemas of
Kubernetes and SkyPilot counts, as does execution: tests that run the line (execution.py), each with its own
expectations.

Lines of scripts (`script`) are counted separately from those of files that an engine or the trainer reads (`data`).
`.jobc/job.json`, which jobctl reads, is excluded, because its lines are in no template and so cannot be executed.

Mutants that mean the same as the original are excluded by rule (sameness.py), never by hand. Every other undetected
mutant is a survivor, even in a message, and is named: `python -m prove mutations --count 0` prints those of the kept
lines.

Execution takes minutes per mutant, so this campaign draws a sample of goldens; `mutated_goldens` covers all, without
execution.
"""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from jobc.backends.skypilot.schema import find_schema_errors
from jobc.compiler.emit.artifact import PROGRAM
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.testing.golden import is_sweep_case, read_golden_case

from .campaign import Campaign, Line
from .execution import MUCH, QUICK, executed
from .sameness import SAME, SCRIPTS, same_data, same_meaning

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden"
KUBERNETES = "1.36.0"
LEFT_OUT = (PROGRAM, "spec.yaml")  # a zip archive, and files that nothing on a node reads
MEANT = "SC2016,SC1003,SC2088"  # as in tests/artifacts/test_shellcheck.py: these are about intentional quotes
SCOPES = (  # names that are easily confused
    ("SLURM_ARRAY_JOB_ID", "SLURM_JOB_ID"), ("JOBC_NODE_RANK", "JOBC_ATTEMPT"), ("JOBC_HEAD_ADDR", "JOBC_HEAD_PORT"),
    ("JOBC_RUN_ID", "JOBC_JOB_ID"), ("JOBC_CODE_DIR", "JOBC_PROJECT"), ("JOBC_DOWNLOADS", "JOBC_COMPILED"),
    ("$here", "$project"), ("$rank", "$payload"), ("requests:", "limits:"),
)  # fmt: skip

DRAW = 8  # changed with each new set of detectors
PARTS = {"script": "in lines of scripts", "data": "in files that an engine or the trainer reads"}

Sites = Iterator[list[str]]  # the lines of the file with one of them changed


def drop_flag(lines: Sequence[str]) -> Sites:
    """Drop a line that is one option, or one option in a line."""
    for index, line in enumerate(lines):
        if re.fullmatch(r"\s*(-{1,2}[a-z][\w-]*.*|#SBATCH .*)", line):
            yield [*lines[:index], *lines[index + 1 :]]
        elif "[[" in line or _comment(line):
            continue  # `-n` of a test is not a flag
        elif match := re.search(r" --?[a-z][\w-]*(=\S+)?(?= )", line):
            yield [*lines[:index], line[: match.start()] + line[match.end() :], *lines[index + 1 :]]


def swap_scope(lines: Sequence[str]) -> Sites:
    """Replace a name by one from another scope."""
    for index, line in enumerate(lines):
        for name, replacement in SCOPES:
            if not _comment(line) and re.search(rf"{re.escape(name)}(?!\w)", line):
                yield [
                    *lines[:index],
                    re.sub(rf"{re.escape(name)}(?!\w)", replacement, line, count=1),
                    *lines[index + 1 :],
                ]


def change_number(lines: Sequence[str]) -> Sites:
    """Increment a number that stands alone, or after = or a colon."""
    for index, line in enumerate(lines):
        match = re.search(r"(?<=[=:@ ])\"?\d+\b(?![.\w])", line)
        if match and not _comment(line):
            number = re.sub(r"\d+", lambda m: str(int(m[0]) + 1), match[0])
            yield [*lines[:index], line[: match.start()] + number + line[match.end() :], *lines[index + 1 :]]


def unquote(lines: Sequence[str]) -> Sites:
    """Remove a line's first pair of quotes."""
    for index, line in enumerate(lines):
        match = re.search(r"\"([^\"]*)\"|'([^']*)'", line)
        if match and not _comment(line):
            inner = match[1] if match[1] is not None else match[2]
            yield [*lines[:index], line[: match.start()] + inner + line[match.end() :], *lines[index + 1 :]]


def reorder(lines: Sequence[str]) -> Sites:
    """Swap two different adjacent lines."""
    for index in range(len(lines) - 1):
        first, second = lines[index : index + 2]
        if first.strip() and second.strip() and first != second and not _comment(first) and not _comment(second):
            yield [*lines[:index], second, first, *lines[index + 2 :]]


def rename(lines: Sequence[str]) -> Sites:
    """Rename a variable where it is set, or a key."""
    for index, line in enumerate(lines):
        match = re.match(r"(\s*(?:- )?(?:export |local )?\"?[A-Za-z_][\w.-]*?)(\"?(?:=|: |:$).*)", line)
        if match and not _comment(line):
            yield [*lines[:index], f"{match[1]}x{match[2]}", *lines[index + 1 :]]


OPERATORS: Mapping[str, Callable[[Sequence[str]], Sites]] = {
    f.__name__: f for f in (drop_flag, swap_scope, change_number, unquote, reorder, rename)
}


def _comment(line: str) -> bool:
    return line.lstrip().startswith("#") and not line.startswith("#SBATCH")


@cache
def cases() -> tuple[Path, ...]:
    """Return the cases in random order, so that the first trials are representative."""
    folders = sorted(path for path in GOLDEN.glob("*/*") if (path / "expected").is_dir() and not is_sweep_case(path))
    random.Random("cases").shuffle(folders)
    return tuple(folders)


@cache
def files_of(case: Path) -> dict[str, str]:
    return {artifact.path: artifact.text for artifact in compile_job(read_golden_case(case)).artifacts}


def mutants(text: str, operator: Callable[[Sequence[str]], Sites]) -> Sites:
    """Yield the lines of a file after each change that the operator makes.

    The packed jobctl in a manifest is not changed.
    """
    changeable, packed, rest = text.partition("\nbinaryData:\n")
    unchanged = f"{packed[1:]}{rest}".split("\n") if packed else []
    yield from ([*lines, *unchanged] for lines in operator(changeable.split("\n")))


def noticed_by(files: Mapping[str, str], path: str, folder: Path) -> str:
    """Return the first check that detects the change, or "" if none does."""
    if path.endswith(SCRIPTS):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(files[path], encoding="utf-8")
        if _fails(["bash", "-n", str(file)]):
            return "bash"
    elif path.endswith(".yaml") and refused_by_schema(files[path], path):
        return "schema"
    if path.endswith(SCRIPTS) and _fails(["shellcheck", "--severity=style", f"--exclude={MEANT}", str(file)]):
        return "shellcheck"
    return ""


def _fails(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode != 0


def refused_by_schema(text: str, path: str) -> bool:
    """Return whether the engine that reads this YAML file would reject it. Return False for files without a schema."""
    from jobc.tests.podrunner.schema import invalid, problem

    try:
        documents = [document for document in yaml.safe_load_all(text) if document]
    except yaml.YAMLError:
        return True
    if path == "task.sky.yaml":
        return any(find_schema_errors(document) for document in documents)
    if path == "job.yaml":
        kinds = all({"apiVersion", "kind"} <= {*document} for document in documents)
        return not kinds or any(problem(document, KUBERNETES) or invalid(document) for document in documents)
    return False


def run(number: int, folder: Path, execute: Callable[..., str] = executed) -> dict[str, Any]:
    """Return two mutants per operator: one in a script, one in a data file."""
    case = cases()[number]
    files, chance = files_of(case), random.Random(f"{number}, {DRAW}")
    measured: dict[str, Any] = {"case": f"{case.parent.name}/{case.name}"}
    for part in PARTS:
        noticed: dict[str, int] = {}
        lost, tests = [], []
        for name, operator in OPERATORS.items():
            sites = [
                (path, lines)
                for path in files
                if "/" not in path and path not in LEFT_OUT and path.endswith(SCRIPTS) == (part == "script")
                for lines in mutants(files[path], operator)
                if not same_data(path, files[path], "\n".join(lines))
            ]
            if not sites:
                continue
            path, lines = chance.choice(sites)
            before = files[path].split("\n")
            by = noticed_by({**files, path: "\n".join(lines)}, path, folder / part / name)
            by = by or same_meaning(path, before, lines)
            if not by and (test := execute(case, path, before, lines)):
                by = "execution"
                tests.append(f"{name} {path}: {_place(before, lines)}: {test}")
            by = by or "nothing"
            noticed[by] = noticed.get(by, 0) + 1
            if by == "nothing":
                lost.append(f"{name} {path}: {_changed(before, lines)}")
        measured |= {f"{part}_noticed_by": noticed, f"{part}_survivors": lost, f"{part}_failing_tests": tests}
    return measured


def _place(before: Sequence[str], after: Sequence[str]) -> int:
    """Return the number of the first line that differs."""
    return 1 + next(i for i, (a, b) in enumerate(zip(before, [*after, ""], strict=False)) if a != b)


def _changed(before: Sequence[str], after: Sequence[str]) -> str:
    """Return the first line that differs, before and after."""
    index = _place(before, after) - 1
    gone = len(after) < len(before)
    return f"{index + 1} {before[index].strip()[:120]!r} -> {'(gone)' if gone else repr(after[index].strip()[:120])}"


def figure(lines: Sequence[Line]) -> str:
    parts, sums, equivalent = [], [0, 0], 0
    for part, words in PARTS.items():
        counts: dict[str, int] = {}
        for line in lines:
            for by, count in line.get(f"{part}_noticed_by", {}).items():
                counts[by] = counts.get(by, 0) + count
        equivalent += sum(counts.pop(rule, 0) for rule in SAME)
        total, lost = sum(counts.values()), counts.pop("nothing", 0)
        by = ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))
        parts.append(f"{_share(total - lost, total)} {words} ({by})")
        sums = [sums[0] + total - lost, sums[1] + total]
    done = sum(bool(line["ok"]) for line in lines)
    drawn = f"in {done} of {len(cases())} goldens, drawn by a seed"
    return f"{_share(*sums)}, {drawn}: {'; '.join(parts)}; {equivalent} more are equivalent by rule"


def survivors(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the survivors of all trials, scripts first.

    For example: `ssh/docker_on_hosts script reorder launch.sh: 61 '…' -> …`.
    """
    for part in PARTS:
        for line in lines:
            yield from (f"{line['case']} {part} {survivor}" for survivor in line.get(f"{part}_survivors", ()))


def _share(noticed: int, total: int) -> str:
    """Return the share with its 95 % interval (Wilson 1927), because the trials are a sample of all mutants."""
    z, n = 1.96, max(total, 1)
    middle, half = noticed / n + z * z / (2 * n), z * (noticed / n * (1 - noticed / n) / n + z * z / (4 * n * n)) ** 0.5
    low, high = ((middle + sign * half) / (1 + z * z / n) for sign in (-1, 1))
    return f"{noticed} of {total}, {100 * noticed / n:.0f} % ({100 * low:.0f} to {100 * high:.0f})"


CAMPAIGN = Campaign(
    name="mutations",
    claim=("A wrong line in an emitted file is detected without comparing text. The figure is the share detected."),
    trial=(
        "takes a golden and changes one line of it, once for each operator (drop a flag, swap a scope, change a"
        " number, unquote, reorder, rename) in a script, and once in a file that an engine or the trainer reads."
        " The change may be detected by bash -n, the schema of Kubernetes or SkyPilot, or ShellCheck, in this"
        " order, and then by execution: in a copy of the checkout, the line's template is changed so that the"
        f" golden compiles to the mutant, and up to {MUCH + QUICK} tests that run the line are run there, including"
        " those of the launchers, the test bed, the pod runner and the SkyPilot stand-in. One must fail, and must"
        " pass with the original line; none reads a golden. Mutants that mean the same by rule are excluded: data"
        " that parses alike, an order without meaning, quotes around one plain word, a script that bash prints"
        " alike. The lines name each survivor, including changed messages, and the test that failed for each mutant"
        " that execution detected. With 95 % intervals."
    ),
    count=len(cases()),
    run=run,
    figure=figure,
    named=survivors,
)
