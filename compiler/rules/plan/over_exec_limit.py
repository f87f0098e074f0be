"""JC2019: a variable or argument larger than 128 KiB, or more than 2 MiB in total.

Source: execve(2), Linux: MAX_ARG_STRLEN limits one string to 32 pages. All strings together with their pointers may
take at most a quarter of the stack limit, which is 8 MiB by default. The job would start, but `python` would fail.
"""

from collections.abc import Iterator

from ...diagnostics.diagnostic import Diagnostic
from ...plan.launch_plan import LaunchPlan
from ...spec.job_spec import JobSpec

MOST_OF_ONE = 131_072  # bytes per string, with its final NUL
MOST_OF_ALL = (2 << 20) - (256 << 10)  # leaves room for the node's and jobc's own variables
_POINTER = 8
_PATHS = 24 << 10  # bytes that jobctl adds to a rank's command under mpirun: the paths of Python, jobctl and code
_TEMPLATES = ("torchrun", "accelerate", "torch_distributed_launch")  # launchers for which jobctl doubles every $


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    words = {f"env.{name}": _size_for_exec(f"{name}={value}") for name, value in spec.env.items()}
    doubles = plan.launcher in _TEMPLATES
    command = [word.replace("$", "$$") if doubles else word for word in spec.command or ()]
    words |= {f"command.{i}": _size_for_exec(word) for i, word in enumerate(command)}
    words |= {f"container.options.{i}": _size_for_exec(word) for i, word in enumerate(plan.container.options)}
    words |= {f"caches.prefetch.{i}": _size_for_exec(word) for i, word in enumerate(spec.caches.prefetch)}
    for key in ("before", "per_node", "after"):  # each is one variable; before and per_node are also one argument
        words[key] = _size_for_exec(f"JOBC_{key.upper()}=" + "\n".join(getattr(plan.setup, key)))
    words |= {f"then.{i}": _size_for_exec(f"JOBC_THEN_{i + 1}={text}") for i, text in enumerate(plan.setup.then)}
    too_long = [key for key, size in words.items() if size > MOST_OF_ONE]
    for key in too_long:
        because = f"Linux limits one argument or variable to {MOST_OF_ONE:,} bytes, so no rank would start"
        yield _too_large_diagnostic(f"{key} is {words[key]:,} bytes long", because, _spec_key(key))
    total = sum(size + _POINTER for key, size in words.items() if key.startswith(("env.", "command.")))
    if not too_long and total > MOST_OF_ALL:
        largest = max(words, key=words.__getitem__)
        because = f"Linux limits the total to 2 MiB, which leaves {MOST_OF_ALL:,} bytes for the job"
        yield _too_large_diagnostic(f"command and env are {total:,} bytes long in total", because, _spec_key(largest))
    elif not too_long and plan.launcher == "mpirun":
        yield from _check_mpirun_limits(plan, command)


def _check_mpirun_limits(plan: LaunchPlan, command: list[str]) -> Iterator[Diagnostic]:
    """Yield JC2019 for the command, which is quoted in one variable, and for the list of nodes, which is one word."""
    quoted = sum(_size_for_exec(word.replace("'", "'\\''")) + 2 for word in command) + _PATHS
    if quoted > MOST_OF_ONE:
        because = f"launcher=mpirun passes the command in one variable, which Linux limits to {MOST_OF_ONE:,} bytes"
        yield _too_large_diagnostic(f"the quoted command is {quoted - _PATHS:,} bytes long", because, "command")
    nodes = plan.topology.nodes
    hosts = nodes * _size_for_exec(f"jobc-{nodes}:{plan.topology.procs}")
    if hosts > MOST_OF_ONE:
        because = f"mpirun gets the list of nodes as one argument, which Linux limits to {MOST_OF_ONE:,} bytes"
        title = f"{nodes:,} nodes with launcher=mpirun"
        yield Diagnostic("JC2019", title, because, "launcher=torchrun", key="launcher")


def _size_for_exec(text: str) -> int:
    """Return the size of the text in bytes, with the final NUL."""
    return len(text.encode("utf-8", "surrogateescape")) + 1


def _spec_key(key: str) -> str:
    section, _, name = key.partition(".")
    return key if section == "env" else section if name.isdecimal() else key.rpartition(".")[0]


def _too_large_diagnostic(title: str, because: str, key: str) -> Diagnostic:
    hint = "write the text to a file and pass the path of the file"
    return Diagnostic("JC2019", title, because, hint, key=key)
