"""`jobc --help` and `jobc VERB --help`, for newcomers. Does not import Hydra.

The options of jobctl's verbs differ between backends, because engines define some of them.
"""

import argparse
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...runtime.engines.engine import Engine, Job
from ..plugins.registry import PACKAGE, Plugin, find_plugins
from .arguments import COMMANDS, USAGE, VERBS, Arguments, described_options
from .completion import find_group_options
from .terminal import print_text

_INTRO = """\
jobc compiles one job spec into launch files for a backend. The job then runs without jobc.

  jobc name=hello procs=2                        compile for this machine, into artifacts/hello/local/
  artifacts/hello/local/jobctl submit            start it
  jobc run name=hello procs=2                    compile, start and follow
  jobc procs=2 time=12h -- train.py --lr 0.1     your own program
  jobc -m procs=1,2 optim.lr=1e-3,3e-3           every combination, in one directory
"""


INIT_OPTIONS = """
  NAME        name of the profile, for cluster=NAME; default: the cluster's name in Slurm
  KEY=VALUE   a setting of the profile: hosts=node[1-4], queue.account=abc, python=venv, python.path=/shared/venv
  --project   write to ./jobc/cluster/, for everyone on this project, instead of ~/.config/jobc/cluster/
  --force     overwrite an existing profile"""


def show_help(arguments: Arguments) -> int:
    if arguments.command not in ("compile", "help"):
        return _show_command(arguments.command)
    print_text(f"{_INTRO}\n")
    print_text("commands (the first word without `=`):")
    for name, text in COMMANDS.items():
        if text:
            print_text(f"  {name:<12} {text}")
    print_text("\noptions:")
    _show_options()
    print_text("\ngroups (group=option):")
    for group, options in sorted(find_group_options().items()):
        print_text(f"  {group:<12} {', '.join(sorted(set(options)))}")
    print_text("\neveryday keys (key=value; `jobc --cfg job` prints all):")
    for key, text in _everyday_keys():
        print_text(f"  {key:<12} {text}")
    print_text("\nvalues: 12h, 64GiB, 1e-3, node[1-4]; null unsets a key")
    print_text("put your own config files into ./jobc or ~/.config/jobc; config.yaml there applies to every job")
    return 0


def _show_command(command: str) -> int:
    print_text(f"usage: jobc {command} {USAGE.get(command, '')}".rstrip())
    if command in VERBS:
        print_text(f"\nruns DIR/jobctl {command}")
        _show_verb_options(command)
    else:
        print_text(f"\n{COMMANDS[command].partition(': jobc')[0]}")
    if command == "init":
        print_text(INIT_OPTIONS)
    if command == "ls":
        from .ls import OPTIONS

        for option, text in OPTIONS.items():
            print_text(f"  {option:<18} {text}")
    if command == "watch":
        _show_verb_options("logs")
    if command in ("check", "run"):
        print_text("\noptions:")
        _show_options()
        print_text("\njobc --help lists groups and keys")
    return 0


def _show_verb_options(verb: str) -> None:
    """Print a verb's options for every backend, because no artifact was given."""
    if options := options_of_verb(verb):
        print_text(f"\noptions, if the backend supports them; `jobc {verb} DIR --help` shows those of one artifact:")
    for option, text in options.items():
        print_text(f"  {option:<18} {text}")


def _show_options() -> None:
    for names, text in described_options():
        print_text(f"  {', '.join(names):<22} {text}")


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
