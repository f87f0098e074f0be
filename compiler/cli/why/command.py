"""jobc why: explain where a line or a key comes from, and what a key affects.

jobc why FILE:LINE …                     a line of an artifact; FILE:FIRST-LAST explains several lines
jobc why DIR KEY …                       a spec key or plan key in DIR; NAME stands for env.NAME or secrets.NAME
jobc why [KEY=VALUE …] KEY … [-- …]      the same for a compile of these overrides; nothing is written
Pass the same `--config-dir FOLDER` with which DIR was compiled.
A written directory is recompiled in memory, from the command line in its job.json, and compared with its files.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ...diagnostics.diagnostic import CompileError, Diagnostic, nearest
from ...emit.artifact_dir import read_text_with_line_endings
from ...emit.job_json import JOB
from ..arguments import Arguments, is_override
from ..explain_and_backends import pop_option, unknown_option_error, usage_error
from ..find_artifacts import no_artifact_error
from ..reporting import OK
from ..terminal import print_lines
from .job import ExplainedJob, job_from_artifact, job_from_overrides, plan_keys_of_line, split_into_lines
from .line import artifact_containing, explain_line, explain_spec_key, format_columns, plan_key_lines

EXAMPLE = "artifacts/hello/local/launch.sh:12"


def why_command(arguments: Arguments) -> int:
    words = list(arguments.words)
    if folder := pop_option(words, "--config-dir"):
        arguments = replace(arguments, config_dir=Path(folder))
    places = [word for word in words if re.search(r":\d{1,9}(-\d{1,9})?$", word) and not is_override(word)]
    remaining = [word for word in words if word not in places]
    _reject_options(words)
    if not words or (not places and not any(_is_name(word) for word in remaining)):
        example = _example_place(Path(remaining[0])) if remaining and _is_path(remaining[0]) else EXAMPLE
        raise usage_error("why", "FILE:LINE, or DIR and a key", f"jobc why {example}")
    jobs: dict[Path, ExplainedJob] = {}
    for location in places:
        for line in _expand_line_range(location):
            print_lines(*_explain_place(line, jobs, arguments))
    if remaining:
        _print_explanations(_load_job(remaining, arguments), list(filter(_is_name, remaining)))
    return OK


def _explain_place(place: str, jobs: dict[Path, ExplainedJob], arguments: Arguments) -> list[str]:
    """Return the output lines for FILE:LINE. jobs: cache of recompiled directories, to which this function adds"""
    name, _, number = place.rpartition(":")
    directory = artifact_containing(Path(name))
    if directory not in jobs:
        jobs[directory] = job_from_artifact(directory, arguments)
    path = Path(name).absolute().relative_to(directory).as_posix()
    job = jobs[directory]
    if path not in job.files:
        job = replace(job, files={**job.files, path: split_into_lines(read_text_with_line_endings(Path(name)))})
    return list(explain_line(job, path, place, int(number)))


def _print_explanations(job: ExplainedJob, names: Sequence[str]) -> None:
    """Print everything that is known about the names, then raise CompileError for unknown names."""
    refused: list[Diagnostic] = []
    for name in names:
        try:
            print_lines(*explain_name(job, name))
        except CompileError as error:
            refused += error.diagnostics
    if refused:
        raise CompileError(refused)


def _expand_line_range(place: str) -> Iterator[str]:
    """Return FILE:8, FILE:9 and FILE:10 for FILE:8-10."""
    name, _, numbers = place.rpartition(":")
    first, _, last = numbers.partition("-")
    if last and int(last) < int(first):
        raise usage_error("why", "the first line must come before the last", f"jobc why {name}:{last}-{first}")
    return (f"{name}:{number}" for number in range(int(first), int(last or first) + 1))


def _reject_options(words: Sequence[str]) -> None:
    """Raise CompileError JC1110 for an option other than --config-dir."""
    option = next((word for word in words if word.startswith("-") and word != "--"), None)
    if option in ("-m", "--multirun"):
        of_one = [re.sub(r"^([\w.+]+=[^,\[{(\"']+),.*", r"\1", word) for word in words if word != option]
        because = f"{option} compiles several jobs, and a line can have a different source in each"
        hint = shlex.join(["jobc", "why", *of_one])
        raise CompileError([Diagnostic("JC1110", "jobc why explains one job", because, hint)])
    if option is not None:
        raise unknown_option_error("why", option, "the only option of jobc why is --config-dir FOLDER")


def _is_path(word: str) -> bool:
    return "/" in word or Path(word).exists() or word.endswith((".sh", ".yaml", ".json", ".sbatch", ".txt", ".md"))


def _is_name(word: str) -> bool:
    return not is_override(word) and not _is_path(word)


def _load_job(words: Sequence[str], arguments: Arguments) -> ExplainedJob:
    """Return the job in the artifact directory that the words name, or else the job that the overrides compile to."""
    folders = [Path(word) for word in words if _is_path(word) and not is_override(word)]
    if not folders:
        return job_from_overrides(tuple(word for word in words if not _is_name(word)), arguments)
    if len(folders) > 1 or any(map(is_override, words)):
        because, hint = f"{folders[0]} already selects the job", f"jobc why {folders[0]} loop.steps"
        raise CompileError([Diagnostic("JC1110", "jobc why explains one job", because, hint)])
    if not (folders[0] / JOB).is_file():
        raise no_artifact_error(folders[0], "jobc why")
    return job_from_artifact(folders[0], arguments, f"{folders[0]}/")


def explain_name(job: ExplainedJob, name: str) -> Iterator[str]:
    """Yield the explanation of a key. Raises CompileError JC5030 for an unknown name."""
    variables = (f"env.{name}", f"secrets.{name}")
    name = next((key for key in variables if key in job.source_map.spec), name)

    def is_named(key: str) -> bool:
        return f"{key}.".startswith(f"{name}.")

    plan_keys = [key for key in job.source_map.table if is_named(key)]
    plan_keys = plan_keys or [key for key in job.plan if key == name]
    spec_keys = [key for key in job.source_map.spec if is_named(key)]
    if spec_keys:
        yield name
        for key in spec_keys:
            yield from explain_spec_key(job.source_map, key)
            yield from plan_key_lines(job, [plan for plan, specs in job.source_map.table.items() if key in specs])
        yield from _dependent_lines(job, spec_keys)
    elif plan_keys:
        yield name
        yield from plan_key_lines(job, plan_keys)
        spec_keys = list(job.source_map.spec_keys(plan_keys_of_line(tuple(plan_keys), f"data at {name}")))
        for key in spec_keys:
            yield from explain_spec_key(job.source_map, key)
        # the plan keys that are not in the table exist only in the record
        yield from _dependent_lines(job, spec_keys, [key for key in plan_keys if key in job.source_map.table])
    else:
        all_keys = [*job.source_map.spec, *job.source_map.table, *job.plan]
        close = nearest(name, all_keys)
        hint = f"did you mean {close[0]}?" if close else "see docs/keys.md, and docs/environment.md for variables"
        because = "this job has no such key in its spec or plan"
        raise CompileError([Diagnostic("JC5030", f"unknown name {name}", because, hint)])


def _dependent_lines(job: ExplainedJob, spec_keys: Sequence[str], plan_keys: Sequence[str] = ()) -> Iterator[str]:
    """Yield every line that depends on one of the plan keys if there are any, or else on one of the spec keys."""
    if plan_keys:
        rows = [
            job.format_written_line(path, number)
            for path, all_keys in sorted(job.source_map.files.items())
            for number, (keys, template) in enumerate(all_keys, 1)
            if set(plan_keys_of_line(keys, template)) & set(plan_keys)
        ]
    else:
        rows = [row for key in spec_keys for row in job.lines_by_key.get(key, ())]
    yield from format_columns("lines", dict.fromkeys(rows))
    chosen = {path: set(job.source_map.spec_keys(keys)) for path, keys in job.source_map.chosen.items()}
    files = [f"{job.folder}{path}" for path, keys in chosen.items() if keys & set(spec_keys)]
    yield from format_columns("files", files)
    if not rows and not files:
        yield "  lines    none: no file of this job depends on this name"


def _example_place(path: Path) -> str:
    """Return a FILE:LINE in the existing file or artifact directory, else the example from the README."""
    if path.is_file():
        return f"{path}:1"
    return f"{path}/launch.sh:1" if (path / JOB).is_file() else EXAMPLE
