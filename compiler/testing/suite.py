"""The public conformance suite, which every backend must pass, built-in or not.

In a plugin's tests/conftest.py, for the option --update-golden and detailed assertion messages:

    pytest_plugins = ["jobc.compiler.testing.suite"]

and in tests/test_acme.py:

    from jobc.compiler.testing.suite import BackendSuite

    class TestAcme(BackendSuite):
        backend = "acme"
        golden = Path(__file__).parent / "golden"
        stand_ins = Path(__file__).parent / "bin"

golden.py explains golden cases. Comparing text is not enough, so each case whose command is `record.py …` is also
submitted (run_artifact.py), and every rank must receive what the case specifies. verb_behaviour.py checks status and
preflight.
A plugin's tests import only from this file, and its code imports only from jobc.compiler.api.
"""

import os
import re
import shutil
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

from ..diagnostics.code_heading import LONGEST, read_code_page_heading
from ..diagnostics.diagnostic import CompileError
from ..emit.artifact import PROGRAM
from ..pipeline.compile import compile_job, write_compiled_job
from ..pipeline.types import CompiledJob, CompileRequest
from ..plan.launch_plan import Secret, capability_keys
from ..plan.runtime_vars import RuntimeVar
from ..plugins.backend import ANY, VERBS
from ..plugins.registry import code_pages, codes_by_name, find_plugin
from ..spec.job_spec import JobSpec
from ..spec.type_hints import accepted_words, type_of_key
from .golden import golden_differences, read_golden_case
from .hostile_text import TEXTS, find_escaped_text, hostile_overrides, quote_as_override_value
from .run_artifact import differences_from_plan, run_verb, submit_recording_job, wait_for_end
from .verb_behaviour import (
    RecordingPython,
    SubmittedJob,
    find_indistinguishable_states,
    find_preflight_problems,
    submitted_job,
)

__all__ = ["BackendSuite", "CompileError", "run_verb", "submit_recording_job", "wait_for_end", "write_compiled_job"]

HOSTILE = "a b'c\"d$(echo x)`echo y`\\n\ttab\nline é \ue000 -- ; & | > * ? ~ # {x} %s ! ${HOME}"
# ---- pytest's side -------------------------------------------------------------------------------------------------


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the current output to the golden directories")


def pytest_configure(config: Any) -> None:
    """Reject --update-golden in CI, where nobody reviews the differences, and with several processes."""
    if not config.getoption("--update-golden"):
        return
    import pytest  # imported here, because jobc itself does not depend on it

    if os.environ.get("CI"):
        raise pytest.UsageError("--update-golden: not in CI; run it where you can read the difference")
    if config.getoption("numprocesses", default=None) or hasattr(config, "workerinput"):
        raise pytest.UsageError("--update-golden: not with -n; processes would write the same files")


# ---- the suite -----------------------------------------------------------------------------------------------------


class BackendSuite:
    """Base class for a backend's tests: subclass it as `TestNAME`, and pytest collects the methods.

    backend:       the name after `backend=`.
    golden:        folder of golden cases.
    overrides:     overrides without which a plain job does not compile for the backend.
    launcher: launcher for the jobs in tests that do not need a specific one.
    neutral_files: whether goldens also contain the files that jobc adds to every artifact. Plugins should not set this,
                   because these files change with jobc.
    stand_ins:     folder of programs that replace the engine's. It comes first on PATH when an artifact is run.
    queued:        overrides for a job that stays in the engine's queue, if the engine has one.
    several_nodes: overrides for a job on two nodes, for the test of jobctl preflight. If they are rejected, the test
    uses one node.
    """

    backend: ClassVar[str]
    golden: ClassVar[Path]
    overrides: ClassVar[tuple[str, ...]] = ()
    launcher: ClassVar[str] = "spawn"
    neutral_files: ClassVar[bool] = False
    stand_ins: ClassVar[Path | None] = None
    queued: ClassVar[tuple[str, ...] | None] = None
    several_nodes: ClassVar[tuple[str, ...]] = ("nodes=2",)

    def compile(self, *words: str, command: tuple[str, ...] | None = None) -> CompiledJob:
        return compile_job(CompileRequest((f"backend={self.backend}", *self.overrides, *words), command))

    def environment(self, project: Path) -> dict[str, str]:
        """Return additional variables for the shell that calls jobctl submit. A subclass may add more."""
        folders = [str(self.stand_ins)] if self.stand_ins else []
        return {"PATH": os.pathsep.join([*folders, os.path.dirname(sys.executable), os.environ["PATH"]])}

    def seen_by_nodes(self, project: Path) -> Path:
        """Return the path of the project folder on the nodes. Override this method if nodes mount it elsewhere."""
        return project

    def cases(self) -> list[Path]:
        folders = sorted(p for p in self.golden.iterdir() if p.is_dir())
        assert folders, f"no golden case in {self.golden}"
        return folders

    def test_goldens(self, request: Any) -> None:
        update = bool(request.config.getoption("--update-golden", default=False))
        report = []
        for case in self.cases():
            differences = golden_differences(case, self.neutral_files, update)
            report += [f"{case.name}:", *differences] if differences else []
        assert not report, "\n".join([*report, "accept with: pytest --update-golden"])

    def test_goldens_run(self, tmp_path: Path) -> None:
        run = [case for case in self.cases() if (read_golden_case(case).command or ("",))[0] == "record.py"]
        assert run, "no golden case runs record.py, so nothing proves that the emitted files work"
        for case in run:
            if (case / "expected.txt").exists():
                continue
            project = tmp_path / case.name
            shutil.copytree(case / "project", project) if (case / "project").exists() else project.mkdir()
            compiled = compile_job(read_golden_case(case))
            received = submit_recording_job(compiled, project, self.environment(project))
            problems = differences_from_plan(compiled, received)
            problems += self._find_silent_verbs(project / "artifacts" / compiled.place)
            assert not problems, f"{case.name}:\n" + "\n".join(problems)

    def _find_silent_verbs(self, artifact: Path) -> list[str]:
        """Return a problem for each verb that fails or prints nothing for a finished run."""
        problems = []
        for verb in ("status", "logs"):
            command = [str((artifact / "jobctl").absolute()), verb]
            environment = {**os.environ, **self.environment(artifact)}
            done = subprocess.run(command, env=environment, capture_output=True, check=False)
            if done.returncode or not done.stdout:
                problems.append(f"jobctl {verb} exited with {done.returncode}: {done.stderr!r}")
        return problems

    def test_any_text_arrives_byte_for_byte(self, tmp_path: Path) -> None:
        project = tmp_path / "it's a folder $(x) é"
        project.mkdir()
        words = (f"launcher={self.launcher}", "env.EMPTY=", "env.HOSTILE=" + quote_as_override_value(HOSTILE))
        compiled = self.compile(*words, command=("record.py", HOSTILE, "", "-x", *HOSTILE.split()))
        problems = differences_from_plan(compiled, submit_recording_job(compiled, project, self.environment(project)))
        assert not problems, "\n".join(problems)

    def test_shell_files_parse(self, tmp_path: Path) -> None:
        compiled = self.compile("env.HOSTILE=" + quote_as_override_value(HOSTILE), command=("prog", HOSTILE))
        for artifact in compiled.artifacts:
            if artifact.path != PROGRAM and artifact.text.startswith(("#!/usr/bin/env bash", "#!/bin/bash")):
                (tmp_path / "script").write_text(artifact.text, encoding="utf-8")
                command = ["bash", "-n", str(tmp_path / "script")]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                assert done.returncode == 0, f"{artifact.path}: {done.stderr}"

    def test_text_of_no_key_becomes_structure(self) -> None:
        """For every key that accepts text, hostile text remains text in all files or is rejected."""
        for words in hostile_overrides(find_plugin(self.backend).load().Options):
            try:
                compiled = self.compile(*words, command=("record.py", *TEXTS))
            except CompileError as error:
                bugs = [diagnostic for diagnostic in error.diagnostics if diagnostic.code.startswith("JC9")]
                assert not bugs, f"{words[0]}: {bugs}"
                continue
            broken = [position for artifact in compiled.artifacts for position in find_escaped_text(artifact)]
            assert not broken, "\n".join([f"{words[0]} leaves its place:", *broken])

    def test_verbs_know_their_options(self, tmp_path: Path) -> None:
        """An unknown option exits with 2, --help with 0; neither starts anything or leaves anything behind. The help
        explains every option in the usage; an option with a value requires that value, which must be a number for `N`.
        """
        compiled = self.compile(f"launcher={self.launcher}", command=("true",))
        artifact = write_compiled_job(compiled, tmp_path / "artifacts")
        environment, before = self.environment(tmp_path), sorted(tmp_path.rglob("*"))
        for verb in VERBS:
            done = run_verb(artifact, verb, tmp_path, environment, "--help")
            usage, _, explained = done.stdout.partition("\n\n")
            assert done.returncode == 0, f"{verb} --help exited with {done.returncode}, not 0: {done.stderr}"
            assert usage.startswith(f"usage: jobctl {verb}"), f"{verb} --help begins differently: {done.stdout!r}"
            options = re.findall(r"(--[a-z][\w-]*)(?: ([A-Z]+))?", usage)
            wrong = [["--no-such-option"], *([option] for option, value in options if value)]
            wrong += [[option, "one"] for option, value in options if value == "N"]
            for option, _ in options:
                assert f"  {option}" in explained, f"{verb} --help does not explain {option}"
            for words in wrong:
                done = run_verb(artifact, verb, tmp_path, environment, *words)
                problem = f"{verb} {' '.join(words)} exited with {done.returncode}, not 2: {done.stderr}"
                is_explained = done.stdout + done.stderr if len(words) == 2 else words[0] in done.stderr
                assert done.returncode == 2 and is_explained, problem
            assert sorted(tmp_path.rglob("*")) == before, f"{verb} does more than print"

    def test_status_tells_the_states_of_a_job_apart(self, tmp_path: Path) -> None:
        """The first line of jobctl status is different for a queued, a running, an ended and a stopped job."""
        states = {}

        def trial(name: str, *words: str) -> AbstractContextManager[SubmittedJob]:
            words = (f"launcher={self.launcher}", f"name={name}", "lifecycle.grace=5s", *words)
            compiled = self.compile(*words, command=("wait.py",))
            return submitted_job(compiled, tmp_path / name, self.environment(tmp_path / name))

        with trial("trial-a") as job:
            job.wait_until_started()
            has_queue = job.submit_returned
            states["running"] = job.status_line()
            job.release()
            states["ended"] = job.settled_status(states["running"])
        with trial("trial-b") as job:
            job.wait_until_started()
            job.stop()
            job.wait_until_ended()
            states["stopped"] = job.settled_status(states["running"])
        if has_queue:
            assert self.queued is not None, (
                "jobctl submit returns while the job runs: set `queued` to overrides that keep a job queued"
            )
            with trial("trial-c", *self.queued) as job:
                job.wait_until_submitted()
                states["queued"] = job.settled_status()
                job.stop()
                states["stopped in the queue"] = job.settled_status(states["queued"])
        problems = find_indistinguishable_states(states)
        assert not problems, "\n".join([*problems, *(f"{state}: {line}" for state, line in states.items())])

    def test_preflight_looks_at_the_nodes(self, tmp_path: Path) -> None:
        """The checks of jobctl preflight run where the ranks run: on every node, started by the engine."""
        project = tmp_path / "project"
        witness = RecordingPython(project, self.seen_by_nodes(project))
        compiled = self._compile_for_several_nodes(f"launcher={self.launcher}", f"python.interpreter={witness.command}")
        received = submit_recording_job(compiled, project, self.environment(project))
        artifact = project / "artifacts" / compiled.place
        done = run_verb(artifact, "preflight", project, self.environment(project))
        outcome = f"jobctl preflight exited with {done.returncode}\n{done.stdout}\n{done.stderr}"
        problems = find_preflight_problems(compiled, witness.checked_nodes(), received, os.uname().nodename)
        assert not problems and done.returncode in (0, 1), "\n".join([*problems, outcome])

    def _compile_for_several_nodes(self, *words: str) -> CompiledJob:
        """Return a job with `several_nodes`, or a job on one node if the backend rejects `several_nodes`."""
        try:
            return self.compile(*self.several_nodes, *words, command=("record.py",))
        except CompileError:
            return self.compile(*words, command=("record.py",))

    def test_honours_names_what_the_plan_has(self) -> None:
        compiled = self.compile(command=("record.py",))
        honours, keys = compiled.backend.honours, capability_keys(compiled.plan)
        unknown = set(honours) - {*keys, *(f"{key.split('.')[0]}.*" for key in keys if "." in key)}
        assert not unknown, f"honours: {sorted(unknown)} are not among {keys}"
        for key, words in honours.items():
            types = [type_of_key(JobSpec, spec_key) for spec_key in compiled.source_map.table.get(key, ())]
            allowed = {word for hint in types for word in accepted_words(hint)}
            if key == "secret_kinds":
                allowed = set(accepted_words(get_type_hints(Secret)["kind"]))
            wrong = [] if words == ANY else [word for word in words if allowed and word not in allowed]
            assert not wrong, f"honours[{key!r}]: {wrong} are not among {sorted(allowed)}"

    def test_found_by_name_and_complete(self) -> None:
        backend_plugin = find_plugin(self.backend)
        assert backend_plugin.load().name == self.backend
        assert (backend_plugin.folder / "README.md").is_file() or backend_plugin.root != "jobc"

    def test_every_code_has_a_name_of_its_own(self) -> None:
        problems = []
        for page in sorted((find_plugin(self.backend).folder / "codes").glob("*.md")):
            code, name = page.stem, read_code_page_heading(page).name
            others = [other_code for other_code in codes_by_name().get(name, ()) if other_code != code]
            if code_pages()[code] != page:
                problems.append(f"{page.name}: {code_pages()[code]} already describes {code}; choose another code")
            elif not name:
                form = f"`# {code} NAME: title`, where NAME is two to four lower-case words with hyphens"
                problems.append(f"{page.name}: the code has no name; begin the page with {form}, such as taken-port")
            elif len(name) > LONGEST:
                problems.append(f"{page.name}: name {name} has {len(name)} characters, more than {LONGEST}")
            elif others:
                problems.append(f"{page.name}: {name} is also the name of {', '.join(others)}; choose another name")
        assert not problems, "\n".join(problems)

    def test_every_runtime_variable_is_spelt(self) -> None:
        assert set(find_plugin(self.backend).load().spellings) == set(RuntimeVar)

    def test_every_line_has_a_source(self) -> None:
        compiled = self.compile()
        for path, rows in compiled.source_map.files.items():
            lacking = [number for number, (_, template) in enumerate(rows, 1) if not template]
            assert not lacking, f"{path}: lines {lacking} have no source; make the file with `render`"

    def test_compiling_is_pure(self, tmp_path: Path) -> None:
        """The digest does not depend on folder, home, locale, time zone, user or hash seed."""
        digests = set()
        for i, (locale, zone, seed) in enumerate((("C.UTF-8", "UTC", "1"), ("C", "Asia/Kolkata", "2"))):
            home = tmp_path / str(i) / "home"
            home.mkdir(parents=True)
            environment = {
                "PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": locale, "TZ": zone, "PYTHONHASHSEED": seed,
                "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "USER": f"user{i}",
            }  # fmt: skip
            words = [f"backend={self.backend}", *self.overrides, "env.B=2", "env.A=1"]
            program = (
                "import json; from jobc.compiler.pipeline.compile import CompileRequest, compile_job;"
                f"files = compile_job(CompileRequest({tuple(words)!r})).artifacts;"
                "print(json.loads(next(a.text for a in files if a.path == '.jobc/job.json'))['digest'])"
            )
            command = [sys.executable, "-c", program]
            digests.add(subprocess.run(command, cwd=home, env=environment, capture_output=True, check=True).stdout)
        assert len(digests) == 1
