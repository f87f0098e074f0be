"""What is wrong with a line of bash by itself, whatever the plan says.

In   one line of an emitted script
Out  what is wrong, in words: a message that names another thing than the command does, a filter that prints what it
     should not, a folder below folders that may not be there
"""

from __future__ import annotations

import re
from collections.abc import Iterator

NAMES = re.compile(r"\$\{?([A-Za-z_]\w*)")


def mistakes_in_line(line: str) -> Iterator[str]:
    if re.search(r"\brun \$\(basename -- \"\$(artifact|project|here|own_run)\"\)", line):
        yield "a run is named by another folder than its own"
    if found := re.match(r"\s*try \"([^\"]*)\" (.*)", line):
        for name in NAMES.findall(found[1]):
            if name not in NAMES.findall(found[2]):
                yield f"try tells of ${name}, and the command has nothing to do with it"
    if found := re.match(r"\s*if \(\((\w+) != (\w+)\)\); then die \d+ \"([^\"]*)\"", line):
        for name in sorted({found[1], found[2]} - set(NAMES.findall(found[3]))):
            yield f"{name} is compared, and what is told of it is another thing"
    if re.search(r"\bif (! )?grep (?!-\w*q)", line):
        yield "grep in a condition prints what it finds; -q does not"
    if re.search(r"\bsed (-E )?'[^']*/p'", line):
        yield "sed prints each line as well, and those that it changes twice; -n prints these alone"
    if re.search(r"\bmkdir (?!-)(-- )?\"?\$\{?run\}?/\w+/|\bmkdir -- \"?\$\{?run\}?/\w+/", line):
        yield "mkdir makes a folder below one that may not be there; -p makes both"
