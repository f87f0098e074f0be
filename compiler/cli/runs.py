"""Commands about runs. `run` and `watch` follow a run and show its progress on a live line; the other verbs call the
artifact's jobctl.

The artifact contains everything that a run needs; these commands are only shortcuts.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator, Sequence
from io import BufferedReader
from itertools import chain, pairwise
from pathlib import Path
from types import FrameType
from typing import Any, cast

from ...runtime.system.untrusted_files import parse_json
from ..diagnostics.diagnostic import CompileError, Diagnostic
from ..emit.artifact import PROGRAM
from .arguments import Arguments
from .find_artifacts import find_named_artifacts, move_names_first
from .reporting import NO_READER, report_diagnostics
from .terminal import has_reader, print_json, print_lines

EXAMPLE_CHOICES = {"experiment", "task", "model", "data", "recipe"}  # overrides that choose what to train
FIRST_STEP = re.compile(rb"^step [0-9]{1,15}/[0-9]{1,15}  ", re.MULTILINE)
STEP = re.compile(r"^step (?P<step>[0-9]{1,15})/(?P<total>[0-9]{1,15})  (?P<rest>.*?)(?:  eta (?P<eta>\S+))?$")


def run_command(arguments: Arguments) -> int:
    """Compile, submit and follow. Returns the run's exit code (D13)."""
    # imported here, because the other commands do not compile
    from ..pipeline.compile import compile_job, write_compiled_job
    from ..plugins.registry import find_plugin
    from .compiling import build_request, check_output_folder, display_path
    from .help import options_of_backend_verb

    if arguments.multirun:
        because = "jobc run starts and follows a single run"
        hint = "jobc -m … compiles all points, and jobctl submit in the sweep's directory starts them"
        raise CompileError([Diagnostic("JC1110", "jobc run does not accept -m", because, hint)])
    compiled = compile_job(build_request(arguments))
    report_diagnostics([*compiled.diagnostics, *check_output_folder(compiled, arguments.out)])
    target = write_compiled_job(compiled, arguments.out, arguments.force)
    print_lines(f"compiled {display_path(target)}", *_example_note(compiled.plan.uses_trainer, arguments), flush=True)
    # not all backends can choose to wait
    options = options_of_backend_verb(find_plugin(compiled.backend.name), "submit")
    wait = "--detach" if arguments.detach else "--wait"
    words = [str(target.absolute() / PROGRAM), "submit", *([wait] if wait in options else [])]
    return subprocess.run(words, check=False).returncode if arguments.detach else run_forwarding_signals(words)


def _example_note(uses_trainer: bool, arguments: Arguments) -> list[str]:
    """Return a line that says that the run trains the bundled example, if the user chose nothing else."""
    chosen = {word.lstrip("+~").partition("=")[0].partition(".")[0] for word in arguments.words}
    if not uses_trainer or chosen & EXAMPLE_CHOICES or arguments.config_name != "config":
        return []
    return ["training the bundled example model; to run your own program: jobc run -- train.py"]


def watch_command(arguments: Arguments) -> int:
    """Run jobc watch DIR [--run ID]: print a run's log from its beginning, with a live line."""
    directories, words = find_named_artifacts("watch", move_names_first("watch", arguments.words))
    if len(directories) > 1:
        raise _single_run_error("jobc watch follows", "watch", directories[0])
    return run_forwarding_signals([str(directories[0] / PROGRAM), "logs", *words, "--follow"])


def verb_command(arguments: Arguments) -> int:
    """Run jobc VERB DIR …: call DIR/jobctl VERB with the other words, with exec if there is a single DIR."""
    names = move_names_first(arguments.command, arguments.words)
    directories, words = find_named_artifacts(arguments.command, names)
    words += ("--", *arguments.rest) if arguments.rest is not None else ()
    commands = [[str(directory / PROGRAM), arguments.command, *words] for directory in directories]
    if len(commands) == 1:
        os.execv(commands[0][0], commands[0])
    if {"--follow", "-f"} & {*words}:
        raise _single_run_error("--follow follows", "logs --follow", directories[0])
    if "--format=json" in words or ("--format", "json") in pairwise(words):
        return _print_one_document(commands)
    code = 0
    for word, command in zip(names, commands, strict=False):
        print_lines(f"==> {word} <==", flush=True)
        code = max(code, subprocess.run(command, check=False).returncode)
    return code


def _print_one_document(commands: Sequence[Sequence[str]]) -> int:
    """Print the JSON of several commands as one document, whose `runs` lists them. Return the largest exit code."""
    code, schema, runs = 0, None, []
    for command in commands:
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
        code = max(code, done.returncode)
        document = parse_json(Path(command[0]), done.stdout) if done.stdout else {"runs": []}
        schema = document.pop("schema", schema)
        runs += document.get("runs", [document])
    print_json({"schema": schema, "runs": runs})
    return code


def _single_run_error(what: str, command: str, directory: Path) -> CompileError:
    hint = shlex.join(["jobc", command.split()[0], str(directory), *command.split()[1:]])
    return CompileError([Diagnostic("JC1110", f"{what} a single run", "several were specified", hint)])


def run_forwarding_signals(words: list[str]) -> int:
    """Run a program, forward signals to it, and return its exit code, or NO_READER if the reader of stdout has exited.

    On a terminal, its step lines are shown as one live line.
    """
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def forward_signal(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)  # the supervisor counts signals repeated within 5 s as one

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, forward_signal)
    output = cast(BufferedReader, process.stdout)
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        if start := _copy_to_first_step(output):
            _show_live(_decode_lines(chain((start + output.readline()).splitlines(), output)))
    else:
        for line in _decode_lines(output):
            print(line, flush=True)
            if not has_reader(sys.stdout):
                return NO_READER
    status = process.wait()
    return 128 - status if status < 0 else status


def _decode_lines(lines: Iterable[bytes]) -> Iterator[str]:
    return (line.decode("utf-8", "replace").rstrip("\n") for line in lines)


def _copy_to_first_step(output: BufferedReader) -> bytes:
    """Print output as it arrives, so that a program's own progress bars work, up to the trainer's first step line.

    Return what has been read of that line and of later ones, or b"" at the end of the output.
    """
    decoder = getincrementaldecoder("utf-8")("replace")
    while piece := output.read1():
        first_step = FIRST_STEP.search(piece)
        print(decoder.decode(piece[: first_step.start()] if first_step else piece), end="", flush=True)
        if first_step:
            return piece[first_step.start() :]
    return b""


def _show_live(lines: Iterable[str]) -> None:
    """Show step lines as a progress bar at the bottom of the screen; other lines scroll above it."""
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
