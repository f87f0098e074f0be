"""The options of the scripts of an artifact, read where they are written: in the comment at the top of each.

Backends differ in what their scripts can do, so the command line knows none of these options by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..plugins.registry import PACKAGE, find_plugins

OPTION = re.compile(r"#   (--\S+(?: [A-Z]+)?|--|[A-Z]+)  +(\S.*)")  # a word in capitals is an argument


def options_in(script: str) -> dict[str, str]:
    """`--run ID` -> what it does, from the text of a script or of its template."""
    options: dict[str, str] = {}
    lines = script.split("\n# usage: ", 1)[-1].split("\n")
    last = ""
    for line in lines[1:]:
        if line.startswith("{%"):  # a template's condition: all of its branches count
            continue
        if not line.startswith("#"):
            break
        if option := OPTION.match(line):
            last, options[option[1]] = option[1], option[2]
        elif last:
            options[last] += " " + line.lstrip("# ")
    return options


def options_of(verb: str) -> dict[str, str]:
    """Return the options of DIR/VERB.sh over all installed backends."""
    options: dict[str, str] = {}
    for template in templates(f"{verb}.sh.j2"):
        for option, text in options_in(template.read_text(encoding="utf-8")).items():
            options.setdefault(option, text)
    return options


def templates(name: str) -> Iterator[Path]:
    """Return the templates of that name: the common ones, then those of each backend."""
    for folder in (PACKAGE / "compiler", *(plugin.folder for plugin in find_plugins().values())):
        yield from sorted((folder / "templates").rglob(name))
