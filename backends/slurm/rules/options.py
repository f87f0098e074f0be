"""Options of sbatch and srun, and the versions that support them: JC4301, JC4303, JC4340."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity, join_with_or
from ....compiler.plan.launch_plan import LaunchPlan
from ....runtime.system.frozen_dataclass import dataclass
from ..._shared import sbatch_options
from .. import srun_options
from ..option_values import LONG, format_option
from ..options import SlurmOptions
from ..protected_options import OURS, SRUN


def check_unknown_version(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4301: a Slurm version that jobc does not know."""
    version = options.version
    if not re.fullmatch(r"\d\d\.\d\d", version) or not "22.05" <= version <= "25.11":
        because = "jobc supports Slurm 22.05 to 25.11"
        title, hint = f"Slurm version {version} is unknown", "backend.version=23.11, as `sbatch --version` prints it"
        yield Diagnostic("JC4301", title, because, hint, key="backend.version")


def check_short_option(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4303: an sbatch or srun option that is not given by its long name."""
    for section, extra in (("extra", options.extra), ("srun_extra", options.srun_extra)):
        for name, value in extra.items():
            text = format_option(name, value)
            if text and not re.match(rf"--{LONG}(=|$)", text):
                key = f"backend.{section}.{name}"
                because = "only long names can be compared with the options that jobc sets itself"
                yield Diagnostic("JC4303", f"{key}: {text!r} is not a long option", because, f"remove {key}", key=key)


@dataclass(frozen=True)
class Program:
    """sbatch or srun.

    title: the program's name in diagnostics
    section: the key that adds options
    owners: each option that jobc sets -> the keys that set it
    """

    name: str
    title: str
    section: str
    known: Collection[str]
    since: Mapping[str, str]
    gone: Mapping[str, str]
    owners: Mapping[str, str]


SBATCH = Program(
    "sbatch", "Slurm", "backend.extra", sbatch_options.OPTIONS | sbatch_options.PYXIS | sbatch_options.PLUGINS,
    sbatch_options.SINCE, sbatch_options.GONE, OURS,
)  # fmt: skip
STEP = Program(
    "srun", "srun of Slurm", "backend.srun_extra", srun_options.OPTIONS | sbatch_options.PYXIS | sbatch_options.PLUGINS,
    srun_options.SINCE, srun_options.GONE, SRUN,
)  # fmt: skip


def check_version_specific_option(plan: LaunchPlan, options: SlurmOptions) -> Iterator[Diagnostic]:
    """JC4340: an option that the site's sbatch or srun does not support. With it, sbatch or the job fails."""
    for program, extra in ((SBATCH, options.extra), (STEP, options.srun_extra)):
        yield from _check(program, extra, options.version)


def _check(program: Program, extra: Mapping[str, Any], site: str) -> Iterator[Diagnostic]:
    for name in extra:
        key, title = f"{program.section}.{name}", f"{program.title} {site} has no option --{name}"
        since, gone = program.since.get(name, site), program.gone.get(name, "99.99")
        if not re.fullmatch(LONG, name):
            continue  # JC4303
        if name not in program.known:
            yield _unknown_option(program, name, title)
        elif not since <= site < gone:
            verb = (
                f"has this option only from Slurm {since} on"
                if site < since
                else (f"has not had this option since Slurm {gone}")
            )
            hint = f"remove {key}" + (
                f", or backend.version={since} if the site has that version" if site < since else ""
            )
            yield Diagnostic("JC4340", title, f"{program.name} {verb}", hint, key=key)


def _unknown_option(program: Program, name: str, title: str) -> Diagnostic:
    """Report an unknown option: an error if a known one is similar, otherwise a warning, as a plugin may provide it."""
    key, because = f"{program.section}.{name}", f"no {program.name} from 22.05 to 25.11 has this option, nor does Pyxis"
    other = STEP if program is SBATCH else SBATCH
    if name in other.known:
        right_key = other.owners.get(name, f"{other.section}.{name}")
        hint = f"remove {key}, and set {right_key}"
        return Diagnostic("JC4340", title, f"--{name} is an option of {other.name}", hint, key=key)
    begun = sbatch_options.options_with_prefix(name, program.known)
    meant = begun or sbatch_options.similar_options(name, program.known)
    if not meant:
        hint = f"remove {key}, unless a SPANK plugin of the site provides it"
        return Diagnostic("JC4340", title, because, hint, key=key, severity=Severity.WARNING)
    if owner := program.owners.get(meant[0]):
        because = f"{because}; --{meant[0]} is similar"
        return Diagnostic("JC4340", title, because, f"remove {key}, and set {owner}", key=key, judgment=not begun)
    hint = f"did you mean {join_with_or(f'{program.section}.{name}' for name in meant)}?"
    return Diagnostic("JC4340", title, because, hint, key=key, judgment=not begun)
