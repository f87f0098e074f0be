"""Compare what a plan requests with what a backend honours, so that nothing is ignored silently.

If the backend does not honour a required setting (a must), the result is an error that lists alternatives. For an
optional setting (a wish), it is a note. This file also checks the scopes of runtime variables.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, get_args, get_origin

from ...runtime.system.frozen_dataclass import dataclass
from ..diagnostics.diagnostic import Diagnostic, Severity
from ..emit.source_map import SpecValue
from ..plan.launch_plan import BackendRequirement, LaunchPlan, backend_requirements
from ..plan.lower import KeyTable
from ..plan.read_tracking import track_reads
from ..plan.runtime_vars import RuntimeVar, Scope, find_runtime_vars
from ..plugins.backend import ANY, Backend, Filled
from ..spec.job_spec import JobSpec
from ..spec.type_hints import accepted_words, type_of_key


def replace_container_by_pod(spec: JobSpec, backend: Backend, is_chosen: bool) -> tuple[JobSpec, list[Diagnostic]]:
    """Return the spec with container=pod if the backend runs images itself. If this replaces a runtime, also return the
    note JC4517.

    A job that uses `container=apptainer` on machines, or only sets an image, therefore runs the same image in pods. The
    runtime's options (container.options) are kept, so that check_unsupported_settings rejects them.
    is_chosen: whether the job sets `container` itself, even to `none`.
    """
    named = spec.container.kind
    is_open = is_pod_implied_by_image(spec, backend, is_chosen)
    if named == "pod" or not supports_only_pods(backend) or (named == "none" and not (is_open and spec.image)):
        return spec, []
    title, because = f"the image runs in a pod, not in {named}", f"backend {backend.name} runs the image itself"
    note = Diagnostic("JC4517", title, because, "container=pod", key="container.kind", severity=Severity.NOTE)
    in_pod = dataclasses.replace(spec, container=dataclasses.replace(spec.container, kind="pod"))
    return in_pod, [] if is_open else [note]


def supports_only_pods(backend: Backend) -> bool:
    """Return whether the engine runs the image itself and supports no other kind of container."""
    return backend.honours.get("container.kind") == ("pod",)


def is_pod_implied_by_image(spec: JobSpec, backend: Backend, is_chosen: bool) -> bool:
    """Return whether the job runs in a pod only because `image` is set. is_chosen: as in replace_container_by_pod()"""
    return supports_only_pods(backend) and spec.container.kind == "none" and not is_chosen


def apply_backend_values(
    spec: JobSpec, backend: Backend, options: Any, values: Mapping[str, SpecValue]
) -> tuple[JobSpec, Mapping[str, SpecValue], list[Filled]]:
    """Apply the values that a backend sets. Return the new spec, its leaves, and the values that were set."""
    filled = [*backend.filled(spec, options, values)]
    for item in filled:
        spec = dataclasses.replace(spec, **{item.key: item.value})
        origin = next((values[key].origin for key in item.by if key in values), None)
        values = {**values, item.key: SpecValue(str(item.value), origin)}
    return spec, values, filled


def add_deciding_keys(table: KeyTable, deciders: Mapping[str, tuple[str, ...]]) -> KeyTable:
    """Return the table with the keys added that decided the value of a spec key. deciders: spec key -> those keys"""
    extended = {}
    for key, by in {**table, **{f"spec.{key}": (key,) for key in deciders}}.items():
        extended[key] = tuple(dict.fromkeys([*by, *(other for one in by for other in deciders.get(one, ()))]))
    return MappingProxyType(extended)


def resolve_run_storage(spec: JobSpec, backend: Backend, options: Any) -> tuple[JobSpec, tuple[str, ...]]:
    """Return the spec with storage.run=auto replaced by `shared` or `node`, and the keys that decided it."""
    if spec.storage.run != "auto":
        return spec, ()
    keys: list[str] = []
    shares = backend.shares_runs(track_reads(spec, "", keys.append), options)
    storage = dataclasses.replace(spec.storage, run="shared" if shares else "node")
    return dataclasses.replace(spec, storage=storage), tuple(dict.fromkeys(keys))


def supported_values(backend: Backend, key: str) -> tuple[str, ...]:
    """Return the values that the backend supports for a plan key, or for its section. ANY means all, () none."""
    return backend.honours.get(key) or backend.honours.get(f"{key.split('.')[0]}.*", ())


def unsupported_values(backend: Backend, demand: BackendRequirement) -> tuple[Any, ...]:
    supported = supported_values(backend, demand.key)
    values = demand.value if isinstance(demand.value, tuple) else (demand.value,)
    return () if supported == ANY else tuple(value for value in values if value not in supported)


@dataclass(frozen=True)
class IgnoredSetting:
    """A setting that a backend does not honour.

    key: the spec key that it comes from.
    typed: the setting as `key=value`.
    leaves: the spec leaves that set it.
    """

    demand: BackendRequirement
    key: str
    typed: str
    leaves: tuple[str, ...] = ()


def ignored_settings(
    plan: LaunchPlan, backend: Backend, table: KeyTable, values: Mapping[str, SpecValue]
) -> list[IgnoredSetting]:
    """Return the settings that the backend does not honour: all required ones, and the optional ones that the job or
    its experiment sets.

    table: plan key -> spec keys.
    values: the spec's leaves.
    """
    ignored = []
    for demand in backend_requirements(plan):
        wrong, keys = unsupported_values(backend, demand), table.get(demand.key, ())
        if not wrong:
            continue
        below = {k: value for spec_key in keys for k, value in values.items() if is_in_section(k, spec_key)}
        for key in _keys_with_value(wrong, keys, below):
            leaves = tuple(sorted(k for k in below if is_in_section(k, key)))
            if demand.must or any(below[leaf].is_set_by_job_or_experiment for leaf in leaves):
                ignored.append(
                    IgnoredSetting(demand, key, f"{_selecting_key(key)}={_format_value(key, below)}", leaves)
                )
    return ignored


def ignored_optional_settings(
    found: Iterable[Diagnostic], plan: LaunchPlan, table: KeyTable, values: Mapping[str, SpecValue]
) -> list[IgnoredSetting]:
    """Return the optional settings for which the backend's own check() yields a note that they are ignored."""
    noted = {note.key for note in found if note.severity is Severity.NOTE}
    requirements = [(demand, key) for demand in backend_requirements(plan) for key in table.get(demand.key, ())]
    return [
        IgnoredSetting(demand, key, f"{_selecting_key(key)}={_format_value(key, values)}")
        for demand, key in requirements
        if not demand.must and key in noted
    ]


def _keys_with_value(words: tuple[Any, ...], keys: tuple[str, ...], values: Mapping[str, SpecValue]) -> list[str]:
    """Return the spec keys that set one of these words, such as `code.kind`, or else the first key."""
    matching_keys = [key for key in keys if key in values and str(values[key].value).partition(":")[0] in words]
    return matching_keys or [*keys[:1]] or [""]


def check_unsupported_settings(
    missing: Iterable[IgnoredSetting], backend: Backend, able: Callable[[BackendRequirement], list[str]]
) -> Iterator[Diagnostic]:
    """Yield JC4101 for each required setting and JC4102 for each optional one.

    able: returns the names of other backends that honour a setting.
    """
    for item in missing:
        others, supported = able(item.demand), supported_values(backend, item.demand.key)
        if supported:
            because, undo = f"the backend supports {', '.join(supported)}", _selecting_override(item.key, supported[0])
        else:
            because = f"the backend does not support {item.demand.key}"
            undo = _removing_override(item.key, item.leaves)
        hint = f"backend={others[0]}, or {undo}" if others else undo
        if item.demand.must:
            title = f"backend {backend.name} does not support {item.typed}"
            because += "" if supported else ", and the job would be different without this setting"
            yield Diagnostic("JC4101", title, because, hint, key=item.key)
        else:
            title = f"backend {backend.name} ignores {item.typed}"
            because += "; the job computes the same results without this setting"
            yield Diagnostic("JC4102", title, because, hint, key=item.key, severity=Severity.NOTE)


def check_runtime_variable_scopes(plan: LaunchPlan, backend: Backend) -> Iterable[Diagnostic]:
    """Yield JC4005 for a runtime variable that the backend lacks, and JC4006 for one that is used too early."""
    for missing in sorted(v.name for v in RuntimeVar if v not in backend.spellings):
        title = f"backend {backend.name} does not define {missing}"
        yield Diagnostic("JC4005", title, "launch.sh needs this variable", "add the variable to `spellings`")
    slots = [("command", plan.command, Scope.RANK), *((f"env.{k}", w, Scope.RANK) for k, w in plan.env.items())]
    for slot, word, scope in [*slots, ("setup.python", plan.setup.python, Scope.NODE)]:
        for variable in sorted(find_runtime_vars(word), key=lambda v: v.name):
            spelling = backend.spellings.get(variable)
            if spelling and spelling.scope > scope:
                title = f"{variable.name} is used before it is known"
                because = f"{slot} is evaluated at {scope.name}; the value is unknown before {spelling.scope.name}"
                yield Diagnostic("JC4006", title, because, f"change {slot}")


def _removing_override(key: str, leaves: tuple[str, ...]) -> str:
    hint = type_of_key(JobSpec, key) if key else None
    if type(None) in get_args(hint):
        return f"{key}=null"
    for word in ("none", "false"):
        if word in accepted_words(hint):
            return f"{_selecting_key(key)}={word}"
    if get_origin(hint) is tuple:
        return f"{key}=[]"
    return f"{key}=0" if int in get_args(hint) else f"remove {', '.join(leaves) or key}"


def _selecting_override(key: str, word: str) -> str:
    """Return the override that selects a supported value: `python=venv`, `secrets.TOKEN=env:TOKEN`."""
    section, _, name = key.rpartition(".")
    if section == "secrets" and word == "k8s":
        return f"{key}=k8s:my-secret/{name}"
    return f"{key}={word}:{name}" if section == "secrets" else f"{_selecting_key(key)}={word}"


def _selecting_key(key: str) -> str:
    """Return the group that sets `SECTION.kind`, or else the key itself."""
    section, _, name = key.rpartition(".")
    return section if name == "kind" else key


def is_in_section(key: str, section: str) -> bool:
    return key == section or key.startswith(f"{section}.")


def _format_value(key: str, values: Mapping[str, SpecValue]) -> str:
    """Return a spec key's value as a user would type it. values: its leaves"""
    if key not in values:
        inner = (f"{name.removeprefix(f'{key}.')}: {value.value}" for name, value in values.items())
        return "{" + ", ".join(inner) + "}"
    value = values[key].value
    return f"[{','.join(value)}]" if isinstance(value, list) else str(value)
