"""Derive values from a spec. Each function is a rule, and `jobc why` prints the first line of its docstring.

In:  a JobSpec, plain or watched.
Out: values for the plan (see lower.py) and for checks. They depend only on the spec.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, cast

from ...trainer.config.target import target_names
from ..spec.job_spec import JobSpec
from .launch_plan import Download, Secret
from .runtime_vars import Word, parse_runtime_references
from .shell_quoting import ShellCode, sh

TORCHRUN_LAUNCHERS = ("torchrun", "torch_distributed_launch")
TRAINER_COMMAND = ("python3", "-m", "jobc_trainer")
MODULE_COMMANDS = ("purge", "swap", "unload", "use")  # in `python.modules`
# non-login shells do not define `module`
_MODULE_COMMAND = 'command -v module >/dev/null || . "${MODULESHOME:-/usr/share/modules}/init/bash"'
_NO_CODE = ("torch.", "jobc_trainer.")  # packages in a `_target_` that nodes have without the user's code


def procs_per_node(spec: JobSpec) -> int:
    """Trainer processes on one node: as given, else one per GPU, else one (torchrun --nproc-per-node)."""
    return spec.procs if spec.procs is not None else max(spec.gpus, 1)


def world_size(spec: JobSpec) -> int:
    """Nodes times processes per node."""
    return spec.nodes * procs_per_node(spec)


def data_ranks(spec: JobSpec) -> int:
    """Ranks, or groups of batch.shared_by ranks, that have their own samples."""
    return world_size(spec) // spec.batch.shared_by


def usable_hosts(spec: JobSpec, hosts: Sequence[str]) -> tuple[str, ...]:
    """Return the listed hosts that the job may use, in order; it uses the first `nodes` of them."""
    avoided = set(spec.queue.exclude or ())
    return tuple(host for host in hosts if host not in avoided)


def used_hosts(spec: JobSpec) -> tuple[str, ...]:
    """The first hosts in `hosts` that are not in queue.exclude, one per node."""
    return usable_hosts(spec, spec.hosts)[: spec.nodes] if spec.hosts else ()


def preferred_hosts(spec: JobSpec) -> tuple[str, ...]:
    """Hosts that are not in queue.exclude, one per node, because Slurm rejects a list longer than the job."""
    return usable_hosts(spec, spec.queue.nodelist)[: spec.nodes] if spec.queue.nodelist else ()


def threads_per_rank(spec: JobSpec) -> int:
    """CPU threads per rank: as given, else an equal share of the node's cores, else 1.

    torchrun sets OMP_NUM_THREADS=1 if it is unset, but on a CPU node each rank needs its share (pytorch/pytorch#22260).
    """
    if spec.threads is not None:
        return spec.threads
    return max(spec.cpus // procs_per_node(spec), 1) if spec.cpus is not None else 1


def torchrun_option_name(name: str) -> str:
    """Return an option's name without `--`, spelled the way torchrun prints it: `numa-binding` for numa_binding."""
    return name.replace("_", "-")


def torchrun_options(spec: JobSpec) -> tuple[str, ...]:
    """The options of torchrun.extra, in order: `--numa-binding=node`, `--virtual-local-rank` for true."""
    options = []
    for name, value in spec.torchrun.extra.items():
        if value is not None and value is not False:
            option = f"--{torchrun_option_name(name)}"
            options.append(option if value is True else f"{option}={value}")
    return tuple(options)


def accumulation(spec: JobSpec) -> int:
    """Forward passes per optimizer step; check() ensures that global is divisible."""
    if spec.batch.accumulation is not None:
        return spec.batch.accumulation
    if spec.batch.global_ is not None:
        return spec.batch.global_ // (spec.batch.micro * data_ranks(spec))
    return 1


def global_batch(spec: JobSpec) -> int:
    """Samples per optimizer step: micro x forward passes per step x ranks that have their own samples."""
    return spec.batch.micro * accumulation(spec) * data_ranks(spec)


def shard_group_size(spec: JobSpec) -> int:
    """Ranks that share one copy of the model with parallel=hsdp: as given, or the ranks of a node."""
    assert spec.parallel.kind == "hsdp"
    return spec.parallel.shards if spec.parallel.shards is not None else procs_per_node(spec)


def init_timeout(spec: JobSpec) -> int:
    """Timeout in seconds for all ranks to connect: as given, else the same as for all nodes."""
    requested = spec.process_group.init_timeout_s
    return requested if requested is not None else spec.rendezvous.timeout


def rank_command(spec: JobSpec) -> tuple[str, ...]:
    """The program of one rank: the trainer, or the user's words; a .py file or `-m` first is run by Python."""
    if spec.command is None:
        return TRAINER_COMMAND
    first = spec.command[0]
    return ("python3", *spec.command) if first.endswith(".py") or first == "-m" else spec.command


def command_words(spec: JobSpec) -> tuple[Word, ...]:
    """The program of one rank: the trainer, or the user's words; a .py file or `-m` first is run by Python."""
    return tuple(map(parse_runtime_references, rank_command(spec)))


def user_script(spec: JobSpec) -> str:
    """The file that the command runs, if it can only be the user's: `train.py`, `python src/train.py`, `./run.sh`.

    Return "" for `-m MODULE`, for programs found on PATH, and for paths that are absolute or known only at run time.
    """
    if spec.command is None or spec.container.workdir is not None:
        return ""
    words = list(rank_command(spec))
    if re.fullmatch(r"(python[\d.]*|bash|sh)", words[0]):
        words = words[1:]
    elif "/" not in words[0]:
        return ""
    word = words[0] if words else ""
    return word if re.fullmatch(r"(?!/|-)[^$%{]*(/[^$%{]*|\.py|\.sh)", word) else ""


def runs_user_code(spec: JobSpec) -> bool:
    """Return whether the job runs user code: a command, a recipe, or a `_target_` outside jobc and torch."""
    if spec.command is not None or spec.recipe is not None:
        return True
    targets = [section for section in (spec.model, spec.data, spec.loss, spec.optim) if isinstance(section, Mapping)]
    return not all(name.startswith(_NO_CODE) for name in target_names(targets))


def code_kind(spec: JobSpec) -> str:
    """Kind of the code if the job runs user code; otherwise "lib", only jobc's trainer."""
    return spec.code.kind if runs_user_code(spec) else "lib"


def run_folder_name(spec: JobSpec) -> str:
    """The job's name, followed by the sweep point if there is one."""
    return spec.name if spec.point is None else f"{spec.name}+{spec.point}"


def module_lines(spec: JobSpec) -> tuple[ShellCode, ...]:
    """Return bash lines that load environment modules in a non-login shell, on the node, because images have none."""
    lines = [f"module {' '.join(map(sh, _module_words(entry)))}" for entry in spec.python.modules]
    return tuple(ShellCode(line) for line in ([_MODULE_COMMAND, *lines] if lines else []))


def _module_words(entry: str) -> list[str]:
    """Return the words after `module` for an entry, which is NAME or a subcommand to run before loading."""
    words = entry.split()
    return words if words and words[0] in MODULE_COMMANDS else ["load", entry]


def activation_lines(spec: JobSpec) -> tuple[ShellCode, ...]:
    """Bash lines that activate the Python environment in a non-login shell."""
    python = spec.python
    if python.kind == "venv":
        return (ShellCode(f". {sh(f'{python.path}/bin/activate')}"),)
    if python.kind == "conda":
        activate = f"conda activate {sh(python.path or 'base')}"
        return (ShellCode('eval "$(conda shell.bash hook)"'), ShellCode(activate))
    if python.kind == "uv":
        return (ShellCode(f". {sh(f'{python.path}/.venv/bin/activate')}"),)
    return ()


def make_lines_rule(key: str) -> Callable[[JobSpec], tuple[ShellCode, ...]]:
    """Return a rule for the user's lines in `setup`, `before`, `per_node` or `after`."""

    def shell_lines(spec: JobSpec) -> tuple[ShellCode, ...]:
        lines = getattr(spec, key)
        needs_modules = any(re.match(r"\s*(module|ml)\s", line) for line in lines)
        return tuple(ShellCode(line) for line in ([_MODULE_COMMAND] if needs_modules else []) + list(lines))

    shell_lines.__doc__ = f"The lines of `{key}`, as typed; preceded by the command `module` if one of them calls it."
    return shell_lines


def then_lines(spec: JobSpec) -> tuple[ShellCode, ...]:
    """The entries of `then`, as typed."""
    return tuple(ShellCode(lines) for lines in spec.then)


def container_image(spec: JobSpec) -> str | None:
    """`image` in the syntax of its runtime: NAME:TAG is docker://NAME:TAG for Apptainer, HOST#NAME:TAG for Pyxis.

    Return None with container=none, which runs no image (JC2008). Paths (those that begin with / or . or end in .sif)
    and images with `://` or `#` are unchanged. Source: enroot 4.1, doc/cmd/import.md.
    """
    name, kind = spec.image, spec.container.kind
    if kind == "none":
        return None
    if name is None or kind not in ("apptainer", "pyxis") or name.startswith(("/", ".")) or re.search("://|#", name):
        return name
    if kind == "apptainer":
        return name if name.endswith((".sif", ".img", ".sqsh")) else f"docker://{name}"
    host, _, repository = name.partition("/")
    is_host = repository and (re.search("[.:]", host) or host == "localhost")
    return f"{host}#{repository}" if is_host else name


def secret_kinds(spec: JobSpec) -> tuple[str, ...]:
    """The distinct kinds of secrets, because not every engine can deliver each kind."""
    return tuple(sorted({parse_secret_reference(spec.secrets[name]).kind for name in spec.secrets}))


def parse_secret_reference(reference: str) -> Secret:
    """Return `env:HF_TOKEN` as a Secret. value_types.py has validated the format."""
    kind, _, ref = reference.partition(":")
    return Secret(cast(Literal["env", "file", "k8s"], kind), ref)


def parse_download(text: str) -> Download:
    """Return `model:ORG/NAME@REVISION` as a Download. value_types.py has validated the format."""
    kind, _, reference = text.partition(":")
    name, _, revision = (reference, "", "") if kind == "run" else reference.partition("@")
    return Download(kind, name, revision)


_MOST_TRIED = 100_000  # maximum number of candidates; trying that many takes a few milliseconds


def divisors(number: int) -> list[int]:
    """Return the divisors of a number in ascending order. Above 10**10, some in the middle may be missing."""
    small = [n for n in range(1, min(math.isqrt(number), _MOST_TRIED) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})
