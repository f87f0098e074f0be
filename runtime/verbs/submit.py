"""Start a job as a new run, or as a run's next attempt.

In:    options, then optionally `--` and arguments for the user's command.
Exit:  the job's exit code, or 0 once it is queued or in the background, 2 for an invalid option, or 65 if it cannot
       start.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from ..engines.artifact_location import Place
from ..engines.engine import Engine
from ..engines.new_run import create_next_attempt, create_run
from ..engines.run_to_continue import find_run_to_continue
from ..engines.starting_engine import (
    StartingEngine,
    copy_user_code,
    starting_engine,
    warn_of_changed_code,
    warn_of_edited_files,
)
from ..run_folder.submitted_values import NO_VALUES, VARIABLE, SubmittedValues, checked_values
from ..system.command_line import Parser
from ..system.failure import Failure
from ..system.values import read_keys


def main(argv: list[str]) -> int:
    for name in ("JOBC_INIT_FROM", VARIABLE):  # inherited; only --fork, and --env and arguments, may set them
        os.environ.pop(name, None)
    place = Place.of_this_program()
    words, arguments = split_arguments(argv)
    if place.is_sweep:
        from .submit_sweep import submit_sweep  # submit_sweep imports this module

        return submit_sweep(place, words, arguments)
    engine = starting_engine(place)
    options = _parse_arguments(words, place, engine)
    warn_of_edited_files(place)
    return start_attempt(place, engine, options, arguments)


def start_attempt(
    place: Place,
    engine: StartingEngine,
    options: argparse.Namespace,
    arguments: Sequence[str],
    is_temporary: bool = False,
) -> int:
    """Start a run, or a run's next attempt, and return submit's exit code.

    arguments: appended to the user's command.
    is_temporary: whether the artifact is a temporary one for a sweep's point, not needed once the run has its own copy.
    """
    values = submitted_values(engine, options, arguments)
    if (code := engine.check_before_start(options)) is not None:
        return code
    run = find_run_to_continue(place, engine, options.resume) if options.resume else None
    engine.require_startable(run)
    if run is not None:
        new = create_next_attempt(place, engine, run, options.new_code)
        init_from = read_keys(run.path / "state/run").get("init_from", "")
    else:
        init_from = _fork_origin(place, engine, options.fork) if options.fork else ""
        new = create_run(place, engine, options.run_id)
    with new:
        if run is None or options.new_code:
            copy_user_code(place, engine, new)
        else:
            warn_of_changed_code(place, run)
        if run is None:
            new.write_description(init_from, values)
        if is_temporary:
            engine.job.artifact = new.artifact
            shutil.rmtree(place.artifact.parent)  # engine.start() may exec the job
        return engine.start(new, init_from, options)


def _fork_origin(place: Place, engine: Engine, named: str) -> str:
    """Return the path of the run from which to fork. Warn if it has no checkpoint, which the trainer reports itself."""
    run, node = place.choose_run(named), place.settings.get("node")
    is_script = not (isinstance(node, dict) and node.get("uses_trainer"))
    is_known = engine.has_files_here and not os.path.lexists(run.path / "state/mirror")
    if is_script and is_known and not any(run.path.glob("checkpoints/step_*")):
        effect = "the new run starts from scratch, unless your script reads JOBC_INIT_FROM, that run's folder"
        print(f"warning: run {run.id} has no checkpoint of jobc: {effect}", file=sys.stderr)
    return str(run.path)


def parser(engine: Engine) -> Parser:
    end = (
        "Arguments after -- are appended to your command. --resume repeats these arguments and --env; --fork does not."
        " Both are recorded in the run folder, and on Kubernetes and SkyPilot also in the Job or the task."
    )
    words = Parser("submit", "Start the job as a new run, or as the next attempt of a run.", end)
    text = "resume that run; model, data, seed, optimizer and batch must not change"
    words.add_argument("--resume", metavar="ID", default="", help=text)
    words.set_defaults(new_code=False)
    if engine.can_replace_code:
        text = "with --resume: copy your code again; by default, the run keeps the code from its first start"
        words.add_argument("--new-code", action="store_true", help=text)
    text = (
        "start a new run from that run's newest checkpoint; your own script finds that run's folder in JOBC_INIT_FROM"
    )
    words.add_argument("--fork", metavar="ID", default="", help=text)
    text = "ID of the new run; default: date, time and four random digits"
    words.add_argument("--run-id", metavar="ID", default="", help=text)
    text = "set a variable of the ranks for this run; not for secrets, because values are recorded"
    how: dict[str, Any] = {"metavar": "NAME=VALUE", "action": "append", "default": []}
    words.add_argument("--env", help=text, **how)
    if isinstance(engine, StartingEngine):
        engine.add_submit_options(words)
    return words


def _parse_arguments(argv: list[str], place: Place, engine: StartingEngine) -> argparse.Namespace:
    options = parser(engine).parse_args(argv)
    require_consistent_options(options, place.own_run is not None)
    if place.own_run is not None and not (options.fork or options.run_id):
        options.resume = options.resume or str(place.own_run.path)
    return options


def split_arguments(argv: list[str]) -> tuple[list[str], list[str]]:
    """Return the options, and the arguments for the user's command after `--`."""
    end = argv.index("--") if "--" in argv else len(argv)
    return argv[:end], argv[end + 1 :]


def submitted_values(engine: StartingEngine, options: argparse.Namespace, arguments: Sequence[str]) -> SubmittedValues:
    """Return the values for a new run. Raises Failure if the run cannot use them."""
    if not arguments and not options.env:
        return NO_VALUES
    if options.resume:
        given = "--env" if options.env else "arguments after --"
        why = f"{given} cannot be given for an existing run, which repeats the values of its first submit"
        raise Failure(
            why, "jobctl submit without --resume starts a new run; with --fork, from that run's checkpoint", 2
        )
    node = engine.job.settings.get("node")
    return checked_values(options.env, arguments, node if isinstance(node, dict) else {})


def require_consistent_options(options: argparse.Namespace, is_own_run: bool = False) -> None:
    """Raise Failure for options that exclude each other. is_own_run: whether the artifact is a run's copy"""
    if options.resume and (options.fork or options.run_id):
        raise Failure("--resume continues a run; --fork and --run-id create a new one", code=2)
    if options.new_code and not (options.resume or is_own_run):
        raise Failure("--new-code needs --resume: a new run has the current code", code=2)
