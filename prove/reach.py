"""Find which tests run which line of the emitted scripts, by running a test module once with bash's trace enabled.

In   a module of tests that start artifacts, and a separate checkout in which to run it
Out  a Reach for each test that passed, with its seconds and the lines that it ran, as `SCRIPT:line of text`. Each line
     comes with the number of its commands that were run: of `if A; then B; fi`, one test may run A, another both.

A module's result is cached in the folder for temporary files while its text is unchanged, because it only chooses
tests.

This file is also a pytest plugin (-p jobc.prove.reach), which records what the tests run. It reads $JOBC_REACH_TRACE,
and writes to $JOBC_REACH_INTO.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parent.parent
LEFT_OUT = (".git", ".venv*", ".mypy_cache", ".ruff_cache", ".pytest_cache", "artifacts", "runs", "outputs", "build")
BEGIN = "set -euo pipefail"  # of every script


@dataclass(frozen=True)
class Reach:
    """Lines reached by one test.

    name: the test's name, as passed to pytest
    """

    name: str
    seconds: float
    lines: Mapping[str, int]


def checkout(folder: Path) -> Path:
    """Make a second copy of this checkout."""
    return Path(shutil.copytree(REPO, folder, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT)))


def run_tests(place: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on that checkout's tests and code."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    environment = {**os.environ, "PYTHONPATH": str(place / ".dev"), **env}
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)


def reach(module: str, folder: Path) -> list[Reach]:
    """Return what each test of a module reaches.

    module: path relative to the checkout
    folder: the folder to work in
    """
    digest = hashlib.sha256((REPO / module).read_bytes() + Path(__file__).read_bytes()).hexdigest()[:16]
    cache = Path(tempfile.gettempdir()) / f"jobc-reach-{Path(module).stem}-{digest}.json"
    if not cache.exists():
        checkout_root = checkout(folder / "traced")
        trace = folder / "base" / "trace"
        for template in checkout_root.glob("*/**/templates/**/*.j2"):
            text = template.read_text(encoding="utf-8")
            if f"\n{BEGIN}\n" in text:
                traced = f"\n{BEGIN}; {_traced(template.stem, trace)}\n"
                template.write_text(text.replace(f"\n{BEGIN}\n", traced, 1), encoding="utf-8")
        words = ("--timeout=300", "-m", "not slow", "-k", "not test_goldens", f"--basetemp={trace.parent}")
        env = {"JOBC_REACH_TRACE": str(trace), "JOBC_REACH_INTO": str(folder / "reach.json")}
        run_tests(checkout_root, "-p", "jobc.prove.reach", *words, module, **env)
        if not (folder / "reach.json").exists():
            return []
        shutil.copy(folder / "reach.json", cache)
    return [Reach(name, entry["seconds"], entry["lines"]) for name, entry in json.loads(cache.read_text()).items()]


def _traced(script: str, trace: Path) -> str:
    """Return the bash command that traces a script. It does nothing if the trace file is not writable.

    The trace contains the script's name, because Slurm starts a copy of a script under another name.
    """
    how = f"BASH_XTRACEFD=$jobc_fd PS4='+{script}:$LINENO: ' && set -x"
    return f"{{ exec {{jobc_fd}}>>{trace}; }} 2>/dev/null && {how}"


# ---- the plugin

TRACED = re.compile(r"^\++([\w.]+):(\d+): ([^\s=]+)", re.MULTILINE)
_SEEN: dict[str, dict[str, Any]] = {}
_FAILED: set[str] = set()


def pytest_runtest_setup(item: Any) -> None:
    if os.environ.get("JOBC_REACH_TRACE"):
        Path(os.environ["JOBC_REACH_TRACE"]).unlink(missing_ok=True)


def pytest_runtest_logreport(report: Any) -> None:
    entry = _SEEN.setdefault(report.nodeid, {"seconds": 0.0, "lines": {}})
    entry["seconds"] = round(entry["seconds"] + report.duration, 2)
    if report.outcome != "passed":
        _FAILED.add(report.nodeid)


def pytest_runtest_teardown(item: Any) -> None:
    trace = Path(os.environ.get("JOBC_REACH_TRACE", "/nowhere"))
    if trace.exists():
        folder = item.funcargs.get("tmp_path") or trace.parent
        commands: dict[tuple[str, int], set[str]] = {}
        for name, number, word in TRACED.findall(trace.read_text(errors="replace")):
            commands.setdefault((name, int(number)), set()).add(word)
        texts = _scripts(folder, {name for name, _ in commands})
        entry = _SEEN.setdefault(item.nodeid, {"seconds": 0.0, "lines": {}})
        for (name, number), words in commands.items():
            for lines in texts.get(name, ()):
                if number <= len(lines):
                    line = f"{name}:{lines[number - 1].strip()}"
                    entry["lines"][line] = max(entry["lines"].get(line, 0), len(words))


def pytest_sessionfinish(session: Any) -> None:
    if into := os.environ.get("JOBC_REACH_INTO"):
        passed = {name: entry for name, entry in _SEEN.items() if name not in _FAILED and entry["lines"]}
        Path(into).write_text(json.dumps(passed))


def _scripts(folder: Path, names: set[str]) -> Mapping[str, list[list[str]]]:
    """Return the texts of all scripts in the folder that have one of the names."""
    texts_by_name: dict[str, dict[str, None]] = {}
    for path in _files(folder):
        if path.name in names:
            texts_by_name.setdefault(path.name, {})[path.read_text(errors="replace")] = None
    return {name: [text.split("\n") for text in texts] for name, texts in texts_by_name.items()}


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "code"]
        yield from (Path(parent, name) for name in names)
