"""The files that every backend has: node.sh, spec.yaml, README.md, and train.json for the bundled trainer.

A backend's emit() returns the engine's files and the verbs; these files complete them. train.json and node.sh are
identical for all backends.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...trainer.config import train_json
from ...trainer.config.identity import identity as identity_of
from ..checks.capabilities import IgnoredSetting
from ..emit.artifact import Artifact, LineRange
from ..emit.render import Render, of
from ..launchers.accelerate.files import engine_files
from ..plan import flat_text
from ..plan.derive import sourced_file
from ..plan.launch_plan import PATH_VARIABLES, LaunchPlan, thaw
from ..plan.plan_text import plan_text
from ..plan.read_tracking import WatchedFields
from ..plugins.backend import Backend, DescribedBackend, EngineBackend
from ..spec.job_spec import JobSpec
from ..spec.type_hints import type_at, value_type

JOB = ".jobc/job.json"
PLACE = ".jobc/place"  # NAME/BACKEND, so that scripts can detect that they were moved


def neutral_files(
    plan: LaunchPlan, backend: Backend, left_out: Iterable[IgnoredSetting], emitted: Sequence[Artifact], render: Render
) -> Iterator[Artifact]:
    """Yield node.sh, spec.yaml and README.md; setup.sh, prefetch.sh and train.json if the job needs them.

    emitted: the backend's files; render: has the views plan, spec and options
    """
    names = {"sourced_file": sourced_file, "path_variables": PATH_VARIABLES}
    yield render.template("node.sh.j2", "node.sh", executable=True, **names)
    if plan.setup.user_lines:
        yield render.template("setup.sh.j2", "setup.sh")
    if plan.caches.prefetch:
        yield render.template("prefetch.sh.j2", "prefetch.sh", executable=True)
    if plan.uses_trainer:
        yield render.chosen(render.json(_leaves_of("train", plan.train), "train.json"), of.plan.uses_trainer)
    yield from engine_files(plan, render, [artifact.path for artifact in emitted])
    yield _spec_yaml(render)
    left_out_keys = {item.demand.key: item.typed for item in left_out}
    backend_files = _own_files(backend, emitted)
    yield render.template(
        "README.md.j2", "README.md", launch=backend.launch, left_out=left_out_keys, own=backend_files, said=_said
    )


def _own_files(backend: Backend, emitted: Iterable[Artifact]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return (path, description, plan keys that chose it) of the files that only this backend has."""
    descriptions = backend.files if isinstance(backend, DescribedBackend) else {}
    return [(a.path, descriptions.get(a.path, "the backend's own"), a.chosen) for a in emitted]


def _said(text: str, plan: Any, keys: Iterable[str]) -> str:
    """Return the text, and make its line depend on the keys."""
    for key in keys:
        node = plan
        for part in key.split("."):
            if part.isdigit():
                node = node[int(part)]
            else:
                node = node[part] if isinstance(node, Mapping) else getattr(node, part)
    return text


def _leaves_of(path: str, tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tree with every leaf as a function of the views, so that each line has its plan key."""

    def leaf(keys: tuple[str, ...]) -> Any:
        def read(views: Any) -> Any:
            value = getattr(views.plan, path)
            for key in keys:
                value = value[key]
            return thaw(value)

        return read

    def walk(node: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
        return {k: walk(v, (*keys, k)) if isinstance(v, Mapping) else leaf((*keys, k)) for k, v in node.items()}

    return walk(tree, ())


# ---- spec.yaml ------------------------------------------------------------------------------------------------------

_SPEC_HEADER = (
    "# The job as it was compiled. Secrets are references; null is derived or the site's default. Nothing reads it.\n"
)


def _spec_yaml(render: Render) -> Artifact:
    document = {
        "backend": {"name": render.views["backend_name"], **_spec_section(render.views["options"], "options", ())},
        **_spec_section(render.views["spec"], "spec", ()),
    }
    rendered = render.yaml([document], "spec.yaml")
    lines = (
        LineRange(1, 1, (), "header"),
        *(dataclasses.replace(r, first=r.first + 1, last=r.last + 1) for r in rendered.lines),
    )
    return Artifact(rendered.path, _SPEC_HEADER + rendered.text, False, lines)


def _spec_section(section: Any, view: str, keys: tuple[str | int, ...]) -> dict[str, Any]:
    """Return a dataclass or mapping as data whose leaves read the view; `${` in text is escaped."""
    names = [f.name for f in dataclasses.fields(section)] if dataclasses.is_dataclass(section) else list(section)
    section_data: dict[str, Any] = {}
    for name in names:
        value = getattr(section, name) if dataclasses.is_dataclass(section) else section[name]
        path = (*keys, name)
        if (dataclasses.is_dataclass(value) or isinstance(value, Mapping)) and value:
            section_data[name.rstrip("_")] = _spec_section(value, view, path)
        elif isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
            section_data[name.rstrip("_")] = [_spec_section(item, view, (*path, i)) for i, item in enumerate(value)]
        else:
            section_data[name.rstrip("_")] = _spec_leaf(view, path)
    return section_data


def _spec_leaf(view: str, keys: tuple[str | int, ...]) -> Any:
    show = _unit_text(".".join(str(key).rstrip("_") for key in keys)) if view == "spec" else None

    def read(views: Any) -> Any:
        value = getattr(views, view)
        for key in keys:
            value = value[key] if isinstance(value, Mapping) or isinstance(key, int) else getattr(value, key)
        return _readable(value) if value is None or show is None else show(value)

    return read


def _unit_text(key: str) -> Callable[[Any], str] | None:
    """Return the function that shows a key's value as text with its unit; None for a key without a unit."""
    scalar = value_type(type_at(JobSpec, key))
    return scalar.show if scalar is not None and scalar.units else None


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return re.sub(r"(\\*)\$\{", lambda m: m[1] * 2 + "\\${", value)
    if isinstance(value, (tuple, list)):
        return [_readable(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _readable(inner) for key, inner in value.items()}
    if isinstance(value, WatchedFields):  # an item of a list, such as a mount
        return {name.rstrip("_"): _readable(inner) for name, inner in value}
    return value


# ---- .jobc/ -----------------------------------------------------------------------------------------------------


def job_file(plan: LaunchPlan, backend: Backend, options: Any, sweep: bool = False) -> Artifact:
    """Return job.json, which jobctl reads: the job's name, its run root and settings of its engine.

    sweep: whether it is for the folder that starts several points at once
    """
    settings = backend.engine_settings(plan, options) if isinstance(backend, EngineBackend) else {}
    code, gpus = plan.code, plan.topology.gpus
    job = {
        "schema": 1,
        "job": f"{plan.name}+sweep" if sweep else plan.run.folder,
        "backend": backend.name,
        "runs": plan.run.root,
        "nodes": plan.topology.nodes,
        "keep_runs": plan.run.keep,
        "storage": plan.run.storage,
        "grace_s": plan.lifecycle.grace_s,
        "sweep": sweep,
        "code": {"kind": code.kind, "root": code.root, "max_bytes": code.max_bytes, "script": code.script},
        "gpus": gpus,
        "gpu_type": plan.resources.gpu_type if gpus else None,
        "head_port": plan.rendezvous.port,
        "time_limit_s": plan.lifecycle.time_limit_s,
    }
    return Artifact(JOB, json.dumps({**job, **settings}, indent=2, ensure_ascii=False) + "\n")


def identity_files(spec: JobSpec, plan: LaunchPlan, backend: str, options: Any) -> Iterator[Artifact]:
    """Yield the files that a resume and `jobc diff` compare, as `key = json` lines: the identity keys, the spec
    (null: derived) and the plan.
    """
    identity = identity_of(train_json.parse(thaw(plan.train))) if plan.uses_trainer else {}
    yield Artifact(".jobc/identity.txt", flat_text.to_text(identity))
    yield Artifact(".jobc/spec.txt", flat_text.to_text(dict(flat_text.leaves(spec, "", _with_unit))))
    yield Artifact(".jobc/plan.txt", plan_text(plan, backend, options))


def _with_unit(key: str, value: Any) -> Any:
    show = _unit_text(key)
    return flat_text.plain(value) if value is None or show is None else show(value)
