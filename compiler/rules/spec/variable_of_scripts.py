"""JC2018: a rank variable whose name the artifact's scripts, or bash itself, use."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec
from . import _script_names as shell_names


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    entries = [("env", name, name, shell_names.node_script_variables) for name in spec.env]
    for name, ref in spec.secrets.items():
        entries.append(("secrets", name, name, shell_names.script_variables))
        kind, _, variable = ref.partition(":")
        if kind == "env" and variable != name:
            entries.append(("secrets", name, variable, shell_names.script_variables))
    for section, name, used, names in entries:
        title = f"{section}.{name}: reserved name, because bash or the scripts use {used}"
        if shell_names.is_bash_variable(used):
            because = "bash sets this variable itself, makes it read-only, or behaves differently when it is set"
        elif used != used.upper() and used in names():
            because = "a script in the artifact uses a variable with this name"
        else:
            continue
        hint = f"~{section}.{name}, and another name, such as {section}.MY_{used.upper()}"
        yield Diagnostic("JC2018", title, because, hint, key=f"{section}.{name}")
