"""Options of jobctl's verbs, which differ between backends because engines define some of them."""

import argparse
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...runtime.engines.engine import Engine, Job
from ..plugins.registry import Plugin, find_plugins


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
