"""Read sky's output: the rows of its JSON tables, and a job's output without colors. Packed into jobctl."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

from ....runtime.exit_codes import CRASHED, PRIORITY
from ....runtime.run_folder.run import worst_code
from ....runtime.system.text import one_line, printable

_COLORS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_NODE = re.compile(r"^\((?:head|worker[0-9]+), rank=([0-9]+), pid=[0-9]+(?:, ip=[^)]*)?\) ")
_TASK = re.compile(r"^\([^()]*, pid=[0-9]+\) ")
_LAST_WORD = re.compile(r"([0-9]+): jobc: node [0-9]+ exited with ([0-9]{1,3}):")
_OF_NODE = re.compile(rb"[0-9]+: ")
_ESTIMATE = re.compile(" *[A-Za-z(].*[0-9]")
_JOB_ID = re.compile(r"(?:Job submitted, ID: |Managed Job ID: |Job ID: )([0-9]{1,18})")


def last_json(text: str) -> Any:
    """Return the JSON that sky prints after its log lines, or None if there is none."""
    for match in re.finditer(r"^[\[{]", text, re.MULTILINE):
        with contextlib.suppress(ValueError, RecursionError):
            return json.JSONDecoder().raw_decode(text, match.start())[0]
    return None


def status_rows(table: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows (mappings with a status) in sky's output, which is a list or a mapping of lists."""
    if isinstance(table, dict):
        for value in table.values():
            yield from status_rows(value)
        if "status" in table:
            yield table
    elif isinstance(table, list):
        for value in table:
            yield from status_rows(value)


def parse_job_id(text: str) -> int | None:
    """Return the job ID from the output of `sky launch`, or None if there is none."""
    found = _JOB_ID.findall(_COLORS.sub("", text))
    return int(found[-1]) if found else None


def strip_colors(line: str) -> str:
    """Return a line without colors, with the node rank instead of SkyPilot's prefix."""
    return _TASK.sub("0: ", _NODE.sub(r"\1: ", _COLORS.sub("", line), 1), 1)


def strip_colors_from_bytes(prefix: str | None, line: bytes) -> bytes | None:
    """Return the result of strip_colors() if it begins with the prefix, else None."""
    text = strip_colors(line.decode(errors="surrogateescape"))
    return text.encode(errors="surrogateescape") if text.startswith(prefix or "") else None


def node_check_line(line: bytes) -> bytes | None:
    """Return the result of strip_colors() if a check printed the line on a node, else None."""
    text = strip_colors_from_bytes(None, line) or b""
    return text if _OF_NODE.match(text) and not _LAST_WORD.match(text.decode(errors="replace")) else None


def join_last_lines(text: str) -> str:
    """Return the last three lines of sky's output as one line, for an error message."""
    return one_line(_COLORS.sub("", " ".join(text.rstrip("\n").split("\n")[-3:])))


def cost_estimate_lines(text: str) -> list[str]:
    """Return the lines in which `sky launch --dryrun` describes the machines and their cost."""
    return [printable(line) for line in _COLORS.sub("", text).split("\n") if _ESTIMATE.match(line)]


def worst_output_code(lines: list[str]) -> int | None:
    """Return the job's exit code, read from its nodes' last lines, or None if no node reports a failure."""
    last = {match.group(1): int(match.group(2)) for match in map(_LAST_WORD.match, lines) if match}
    return worst_code([code for code in last.values() if code in PRIORITY and code])  # without 143: killed by SkyPilot


def first_failure_reason(lines: list[str], code: int) -> str:
    """Return the reason printed by the first node that exited with the job's code in the newest attempt.

    The failed rank's own node ("rank 1 failed first") is preferred to other nodes ("node 1 failed first").
    """
    reasons: list[str] = []
    for line in lines:
        if re.search("jobc: run .*, attempt [0-9]+, job ", line):
            reasons = []
        reasons += re.findall("jobc: (.*failed first.*)", line)
    start = f"{code}[):]|status " if code == CRASHED else f"{code}[):]"
    exact = [reason for reason in reasons if re.search(f"[(]exit ({start})", reason)]
    by_ranks_node = [reason for reason in exact if reason.startswith("rank ")]
    return next(iter(by_ranks_node + exact + reasons), "")
