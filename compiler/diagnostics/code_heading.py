"""First line of the page of a diagnostic code, `# CODE name: title`, such as `# JC3011 taken-port: a port that …`.

The name of a code is written there and nowhere else. It stands for the code in `# jobc: allow` comments and in
`jobc explain`. A plugin's page without a name (`# CODE: title`) is read as well; its code has no other word then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

NAME = r"[a-z0-9]+(?:-[a-z0-9]+)+"  # two words at least, so that no word of an allow comment is taken for a name
LONGEST = 25  # characters of a name
_HEADING = re.compile(rf"# [A-Z]+\d+(?: ({NAME}))?: (.+)")


@dataclass(frozen=True)
class Heading:
    """name: "" when the page has none."""

    name: str
    title: str


def read_heading(page: Path) -> Heading:
    """Return the name and title of the code whose page this is."""
    with page.open(encoding="utf-8", errors="replace") as file:
        line = file.readline().rstrip()
    heading = _HEADING.fullmatch(line)
    return Heading(heading[1] or "", heading[2]) if heading else Heading("", line.lstrip("# "))
