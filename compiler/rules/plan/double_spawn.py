"""JC3001: the command is a launcher, and jobc starts one too, so that ranks start ranks or each node forms its own
world.

With one process per node, the launcher starts the ranks, but only on its own node unless its options list the other
nodes.
Source: torchrun of PyTorch 2.13 (--nnodes defaults to 1, --master-addr to 127.0.0.1), accelerate 1.15 (--num_machines,
        or its config_file), deepspeed 0.19 (without a hostfile, it uses this machine's GPUs).
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile

from ...diagnostics.diagnostic import Diagnostic, Severity
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec
from ._programs import rank_launcher_name
from ._shell import program_words_of_commands

_OF_TORCHRUN = (r"--nnodes", r"--master[-_]addr|--rdzv[-_]endpoint")
_OF_ACCELERATE = (r"--num_machines|--config_file", r"--main_process_ip|--config_file")
_OF_DEEPSPEED = (r"-H|--hostfile|--num_nodes|--master_addr",)
_OTHER_NODES = {  # launcher -> options for the other nodes, one of each is required; other launchers are not checked
    "torchrun": _OF_TORCHRUN,
    "torch.distributed.run": _OF_TORCHRUN,
    "torch.distributed.launch": _OF_TORCHRUN,
    "accelerate": _OF_ACCELERATE,
    "accelerate-launch": _OF_ACCELERATE,
    "accelerate.commands.launch": _OF_ACCELERATE,
    "accelerate.commands.accelerate_cli": _OF_ACCELERATE,
    "deepspeed": _OF_DEEPSPEED,
    "deepspeed.launcher.runner": _OF_DEEPSPEED,
}
_NUMBER = re.compile(r"-np?|--n(proc|um|gpus)[\w-]*")  # an option whose value may be a variable


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    return _find_launcher(spec, plan, "the command")


def launchers_in_script(spec: JobSpec, plan: LaunchPlan, script: str, text: str) -> Iterator[Diagnostic]:
    """Yield a warning if the shell script that the command runs starts a launcher. text: the script's text"""
    for found in _find_launcher(replace(spec, command=("bash", "-c", text)), plan, script):
        yield replace(found, title=f"in {script}, {found.title}", severity=Severity.WARNING)


def _find_launcher(spec: JobSpec, plan: LaunchPlan, where: str) -> Iterator[Diagnostic]:
    """Yield JC3001. where: the command, or the name of the script that contains the launcher"""
    nodes, procs, command = plan.topology.nodes, plan.topology.procs, spec.command or ()
    launchers = ((rank_launcher_name(candidate), candidate) for candidate in program_words_of_commands(command))
    name, words = next((launcher for launcher in launchers if launcher[0]), ("", ()))
    if not name or (procs < 2 and (nodes < 2 or _may_know_other_nodes(spec, name, words))):
        return
    title = f"{name} would run in each of the {procs} ranks of a node"
    because = f"launcher={spec.launcher} already starts {procs} processes, and each would start the same number again"
    if procs < 2:
        title = f"{name} would run separately on each of {nodes} nodes"
        because = "the launcher's options do not name the other nodes, so each node would train independently"
    hint = _launcher_hint(name, command, procs, plan.topology.gpus, where)
    if nodes < 2:
        alone = f"procs=1, so that {name} starts the ranks of the node"
        hint = f"{hint}; or {alone}" if where != "the command" or _script_and_arguments(command) else alone
    yield Diagnostic("JC3001", title, because, hint, key="command", judgment=True)


def _may_know_other_nodes(spec: JobSpec, name: str, words: Sequence[str]) -> bool:
    """Return whether the launcher is configured for other nodes, in its options or perhaps in a file or variable."""
    if name not in _OTHER_NODES or any(variable.startswith("PET_") for variable in spec.env):
        return True
    if any("PET_" in word for word in spec.command or ()):
        return True
    launcher_words = list(takewhile(lambda word: not word.endswith(".py"), words))
    pairs = pairwise(launcher_words)
    if any(word.startswith("$") and not _NUMBER.fullmatch(before) for before, word in pairs):
        return True
    forms = [re.compile(rf"({option})(=.*)?") for option in _OTHER_NODES[name]]
    return all(any(map(form.fullmatch, launcher_words)) for form in forms)


def _launcher_hint(name: str, command: Sequence[str], procs: int, gpus: int, where: str) -> str:
    """Return a hint to run the program without the launcher, because jobc itself starts it on all nodes."""
    first = f"procs={gpus} " if procs < 2 <= gpus else ""
    if script := _script_and_arguments(command):
        return f"{first}-- {script}, because jobc starts the ranks"
    return f"{first and first + 'and '}in {where}, remove {name} and its options: jobc starts the ranks"


def _script_and_arguments(command: Sequence[str]) -> str:
    """Return the words from the script on, such as `train.py --lr 0.1`, or "" without a Python script."""
    first = next((i for i, word in enumerate(command) if re.fullmatch(r"\S+\.py", word)), None)
    return shlex.join(command[first:]) if first is not None else ""
