"""`jobc --help` and `jobc VERB --help`, for newcomers. Does not import Hydra.

The options of jobctl's verbs differ between backends, because engines define some of them.
"""

import argparse
import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...runtime.engines.engine import Engine, Job
from ..plugins.registry import PACKAGE, Plugin, find_plugins
from .arguments import COMMANDS, TAKES_ARGUMENTS, USAGE, VERBS, Arguments, described_options
from .completion import find_group_options
from .terminal import print_text

LEAST_WIDTH = 40  # narrower terminals wrap the lines themselves
_INTRO = """\
jobc compiles one job spec into launch files for a backend. The job then runs
without jobc.

  jobc run -- train.py --lr 0.1            compile, start and follow your script
  jobc name=hello procs=2 -- train.py      compile into artifacts/hello/local/
  artifacts/hello/local/jobctl submit      start what was compiled
  jobc -m env.LR=0.1,0.2 -- train.py       every combination, in one directory
  jobc run name=example procs=2            train the bundled example model
"""


INIT_OPTIONS = {
    "NAME": "name of the profile, for cluster=NAME; default: the cluster's name in Slurm",
    "KEY=VALUE": "a setting of the profile: hosts=node[1-4], queue.account=abc, python=venv, python.path=/shared/venv",
    "--project": "write to ./jobc/cluster/, for everyone on this project, instead of ~/.config/jobc/cluster/",
    "--force": "overwrite an existing profile",
}


def show_help(arguments: Arguments) -> int:
    if arguments.command != "help":
        return _show_command(arguments.command)
    print_text(f"{_INTRO}\n")
    print_text("commands (the first word without `=`):")
    _print_rows(((name, text) for name, text in COMMANDS.items() if text), 12)
    print_text("\noptions:")
    _show_options()
    print_text("\ngroups (group=option):")
    groups = sorted(find_group_options().items())
    _print_rows(((group, ", ".join(sorted(set(options)))) for group, options in groups), 12)
    print_text("\neveryday keys (key=value; `jobc --cfg job` prints all):")
    _print_rows(_everyday_keys(), 12)
    print_text("\nvalues: 12h, 64GiB, 1e-3, node[1-4]; null unsets a key")
    print_text("put your own config files into ./jobc or ~/.config/jobc;\nconfig.yaml there applies to every job")
    return 0


def _show_command(command: str) -> int:
    _print_wrapped(USAGE.get(command, ""), f"usage: jobc {command} ", 12)
    if command in VERBS:
        print_text(f"\nruns DIR/jobctl {command}")
        _show_verb_options(command)
    else:
        print_text(f"\n{COMMANDS[command].partition(': jobc')[0]}")
    if command == "init":
        print_text("\noptions:")
        _print_rows(INIT_OPTIONS.items(), 11)
    if command == "ls":
        from .ls import OPTIONS

        print_text("\noptions:")
        _print_rows(OPTIONS.items(), 18)
    if command == "watch":
        _show_verb_options("logs")
    if command not in TAKES_ARGUMENTS:
        print_text("\noptions:")
        _show_options()
        print_text("\njobc --help lists groups and keys")
    return 0


def _print_rows(rows: Iterable[tuple[str, str]], width: int) -> None:
    """Print names in a column of that width, each with its text, which is wrapped to the terminal's width."""
    for name, text in rows:
        _print_wrapped(text, f"  {name:<{width}} ", width + 3)


def _print_wrapped(text: str, start: str, indent: int) -> None:
    columns = max(LEAST_WIDTH, shutil.get_terminal_size().columns)
    wrapped = textwrap.wrap(
        text,
        columns,
        initial_indent=start,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    print_text("\n".join(wrapped) or start.rstrip())


def _show_verb_options(verb: str) -> None:
    """Print a verb's options for every backend, because no artifact was given."""
    if options := options_of_verb(verb):
        print_text(f"\noptions, if the backend supports them (`jobc {verb} DIR --help` shows which):")
    _print_rows(options.items(), 18)


def _show_options() -> None:
    _print_rows(((", ".join(names), text) for names, text in described_options()), 22)


def _everyday_keys() -> list[tuple[str, str]]:
    """Return (key, comment) from the first block of conf/config.yaml, which documents the everyday keys."""
    text = (PACKAGE / "conf" / "config.yaml").read_text(encoding="utf-8")
    block = text.split("everyday keys")[1].split("# ----")[0]
    rows = re.findall(r"^(\w+): *(\S+) +# (.*)$", block, re.MULTILINE)
    return [(key, meaning if default in ("[]", "{}") else f"{meaning} [{default}]") for key, default, meaning in rows]


def options_of_verb(verb: str) -> dict[str, str]:
    """Return option (such as `--run ID`) -> description, over all installed backends."""
    options: dict[str, str] = {}
    for plugin in find_plugins().values():
        for option, text in options_of_backend_verb(plugin, verb).items():
            options.setdefault(option, text)
    return options


def options_of_backend_verb(plugin: Plugin, verb: str) -> dict[str, str]:
    module: Any = import_module(f"...runtime.verbs.{verb}", __package__)
    return dict(_describe_options(module.parser(_load_engine(plugin))))


def _load_engine(plugin: Plugin) -> Engine:
    job = Job("job", Path("/nonexistent"), Path("/nonexistent"), {})
    name = f"{type(plugin.load()).__module__.rpartition('.')[0]}.engine"
    if find_spec(name) is None:
        return Engine(job)
    engine: Engine = import_module(name).ENGINE(job)
    return engine


def _describe_options(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        text = action.help or ""
        if text == argparse.SUPPRESS or "--help" in action.option_strings:
            continue
        value = f" {action.metavar}" if action.nargs != 0 and action.option_strings else ""
        name = action.option_strings[0] if action.option_strings else str(action.metavar)
        yield f"{name}{value}", text
