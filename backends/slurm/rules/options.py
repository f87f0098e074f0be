"""Options of sbatch and srun, and the versions that support them: JC4301, JC4303, JC4340, JC4600."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity, join_with_or
from ....compiler.emit.extra_entries import Path, check_extra_entries
from ....compiler.plan.launch_plan import LaunchPlan
from ..._shared import sbatch_options
from ..option_tables import OURS, SINCE_OF_BOTH, SRUN, SRUN_OPTIONS
from ..option_values import format_option
from ..options import SlurmOptions

LONG = "[a-z][a-z-]+"  # name of a long option


class SlurmProgram(NamedTuple):
    """sbatch or srun: the key that adds options, the known options, and the job keys that set some of them."""

    name: str
    section: str
    known: Collection[str]
    owners: Mapping[str, str]


PROGRAMS = (
    SlurmProgram("sbatch", "extra", sbatch_options.OPTIONS | sbatch_options.PLUGINS, OURS),
    SlurmProgram("srun", "srun_extra", SRUN_OPTIONS | sbatch_options.PLUGINS, SRUN),
)


def check_unknown_version(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4301: a Slurm version that jobc does not know."""
    version = options.version
    if not re.fullmatch(r"\d\d\.\d\d", version) or not "22.05" <= version <= "25.11":
        because = "jobc supports Slurm 22.05 to 25.11"
        title, hint = f"Slurm version {version} is unknown", "backend.version=23.11, as `sbatch --version` prints it"
        yield Diagnostic("JC4301", title, because, hint, key="backend.version")


def check_protected_option(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4600: an option that a job key sets, that jobctl batch would undo, or that would break jobctl submit."""
    for program in PROGRAMS:
        owners: dict[Path, str] = {(option,): owner for option, owner in program.owners.items()}
        if program.name == "sbatch" and plan.queue.exclusive:
            owners["oversubscribe",] = "queue.exclusive"  # Slurm uses the last one
        yield from check_extra_entries(getattr(options, program.section), owners, ("backend", program.section))
    for i, device in enumerate(options.gres):
        if device.partition(":")[0] == "gpu":
            title, key = f"backend.gres: {device} is a GPU", f"backend.gres.{i}"
            because = "jobc sets GPUs from gpus and gpu_type, and the scripts rely on these values"
            yield Diagnostic("JC4600", title, because, f"remove {key}, and set gpus", key=key)


def check_short_option(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4303: an sbatch or srun option that is not given by its long name."""
    for program in PROGRAMS:
        for name, value in getattr(options, program.section).items():
            text = format_option(name, value)
            if text and not re.match(rf"--{LONG}(=|$)", text):
                key = f"backend.{program.section}.{name}"
                because = "only long names can be compared with the options that jobc sets itself"
                yield Diagnostic("JC4303", f"{key}: {text!r} is not a long option", because, f"remove {key}", key=key)


def check_version_specific_option(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4340: an option that the site's sbatch or srun does not support. With it, sbatch or the job fails."""
    site = options.version
    for program in PROGRAMS:
        for name in getattr(options, program.section):
            since, gone = SINCE_OF_BOTH.get(name, site), sbatch_options.GONE.get(name, "99.99")
            key, title = f"backend.{program.section}.{name}", f"{program.name} of Slurm {site} has no option --{name}"
            if not re.fullmatch(LONG, name):
                continue  # JC4303
            if name not in program.known:
                yield _unknown_option_diagnostic(program, name, key, title)
            elif site < since:
                because = f"{program.name} has had this option only since Slurm {since}"
                hint = f"remove {key}, or backend.version={since} if the site has that version"
                yield Diagnostic("JC4340", title, because, hint, key=key)
            elif site >= gone:
                because = f"{program.name} has not had this option since Slurm {gone}"
                yield Diagnostic("JC4340", title, because, f"remove {key}", key=key)


def _unknown_option_diagnostic(program: SlurmProgram, name: str, key: str, title: str) -> Diagnostic:
    """Report an unknown option: an error if a known one is similar, otherwise a warning, as a plugin may provide it."""
    for other in PROGRAMS:
        if name in other.known:
            right_key = other.owners.get(name, f"backend.{other.section}.{name}")
            hint = f"remove {key}, and use {right_key}"
            return Diagnostic("JC4340", title, f"--{name} is an option of {other.name}", hint, key=key)
    begun = sbatch_options.options_with_prefix(name, program.known)
    meant = begun or sbatch_options.similar_options(name, program.known)
    because = f"no {program.name} version from 22.05 to 25.11 has this option, and neither does Pyxis"
    if not meant:
        hint = f"remove {key}, unless a SPANK plugin of the site provides it"
        return Diagnostic("JC4340", title, because, hint, key=key, severity=Severity.WARNING)
    if owner := program.owners.get(meant[0]):
        because = f"{because}; --{meant[0]} is similar"
        hint = f"remove {key}, and use {owner}"
    else:
        hint = f"did you mean {join_with_or(f'backend.{program.section}.{name}' for name in meant)}?"
    return Diagnostic("JC4340", title, because, hint, key=key, judgment=not begun)
