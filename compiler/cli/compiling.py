"""Commands that compose: compile (with -m, --cfg and --info) and check."""

import gc
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...runtime.system.untrusted_files import Unreadable
from ..diagnostics.diagnostic import CompileError, Diagnostic, Severity, has_errors, nearest
from ..emit.artifact import PROGRAM
from ..frontend.compose import compose_hydra_config, hydra_session
from ..frontend.observed_files import FILE, ask_file_system, read_text
from ..frontend.overrides import parse_overrides
from ..pipeline.compile import compile_job, config_search_path, write_compiled_job
from ..pipeline.sweeps import compile_sweep, group_points_into_folders
from ..pipeline.types import CompiledJob, CompileRequest, SweepFolder
from ..rules.plan.double_spawn import launchers_in_script
from ..spec.job_spec import open_keys
from .arguments import Arguments
from .ignored_entries import check_ignored_entries, code_folder
from .reporting import DIAGNOSTICS, OK, progress_printer, report_diagnostics
from .skip_unchanged import record_written_files
from .terminal import print_lines, print_text

MOST_OF_SCRIPT = 64 << 10  # bytes; longer scripts are not searched for launchers


def build_request(arguments: Arguments) -> CompileRequest:
    """Return the compile request. Raises CompileError JC1108 (bad --config-dir) or JC1101 (words are not UTF-8)."""
    if arguments.config_dir is not None and not ask_file_system("folder", arguments.config_dir):
        because = "the path is not a directory" if arguments.config_dir.exists() else "no such folder"
        title, hint = f"--config-dir {arguments.config_dir}", "give a folder of YAML files"
        raise CompileError([Diagnostic("JC1108", title, because, hint)])
    for word in arguments.rest or ():
        try:
            word.encode()
        except UnicodeEncodeError:
            title = f"cannot read the argument {word!r} after --"
            because = "artifact files are UTF-8, and these bytes are not valid UTF-8"
            hint = "use UTF-8, or pass the name of a file that contains the text"
            raise CompileError([Diagnostic("JC1101", title, because, hint)]) from None
    return CompileRequest(
        arguments.words, arguments.rest, arguments.config_dirs, arguments.config_name, arguments.strict
    )


def compile_command(arguments: Arguments) -> int:
    requested = build_request(arguments)
    if arguments.cfg or arguments.info:
        return _show_config(arguments, requested)
    gc.disable()  # a compile creates almost no reference cycles, but searching for them takes a tenth of the time
    compiled = compile_sweep(requested, progress_printer()) if arguments.multirun else [compile_job(requested)]
    _reject_collisions(compiled)
    folders, of_sweep = group_points_into_folders(compiled)
    diagnostics = [*_collect_diagnostics(compiled, arguments.out), *of_sweep]
    if not arguments.prints_machine_format:  # print text now, because the write may fail; JSON is printed only once
        report_diagnostics(diagnostics)
    written = [(folder, write_compiled_job(folder, arguments.out, arguments.force)) for folder in folders]
    for folder, target in written:
        record_written_files(folder.artifacts, target)
    if arguments.prints_machine_format:
        report_diagnostics(diagnostics, arguments)
    else:  # print this last, because the reader of a pipe may exit early
        print_lines(*(_describe_folder(folder, target) for folder, target in written))
    return OK


def _describe_folder(folder: CompiledJob | SweepFolder, target: Path) -> str:
    points = f"{folder.points} points in " if isinstance(folder, SweepFolder) else ""
    submit = f"{display_path(target / PROGRAM)} submit"
    return f"{display_path(target)}  {points}{len(folder.artifacts)} files, start with {submit}"


def _collect_diagnostics(compiled: list[CompiledJob], out: Path) -> list[Diagnostic]:
    checks = (check_output_folder, missing_inputs, check_script)
    found = [d for job in compiled for d in (*job.diagnostics, *(d for check in checks for d in check(job, out)))]
    return [*found, *check_ignored_entries(compiled, out)]


def check_command(arguments: Arguments) -> int:
    requested = build_request(arguments)
    try:
        compiled = compile_sweep(requested, progress_printer()) if arguments.multirun else [compile_job(requested)]
        _reject_collisions(compiled)
        diagnostics = _collect_diagnostics(compiled, arguments.out)
        diagnostics += [d for job in compiled for d in missing_in_project(job, arguments.out)]
        diagnostics += [*group_points_into_folders(compiled)[1], *_size_findings(compiled)]
    except CompileError as error:
        diagnostics = list(error.diagnostics)
    report_diagnostics(diagnostics, arguments)
    if not has_errors(diagnostics) and not arguments.prints_machine_format:
        print_lines("no errors")
    return DIAGNOSTICS if has_errors(diagnostics) else OK


def _size_findings(compiled: Sequence[CompiledJob]) -> list[Diagnostic]:
    """Return the findings JC2120 to JC2130. They need estimates, so a compile does not report them."""
    from .plan import estimate_points

    return estimate_points(compiled)[1]


def check_output_folder(compiled: CompiledJob, out: Path) -> list[Diagnostic]:
    """Return JC5008, a note about the run folders, if the output folder is not in the current directory.

    Raises CompileError if a default refers to a file in the current directory. A value that the user set may do so.
    """
    out, current = Path(ask_file_system("real path", out)), Path.cwd()
    project = out.parent
    if project == current:
        return []
    kinds = {"code.root": compiled.plan.code.kind, "python.path": compiled.spec.python.kind}
    needed = [key for key, kind in kinds.items() if kind in ("snapshot", "shared", "venv", "uv")]
    values = compiled.source_map.spec
    ours = [key for key in needed if values[key].is_set_only_by_jobc]
    because = f"relative paths are resolved from the parent of {out.name}/, which is not the current directory"
    back = os.path.relpath(current, project)

    def note_about_folder(keys: list[str], title: str, severity: Severity) -> Diagnostic:
        from_there = {key: os.path.normpath(os.path.join(back, values[key].value)) for key in keys}
        hint = shlex.join(f"{key}={path}" for key, path in from_there.items())
        return Diagnostic("JC5008", title, because, f"{hint}, or omit --out", key=keys[0], severity=severity)

    if ours:
        raise CompileError([note_about_folder(ours, f"{' and '.join(ours)} would be in {project}", Severity.ERROR)])
    if values["storage.root"].is_set_only_by_jobc:
        title = f"runs go to {project / values['storage.root'].value}"
        return [note_about_folder(["storage.root"], title, Severity.NOTE)]
    return []


def missing_inputs(compiled: CompiledJob, out: Path) -> list[Diagnostic]:
    """Return JC5010 for missing files that jobctl submit sends. This is a warning, because you may submit elsewhere."""
    plan, backend, values = compiled.plan, compiled.backend, compiled.source_map.spec
    sent = dict(backend.sends(plan, compiled.options))
    if plan.code.kind in ("snapshot", "rsync"):
        sent["code.root"] = code_folder(plan, out)
    diagnostics = []
    for key, path in sent.items():
        if not ask_file_system("exists", Path(path).expanduser()):
            because = "jobctl submit copies this path from the machine where you run it, and fails if it is missing"
            origin = values[key].origin if key in values else None
            hint = f"set {key} to an existing path, or submit from the machine that has this path"
            title = f"{path} does not exist on this machine"
            diagnostics.append(Diagnostic("JC5010", title, because, hint, origin, key, Severity.WARNING))
    return diagnostics


def check_script(compiled: CompiledJob, out: Path) -> list[Diagnostic]:
    """Return JC3001 as a warning if the command runs a shell script of the project that starts ranks itself."""
    spec, plan = compiled.spec, compiled.plan
    path = os.path.join(code_folder(plan, out), plan.code.script)
    if not plan.code.script or plan.code.script.endswith(".py") or ask_file_system("kind", path) != FILE:
        return []
    try:
        text = read_text(path, MOST_OF_SCRIPT)
    except Unreadable:
        return []
    found = launchers_in_script(spec, plan, plan.code.script, text)
    return [replace(diagnostic, origin=compiled.origin_of("command")) for diagnostic in found]


def missing_in_project(compiled: CompiledJob, out: Path) -> list[Diagnostic]:
    """Return JC5014 for a script or a Python environment without which jobctl submit starts nothing.

    Only jobc check reports it, because a job may be compiled before its script is written.
    """
    plan, python = compiled.plan, compiled.spec.python
    project = Path(os.path.realpath(out)).parent
    missing = []
    root = project / Path(plan.code.root).expanduser()
    is_local_code = plan.code.kind in ("snapshot", "rsync") or compiled.backend.runs_here
    if plan.code.script and is_local_code and root.is_dir() and not (root / plan.code.script).exists():
        close = _similar_scripts(plan.code.script, root)
        hint = f"did you mean {close[0]}?" if close else "check the command; code.root=FOLDER selects another folder"
        because = "jobctl submit takes the code from this folder, and would fail"
        missing.append(("command", f"no script {plan.code.script} in {root}", because, hint))
    environment = Path(python.path or "", ".venv" if python.kind == "uv" else "")
    activate = project / environment.expanduser() / "bin/activate"
    is_used = python.kind in ("venv", "uv") and compiled.spec.container.kind == "none"
    if is_used and compiled.backend.runs_here and not activate.exists():
        because = f"python={python.kind} activates the environment on this machine before the ranks start"
        create = "uv sync" if python.kind == "uv" else f"python3 -m venv {shlex.quote(str(environment))}"
        hint = f"create it with `{create}`, or set python.path to an existing environment"
        missing.append(("python.path", f"no Python environment in {activate.parent.parent}", because, hint))
    return [Diagnostic("JC5014", title, why, hint, compiled.origin_of(key), key) for key, title, why, hint in missing]


def _similar_scripts(script: str, root: Path) -> list[str]:
    """Return scripts with a similar name in the code folder or its direct subfolders."""
    suffix = Path(script).suffix
    files = [file.relative_to(root) for pattern in ("*", "*/*") for file in root.glob(f"{pattern}{suffix}")]
    names = {".".join(file.with_suffix("").parts): str(file) for file in files[:1000] if suffix}
    return [names[name] for name in nearest(".".join(Path(script).with_suffix("").parts), names)]


def display_path(path: Path) -> str:
    """Return a path as a user would type it in the current directory."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _reject_collisions(compiled: list[CompiledJob]) -> None:
    jobs_by_folder: dict[str, CompiledJob] = {}
    for job in compiled:
        existing = jobs_by_folder.setdefault(job.place, job)
        if existing is job:
            continue
        because, hint = "the sweep lists a value twice, so two points are the same job", "list each value only once"
        if (job.spec, job.options) != (existing.spec, existing.options):
            because = "the points differ only after 60 characters, or in characters that a folder name cannot contain"
            hint = "compile the points without -m, each with its own name=…"
        raise CompileError([Diagnostic("JC5005", f"two artifacts would be written to {job.place}", because, hint)])


def _show_config(arguments: Arguments, wanted: CompileRequest) -> int:
    """Print --cfg or --info as Hydra's own applications do (hydra-core 1.3)."""
    from omegaconf import OmegaConf, open_dict

    overrides = parse_overrides(wanted.words, open_keys(wanted.words))
    with hydra_session(config_search_path(wanted)) as loader:
        config, applied = compose_hydra_config(loader, wanted.config_name, overrides)
        if arguments.info:
            print_text(_hydra_info(arguments.info, wanted.config_name, [o.canonical for o in applied], config))
            return OK
        if arguments.cfg == "job":
            with open_dict(config):
                del config["hydra"]
        elif arguments.cfg == "hydra":
            config = OmegaConf.create({"hydra": config["hydra"]})
        if arguments.package:
            config = OmegaConf.select(config, arguments.package)
            if not OmegaConf.is_config(config):
                because, hint = "the composed config does not have this section", "-p optim, or omit -p"
                raise CompileError([Diagnostic("JC1102", f"unknown section {arguments.package}", because, hint)])
        print_text(_format_yaml(OmegaConf.to_container(config, resolve=False)))
    return OK


_INFO_PARTS = {
    "all": ("plugins", "searchpath", "defaults-tree", "defaults"),
    "config": ("searchpath", "defaults-tree", "defaults"),
}


def _hydra_info(info: str, config_name: str, overrides: list[str], config: Any) -> str:
    """Return what Hydra logs to stdout. Hydra cannot print the config, because its values are TextWithOrigin."""
    from contextlib import redirect_stdout
    from io import StringIO

    from hydra.core.global_hydra import GlobalHydra
    from omegaconf import OmegaConf, open_dict

    hydra = GlobalHydra.instance().hydra
    assert hydra is not None
    with redirect_stdout(StringIO()) as printed:
        for part in _INFO_PARTS.get(info, (info,)):
            hydra.show_info(part, config_name=config_name, overrides=overrides)
    if info not in _INFO_PARTS:
        return printed.getvalue()
    with open_dict(config):
        del config["hydra"]
    return f"{printed.getvalue()}\nConfig\n******\n{_format_yaml(OmegaConf.to_container(config, resolve=False))}"


def _format_yaml(tree: object) -> str:
    """Return the tree as YAML, with strings from files unquoted, as the user wrote them."""
    import yaml

    from ..diagnostics.origin import TextWithOrigin, is_null

    class Dumper(yaml.SafeDumper):
        pass

    def represent_text(dumper: Any, value: TextWithOrigin) -> yaml.Node:
        tag = "null" if is_null(value) else "str"
        implicit = dumper.resolve(yaml.ScalarNode, str(value), (True, False))
        style = None if is_null(value) or implicit != "tag:yaml.org,2002:timestamp" else "'"
        if not value.isprintable():
            style = '"'  # the only style with escapes
        return yaml.ScalarNode(implicit if style is None else f"tag:yaml.org,2002:{tag}", str(value), style=style)

    Dumper.add_representer(TextWithOrigin, represent_text)
    Dumper.add_multi_representer(str, lambda d, v: d.represent_str(str(v)))
    Dumper.add_multi_representer(object, lambda d, v: d.represent_str(str(v)))
    return yaml.dump(tree, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=10**9)
