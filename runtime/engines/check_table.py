"""Merge all nodes' results from node_checks.py into one table, with failed checks first and equal results in one row.

Usage: jobctl check_table NODE…
         NODE: the nodes' names as on stdin, in rank order. The table shows them unless a node reports another name.
In:    lines `NODE: RECORD` on stdin, with records from node_checks.py. Other lines come from a client or a node.
Out:   the table. The exit code is 1 if a check failed or a node's output is incomplete.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable

from ..system.text import printable

MOST_NODES_WIDTH = 60  # maximum length of a list of nodes; the rest is printed as a count
NOT_REACHED = re.compile("Could not resolve|not known|No route to host|timed out|Connection refused")


class CheckRow:
    """Checks with the same result on several nodes. least: the lowest number and its node, if results have numbers"""

    def __init__(self, level: str, check: str, text: str, hint: str) -> None:
        self.level, self.check, self.text, self.hint = level, check, text, hint
        self.nodes: set[int] = set()
        self.least: tuple[float, int] | None = None
        self.differs = False


class NodeOutput:
    """Output of one node."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ended = False
        self.error = self.hint = ""
        self.lines: list[str] = []


class Table:
    """The rows of all nodes. Lines may be added in any order before lines() is called."""

    def __init__(self, nodes: Iterable[str]) -> None:
        names = [re.sub("^.*@", "", node) for node in nodes]
        self.outputs = [NodeOutput(name) for name in names]
        self.position = {name: node for node, name in enumerate(names)}
        self.rows: dict[tuple[str, ...], CheckRow] = {}
        self.same: dict[str, tuple[str, dict[int, str]]] = {}  # check -> first node's hint, each node's value

    def add(self, line: str) -> None:
        """Parse one line from stdin and add it to the table."""
        before, colon, text = line.partition(": ")
        node = self.position.get(re.sub("^.*@", "", before))
        if not colon or node is None:
            return  # a line that a client printed, or an empty one
        output = self.outputs[node]
        fields = [*text.split("\t"), "", "", "", ""]
        if fields[0] in ("ok", "FAIL"):
            self.add_check(node, fields[0], fields[1], fields[2], fields[3], fields[4])
        elif fields[0] == "same":
            self.same.setdefault(fields[1], (fields[3], {}))[1][node] = fields[2]
        elif fields[0] == "name":
            output.name = fields[1]
        elif text == "end":
            output.ended = True
        elif re.match("error: |FAIL  ", text):
            output.error = re.sub("^(error: |FAIL  )", "", text)
        elif re.match(" *hint: ", text):
            output.hint = re.sub("^ *hint: ", "", text)
        elif text and not output.error:
            output.lines.append(text)

    def add_check(self, node: int, level: str, check: str, text: str, hint: str = "", number: str = "") -> None:
        """Add a result to its row. Successful results with a number share one row, which contains the lowest number."""
        least = _float_or_none(number) if level == "ok" else None
        key = (level, check) if least is not None else (level, check, text)
        row = self.rows.setdefault(key, CheckRow(level, check, text, hint))
        row.nodes.add(node)
        if least is not None:
            row.differs = row.differs or text != row.text
            if row.least is None or least < row.least[0]:
                row.least, row.text = (least, node), text

    def report_deviating_nodes(self, check: str, hint: str, values: dict[int, str]) -> None:
        """Report nodes whose value differs from the most common one. In a tie, the first node's value wins."""
        if len(values) < 2:
            return
        values = dict(sorted(values.items()))
        counts = Counter(values.values())
        best = max(values.values(), key=lambda value: counts[value])
        majority = [node for node, value in values.items() if value == best]
        for node, value in values.items():
            if value != best:
                self.add_check(node, "FAIL", check, f"{value}, but {best} on {self.format_node_names(majority)}", hint)
            elif len(majority) == len(values):
                self.add_check(node, "ok", check, f"the same on all nodes: {best}")

    def format_node_names(self, nodes: Iterable[int]) -> str:
        return fold_node_names([self.outputs[node].name for node in sorted(nodes)])

    def lines(self) -> tuple[bool, list[str]]:
        """Return whether all checks passed, and the table's lines."""
        for node, output in enumerate(self.outputs):
            if not output.ended:
                why = ": ".join(filter(None, ("no answer", output.error or "; ".join(output.lines))))
                self.add_check(node, "FAIL", "answer", why, output.hint or _unreachable_host_hint(why, output.name))
        for check, (hint, values) in self.same.items():
            self.report_deviating_nodes(check, hint, values)
        checks = list(dict.fromkeys(row.check for row in self.rows.values()))
        rows = sorted(
            self.rows.values(), key=lambda row: (row.level == "ok", row.check != "answer", checks.index(row.check))
        )
        node_names = [self.format_node_names(row.nodes) for row in rows]
        width = max(map(len, node_names), default=0)
        printed = []
        for index, row in enumerate(rows):
            text = row.text
            if row.least is not None and row.differs:
                text += f", the minimum is on {self.outputs[row.least[1]].name}"
            prefix = f"{node_names[index]:<{width}}  " if len(self.outputs) > 1 else ""
            printed.append(f"{row.level:<4}  {prefix}{text}")
            if row.level == "FAIL" and row.hint:
                printed.append(f"      hint: {row.hint}")
        failed = sum(row.level == "FAIL" for row in rows)
        nodes = len(self.outputs)
        if failed:
            printed.append(f"not ready: {failed} of {len(rows)} checks failed")
        else:
            printed.append(f"ready: {nodes} node{'s' if nodes > 1 else ''}")
        return not failed, printed

    def print(self) -> int:
        """Print the table. Return 0 if all checks passed, else 1."""
        good, lines = self.lines()
        sys.stdout.buffer.write("".join(f"{line}\n" for line in lines).encode())
        sys.stdout.flush()
        return 0 if good else 1


def fold_node_names(names: Iterable[str]) -> str:
    """Return the names folded as in node[1-3,7],login; after 60 characters, the rest is printed as a count."""
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}  # text before and after the number -> ranges
    for name in names:
        match = re.fullmatch("(.*?)([0-9]+)([^0-9]*)", name)
        before, number, after = match.groups() if match else (name, "", "")
        ranges = groups.setdefault((before, after), [])
        if ranges and number and _continues_range(number, ranges[-1][1]):
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    printed = ""
    for count, ((before, after), ranges) in enumerate(groups.items()):
        numbers = ",".join(first if first == last else f"{first}-{last}" for first, last in ranges)
        text = f"{before}[{numbers}]{after}" if re.search("[-,]", numbers) else f"{before}{numbers}{after}"
        if printed and len(printed) + len(text) > MOST_NODES_WIDTH:
            return f"{printed} and {len(groups) - count} more"
        printed += f"{',' if printed else ''}{text}"
    return printed


def _continues_range(number: str, last: str) -> bool:
    """Return whether `number` continues a range ending in `last`: 10 follows 9 and 09, but 010 does not follow 9."""
    if not last or len(number) > 18 or len(last) > 18 or int(number) != int(last) + 1:
        return False
    return len(number) == len(last) + (last.strip("9") == "")


def _float_or_none(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _unreachable_host_hint(text: str, name: str) -> str:
    """Return a hint for an unreachable host, based on ssh's output."""
    denied = re.search("[^ :]+@[^ :]+(?=: Permission denied)", text)
    if "Permission denied" in text:
        return f"that host does not have your ssh key: ssh-copy-id {denied.group() if denied else name}"
    if "Host key verification failed" in text:
        return f"verify the host, then: ssh-keyscan {name} >> ~/.ssh/known_hosts"
    if NOT_REACHED.search(text):
        return "check that the host is up and that its name is right, or remove the host from hosts"
    return f"try: ssh {name} true"


def main(argv: list[str]) -> int:
    table = Table(argv)
    for line in sys.stdin.buffer:
        table.add(printable(line.decode(errors="replace")).rstrip("\n"))
    return table.print()
