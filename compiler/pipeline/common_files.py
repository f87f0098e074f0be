"""The files that every backend has: launch.sh, spec.yaml, .jobc/job.json, and train.json for the bundled trainer. They
are added to the engine's files, which the backend's emit() returns. train.json and launch.sh are identical for all
backends.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any

from ...runtime.run_folder.submitted_values import PATH_VARIABLES
from ...trainer.config import train_json
from ..emit import job_json
from ..emit.artifact import Artifact
from ..emit.render import Given, Omit, Render, TracedValue, of
from ..launchers.accelerate.config_files import config_files
from ..plan import flat_lines
from ..plan.launch_plan import LaunchPlan, to_mutable_tree
from ..plugins.backend import Backend
from ..spec.job_spec import JobSpec
from ..spec.type_hints import hint_value_type, type_of_key

JOB = job_json.JOB


def emit_common_files(
    plan: LaunchPlan, emitted: Sequence[Artifact], render: Render, unsaid: Set[str]
) -> Iterator[Artifact]:
    """Yield launch.sh and spec.yaml, and, if the job needs them, train.json and the launcher's files.

    emitted: the backend's files.
    render: has the views plan, spec and options.
    unsaid: unset keys that the user's own program does not read; spec.yaml leaves them out.
    """
    yield render.template("launch.sh.j2", "launch.sh", executable=True, path_variables=PATH_VARIABLES)
    if plan.uses_trainer:
        yield render.record_choice(
            render.json(_train_document(plan.train, "train"), "train.json"), of.plan.uses_trainer
        )
    yield from config_files(plan, render, [artifact.path for artifact in emitted])
    yield _spec_yaml(render, unsaid)


def _train_document(tree: Any, key: str) -> Any:
    """Return the tree with each value traced to its plan key, so that `jobc why` finds it."""
    if isinstance(tree, Mapping):
        return {name: _train_document(value, f"{key}.{name}") for name, value in tree.items()}
    return TracedValue(to_mutable_tree(tree), (key,))


# ---- spec.yaml ------------------------------------------------------------------------------------------------------

_SPEC_HEADER = (
    "The job as compiled, for people to read. Secrets are references; null means derived, or the site's default."
)


def _spec_yaml(render: Render, unsaid: Set[str]) -> Artifact:
    spec, options = render.views["spec"], render.views["options"]
    backend = {"name": render.views["backend_name"], **_spec_tree(options, "options", type(options))}
    document = {"backend": backend, **_without_keys(_spec_tree(spec, "spec", JobSpec), unsaid)}
    spec_yaml = render.yaml([document], "spec.yaml", {(0, "backend"): _SPEC_HEADER})
    return render.record_choice(spec_yaml, lambda v: v.plan.uses_trainer or (v.plan.launcher, v.plan.parallel))


def _spec_tree(value: Any, key: str, root: type) -> Any:
    """Return dataclasses and mappings as data whose leaves are traced to their keys. Each `${` in text is escaped.

    root: dataclass of the whole tree, which defines the units of its leaves.
    """
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return {name.rstrip("_"): _spec_tree(getattr(value, name), f"{key}.{name.rstrip('_')}", root) for name in names}
    if isinstance(value, Mapping) and value:  # an empty one is a leaf
        return {name: _spec_tree(inner, f"{key}.{name}", root) for name, inner in value.items()}
    if isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
        return [_spec_tree(item, f"{key}.{i}", root) for i, item in enumerate(value)]
    show = _unit_formatter(root, key.partition(".")[2]) if value is not None else None
    return TracedValue(show(value) if show else _escape_interpolations(value), (key,))


def _without_keys(tree: Mapping[str, Any], keys: Set[str], prefix: str = "") -> dict[str, Any]:
    """Return the tree without the leaves at these dotted keys, and without the sections that this empties.

    `jobc why` traces the line of a section that has lost leaves to each of its other leaves.
    """
    kept: dict[str, Any] = {}
    for name, value in tree.items():
        key = prefix + name
        if isinstance(value, Mapping):
            section = _without_keys(value, keys, f"{key}.")
            has_all = len(section) == len(value)
            value = section if has_all else {k: Given(_constant(leaf)) for k, leaf in section.items()}
        if key not in keys and value != {}:
            kept[name] = value
    return kept


def _constant(value: Any) -> Callable[[Any], Any]:
    return lambda _: value


@lru_cache(maxsize=10_000)
def _unit_formatter(root: type, key: str) -> Callable[[Any], str] | None:
    """Return the function that formats a key's value as text with its unit, or None for a key without a unit."""
    scalar = hint_value_type(type_of_key(root, key))
    return scalar.show if scalar is not None and scalar.units else None


def _escape_interpolations(value: Any) -> Any:
    if isinstance(value, str) and "${" in value:
        return re.sub(r"(\\*)\$\{", lambda m: m[1] * 2 + "\\${", value)
    if isinstance(value, (tuple, list)):
        return [_escape_interpolations(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _escape_interpolations(inner) for key, inner in value.items()}
    return value


# ---- .jobc/ -----------------------------------------------------------------------------------------------------


def emit_job_json(render: Render, plan: LaunchPlan, backend: Backend, ignored: Mapping[str, str]) -> Artifact:
    """Return job.json, which jobctl reads: the job's name, its run root, and the settings of its nodes and its engine.

    render: has the views plan and options.
    ignored: plan key -> `key=value` of each setting that the backend ignores.
    """
    settings = backend.engine_settings(plan, render.views["options"])
    code = of.plan.code
    job = {
        "schema": 1,
        "job": of.plan.run.folder,
        "backend": backend.name,
        "runs": of.plan.run.root,
        "nodes": of.plan.topology.nodes,
        "keep_runs": of.plan.run.keep,
        "storage": of.plan.run.storage,
        "grace_s": of.plan.lifecycle.grace_s,
        "sweep": False,
        "code": {"kind": code.kind, "root": code.root, "max_bytes": code.max_bytes, "script": code.script},
        "gpus": of.plan.topology.gpus,
        "gpu_type": _gpu_type,
        "head_port": of.plan.rendezvous.port,
        "time_limit_s": of.plan.lifecycle.time_limit_s,
        "ignored": lambda v: sorted(v.left_out.values()) if ignored else Omit,
        **settings,
        "node": _NODE,
        "prefetch": _download_entries,
        "container": _container_entry,
    }
    return dataclasses.replace(render, views={**render.views, "left_out": ignored}).json(job, JOB, expand_lists=True)


def _gpu_type(v: Any) -> str | None:
    gpu_type: str | None = v.plan.resources.gpu_type if v.plan.topology.gpus else None
    return gpu_type


_NODE: Mapping[str, Any] = {  # what programs on a node read: runtime/node/node_settings.py
    "name": of.plan.name,
    "run_folder": of.plan.run.folder,
    "nodes": of.plan.topology.nodes,
    "procs": of.plan.topology.procs,
    "gpus": of.plan.topology.gpus,
    "gpu_type": _gpu_type,
    "launcher": of.plan.launcher,
    "network": {"profile": of.plan.network.profile, "interface": of.plan.network.interface},
    "rendezvous": {
        "backend": of.plan.rendezvous.backend,
        "port": of.plan.rendezvous.port,
        "timeout_s": of.plan.rendezvous.timeout_s,
    },
    "max_restarts": of.plan.lifecycle.max_restarts,
    "max_requeues": of.plan.lifecycle.max_requeues,
    "threads": of.plan.threads_per_rank,
    "grace_s": of.plan.lifecycle.grace_s,
    "time_limit_s": of.plan.lifecycle.time_limit_s,
    "code": {
        "kind": of.plan.code.kind,
        "root": of.plan.code.root,
        "repository": of.plan.code.repository,
        "commit": of.plan.code.commit,
    },
    "python": of.plan.setup.python,
    "uses_trainer": of.plan.uses_trainer,
    "parallel": of.plan.parallel,
    "shm_bytes": of.plan.resources.shm_bytes,
    "secrets": lambda v: {name: _pick_fields(secret, "kind", "ref") for name, secret in v.plan.secrets.items()},
    "env_aws": lambda v: {name: v.plan.env[name] for name in v.plan.env if name.startswith("AWS_")},
    "data": of.plan.run.data,
    "caches": {"downloads": of.plan.caches.downloads, "compiled": of.plan.caches.compiled},
    "storage": of.plan.run.storage,
    "store": lambda v: _STORE if v.plan.run.storage == "object" else None,
}
_STORE: Mapping[str, Any] = {
    "JOBC_STORE": of.plan.run.root,
    "JOBC_STORE_ENDPOINT": of.plan.run.endpoint,
    "JOBC_STORE_REGION": of.plan.run.region,
}


def _download_entries(v: Any) -> Any:
    return [_pick_fields(download, "kind", "what", "revision") for download in v.plan.caches.prefetch] or Omit


def _container_entry(v: Any) -> Any:
    """Return how a node enters its container, or Omit if the job has no container."""
    if v.plan.container.kind == "none":
        return Omit
    container = of.plan.container
    return {"kind": container.kind, "image": container.image, "options": container.options, "mounts": _mount_entries}


def _mount_entries(v: Any) -> list[dict[str, Any]]:
    mounts = [_pick_fields(mount, "source", "target", "read_only") for mount in v.plan.mounts]
    data = v.plan.run.data
    if data is not None and data.startswith("/"):
        mounts.append({"source": data, "target": data, "read_only": False})
    return mounts


def _pick_fields(value: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def comparable_records(spec: JobSpec, plan: LaunchPlan, backend: str, options: Any) -> dict[str, list[str]]:
    """Return the records that a resume and `jobc diff` compare (identity, spec and plan) as `key = json` lines."""
    config = train_json.parse_train_config(to_mutable_tree(plan.train)) if plan.uses_trainer else None
    identity = train_json.identity_keys(config) if config else {}
    return {
        "identity": flat_lines.to_flat_lines(identity),
        "spec": flat_lines.to_flat_lines(dict(flat_lines.flatten_to_leaves(spec, "", _format_with_unit))),
        "plan": flat_lines.plan_lines(plan, backend, options),
    }


def _format_with_unit(key: str, value: Any) -> Any:
    show = _unit_formatter(JobSpec, key)
    return flat_lines.to_json_types(value) if value is None or show is None else show(value)
