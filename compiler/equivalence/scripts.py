"""What can be seen in a script without running it: in verbs and in branches that no start takes.

In   the emitted files, the plan, and the runtime library, whose comments say what each function takes
Out  `FILE:LINE: what is wrong` for: a number or name that is not the plan's, a variable that nothing reads or sets, a
     folder of the run looked for in the artifact and the reverse, a word of another kind than a function takes, an
     option that is in the usage line or in the code alone, an exit code that means nothing, no `#!`
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from ...trainer.env import LAUNCHER_NAMES, TABLE
from ..backend import VERBS
from .exit_codes import wrong_codes
from .lines import mistakes_in_line
from .order import read_too_early
from .quoted import code_of
from .users_text import without
from .variables import FOREIGN

RT = Path(__file__).resolve().parents[2] / "trainer" / "rt"
SCRIPT = (".sh", ".sbatch")
ON_NODES = (
    "node.sh",
    "task.sh",
    "job.sbatch",
    "array.sbatch",
)  # programs as the verbs are; the rest is sourced
CONSTANTS = {  # NAME=LITERAL at the start of a line -> the plan key that it has
    "nodes": "topology.nodes", "procs": "topology.procs", "gpus": "topology.gpus", "grace_s": "lifecycle.grace_s",
    "keep_runs": "run.keep", "max_restarts": "lifecycle.max_restarts", "max_requeues": "lifecycle.max_requeues",
    "job_name": "run.folder", "launcher": "launcher", "rendezvous_timeout_s": "rendezvous.timeout_s",
    "code_kind": "code.kind", "code_root": "code.root", "rendezvous_port": "rendezvous.port",
    "JOBC_HEAD_PORT": "rendezvous.port",
    "code_max_bytes": "code.max_bytes", "start_timeout_s": "backend.start_timeout",
}  # fmt: skip
OF_RUN = r"state|logs|exit|control|artifact|\.?code"
OURS = "node|task|engine|client|copies|queue|bucket|in_job"
FOLDERS = ("run", "artifact", "project", "here", "own_run")
NUMBERS = ("nodes", "procs", "gpus", "rank", "attempt", "grace_s")
TAKES_RUN = ("RUN",)
TAKES_NUMBER = ("NODE", "NODES", "RANK", "SECONDS", "CODE", "KEEP", "TIMEOUT_S", "MOST_REQUEUES")
OF_BASH = re.compile(
    r"(BASH|SLURM|SKYPILOT|JOBC|OMPI|PMI|NCCL|GLOO|TORCH|HF|PYTHON|APPTAINER|KUBE|CUDA)\w*|[A-Z]+|OMP_NUM_THREADS|"
    r"SSH_\w+|XDG_\w+|LC_ALL|CONDA_\w+|VIRTUAL_ENV|FI_\w+|LD_LIBRARY_PATH|TRANSFORMERS_\w+|_"
)
_CONSTANT = re.compile(r"(?:export )?(\w+)=([^\s$]*)( #.*)?$")
_READ_WITHOUT_DEFAULT = re.compile(r"(?<=\$)[A-Za-z_]\w*|(?<=\$\{)[A-Za-z_]\w*(?!\w|:?[-+=])")
_SEVERAL = re.compile(r"[@*]|^\\$|^\$\w")  # a word that may be several, or none, and the end of a line that goes on
_WORD = re.compile(r"""(?:"(?:\\.|\$\([^)]*\)|[^"\\])*"|'[^']*'|\$\(\([^)]*\)+|[^\s;|&()<>"'])+""")


def mistakes(files: Mapping[str, str], plan: Mapping[str, Any]) -> Iterator[str]:
    texts = {path: text for path, text in files.items() if path.endswith(SCRIPT) and "/" not in path}
    ours = {path: without(text, plan) for path, text in texts.items()}
    scripts = {path: _code(text) for path, text in ours.items()}
    takes = {**library()[1], **_signatures("\n".join(files[path] for path in scripts))}
    for path, lines in scripts.items():
        if path in (*VERBS, *ON_NODES) and not re.match(r"#!\s*/[^\r\n]*\n", files[path]):
            yield f"{path}:1: it is a program, and its first line is not #! and an interpreter"
        yield from _options(path, ours[path])
        first = next((line for line in lines if line), "")
        if files[path].startswith("#!") and not re.fullmatch(r"set -eu(o pipefail)?", first.strip()):
            yield f"{path}: it goes on after an error: its first command is not set -euo pipefail"
        yield from _called_too_early(path, lines)
        yield from _unread(path, scripts, plan)
        sourced = "\n".join(ours[other] for other in ours if other not in (*VERBS, *ON_NODES, path))
        early = read_too_early(lines, "\n".join((library()[2], *ours.values())), sourced)
        seen = (*early, *wrong_codes(lines, path in (*VERBS, *ON_NODES)))
        yield from (f"{path}:{at}: {what}" for at, what in seen)
        constants = _code(without(texts[path], plan, least_lines=2))
        for number, (line, constant) in enumerate(zip(lines, constants, strict=True), 1):
            found = (
                *_constant(constant, plan),
                *_place(line),
                *_words(line, takes, plan),
                *_defaults(line, plan),
                *mistakes_in_line(line),
            )
            yield from (f"{path}:{number}: {what}" for what in found)


def compared_keys(files: Mapping[str, str]) -> set[str]:
    """Plan keys of the constants that the scripts set, which `mistakes` compares."""
    lines = (line for path, text in files.items() if path.endswith(SCRIPT) for line in _code(text))
    return {CONSTANTS[found[1]] for line in lines if (found := _CONSTANT.match(line)) and found[1] in CONSTANTS}


@cache
def library() -> tuple[str, Mapping[str, tuple[str, ...]], str]:
    """All of its text, what its shell functions take, and the text of those."""
    shell = "\n".join(path.read_text(encoding="utf-8") for path in sorted(RT.glob("*.sh")))
    python = "\n".join(path.read_text(encoding="utf-8") for path in sorted(RT.parent.rglob("*.py")))
    return shell + python, _signatures(shell), shell


def _signatures(text: str) -> dict[str, tuple[str, ...]]:
    """`# name RUN NODES: what it does` above `name() {`."""
    functions = set(re.findall(r"^(\w+)\(\) [({]", text, re.MULTILINE))
    said = re.findall(r"^# (\w+)((?: \[?[A-Z_]+(?:=[A-Z_]+)?\]?…?)+)[^:\n]*(?::|,|$)", text, re.MULTILINE)
    return {name: tuple(words.split()) for name, words in said if name in functions}


def _code(text: str) -> list[str]:
    """Its lines, those of comments empty."""
    return ["" if line.lstrip().startswith("#") else line for line in text.split("\n")]


def _constant(line: str, plan: Mapping[str, Any]) -> Iterator[str]:
    found = _CONSTANT.match(line)
    if found and found[1] in CONSTANTS:
        planned = plan[CONSTANTS[found[1]]]
        said, wanted = "".join(shlex.split(found[2])), str(0 if planned is None else planned)
        if said != wanted:
            yield f"{found[1]} is {said}, the plan has {wanted} as {CONSTANTS[found[1]]}"
    elif re.match(r"this_job ", line):
        words = shlex.split(line, comments=True)
        roots = (plan["run.root"], str(plan.get("backend.records", "runs")))  # the runs, or what is known of them
        if words[1:2] != [plan["run.folder"]] or (len(words) > 2 and words[2] not in roots):
            yield f"this_job is told {' '.join(words[1:])}, the plan has {plan['run.folder']} in {plan['run.root']}"


def _place(line: str) -> Iterator[str]:
    for found in re.finditer(r"\$\{?(project|run)\}?/(\.\./|(?:accelerate|task\.sky|deepspeed)\.\w+)", line):
        yield f"${found[1]}/{found[2]}: what belongs to the artifact is looked for elsewhere"
    for name, other in re.findall(r"^\s*export JOBC_([A-Z_]+)=\$([a-z_]+)$", line):
        if name.lower() in CONSTANTS and other != name.lower():
            yield f"JOBC_{name} is ${other}, and not ${name.lower()}"
    for found in re.finditer(rf"\$\{{?(artifact|project|here)\}}?/({OF_RUN})(?=[/\"\s])", line):
        yield f"${found[1]}/{found[2]}: a folder of the run is looked for in another one"
    for found in re.finditer(r"(node|rank)_\$\(printf '%0\dd' \"\$?(?:\(\(10#\$|\{)?(\w+)", line):
        if found[2] in ("attempt", "nodes", "procs", "JOBC_NODES", "JOBC_ATTEMPT"):
            yield f"{found[1]}_NN is made of {found[2]}, which is the number of no {found[1]}"
    for found in re.finditer(rf"\$\{{?(?:run\}}?/(?:lib/|\w+\.sh\b)|project\}}?/(?:{OURS})\.sh\b)", line):
        yield f"{found[0]}: a file of the artifact is looked for elsewhere"


def _words(line: str, takes: Mapping[str, tuple[str, ...]], plan: Mapping[str, Any]) -> Iterator[str]:
    """What each function is called with."""
    for start in re.finditer(
        r"(?:^|[;|&{!]|(?<!=)\(|\$\(|^\s*[^()]+\))\s*(?:(?:if|elif|then|do|else|while|until|!)\s+)*(\w+)(?= )",
        code_of(line),
    ):
        if start[1] not in takes:
            continue
        at, words = start.end(), []
        while found := _WORD.match(line, at + 1 if line[at : at + 1] == " " else at):
            if found[0].startswith("#") or (found[0].isdecimal() and line[found.end() : found.end() + 1] in ("<", ">")):
                break
            words.append(found[0])
            at = found.end()
            if line[at : at + 1] != " ":
                break
        kinds = takes[start[1]]
        least = next((number for number, kind in enumerate(kinds) if kind.startswith("[") or "…" in kind), len(kinds))
        most = len(words) if "…" in kinds[-1] else len(kinds)
        is_known = not any(_SEVERAL.search(word) for word in words) and line[at : at + 3] not in (" <(", " >(")
        if is_known and not least <= len(words) <= most:
            got = f"{len(words)} word{'s' * (len(words) > 1)}" if words else "nothing"
            yield f"{start[1]} takes {' '.join(kinds)}, and gets {got}"
        for kind, word in zip(kinds, words, strict=False):
            yield from _kind(start[1], kind.strip("[]…"), word.strip("\"'"), plan)


def _kind(function: str, kind: str, word: str, plan: Mapping[str, Any]) -> Iterator[str]:
    bare = re.fullmatch(r"\$\{?(\w+)\}?", word)
    name = bare[1] if bare else ""
    if kind in TAKES_RUN and name in (*FOLDERS[1:-1], *NUMBERS):
        yield f"{function} takes the folder of a run, and gets {word}"
    elif kind in TAKES_NUMBER and name in FOLDERS:
        yield f"{function} takes a number, and gets {word}"
    elif kind == "NODES" and ((word.isdecimal() and int(word) != plan["topology.nodes"]) or name in ("procs", "gpus")):
        yield f"{function} takes the number of nodes, which is {plan['topology.nodes']}, and gets {word}"
    elif kind in ("RANK", "NODE") and name in ("nodes", "procs", "attempt"):
        yield f"{function} takes the number of a {kind.lower()}, and gets {word}"


def _defaults(line: str, plan: Mapping[str, Any]) -> Iterator[str]:
    """A variable that is taken from outside, else from here; a node that is none; a file opened for nobody."""
    found = re.match(r"\s*export (JOBC_\w+)=(?:\$\{1:-)?\$\{(JOBC_\w+):-", line)
    if found and found[1] != found[2]:
        yield f"{found[1]} is set to {found[2]}"
    for found in re.finditer(r"/node\.sh\" (\d+) ", line):
        if int(found[1]) >= plan["topology.nodes"]:
            yield f"node.sh is told that it is node {found[1]}, and the last one is {plan['topology.nodes'] - 1}"
    last = plan["topology.nodes"] - 1
    for found in re.finditer(r"< <\(seq (\d+) (\d+)\)", line):
        if (int(found[1]), int(found[2])) != (0, last):
            yield f"the nodes are counted from {found[1]} to {found[2]}, and are 0 to {last}"
    for found in re.finditer(r"\bwaiting for (\d+) nodes?\b", line):
        if int(found[1]) != last + 1:
            yield f"it waits for {last + 1} nodes, and says {found[1]}"
    if re.search(r"(?<![\w$&{])[3-9]>(/dev/null|&[12])", line):
        yield "what a command prints on file descriptor 3 and above is nothing; its errors come on 2"


def _options(path: str, text: str) -> Iterator[str]:
    """A verb's usage line and the arms of its `case`: the same options, with a value or without."""
    usage = re.search(rf"^# usage: {re.escape(path)}(.*)$", text, re.MULTILINE)
    if usage is not None and path in (*VERBS, "node.sh") and not re.search(r"^ +-h \| --help\) ", text, re.MULTILINE):
        yield f"{path}: it has no --help"
    cases = re.findall(r"^( *)case \$(?:1|\{1:-\}) in\n(.*?)^\1esac$", text, re.MULTILINE | re.DOTALL)
    of_options = [body for _, body in cases if re.search(r"^ +-h \| --help\) ", body, re.MULTILINE)]
    if usage is None or not of_options:
        return
    arms = re.findall(r"^ +(-[\w -|]*)\) (.*)$", of_options[0], re.MULTILINE)
    explained = re.findall(r"^#   (--\w.*)$", text, re.MULTILINE)
    said = {
        n: bool(value) for part in (*explained, usage[1]) for n, value in re.findall(r"(--\w[\w-]*)( [A-Z]+\b)?", part)
    }
    taken = {
        name: "need_value" in action for names, action in arms for name in names.split(" | ") if re.match(r"--\w", name)
    }
    taken.pop("--help", None)
    for name in sorted(said.keys() | taken.keys()):
        if said.get(name) != taken.get(name):
            yield f"{path}: {name} is one thing in the usage line and another in the code"


def _called_too_early(path: str, lines: Sequence[str]) -> Iterator[str]:
    """A script begins by reading the library, and tells it which job this is."""
    read = next((number for number, line in enumerate(lines, 1) if line.endswith('/rt/run.sh"')), 0)
    for number, line in enumerate(lines[: max(read - 1, 0)], 1):
        if line.startswith("this_job "):
            yield f"{path}:{number}: this_job is called before run.sh is read, which has it"


def _unread(path: str, scripts: Mapping[str, list[str]], plan: Mapping[str, Any]) -> Iterator[str]:
    """Variables that nothing reads, and those that nothing sets."""
    alone = path in VERBS or path in ON_NODES
    seen = [path, *(other for other in scripts if other not in (*VERBS, *ON_NODES))] if alone else [*scripts]
    read = _read_in(library()[0]).union(*(_read_in("\n".join(lines)) for lines in scripts.values()))
    settable = _set_somewhere_in(library()[2]).union(*(_set_somewhere_in("\n".join(scripts[other])) for other in seen))
    for number, line in enumerate(scripts[path], 1):
        for name in _set_in(line):
            if name not in _known(plan) and name not in read:
                yield f"{path}:{number}: {name} is set, and nothing reads it"
        for name in _READ_WITHOUT_DEFAULT.findall(re.sub(r"'[^']*'", "''", line)):
            if name not in FOREIGN and not OF_BASH.fullmatch(name) and name not in settable:
                yield f"{path}:{number}: {name} is read, and nothing sets it"


_SETS = r"(?:^|[\s;({{])(?:export |local |readonly )?{}\+?="


def _set_in(line: str) -> list[str]:
    return re.findall(r"^\s*(?:(?:export|local|readonly) )?([A-Za-z_]\w*)\+?=", line)


@lru_cache(maxsize=100)
def _read_in(text: str) -> frozenset[str]:
    """Words that stand somewhere else than before an equals sign."""
    return frozenset(re.findall(r"\b\w+\b(?!\+?=)", text)) | frozenset(re.findall(r"\b(\w+)==", text))


@lru_cache(maxsize=100)
def _set_somewhere_in(text: str) -> frozenset[str]:
    declared = re.findall(r"\b(?:for|local|read|mapfile|printf|declare)\b([^\n;]*)", text)
    return frozenset(re.findall(r"\b(\w+)(?:\[[^]]*\])?\+?=", text)).union(*(re.findall(r"\w+", d) for d in declared))


@cache
def _names(extra: tuple[str, ...]) -> frozenset[str]:
    return frozenset({row.name for row in TABLE} | set(LAUNCHER_NAMES) | set(extra))


def _known(plan: Mapping[str, Any]) -> frozenset[str]:
    """Of the environment: jobc's, the plan's, and the settings of the network."""
    own = [key.split(".")[1] for key in plan if key.startswith(("env.", "secrets."))]
    return _names((*own, *(setting["name"] for setting in plan["network.settings"]), *FOREIGN))
