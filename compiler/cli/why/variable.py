"""jobc why NAME for an environment variable of the ranks: where it is set, and which variables that line reads."""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...diagnostics.diagnostic import CompileError, Diagnostic, nearest
from ...pipeline.common_files import JOB
from ...plugins.registry import PACKAGE
from .job import ExplainedJob, match_lines_to_compiled, split_into_lines
from .launcher import VISIBLE_GPUS, explain_visible_gpus, launcher_setting
from .line import explain_spec_key, format_columns, plan_key_lines


def explain_variable(job: ExplainedJob, name: str, rank: int | None) -> Iterator[str]:
    """Yield where an environment variable is set, first in this artifact's files, then in those of jobctl."""
    from ....trainer.dist.env import LAUNCHER_NAMES, TABLE

    yield name
    row = next((row for row in TABLE if row.name == name), None)
    if row is not None:
        yield f"  means    {row.meaning}; set by {row.setter}"
    if rank is not None:
        yield f"  rank     {_describe_rank(job, rank, name)}"
    launcher = launcher_setting(job.plan, name)
    key = f"env.{name}" if f"env.{name}" in job.source_map.spec else f"secrets.{name}"
    settings = _find_settings(job, name)
    job_settings: dict[str, Any] = json.loads("\n".join(job.written[JOB]))
    of_gpus = name in VISIBLE_GPUS and not launcher.how and key not in job.source_map.spec
    if of_gpus and job.plan:
        # submit starts several nodes on one machine if hosts.txt has addresses and no client is set
        is_shared = "hosts.txt" in job.files and job_settings.get("nodes", 1) > 1 and "hosts" not in job_settings
        yield f"  how      {explain_visible_gpus(job.plan, settings[0][0] if settings else '', is_shared)}"
    if launcher.how:
        yield f"  how      {launcher.how}"
    printed: set[tuple[str, int]] = set()
    if launcher.words and job.plan.get("launcher") == "accelerate" and name in LAUNCHER_NAMES:
        settings = []  # those lines apply to a single process
    yield from _setting_lines(job, "set", name, settings, printed, reads := dict[str, None]())
    for path, pattern in launcher.words:
        place = _embedding_file(job, path)
        lines = job.files.get(place, ())
        passed = [(place, n) for n, line in enumerate(lines, 1) if re.search(pattern, line.strip())]
        yield from _setting_lines(job, "passed", "", passed, printed, reads)
    for variable in launcher.reads:
        reads[variable] = None
        yield from _setting_lines(job, "through", variable, _find_settings(job, variable), printed, reads)
    library = _read_runtime_files()
    yield from _node_variable_lines(job, [variable for variable in reads if variable != name], library)
    if name == "JOBC_RUN_DIR":
        yield from _run_root(job)
    yield from _plan_key_lines(job, [*launcher.keys, *_KEYS.get(name, ())])
    yield from _explain_secret(job, name)
    if name == "WORLD_SIZE":
        yield from plan_key_lines(job, ["topology.world_size"])
    if of_gpus:
        yield from plan_key_lines(job, ["topology.gpus"])
    if not settings and key in job.source_map.spec:
        yield from explain_spec_key(job.source_map, key)
    if name in LAUNCHER_NAMES:
        library = {file: library[file] for file in library if file in launcher.files}
    copied = [row for file, lines in library.items() for row in _assignment_rows(f"runtime/{file}", lines, name)]
    started = [row for path, lines in _engine_sources(job_settings) for row in _assignment_rows(path, lines, name)]
    yield from format_columns("submit", started)
    yield from format_columns("on node", copied)
    if row is None and not of_gpus and not settings and not copied and key not in job.source_map.spec:
        close = nearest(name, [row.name for row in TABLE])
        hint = f"did you mean {close[0]}?" if close else f"jobc env.{name}=VALUE sets it"
        because = "no file of this job sets it, and docs/environment.md does not list it"
        raise CompileError([Diagnostic("JC5030", f"unknown name {name}", because, hint)])


def _read_runtime_files() -> dict[str, list[str]]:
    """Return path in runtime/ -> lines, for the files in jobctl that run on nodes."""
    root = PACKAGE / "runtime"
    files = [file for file in sorted(root.rglob("*.py")) if file.relative_to(root).parts[0] not in ("verbs", "engines")]
    return {file.relative_to(root).as_posix(): split_into_lines(file.read_text(encoding="utf-8")) for file in files}


def _engine_sources(settings: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield the path and lines of each engine module that starts the job, if its backend is part of jobc."""
    folder = PACKAGE / "backends" / settings.get("backend", "")
    files = [*folder.glob("engine.py"), *sorted(folder.glob("engine/*.py"))]
    if settings.get("nodes") == 1 and any("OneMachineEngine" in file.read_text(encoding="utf-8") for file in files):
        files += [PACKAGE / f"runtime/engines/{name}.py" for name in ("one_machine", "starting_engine")]
    for file in files:
        yield file.relative_to(PACKAGE).as_posix(), split_into_lines(file.read_text(encoding="utf-8"))


_KEYS = {  # plan keys from which jobctl sets a node's variables
    "JOBC_RUN_DIR": ("run.folder", "run.root"),
    "JOBC_NODES": ("topology.nodes",),
    "JOBC_PROCS": ("topology.procs",),
    "JOBC_GPUS": ("topology.gpus",),
    "JOBC_HEAD_ADDR": ("resources.hosts",),
    "JOBC_HEAD_PORT": ("rendezvous.port",),
    "JOBC_GPU_TYPE": ("resources.gpu_type",),
    "JOBC_GRACE_S": ("lifecycle.grace_s",),
    "JOBC_TIME_LIMIT_S": ("lifecycle.time_limit_s",),
    "JOBC_DATA_DIR": ("run.data",),
    "JOBC_DOWNLOADS": ("caches.downloads",),
    "JOBC_COMPILED": ("caches.compiled",),
}
NODE = "node"  # section of job.json that programs on a node read
_OF_NODE = ("node/node.py", "supervisor/launch.py", "ranks/launchers.py")  # set the variables that launch.sh reads


def _node_variable_lines(
    job: ExplainedJob, variables: Sequence[str], library: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yield where jobctl sets each of these variables on a node, and the keys that they are computed from."""
    for variable in variables:
        rows = (_assignment_rows(f"runtime/{file}", library[file], variable) for file in _OF_NODE)
        yield from format_columns("through", itertools.chain(*rows))
        yield from _plan_key_lines(job, _KEYS.get(variable, ()))


def _plan_key_lines(job: ExplainedJob, plan_keys: Sequence[str]) -> Iterator[str]:
    """Yield each plan key, the line of job.json's section `node` with it, and the spec keys that it is derived from."""
    for key in plan_keys:
        if key == "resources.hosts" and not job.plan.get(key):
            continue  # the engine chooses the hosts
        yield from format_columns("through", _job_json_lines(job, key))
        yield from plan_key_lines(job, [key])
        for spec in job.source_map.spec_keys((key,)):
            yield from explain_spec_key(job.source_map, spec)


def _job_json_lines(job: ExplainedJob, key: str) -> list[str]:
    """Return the line in section `node` of job.json that depends only on this plan key."""
    rows = enumerate(job.source_map.files.get(JOB, ()), 1)
    numbers = [n for n, (keys, template) in rows if keys == (key,) and template.startswith(f"data at {NODE}.")]
    return [job.format_written_line(JOB, number) for number in numbers[:1]]


def _embedding_file(job: ExplainedJob, path: str) -> str:
    """Return the path, or the path of the file in which its text is embedded (FileEmbeddingBackend)."""
    carriers = (file for file, lines in job.files.items() if f"  {path}: |" in lines)
    return path if path in job.files else next(carriers, path)


def _find_settings(job: ExplainedJob, name: str) -> list[tuple[str, int]]:
    paths = [path for path in sorted(job.source_map.files) if path != "spec.yaml"]
    return [(path, n) for path in paths for n in _find_setting_lines(job.files.get(path, ()), name)]


_SECRETS = {
    "env": "jobctl reads the environment variable {} on each node, or the value that jobctl submit saved",
    "file": "jobctl reads the file {} on each node",
}


def _explain_secret(job: ExplainedJob, name: str) -> Iterator[str]:
    """Yield how a secret reaches a node, and the lines of job.json that name it."""
    secret = job.source_map.spec.get(f"secrets.{name}")
    kind, _, ref = str(secret.value if secret else "").partition(":")
    if kind not in _SECRETS:
        return
    yield f"  how      {_SECRETS[kind].format(ref)}"
    lines = job.files.get(JOB, ())
    numbers = [n for n, line in enumerate(lines, 1) if line == f"      {json.dumps(name)}: {{"]
    numbers += [*_list_value_lines(lines, "saved_secrets", ref)] if kind == "env" else []
    yield from format_columns("through", [job.format_line(JOB, number) for number in numbers])


def _run_root(job: ExplainedJob) -> Iterator[str]:
    """Yield the submit settings that set the run root, if it is on the job's storage."""
    root = f'"runs": {json.dumps(job.plan.get("run.root"), ensure_ascii=False)},'
    lines = job.files.get(JOB, ())
    numbers = [n for n, line in enumerate(lines, 1) if line.strip() == root or line.startswith('  "job": ')]
    if len(numbers) == 2:
        yield from format_columns("through", [job.format_line(JOB, number) for number in numbers])


def _list_value_lines(lines: Sequence[str], key: str, value: str) -> Iterator[int]:
    """Yield the line numbers of a value in a list of a JSON file with one value per line."""
    start = next((n for n, line in enumerate(lines) if line.strip() == f'"{key}": ['), len(lines))
    for number in range(start + 1, len(lines)):
        if lines[number].strip() in ("]", "],"):
            return
        if lines[number].strip().rstrip(",") == json.dumps(value):
            yield number + 1


def _setting_lines(
    job: ExplainedJob,
    title: str,
    name: str,
    places: Sequence[tuple[str, int]],
    printed: set[tuple[str, int]],
    reads: dict[str, None],
) -> Iterator[str]:
    """Yield the lines that set `name`, and the lines that set the variables they read. If `name` is "", they contain a
    launcher's options.

    reads: the jobctl variables that these lines read. This function adds to it.
    """
    for path, number in places:
        if (path, number) in printed:
            continue
        printed.add((path, number))
        lines = job.files[path]
        yield f"  {title:<8} {job.format_line(path, number)}"
        yield from _line_origins(job, path, number)
        if re.search(r"\bname: ", lines[number - 1]):
            inner = [(path, line_number) for line_number in _yaml_value_lines(lines, number)]
            yield from _setting_lines(job, "through", "", inner, printed, reads)
        if title == "passed" and not lines[number - 1].lstrip().startswith("--"):
            continue  # a whole command; the variables that it reads are listed separately
        for variable in _variables_in_value(lines[number - 1], name):
            if variable.isupper():
                reads[variable] = None
            local = [(path, line_number) for line_number in _find_setting_lines(lines, variable)]
            settings = _find_settings(job, variable) if variable.isupper() else local
            yield from _setting_lines(job, "through", variable, settings, printed, reads)


def _yaml_value_lines(lines: Sequence[str], number: int) -> Iterator[int]:
    """Yield the line numbers of a YAML list entry's value: `value: …`, or the lines below `valueFrom:`."""
    if number >= len(lines) or not re.match(r"\s*value", lines[number]):
        return
    depth = len(lines[number]) - len(lines[number].lstrip())
    for index in range(number, len(lines)):
        if index > number and len(lines[index]) - len(lines[index].lstrip()) <= depth:
            return
        if not lines[index].rstrip().endswith(":"):
            yield index + 1


def _variables_in_value(line: str, name: str) -> list[str]:
    """Return the shell variables, and jobc's environment variables, that the value of `name` or the line reads."""
    value = re.search(rf"\b{name}\+?=((?:\"[^\"]*\"|'[^']*'|\$\([^)]*\)|[^\s;])*)", line) if name else None
    names = re.findall(r"\$\{?([a-z][a-z0-9_]*|JOBC_\w+)\b", value[1] if value else line)
    return [variable for variable in dict.fromkeys(names) if variable not in (name, "python", "here")]


def _describe_rank(job: ExplainedJob, rank: int, name: str) -> str:
    procs, world = job.plan["topology.procs"], job.plan["topology.world_size"]
    if rank >= world:
        because = f"the world size is {world}, and ranks start at 0"
        raise CompileError([Diagnostic("JC5031", f"rank {rank} does not exist", because, f"--rank {world - 1}")])
    values = {
        "RANK": rank, "LOCAL_RANK": rank % procs, "GROUP_RANK": rank // procs, "JOBC_NODE_RANK": rank // procs,
        "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": procs,
    }  # fmt: skip
    value = f": {name}={values[name]}" if name in values else ""
    return f"{rank} of {world} is process {rank % procs} of {procs} on node {rank // procs}{value}"


def _find_setting_lines(lines: Sequence[str], name: str) -> list[int]:
    """Return the lines that set a variable: in bash, in YAML (`name: NAME`, `NAME: …`), or in JSON (`"NAME": "…"`)."""
    shell = re.compile(rf"(^|[\s;(]){name}\+?=")
    data = re.compile(rf"^\s*(- )?(name: \"?{name}\"?$|{name}: |\"{name}\": \")")
    code = [re.sub(r"'[^']*'|\"[^\"]*\"", "''", line) for line in lines]  # ignore quoted text such as messages
    is_shell = [bool(shell.search(text)) and text[:1] != "#" for text in code]
    return [n for n, line in enumerate(lines, 1) if data.search(line) or is_shell[n - 1]]


def _assignment_rows(path: str, lines: Sequence[str], name: str) -> list[str]:
    """Return the Python lines that set or build the value, but not those that only print it."""
    pattern = re.compile(rf"(^\s*|[(,]\s*){name}=|\b{name}={{|[\"']{name}[\"'](\s*:|\]\s*=(?!=))")
    rows = enumerate(map(str.strip, lines), 1)
    return [f"jobc:{path}:{n}  {line}" for n, line in rows if pattern.search(line) and line[:1] != "#"]


def _line_origins(job: ExplainedJob, path: str, number: int) -> Iterator[str]:
    was, is_same = match_lines_to_compiled(job.written.get(path, ()), job.files[path])[number - 1]
    if not is_same:
        yield "           edited: this line was changed after the compile"
    if was is None:
        return
    keys, template = job.source_map.files[path][was - 1]
    yield f"  from     {template}"
    yield from plan_key_lines(job, [key for key in keys if not key.startswith(("spec.", "options."))])
    for key in job.source_map.spec_keys(keys):
        yield from explain_spec_key(job.source_map, key)
