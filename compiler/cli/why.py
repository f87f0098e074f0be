"""jobc why: where a line, a key or a variable of the ranks came from, and what a key has an effect on.

jobc why FILE:LINE …                     a line of an artifact; FILE:FIRST-LAST for each of several
jobc why DIR NAME …                      a key of the spec or of the plan, or an environment variable, there
jobc why [KEY=VALUE …] NAME … [-- …]     the same of what these words would give; nothing is written
`--rank N` says for a variable where that rank runs. Reads what was written, and composes only for the last form.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import pairs
from ..backend import VERBS
from ..compare import PLAN
from ..diagnostics import CompileError, Diagnostic, nearest
from ..directory import SOURCE_MAP, read_source_map, text_of
from ..neutral import LIB
from . import OK
from .arguments import Arguments, is_override
from .inspect import no_option, usage
from .why_gpus import VISIBLE_GPUS, chosen_by
from .why_job import Job
from .why_launcher import made_by, own_lines
from .why_line import as_written, keys_of, lines_of, spec_key, why

EXAMPLE = "jobc why artifacts/hello/local/submit.sh:12"
WANTED = "FILE:LINE, or DIR and a name"


def why_command(arguments: Arguments) -> int:
    words, rank = _rank(list(arguments.words))
    places = [word for word in words if re.search(r":\d+(-\d+)?$", word) and not is_override(word)]
    rest = [word for word in words if word not in places]
    _refuse_options(words)
    if not words or (not places and not any(_is_name(word) for word in rest)):
        raise usage("why", WANTED, f"jobc why {_a_line_of(Path(rest[0]))}" if rest and _is_path(rest[0]) else EXAMPLE)
    if rank is not None and not any(_is_variable(word) for word in rest):
        because = "it says where that rank runs and what a variable is there; a key and a line are the same for all"
        raise CompileError([Diagnostic("JC1110", "--rank has no effect here", because, "leave out --rank")])
    for place in places:
        for line in _each_line(place):
            print(why(line))
    if rest:
        _tell(_job(rest, arguments), list(filter(_is_name, rest)), rank)
    return OK


def _tell(job: Job, names: Sequence[str], rank: int | None) -> None:
    """Every answer that there is, then CompileError with what has none."""
    refused: list[Diagnostic] = []
    for name in names:
        try:
            print("\n".join(about(job, name, rank)))
        except CompileError as error:
            refused += error.diagnostics
    if refused:
        raise CompileError(refused)


def _each_line(place: str) -> Iterator[str]:
    """FILE:8, FILE:9 and FILE:10 of FILE:8-10."""
    name, _, numbers = place.rpartition(":")
    first, _, last = numbers.partition("-")
    if last and int(last) < int(first):
        raise usage("why", "the first line before the last", f"jobc why {name}:{last}-{first}")
    return (f"{name}:{number}" for number in range(int(first), int(last or first) + 1))


def _refuse_options(words: Sequence[str]) -> None:
    """CompileError JC1110 for an option beside --rank."""
    option = next((word for word in words if word.startswith("-") and word != "--"), None)
    if option in ("-m", "--multirun"):
        of_one = [re.sub(r"^([\w.+]+=[^,\[{(\"']+),.*", r"\1", word) for word in words if word != option]
        because = f"{option} makes several, in which a line may come from elsewhere"
        raise CompileError(
            [Diagnostic("JC1110", "jobc why looks at one job", because, shlex.join(["jobc", "why", *of_one]))]
        )
    if option is not None:
        raise no_option("why", option, "--rank N is the only one")


def _rank(words: list[str]) -> tuple[list[str], int | None]:
    """The words without `--rank N`, and N."""
    if "--rank" not in words:
        return words, None
    at = words.index("--rank")
    number = words[at + 1] if at + 1 < len(words) else ""
    if not number.isdecimal():
        raise usage("why", "a number after --rank", "jobc why artifacts/hello/local RANK --rank 3")
    return [*words[:at], *words[at + 2 :]], int(number)


def _is_path(word: str) -> bool:
    return "/" in word or Path(word).exists() or word.endswith((".sh", ".yaml", ".json", ".sbatch", ".txt", ".md"))


def _is_name(word: str) -> bool:
    return not is_override(word) and not _is_path(word)


def _is_variable(word: str) -> bool:
    return bool(re.fullmatch(r"[A-Z][A-Z0-9_]*", word))


def _job(words: Sequence[str], arguments: Arguments) -> Job:
    """The artifact directory among the words, else what the overrides among them give."""
    folders = [Path(word) for word in words if _is_path(word) and not is_override(word)]
    if not folders:
        return _compiled(tuple(word for word in words if not _is_name(word)), arguments)
    if len(folders) > 1 or any(map(is_override, words)):
        because = f"{folders[0]} says already which job is meant"
        raise CompileError(
            [Diagnostic("JC1110", "jobc why looks at one job", because, f"jobc why {folders[0]} loop.steps")]
        )
    if not (folders[0] / SOURCE_MAP).is_file():
        from .inspect import no_artifact

        raise no_artifact(folders[0], "jobc why")
    return _written(folders[0])


def _compiled(words: tuple[str, ...], arguments: Arguments) -> Job:
    from ..driver import compile_job
    from .compiling import request

    made = compile_job(request(replace(arguments, words=words)))
    texts = {artifact.path: artifact.text for artifact in made.artifacts}
    lines = {path: lines_of(text) for path, text in texts.items()}
    return Job(made.source_map, pairs.read(texts[PLAN]), lines, "")


def _written(folder: Path) -> Job:
    source_map = read_source_map(folder)
    there = [path for path in (*source_map.files, *_library(folder)) if (folder / path).is_file()]
    lines = {path: lines_of(text_of(folder / path)) for path in there}
    plan = (folder / PLAN).read_text(encoding="utf-8") if (folder / PLAN).is_file() else ""  # none: all of a sweep
    return Job(source_map, pairs.read(plan), lines, f"{folder}/")


def _library(folder: Path) -> list[str]:
    found = (folder / LIB).rglob("*")
    return sorted(file.relative_to(folder).as_posix() for file in found if file.suffix in (".py", ".sh"))


# ---- a name


def about(job: Job, name: str, rank: int | None) -> Iterator[str]:
    """The answer for a key or a variable. CompileError JC5030 when nothing there has that name, JC5031 for the rank."""
    plan_keys = [key for key in job.source_map.table if _alike(key, name)] or [key for key in job.plan if key == name]
    spec_keys = [key for key in job.source_map.spec if key == name or key.startswith(f"{name}.")]
    if _is_variable(name):
        yield from _variable(job, name, rank)
    elif spec_keys:
        yield name
        for key in spec_keys:
            yield from spec_key(job.source_map, key)
            yield from _plan_keys(job, [plan for plan, specs in job.source_map.table.items() if key in specs])
        yield from _dependent(job, spec_keys)
    elif plan_keys:
        yield name
        yield from _plan_keys(job, plan_keys)
        spec_keys = list(job.source_map.spec_keys(keys_of(tuple(plan_keys), f"data at {name}")))
        for key in spec_keys:
            yield from spec_key(job.source_map, key)
        of_lines = [key for key in plan_keys if key in job.source_map.table]  # else it is made of others in plan.txt
        yield from _dependent(job, spec_keys, of_lines)
    else:
        known = [*job.source_map.spec, *job.source_map.table, *job.plan]
        close = nearest(name, known)
        hint = f"did you mean {close[0]}?" if close else "docs/keys.md lists the keys; variables are in capitals"
        raise CompileError(
            [Diagnostic("JC5030", f"nothing is called {name}", "it is no key of the spec or plan of this job", hint)]
        )


def _alike(key: str, name: str) -> bool:
    """Whether a plan key is the one meant, or below it. plan.txt writes the only group of nodes without `groups.0`."""
    return any(
        each == name or each.startswith(f"{name}.") for each in (key, key.replace("topology.groups.0", "topology"))
    )


def _plan_keys(job: Job, keys: Sequence[str]) -> Iterator[str]:
    for key in keys:
        short = key.replace("topology.groups.0", "topology")
        value = f" = {_json(job.plan[short])}" if short in job.plan else ""
        yield f"  plan     {short}{value}"
        if key in job.source_map.rules:
            yield f"           {job.source_map.rules[key]}"


def _json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


def _dependent(job: Job, spec_keys: Sequence[str], plan_keys: Sequence[str] = ()) -> Iterator[str]:
    """Every line that depends on one of the spec keys, or, where they are given, on one of the plan keys."""
    if plan_keys:
        rows = [
            job.show_written(path, number)
            for path, all_keys in sorted(job.source_map.files.items())
            for number, (keys, template) in enumerate(all_keys, 1)
            if set(keys_of(keys, template)) & set(plan_keys)
        ]
    else:
        rows = [row for key in spec_keys for row in job.lines.get(key, ())]
    yield from _column("lines", dict.fromkeys(rows))
    whole = [
        f"{job.folder}{path}"
        for path, keys in job.source_map.chosen.items()
        if set(job.source_map.spec_keys(keys)) & set(spec_keys)
    ]
    yield from _column("files", whole)
    if not rows and not whole:
        yield "  lines    none: no file of this job depends on it"


def _column(title: str, rows: Any) -> Iterator[str]:
    for number, row in enumerate(rows):
        yield f"  {'' if number else title:<8} {row}"


# ---- a variable


def _variable(job: Job, name: str, rank: int | None) -> Iterator[str]:
    """Where a variable of the ranks is set: lines of this artifact, then of the trainer's files beside them."""
    from ...trainer.env import LAUNCHER_NAMES, TABLE

    yield name
    row = next((row for row in TABLE if row.name == name), None)
    if row is not None:
        yield f"  means    {row.meaning}; set by {row.setter}"
    if rank is not None:
        yield f"  rank     {_place(job, rank, name)}"
    made = made_by(job.plan, name)
    key = f"env.{name}" if f"env.{name}" in job.source_map.spec else f"secrets.{name}"
    own = _settings(job, name)
    of_gpus = name in VISIBLE_GPUS and made is None and key not in job.source_map.spec
    if of_gpus and job.plan:
        yield f"  how      {chosen_by(job.plan, own[0][0] if own else '')}"
    if made is not None:
        yield f"  how      {made.how}"
    told: set[tuple[str, int]] = set()
    if made is not None and made.words and job.plan["launcher"] == "accelerate" and name in LAUNCHER_NAMES:
        own = []  # those lines are for a single process
    yield from _all(job, "set", name, own, told)
    for path, pattern in made.words if made is not None else ():
        lines = _lines(job, path)
        passed = [(path, n) for n, line in enumerate(lines, 1) if re.search(pattern, line.strip())]
        yield from _all(job, "passed", "", passed, told)
    for other in made.reads if made is not None else ():
        yield from _all(job, "through", other, _settings(job, other), told)
    if name == "JOBC_RUN_DIR":
        rows = [("submit.sh", n) for n, line in enumerate(_lines(job, "submit.sh"), 1) if line.startswith("this_job ")]
        by_submit = "run.root" in {key for keys, _ in job.source_map.files.get("submit.sh", ()) for key in keys}
        yield from _all(job, "through", "", rows if by_submit else (), told)  # else the nodes make the folder
    yield from _all(job, "through", "", _saving(job, name), told)
    if name == "WORLD_SIZE":
        yield from _plan_keys(job, ["topology.world_size"])
    if of_gpus:
        yield from _plan_keys(job, ["topology.gpus"])
    if not own and key in job.source_map.spec:
        yield from spec_key(job.source_map, key)
    library = [p for p in job.files if p.startswith(f"{LIB}/rt/") or p == f"{LIB}/env.py"]
    if name in LAUNCHER_NAMES:
        library = [p for p in library if made is not None and p.rpartition("/")[2] in made.files]
    copied = [job.show(path, n) for path in library for n in _naming(job.files[path], name, path.endswith(".py"))]
    yield from _column("on node", copied)
    if row is None and not of_gpus and not own and not copied and key not in job.source_map.spec:
        close = nearest(name, [row.name for row in TABLE])
        hint = f"did you mean {close[0]}?" if close else f"jobc env.{name}=VALUE sets it"
        because = "no file of this job sets it, and docs/environment.md does not name it"
        raise CompileError([Diagnostic("JC5030", f"nothing is called {name}", because, hint)])


_ASIDE = {*VERBS, "prefetch.sh", "spec.yaml"} - {"submit.sh"}  # no start of a rank goes through them


def _lines(job: Job, path: str) -> Sequence[str]:
    lines = job.files.get(path, ())
    return own_lines(lines, job.plan.get("launcher", "")) if path == "node.sh" else lines


def _settings(job: Job, name: str) -> list[tuple[str, int]]:
    paths = [path for path in sorted(job.source_map.files) if path not in _ASIDE]
    return [(path, n) for path in paths for n in _setting(_lines(job, path), name)]


def _saving(job: Job, name: str) -> list[tuple[str, int]]:
    """Lines with which submit.sh and its like take the variable of the shell that a secret is made from."""
    given = job.source_map.spec.get(f"secrets.{name}")
    kind, _, ref = str(given.value if given else "").partition(":")
    paths = [path for path in sorted(job.source_map.files) if path not in _ASIDE and kind == "env"]
    return [(p, n) for p in paths for n, line in enumerate(_lines(job, p), 1) if line.strip() == f"save_secret {ref}"]


def _all(
    job: Job, title: str, name: str, places: Sequence[tuple[str, int]], told: set[tuple[str, int]]
) -> Iterator[str]:
    """Lines that give `name` its value ("": that have words of a launcher), and those of the variables they read."""
    for path, number in places:
        if (path, number) in told:
            continue
        told.add((path, number))
        lines = job.files[path]
        yield f"  {title:<8} {job.show(path, number)}"
        yield from _behind(job, path, number)
        if re.search(r"\bname: ", lines[number - 1]):
            yield from _all(job, "through", "", [(path, at) for at in _value_below(lines, number)], told)
        if title == "passed" and not lines[number - 1].lstrip().startswith("--"):
            continue  # a whole command: what it reads is told beside it
        for other in _read_in(lines[number - 1], name):
            local = [(path, at) for at in _setting(_lines(job, path), other)]
            yield from _all(job, "through", other, _settings(job, other) if other.isupper() else local, told)


def _value_below(lines: Sequence[str], number: int) -> Iterator[int]:
    """Numbers of the lines that give an entry of a YAML list its value: `value: …`, or those below `valueFrom:`."""
    if number >= len(lines) or not re.match(r"\s*value", lines[number]):
        return
    depth = len(lines[number]) - len(lines[number].lstrip())
    for at in range(number, len(lines)):
        if at > number and len(lines[at]) - len(lines[at].lstrip()) <= depth:
            return
        if not lines[at].rstrip().endswith(":"):
            yield at + 1


def _read_in(line: str, name: str) -> list[str]:
    """Variables in what `name` is set to, or in the whole line; of the environment only jobc's."""
    value = re.search(rf"\b{name}\+?=((?:\"[^\"]*\"|'[^']*'|\$\([^)]*\)|[^\s;])*)", line) if name else None
    found = re.findall(r"\$\{?([a-z][a-z0-9_]*|JOBC_\w+)\b", value[1] if value else line)
    return [other for other in dict.fromkeys(found) if other not in (name, "python", "rt")]


def _place(job: Job, rank: int, name: str) -> str:
    """On which node a rank is, and the variable's value where the rank alone says it."""
    procs, world = job.plan["topology.procs"], job.plan["topology.world_size"]
    if rank >= world:
        because = f"topology.world_size is {world}, and the first rank is 0"
        raise CompileError([Diagnostic("JC5031", f"there is no rank {rank}", because, f"--rank {world - 1}")])
    values = {
        "RANK": rank, "LOCAL_RANK": rank % procs, "GROUP_RANK": rank // procs, "JOBC_NODE_RANK": rank // procs,
        "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": procs,
    }  # fmt: skip
    value = f": {name}={values[name]}" if name in values else ""
    return f"{rank} of {world} is process {rank % procs} of {procs} on node {rank // procs}{value}"


def _setting(lines: Sequence[str], name: str) -> list[int]:
    """Numbers of the lines that give a variable its value: in bash, or in YAML as `name: NAME` or `NAME: …`."""
    shell = re.compile(rf"(^|[\s;(])({name}\+?=|secret_(env|file) {name} )")
    data = re.compile(rf"^\s*(- )?(name: \"?{name}\"?$|{name}: )")
    code = [re.sub(r"'[^']*'|\"[^\"]*\"", "''", line) for line in lines]  # no text, such as that of a message
    return [
        n for n, line in enumerate(lines, 1) if data.search(line) or (shell.search(code[n - 1]) and line[:1] != "#")
    ]


def _naming(lines: Sequence[str], name: str, is_python: bool) -> list[int]:
    """Numbers of the lines of the trainer's own files that set it or make up its value, not of what they print."""
    keyword = r"^\s*|[(,]\s*" if is_python else r"^|[\s;(]"
    pattern = re.compile(rf"({keyword}){name}=|\b{name}={{|[\"']{name}[\"'](\s*:|\]\s*=)")
    aside = re.compile(r'^\s*#|node\.sh" 0 (check|shell)\b')  # not of a start of the ranks
    return [n for n, line in enumerate(lines, 1) if pattern.search(line) and not aside.search(line)]


def _behind(job: Job, path: str, number: int) -> Iterator[str]:
    was, is_same = as_written(job.source_map.sums[path], job.files[path])[number - 1]
    if not is_same:
        yield "           edited: this line is not as jobc wrote it"
    if was is None:
        return
    keys, template = job.source_map.files[path][was - 1]
    yield f"  from     {template}"
    yield from _plan_keys(job, [key for key in keys if not key.startswith(("spec.", "options."))])
    for key in job.source_map.spec_keys(keys):
        yield from spec_key(job.source_map, key)


def _a_line_of(path: Path) -> str:
    """A FILE:LINE there is: of the file, of the artifact directory, else of the README's example."""
    if path.is_file():
        return f"{path}:1"
    return f"{path}/submit.sh:1" if (path / SOURCE_MAP).is_file() else "artifacts/hello/local/submit.sh:12"


COMMANDS: dict[str, Callable[[Arguments], int]] = {"why": why_command}
