"""Find wrong lines by execution: run the artifact tests on code that emits the changed line.

In   a golden case, one of its scripts, and the script's lines as a mutant
Out  the first test that fails, or "" if none does

A mutant is judged in a copy of this checkout. There, the line's template is changed in the same way, which counts only
if the case then compiles to exactly the mutant. Then the following tests run: those that execute the line (reach.py),
some that run much of the script in little time, and the fastest. Their expectations are in the tests themselves; none
of them reads a golden. A test that fails is run again with the original line, and must pass.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.testing.golden import read_golden_case

from .reach import REPO, Reach, checkout, reach, run_tests

TESTS = tuple(f"tests/{name}.py" for name in (
    "backends/test_accelerate_runs", "backends/test_by_hand", "backends/test_containers", "backends/test_engines",
    "backends/test_local", "backends/test_mpirun", "backends/test_nodes_here", "backends/test_on_hosts",
    "backends/test_on_pods", "backends/test_own_storage", "backends/test_pods_and_bucket", "backends/test_pods_verbs",
    "backends/test_preflight", "backends/test_setup_lines", "backends/test_skypilot", "backends/test_skypilot_bucket",
    "backends/test_skypilot_verbs", "backends/test_slurm_refusals", "backends/test_slurm_restarts",
    "backends/test_slurm_sweeps", "backends/test_slurm_tasks", "backends/test_steps", "prove/test_on_hosts",
    "runtime/test_caches", "runtime/test_code_of_runs", "runtime/test_exit_codes", "runtime/test_launchers",
    "runtime/test_restarts", "runtime/test_runs", "runtime/test_stopping",
))  # fmt: skip
MUCH, QUICK, MOST_S = 5, 3, 30.0  # tests of each kind per mutant; most seconds of any but the first
TIMEOUT_S = 120  # timeout for a test that hangs
COMPILE = (
    "import sys; from pathlib import Path; from jobc.compiler.pipeline.compile import compile_job;"
    "from jobc.compiler.testing.golden import read_golden_case; case, path = sys.argv[1:];"
    "made = compile_job(read_golden_case(Path(case))).artifacts;"
    "sys.stdout.buffer.write(next(a.text for a in made if a.path == path).encode())"
)


def executed(
    case: Path,
    path: str,
    before: Sequence[str],
    after: Sequence[str],
    tests: Callable[[], Sequence[Reach]] | None = None,
) -> str:
    """Return the first test that fails with the mutant, or "" if none does.

    before, after: the file's lines
    tests: the tests to choose from; default: all of TESTS
    """
    rows = compile_job(read_golden_case(case)).source_map.files[path]
    index = next(i for i, (a, b) in enumerate(zip(before, [*after, ""], strict=False)) if a != b)
    match = re.fullmatch(r"jobc:(.*\.j2):(\d+)", rows[index][1])
    if not match:
        return ""
    source, text = REPO / match[1], "\n".join(after)
    with tempfile.TemporaryDirectory(prefix="jobc-mutant-") as folder:
        checkout_root, right = checkout(Path(folder, "checkout")), source.read_text(encoding="utf-8")
        file = checkout_root / match[1]
        for lines in _templates(right.split("\n"), int(match[2]) - 1, before, after, index):
            file.write_text("\n".join(lines), encoding="utf-8")
            if _compiles_to(checkout_root, case, path) == text:
                test = _failing(checkout_root, _chosen((tests or _known)(), path, before, index))
                file.write_text(right, encoding="utf-8")
                return test if test and not _failing(checkout_root, [test]) else ""
    return ""


def _templates(
    lines: Sequence[str], here: int, before: Sequence[str], after: Sequence[str], at: int
) -> Iterator[list[str]]:
    """Yield the template with the same change: the line is dropped, swapped with the next one, or altered."""
    line = lines[here]
    if len(after) < len(before):
        yield [*lines[:here], *lines[here + 1 :]]
    elif after[at : at + 2] == before[at : at + 2][::-1]:
        below = next((n for n in range(here + 1, len(lines)) if not re.match(r"\s*\{[%#]", lines[n])), here)
        yield [*lines[:here], lines[below], *lines[here + 1 : below], line, *lines[below + 1 :]]
    else:
        line_before, line_after = before[at], after[at]
        if line == line_before:
            yield [*lines[:here], line_after, *lines[here + 1 :]]
            return
        start = _alike(line_before, line_after)
        end = _alike(line_before[start:][::-1], line_after[start:][::-1])
        old, new = line_before[start : len(line_before) - end], line_after[start : len(line_after) - end]
        # counted from either end, because the value may be on the other side
        for index in (start, len(line) - end - len(old)):
            if line[index : index + len(old)] == old:
                yield [*lines[:here], line[:index] + new + line[index + len(old) :], *lines[here + 1 :]]


def _alike(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _compiles_to(place: Path, case: Path, path: str) -> str:
    command = [sys.executable, "-c", COMPILE, str(case), path]
    environment = {**os.environ, "PYTHONPATH": str(place / ".dev")}
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, check=False)
    return done.stdout.decode() if done.returncode == 0 else ""


def _chosen(tests: Sequence[Reach], path: str, lines: Sequence[str], at: int) -> list[str]:
    """Return the names of tests that run the line.

    If bash's trace does not contain the line, return those that run the nearest traced lines.
    """
    rendered_lines = {line.strip() for line in lines}
    runs = [(test, _lines_of(test, f"{path}:")) for test in tests]
    for near in range(len(lines)):
        around = {lines[n].strip() for n in (at - near, at + near, at + near + 1) if 0 <= n < len(lines)} - {""}
        most = max((counts.get(line, 0) for _, counts in runs for line in around), default=0)  # the line's commands
        if most:
            ranked = [(test, counts) for test, counts in runs if max(counts.get(line, 0) for line in around) == most]
            ranked.sort(
                key=lambda candidate: (
                    -len(rendered_lines & candidate[1].keys()) / (2 + candidate[0].seconds),
                    candidate[0].name,
                )
            )
            # of the script in little time, and tests in which the script exits early
            much = [test for test, _ in ranked]
            quick = sorted(much, key=lambda test: (test.seconds, test.name))
            chosen = [test for test in (*much[:MUCH], *quick[:QUICK]) if test is much[0] or test.seconds <= MOST_S]
            return list(dict.fromkeys(test.name for test in chosen))
    return []


def _lines_of(test: Reach, script: str) -> dict[str, int]:
    """Return the numbered commands of a script."""
    return {line[len(script) :]: count for line, count in test.lines.items() if line.startswith(script)}


@cache
def _known() -> tuple[Reach, ...]:
    with tempfile.TemporaryDirectory(prefix="jobc-reach-") as folder:
        return tuple(test for number, module in enumerate(TESTS) for test in reach(module, Path(folder, str(number))))


def _failing(place: Path, tests: Sequence[str]) -> str:
    """Return the first test that fails."""
    if not tests:
        return ""
    result = run_tests(place, "-x", f"--timeout={TIMEOUT_S}", f"--basetemp={place.parent / 'base'}", *tests)
    if result.returncode == 0:
        return ""
    match = re.search(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - .*)?$", result.stdout, re.MULTILINE)
    assert match, f"pytest exited with {result.returncode}: {result.stdout[-2000:]}{result.stderr[-2000:]}"
    return match[1]
