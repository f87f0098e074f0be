"""The pipeline, from a command line's words to artifacts. Used by the command line and the tests.

    words -> overrides -> compose -> convert -> check -> lower -> check backend -> emit -> (write)

Only compose and host_file read files. Nothing here reads the clock, the user, the environment or a cluster.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from .. import rules
from ..checks import accelerate as accelerate_checks
from ..checks import capabilities, site_policy, trainer_config
from ..checks.suppressions import SeverityFilter, find_allow_comments
from ..checks.unused_keys import check_unused_hosts, check_unused_keys, unused_keys_not_set_by_user
from ..diagnostics.diagnostic import CompileError, Diagnostic
from ..emit import artifact_dir
from ..emit.artifact import PROGRAM
from ..emit.line_trace import TextRefusedError
from ..emit.source_map import build_source_map
from ..frontend.compose import (
    ComposedConfig,
    ConfigFolder,
    OverridesRefused,
    compose_job,
    hydra_session,
    used_config_files,
)
from ..frontend.host_file import find_missing_slots
from ..frontend.overrides import Override, parse_overrides
from ..frontend.yaml_source import groups_in_defaults_list
from ..launchers.accelerate.config_files import launcher_keys
from ..plan.derive import procs_per_node
from ..plan.lower import lower
from ..plugins.backend import FileEmbeddingBackend
from ..plugins.registry import PACKAGE, check_defaults, find_plugins
from ..spec.job_spec import open_keys
from . import common_files
from .canonical_order import sort_overrides
from .jobctl_program import job_program_contents, pack_program, pack_program_for_nodes
from .plugin_calls import (
    backends_supporting,
    diagnose_plugin_errors,
    diagnose_unwritable_text,
    emit_files,
    make_render,
    plugin_error,
)
from .resolve import (
    TypedConfig,
    add_origins,
    diagnostic_origin_lookup,
    is_set_by_user,
    node_count_override,
    to_typed_config,
)
from .seal import input_digests, request_to_record, seal_artifact
from .types import CompiledJob, CompileRequest, PlannedJob, SweepFolder


def compile_job(request: CompileRequest) -> CompiledJob:
    """Compile one job. Raises CompileError with every diagnostic of the first stage that has errors."""
    with hydra_session(config_search_path(request)) as loader:
        compiled = compile_point(request, parse_overrides(request.words, open_keys(request.words)), loader)
    return add_notes_on_unused_suppressions([compiled])[0]


def add_notes_on_unused_suppressions(made: list[CompiledJob]) -> list[CompiledJob]:
    """Add a note to the first job for every unused `# jobc: allow` comment."""
    found = [diagnostic for compiled in made for diagnostic in compiled.diagnostics]
    idle = SeverityFilter(find_allow_comments(used_config_files(of_all=True))).find_unused_allowances(found)
    return [replace(made[0], diagnostics=(*made[0].diagnostics, *idle)), *made[1:]]


def write_compiled_job(compiled: CompiledJob | SweepFolder, out: Path, force: bool = False) -> Path:
    """Write the artifact directory below `out` and return its path. Raises the same errors as write_artifact_dir()."""
    target = out / compiled.place
    artifact_dir.write_artifact_dir(target, compiled.artifacts, force)
    return target


def config_search_path(request: CompileRequest) -> list[ConfigFolder]:
    """Return the config folders: the user's, then the plugins', then jobc's. Earlier ones win."""
    folders = [ConfigFolder(root, str(path)) for root, path in request.config_dirs]
    for backend_plugin in find_plugins().values():
        if backend_plugin.config_folder.is_dir():
            provider = (
                f"jobc:backends/{backend_plugin.name}/conf" if backend_plugin.root == "jobc" else backend_plugin.root
            )
            folders.append(ConfigFolder(provider, str(backend_plugin.config_folder)))
    return [*folders, ConfigFolder("jobc:conf", str(PACKAGE / "conf"))]


def plan_point(request: CompileRequest, overrides: Sequence[Override], loader: Any, last: bool = True) -> PlannedJob:
    check_defaults(o.canonical.partition("=")[2].strip("'") for o in overrides if o.key == "backend")
    try:
        composed = compose_job(loader, request.config_name, overrides)
    except CompileError as error:
        refused = [*error.diagnostics]
        if isinstance(error, OverridesRefused):
            refused += _find_type_errors(error.rest, request, {d.key.partition(".")[0] for d in refused})
        raise CompileError(_adapt_to_command(refused, request)) from None
    if "backend" not in composed.choices and request.config_name != "config":
        title, hint = f"{request.config_name}.yaml does not set a backend", "defaults: [config, _self_]"
        because = "--config-name replaces config.yaml, and this file does not include it"
        raise CompileError([Diagnostic("JC1105", title, because, hint)])
    levels = SeverityFilter(find_allow_comments(used_config_files()), request.strict)
    try:
        read = _to_typed(composed, request)
        if counted := node_count_override(read, overrides):
            composed = compose_job(loader, request.config_name, [*overrides, counted])
            read = _to_typed(composed, request)
    except CompileError as error:
        raise CompileError(levels.apply_severities(_adapt_to_command(error.diagnostics, request))) from None
    origin_of = diagnostic_origin_lookup(composed, request.command)
    spec, values, filled = capabilities.apply_backend_values(read.spec, read.backend, read.options, read.values)
    read = read._replace(values=dict(values))
    is_chosen = is_set_by_user(composed, values, "container.kind")
    deciders = {item.key: item.by for item in filled}
    if capabilities.is_pod_implied_by_image(spec, read.backend, is_chosen):
        deciders["container.kind"] = ("image",)
    spec, own_container = capabilities.replace_container_by_pod(spec, read.backend, is_chosen)
    spec, deciders["storage.run"] = capabilities.resolve_run_storage(spec, read.backend, read.options)
    checked, failure = rules.collect_findings(
        lambda: [*own_container, *(item.note for item in filled if item.note)],
        lambda: rules.check_rules("spec", spec),
        lambda: find_missing_slots(read.host_files, spec.nodes, procs_per_node(spec)),
        lambda: check_unused_hosts(read.values),
    )
    notes = levels.finish_stage(add_origins(checked, origin_of), last=False, failure=failure)
    plan, table, made_by = lower(spec)
    table = capabilities.add_deciding_keys(table, deciders)
    diagnostics, failure = rules.collect_findings(
        lambda: trainer_config.check(plan, partial(is_set_by_user, composed, read.values)),
        lambda: rules.check_rules("values", read.values),
        lambda: rules.check_rules("plan", spec, plan),
        lambda: site_policy.check(spec, plan),
    )
    notes = levels.finish_stage(add_origins(diagnostics, origin_of), notes, last, failure)
    idle = (
        frozenset[str]()
        if plan.uses_trainer
        else unused_keys_not_set_by_user(composed, table, read.values, launcher_keys(plan))
    )
    return PlannedJob(spec, plan, table, made_by, read, composed, tuple(notes), origin_of, levels, idle)


def _to_typed(composed: ComposedConfig, request: CompileRequest) -> TypedConfig:
    return to_typed_config(composed, request.command, dict(request.config_dirs), request.recorded)


def _adapt_to_command(diagnostics: Sequence[Diagnostic], request: CompileRequest) -> list[Diagnostic]:
    if request.command is None:
        return [*diagnostics]
    from ..frontend.unknown_key import for_own_program  # imported here, because most compiles have no error

    return [for_own_program(d) for d in diagnostics]


def _find_type_errors(composed: ComposedConfig, request: CompileRequest, refused: set[str]) -> list[Diagnostic]:
    """Return the type errors and unknown keys in the rest of the config, without missing keys, which the rejected
    overrides may set.

    refused: sections of the rejected overrides. A rejected choice of an option explains an unknown key.
    """
    try:
        _to_typed(composed, request)
    except CompileError as error:
        unknown = [d for d in error.diagnostics if d.code == "JC1201" and d.key.partition(".")[0] not in refused]
        return [d for d in error.diagnostics if d in unknown or d.code in ("JC1202", "JC1204")]
    return []


def compile_point(request: CompileRequest, overrides: Sequence[Override], loader: Any) -> CompiledJob:
    planned = plan_point(request, overrides, loader, last=False)
    spec, plan, table, composed = planned.spec, planned.plan, planned.table, planned.composed
    chosen, backend, _, options, values, host_files, keeps = planned.typed
    missing = capabilities.ignored_settings(plan, backend, table, values)
    required = site_policy.required_keys()  # ignored without a note, but listed in `jobctl help`
    chosen_values = {key: value for key, value in values.items() if key not in required}
    reported = capabilities.ignored_settings(plan, backend, table, chosen_values)
    core_diagnostics, failure = rules.collect_findings(
        lambda: check_unused_keys(composed, spec.command, table, values, launcher_keys(plan)) if spec.command else (),
        lambda: accelerate_checks.check(plan, plan.accelerate_extra, plan.deepspeed_extra, "accelerate"),
        lambda: accelerate_checks.check_gpu_ids(spec, plan.accelerate_extra, "accelerate"),
        lambda: accelerate_checks.check_gpu_ids(spec, getattr(options, "extra", {}), "backend"),  # backend accelerate
        lambda: capabilities.check_runtime_variable_scopes(plan, backend),
        lambda: capabilities.check_unsupported_settings(reported, backend, backends_supporting(backend)),
    )
    backend_diagnostics, failure_of_plugin = rules.collect_findings(lambda: backend.check(plan, options))
    if failure is None and failure_of_plugin is not None:
        failure = plugin_error(chosen, "check", failure_of_plugin)
    diagnostics = planned.levels.finish_stage(
        add_origins([*core_diagnostics, *backend_diagnostics], planned.origin_of), planned.diagnostics, failure=failure
    )
    render = make_render(chosen, plan, options, spec)
    try:
        files = emit_files(backend, chosen, plan, options, render)
    except TextRefusedError as error:
        keys = build_source_map((), table, values, planned.made_by, {})
        refused = list(diagnose_unwritable_text(error.refused, keys, backend.name))
        planned.levels.finish_stage(add_origins(refused, planned.origin_of), diagnostics)
        raise
    missing += capabilities.ignored_optional_settings(backend_diagnostics, plan, table, values)
    files += common_files.emit_common_files(plan, tuple(files), render, planned.unsaid)
    path = f"{plan.run.folder}/{backend.name}"
    ignored = {item.demand.key: item.typed for item in missing}
    settings = common_files.emit_job_json(render, plan, backend, ignored)
    contents = job_program_contents(plan, spec.point is not None)
    if isinstance(backend, FileEmbeddingBackend):
        with diagnose_plugin_errors(chosen, "carry"):
            files = list(backend.carry(files, settings, pack_program_for_nodes(contents, chosen.folder)))
        contents = contents._replace(nodes=False)
    artifacts = [*files, pack_program(contents, chosen.folder), settings]
    records = common_files.comparable_records(spec, plan, backend.name, options)
    version = chosen.version if chosen.root != "jobc" else None
    placed = groups_in_defaults_list()
    groups = {group: group in placed for group in composed.choices}
    words = sort_overrides(request.words, overrides, groups, keeps)
    inputs = {**input_digests(), **host_files.digests}
    sealed = seal_artifact(artifacts, path, records, inputs, request_to_record(request, words), version)
    with_lines = [file for file in sealed if file.path != PROGRAM]
    source_map = build_source_map(with_lines, table, values, planned.made_by, composed.chosen_options())
    fields = (spec, plan, backend, options, sealed, tuple(diagnostics), source_map, path)
    return CompiledJob(*fields, planned.origin_of, planned.levels, planned.unsaid)
