"""JC2050: a network setting without a value, or of a variable that is derived."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.derived_variables import is_derived
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    for i, setting in enumerate(spec.network.settings):
        key = f"network.settings.{i}.name"
        if not setting.value:
            because = "set to nothing is not the same as not set, and no wish"
            hint = f"{setting.name}: 0, or leave {setting.name} out"
            yield Diagnostic("JC2050", f"network.settings gives {setting.name} no value", because, hint, key=key)
        elif is_derived(setting.name):
            because = "a value by hand would contradict the launcher's"
            yield Diagnostic("JC2050", f"{setting.name} is derived, never typed", because, "leave it out", key=key)
