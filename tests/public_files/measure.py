"""Compile jobs for public launch files, and check their facts.

In   NAME.yaml: the source, the words and command of one job, and the source's facts in our own words
Out  for each fact with a check, whether the compiled artifact has it

A fact has a verdict, one of three keys:
  exact: KEYS     a key expresses it, or jobc does it by default
  awkward: HOW    the effect is reached in another way, or needs more typing
  not: INSTEAD    jobc cannot express it
and a check, which every exact fact needs. All its conditions must hold:
  line            lines of the engine's file, or of the file `in`; a list is searched in this order
  launch          lines of launch.sh, in the same way
  yaml            path -> value in the engine's file, or in `in`; `Job.spec` is in the document of that kind, and a name
                  selects the list item with that name
  json            path -> value, or an item of the list there, in .jobc/job.json
  spec            path -> value in spec.yaml
  submit          words that the job's `jobctl submit` accepts
`default: true` marks a fact that also holds for a job without any of the words; all other checks must fail for that
job.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.runtime.engines.engine import Job
from jobc.runtime.run_folder.submitted_values import NO_VALUES
from jobc.runtime.verbs import submit

FOLDER = Path(__file__).parent
VERDICTS = ("exact", "awkward", "not")
CHECKS = frozenset(("line", "launch", "yaml", "json", "spec", "submit"))
ENGINE_FILES = {
    "slurm": "job.sbatch",
    "ssh": "hosts.txt",
    "pdsh": "hosts.txt",
    "kubernetes": "job.yaml",
    "skypilot": "task.sky.yaml",
    "accelerate": "accelerate.yaml",
    "local": "launch.sh",
}
OF_THE_ENGINE = ("backend=", "backend.flavor=")  # words that are kept in the job without the others


@dataclass(frozen=True)
class PublicFile:
    """A public launch file: its source, a job that does the same, and its facts."""

    name: str
    source: str
    words: tuple[str, ...]
    command: tuple[str, ...] | None  # None if a word sets it
    files: Mapping[str, str]
    facts: tuple[Mapping[str, Any], ...]

    @property
    def backend(self) -> str:
        return next(word.partition("=")[2] for word in self.words if word.startswith("backend="))


def verdict(fact: Mapping[str, Any]) -> str:
    """Return exact, awkward or not."""
    (found,) = [name for name in VERDICTS if name in fact]
    return found


@cache
def public_files() -> tuple[PublicFile, ...]:
    """Return every public file that is measured here, by name."""
    return tuple(_read(file) for file in sorted(FOLDER.glob("*.yaml")))


def _read(file: Path) -> PublicFile:
    read = yaml.safe_load(file.read_text(encoding="utf-8"))
    words, command = tuple(read["words"]), tuple(read["command"]) if "command" in read else None
    return PublicFile(file.stem, read["source"], words, command, read.get("files", {}), tuple(read["facts"]))


Files = Mapping[str, str]


def compiled(words: Sequence[str], command: Sequence[str] | None) -> Files:
    """Compile a job in the current folder and return its text files."""
    project = (("project", Path.cwd() / "conf"),) if Path("conf").is_dir() else ()
    made = compile_job(CompileRequest(tuple(words), None if command is None else tuple(command), project))
    files = {artifact.path: artifact.text for artifact in made.artifacts if artifact.binary is None}
    return {**_of_config_maps(files), **files}


def bare(file: PublicFile) -> Files:
    """Compile a job for the same engine with no other settings."""
    return _bare(tuple(word for word in file.words if word.startswith(OF_THE_ENGINE)))


@cache
def _bare(words: tuple[str, ...]) -> Files:
    hosts = ["hosts=[other]"] if words[0] in ("backend=ssh", "backend=pdsh") else []
    return compiled([*words, *hosts, "name=bare"], ["./nothing"])


def _of_config_maps(files: Files) -> Files:
    """Return the text files that a manifest contains."""
    return _documents(files["job.yaml"])["ConfigMap"]["data"] if "job.yaml" in files else {}


def holds(fact: Mapping[str, Any], backend: str, files: Files) -> bool:
    """Return whether the files hold what the fact's check asks for."""
    return all(_conditions(fact, fact.get("in", ENGINE_FILES[backend]), files))


def _conditions(fact: Mapping[str, Any], name: str, files: Files) -> Iterator[bool]:
    if "line" in fact:
        yield _in_order(fact["line"], files.get(name, ""))
    if "launch" in fact:
        yield _in_order(fact["launch"], files["launch.sh"])
    if "yaml" in fact:
        yield _equal(fact["yaml"], _documents(files.get(name, "")))
    if "json" in fact:
        yield _equal(fact["json"], _documents(files[".jobc/job.json"]))
    if "submit" in fact:
        job = _documents(files[".jobc/job.json"])
        engine = import_module(f"jobc.backends.{job['backend']}.engine").ENGINE(Job("job", FOLDER, FOLDER, job))
        words, arguments = submit.split_arguments(fact["submit"])
        yield submit.submitted_values(engine, submit.parser(engine).parse_args(words), arguments) != NO_VALUES
    if "spec" in fact:
        yield _equal(fact["spec"], _documents(files["spec.yaml"]))


def _in_order(wanted: str | list[str], text: str) -> bool:
    """Return whether the lines occur in this order, without indentation and comments at their end."""
    lines = iter([{line.strip(), line.partition(" # ")[0].strip()} for line in text.split("\n")])
    return all(any(line in forms for forms in lines) for line in ([wanted] if isinstance(wanted, str) else wanted))


@cache
def _documents(text: str) -> Any:
    """Return a file of JSON or YAML, or kind -> document for a manifest."""
    if text.startswith("{"):
        return json.loads(text)
    documents = [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]
    if len(documents) == 1 and "kind" not in documents[0]:
        return documents[0]
    return {document["kind"]: document for document in documents}


def _equal(wanted: Mapping[str, Any], tree: Any) -> bool:
    found = {path: _at(tree, path) for path in wanted}
    return all(value == found[path] or _is_item(value, found[path]) for path, value in wanted.items())


def _is_item(value: Any, found: Any) -> bool:
    return isinstance(found, list) and value in found


def _at(tree: Any, path: str) -> Any:
    """Return the value at a path such as a.b.0.c; a key may itself contain dots. None if there is none."""
    if not path:
        return tree
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        head, rest = ".".join(parts[:length]), ".".join(parts[length:])
        if isinstance(tree, dict) and head in tree:
            return _at(tree[head], rest)
        if isinstance(tree, list):
            named = {item["name"]: item for item in tree if isinstance(item, dict) and "name" in item}
            numbered = {str(i): item for i, item in enumerate(tree)}
            if head in named or head in numbered:
                return _at({**numbered, **named}[head], rest)
    return None
