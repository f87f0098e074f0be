"""JC4715: keys of ~/.sky/config.yaml that a task cannot override; SkyPilot drops them."""

from __future__ import annotations

from collections.abc import Iterator

from .....compiler.diagnostics.diagnostic import Diagnostic, nearest
from ...finished import FinishedTask, mapping
from ...schema import At
from ...sky_names import CONFIG_KEYS


def check(task: FinishedTask) -> Iterator[Diagnostic]:
    for section, inner in task.section("config").items():
        valid_names = CONFIG_KEYS.get(section)
        if valid_names is None:
            because = f"a task can only override {', '.join(sorted(CONFIG_KEYS))} of ~/.sky/config.yaml"
            yield _dropped(task, ("config", section), because, nearest(section, CONFIG_KEYS) or ["kubernetes"])
            continue
        for name in mapping(inner):
            if name not in valid_names:
                because = f"a task can only set {', '.join(valid_names)} there; other keys are accepted but ignored"
                yield _dropped(task, ("config", section, name), because, nearest(name, valid_names) or [*valid_names])


def _dropped(task: FinishedTask, at: At, because: str, instead: list[str]) -> Diagnostic:
    key = task.key(at)
    hint = f"{key.rpartition('.')[0]}.{instead[0]}" if instead else f"remove {key}"
    return Diagnostic("JC4715", f"SkyPilot would ignore {key}", because, hint, key=key)
