"""Print an artifact's job, the verbs, the job's exit codes, and the settings that were ignored."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from ..engines.artifact_location import Place
from ..exit_codes import CRASHED, DATA_BROKEN, DONE, INTERRUPTED, MEANING, PEER_LOST, PREEMPTED, RENDEZVOUS_FAILED
from ..system.command_line import HELP_WIDTH, run_verb
from ..system.text import count_with_noun, one_line, printable

RESUME = "jobctl submit --resume RUN_ID"
NEXT_STEP = {
    DONE: "also after jobctl stop",
    CRASHED: f"next: jobctl logs, then {RESUME} if there is a checkpoint",
    DATA_BROKEN: "next: jobctl preflight",
    PEER_LOST: f"next: {RESUME}",
    RENDEZVOUS_FAILED: "next: jobctl smoke",
    PREEMPTED: f"next: {RESUME}",
    INTERRUPTED: "the run stays stopped",
}


def main(verbs: Sequence[str]) -> int:
    """Print the help and return the exit code. verbs: names of all verbs, in order"""
    return run_verb(lambda _: _print_help(Place.of_this_program(), verbs), [])


def _print_help(place: Place, verbs: Sequence[str]) -> int:
    for line in (
        *_describe_job(place),
        *_describe_verbs(place, verbs),
        *_exit_code_lines(),
        *_ignored_setting_lines(place),
    ):
        print("\n".join(_wrap_line(printable(line))))
    return 0


def _wrap_line(line: str) -> list[str]:
    """Wrap a line, and indent the rest like the text after its label, such as `runs:     `."""
    label = re.match(" *[^ ]+ {2,}|", line)
    indent = " " * (label.end() if label else 0)
    return textwrap.wrap(
        line, HELP_WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ) or [""]


def _describe_job(place: Place) -> Iterator[str]:
    job, settings = place.job, place.settings
    yield f"jobctl: job {job.name} on backend {job.backend}"
    yield ""
    if place.is_sweep:
        from ..run_folder.points_file import read_points  # only in a sweep's jobctl

        yield f"points:   {len(read_points(place.artifact).points)}, in points.json; the files here are for point 0"
    yield f"size:     {_describe_size(settings)}"
    runs = f"{_runs_location(place)}/RUN_ID"
    yield f"runs:     {runs}; a run uses its own copy of this folder, so later edits do not affect it"
    if isinstance(node := settings.get("node"), dict) and node.get("uses_trainer"):
        yield "results:  metrics/, checkpoints/ and final/ of the run; jobc_trainer.export.load() reads final/"


def _describe_size(settings: dict[str, Any]) -> str:
    nodes, gpus, node = settings.get("nodes", 1), settings.get("gpus", 0), settings.get("node") or {}
    procs = node.get("procs", 1)
    processes = f"{procs} process{'' if procs == 1 else 'es'}"
    counts = f"{count_with_noun(nodes, 'node')} × {processes}, {count_with_noun(gpus, 'GPU')} per node"
    return f"{counts}: world size {nodes * procs}"


def _runs_location(place: Place) -> str:
    root = str(place.settings["runs"])
    return f"{root}/{place.job.name}" if "://" in root else str(place.job.runs)


def _describe_verbs(place: Place, verbs: Sequence[str]) -> Iterator[str]:
    engine = place.engine()
    yield from ("", "usage: jobctl VERB [OPTION…]", "")
    for verb in verbs:
        if verb != "prefetch" or place.settings.get("prefetch"):
            yield f"  {verb:<10} {import_module(f'.{verb}', __package__).parser(engine).description}"
    yield from ("", "`jobctl VERB --help` explains the options of a verb.")


def _exit_code_lines() -> Iterator[str]:
    yield from ("", "exit codes of the job:", "")
    for code, step in NEXT_STEP.items():
        yield f"  {code:<4} {MEANING[code]}; {step}"


def _ignored_setting_lines(place: Place) -> Iterator[str]:
    ignored = place.settings.get("ignored") or []
    if ignored:
        yield from ("", f"ignored, because backend {place.job.backend} does not support it:", "")
    for setting in ignored:
        yield f"  {one_line(str(setting))}"
