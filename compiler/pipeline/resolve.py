"""Convert the composed tree to typed values: the job's spec, its backend's options, and each value's position.

In:  the result of compose.py, the words after ` -- `, and the folders that may contain host files.
Out: a TypedConfig, or CompileError with all type errors in the spec, the options and the host files.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..checks.capabilities import supported_values
from ..checks.unused_keys import is_set_on_command_line
from ..diagnostics.diagnostic import CompileError, Diagnostic
from ..diagnostics.origin import AFTER_DASHES, COMMAND_LINE, Origin
from ..emit.source_map import SpecValue
from ..frontend.compose import ComposedConfig
from ..frontend.host_file import Folders, HostFiles, read_host_files
from ..frontend.overrides import Override, override_for_key
from ..frontend.quoted_text import mark_quoted_text
from ..frontend.yaml_source import groups_in_defaults_list
from ..plan.derive import usable_hosts
from ..plugins.backend import Backend
from ..plugins.registry import Plugin, find_plugin
from ..spec.convert import ConversionResult, convert_tree
from ..spec.job_spec import JobSpec
from .canonical_order import KeepsOrder, make_order_predicate, sort_mappings

Command = tuple[str, ...] | None
MOST_WORDS = 10_000  # maximum number of words in a command, as in a config file


class TypedConfig(NamedTuple):
    """The job's typed values.

    values: spec key -> value as typed, with its position.
    options: an instance of the backend's Options.
    keeps: returns whether key order matters at a path (canonical_order.py).
    """

    plugin: Plugin
    backend: Backend
    spec: JobSpec
    options: Any
    values: dict[str, SpecValue]
    host_files: HostFiles
    keeps: KeepsOrder


def to_typed_config(
    composed: ComposedConfig, command: Command, folders: Folders, recorded: bool = False
) -> TypedConfig:
    """Return the composed tree as typed values. Raises CompileError with the type errors of spec, options and hosts.

    command: the words after ` -- `, or None without ` -- `.
    folders: root name -> folder, for the user's config folders.
    recorded: whether the words on the command line come from an artifact (see CompileRequest).
    """
    chosen = find_plugin(composed.choices.get("backend", ""))
    backend = chosen.load()
    keeps = make_order_predicate(composed.tree, backend)
    tree = sort_mappings(mark_quoted_text(composed.tree, composed.overrides), keeps)
    options_tree = tree.pop("backend", None) or {}
    if command is not None:
        if len(command) > MOST_WORDS:
            title, because = f"too many words: {len(command):,}", f"a command can have at most {MOST_WORDS:,}"
            hint = "put the arguments into a file that the program reads"
            raise CompileError([Diagnostic("JC1116", title, because, hint, key="command")])
        tree["command"] = list(command)
        if twice := next((o for o in composed.overrides if o.key == "command"), None):
            because, hint = "the arguments after ` -- ` also set the command", f"remove {twice.typed}"
            title = "the command is set twice"
            raise CompileError([Diagnostic("JC2015", title, because, hint, twice.origin, "command")])

    origin_of = origin_lookup(composed, command)

    def is_on_command_line(key: str) -> bool:
        origin = origin_of(key)
        return (
            not recorded and origin is not None and origin.root == COMMAND_LINE and not composed.interpolation_of(key)
        )

    tree, host_files = read_host_files(tree, origin_of, is_on_command_line, folders)
    spec: ConversionResult[JobSpec] = convert_tree(tree, JobSpec, origin_of)
    options: ConversionResult[Any] = convert_tree(options_tree, backend.Options, origin_of, "backend")
    diagnostics = [_improve_misplaced(d, composed) for d in (*spec.diagnostics, *options.diagnostics)]
    diagnostics = [*host_files.diagnostics, *(d for d in diagnostics if d.key not in host_files.hosts)]
    if diagnostics or spec.value is None:
        raise CompileError(diagnostics)
    values = {
        key: SpecValue(shown, origin_of(key), host_files.typed.get(key, "") or composed.interpolation_of(key))
        for key, shown in {**spec.leaves, **options.leaves}.items()
    }
    values["backend"] = SpecValue(backend.name, composed.origin_of_choice("backend"))
    return TypedConfig(chosen, backend, spec.value, options.value, values, host_files, keeps)


def is_set_by_user(composed: ComposedConfig, values: Mapping[str, SpecValue], key: str) -> bool:
    """Return whether the user set the key, directly or through a group (`model=mlp` sets `model.kind`)."""
    chosen = key.endswith(".kind") and composed.origin_of_choice(key.removesuffix(".kind")) is not None
    return chosen or (key in values and not values[key].is_set_only_by_jobc)


def _improve_misplaced(diagnostic: Diagnostic, composed: ComposedConfig) -> Diagnostic:
    """Improve the diagnostic for a misplaced key: a key in a section that was removed together with its group, a key in
    a preset below its own group, or an option of another backend.
    """
    group = diagnostic.key
    in_preset = diagnostic.origin is not None and diagnostic.origin.path.startswith(("cluster/", "experiment/"))
    if diagnostic.code == "JC1203" and diagnostic.origin is None and (gone := _group_removing_override(composed)):
        return replace(diagnostic, hint=f"remove {gone.path}", origin=gone)
    if diagnostic.code == "JC1201" and group.startswith("backend.") and in_preset:
        because = f"the file sets this option for another backend, not for {composed.choices['backend']}"
        return replace(diagnostic, because=because, hint=f"remove the option with ~{group}")
    if diagnostic.code == "JC1202" and group in composed.choices and isinstance(option := composed.tree[group], str):
        hint = f"- override /{group}: {option}, under `defaults:`; or {group}={option} on the command line"
        return replace(diagnostic, hint=hint)
    if diagnostic.code != "JC1201" or group not in composed.choices:
        return diagnostic
    if not composed.tree[group]:
        title, because = f"{group}/{composed.choices[group]}.yaml is empty", "choosing this option changes nothing"
        hint = "add job keys to the file, below the line `# @package _global_`"
        return replace(diagnostic, title=title, because=because, hint=hint, origin=composed.origin_of_choice(group))
    because = f"{group}/{composed.choices[group]}.yaml sets keys under {group}, where nothing reads them"
    return replace(diagnostic, because=because, hint="make `# @package _global_` the first line of that file")


def _group_removing_override(composed: ComposedConfig) -> Origin | None:
    """Return the override, such as `~env`, that removed a group instead of the section with the same name."""
    gone = (o.origin for o in composed.overrides if o.operator == "~" and o.key in groups_in_defaults_list())
    return next((origin for origin in gone if origin.path.lstrip("~") in composed.tree), None)


def origin_lookup(composed: ComposedConfig, command: Command) -> Callable[[str], Origin | None]:
    """Return a function that returns the position of a key. Words after ` -- ` override every config file."""

    def find_origin(key: str) -> Origin | None:
        if command is not None and (key == "command" or key.startswith("command.")):
            return Origin(COMMAND_LINE, AFTER_DASHES)
        return composed.origin_of(key)

    return find_origin


def diagnostic_origin_lookup(composed: ComposedConfig, command: Command) -> Callable[[str], Origin | None]:
    """Return origin_lookup(), except that a kind from one of jobc's files has the position of the override that chose
    the file: `container=docker`.
    """
    find_origin = origin_lookup(composed, command)

    def find_position(key: str) -> Origin | None:
        origin = find_origin(key)
        is_ours = key.endswith(".kind") and origin is not None and origin.root == "jobc"
        return (composed.origin_of_choice(key.removesuffix(".kind")) if is_ours else None) or origin

    return find_position


def add_origins(diagnostics: Sequence[Diagnostic], origin_of: Callable[[str], Origin | None]) -> list[Diagnostic]:
    """Add to each diagnostic the position of the value that it is about."""
    return [d if d.origin or not d.key else replace(d, origin=_diagnostic_origin(d, origin_of)) for d in diagnostics]


def _diagnostic_origin(diagnostic: Diagnostic, origin_of: Callable[[str], Origin | None]) -> Origin | None:
    origin = origin_of(diagnostic.key)
    if diagnostic.private and origin is not None and origin.root == COMMAND_LINE:
        return replace(origin, path=f"{diagnostic.key}=…")
    return origin


def node_count_override(typed: TypedConfig, overrides: Iterable[Override]) -> Override | None:
    """Return `nodes=N` for the N usable hosts on the command line, or None if the number of nodes does not change.

    The job is composed again with this override, so that every `${nodes}` is updated. Hosts are not counted for
    backends that ignore `hosts`, such as local. The override has the position of `hosts`.
    """
    if not is_set_on_command_line(typed.values, "hosts") or is_set_on_command_line(typed.values, "nodes"):
        return None
    count = len(usable_hosts(typed.spec, typed.spec.hosts or ()))
    if count in (0, typed.spec.nodes) or not supported_values(typed.backend, "resources.hosts"):
        return None
    hosts = next(override.typed for override in overrides if override.key == "hosts" and override.operator != "~")
    return replace(override_for_key("nodes", str(count)), typed=hosts)
