"""The public conformance suite: what every backend must pass, ours and a stranger's alike.

In a plugin's tests:

    from jobc.compiler.testing import BackendSuite

    class TestAcme(BackendSuite):
        backend = "acme"
        golden = Path(__file__).parent / "golden"

Golden cases are directories `CASE/overrides.txt` (one override a line, then `--` and the command's words if any) and
`CASE/expected/…`, or `CASE/expected.txt` for the diagnostics of a compile that must fail. `pytest --update-golden`
rewrites them. lib/ and .jobc/ are left out: lib/ is the same everywhere and .jobc/ is derived from the rest.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from .artifact import Artifact
from .backend import VERBS
from .diagnostics import CompileError, format_text
from .driver import Compiled, Request, compile_job
from .registry import plugin
from .words import RuntimeVar

HOSTILE = "a b'c\"d$(echo x)`echo y`\\n\ttab\nline é \ue000 -- ; & | > * ? ~ # {x}"


def read_case(case: Path) -> Request:
    """The request of one golden case."""
    words = [line for line in (case / "overrides.txt").read_text(encoding="utf-8").splitlines() if line]
    command = None
    if "--" in words:
        at = words.index("--")
        words, command = words[:at], tuple(words[at + 1 :])
    return Request(tuple(words), command)


def golden_files(compiled: Compiled) -> dict[str, Artifact]:
    """path -> artifact, as goldens hold them."""
    return {a.path: a for a in compiled.artifacts if not a.path.startswith(("lib/", ".jobc/"))}


def golden_differences(case: Path, update: bool = False) -> list[str]:
    """What differs between a case and what compiles now, as unified diffs; with update the case is rewritten."""
    try:
        files = golden_files(compile_job(read_case(case)))
        failure = None
    except CompileError as error:
        files, failure = {}, format_text(error.diagnostics) + "\n"
    if update:
        _rewrite(case, files, failure)
        return []
    expected = case / "expected"
    found = {p.relative_to(expected).as_posix() for p in expected.rglob("*") if p.is_file()}
    differences = [f"only in expected/: {p}" for p in sorted(found - set(files))]
    differences += [f"not in expected/: {p}" for p in sorted(set(files) - found)]
    for path in sorted(found & set(files)):
        before = (expected / path).read_text(encoding="utf-8")
        differences += difflib.unified_diff(
            before.splitlines(), files[path].text.splitlines(), f"expected/{path}", path, lineterm=""
        )
        if bool((expected / path).stat().st_mode & 0o100) != files[path].executable:
            differences.append(f"{path}: executable bit differs")
    old = (case / "expected.txt").read_text(encoding="utf-8") if (case / "expected.txt").exists() else None
    if old != failure:
        differences += difflib.unified_diff((old or "").splitlines(), (failure or "").splitlines(), lineterm="")
    return differences


def _rewrite(case: Path, files: dict[str, Artifact], failure: str | None) -> None:
    if os.environ.get("CI"):
        raise RuntimeError("goldens are not rewritten in CI")
    shutil.rmtree(case / "expected", ignore_errors=True)
    (case / "expected.txt").unlink(missing_ok=True)
    if failure is not None:
        (case / "expected.txt").write_text(failure, encoding="utf-8")
    for path, artifact in files.items():
        target = case / "expected" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(artifact.text, encoding="utf-8")
        target.chmod(0o755 if artifact.executable else 0o644)


class BackendSuite:
    """Subclass it as `TestNAME`; pytest collects the methods. `overrides` makes a plain job compile for the backend."""

    backend: ClassVar[str]
    golden: ClassVar[Path]
    overrides: ClassVar[tuple[str, ...]] = ()

    def compile(self, *words: str, command: tuple[str, ...] | None = None) -> Compiled:
        return compile_job(Request((f"backend={self.backend}", *self.overrides, *words), command))

    def test_goldens(self, request: Any) -> None:
        update = bool(request.config.getoption("--update-golden", default=False))
        cases = sorted(p for p in self.golden.iterdir() if (p / "overrides.txt").exists())
        assert cases, f"no golden case in {self.golden}"
        for case in cases:
            differences = golden_differences(case, update)
            assert not differences, f"{case.name}:\n" + "\n".join(differences) + "\naccept with: pytest --update-golden"

    def test_found_by_name_and_complete(self) -> None:
        found = plugin(self.backend)
        assert found.load().name == self.backend
        assert (found.conf / "backend" / f"{self.backend}.yaml").is_file(), "the defaults of the options"
        assert (found.folder / "README.md").is_file() or found.root != "jobc"

    def test_every_verb_is_emitted_and_executable(self) -> None:
        files = {a.path: a for a in self.compile().artifacts}
        for verb in (*VERBS, "node.sh"):
            assert files[verb].executable, f"{verb} cannot be executed"
            assert files[verb].text.startswith("#!"), f"{verb} has no interpreter line"

    def test_every_runtime_variable_is_spelt(self) -> None:
        assert set(plugin(self.backend).load().spellings) == set(RuntimeVar)

    def test_shell_files_parse(self, tmp_path: Path) -> None:
        for artifact in _shell_files(self.compile("env.HOSTILE=" + _quoted(HOSTILE), command=("prog", HOSTILE))):
            file = tmp_path / "script"
            file.write_text(artifact.text, encoding="utf-8")
            done = subprocess.run(["bash", "-n", str(file)], capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{artifact.path}: {done.stderr}"

    def test_user_text_is_data_in_every_shell_file(self, tmp_path: Path) -> None:
        """Hostile text adds no command: parsed by bash, it is one word of one assignment or one list."""
        marker = tmp_path / "ran"
        text = f'\'; touch {marker}; $(touch {marker}) `touch {marker}` "$(touch {marker})"'
        for artifact in _shell_files(self.compile("env.X=" + _quoted(text), command=("prog", text))):
            body = "exit 0\n" + artifact.text  # nothing runs, but bash reads it all
            subprocess.run(["bash", "-n"], input=body, text=True, check=True)
            assigned = re.findall(r"^export X=.*?(?=^export|^\w+=|\Z)", artifact.text, re.DOTALL | re.MULTILINE)[:1]
            for statement in assigned:
                only = statement.split("\nsecret_")[0]
                shown = subprocess.run(
                    ["bash", "-c", only.split("\n\n")[0] + '\nprintf %s "$X"'],
                    capture_output=True,
                    text=True,
                    check=True,
                )
                assert shown.stdout == text
        assert not marker.exists()

    def test_compiling_is_pure(self, tmp_path: Path) -> None:
        """Other folder, home, locale, time zone, hash seed: the same bytes."""
        digests = set()
        for i, (locale, zone, seed) in enumerate((("C.UTF-8", "UTC", "1"), ("C", "Asia/Kolkata", "2"))):
            home = tmp_path / str(i) / "home"
            home.mkdir(parents=True)
            environment = {
                "PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": locale, "TZ": zone, "PYTHONHASHSEED": seed,
                "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "USER": f"user{i}", "PYTHONUTF8": "1",
            }  # fmt: skip
            program = (
                "import sys, json; from jobc.compiler.driver import *; "
                "c = compile_job(Request(tuple(json.loads(sys.argv[1])))); "
                "print([a.text for a in c.artifacts if a.path == '.jobc/manifest.json'][0])"
            )
            words = json.dumps([f"backend={self.backend}", *self.overrides, "env.B=2", "env.A=1"])
            done = subprocess.run(
                [sys.executable, "-c", program, words],
                cwd=home,
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
            digests.add(json.loads(done.stdout)["digest"])
        assert len(digests) == 1

    def test_every_line_has_a_source(self) -> None:
        compiled = self.compile()
        for path, rows in compiled.source_map.files.items():
            assert all(template for _, template in rows), f"{path} has lines without a source"


def _shell_files(compiled: Compiled) -> Iterator[Artifact]:
    for artifact in compiled.artifacts:
        if not artifact.path.startswith("lib/") and artifact.text.startswith(("#!/usr/bin/env bash", "#!/bin/bash")):
            yield artifact


def _quoted(text: str) -> str:
    from .overrides import spell

    return spell(text)
