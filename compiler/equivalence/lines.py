"""What is wrong with a line of bash by itself, whatever the plan says.

In   one line of an emitted script
Out  what is wrong, in words: a message that names another thing than the command does, a filter that prints what it
     should not, a folder below folders that may not be there, words of a caller that are lost
"""

from __future__ import annotations

import re
from collections.abc import Iterator

NAMES = re.compile(r"\$\{?([A-Za-z_]\w*)")


def mistakes_in_line(line: str) -> Iterator[str]:
    if re.search(r"\brun \$\(basename -- \"\$own_run\"\)|basename -- \"\$\{?(artifact|project|here)\}?\"", line):
        yield "a run is named by another folder than its own"
    if found := re.search(r"\[\[ (?:.* )?-[nz] \"?\$\{?(artifact|rt|nodes|procs)\b", line):
        yield f"${found[1]} is never empty, so this asks nothing"
    if found := re.match(r"\s*try \"([^\"]*)\" (.*)", line):
        for name in NAMES.findall(found[1]):
            if name not in NAMES.findall(found[2]):
                yield f"try tells of ${name}, and the command has nothing to do with it"
    if found := re.match(r"\s*if \(\((\w+) != (\w+)\)\); then die \d+ \"([^\"]*)\"", line):
        for name in sorted({found[1], found[2]} - set(NAMES.findall(found[3]))):
            yield f"{name} is compared, and what is told of it is another thing"
    if re.fullmatch(r"\s*([^|&;]+?)( 2>/dev/null)? (\|\||&&) \1\s*", line):
        yield "a command stands for itself: what shall be done when it fails?"
    if re.search(r"\b(if|elif) (! )?grep (?!-\w*q)", line):
        yield "grep in a condition prints what it finds; -q does not"
    if re.search(r"\btry \"[^\"]*\" mkdir (?!-\w*p)", line):
        yield "mkdir fails where the folder is already; -p does not"
    if re.search(r"\(\((?:[^()]* )?(JOBC_NODES|nodes|procs|JOBC_PROCS) (== 0|!= 0|> 0)\b", line):
        yield "the number of nodes, or of ranks on one, is never 0, so this asks nothing"
    if re.search(r"\bwait_for_name \"\$(?!JOBC_HEAD_ADDR\b|\d)", line):
        yield "another name than that of node 0 is waited for"
    if found := re.search(r"\$\{?(procs|gpus|attempt|rank)\}? (nodes|hosts|pods)\b", line):
        yield f"${found[1]} is no number of {found[2]}"
    if re.search(r"\bsed (-E )?'[^']*/p'", line):
        yield "sed prints each line as well, and those that it changes twice; -n prints these alone"
    if re.search(r"\bmkdir (?!-)(-- )?\"?\$\{?run\}?/\w+/|\bmkdir -- \"?\$\{?run\}?/\w+/", line):
        yield "mkdir makes a folder below one that may not be there; -p makes both"
    if re.search(r"\$\((squeue|sinfo|sacct)\b(?=[^'|]* --format=)(?![^'|]* --noheader)", line):
        yield "without --noheader the names of the columns are a line of the answer"
    if re.search(r"\bfind (?:[^|;)]*[^|;)\w-])?(?<!name )'[^' ]*\*[^' ]*'", line):
        yield "find takes a pattern behind -name; by itself it is a folder to look in"
    if re.search(r"(?:^|[|(]) *wc(?! -)\b", line):
        yield "wc prints three numbers; -l is the number of lines"
    taken = [int(number) for number in re.findall(r"\$\{?([1-9])\b", line)]
    rest = [int(number) for number in re.findall(r"\"\$\{@:(\d)\}\"", line)]
    if taken and rest and max(rest) > max(taken) + 1:
        yield f"${max(taken) + 1} is lost between ${max(taken)} and the words from ${max(rest)}"
    for found in re.finditer(r"\[\[ (.*?) \]\]", line):
        asked = re.split(r" && | \|\| ", found[1])
        if len({*asked}) < len(asked):
            yield "a condition is asked twice, and another one is not"
    if re.search(r"\(\(.*\b(code|status) != [1-9]", line):
        yield "0 and most failures are taken alike: all is well with 0 alone"
