"""JC2050: a network setting that is empty, or that sets a derived variable."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.derived_variables import is_derived
from ...spec.job_spec import JobSpec


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    for i, setting in enumerate(spec.network.settings):
        key = f"network.settings.{i}.name"
        if not setting.value:
            because = "an empty value is not the same as an unset variable"
            hint = f"{setting.name}: 0, or remove {setting.name}"
            yield Diagnostic(
                "JC2050", f"network.settings sets {setting.name} to an empty value", because, hint, key=key
            )
        elif is_derived(setting.name):
            because = "a value that you set would contradict the launcher's value"
            yield Diagnostic("JC2050", f"{setting.name} is derived and cannot be set", because, "remove it", key=key)
