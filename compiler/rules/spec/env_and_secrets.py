"""Names and values in `env` and `secrets`: JC2006, JC2007, JC2013, JC2018, JC4515."""

import re
from collections.abc import Iterator

from ....runtime.run_folder.submitted_values import PATH_VARIABLES
from ....runtime.system.reserved_variables import DEFAULTS, is_reserved
from ...diagnostics.diagnostic import Diagnostic
from ...spec.job_spec import JobSpec
from ...spec.secret_scan import is_secret_assignment, looks_like_token
from ..plan._programs import rank_launcher_name
from ..plan._shell import program_words_of_commands
from ..plan._variables import user_variables
from . import _script_names as shell_names

_KEYS = {"OMP_NUM_THREADS": ("threads", 1, 1024), "MASTER_PORT": ("rendezvous.port", 1024, 65535)}  # key, valid range


def check_name_in_env_and_secrets(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2007: the same name in `env` and in `secrets`."""
    for name in spec.env:
        if name in spec.secrets:
            because = "it is undefined which of the two values the ranks would get"
            yield Diagnostic("JC2007", f"{name} is in env and in secrets", because, f"~env.{name}", key=f"env.{name}")


def check_nul_character(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2013: a NUL character in the command or in `env`, which cannot be passed to a process."""
    words = [("command", word) for word in spec.command or ()] + [(f"env.{n}", v) for n, v in spec.env.items()]
    for key, word in words:
        if "\0" in word:
            because = "the operating system ends arguments and variables at NUL"
            yield Diagnostic("JC2013", f"{key} contains a NUL character", because, "remove it", key=key)


def check_reserved_variable(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2018: a rank variable whose name is used by the artifact's scripts or by bash itself."""
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


def check_secret_in_env(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC4515: a password or token in a value of `env`."""
    for name, value in spec.env.items():
        if name not in spec.secrets and (is_secret_assignment(name, value) or looks_like_token(value)):
            because = "launch.sh and spec.yaml would show the value in plain text to everyone who can read the run"
            hint = f"secrets.{name}=env:{name}, and export {name} where you submit; or file:PATH, or k8s:SECRET/KEY"
            title = f"env.{name} looks like a secret"
            yield Diagnostic("JC4515", title, because, hint, key=f"env.{name}", private=True, judgment=True)


def check_derived_variable(spec: JobSpec) -> Iterator[Diagnostic]:
    """JC2006: a variable that the launcher sets, but that `env` or the command's own shell also sets."""
    # a launcher in the command sets them for its own ranks
    has_launcher = any(map(rank_launcher_name, program_words_of_commands(spec.command or ())))
    for variable in user_variables(spec):
        if variable.name in PATH_VARIABLES or not is_reserved(variable.name):
            continue
        hint = _replacement_hint(variable.name, variable.value)
        if variable.is_set_by_command:
            if has_launcher or variable.name in DEFAULTS:
                continue
            hint = variable.removal_hint()
        title = f"{variable.title} is derived and cannot be set"
        because = "a value that you set would contradict the launcher's value"
        yield Diagnostic("JC2006", title, because, hint, key=variable.key, judgment=variable.is_set_by_command)


def _replacement_hint(name: str, value: str) -> str:
    key, least, most = _KEYS.get(name, ("", 0, 0))
    if key and re.fullmatch(r"[0-9]{1,5}", value) and least <= int(value) <= most:
        return f"{key}={int(value)}; remove env.{name}"
    if name == "WORLD_SIZE":
        return "remove env.WORLD_SIZE; it is nodes x procs"
    return f"remove env.{name}"
