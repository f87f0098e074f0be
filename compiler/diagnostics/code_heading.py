"""Parse the first line of a code's page, `# CODE name: title`, such as `# JC3011 taken-port: a port that …`.

A code's name is defined only there. `# jobc: allow` comments and `jobc explain` accept it in place of the code.
A plugin's page may omit the name (`# CODE: title`).
"""

import re
from pathlib import Path
from typing import NamedTuple

NAME = r"[a-z0-9]+(?:-[a-z0-9]+)+"  # at least two words, so that no single word in an allow comment can be a name
LONGEST = 25  # characters in a name
_HEADING = re.compile(rf"# [A-Z]+\d+(?: ({NAME}))?: (.+)")


class CodePageHeading(NamedTuple):
    name: str  # "" if the page has none
    title: str


def read_code_page_heading(page: Path) -> CodePageHeading:
    with page.open(encoding="utf-8", errors="replace") as file:
        line = file.readline().rstrip()
    heading = _HEADING.fullmatch(line)
    return CodePageHeading(heading[1] or "", heading[2]) if heading else CodePageHeading("", line.lstrip("# "))
