"""JC2018: a variable of the ranks with a name that the scripts of the artifact, or bash, use themselves."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec
from . import _script_names as shell_names


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    entries = [("env", name, name, shell_names.of_nodes) for name in spec.env]
    for name, ref in spec.secrets.items():
        entries.append(("secrets", name, name, shell_names.of_all))
        kind, _, variable = ref.partition(":")
        if kind == "env" and variable != name:
            entries.append(("secrets", name, variable, shell_names.of_all))
    for section, name, used, names in entries:
        title = f"{section}.{name}: the scripts, or bash, use {used} themselves"
        if shell_names.is_of_bash(used):
            because = "it is bash's own: bash sets it itself, refuses to, or runs the scripts otherwise with it"
        elif used != used.upper() and used in names():
            because = "a script of the artifact has a variable of that name"
        else:
            continue
        hint = f"~{section}.{name}, and another name, such as {section}.MY_{used.upper()}"
        yield Diagnostic("JC2018", title, because, hint, key=f"{section}.{name}")
