"""Commands about runs: run and watch follow one with a live line, the verbs call the artifact's own scripts.

Everything a run needs is in the artifact; these are shorter to type and nothing more.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from ..diagnostics.diagnostic import CompileError, Diagnostic
from ..emit.artifact_dir import MANIFEST, text_of
from ..pipeline.compile import compile_job, write_job
from .arguments import SCRIPTS, Arguments
from .compiling import beside, show
from .inspect import no_artifact
from .reporting import NO_READER, report
from .request import request
from .scripts import options_in
from .streams import is_read
from .terminal import put

STEP = re.compile(r"^step (?P<step>[0-9]{1,15})/(?P<total>[0-9]{1,15})  (?P<rest>.*?)(?:  eta (?P<eta>\S+))?$")


def run_command(arguments: Arguments) -> int:
    """Compile, submit, follow. Exit status: that of the run (D13)."""
    if arguments.multirun:
        because = "it starts and follows a single run"
        hint = "jobc -m … compiles all points; start each with its submit.sh"
        raise CompileError([Diagnostic("JC1110", "jobc run does not accept -m", because, hint)])
    compiled = compile_job(request(arguments))
    report([*compiled.diagnostics, *beside(compiled, arguments.out)])
    target = write_job(compiled, arguments.out, arguments.force)
    put(f"compiled {show(target)}", flush=True)
    script = target.absolute() / "submit.sh"
    options = options_in(text_of(script))  # some backends wait by themselves, some never do
    words = [str(script), *(option for option in ["--detach" if arguments.detach else "--wait"] if option in options)]
    return subprocess.run(words, check=False).returncode if arguments.detach else follow(words)


def watch_command(arguments: Arguments) -> int:
    """jobc watch DIR [--run ID]: the log of a run with its live line, from its beginning."""
    directory, words = _artifact("watch", arguments)
    return follow([str(directory / "logs.sh"), *words, "--follow"])


def verb_command(arguments: Arguments) -> int:
    """jobc VERB DIR …: DIR/VERB.sh with the words that follow. Replaces this process."""
    directory, words = _artifact(arguments.command, arguments)
    script = directory / f"{arguments.command}.sh"
    os.execv(script, [str(script), *words])


def follow(words: list[str]) -> int:
    """Run a program; its step lines become one live line on a terminal. Signals reach it; gives its exit status.

    Without a reader it ends: nobody follows any more.
    """
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def forward(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)  # the supervisor takes repeats within 5 s as one

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, forward)
    assert process.stdout is not None
    lines = (line.decode("utf-8", "replace").rstrip("\n") for line in process.stdout)
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        _show_live(lines)
    else:
        for line in lines:
            print(line, flush=True)
            if not is_read(sys.stdout):
                return NO_READER
    status = process.wait()
    return 128 - status if status < 0 else status


def _show_live(lines: Iterable[str]) -> None:
    """Step lines move a bar at the foot of the screen, everything else scrolls above it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(highlight=False)
    columns = ("step {task.completed:.0f}/{task.total:.0f}", "{task.fields[rest]}", "eta {task.fields[eta]}")
    bar = Progress(BarColumn(bar_width=24), *(TextColumn(c, markup=False) for c in columns), console=console)
    with bar:
        task: Any = None
        for line in lines:
            match = STEP.match(line)
            if match is None or "val " in match["rest"]:
                console.print(line, markup=False, soft_wrap=True)
                continue
            if task is None:
                task = bar.add_task("", total=int(match["total"]), rest="", eta="")
            bar.update(task, completed=int(match["step"]), rest=match["rest"], eta=match["eta"] or "-")


def _artifact(command: str, arguments: Arguments) -> tuple[Path, list[str]]:
    """The artifact directory that the first word names, and the other words."""
    words: Iterator[str] = iter(arguments.words)
    first = next(words, None)
    example = f"jobc {command} artifacts/hello/local"
    if first is None:
        because = "it runs a script from an artifact directory"
        raise CompileError([Diagnostic("JC1110", f"jobc {command} needs a directory", because, example)])
    directory = _of_run(Path(first).absolute())
    if not (directory / MANIFEST).is_file():
        raise no_artifact(Path(first), f"jobc {command}")
    return directory, [*words, *(("--", *arguments.rest) if arguments.rest is not None else ())]


def _of_run(folder: Path) -> Path:
    """The newest copy of the artifact in a run folder, whose scripts are about that run; any other folder as it is."""
    copies = [copy for copy in folder.glob("artifact/*") if copy.name.isdecimal() and (copy / MANIFEST).is_file()]
    return max(copies, key=lambda copy: int(copy.name), default=folder)


COMMANDS: dict[str, Callable[[Arguments], int]] = {
    "run": run_command,
    "watch": watch_command,
    **dict.fromkeys(SCRIPTS, verb_command),
}
