"""JC2006: a variable that the launcher sets, in env or by the command's own shell."""

import re
from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...plan.launch_plan import PATH_VARIABLES
from ...spec.derived_variables import is_derived
from ...spec.job_spec import JobSpec
from ..plan._programs import launcher_that_starts_ranks
from ..plan._shell import program_words_of_commands
from ..plan._variables import user_variables

_OF_ITS_OWN = ("OMP_NUM_THREADS", "PYTHONUNBUFFERED")  # a shell may change these

_KEYS = {"OMP_NUM_THREADS": ("threads", 1, 1024), "MASTER_PORT": ("rendezvous.port", 1024, 65535)}  # key, valid range


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    has_launcher = any(
        map(launcher_that_starts_ranks, program_words_of_commands(spec.command or ()))
    )  # that launcher sets them for its own ranks
    for variable in user_variables(spec):
        if (
            variable.name not in PATH_VARIABLES
            and is_derived(variable.name)
            and not (variable.is_set_by_command and (has_launcher or variable.name in _OF_ITS_OWN))
        ):
            title, because = (
                f"{variable.title} is derived and cannot be set",
                "a value that you set would contradict the launcher's value",
            )
            hint = variable.without() if variable.is_set_by_command else _instead(variable.name, variable.value)
            yield Diagnostic("JC2006", title, because, hint, key=variable.key, judgment=variable.is_set_by_command)


def _instead(name: str, value: str) -> str:
    key, least, most = _KEYS.get(name, ("", 0, 0))
    if key and re.fullmatch(r"[0-9]{1,5}", value) and least <= int(value) <= most:
        return f"~env.{name} {key}={int(value)}"
    return "~env.WORLD_SIZE nodes=2 procs=4" if name == "WORLD_SIZE" else f"~env.{name}"
