"""Read the options of an artifact's scripts from the comment at the top of each.

Scripts differ between backends, so the command line does not define these options itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..plugins.registry import PACKAGE, find_plugins

OPTION = re.compile(r"#   (--\S+(?: [A-Z]+)?|--|[A-Z]+)  +(\S.*)")  # a word in capitals is an argument


def options_in(script: str) -> dict[str, str]:
    """Return option -> description, such as `--run ID`, from the text of a script or of its template."""
    options: dict[str, str] = {}
    lines = script.split("\n# usage: ", 1)[-1].split("\n")
    last = ""
    for line in lines[1:]:
        if line.startswith("{%"):  # a template's condition: all branches count
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
    """Yield the templates with that name: the common ones, then those of each backend."""
    for folder in (PACKAGE / "compiler", *(plugin.folder for plugin in find_plugins().values())):
        yield from sorted((folder / "templates").rglob(name))
