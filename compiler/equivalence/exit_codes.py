"""What a script says by the codes that it ends with, held against what they mean.

In   the lines of an emitted script, those of comments empty
Out  (number of the line, what is wrong): a code that means nothing; 2 where no command line is wrong
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...trainer.rt.exit_codes import MEANING

EXIT_CODES = {*MEANING, 2, 3, 4, 124, 137, 143}  # 2: a wrong command line, as bash and getopt have it
SYSEXITS = range(64, 79)  # of sysexits.h, which jobc's own are of
OF_JOB = EXIT_CODES - {2, 3, 4}
ENDS = r"(?:^|[;|&{(]|(?<=\w)\) |\*\) |\b(?:then|do|else)\b)\s*(die|fail|exit|leave) (\d+)\b"
COMPARED = r"\bcode (?:==|!=) (\d+)\b|(?:\$(?:code|1)|\$\((?:run_code|key) [^)]*(?:\$run|exit)\"?\)) == (\d+) \]\]"
NAMES = re.compile(r"\$\{?#?([A-Za-z_]\w*|[1-9@*#])|\(\(\s*!?([a-z_]\w*)")


def wrong_codes(lines: Sequence[str], is_program: bool) -> Iterator[tuple[int, str]]:
    """is_program: it reads a command line, and may find it wrong."""
    for at, line in enumerate(lines):
        for found in re.finditer(ENDS, line):
            if int(found[2]) not in (EXIT_CODES if found[1] == "exit" else {2, *OF_JOB}):
                yield at + 1, f"{found[1]} {found[2]}: no such exit code means anything to jobc"
            elif found[2] == "2" and not is_program:
                yield at + 1, f"{found[1]} 2 says that the command line is wrong, and this file reads none"
            elif found[2] == "2" and (found[1] != "die" or not _is_about_words(lines, at, found.start(1))):
                yield (
                    at + 1,
                    f"{found[1]} 2 says that the command line is wrong, and this asks another thing",
                )
        for found in re.finditer(r"\b(code|status|ends_with|worst|lacks)=(\d+)(?=[\s;'\"}]|$)", line):
            if int(found[2]) not in EXIT_CODES - {2}:  # which `die 2` gives, at once
                yield at + 1, f"{found[1]}={found[2]}: a job never ends with that exit code"
        for number in (*_of_arm(lines, at), *re.findall(r"\bthen echo (\d+);", line)):
            if int(number) in SYSEXITS and int(number) not in OF_JOB:
                yield at + 1, f"{number} is no exit code of a job"
        for found in re.finditer(r"\breturn (\d+)\b", line):
            if int(found[1]) not in OF_JOB:
                yield at + 1, f"return {found[1]}: a function returns 0, 1 or the code of a job"
        for found in re.finditer(COMPARED, line):
            said = int(found[1] or found[2])
            if said not in OF_JOB:
                yield at + 1, f"the code of a job is compared with {said}, and none ends so"
            elif said == 1:
                yield at + 1, "the code of a job is compared with 1, and most failures have another one"


def _of_arm(lines: Sequence[str], at: int) -> list[str]:
    """`69 | 75) …`: the codes of an arm of a `case` that is about codes."""
    arm = re.match(r"\s*(\d+(?: \| \d+)*)\) ", lines[at])
    head = next((line for line in reversed(lines[:at]) if arm and re.match(r"\s*case ", line)), "")
    return arm[1].split(" | ") if arm and re.search(r"code|status|exit", head) else []


def _is_about_words(lines: Sequence[str], at: int, column: int) -> bool:
    """What is asked before `die 2` is a word of the command line, or a variable that the caller sets; it alone, or the
    message names it."""
    asked = _asked(lines, at, column)
    names = {one or other for one, other in NAMES.findall(asked)}
    words = _of_command_line(lines)
    mine = {name for name in names if name in words or name.isupper() or not name[0].isalpha()}
    told = {one or other for one, other in NAMES.findall(lines[at][column:].split("' '")[0])}
    return bool(mine) and (mine == names or bool(mine & told))


def _asked(lines: Sequence[str], at: int, column: int) -> str:
    """The condition: what stands before it, else the head of what encloses it."""
    before = lines[at][:column].strip()
    if re.fullmatch(r"[^()$]*\)", before):  # an arm of a case
        return next((line for line in reversed(lines[:at]) if re.match(r"\s*case ", line)), "")
    if before:
        return before
    indent = len(lines[at]) - len(lines[at].lstrip())
    around = (line for line in reversed(lines[:at]) if line.strip() and len(line) - len(line.lstrip()) < indent)
    return next(around, "")


def _of_command_line(lines: Sequence[str]) -> frozenset[str]:
    """Variables that options and arguments of the script are read into; own_run: of which run this is the copy."""
    found = {"own_run"}
    for line in lines:
        if re.match(r"    [-*][\w -|]*\) ", line):
            found |= set(re.findall(r"\b([a-z_]\w*)=", line))
        found |= set(re.findall(r"\b([a-z_]\w*)=\"?\$\{?[1-9]\b", line))
    return frozenset(found)
