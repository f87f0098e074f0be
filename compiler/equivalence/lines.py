"""What is wrong with a line of bash by itself, whatever the plan says.

In   one line of an emitted script
Out  what is wrong, in words: a message that names another thing than the command does, a filter that prints what it
     should not, a folder below folders that may not be there, words of a caller that are lost
"""

from __future__ import annotations

import re
from collections.abc import Iterator

NAMES = re.compile(r"\$\{?([A-Za-z_]\w*)")

# What a line must not have, and what that means; {} is the first group of the pattern.
MISTAKES = {
    # conditions whose answer is always the same, or that say more than they should
    r"\[\[ (?:.* )?-[nz] \"?\$\{?(artifact|rt|nodes|procs)\b": "${} is never empty, so this asks nothing",
    r"\(\((?:[^()]* )?(JOBC_NODES|nodes|procs|JOBC_PROCS) (?:== 0|!= 0|> 0)\b": "{} is never 0, so this asks nothing",
    r"\bnodes > 2 && (?:gpus == 1|JOBC_HEAD_PORT == 0)|\(\(nodes (?:> 2|== 2)\)\)": "2 nodes are several as well",
    r"\[\[ ! -[ef] [^\]]*/STOP \]\] \|\| exit [1-9]": "who was stopped for good ends with 0",
    r"^\s*(?:local .*)?\bcode=[1-9]\s*$": "it begins as a failure, whatever it does",
    r"\(\(.*\b(?:code|status) != [1-9]": "0 and most failures are taken alike: all is well with 0 alone",
    r"\b(?:if|elif) (?:! )?grep (?!-\w*q|--quiet|--silent)(?!(?:\"[^\"]*\"|'[^']*'|[^;|&\"'])*(?:&|(?<!2))>)": (
        "grep in a condition prints what it finds; -q does not"
    ),
    r"^\s*([^|&;]+?)(?: 2>/dev/null)? (?:\|\||&&) \1\s*$": "a command stands for itself, should it fail",
    # words about another thing
    r"\brun \$\(basename -- \"\$own_run\"\)|basename -- \"\$\{?(?:artifact|project|here)\}?\"": (
        "a run is named by another folder than its own"
    ),
    r"\brm -rf? -- \"\$\{?(artifact|project|here|HOME|runs)\}?\"": "${} is more than what a run leaves behind",
    r"/node\.sh\"? \"\$\{?(attempt|payload|procs|nodes|gpus|run)\}?\"": "node.sh gets ${} for the number of its node",
    r"\$\{?(procs|gpus|attempt|rank)\}? (?:nodes|hosts|pods)\b": "${} is a number of something else",
    r"\brank \$\{?(attempt|nodes|procs|gpus)\b": "${} is the number of no rank",
    r"\bnode=\$\(\((?:10#)?\$?(attempt|nodes|procs|gpus)\b": "the node of a rank is counted from {}",
    r"--nnodes=\"?\$\{?(?!nodes\b)(\w+)": "--nnodes gets ${}, and not the number of nodes",
    r"--master.addr=\"?\$\{?(?!JOBC_HEAD_ADDR\b)(\w+)": "the ranks meet at ${}, and not at node 0",
    r"\bhead=\$\(head -n (?!1\b)(\d+)": "{} hosts are no address of node 0",
    r"\bnodes=\$\{?(procs|gpus|attempt|rank)\b": "the number of nodes is said to be ${}",
    r"\bJOBC_RUN_DIR=\"?\$\{?(artifact|project|here)\b": "the folder of the run is said to be ${}",
    r"/job\.sbatch\" \"\$\{?(artifact|project|here|attempt)\b": "job.sbatch gets ${} for the folder of the run",
    r"\(\(procs > gpus\)\); then gpus=[1-9]\d*; fi # then": "ranks that are more than the GPUs can have none of them",
    r"\bcode=\$\{JOBC_RUN_DIR:-\$\{?(artifact|project)\b": "without code ranks start in ${}, not in the run folder",
    r"\bwait_for_name \"\$(?!JOBC_HEAD_ADDR\b|\d)": "another name than that of node 0 is waited for",
    # commands without the option that makes them fit
    r"\btry \"[^\"]*\" mkdir (?!-\w*p)": "mkdir fails where the folder is already; -p does not",
    r"\bmkdir (?:-- )?\"?\$\{\w+%/\*\}": "mkdir fails where the folder above a file is already; -p does not",
    r"\bmkdir (?:-- )?\"?\$\{?run\}?/\w+/": "mkdir makes a folder below one that may not be there; -p makes both",
    r"\bsed (?:-E )?'[^']*/p'": "sed prints each line as well, and those that it changes twice; -n prints these alone",
    r"\$\((?:squeue|sinfo|sacct)\b(?=[^'|]* --format=)(?![^'|]* --noheader)": (
        "without --noheader the names of the columns are a line of the answer"
    ),
    r"\bfind (?:(?!-exec)[^|;&()]|\$\([^()]*\))*(?<= )(?<!name |path )(?<!regex )'[^' ]*\*[^' ]*'": (
        "find takes a pattern behind -name; by itself it is a folder to look in"
    ),
    r"\bcut ['\"]": "cut takes a separator behind -d; by itself it is a file to read",
    r"(?:^|[|;(&]) *(head|tail) \+?\d+(?![\d>])": "{} takes a number behind -n; by itself it is a file to read",
    r"</dev/null \| sed \"s/\^/": "sed holds back the lines of what still runs; -u does not",
    r"\bkubectl \$\{context:\+[^}]*\}(?! (?:--namespace[= ]|-n |get nodes))": (
        "kubectl without --namespace asks in that of whoever calls it"
    ),
    r"\becho \"command=submit\.sh (?!--resume\b)": "submit.sh without --resume begins a new run",
    r"\$\{\w+//?\$\\\\?n/": "$\\n is no end of a line; $'\\n' is",
    r"\bawk \w+=": "awk takes a variable behind -v; before that its first word is the program",
    r"\btr '[^']*'\)": "tr takes two sets of signs, and one alone with -d or -s",
    r"\bmapfile (?:addresses|flags|hosts|list|names|ranks)\b": "without -t each line keeps its end",
    r"\bgrep (?!-\w*[EPF])(?:-\w+ )*'[^']*\][+?]": "without -E a + is a sign like others to grep",
    r"\bgrep (?:-\w*[A-Zabceg-z] )*<\(": "grep takes a file of patterns behind -f; by itself it is a file to read",
    r"\(\(\$\(grep (?!-\w*c)[^|()]*\)": "grep prints the lines that it finds; -c is their number",
    r"\bbash '[^']* ": "bash takes a command behind -c; by itself it is the name of a file",
    r"\bumask (?![0-7]{1,4}\b)\d": "umask takes digits from 0 to 7",
    r"\brm (?!-\w*r)(?:-\S+ )*\"\$\{?folder\b": "rm removes no folder; -r does",
    r"\bprintf (?!-v|--)(?![\"'$])[^%\s]*:(?: |$)": "printf prints its first word alone, for that has no %",
    r"\bk get (?:jobs|pods) (?:\\$|--sort-by)(?!.*(?:--selector| -l\b))": (
        "kubectl get without --selector lists those of every job"
    ),
    r"\bk delete (?:\"\$(?:kind|companions)\"|pod \"\$own_object-shell\")(?!.*(?:--ignore-not-found|\|\|))": (
        "kubectl delete fails where nothing is left to delete"
    ),
    r"\bk logs (?!.*--follow).*--prefix.*\| sed -u\b": "kubectl logs without --follow ends with what is there",
    r"\bgrep -m (?!1\b)(\d+) -E (?:'\^jobc: \.\*\(failed|\$'\^\(Failed)": "{} lines where one is meant",
    r"\bprint (?:found \+ 0, )?(found|pending) \+ [1-9]": "{} is counted from 0",
    r"\(\$\d \+ [1-9]\d* == wanted": "a number is compared with the one after it",
    r"\btrap 'exit (?!129\b)\d+' HUP TERM # the run goes on": "a shell that was hung up on ends with 129",
    r"\bcommand module >/dev/null \|\| \.": "command runs it; -v asks whether it is there",
    r"(?:^|[|(]) *wc(?! -)\b": "wc prints three numbers; -l is the number of lines",
}
COMPILED = [(re.compile(pattern), words) for pattern, words in MISTAKES.items()]


def mistakes_in_line(line: str) -> Iterator[str]:
    for pattern, words in COMPILED:
        if found := pattern.search(line):
            yield words.format(*found.groups())
    yield from _messages_about_something_else(line)
    yield from _lost_words(line)
    for condition in re.findall(r"\[\[ (.*?) \]\]", line):
        asked = re.split(r" && | \|\| ", condition)
        if len({*asked}) < len(asked):
            yield "a condition is asked twice, and another one is not"


def _messages_about_something_else(line: str) -> Iterator[str]:
    if found := re.match(r"\s*try \"([^\"]*)\" (.*)", line):
        for name in NAMES.findall(found[1]):
            if name not in NAMES.findall(found[2]):
                yield f"try tells of ${name}, and the command has nothing to do with it"
    if found := re.match(r"\s*if \(\((\w+) != (\w+)\)\); then die \d+ \"([^\"]*)\"", line):
        for name in sorted({found[1], found[2]} - set(NAMES.findall(found[3]))):
            yield f"{name} is compared, and what is told of it is another thing"


def _lost_words(line: str) -> Iterator[str]:
    """Of a function that takes $1 … $N by name, and hands on the rest."""
    taken = [int(number) for number in re.findall(r"\$\{?([1-9])\b", line)]
    rest = [int(number) for number in re.findall(r"\"\$\{@:(\d)\}\"", line)]
    if taken and rest and max(rest) > max(taken) + 1:
        yield f"${max(taken) + 1} is lost between ${max(taken)} and the words from ${max(rest)}"
