"""What of a line of bash is code: text in quotes may look like a command, and is none.

In   a line
Out  the same line, as long as before, with `_` for each sign of text in quotes; `$(…)` in double quotes stays, and so
     does what `trap` is to run
"""

from __future__ import annotations

import re

_NEXT = {  # what comes next, by what it stands in
    "(": re.compile(r"\\.|'[^']*'|[^\\'\"()]+|."),
    '"': re.compile(r"\\.|\$\(|[^\\$\"]+|."),
}


def code_of(line: str) -> str:
    around, shown = ["("], ""
    while found := _NEXT[around[-1]].match(line, len(shown)):
        part = found[0]
        if around[-1] == '"' and part not in ('"', "$("):
            part = "_" * len(part)
        elif part.startswith("'") and not shown.endswith("trap "):
            part = f"'{'_' * (len(part) - 2)}'"[: len(part)]
        shown += part
        if part in ("(", "$(") or (part == '"' and around[-1] != '"'):
            around.append(part[-1])
        elif part == '"' or (part == ")" and len(around) > 1):
            around.pop()
    return shown
